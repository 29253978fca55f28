# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scaling policies by the real module, with the real HPA controller, and metrics whose values each test sets."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import policy_reader, scaling_policy
from tests.cluster import Cluster
from tests.cluster.fault_proxy import AFTER, FaultProxy, Request
from tests.cluster.kube_client import STATEFUL_SETS, KubeClient, wait_for
from tests.functional.conftest import QUICK, Driver
from tests.functional.policies import (
    MODULE,
    QUEUE,
    SCALERS,
    SETS,
    WAITING,
    count,
    live_policies,
    off,
    patch_role,
    policy,
    written,
)
from tests.functional.test_modules import applied, recorded_counts, succeeded
from tests.support.external_metrics import ExternalMetrics
from tests.support.infer_services import Recorder, hpa
from tests.support.module_process import ModuleProcess


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster whose API server reaches pods."""
    with Cluster(a3_nodes=60, cpu_nodes=1, infer_operator=True, egress=True) as running:
        yield running


@pytest.fixture(scope="module")
def metrics(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExternalMetrics]:
    """Served until all tests of this file are done."""
    directory: Path = tmp_path_factory.mktemp("metrics")
    with ExternalMetrics(cluster, directory) as serving:
        yield serving


def scaled_to(driver: Driver, wanted: int, role: str = "prefill") -> None:
    """HPA has brought the count to `wanted`, and all of the instances are ready."""

    def there() -> bool:
        found = driver.get("instancesets", SETS)[f"vllm-0-{role}"]
        return {found["spec"]["replicas"], found["status"].get("replicas"), found["status"].get("readyReplicas")} == {wanted}

    wait_for(there, 40, f"HPA has made {wanted} {role} instances")


def following(driver: Driver, metrics: ExternalMetrics, wanted: int) -> None:
    """A service of 2 prefill instances whose policy has brought it to `wanted`, five requests waiting for each."""
    succeeded(driver.deploy())
    metrics.set(driver.namespace, "prefill", WAITING, "10")
    succeeded(policy(driver, prefill=QUEUE))
    metrics.set(driver.namespace, "prefill", WAITING, str(5 * wanted))
    scaled_to(driver, wanted)


def test_a_policy_is_followed_and_switching_it_on_touches_nothing(on_set: Driver, metrics: ExternalMetrics) -> None:
    driver = on_set
    succeeded(driver.deploy())
    before, revision = driver.workloads(), applied(driver)["revision"]
    metrics.set(driver.namespace, "prefill", WAITING, "10")
    done = succeeded(policy(driver, prefill=QUEUE, decode={"min": 1, "max": 2, "preset": "latency"}))
    assert done["changed"] and [(row["kind"], row["name"]) for row in done["actions"]] == [
        ("InferServiceSet", "vllm"),
        ("ConfigMap", "motor-config"),
    ]
    assert done["policies"] == live_policies(driver) and set(done["policies"]) == {"prefill", "decode"}
    assert "warnings" not in done
    made = driver.get("horizontalpodautoscalers", SCALERS)
    assert set(made) == {"vllm-0-prefill-scaler", "vllm-0-decode-scaler"}, "the module waits until they are there"
    assert driver.workloads() == before
    assert applied(driver)["revision"] == revision + 1 and recorded_counts(driver) == (2, 1)
    history = driver.get("controllerrevisions")[f"motor-{revision + 1}"]["data"]
    assert history["why"] == "autoscale: set the policy of prefill and decode"

    metrics.set(driver.namespace, "prefill", WAITING, "20")
    scaled_to(driver, 4)
    assert count(driver, "decode") == 1, "engine roles are independent"
    again = succeeded(policy(driver, prefill=QUEUE, decode={"min": 1, "max": 2, "preset": "latency"}))
    assert not again["changed"] and driver.proxy.mutating() == [] and len(driver.proxy.requests) <= 9
    metrics.set(driver.namespace, "prefill", WAITING, "5")
    scaled_to(driver, 1)


def test_deploying_again_keeps_policies_and_what_they_did(on_set: Driver, metrics: ExternalMetrics) -> None:
    driver = on_set
    following(driver, metrics, 4)
    before = live_policies(driver)
    again = succeeded(driver.deploy())
    assert not again["changed"] and again["service"]["counts"] == {"prefill": 4, "decode": 1}
    other = driver.with_config("motor_deploy_config", "image_name", value="registry.example/other:2")
    replaced = succeeded(driver.deploy(other, allow_restart=True, wait_timeout=200))
    assert replaced["changed"] and replaced["service"]["counts"] == {"prefill": 4, "decode": 1}
    assert live_policies(driver) == before
    refused = driver.scale(prefill=3, decode=1)
    assert refused["reason"] == "CountOwned" and "motor_scaling_policy, with outside: scale" in refused["msg"]
    assert succeeded(driver.scale(prefill=4, decode=2))["service"]["counts"] == {"prefill": 4, "decode": 2}


def test_switching_off_keeps_the_count_that_hpa_has_made(on_set: Driver, metrics: ExternalMetrics) -> None:
    """Without that it would snap from 4 to the 2 that were deployed."""
    driver = on_set
    following(driver, metrics, 4)
    before = driver.workloads()
    assert written(driver) == 2
    done = succeeded(off(driver))
    assert done["policies"] == {} and live_policies(driver) == {}
    assert driver.get("horizontalpodautoscalers", SCALERS) == {}
    assert (count(driver), written(driver), recorded_counts(driver)) == (4, 4, (4, 1))
    assert driver.workloads() == before
    assert applied(driver)["counts"] == {"prefill": 4, "decode": 1}

    assert not succeeded(off(driver))["changed"] and driver.proxy.mutating() == [] and len(driver.proxy.requests) <= 9
    seen = succeeded(driver.run("motor_service_info", namespace=driver.namespace))["service"]
    assert not any(seen["drift"][what] for what in ("missing", "surplus", "altered")) and not seen.get("owners")
    assert succeeded(driver.scale(prefill=3, decode=1))["service"]["counts"] == {"prefill": 3, "decode": 1}


def test_a_task_that_does_not_wait_still_waits_until_hpa_leaves_the_count_alone(on_set: Driver, metrics: ExternalMetrics) -> None:
    driver = on_set
    succeeded(driver.deploy())
    metrics.set(driver.namespace, "prefill", WAITING, "15")
    done = succeeded(policy(driver, prefill=QUEUE, wait=False))
    assert done["changed"] and not any(request.watch for request in driver.proxy.requests)
    scaled_to(driver, 3)
    before = driver.workloads()
    succeeded(off(driver, wait=False))
    wait_for(lambda: not driver.get("horizontalpodautoscalers", SCALERS), 10, "the autoscaler is gone")
    assert (count(driver), written(driver), recorded_counts(driver)) == (3, 3, (3, 1)) and driver.workloads() == before


# Longer than it takes HPA to see that the load has changed, and to change the count.
LONG = 6.0


def test_what_hpa_does_before_it_hears_of_it_is_kept_when_a_policy_is_switched_off(on_set: Driver, metrics: ExternalMetrics) -> None:
    """The run sleeps before each of its changes while the load rises: the count that it has seen first is not the one to keep."""
    driver = on_set
    following(driver, metrics, 3)
    metrics.set(driver.namespace, "prefill", WAITING, "30")

    def sleep(request: Request) -> None:
        time.sleep(LONG)

    with Recorder(_Watching(driver), STATEFUL_SETS) as seen:
        driver.proxy.fault(method="PATCH", path="/inferservicesets/", call=sleep)
        succeeded(off(driver))
        assert seen.gone("StatefulSet") == []
    assert (count(driver), written(driver), recorded_counts(driver)) == (6, 6, (6, 1))


def test_a_pass_of_hpa_that_is_under_way_ends_before_a_policy_goes(on_set: Driver, metrics: ExternalMetrics) -> None:
    """It began with the policy as it was, and sets six instances after it has been waiting for its metric for a while."""
    driver = on_set
    following(driver, metrics, 3)
    metrics.set(driver.namespace, "prefill", WAITING, "30")
    answered, before = metrics.hold(driver.namespace), len(metrics.asked)
    wait_for(lambda: any(row[0] == driver.namespace for row in metrics.asked[before:]), 20, "HPA asks")

    def later(request: Request) -> None:
        threading.Timer(LONG, answered.set).start()

    with Recorder(_Watching(driver), STATEFUL_SETS) as seen:
        driver.proxy.fault(method="PATCH", path="/inferservicesets/", nth=1, call=later, when=AFTER)
        succeeded(off(driver))
        time.sleep(1)
        assert seen.gone("StatefulSet") == []
    assert (count(driver), written(driver), recorded_counts(driver)) == (6, 6, (6, 1))


class _Watching:
    def __init__(self, driver: Driver) -> None:
        self.client, self.namespace = KubeClient.from_kubeconfig(driver.cluster.kubeconfig), driver.namespace


def test_only_the_named_policy_is_switched_off(on_set: Driver, metrics: ExternalMetrics) -> None:
    driver = on_set
    following(driver, metrics, 3)
    succeeded(policy(driver, decode={"min": 1, "max": 2, "preset": "queue"}))
    assert set(live_policies(driver)) == {"prefill", "decode"}, "a policy that is not given stays"
    succeeded(off(driver, engine_roles=["decode"]))
    assert set(live_policies(driver)) == {"prefill"} and count(driver) == 3
    metrics.set(driver.namespace, "prefill", WAITING, "20")
    scaled_to(driver, 4)


def test_a_policy_of_an_unsupported_type_is_switched_off_with_the_count_that_the_operator_goes_by(on_set: Driver) -> None:
    driver = on_set
    succeeded(driver.deploy())
    _put_policy(driver, {**hpa(1, 4), "type": "KEDA"})
    succeeded(off(driver))
    assert (count(driver), written(driver), live_policies(driver)) == (2, 2, {})


@pytest.mark.parametrize("broken", [hpa("two", 4), hpa(4, 2)])
def test_a_policy_that_the_operator_cannot_use_is_switched_off_and_can_be_replaced(on_set: Driver, broken: dict[str, Any]) -> None:
    driver = on_set
    succeeded(driver.deploy())
    _put_policy(driver, broken)
    succeeded(off(driver))
    assert (count(driver), written(driver), live_policies(driver)) == (2, 2, {})
    _put_policy(driver, broken)
    succeeded(policy(driver, prefill=QUEUE))
    assert driver.get("horizontalpodautoscalers", SCALERS)["vllm-0-prefill-scaler"]["spec"]["maxReplicas"] == 6


def _put_policy(driver: Driver, value: dict[str, Any], role: str = "prefill") -> None:
    patch_role(driver, role, "add", "scalingPolicy", value)

    def seen() -> bool:
        found = driver.get("instancesets", SETS)[f"vllm-0-{role}"]
        return bool(
            found["spec"].get("scalingPolicy") == value and found["status"].get("observedGeneration") == found["metadata"]["generation"]
        )

    wait_for(seen, 20, "the operator has seen the policy")


def test_limits_that_the_live_count_is_not_within_are_refused_or_scale(on_set: Driver, metrics: ExternalMetrics) -> None:
    driver = on_set
    succeeded(driver.deploy())
    for low, high, near in ((3, 6, "set max 2"), (1, 1, "set max 2")):
        refused = policy(driver, prefill={**QUEUE, "min": low, "max": high})
        assert refused["reason"] == "OutsideLimits" and refused["paths"] == ["prefill"]
        assert (
            f"min {low}, max {high}, but 2 live" in refused["msg"]
            and near.split()[-1] in refused["msg"]
            and "outside: scale" in refused["msg"]
        )
        assert driver.proxy.mutating() == []
    metrics.set(driver.namespace, "prefill", WAITING, "10")
    by_hand = succeeded(policy(driver, prefill={**QUEUE, "min": 3, "max": 3}, outside="scale"))
    assert by_hand["service"]["counts"] == {"prefill": 3, "decode": 1}
    assert {row["state"] for row in by_hand["service"]["instances"]} == {"running"}, "the module waits for them"
    assert "HPA will bring prefill 2 -> 3" in by_hand["warnings"][0]
    succeeded(policy(driver, prefill={**QUEUE, "min": 1, "max": 1}, outside="scale"))
    assert count(driver) == 1


def test_check_mode_says_what_would_be_done_and_writes_nothing(on_set: Driver, metrics: ExternalMetrics) -> None:
    driver = on_set
    succeeded(driver.deploy())
    told = succeeded(policy(driver, prefill=QUEUE, check_mode=True, diff=True))
    assert told["changed"] and told["policies"] == {} and driver.proxy.mutating() == []
    assert told["diff"]["before"] == {"policies": {}} and told["diff"]["after"]["policies"]["prefill"]["spec"]["maxReplicas"] == 6
    metrics.set(driver.namespace, "prefill", WAITING, "10")
    done = succeeded(policy(driver, prefill=QUEUE))
    assert done["actions"] == told["actions"]
    metrics.set(driver.namespace, "prefill", WAITING, "15")
    scaled_to(driver, 3)
    told = succeeded(off(driver, check_mode=True, diff=True))
    assert driver.proxy.mutating() == [] and told["diff"]["after"] == {"policies": {}} and set(told["policies"]) == {"prefill"}
    assert succeeded(off(driver))["actions"] == told["actions"]


def test_without_an_adaptor_there_is_a_warning_and_the_count_stays(on_set: Driver, metrics: ExternalMetrics) -> None:
    """A metric that nobody has a value of."""
    driver = on_set
    succeeded(driver.deploy())
    lost = {"min": 1, "max": 4, "metrics": [{"name": "of-another", "target": 1, "target_type": "Value", "foreign": True}]}
    succeeded(policy(driver, prefill=lost))

    def told() -> bool:
        rows = (driver.get("horizontalpodautoscalers", SCALERS)["vllm-0-prefill-scaler"].get("status") or {}).get("conditions") or ()
        return any(row["type"] == "ScalingActive" and row["reason"] == "FailedGetExternalMetric" for row in rows)

    wait_for(told, 20, "HPA says that it has no value")
    assert count(driver) == 2


def test_a_lost_answer_to_each_write_changes_nothing_of_the_outcome(on_set: Driver, metrics: ExternalMetrics) -> None:
    driver = on_set
    following(driver, metrics, 4)
    succeeded(off(driver))
    before = driver.workloads()
    for act in (lambda: policy(driver, prefill=QUEUE), lambda: off(driver)):
        patched = driver.proxy.fault(method="PATCH", drop=AFTER, nth=1)
        recorded = driver.proxy.fault(method="PUT", path="/configmaps/", drop=AFTER, nth=1)
        succeeded(act())
        assert patched.seen > 1 and recorded.seen > 1, "they were sent again"
        driver.proxy.heal()
    assert driver.workloads() == before and (count(driver), written(driver), recorded_counts(driver)) == (4, 4, (4, 1))


@pytest.mark.parametrize("what", ["the policy", "the count"])
def test_what_somebody_changes_between_observing_and_writing_is_planned_again(on_set: Driver, what: str) -> None:
    driver = on_set
    succeeded(driver.deploy())
    other = policy_reader.read_policies({"prefill": {**QUEUE, "max": 4}})["prefill"].scaling_policy()

    def change(request: Request) -> None:
        if what == "the policy":
            patch_role(driver, "prefill", "add", "scalingPolicy", other)
        else:
            patch_role(driver, "prefill", "replace", "replicas", 3)

    driver.proxy.fault(method="PATCH", path="/inferservicesets/", nth=1, call=change)
    done = succeeded(policy(driver, prefill=QUEUE))
    assert sum(request.method == "PATCH" for request in driver.proxy.requests) == 2
    assert live_policies(driver)["prefill"]["spec"]["maxReplicas"] == 6 and done["policies"] == live_policies(driver)
    assert written(driver) == (2 if what == "the policy" else 3)


def test_of_two_runs_at_once_both_are_done_one_after_the_other(on_set: Driver) -> None:
    driver = on_set
    succeeded(driver.deploy())
    together = threading.Barrier(2)
    with FaultProxy(driver.cluster) as second, ModuleProcess(MODULE) as one, ModuleProcess(MODULE) as other:
        for proxy in (driver.proxy, second):
            proxy.clear()
            proxy.fault(method="PUT", path="/leases/ascend-mindie", nth=1, call=lambda request: together.wait(30) and None)
        common = {"namespace": driver.namespace, **QUICK}
        one.start(kubeconfig=driver.proxy.kubeconfig, policies={"prefill": QUEUE}, **common)
        other.start(kubeconfig=second.kubeconfig, policies={"decode": {"min": 1, "max": 3, "preset": "queue"}}, **common)
        results = [one.result(), other.result()]
    assert all(succeeded(result)["changed"] for result in results)
    assert {role: found["spec"]["maxReplicas"] for role, found in live_policies(driver).items()} == {"prefill": 6, "decode": 3}
    lease = driver.get("leases", "coordination.k8s.io/v1")["ascend-mindie"]
    assert not lease["spec"].get("holderIdentity") and "ascend.mindie/intent" not in lease["metadata"].get("annotations", {})


def test_other_verbs_wait_for_a_policy_that_was_not_switched_off_in_full(on_set: Driver, metrics: ExternalMetrics) -> None:
    driver = on_set
    following(driver, metrics, 4)
    driver.proxy.clear()
    driver.proxy.fault(method="PATCH", path="/inferservicesets/", nth=2, status=403)
    assert off(driver)["reason"] == "Forbidden"
    driver.proxy.heal()
    assert scaling_policy.is_frozen(live_policies(driver)["prefill"]) and count(driver) == 4
    refused = driver.scale(prefill=4, decode=2)
    assert refused["reason"] == "Unfinished" and "autoscale" in refused["msg"]
    succeeded(off(driver))
    assert (count(driver), written(driver), recorded_counts(driver)) == (4, 4, (4, 1))
    assert succeeded(driver.scale(prefill=4, decode=2))["service"]["counts"] == {"prefill": 4, "decode": 2}


def test_requests_are_few(on_set: Driver, metrics: ExternalMetrics) -> None:
    driver = on_set
    following(driver, metrics, 3)
    succeeded(off(driver))
    succeeded(policy(driver, prefill=QUEUE))
    assert _spent(driver) <= 18
    scaled_to(driver, 3)
    succeeded(off(driver))
    assert _spent(driver) <= 28


def _spent(driver: Driver) -> int:
    """Requests without renewals of the lock and Events, which come with time."""
    timed = sum(request.mutating and ("/leases" in request.path or "/events" in request.path) for request in driver.proxy.requests)
    return len(driver.proxy.requests) - max(0, timed - 2)
