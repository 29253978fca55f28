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
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.cluster.infer_operator import objects
from tests.cluster.infer_operator.status import is_ready
from tests.cluster.kube_client import EVENTS, PODS, STATEFUL_SETS, KubeClient, KubeError, Obj, wait_for
from tests.support.external_metrics import ExternalMetrics
from tests.support.infer_services import AUTOSCALERS, Recorder, Service, hpa, owner_of, prepared, role

SCALER = "vllm-0-prefill-scaler"
METRIC = "num_requests_waiting"
ROLE = objects.PREFIX + "role-name"
KINDS = ("InferServiceSet", "InferService", "InstanceSet")
# Seconds between two passes of the autoscalers' controller.
PERIOD = 2.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(infer_operator=True, egress=True) as running:
        yield running


@pytest.fixture(scope="module")
def metrics(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExternalMetrics]:
    """Served until all tests of this file are done."""
    directory: Path = tmp_path_factory.mktemp("metrics")
    with ExternalMetrics(cluster, directory) as serving:
        yield serving


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> KubeClient:
    return KubeClient.from_kubeconfig(cluster.kubeconfig)


@pytest.fixture
def service(client: KubeClient) -> Iterator[Service]:
    made = Service(client)
    yield made
    with contextlib.suppress(KubeError):
        client.delete(objects.INFER_SERVICE_SETS, made.namespace, "vllm")


def scaling_status(service: Service) -> Obj:
    found = service.get(objects.INSTANCE_SETS, "vllm-0-prefill") or {}
    status: Obj = found.get("status", {}).get("scalingResourceStatus") or {}
    return status


def condition(service: Service, kind: str) -> tuple[str, str, str]:
    """Status, reason and message of a condition of the autoscaler."""
    conditions = (service.get(AUTOSCALERS, SCALER) or {}).get("status", {}).get("conditions") or []
    return next(((row["status"], row["reason"], row["message"]) for row in conditions if row["type"] == kind), ("", "", ""))


def uids(service: Service) -> dict[str, str]:
    return {name: row["metadata"]["uid"] for name, row in service.all(STATEFUL_SETS).items()}


def steady(service: Service, count: int, *, seconds: float) -> None:
    """The count stays what it is."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        assert (service.get(objects.INSTANCE_SETS, "vllm-0-prefill") or {})["spec"]["replicas"] == count
        time.sleep(0.2)


def followed(service: Service, metrics: ExternalMetrics, count: int, value: str, *, low: int = 1) -> None:
    """A role with a policy (AverageValue 5, at most 4 instances), of which HPA has read the value, and whose count is settled."""
    metrics.set(service.namespace, "prefill", METRIC, value)
    service.create(role("prefill", count, scalingPolicy=hpa(low, 4)))
    service.wait_complete(count)
    wait_for(lambda: condition(service, "ScalingActive")[:2] == ("True", "ValidMetricFound"), 20, "HPA has the value")


def test_g_policy_makes_an_autoscaler_and_touches_no_count(service: Service) -> None:
    prepared(service, 2)
    before = uids(service)
    service.patch("scalingPolicy", hpa(1, 4), op="add")
    made: Obj = wait_for(lambda: service.get(AUTOSCALERS, SCALER), 10, "an autoscaler")
    target = {"apiVersion": objects.GROUP_VERSION, "kind": "InstanceSet", "name": "vllm-0-prefill"}
    assert (made["spec"]["scaleTargetRef"], owner_of(made)) == (target, ("InstanceSet", "vllm-0-prefill"))
    wanted = {"type": "HPA", "name": SCALER, "ready": True, "message": "HPA created successfully"}
    wait_for(lambda: scaling_status(service) == wanted, 10, "scalingResourceStatus")
    assert made["metadata"]["labels"][objects.PREFIX + "scaling-owned-by"] == "vllm-0-prefill"
    assert made["metadata"]["labels"][objects.MANAGED] == ""
    steady(service, 2, seconds=2 * PERIOD)
    assert uids(service) == before


def test_g_target_of_a_policy_is_overwritten_and_a_selector_of_its_own_is_kept(service: Service) -> None:
    policy = hpa(1, 4)
    policy["spec"]["scaleTargetRef"] = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}
    policy["spec"]["metrics"][0]["external"]["metric"]["selector"] = {"matchLabels": {ROLE: "mine"}}
    service.create(role("prefill", 1, scalingPolicy=policy))
    made: Obj = wait_for(lambda: service.get(AUTOSCALERS, SCALER), 10, "an autoscaler")
    assert made["spec"]["scaleTargetRef"]["kind"] == "InstanceSet"
    labels = made["spec"]["metrics"][0]["external"]["metric"]["selector"]["matchLabels"]
    assert labels == {objects.SERVICE_NAME: "vllm-0", objects.SET_NAME: "vllm", ROLE: "mine"}


def test_g_hpa_asks_for_the_metric_with_the_selectors_of_service_set_and_role(service: Service, metrics: ExternalMetrics) -> None:
    service.create(role("prefill", 1, scalingPolicy=hpa(1, 4)))
    selector = f"{objects.SERVICE_NAME}=vllm-0,{objects.SET_NAME}=vllm,{ROLE}=prefill"
    wait_for(lambda: (service.namespace, METRIC, selector) in metrics.asked, 20, "a query")


def test_g_metric_that_rises_scales_out_and_one_that_falls_scales_in(service: Service, metrics: ExternalMetrics) -> None:
    """AverageValue 5: 10 requests are two instances, 20 are four, 5 are one."""
    followed(service, metrics, 2, "10")
    metrics.set(service.namespace, "prefill", METRIC, "20")
    service.wait_complete(4)
    metrics.set(service.namespace, "prefill", METRIC, "5")
    service.wait_complete(1)


def test_g_count_of_the_role_is_accepted_and_ignored_without_an_event(service: Service, metrics: ExternalMetrics) -> None:
    followed(service, metrics, 1, "5")
    service.scale(3)
    steady(service, 1, seconds=8)
    assert (service.get(objects.INFER_SERVICE_SETS, "vllm") or {})["spec"]["template"]["roles"][0]["replicas"] == 3
    told = [row["reason"] for row in service.all(EVENTS).values() if row["involvedObject"]["kind"] in KINDS and row["type"] == "Warning"]
    assert not told


def test_g_scale_subresource_is_obeyed_and_its_instances_killed_by_hpa(service: Service, metrics: ExternalMetrics) -> None:
    followed(service, metrics, 1, "5")
    with Recorder(service, STATEFUL_SETS) as seen:
        service.client.patch(objects.INSTANCE_SETS, service.namespace, "vllm-0-prefill", {"spec": {"replicas": 4}}, subresource="scale")
        wait_for(lambda: len({name for dummy, name, obj in seen.rows if obj}) == 3, 10, "three instances are started")
        service.wait_complete(1)
        wait_for(lambda: sorted(set(seen.gone("StatefulSet"))) == [f"vllm-0-prefill-{index}" for index in (1, 2, 3)], 10, "they are gone")


def test_g_count_follows_the_scale_subresource_while_the_metric_has_no_value(service: Service, client: KubeClient) -> None:
    service.create(role("prefill", 1, scalingPolicy=hpa(1, 4)))
    service.wait_complete(1)
    client.patch(objects.INSTANCE_SETS, service.namespace, "vllm-0-prefill", {"spec": {"replicas": 3}}, subresource="scale")
    service.wait_complete(3)


def test_g_minimum_that_is_raised_scales(service: Service, metrics: ExternalMetrics) -> None:
    """The way to scale by hand under a policy."""
    followed(service, metrics, 1, "5")
    service.patch("scalingPolicy/spec/minReplicas", 2)
    wait_for(lambda: (service.get(AUTOSCALERS, SCALER) or {})["spec"]["minReplicas"] == 2, 10, "the autoscaler is changed")
    service.wait_complete(2)


def test_g_hand_edits_of_the_autoscaler_are_reverted(service: Service, client: KubeClient) -> None:
    service.create(role("prefill", 1, scalingPolicy=hpa(1, 4)))
    wait_for(lambda: service.get(AUTOSCALERS, SCALER), 10, "an autoscaler")
    client.patch(AUTOSCALERS, service.namespace, SCALER, {"spec": {"maxReplicas": 9}})
    wait_for(lambda: (service.get(AUTOSCALERS, SCALER) or {})["spec"]["maxReplicas"] == 4, 10, "maxReplicas is 4 again")


def test_g_metric_of_zero_stays_at_the_minimum(service: Service, metrics: ExternalMetrics) -> None:
    followed(service, metrics, 2, "0", low=2)
    steady(service, 2, seconds=4 * PERIOD)


def test_g_metric_without_a_value_keeps_the_count(service: Service, metrics: ExternalMetrics) -> None:
    followed(service, metrics, 2, "10")
    metrics.set(service.namespace, "prefill", METRIC, None)
    wait_for(lambda: condition(service, "ScalingActive")[:2] == ("False", "FailedGetExternalMetric"), 20, "HPA says that it has no value")
    steady(service, 2, seconds=8)


def test_g_unsupported_type_keeps_the_autoscaler_and_it_fights_with_the_count_of_the_role(
    service: Service, metrics: ExternalMetrics
) -> None:
    """HPA wants two, the role three: an instance is made and killed in every period, until the policy is corrected."""
    followed(service, metrics, 2, "10")
    service.scale(3)
    with Recorder(service, STATEFUL_SETS) as seen:
        service.patch("scalingPolicy/type", "KEDA")
        wait_for(lambda: seen.gone("StatefulSet").count("vllm-0-prefill-2") >= 3, 30, "the third instance was killed three times")
    assert scaling_status(service) == {"type": "KEDA", "message": "unsupported scaling policy type: KEDA"}
    assert service.get(AUTOSCALERS, SCALER) is not None
    service.patch("scalingPolicy/type", "HPA")
    service.wait_complete(2)
    steady(service, 2, seconds=2 * PERIOD)


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
    found = scaling_status(service)
    assert found["message"].startswith(message) and not found.get("ready")
    assert service.get(AUTOSCALERS, SCALER) is None


def test_g_minimum_that_is_no_number_keeps_the_old_autoscaler(service: Service, metrics: ExternalMetrics) -> None:
    followed(service, metrics, 2, "10")
    service.patch("scalingPolicy", hpa("two", 4))
    wait_for(lambda: "failed to unmarshal" in scaling_status(service)["message"], 10, "the status says so")
    assert "ready" not in scaling_status(service)
    assert (service.get(AUTOSCALERS, SCALER) or {})["spec"]["minReplicas"] == 1
    metrics.set(service.namespace, "prefill", METRIC, "15")
    service.wait_complete(3)


def test_g_impossible_range_is_an_event_and_the_status_keeps_its_text(service: Service) -> None:
    service.create(role("prefill", 1, scalingPolicy=hpa(1, 4)))
    service.wait_complete(1)
    service.patch("scalingPolicy", hpa(4, 2))
    wait_for(lambda: service.events("ScalingResourceReconcileError"), 10, "a Warning event")
    found = scaling_status(service)
    assert (found["ready"], found["message"]) == (True, "HPA created successfully")
    assert (service.get(AUTOSCALERS, SCALER) or {})["spec"]["maxReplicas"] == 4


def test_g_policy_that_is_removed_lets_the_count_snap_to_that_of_the_role(service: Service, metrics: ExternalMetrics) -> None:
    followed(service, metrics, 2, "10")
    service.scale(3)
    steady(service, 2, seconds=PERIOD)
    service.patch("scalingPolicy", None, op="remove")
    wait_for(lambda: service.get(AUTOSCALERS, SCALER) is None, 10, "no autoscaler")
    service.wait_complete(3)
    wait_for(lambda: scaling_status(service) == {}, 10, "the status says nothing of it")


def test_g_target_value_counts_pods_and_not_instances(service: Service, metrics: ExternalMetrics) -> None:
    """An instance has two pods. At 3/4 of the target HPA wants ceil(2 pods x 0.75) = 2 instances, and then ceil(4 x 0.75) = 3: it scales out,
    though there is too much already.
    """
    policy = hpa(1, 3)
    policy["spec"]["metrics"][0]["external"]["target"] = {"type": "Value", "value": "1"}
    metrics.set(service.namespace, "prefill", METRIC, "750m")
    two_pods = role("prefill", 1, scalingPolicy=policy)
    two_pods["spec"]["replicas"] = 2
    service.create(two_pods)
    service.wait_complete(3)


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
