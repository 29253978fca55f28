# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small cluster over plain objects, to execute thousands of plans on.

What plans rely on is there: names are unique (409), deletion by uid, PUT by resourceVersion, JSON patches with tests (422),
foreground deletion; Deployments get pods a tick later, pods of what is gone are collected a tick later and need some ticks to
stop; an InferServiceSet drives InstanceSets and pods, whose surplus indexes go in any order; pods beyond the NPUs stay Pending.

Left out, as tests at the real API server are about it: requests in flight at once, watches, the lock, defaults and admission,
ReplicaSets and StatefulSets as objects of their own, NPUs of single nodes (there is one pool), gang scheduling and its flapping,
clocks (a tick is what happens between two looks), and everything an autoscaler does by itself.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from typing import Any

import jsonpatch

from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot

Obj = dict[str, Any]
NAMESPACE = "mindie-test"
INFER = "infer.huawei.com/"
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
        known = {kind: next(iter(by_kind.pop(kind, [])), None) for kind in ("ConfigMap", "Lease")}
        scalers = by_kind.pop("HorizontalPodAutoscaler", [])
        return Snapshot(
            NAMESPACE,
            self.backend,
            self.base_name,
            config_map=known["ConfigMap"],
            lease=known["Lease"],
            deployments=tuple(workloads) if self.backend == "deployments" else (),
            pods=self.shown_pods(),
            autoscalers=tuple(scalers),
            infer_service_set=next(iter(sets), None),
            instance_sets=self.shown_sets(),
            others={(obj["kind"], obj["metadata"]["name"]): obj for found in by_kind.values() for obj in found} if others else {},
        )

    def shown_pods(self) -> tuple[Obj, ...]:
        """Pods as a watch shows them."""
        return tuple(pod.show() for pod in self.pods.values())

    def shown_sets(self) -> tuple[Obj, ...]:
        """InstanceSets as a watch shows them."""
        return tuple(self.instance_sets.values())

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
            if kind == "Deployment":
                self._fill(self.objects[kind, name])
            elif kind == "InferServiceSet":
                self._operate(self.objects[kind, name])
        self._start_pods()

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
        """Pods without an owner are told to stop; objects that wait for their pods go after them."""
        owners = {obj["metadata"]["uid"]: obj for (kind, _name), obj in self.objects.items() if kind in ("Deployment", "InferServiceSet")}
        for pod in self.pods.values():
            owner = owners.get(pod.owner["uid"])
            if owner is None or "deletionTimestamp" in owner["metadata"]:
                self.kill(pod)
        owning = {pod.owner["uid"] for pod in self.pods.values()}
        for uid, obj in owners.items():
            if "deletionTimestamp" in obj["metadata"] and uid not in owning:
                del self.objects[obj["kind"], obj["metadata"]["name"]]
        if not any(kind == "InferServiceSet" for kind, _name in self.objects):
            self.instance_sets.clear()

    def _fill(self, deployment: Obj) -> None:
        if "deletionTimestamp" in deployment["metadata"]:
            return
        template, name = deployment["spec"]["template"], deployment["metadata"]["name"]
        mine = [pod for pod in self.pods.values() if pod.owner["uid"] == deployment["metadata"]["uid"] and pod.left is None]
        for _number in range(int(deployment["spec"].get("replicas", 1)) - len(mine)):
            self._add_pod(f"{name}-{next(self._numbers)}", "ReplicaSet", deployment, template["metadata"]["labels"], template["spec"])

    def _operate(self, infer_service_set: Obj) -> None:
        """The Infer Operator: pods of every instance that is to be, none of others; then the status of its InstanceSets."""
        if "deletionTimestamp" in infer_service_set["metadata"]:
            return
        for role in infer_service_set["spec"]["template"]["roles"]:
            self._surplus(role)
            for index, number in itertools.product(range(int(role.get("replicas") or 0)), range(pods_of(role))):
                name, template = f"vllm-0-{role['name']}-{index}-{number}", role["spec"]["template"]
                if name not in self.pods:
                    labels = {**(template["metadata"].get("labels") or {}), f"{INFER}inferservice-name": "vllm-0"}
                    labels |= {f"{INFER}instanceset-name": role["name"], f"{INFER}instanceset-index": str(index)}
                    self._add_pod(name, "StatefulSet", infer_service_set, labels, template["spec"])
            self._report(role)

    def _surplus(self, role: Obj) -> None:
        going = [pod for index, pod in self._of_role(role["name"]) if index >= int(role.get("replicas") or 0)]
        self._random.shuffle(going)
        for pod in going:
            self.kill(pod)

    def _report(self, role: Obj) -> None:
        """The status is as fresh as the spec that was acted on: what a tick made is ready in the next."""
        count = int(role.get("replicas") or 0)
        old = self.instance_sets.get(role["name"])
        same = old is not None and old["spec"]["replicas"] == count
        generation = (old["metadata"]["generation"] + (not same)) if old else 1
        staying = [(index, pod.ready) for index, pod in self._of_role(role["name"]) if pod.left is None]
        complete = [index for index in range(count) if staying.count((index, True)) == pods_of(role)]
        self.instance_sets[role["name"]] = {
            "metadata": {"name": f"vllm-0-{role['name']}", "labels": {f"{INFER}instanceset-name": role["name"]}, "generation": generation},
            "spec": {"replicas": count},
            "status": {
                "observedGeneration": generation if same else generation - 1,
                "replicas": len({index for index, _ready in staying}),
                "readyReplicas": len(complete),
            },
        }

    def _of_role(self, role: str) -> Iterator[tuple[int, Pod]]:
        for pod in self.pods.values():
            if pod.labels.get(f"{INFER}instanceset-name") == role:
                yield int(pod.labels[f"{INFER}instanceset-index"]), pod

    def _add_pod(self, name: str, owner_kind: str, owner: Obj, labels: Mapping[str, str], spec: Obj) -> None:
        reference = {"kind": owner_kind, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        self.pods[name] = Pod(name, f"uid-{next(self._numbers)}", reference, labels, spec)

    def _start_pods(self) -> None:
        used = sum(pod.npus for pod in self.pods.values() if pod.placed)
        for pod in self.pods.values():
            if pod.placed and pod.left is None:
                pod.ready = not pod.broken
            elif not pod.placed and used + pod.npus <= self.capacity:
                pod.placed = True
                used += pod.npus


def pods_of(role: Mapping[str, Any]) -> int:
    """Pods per instance of a role of an InferServiceSet."""
    return int(role["spec"].get("replicas", 1))
