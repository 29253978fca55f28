# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in for the Infer Operator does what the real one was seen to do: autoscaling, validation, priorities, gangs.

Each test reproduces one row of what was measured with the real operator on a real control plane: g autoscaling,
k validation and priorities, m instances that come and go.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

from tests.cluster import Cluster
from tests.cluster.infer_operator import objects
from tests.cluster.infer_operator.status import is_ready
from tests.cluster.kube_client import PODS, STATEFUL_SETS, KubeClient, KubeError, Obj, wait_for
from tests.support.infer_services import AUTOSCALERS, Recorder, Service, hpa, owner_of, prepared, role


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
    groups = service.all(objects.POD_GROUPS)
    assert {name: row["spec"]["minMember"] for name, row in groups.items()} == {
        "pg-vllm-0-prefill-0": 1,
        "pg-vllm-0-prefill-1": 1,
    }
    pod = service.all(PODS)["vllm-0-prefill-1-0"]
    assert pod["metadata"]["annotations"][objects.GROUP_NAME] == "pg-vllm-0-prefill-1"


def test_m_instances_that_were_scaled_in_flap_when_they_come_back(service: Service) -> None:
    service.create(role("prefill", 6, metadata=GANG), annotations={"fake/flap": "true"})
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
