# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Huawei's plugin for Volcano does when a fault hits an instance, as its documents and its source say: nobody watched it here.

All pods of a job whose label ``fault-scheduling`` is ``force`` or ``grace`` are deleted when one of them is on a node that is not ready, or has
failed while ``fault-retry-times`` leaves another start; how many are left is in a ConfigMap that the Ascend Operator reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from ..kube_client import CONFIG_MAPS, KubeClient, KubeError, Obj, Resource, key_of
from . import session
from .session import Group

NAMESPACE, NAME, KEY = "volcano-system", "vcjob-fault-npu-cm", "remain-retry-times"
_NAMESPACES = Resource("v1", "Namespace", "namespaces", namespaced=False)


def retries_of(group: Group) -> int:
    """How many software faults a job survives by its label."""
    text = (group.obj["metadata"].get("labels") or {}).get("fault-retry-times", "")
    return int(text) if text.isdigit() else 0


def forced(group: Group) -> bool:
    """Whether pods go without time to stop."""
    return (group.obj["metadata"].get("labels") or {}).get("fault-scheduling") == "force"


def hit(group: Group, nodes: Mapping[str, Obj], left: int) -> bool:
    """Whether all pods of a job have to go."""
    labels = group.obj["metadata"].get("labels") or {}
    if labels.get("fault-scheduling") not in ("force", "grace") or session.phase_of(group.obj) not in (session.RUNNING, session.UNKNOWN):
        return False
    lost = any(not _ready(nodes.get(pod["spec"].get("nodeName", ""))) for pod in group.pods if pod["spec"].get("nodeName"))
    return lost or (left > 0 and any(session.phase_of(pod) == "Failed" for pod in group.pods))


def _ready(node: Obj | None) -> bool:
    conditions = ((node or {}).get("status") or {}).get("conditions") or ()
    return any(row["type"] == "Ready" and row["status"] == "True" for row in conditions)


class Budgets:
    """The starts that are left to each job that may lose some, kept where the Ascend Operator looks."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._left: dict[str, tuple[str, int]] = {}

    def left(self, group: Group) -> int:
        """How many starts are left."""
        return self._left.get("/".join(key_of(group.obj)), ("", 0))[1]

    def update(self, groups: Iterable[Group], failed: Iterable[Group] = ()) -> None:
        """Add jobs that are seen for the first time, and count those that failed."""
        before = dict(self._left)
        for group in groups:
            if retries_of(group):
                self._left.setdefault("/".join(key_of(group.obj)), (group.obj["metadata"]["uid"], retries_of(group)))
        for group in failed:
            key = "/".join(key_of(group.obj))
            uid, count = self._left.get(key, ("", 0))
            self._left[key] = uid, max(0, count - 1)
        if self._left != before:
            self._write()

    def _write(self) -> None:
        rows = {key: {"UUID": uid, "Times": count} for key, (uid, count) in self._left.items()}
        body = {"metadata": {"name": NAME, "namespace": NAMESPACE}, "data": {KEY: json.dumps(rows)}}
        for resource, wanted in ((_NAMESPACES, {"metadata": {"name": NAMESPACE}}), (CONFIG_MAPS, body)):
            try:
                self._client.create(resource, wanted)
            except KubeError as error:
                if error.status != 409:
                    raise
        self._client.patch(CONFIG_MAPS, NAMESPACE, NAME, {"data": body["data"]})
