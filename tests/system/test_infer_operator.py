# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in for the Infer Operator does what the real one was seen to do: objects, scaling, failures, deletion.

Each test reproduces one row of what was measured with the real operator on a real control plane: f1 and f2 objects and
scaling, f3 failures and deletion. Orders and final states are asserted; times are not, but for what must not be seen
before something else.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

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
    KubeClient,
    KubeError,
    Obj,
    wait_for,
)
from tests.support.infer_services import NPU, Recorder, Service, labels_of, owner_of, prepared, role

HTTP = {"ports": [{"port": 1026, "targetPort": 1026}], "selector": {"app": "controller"}}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(infer_operator=True) as running:
        yield running


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> KubeClient:
    return KubeClient.from_kubeconfig(cluster.kubeconfig)


@pytest.fixture
def service(client: KubeClient) -> Iterator[Service]:
    made = Service(client)
    yield made
    with contextlib.suppress(KubeError):
        client.delete(objects.INFER_SERVICE_SETS, made.namespace, "vllm")


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
    for dummy in range(2):
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
        return bool(found["spec"]["replicas"] == 2 and found["metadata"]["generation"] == before + 2)

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
