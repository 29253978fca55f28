# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in for the Infer Operator does what the real one was seen to do.

Each test reproduces one row of what was measured with the real operator on a real control plane: f1 and f2 objects and
scaling, f3 failures and deletion, g autoscaling, k validation and priorities, m instances that come and go. Orders and
final states are asserted; times are not, but for what must not be seen before something else.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.cluster.infer_operator import objects
from tests.cluster.infer_operator.status import is_ready
from tests.cluster.kube_client import (
    DEPLOYMENTS,
    EVENTS,
    NODES,
    PODS,
    SERVICES,
    STATEFUL_SETS,
    Informer,
    KubeClient,
    KubeError,
    Obj,
    Resource,
    wait_for,
)

NUMBERS = itertools.count(1)
NPU = "huawei.com/Ascend910"
AUTOSCALERS = Resource("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
POD_GROUPS = objects.POD_GROUPS


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(infer_operator=True) as running:
        yield running


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> KubeClient:
    return KubeClient.from_kubeconfig(cluster.kubeconfig)


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


class Service:
    """One InferServiceSet ``vllm`` in a namespace of its own."""

    def __init__(self, client: KubeClient) -> None:
        self.client = client
        self.namespace = f"iss-{next(NUMBERS)}"
        namespaces = Resource("v1", "Namespace", "namespaces", namespaced=False)
        client.create(namespaces, {"metadata": {"name": self.namespace}})

    def create(self, *roles: Obj, replicas: int = 1, strategy: str = "", **annotations: str) -> Obj:
        template: Obj = {"roles": list(roles)}
        if strategy:
            template["schedulingStrategy"] = {"type": strategy}
        body = {
            "apiVersion": objects.GROUP_VERSION,
            "kind": "InferServiceSet",
            "metadata": {"name": "vllm", "namespace": self.namespace, "annotations": annotations},
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


@pytest.fixture
def service(client: KubeClient) -> Iterator[Service]:
    made = Service(client)
    yield made
    with contextlib.suppress(KubeError):
        client.delete(objects.INFER_SERVICE_SETS, made.namespace, "vllm")


class Recorder:
    """The order of changes of several kinds, as a client that watches sees them."""

    def __init__(self, service: Service, *resources: Resource) -> None:
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
        return next(obj for *_, obj in self.rows if obj and obj["metadata"]["resourceVersion"] == str(version))

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
    service.create(role("prefill", replicas, **more))
    service.wait_complete(replicas, timeout=30)


HTTP = {"ports": [{"port": 1026, "targetPort": 1026}], "selector": {"app": "controller"}}


def test_f1_objects_that_appear(service: Service) -> None:
    controller = role("controller", 1, kind="Deployment", services=[{"name": "motor", "spec": HTTP}])
    prefill = role("prefill", 1, metadata={"labels": {"team": "blue"}, "annotations": {"note": "x"}})
    prefill["spec"]["template"]["metadata"]["labels"]["fault-scheduling"] = "grace"
    pool = role("kv-pool", 0, kind="Deployment", services=[{"name": "pool", "spec": HTTP}])
    service.create(controller, prefill, pool)
    for name in ("controller", "prefill"):
        service.wait_complete(1, name)
    service.wait_complete(0, "kv-pool")

    (made,) = service.all(objects.INFER_SERVICES).values()
    assert (made["metadata"]["name"], owner_of(made)) == ("vllm-0", ("InferServiceSet", "vllm"))
    assert labels_of(made) == {"inferservice-index": "0", "inferserviceset-name": "vllm"}
    sets = service.all(objects.INSTANCE_SETS)
    assert set(sets) == {"vllm-0-controller", "vllm-0-prefill", "vllm-0-kv-pool"}
    assert {owner_of(row) for row in sets.values()} == {("InferService", "vllm-0")}
    own = {"inferservice-name": "vllm-0", "instanceset-name": "prefill", "priority-scheduling-strategy": "Parallel"}
    assert labels_of(sets["vllm-0-prefill"]) == {**own, "team": "blue"}

    (stateful,) = service.all(STATEFUL_SETS).values()
    assert (stateful["metadata"]["name"], owner_of(stateful)) == ("vllm-0-prefill-0", ("InstanceSet", "vllm-0-prefill"))
    instance = {"instanceset-index": "0", "ascend-infer-operator": "true"}
    assert labels_of(stateful) == {**own, **instance, "team": "blue", "fault-scheduling": "grace"}
    assert stateful["metadata"]["annotations"]["note"] == "x"
    assert stateful["spec"]["serviceName"] == "service-vllm-0-prefill-0"
    assert list(service.all(DEPLOYMENTS)) == ["vllm-0-controller-0"]

    services = service.all(SERVICES)
    assert set(services) == {"motor-vllm-0-controller", "pool-vllm-0-kv-pool", "service-vllm-0-prefill-0"}
    headless = services["service-vllm-0-prefill-0"]["spec"]
    assert (headless["clusterIP"], headless["ports"][0]["name"], headless["ports"][0]["port"]) == (
        "None",
        "infer",
        8080,
    )
    assert {labels_of(row)["instanceset-index"] for name, row in services.items() if "service-" not in name} == {""}


def test_f1_pods_have_name_labels_and_environment_of_their_instance(service: Service) -> None:
    prepared(service, 2)
    pods = service.all(PODS)
    assert set(pods) == {"vllm-0-prefill-0-0", "vllm-0-prefill-1-0"}
    pod = pods["vllm-0-prefill-1-0"]
    assert labels_of(pod)["instanceset-index"] == "1"
    environment = {row["name"]: row["value"] for row in pod["spec"]["containers"][0]["env"]}
    assert environment == {
        "INSTANCE_INDEX": "1",
        "INSTANCE_ROLE": "prefill",
        "INFER_SERVICE_INDEX": "0",
        "INFER_SERVICE_NAME": "vllm",
    }


def test_f1_node_ports_move_up_with_the_index_of_the_service(service: Service) -> None:
    port = 30400 + int(service.namespace.rpartition("-")[2]) * 4
    spec = {"type": "NodePort", "selector": {"app": "c"}, "ports": [{"port": 1025, "nodePort": port}]}
    service.create(role("controller", 1, kind="Deployment", services=[{"name": "infer", "spec": spec}]), replicas=2)
    wait_for(lambda: len(service.all(SERVICES)) == 2, 20, "Services of both InferServices")
    ports = {name: row["spec"]["ports"][0]["nodePort"] for name, row in service.all(SERVICES).items()}
    assert ports == {"infer-vllm-0-controller": port, "infer-vllm-1-controller": port + 1}


def test_f2_one_to_four_creates_only_the_missing_indexes(service: Service) -> None:
    prepared(service, 1)
    old = service.all(STATEFUL_SETS)["vllm-0-prefill-0"]["metadata"]
    service.scale(4)
    service.wait_complete(4)
    sets = service.all(STATEFUL_SETS)
    assert set(sets) == {f"vllm-0-prefill-{index}" for index in range(4)}
    new = sets["vllm-0-prefill-0"]["metadata"]
    assert (new["uid"], new["generation"]) == (old["uid"], old["generation"])


def test_f2_four_to_one_removes_all_indexes_from_one_on(service: Service) -> None:
    prepared(service, 4)
    old = service.all(STATEFUL_SETS)["vllm-0-prefill-0"]["metadata"]["uid"]
    service.scale(1)
    service.wait_complete(1)
    (left,) = service.all(STATEFUL_SETS).values()
    assert (left["metadata"]["name"], left["metadata"]["uid"]) == ("vllm-0-prefill-0", old)
    assert set(service.all(SERVICES)) == {"service-vllm-0-prefill-0"}


def test_f2_parents_say_ready_for_the_new_generation_while_nothing_was_created(service: Service) -> None:
    prepared(service, 1, annotations={"fake/ready-after": "1s"})
    wait_for(lambda: is_ready(service.get(objects.INFER_SERVICE_SETS, "vllm") or {}), 10, "set Ready")
    with Recorder(service, objects.INFER_SERVICE_SETS, objects.INFER_SERVICES, STATEFUL_SETS) as seen:
        service.scale(3)
        service.wait_complete(3)

    def misleading(wanted: str) -> Callable[[str, str, Obj | None], bool]:
        def fits(kind: str, name: str, obj: Obj | None) -> bool:
            if kind != wanted or obj is None:
                return False
            current = obj.get("status", {}).get("observedGeneration") == obj["metadata"]["generation"]
            return current and is_ready(obj)

        return fits

    created = seen.first(lambda kind, name, obj: name == "vllm-0-prefill-1" and kind == "StatefulSet")
    assert seen.first(misleading("InferServiceSet")) < created
    assert seen.first(misleading("InferService")) < created
    unready = seen.first(lambda kind, name, obj: kind == "InferServiceSet" and obj is not None and not is_ready(obj))
    assert created < unready


def test_f2_instance_set_observes_the_generation_only_when_the_workloads_exist(service: Service) -> None:
    prepared(service, 1)
    with Recorder(service, objects.INSTANCE_SETS, STATEFUL_SETS) as seen:
        service.scale(3)
        service.wait_complete(3)
    generation = (service.get(objects.INSTANCE_SETS, "vllm-0-prefill") or {})["metadata"]["generation"]

    def observed(kind: str, name: str, obj: Obj | None) -> bool:
        status = (obj or {}).get("status", {})
        return kind == "InstanceSet" and status.get("observedGeneration") == generation

    first = seen.first(observed)
    assert seen.first(lambda kind, name, obj: name == "vllm-0-prefill-2" and kind == "StatefulSet") < first
    status = seen.at(first)["status"]
    assert (status["replicas"], status["conditions"][0]["reason"]) == (3, "ReplicasNotReady")


def test_f2_more_instances_than_fit_stay_without_any_event(service: Service, client: KubeClient) -> None:
    size = 16
    fitting = sum(int(row["status"]["allocatable"].get(NPU, 0)) == size for row in client.list(NODES)["items"])
    wanted = fitting + 3
    service.create(role("prefill", wanted, npus=size))
    wait_for(
        lambda: (service.get(objects.INSTANCE_SETS, "vllm-0-prefill") or {}).get("status", {}).get("readyReplicas") == fitting,
        30,
        f"{fitting} of {wanted} instances",
    )
    found = service.get(objects.INSTANCE_SETS, "vllm-0-prefill") or {}
    condition = found["status"]["conditions"][0]
    assert (condition["status"], condition["reason"]) == ("False", "ReplicasNotReady")
    assert condition["message"].startswith(f"{fitting} of {wanted} ")
    kinds = {row["involvedObject"]["kind"] for row in service.all(EVENTS).values()}
    assert not kinds & {"InferServiceSet", "InferService", "InstanceSet"}


def test_f2_scale_in_takes_running_instances_in_no_particular_order(service: Service) -> None:
    """Two rounds of ten: the real operator's order is that of its cache, so it differs from one round to the next."""
    orders = []
    prepared(service, 12)
    for _ in range(2):
        with Recorder(service, STATEFUL_SETS) as seen:
            service.scale(2)
            service.wait_complete(2)
            wait_for(lambda: len(seen.gone("StatefulSet")) == 10, 10, "ten StatefulSets gone")
        assert set(seen.gone("StatefulSet")) == {f"vllm-0-prefill-{index}" for index in range(2, 12)}
        orders.append(seen.gone("StatefulSet"))
        service.scale(12)
        service.wait_complete(12, timeout=30)
    ordered = sorted(orders[0], key=lambda name: int(name.rpartition("-")[2]))
    assert orders != [ordered, ordered] and orders != [ordered[::-1], ordered[::-1]]


def test_f2_scale_in_is_reported_done_while_the_pods_still_stop(service: Service) -> None:
    prepared(service, 3, annotations={"fake/stop-after": "8s"})
    service.scale(1)
    service.wait_complete(1, timeout=6)
    assert len(service.all(PODS)) == 3
    wait_for(lambda: set(service.all(PODS)) == {"vllm-0-prefill-0-0"}, 15, "surplus pods gone")


def test_f2_out_and_in_again_at_once_ends_well(service: Service) -> None:
    prepared(service, 3, annotations={"fake/stop-after": "2s"})
    service.scale(1)
    time.sleep(0.4)
    service.scale(3)
    service.wait_complete(3)
    assert set(service.all(STATEFUL_SETS)) == {f"vllm-0-prefill-{index}" for index in range(3)}


def test_f2_live_workloads_keep_their_template_and_new_ones_get_the_new(service: Service) -> None:
    prepared(service, 1)
    old = service.all(STATEFUL_SETS)["vllm-0-prefill-0"]["metadata"]
    service.patch("spec/template/spec/containers/0/image", "registry.example/motor:2")
    service.patch("metadata", {"labels": {"late": "label"}}, op="add")
    service.scale(2)
    service.wait_complete(2)
    sets = service.all(STATEFUL_SETS)
    images = [sets[f"vllm-0-prefill-{index}"]["spec"]["template"]["spec"]["containers"][0]["image"] for index in (0, 1)]
    assert images == ["registry.example/motor:1", "registry.example/motor:2"]
    new = sets["vllm-0-prefill-0"]["metadata"]
    assert (new["uid"], new["generation"]) == (old["uid"], old["generation"])
    # The role's metadata reach the InstanceSet at its creation only.
    assert "late" not in labels_of(service.get(objects.INSTANCE_SETS, "vllm-0-prefill") or {})


def test_f2_deleted_workload_comes_back_under_its_index(service: Service, client: KubeClient) -> None:
    prepared(service, 3)
    old = service.all(STATEFUL_SETS)["vllm-0-prefill-1"]["metadata"]["uid"]
    client.delete(STATEFUL_SETS, service.namespace, "vllm-0-prefill-1")
    wait_for(
        lambda: (service.get(STATEFUL_SETS, "vllm-0-prefill-1") or {"metadata": {"uid": old}})["metadata"]["uid"] != old,
        10,
        "created again",
    )
    service.wait_complete(3)


def test_f2_scale_subresource_without_a_policy_is_reverted(service: Service, client: KubeClient) -> None:
    prepared(service, 2)
    before = (service.get(objects.INSTANCE_SETS, "vllm-0-prefill") or {})["metadata"]["generation"]
    body = {"spec": {"replicas": 3}}
    client.patch(objects.INSTANCE_SETS, service.namespace, "vllm-0-prefill", body, subresource="scale")

    def reverted() -> bool:
        found = service.get(objects.INSTANCE_SETS, "vllm-0-prefill") or {}
        return found["spec"]["replicas"] == 2 and found["metadata"]["generation"] == before + 2

    wait_for(reverted, 10, "spec.replicas is 2 again, two generations later")
    service.wait_complete(2)
    wait_for(lambda: len(service.all(STATEFUL_SETS)) == 2, 10, "two workloads")


def test_f2_unchanged_roles_and_annotations_disturb_nothing(service: Service, client: KubeClient) -> None:
    service.create(role("prefill", 1), role("decode", 1))
    service.wait_complete(1, "prefill")
    service.wait_complete(1, "decode")
    body = {"metadata": {"annotations": {"touched": "yes"}}}
    client.patch(objects.INFER_SERVICE_SETS, service.namespace, "vllm", body)
    service.scale(2)
    service.wait_complete(2, "prefill")
    generations = {name: row["metadata"]["generation"] for name, row in service.all(objects.INSTANCE_SETS).items()}
    assert generations == {"vllm-0-prefill": 2, "vllm-0-decode": 1}


def test_f3_pods_of_a_dead_node_are_removed_by_force(service: Service, cluster: Cluster, client: KubeClient) -> None:
    prepared(service, 1, npus=16)
    pod = service.all(PODS)["vllm-0-prefill-0-0"]
    node = pod["spec"]["nodeName"]
    client.patch(NODES, "", node, {"metadata": {"labels": {"fake/managed": None}}})
    try:

        def elsewhere() -> bool:
            found = service.get(PODS, "vllm-0-prefill-0-0")
            return bool(found and found["metadata"]["uid"] != pod["metadata"]["uid"] and is_ready(found))

        wait_for(elsewhere, 40, "pod runs on another node")
        assert service.all(PODS)["vllm-0-prefill-0-0"]["spec"]["nodeName"] != node
        service.wait_complete(1)
    finally:
        client.patch(NODES, "", node, {"metadata": {"labels": {"fake/managed": "true"}}})
        wait_for(lambda: is_ready(client.get(NODES, "", node) or {}), 20, "node is back")


def test_f3_created_again_at_once_ends_ready(service: Service, client: KubeClient) -> None:
    prepared(service, 2)
    old = (service.get(objects.INFER_SERVICES, "vllm-0") or {})["metadata"]["uid"]
    client.delete(objects.INFER_SERVICE_SETS, service.namespace, "vllm")
    service.create(role("prefill", 2))
    wait_for(
        lambda: (service.get(objects.INFER_SERVICES, "vllm-0") or {"metadata": {"uid": old}})["metadata"]["uid"] != old,
        20,
        "a new InferService",
    )
    service.wait_complete(2, timeout=30)


def test_f3_foreground_deletion_leaves_nothing(service: Service, client: KubeClient) -> None:
    service.create(role("prefill", 2), role("controller", 1, kind="Deployment", services=[{"name": "m", "spec": HTTP}]))
    service.wait_complete(2)
    client.delete(objects.INFER_SERVICE_SETS, service.namespace, "vllm", propagationPolicy="Foreground")
    wait_for(lambda: service.get(objects.INFER_SERVICE_SETS, "vllm") is None, 20, "the set is gone")
    for resource in (objects.INFER_SERVICES, objects.INSTANCE_SETS, STATEFUL_SETS, DEPLOYMENTS, SERVICES, PODS):
        assert service.all(resource) == {}, resource.kind


def hpa(low: Any, high: Any) -> Obj:
    metric = {
        "type": "External",
        "external": {
            "metric": {"name": "num_requests_waiting"},
            "target": {"type": "AverageValue", "averageValue": "5"},
        },
    }
    return {"type": "HPA", "spec": {"minReplicas": low, "maxReplicas": high, "metrics": [metric]}}


def test_g_policy_makes_an_autoscaler_and_the_count_of_the_role_no_longer_matters(service: Service) -> None:
    prepared(service, 2)
    service.patch("scalingPolicy", hpa(2, 4), op="add")
    made: Obj = wait_for(lambda: service.get(AUTOSCALERS, "vllm-0-prefill-scaler"), 10, "an autoscaler")
    target = {"apiVersion": objects.GROUP_VERSION, "kind": "InstanceSet", "name": "vllm-0-prefill"}
    assert (made["spec"]["scaleTargetRef"], owner_of(made)) == (target, ("InstanceSet", "vllm-0-prefill"))
    selector = made["spec"]["metrics"][0]["external"]["metric"]["selector"]["matchLabels"]
    assert selector == {
        objects.SERVICE_NAME: "vllm-0",
        objects.SET_NAME: "vllm",
        objects.PREFIX + "role-name": "prefill",
    }
    wanted = {"type": "HPA", "name": "vllm-0-prefill-scaler", "ready": True, "message": "HPA created successfully"}

    def told() -> bool:
        found = service.get(objects.INSTANCE_SETS, "vllm-0-prefill") or {}
        return bool(found["status"].get("scalingResourceStatus") == wanted)

    wait_for(told, 10, "scalingResourceStatus")

    def scalable() -> bool:
        """The autoscaler's controller finds the scale subresource and the selector of the InstanceSet's status."""
        conditions = (service.get(AUTOSCALERS, "vllm-0-prefill-scaler") or {}).get("status", {}).get("conditions", [])
        return any(row["type"] == "AbleToScale" and row["status"] == "True" for row in conditions)

    wait_for(scalable, 20, "the autoscaler is able to scale")
    service.scale(3)
    time.sleep(1.5)
    assert (service.get(objects.INSTANCE_SETS, "vllm-0-prefill") or {})["spec"]["replicas"] == 2
    service.patch("scalingPolicy", None, op="remove")
    wait_for(lambda: service.get(AUTOSCALERS, "vllm-0-prefill-scaler") is None, 10, "no autoscaler")
    service.wait_complete(3)


def test_g_count_follows_the_scale_subresource_under_a_policy(service: Service, client: KubeClient) -> None:
    service.create(role("prefill", 1, scalingPolicy=hpa(1, 4)))
    service.wait_complete(1)
    body = {"spec": {"replicas": 3}}
    client.patch(objects.INSTANCE_SETS, service.namespace, "vllm-0-prefill", body, subresource="scale")
    service.wait_complete(3)


def test_g_hand_edits_of_the_autoscaler_are_reverted(service: Service, client: KubeClient) -> None:
    service.create(role("prefill", 1, scalingPolicy=hpa(1, 4)))
    wait_for(lambda: service.get(AUTOSCALERS, "vllm-0-prefill-scaler"), 10, "an autoscaler")
    client.patch(AUTOSCALERS, service.namespace, "vllm-0-prefill-scaler", {"spec": {"maxReplicas": 9}})

    def reverted() -> bool:
        return bool((service.get(AUTOSCALERS, "vllm-0-prefill-scaler") or {})["spec"]["maxReplicas"] == 4)

    wait_for(reverted, 10, "maxReplicas is 4 again")


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"type": "KEDA", "spec": {}}, "unsupported scaling policy type: KEDA"),
        (hpa("two", 4), "failed to unmarshal HPA spec"),
    ],
)
def test_g_bad_policy_shows_in_the_status_alone(service: Service, policy: Obj, message: str) -> None:
    service.create(role("prefill", 1, scalingPolicy=policy))
    service.wait_complete(1)
    found = (service.get(objects.INSTANCE_SETS, "vllm-0-prefill") or {})["status"]["scalingResourceStatus"]
    assert found["message"].startswith(message) and not found.get("ready")
    assert service.get(AUTOSCALERS, "vllm-0-prefill-scaler") is None


def test_g_impossible_range_is_an_event_and_the_status_keeps_its_text(service: Service) -> None:
    service.create(role("prefill", 1, scalingPolicy=hpa(1, 4)))
    service.wait_complete(1)
    service.patch("scalingPolicy", hpa(4, 2))
    wait_for(lambda: service.events("ScalingResourceReconcileError"), 10, "a Warning event")
    found = (service.get(objects.INSTANCE_SETS, "vllm-0-prefill") or {})["status"]["scalingResourceStatus"]
    assert (found["ready"], found["message"]) == (True, "HPA created successfully")


def test_k_strict_validation_names_each_unknown_field_without_a_write(service: Service, client: KubeClient) -> None:
    body = {
        "apiVersion": objects.GROUP_VERSION,
        "kind": "InferServiceSet",
        "metadata": {"name": "vllm", "namespace": service.namespace},
        "spec": {"template": {"roles": [{"name": "prefill", "priorty": 1}], "schedulingStrategi": {}}},
    }
    path = objects.INFER_SERVICE_SETS.path(service.namespace) + "?dryRun=All&fieldValidation=Strict"
    with pytest.raises(KubeError) as refused:
        client.request("POST", path, body)
    assert refused.value.status == 400
    assert "priorty" in refused.value.message and "schedulingStrategi" in refused.value.message
    assert service.get(objects.INFER_SERVICE_SETS, "vllm") is None


def test_k_lower_priority_starts_when_the_higher_is_ready(service: Service) -> None:
    decode = role("decode", 1, priority=1, annotations={"fake/ready-after": "2s"})
    with Recorder(service, objects.INSTANCE_SETS, STATEFUL_SETS) as seen:
        service.create(role("prefill", 1, priority=2), decode, strategy="Priority")
        service.wait_complete(1, "prefill")
    ready = seen.first(lambda kind, name, obj: name == "vllm-0-decode" and obj is not None and is_ready(obj))
    assert ready < seen.first(lambda kind, name, obj: name == "vllm-0-prefill-0")
    service.scale(2)
    service.wait_complete(2, "prefill")


def test_k_priority_33_is_never_started(service: Service) -> None:
    service.create(role("prefill", 1, priority=33), role("decode", 1, priority=1), strategy="Priority")
    service.wait_complete(1, "decode")
    time.sleep(2.5)
    assert set(service.all(STATEFUL_SETS)) == {"vllm-0-decode-0"}


def test_k_set_of_65_has_no_child_and_no_status(service: Service) -> None:
    service.create(role("prefill", 1), replicas=65)
    time.sleep(1)
    assert service.all(objects.INFER_SERVICES) == {}
    assert "status" not in (service.get(objects.INFER_SERVICE_SETS, "vllm") or {})


def test_k_role_without_a_count_is_an_event_of_its_instance_set(service: Service) -> None:
    service.create(role("prefill", None))
    wait_for(lambda: service.events("ValidateError"), 10, "a Warning event")
    (event,) = service.events("ValidateError")
    assert event["message"] == "jobSpec is not valid: replicas cannot be nil"
    assert event["involvedObject"]["name"] == "vllm-0-prefill"
    assert service.all(STATEFUL_SETS) == {}


GANG = {"labels": {objects.GANG: "true"}}


def test_m_gang_scheduled_instances_have_a_pod_group_each(service: Service) -> None:
    prepared(service, 2, metadata=GANG)
    groups = service.all(POD_GROUPS)
    assert {name: row["spec"]["minMember"] for name, row in groups.items()} == {
        "pg-vllm-0-prefill-0": 1,
        "pg-vllm-0-prefill-1": 1,
    }
    pod = service.all(PODS)["vllm-0-prefill-1-0"]
    assert pod["metadata"]["annotations"][objects.GROUP_NAME] == "pg-vllm-0-prefill-1"


def test_m_instances_that_were_scaled_in_flap_when_they_come_back(service: Service) -> None:
    service.create(role("prefill", 6, metadata=GANG), **{"fake/flap": "true"})
    service.wait_complete(6)
    service.scale(1)
    service.wait_complete(1)
    service.scale(6)
    service.wait_complete(6)
    first = {row["metadata"]["uid"] for row in service.all(STATEFUL_SETS).values()}
    wait_for(lambda: list(service.all(STATEFUL_SETS)) == ["vllm-0-prefill-0"], 10, "all but one torn down")
    wait_for(lambda: len(service.all(STATEFUL_SETS)) == 6, 10, "all are back")
    time.sleep(4)
    service.wait_complete(6)
    last = {row["metadata"]["uid"] for row in service.all(STATEFUL_SETS).values()}
    assert len(first & last) == 1
