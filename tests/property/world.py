# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small cluster over plain objects, to execute thousands of plans on.

What plans rely on is there: names are unique (409), deletion by uid, PUT by resourceVersion, JSON patches with tests (422),
foreground deletion; Deployments get pods a tick later, pods of what is gone are collected a tick later and need some ticks to
stop; AscendJobs get PodGroups and pods as their scaling rule allows (`ascend.py`); an InferServiceSet drives InstanceSets, their
workloads (made as the stand-in for the Infer Operator makes them, never changed) and pods, whose surplus indexes go in any order;
pods beyond the NPUs stay Pending.

Left out, as tests at the real API server are about it: requests in flight at once, watches, the lock, defaults and admission,
ReplicaSets and so rollouts of Deployments, NPUs of single nodes (there is one pool), gang scheduling and its flapping,
clocks (a tick is what happens between two looks), and everything an autoscaler does by itself.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from typing import Any

import jsonpatch

from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot
from tests.cluster.ascend_operator.objects import JOB_NAME, pod_group
from tests.cluster.infer_operator import objects as operator
from tests.property import ascend
from tests.property.ascend import JOB

Obj = dict[str, Any]
NAMESPACE = "mindie-test"
INFER = "infer.huawei.com/"
OWNING = ("Deployment", "StatefulSet")
RULE, RANK_TABLE = "scaling-rule", "rings-config-"
ENGINE_ROLES = ("prefill", "decode", "union", "encode")
NPU = "huawei.com/Ascend910"
BLOCKED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "not enough NPUs"}


class Answer(Exception):
    """The API server refuses a request with this status."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(f"{status}: {said}")
        self.status = status


class Pod:
    """One pod. `left` is None, or the ticks until it is gone; `broken` pods never become ready."""

    def __init__(self, name: str, uid: str, owner: Obj, labels: Mapping[str, str], spec: Obj) -> None:
        self.name, self.uid, self.owner, self.labels = name, uid, owner, dict(labels)
        self.containers = [{"name": box["name"], "image": box.get("image", "")} for box in spec["containers"]]
        self.npus = sum(int(box.get("resources", {}).get("requests", {}).get(NPU, 0)) for box in spec["containers"])
        self.left: int | None = None
        self.placed = self.ready = self.broken = False

    def show(self) -> Obj:
        """As the API server holds it."""
        metadata: Obj = {"name": self.name, "uid": self.uid, "labels": self.labels, "ownerReferences": [self.owner]}
        if self.left is not None:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        spec: Obj = {"containers": [{**box, "resources": {"requests": {NPU: str(self.npus)}}} for box in self.containers]}
        if self.placed:
            spec["nodeName"] = "node-1"
        if self.broken:
            return {"metadata": metadata, "spec": spec, "status": {"phase": "Failed", "reason": "Error"}}
        ready = {"type": "Ready", "status": "True" if self.ready else "False"}
        return {
            "metadata": metadata,
            "spec": spec,
            "status": {"phase": "Running" if self.ready else "Pending", "conditions": [ready] if self.placed else [ready, BLOCKED]},
        }


class World:
    """One namespace. `capacity` is its NPUs; `stopping` the ticks that a pod needs to stop."""

    def __init__(self, backend: str, base_name: str, *, stopping: int = 1, seed: int = 0) -> None:
        self.backend, self.base_name, self.stopping = backend, base_name, stopping
        self.objects: dict[tuple[str, str], Obj] = {}
        self.pods: dict[str, Pod] = {}
        self.instance_sets: dict[str, Obj] = {}
        self.pod_groups: dict[str, Obj] = {}
        self.capacity = 10**6
        self._numbers = itertools.count(1)
        self._random = random.Random(seed)

    # What the API server does.

    def create(self, obj: Mapping[str, Any]) -> Obj:
        """POST."""
        if (obj["kind"], obj["metadata"]["name"]) in self.objects:
            raise Answer(409, f"{obj['metadata']['name']} already exists")
        return self._store(obj, uid=f"uid-{next(self._numbers)}")

    def replace(self, obj: Mapping[str, Any]) -> Obj:
        """PUT."""
        found = self._found(obj["kind"], obj["metadata"]["name"])
        if obj["metadata"].get("resourceVersion", found["metadata"]["resourceVersion"]) != found["metadata"]["resourceVersion"]:
            raise Answer(409, "the object has been modified")
        return self._store(obj, uid=found["metadata"]["uid"])

    def patch(self, kind: str, name: str, patch: list[Obj]) -> Obj:
        """PATCH with a JSON patch."""
        try:
            return self._store(jsonpatch.apply_patch(self._found(kind, name), patch))
        except jsonpatch.JsonPatchException as error:
            raise Answer(422, str(error)) from error

    def delete(self, kind: str, name: str, preconditions: Mapping[str, str] | None = None, propagation: str = "Background") -> None:
        """DELETE; what is gone already is no error. Foreground: it stays, marked, until what it owns is gone."""
        found = self.objects.get((kind, name))
        if found is None:
            return
        for key, value in (preconditions or {}).items():
            if found["metadata"][key] != value:
                raise Answer(409, f"the {key} differs")
        if propagation == "Foreground":
            self._store({**found, "metadata": {**found["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}})
        else:
            del self.objects[kind, name]

    def snapshot(self, *, others: bool = True) -> Snapshot:
        """What observing reads."""
        by_kind: dict[str, list[Obj]] = {}
        for (kind, _name), obj in self.objects.items():
            by_kind.setdefault(kind, []).append(obj)
        workloads = by_kind.pop("Deployment", [])
        sets = by_kind.pop("InferServiceSet", [])
        config_maps = {obj["metadata"]["name"]: obj for obj in by_kind.pop("ConfigMap", [])}
        motor_config, rule = config_maps.pop("motor-config", None), config_maps.pop(RULE, None)
        lease = next(iter(by_kind.pop("Lease", [])), None)
        jobs = by_kind.pop(JOB, [])
        scalers = by_kind.pop("HorizontalPodAutoscaler", [])
        in_set = self.backend == "infer_service_set"
        # Of AscendJobs the rank tables are always read.
        beside = [*config_maps.values(), *(obj for found in by_kind.values() for obj in found if others)]
        children = (*workloads, *by_kind.pop("StatefulSet", []))
        return Snapshot(
            NAMESPACE,
            self.backend,
            self.base_name,
            config_map=motor_config,
            lease=lease,
            deployments=() if in_set else tuple(workloads),
            pods=self.shown_pods(),
            autoscalers=tuple(scalers),
            infer_service_set=next(iter(sets), None),
            instance_sets=self.shown_sets(),
            others={(obj["kind"], obj["metadata"]["name"]): obj for obj in beside},
            workloads=children if in_set and others else (),
            jobs=tuple(jobs),
            pod_groups=self.shown_groups(),
            rule=rule,
        )

    def shown_pods(self) -> tuple[Obj, ...]:
        """Pods as a watch shows them."""
        return tuple(pod.show() for pod in self.pods.values())

    def shown_sets(self) -> tuple[Obj, ...]:
        """InstanceSets as a watch shows them."""
        return tuple(self.instance_sets.values())

    def shown_groups(self) -> tuple[Obj, ...]:
        """PodGroups as a watch shows them."""
        return tuple(self.pod_groups.values())

    def jobs(self) -> tuple[Obj, ...]:
        """AscendJobs as a watch shows them."""
        return tuple(obj for (kind, _name), obj in self.objects.items() if kind == JOB)

    def _found(self, kind: str, name: str) -> Obj:
        if (kind, name) not in self.objects:
            raise Answer(404, f"{kind} {name} not found")
        return self.objects[kind, name]

    def _store(self, obj: Mapping[str, Any], **metadata: str) -> Obj:
        stored = {**obj, "metadata": {**obj["metadata"], **metadata, "resourceVersion": str(next(self._numbers))}}
        self.objects[obj["kind"], obj["metadata"]["name"]] = stored
        return stored

    # What controllers, the operator, the scheduler and kubelets do.

    def tick(self) -> None:
        """Everybody looks once and acts."""
        self._stop_pods()
        self._collect()
        for kind, name in list(self.objects):
            if kind == "InferServiceSet":
                self._operate(self.objects[kind, name])
        for kind, name in list(self.objects):
            if kind in OWNING and "deletionTimestamp" not in self.objects[kind, name]["metadata"]:
                self._fill(self.objects[kind, name])
        for job in self.jobs():
            if "deletionTimestamp" not in job["metadata"]:
                self._reconcile(job)
        self._start_pods()
        self._schedule()

    def kill(self, pod: Pod) -> None:
        """Tell a pod to stop."""
        if pod.left is None:
            pod.left = self.stopping + self._random.randrange(2)

    def _stop_pods(self) -> None:
        for pod in list(self.pods.values()):
            if pod.left is not None:
                pod.left -= 1
                if pod.left <= 0:
                    del self.pods[pod.name]

    def _collect(self) -> None:
        """What lost its owner goes; objects that wait for what they own go after it."""
        sets = [obj for (kind, _name), obj in self.objects.items() if kind == "InferServiceSet"]
        if not any("deletionTimestamp" not in obj["metadata"] for obj in sets):
            self._orphan_children()
        owners = {obj["metadata"]["uid"]: obj for (kind, _name), obj in self.objects.items() if kind in (*OWNING, JOB)}
        for pod in self.pods.values():
            owner = owners.get(pod.owner["uid"])
            if owner is None or "deletionTimestamp" in owner["metadata"]:
                self.kill(pod)
        for name, group in list(self.pod_groups.items()):
            owner = owners.get(ascend.owner_of(group)["uid"])
            if owner is None or "deletionTimestamp" in owner["metadata"]:
                del self.pod_groups[name]
        owning = {pod.owner["uid"] for pod in self.pods.values()}
        for uid, obj in owners.items():
            if "deletionTimestamp" in obj["metadata"] and uid not in owning:
                del self.objects[obj["kind"], obj["metadata"]["name"]]
        for obj in sets:
            if "deletionTimestamp" in obj["metadata"] and not self.children() and not self._of_set():
                del self.objects["InferServiceSet", obj["metadata"]["name"]]

    def _orphan_children(self) -> None:
        self.instance_sets.clear()
        for kind, name in self.children():
            del self.objects[kind, name]

    def children(self) -> list[tuple[str, str]]:
        """Workloads that the Infer Operator made."""
        return [key for key, obj in self.objects.items() if key[0] in OWNING and operator.MANAGED in (obj["metadata"].get("labels") or {})]

    def _of_set(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if operator.MANAGED in pod.labels]

    def _fill(self, workload: Obj) -> None:
        """A Deployment replaces a pod that stops at once, a StatefulSet when its name is free."""
        template, name, uid = workload["spec"]["template"], workload["metadata"]["name"], workload["metadata"]["uid"]
        wanted = int(workload["spec"].get("replicas", 1))
        mine = [pod for pod in self.pods.values() if pod.owner["uid"] == uid and pod.left is None]
        if workload["kind"] == "StatefulSet":
            names = [f"{name}-{number}" for number in range(wanted) if f"{name}-{number}" not in self.pods]
        else:
            names = [f"{name}-{next(self._numbers)}" for _number in range(wanted - len(mine))]
        for pod_name in names:
            owner = {"kind": {"Deployment": "ReplicaSet"}.get(workload["kind"], workload["kind"]), "name": name, "uid": uid}
            labels = template["metadata"].get("labels") or {}
            self.pods[pod_name] = Pod(pod_name, f"uid-{next(self._numbers)}", owner, labels, template["spec"])

    def _operate(self, infer_service_set: Obj) -> None:
        """The Infer Operator: a workload for every instance that is to be, none of others; then the status of its InstanceSets."""
        if "deletionTimestamp" in infer_service_set["metadata"]:
            return
        service = {"metadata": {"name": "vllm-0", "namespace": NAMESPACE, "uid": "inferservice"}, "spec": {}}
        service |= {"apiVersion": operator.GROUP_VERSION, "kind": "InferService"}
        for role in infer_service_set["spec"]["template"]["roles"]:
            self._observe_role(service, role)
            parent, count = self.instance_sets[role["name"]], int(role.get("replicas") or 0)
            there = {operator.index_of(self.objects[key]): key for key in self.children() if self._role_of(key) == role["name"]}
            surplus = [key for index, key in there.items() if index is not None and index >= count]
            self._random.shuffle(surplus)
            for key in surplus:
                del self.objects[key]
            for index in set(range(count)) - there.keys():
                self.create(operator.workload(parent, index))
            self._report(role["name"])

    def _role_of(self, key: tuple[str, str]) -> str:
        return str(self.objects[key]["metadata"]["labels"][f"{INFER}instanceset-name"])

    def _observe_role(self, service: Obj, role: Obj) -> None:
        """The InstanceSet takes over what its role says; the status follows a tick later."""
        parent = self.instance_sets.get(role["name"])
        if parent is None:
            parent = operator.instance_set(service, role)
            parent["metadata"] |= {"uid": f"uid-{next(self._numbers)}", "generation": 1}
            parent["status"] = {"observedGeneration": 0}
            self.instance_sets[role["name"]] = parent
        elif parent["spec"] != role:
            metadata = {**parent["metadata"], "generation": parent["metadata"]["generation"] + 1}
            self.instance_sets[role["name"]] = {**parent, "metadata": metadata, "spec": role}

    def _report(self, role: str) -> None:
        parent = self.instance_sets[role]
        count, pods = int(parent["spec"].get("replicas") or 0), pods_of(parent["spec"])
        indexes = {operator.index_of(self.objects[key]) for key in self.children() if self._role_of(key) == role}
        ready = [int(pod.labels[f"{INFER}instanceset-index"]) for pod in self._of_set() if self._is_ready_of(pod, role)]
        seen = parent["status"]["observedGeneration"] != parent["metadata"]["generation"]
        status = {
            "observedGeneration": parent["metadata"]["generation"],
            "replicas": len(indexes),
            "readyReplicas": 0 if seen else sum(ready.count(index) == pods for index in range(count)),
        }
        self.instance_sets[role] = {**parent, "status": status}

    @staticmethod
    def _is_ready_of(pod: Pod, role: str) -> bool:
        return pod.labels.get(f"{INFER}instanceset-name") == role and pod.ready and pod.left is None

    def _reconcile(self, job: Obj) -> None:
        """The Ascend Operator: first the PodGroup, then, when that was let in, pods as far as the rule allows."""
        name = pod_group(job)["metadata"]["name"]
        if name not in self.pod_groups:
            self.pod_groups[name] = pod_group(job)
        lacking = [] if ascend.phase(self.pod_groups[name]) in ascend.WAITING else ascend.missing(job, self.pods)
        if lacking and ascend.may_create(job, self.objects.get(("ConfigMap", RULE)), self.pod_groups):
            for pod in lacking:
                metadata, uid = pod["metadata"], f"uid-{next(self._numbers)}"
                owner = {**metadata["ownerReferences"][0]}
                self.pods[metadata["name"]] = Pod(metadata["name"], uid, owner, metadata["labels"], pod["spec"])

    def _schedule(self) -> None:
        """A session of Volcano: PodGroups are let in as far as NPUs reach, pods are placed all or none, then phases are told."""
        members = {
            name: [pod for pod in self.pods.values() if pod.owner["uid"] == ascend.owner_of(group)["uid"]]
            for name, group in self.pod_groups.items()
        }
        promised = sum(pod.npus for pod in self.pods.values() if pod.placed and not any(pod in found for found in members.values()))
        promised += sum(self._promised(group, members[name]) for name, group in self.pod_groups.items())
        for name, group in self.pod_groups.items():
            before = ascend.phase(group)
            if before in ascend.WAITING and promised + ascend.npus_of(group) <= self.capacity:
                promised += ascend.npus_of(group)
                before = ascend.INQUEUE
            told = {**group, "status": {"phase": before or ascend.PENDING}}
            placed = [pod for pod in members[name] if pod.placed and pod.left is None]
            self.pod_groups[name] = {**told, "status": {"phase": ascend.next_phase(told, len(placed))}}
            self._place_all(members[name], told)

    @staticmethod
    def _promised(group: Obj, pods: list[Pod]) -> int:
        held = sum(pod.npus for pod in pods if pod.placed)
        return max(held, ascend.npus_of(group)) if ascend.phase(group) not in ascend.WAITING else held

    def _place_all(self, pods: list[Pod], group: Obj) -> None:
        waiting = [pod for pod in pods if not pod.placed and pod.left is None]
        staying = sum(pod.placed and pod.left is None for pod in pods)
        used = sum(pod.npus for pod in self.pods.values() if pod.placed)
        fits = used + sum(pod.npus for pod in waiting) <= self.capacity and staying + len(waiting) >= int(group["spec"]["minMember"])
        for pod in waiting if fits else ():
            pod.placed = True

    def _start_pods(self) -> None:
        used = sum(pod.npus for pod in self.pods.values() if pod.placed)
        for pod in self.pods.values():
            if pod.placed and pod.left is None:
                pod.ready = not pod.broken
            elif not pod.placed and JOB_NAME not in pod.labels and used + pod.npus <= self.capacity:
                pod.placed = True
                used += pod.npus


def pods_of(role: Mapping[str, Any]) -> int:
    """Pods per instance of a role of an InferServiceSet."""
    return int(role["spec"].get("replicas", 1))
