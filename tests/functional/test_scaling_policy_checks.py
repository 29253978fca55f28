# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a scaling policy is refused for, before anything is written, and what is accepted the API server takes as an autoscaler."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.ascend.mindie.plugins.module_utils._motor import load_metrics, policy_reader, scaling_policy
from ansible_collections.ascend.mindie.plugins.module_utils._motor.compare import differences
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError
from tests.cluster import Cluster
from tests.cluster.kube_client import wait_for
from tests.functional.conftest import QUICK, Driver
from tests.functional.policies import MODULE, QUEUE, SCALERS, SETS, off, policy
from tests.functional.test_modules import succeeded
from tests.functional.test_owners import scaler

CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/inferservicesets.mindcluster.huawei.com"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster of its own, whose CRD may be made older."""
    with Cluster(a3_nodes=60, cpu_nodes=1, infer_operator=True) as running:
        yield running


def test_what_cannot_be_scaled_by_load_is_refused_before_anything_is_written(driver: Driver) -> None:
    succeeded(driver.deploy())
    if driver.backend == "deployments":
        refused = policy(driver, prefill=QUEUE)
        assert refused["reason"] == "NotAutoscalable" and "deployments" in refused["msg"]
        assert not succeeded(off(driver))["changed"]
    else:
        refused = policy(driver, union=QUEUE)
        assert refused["reason"] == "NoSuchRole" and "it has: prefill, decode" in refused["msg"]
    assert driver.proxy.mutating() == []


@pytest.mark.parametrize(
    ("policies", "reason"),
    [
        ({"prefill": {**QUEUE, "min": 7}}, "MinAboveMax"),
        ({"prefill": {**QUEUE, "min": "1"}}, "InvalidInput"),
        (
            {"prefill": {"min": 1, "max": 4, "metrics": [{"name": "kv_cache_usage_perc", "target": 0.8, "target_type": "AverageValue"}]}},
            "WrongTargetType",
        ),
        ({"prefill": {"min": 1, "max": 4, "metrics": [{"name": "queue", "target": 1}]}}, "UnknownMetric"),
        ({}, "InvalidInput"),
        ({"router": QUEUE}, None),
        ({"coordinator": QUEUE}, None),
        ({"prefill": {**QUEUE, "type": "KEDA"}}, None),
    ],
)
def test_a_policy_that_is_wrong_is_refused_before_a_connection_is_opened(
    on_set: Driver, policies: dict[str, Any], reason: str | None
) -> None:
    refused = on_set.run(MODULE, namespace=on_set.namespace, policies=policies)
    assert refused["failed"] and refused.get("reason") == reason and not on_set.proxy.requests


def test_there_is_no_policy_without_a_service(on_set: Driver) -> None:
    assert policy(on_set, prefill=QUEUE)["reason"] == "NotDeployed"
    assert off(on_set)["reason"] == "NotDeployed"


def test_a_cluster_that_drops_policies_without_a_word_is_found_out_before_anything_is_written(on_set: Driver) -> None:
    """As MindCluster 26.0: the API server prunes what the CRD does not have, and says 200."""
    driver = on_set
    succeeded(driver.deploy())
    crd = driver.cluster.get(CRD)
    older = copy.deepcopy(crd)
    for version in older["spec"]["versions"]:
        roles = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["template"]["properties"]["roles"]
        del roles["items"]["properties"]["scalingPolicy"]
    del older["metadata"]["resourceVersion"]
    try:
        _replace_crd(driver, older, known=False)
        refused = policy(driver, prefill=QUEUE)
        assert refused["reason"] == "PolicyUnknown" and "26.1" in refused["msg"] and driver.proxy.mutating() == []
    finally:
        del crd["metadata"]["resourceVersion"]
        _replace_crd(driver, crd, known=True)
    assert succeeded(policy(driver, prefill=QUEUE))["changed"]


def _replace_crd(driver: Driver, crd: dict[str, Any], *, known: bool) -> None:
    patch = {"spec": {"versions": crd["spec"]["versions"]}}
    assert driver.cluster.request("PATCH", CRD, patch, content_type="application/merge-patch+json")[0] == 200
    path = f"/openapi/v3/apis/{SETS}"

    def published() -> bool:
        schemas = driver.cluster.get(path)["components"]["schemas"]
        return ("scalingPolicy" in json.dumps(schemas["com.huawei.mindcluster.v1.InferServiceSet"])) == known

    wait_for(published, 30, "the schema is published")


def test_a_cluster_without_autoscaling_v2_is_found_out_before_anything_is_written(on_set: Driver) -> None:
    driver = on_set
    succeeded(driver.deploy())
    driver.proxy.clear()
    driver.proxy.fault(path=f"/apis/{SCALERS}/", status=404, plain=True)
    try:
        refused = driver.run(MODULE, namespace=driver.namespace, policies={"prefill": QUEUE}, **QUICK)
    finally:
        driver.proxy.heal()
    assert refused["reason"] == "AutoscalingMissing" and driver.proxy.mutating() == []


def test_more_instances_than_npus_are_refused_unless_that_is_not_asked(on_set: Driver) -> None:
    """60 servers of 16 NPUs, and instances of four whole ones."""
    driver = on_set
    driver.config["motor_deploy_config"].update(single_p_instance_pod_num=4)
    succeeded(driver.deploy())
    policies = {"prefill": {**QUEUE, "max": 16}, "decode": {**QUEUE, "max": 16}}
    refused = policy(driver, **policies)
    assert refused["reason"] == "TooFewNpus" and driver.proxy.mutating() == []
    assert "prefill: 14 more of 4 x 16 NPUs" in refused["msg"] and "decode: 15 more of 1 x 16 NPUs" in refused["msg"]
    succeeded(policy(driver, **policies, check_capacity=False))


def test_who_may_not_read_nodes_is_told_that_room_was_not_checked(on_set: Driver) -> None:
    driver = on_set
    succeeded(driver.deploy())
    driver.proxy.clear()
    driver.proxy.fault(path="/api/v1/nodes", status=403)
    done = succeeded(driver.run(MODULE, namespace=driver.namespace, policies={"prefill": {**QUEUE, "max": 16}}, **QUICK))
    driver.proxy.heal()
    assert any("was not checked" in warning for warning in done["warnings"])


def test_a_value_is_refused_where_an_instance_has_several_pods(on_set: Driver) -> None:
    """The real HPA counts pods there: see the tests of the Infer Operator's stand-in."""
    driver = on_set
    driver.config["motor_deploy_config"].update(single_p_instance_pod_num=2)
    succeeded(driver.deploy())
    refused = policy(driver, prefill={**QUEUE, "preset": "latency"})
    assert refused["reason"] == "WrongTargetType" and "ceil(4 x 0.75) = 3 instances" in refused["msg"] and driver.proxy.mutating() == []
    succeeded(policy(driver, prefill={**QUEUE, "preset": "cache"}))


def test_another_autoscaler_of_the_instances_is_refused(on_set: Driver) -> None:
    driver = on_set
    succeeded(driver.deploy())
    scaler(driver, {"apiVersion": SETS, "kind": "InstanceSet", "name": "vllm-0-prefill"}, low=2)
    refused = policy(driver, prefill=QUEUE)
    assert refused["reason"] == "CountOwned" and "HorizontalPodAutoscaler by-load scales InstanceSet vllm-0-prefill" in refused["msg"]
    assert driver.proxy.mutating() == []


_NAMES = st.sampled_from(sorted(load_metrics.METRICS))
_TARGETS = st.one_of(
    st.integers(1, 10**12),
    st.integers(1, 10**15).map(lambda thousandths: f"{thousandths}m"),
    st.decimals("0.001", "100000", places=3, allow_nan=False).map(str),
    st.sampled_from(["1k", "0.5k", "2M", 0.8, 0.05, "1e3"]),
)
_STEPS = st.fixed_dictionaries(
    {"type": st.sampled_from(["Pods", "Percent"]), "value": st.integers(1, 1000), "period": st.integers(1, 1800)}
)
_PACES = st.fixed_dictionaries(
    {},
    optional={"window": st.integers(0, 3600), "steps": st.lists(_STEPS, max_size=3), "select": st.sampled_from(["Max", "Min", "Disabled"])},
)
_FOREIGN = st.fixed_dictionaries(
    {
        "name": st.from_regex(r"[a-z]([a-z0-9_:.-]{0,40}[a-z0-9])?", fullmatch=True),
        "target": _TARGETS,
        "target_type": st.sampled_from(["Value", "AverageValue"]),
        "foreign": st.just(True),
    }
)
_METRICS = st.lists(st.one_of(st.fixed_dictionaries({"name": _NAMES, "target": _TARGETS}), _FOREIGN), min_size=1, max_size=4)
_POLICIES = st.fixed_dictionaries(
    {"limits": st.lists(st.integers(1, 16), min_size=2, max_size=2).map(sorted), "metrics": _METRICS},
    optional={"preset": st.sampled_from(["queue", "cache", "latency", "throughput"]), "scale_out": _PACES, "scale_in": _PACES},
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=_POLICIES, role=st.sampled_from(scaling_policy.AUTOSCALED))
def test_whatever_is_accepted_the_api_server_takes_as_an_autoscaler(cluster: Cluster, data: dict[str, Any], role: str) -> None:
    low, high = data["limits"]
    data = {**{key: value for key, value in data.items() if key != "limits"}, "min": low, "max": high}
    refusal = None
    try:
        policies = policy_reader.read_policies({role: data})
    except InputError as error:
        refusal = error
    if refusal:
        assert refusal.path.startswith(f"policies.{role}") and ("twice" in refusal.message or "no target" in refusal.message)
        return
    made = policies[role].scaling_policy()
    assert made["type"] == "HPA" and 1 <= made["spec"]["minReplicas"] <= made["spec"]["maxReplicas"] <= 16
    assert scaling_policy.limits(made) == (low, high)
    for spec in (made["spec"], scaling_policy.frozen(made, low)["spec"]):
        target = {"apiVersion": SETS, "kind": "InstanceSet", "name": f"vllm-0-{role}"}
        body = {
            "apiVersion": SCALERS,
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "any"},
            "spec": {**spec, "scaleTargetRef": target},
        }
        path = f"/apis/{SCALERS}/namespaces/default/horizontalpodautoscalers?dryRun=All&fieldValidation=Strict"
        status, answer = cluster.request("POST", path, body)
        assert status == 201, answer
        assert not differences(scaling_policy.normal(spec), scaling_policy.normal(answer["spec"])), "it is stored as it was written"
