# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""InferServiceSets for tests of the Infer Operator's stand-in, and what a client sees of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Protocol

from tests.cluster.infer_operator import objects
from tests.cluster.kube_client import EVENTS, Informer, KubeClient, Obj, Resource, wait_for

NUMBERS = itertools.count(1)
NPU = "huawei.com/Ascend910"
AUTOSCALERS = Resource("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")


def role(name: str, replicas: int | None, *, kind: str = "StatefulSet", npus: int = 0, **more: Any) -> Obj:
    """A role of an InferServiceSet. Other keywords are fields of the role; ``annotations`` are those of its pods."""
    resources = {"requests": {NPU: npus}, "limits": {NPU: npus}} if npus else {}
    container = {"name": "main", "image": "registry.example/motor:1", "resources": resources}
    template = {
        "metadata": {"labels": {"app": name}, "annotations": more.pop("annotations", {})},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
    body: Obj = {"name": name, "workload": {"apiVersion": "apps/v1", "kind": kind}, "spec": spec, **more}
    if replicas is not None:
        body["replicas"] = replicas
    return body


class Watched(Protocol):
    """A namespace and a client that may look into it."""

    client: KubeClient
    namespace: str


class Service:
    """One InferServiceSet ``vllm`` in a namespace of its own."""

    def __init__(self, client: KubeClient) -> None:
        self.client = client
        self.namespace = f"iss-{next(NUMBERS)}"
        namespaces = Resource("v1", "Namespace", "namespaces", namespaced=False)
        client.create(namespaces, {"metadata": {"name": self.namespace}})

    def create(self, *roles: Obj, replicas: int = 1, strategy: str = "", annotations: dict[str, str] | None = None) -> Obj:
        template: Obj = {"roles": list(roles)}
        if strategy:
            template["schedulingStrategy"] = {"type": strategy}
        body = {
            "apiVersion": objects.GROUP_VERSION,
            "kind": "InferServiceSet",
            "metadata": {"name": "vllm", "namespace": self.namespace, "annotations": annotations or {}},
            "spec": {"replicas": replicas, "template": template},
        }
        return self.client.create(objects.INFER_SERVICE_SETS, body)

    def patch(self, path: str, value: Any, op: str = "replace") -> Obj:
        """A JSON patch of a field of the first role (or of ``roles/N/...``)."""
        where = path if path.startswith("roles/") else f"roles/0/{path}"
        patch = [{"op": op, "path": f"/spec/template/{where}", "value": value}]
        return self.client.patch(objects.INFER_SERVICE_SETS, self.namespace, "vllm", patch)

    def scale(self, replicas: int) -> None:
        self.patch("replicas", replicas)

    def get(self, resource: Resource, name: str) -> Obj | None:
        return self.client.get(resource, self.namespace, name)

    def all(self, resource: Resource) -> dict[str, Obj]:
        return {row["metadata"]["name"]: row for row in self.client.list(resource, self.namespace)["items"]}

    def complete(self, name: str, wanted: int) -> bool:
        """The one condition that tells the truth about scaling, checked on an InstanceSet."""
        found = self.get(objects.INSTANCE_SETS, name)
        if found is None:
            return False
        status = found.get("status", {})
        counts = {found["spec"].get("replicas"), status.get("replicas"), status.get("readyReplicas")}
        return status.get("observedGeneration") == found["metadata"]["generation"] and counts == {wanted}

    def wait_complete(self, wanted: int, role_name: str = "prefill", timeout: float = 20.0) -> None:
        wait_for(lambda: self.complete(f"vllm-0-{role_name}", wanted), timeout, f"{wanted} instances of {role_name}")

    def events(self, reason: str) -> list[Obj]:
        return [row for row in self.all(EVENTS).values() if row["reason"] == reason]


class Recorder:
    """The order of changes of several kinds, as a client that watches sees them."""

    def __init__(self, service: Watched, *resources: Resource) -> None:
        self.rows: list[tuple[str, str, Obj | None]] = []
        self.informers = [Informer(service.client, row, self._of(row), namespace=service.namespace) for row in resources]

    def _of(self, resource: Resource) -> Callable[[Obj | None, Obj | None], None]:
        def changed(before: Obj | None, after: Obj | None) -> None:
            name = (after or before or {})["metadata"]["name"]
            self.rows.append((resource.kind, name, after))

        return changed

    def __enter__(self) -> Recorder:
        for informer in self.informers:
            informer.start()
        for informer in self.informers:
            assert informer.synced.wait(10)
        self.rows.clear()
        return self

    def __exit__(self, *_: object) -> None:
        for informer in self.informers:
            informer.stop()

    def first(self, fits: Callable[[str, str, Obj | None], bool]) -> int:
        """The resource version, which orders the changes of all kinds, of the first state that fits."""
        found = [int(obj["metadata"]["resourceVersion"]) for kind, name, obj in self.rows if obj and fits(kind, name, obj)]
        assert found, "nothing of the kind was seen"
        return min(found)

    def at(self, version: int) -> Obj:
        """The state with a resource version."""
        return next(obj for *dummy, obj in self.rows if obj and obj["metadata"]["resourceVersion"] == str(version))

    def gone(self, kind: str) -> list[str]:
        """Names of deleted objects, in the order of deletion."""
        return [name for row, name, obj in self.rows if row == kind and obj is None]


def labels_of(obj: Obj) -> dict[str, str]:
    """Labels without the operator's prefix."""
    return {key.removeprefix(objects.PREFIX): value for key, value in obj["metadata"].get("labels", {}).items()}


def owner_of(obj: Obj) -> tuple[str, str]:
    (owner,) = obj["metadata"]["ownerReferences"]
    assert owner["controller"] and owner["blockOwnerDeletion"]
    return owner["kind"], owner["name"]


def prepared(service: Service, replicas: int, **more: Any) -> None:
    """A set with one role ``prefill``, complete."""
    service.create(role("prefill", replicas, **more))
    service.wait_complete(replicas, timeout=30)


def hpa(low: Any, high: Any) -> Obj:
    """A scaling policy on one external metric."""
    metric = {
        "type": "External",
        "external": {
            "metric": {"name": "num_requests_waiting"},
            "target": {"type": "AverageValue", "averageValue": "5"},
        },
    }
    return {"type": "HPA", "spec": {"minReplicas": low, "maxReplicas": high, "metrics": [metric]}}
