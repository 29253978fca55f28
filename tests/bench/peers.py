# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same work done by ours and by kubernetes.core: 1 -> 16 prefill instances and back.

Peers create and delete the very Deployments that ours made, or change the same field of the InferServiceSet. They only send the
objects: they observe nothing else, take no lock and keep no record. With `wait` all return when the instances are ready, or when
their pods are gone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.cluster import Cluster

from .measure import Run, Runner

EXAMPLES = Path(__file__).parents[2] / "examples"
FEW, MANY = 1, 16
WAIT_TIMEOUT = 120
MODES = {"deployments": "multi_deployment", "infer_service_set": "infer_service_set"}
_SERVER_SIDE = ("deployment.kubernetes.io/revision",)
_TASKS = {"list": "One k8s task with a list", "loop": "A loop of k8s tasks", "patch": "One patch"}


class Service:
    """One service in a namespace of its own, with 1 prefill and 1 decode instance between measurements."""

    def __init__(self, cluster: Cluster, runner: Runner, backend: str) -> None:
        self._cluster, self._runner = cluster, runner
        self.backend = backend
        self.namespace = f"bench-{backend.replace('_', '-')}"
        self._deployments: list[dict[str, Any]] = []
        self._role = 0
        self.peers = ("list", "loop") if backend == "deployments" else ("patch",)

    def deploy(self) -> None:
        """Create the service, and learn from one scale-out of ours what the peers have to create."""
        folder = EXAMPLES / "configs" / MODES[self.backend]
        config = json.loads((folder / "user_config.json").read_text())
        config["motor_deploy_config"].update(job_id=self.namespace, p_instances_num=FEW, d_instances_num=1)
        options = {"user_config_content": config, "env": str(folder / "env.json"), "release": str(EXAMPLES / "release-2026-05")}
        self._runner.module("motor_service", {**options, "node_ports": "auto", "create_namespace": True, "wait_timeout": WAIT_TIMEOUT})
        before = self._workloads()
        self.ours_alone(MANY, wait=True)
        if self.backend == "deployments":
            made = self._workloads()
            self._deployments = [_as_written(made[name]) for name in sorted(made.keys() - before.keys())]
            if len(self._deployments) != MANY - FEW:
                raise SystemExit(f"expected {MANY - FEW} new Deployments, found {len(self._deployments)}")
        else:
            (live,) = self._cluster.get(self._path("mindcluster.huawei.com/v1", "inferservicesets"))["items"]
            self._role = [role["name"] for role in live["spec"]["template"]["roles"]].index("prefill")
        self.ours_alone(FEW, wait=True)
        self.settle()

    def ours(self, prefill: int, *, wait: bool) -> Run:
        """A playbook with one task of ours."""
        return self._runner.playbook({"ascend.mindie.motor_instance_scale": self._options(prefill, wait)})

    def ours_alone(self, prefill: int, *, wait: bool) -> Run:
        """Our module without Ansible in front of it."""
        return self._runner.module("motor_instance_scale", self._options(prefill, wait))

    def peer(self, who: str, prefill: int, *, wait: bool) -> Run:
        """A playbook with a task of kubernetes.core that does the same."""
        task: dict[str, Any] = {"name": _TASKS[who]}
        if who == "patch":
            task["kubernetes.core.k8s_json_patch"] = self._patch(prefill, wait)
            return self._runner.playbook(task)
        task["kubernetes.core.k8s"] = {**_state(prefill, wait), "resource_definition": "{{ objects if listed else item }}"}
        if who == "loop":
            task |= {"loop": "{{ objects }}", "loop_control": {"label": "{{ item.metadata.name }}"}}
        return self._runner.playbook(task, {"objects": self._deployments, "listed": who == "list"})

    def settle(self) -> None:
        """Wait (without being measured) until what is there is ready and nothing is terminating any more."""
        deadline = time.monotonic() + WAIT_TIMEOUT
        while not self._settled():
            if time.monotonic() > deadline:
                raise SystemExit(f"{self.namespace} does not come to rest")
            time.sleep(0.1)

    def _settled(self) -> bool:
        pods = self._cluster.get(self._path("v1", "pods"))["items"]
        wanted = sum(item["spec"]["replicas"] for item in self._workloads().values())
        return len(pods) == wanted and all(_ready(pod) for pod in pods)

    def _options(self, prefill: int, wait: bool) -> dict[str, Any]:
        instances = {"prefill": prefill, "decode": 1}
        return {"namespace": self.namespace, "instances": instances, "wait": wait, "wait_timeout": WAIT_TIMEOUT}

    def _patch(self, prefill: int, wait: bool) -> dict[str, Any]:
        operation = {"op": "replace", "path": f"/spec/template/roles/{self._role}/replicas", "value": prefill}
        options = {"api_version": "mindcluster.huawei.com/v1", "kind": "InferServiceSet", "name": "vllm", "namespace": self.namespace}
        return {**options, "patch": [operation]}

    def _workloads(self) -> dict[str, dict[str, Any]]:
        found = {}
        for kind in ("deployments", "statefulsets"):
            items = self._cluster.get(self._path("apps/v1", kind))["items"]
            found.update({item["metadata"]["name"]: item for item in items})
        return found

    def _path(self, api: str, kind: str) -> str:
        return f"/{'apis' if '/' in api else 'api'}/{api}/namespaces/{self.namespace}/{kind}"


def _state(prefill: int, wait: bool) -> dict[str, Any]:
    """Options of kubernetes.core.k8s that create or delete, and wait for what ours waits for, as often as it can look."""
    waiting = {"wait": wait, "wait_timeout": WAIT_TIMEOUT, "wait_sleep": 1}
    if prefill == MANY:
        return {"state": "present", **waiting}
    # A Deployment that is deleted in the foreground stays until its pods are gone.
    foreground = {"delete_options": {"propagationPolicy": "Foreground"}} if wait else {}
    return {"state": "absent", **waiting, **foreground}


def _as_written(live: Mapping[str, Any]) -> dict[str, Any]:
    """A Deployment as a user would have written it, without what the server adds to its metadata."""
    metadata = live["metadata"]
    annotations = {key: value for key, value in metadata.get("annotations", {}).items() if key not in _SERVER_SIDE}
    kept = {"name": metadata["name"], "namespace": metadata["namespace"], "labels": metadata.get("labels", {}), "annotations": annotations}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": kept, "spec": live["spec"]}


def _ready(pod: Mapping[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return "deletionTimestamp" not in pod["metadata"] and any(row["type"] == "Ready" and row["status"] == "True" for row in conditions)
