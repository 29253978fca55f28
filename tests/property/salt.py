# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes of the bare objects of a small world such as an API server shows: with times, statuses, what is wrong, and what nobody reads."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot
from tests.property.world import NPU, Obj

RULE_TEXTS = (
    "{ # no JSON",
    '{"elastic_scaling_list": []}',
    '{"elastic_scaling_list": [{"group_list": [{"group_name": "group0", "group_num": "9", "server_num_per_group": "1"}]}]}',
)
STATES = ("True", "True", "True", "False", "Unknown")


def salted(snapshot: Snapshot, seed: int) -> Snapshot:
    """The same service with all that a cluster adds, chosen by `seed`."""
    salt = _Salt(random.Random(seed))
    bare_lease = {"kind": "Lease", "metadata": {"name": "ascend-mindie", "namespace": snapshot.namespace}}
    return replace(
        snapshot,
        config_map=salt.each(snapshot.config_map, salt.config_map),
        lease=salt.each(snapshot.lease or bare_lease, salt.lease),
        deployments=tuple(salt.each(item, salt.deployment) for item in snapshot.deployments),
        pods=tuple(salt.each(item, salt.pod) for item in snapshot.pods),
        autoscalers=tuple(salt.each(item, salt.autoscaler) for item in snapshot.autoscalers),
        infer_service_set=salt.each(snapshot.infer_service_set, salt.infer_service_set),
        jobs=tuple(salt.each(item, salt.job) for item in snapshot.jobs),
        pod_groups=tuple(salt.each(item, salt.pod_group) for item in snapshot.pod_groups),
        rule=salt.each(snapshot.rule, salt.rule),
        nodes={"node-1": salt.node("node-1"), "gone": None},
    )


class _Salt:
    """Changes copies of objects at random."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def each(self, obj: Any, change: Callable[[Obj], None]) -> Any:
        if obj is None:
            return None
        found = copy.deepcopy(dict(obj))
        found["metadata"]["creationTimestamp"] = self._time()
        found["metadata"].setdefault("annotations", {})["nobody/reads-this"] = "x" * 40
        found["metadata"]["managedFields"] = [{"manager": "kubectl", "time": self._time(), "fieldsV1": {"f:metadata": {}}}]
        found["nobody"] = {"reads": "this"}
        change(found)
        return found

    def _often(self, percent: int) -> bool:
        return self._chance.randrange(100) < percent

    def _time(self) -> str:
        return f"2026-11-30T{self._chance.randrange(24):02}:{self._chance.randrange(60):02}:00Z"

    def rule(self, obj: Obj) -> None:
        obj["metadata"]["managedFields"].append(
            {"manager": "me", "time": self._time(), "fieldsV1": {"f:data": {"f:elastic_scaling.json": {}}}}
        )
        if self._often(25):
            obj["data"] = {"elastic_scaling.json": self._chance.choice(RULE_TEXTS), "more": "y"}
        elif self._often(5):
            obj["data"] = {"elastic-scaling.json": "{}"}

    def config_map(self, obj: Obj) -> None:
        if self._often(20):
            obj["metadata"]["annotations"]["ascend.mindie/hold"] = "by hand"
        if self._often(10):
            obj["data"]["boot.sh"] = "edited"

    def lease(self, obj: Obj) -> None:
        obj.setdefault("spec", {}).update({"acquireTime": self._time(), "holderIdentity": self._chance.choice(("", "somebody"))})

        if self._often(10):
            intent = {"verb": "scale", "from": {"prefill": 1}, "to": {"prefill": 2}, "run": "open"}
            obj["metadata"]["annotations"]["ascend.mindie/intent"] = json.dumps(intent)

    def deployment(self, obj: Obj) -> None:
        said = {"reason": "FailedCreate", "message": "exceeded quota", "lastUpdateTime": self._time()}
        obj["status"] = {"conditions": [{"type": "ReplicaFailure", "status": self._chance.choice(STATES), **said}], "replicas": 1}

    def autoscaler(self, obj: Obj) -> None:
        if self._often(30):
            obj["spec"]["scaleTargetRef"]["apiVersion"] = "other.example/v1"

    def infer_service_set(self, obj: Obj) -> None:
        for role in obj["spec"]["template"]["roles"]:
            if self._often(20):
                role["scalingPolicy"] = {"type": "HPA", "spec": {"maxReplicas": 3}}

    def job(self, obj: Obj) -> None:
        rows = [{"type": "Running", "status": "True", "message": "of the past", "lastTransitionTime": self._time()}]
        if self._often(10):
            said = {"reason": "JobFailed", "lastTransitionTime": self._time(), **({"message": "a pod failed"} if self._often(50) else {})}
            rows.append({"type": "Failed", "status": self._chance.choice(STATES), **said})
        obj["status"] = {"conditions": rows, "replicaStatuses": {"Master": {"active": 1}}}
        if self._often(10):
            obj["spec"]["replicaSpecs"]["Master"]["replicas"] = 2
        if self._often(20):
            obj["spec"].setdefault("runPolicy", {})["backoffLimit"] = 3
        if self._often(10):
            obj["metadata"]["labels"]["mind-cluster/group-name"] = "other"
        if self._often(10):
            obj["metadata"]["annotations"]["sp-block"] = "16"

    def pod_group(self, obj: Obj) -> None:
        obj.setdefault("spec", {})["minResources"] = {NPU: "8", "cpu": "4"}
        if self._often(30):
            phase = self._chance.choice(("", "Pending", "Inqueue", "Running", "Unknown"))
            obj["status"] = {"phase": phase, "conditions": [{"type": "Unschedulable", "status": "True"}]}
        if self._often(5):
            obj["metadata"]["labels"].pop("mind-cluster/group-name", None)

    def pod(self, obj: Obj) -> None:
        if obj["metadata"].get("deletionTimestamp"):
            obj["metadata"]["deletionGracePeriodSeconds"] = 30
        status = obj.setdefault("status", {})
        status.update(startTime=self._time(), podIP="10.0.0.1")
        for row in status.get("conditions") or ():
            row.update(lastTransitionTime=self._time(), lastProbeTime=None)
            if row["type"] == "PodScheduled":
                row["reason"] = self._chance.choice(("Unschedulable", "Schedulable", "SchedulingGated"))
        if self._often(10):
            status["phase"] = "Failed"
            status.pop("reason", None)
        if self._often(5):
            obj["spec"]["containers"][0]["image"] = "registry.example/other:1"
        if self._often(30):
            status["containerStatuses" if self._often(80) else "initContainerStatuses"] = [self._container()]
        labels = obj["metadata"].get("labels") or {}
        if labels.get("app") == "mindie-ms-controller":
            obj["spec"]["volumes"] = [{"name": "rule", "configMap": {"name": "scaling-rule", "defaultMode": 420}}]
            where = {"mountPath": "/rule.json", self._chance.choice(("subPath", "subPathExpr", "readOnly")): "rule.json"}
            obj["spec"]["containers"][0]["volumeMounts"] = [{"name": "rule", **where}]

    def _container(self) -> Obj:
        reason = self._chance.choice(("ImagePullBackOff", "CrashLoopBackOff", "ContainerCreating"))
        ended = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": self._time()}
        state = self._chance.choice(({"waiting": {"reason": reason, "message": "said"}}, {"running": {}}, {"terminated": ended}))
        restarts = self._chance.randrange(6)
        return {"name": "a", "image": "b", "restartCount": restarts, "state": state, "lastState": {"terminated": ended} if restarts else {}}

    def node(self, name: str) -> Obj:
        """The one node of the world."""
        conditions = [
            {"type": "MemoryPressure", "status": "False", "lastTransitionTime": self._time()},
            {"type": "Ready", "status": self._chance.choice(STATES), "lastTransitionTime": self._time(), "lastHeartbeatTime": self._time()},
        ]
        npus = self._chance.choice((16, 200))
        capacity, healthy = {NPU: str(npus), "cpu": "8"}, {NPU: str(npus - self._chance.choice((0, 0, 4))), "cpu": "8"}
        status = {"capacity": capacity, "allocatable": healthy, "conditions": conditions}
        metadata = {"name": name, "labels": {"huawei.com/topotree.superpodid": "1"}, "annotations": {"superPodID": "3"}}
        return {"kind": "Node", "metadata": metadata, "spec": {"unschedulable": True} if self._often(20) else {}, "status": status}
