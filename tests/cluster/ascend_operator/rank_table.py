# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rank table of an instance: the ConfigMap ``rings-config-<job>``, which the user creates before the job.

The real one is ``completed`` only once all pods carry the annotation ``ascend.kubectl.kubernetes.io/ascend-910-configuration`` and names the
NPUs that are in it. Ascend's device plugin writes that; there is none here, so pods that have an address are enough.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..gang_scheduler.resources import NPU
from ..kube_client import CONFIG_MAPS, NODES, KubeClient, Obj
from . import objects

PREFIX = "rings-config-"
KEY = "hccl.json"


class RankTables:
    """Fills those that were there when their job was first looked at. That one is missing is remembered for good."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._written: dict[str, str] = {}
        self._absent: set[str] = set()

    def fill(self, job: Obj, pods: Mapping[tuple[str, str], Obj], version: int) -> None:
        """Bring a rank table in line with the pods."""
        uid, namespace = job["metadata"]["uid"], job["metadata"]["namespace"]
        if uid in self._absent:
            return
        name = PREFIX + job["metadata"]["name"]
        if uid not in self._written:
            found = self._client.get(CONFIG_MAPS, namespace, name)
            if found is None:
                self._absent.add(uid)
                return
            self._written[uid] = (found.get("data") or {}).get(KEY, "")
        complete = len(pods) == len(objects.replicas(job)) and all((pod.get("status") or {}).get("podIP") for pod in pods.values())
        text = json.dumps(self._table(pods) if complete else {"status": "initializing"})
        if text != self._written[uid]:
            self._client.patch(CONFIG_MAPS, namespace, name, {"data": {KEY: text, "version": str(version)}})
            self._written[uid] = text

    def _table(self, pods: Mapping[tuple[str, str], Obj]) -> Obj:
        order = sorted(pods.values(), key=lambda pod: int(pod["metadata"]["annotations"]["hccl/rankIndex"]))
        servers, rank = [], 0
        for pod in order:
            devices = self._devices(pod)
            server = {
                "server_id": pod["status"].get("hostIP", ""),
                "host_ip": pod["status"].get("hostIP", ""),
                "container_ip": pod["status"]["podIP"],
            }
            rows = [{**device, "rank_id": str(rank + number)} for number, device in enumerate(devices)]
            rank += len(rows)
            servers.append({**server, "device": rows})  # without hardware_type, which is left out where it is empty
        return {"status": "completed", "version": "1.0", "server_count": str(len(servers)), "server_list": servers}

    def _devices(self, pod: Obj) -> list[dict[str, Any]]:
        """As many of its node's NPUs as the pod has, from the first on (a device plugin would say which)."""
        wanted = sum(int((row.get("resources") or {}).get("requests", {}).get(NPU, 0)) for row in pod["spec"]["containers"])
        node = self._client.get(NODES, "", pod["spec"]["nodeName"]) or {"metadata": {}}
        known = json.loads((node["metadata"].get("annotations") or {}).get("baseDeviceInfos", "{}"))
        rows = [{"device_id": name.rpartition("-")[2], "device_ip": row.get("IP", "")} for name, row in known.items()]
        return rows[:wanted]
