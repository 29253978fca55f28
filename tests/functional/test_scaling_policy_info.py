# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module motor_scaling_policy_info without a cluster, and on one that lacks what autoscaling needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.functional.conftest import Driver
from tests.functional.test_modules import succeeded
from tests.functional.test_owners import limits
from tests.support.engines import Endpoint, Engine, Load, shown, write
from tests.support.modules import run_module, run_offline

WAITING, KV = "num_requests_waiting", "kv_cache_usage_perc"
MODULE = "motor_scaling_policy_info"


def policy(*metrics: dict[str, Any], low: int = 1, high: int = 8, **more: Any) -> dict[str, Any]:
    return {"min": low, "max": high, "metrics": list(metrics), **more}


QUEUE = {"prefill": policy({"name": WAITING, "target": 5})}
# As fast as HPA does it; without scale_out a ratio scales out one by one.
FAST = {"scale_out": {"window": 0}}
MIXED = {
    "prefill": policy({"name": WAITING, "target": 5}, {"name": KV, "target": 0.8}, **FAST),
    "decode": policy({"name": "vllm:num_requests_waiting", "target": 5}, {"name": "motor:generation_tokens_per_second", "target": 1000}),
}


def now(result: dict[str, Any]) -> dict[str, int]:
    return {row["engine_role"]: row["now"]["count"] for row in result["autoscaling"]["engine_roles"]}


def test_policies_are_evaluated_on_given_numbers_without_a_cluster() -> None:
    values = {"prefill": {WAITING: 20, KV: "400m"}, "decode": {f"vllm:{WAITING}": 2, "generation_tokens_per_second": 2177}}
    result = run_offline(MODULE, policies=MIXED, what_if={"instances": {"prefill": 2, "decode": "2"}, "values": values})
    assert now(result) == {"prefill": 4, "decode": 2} and result["requests"] == 0
    assert "ceil(20 / 5) = 4" in "\n".join(result["autoscaling"]["table"])
    slow = {"prefill": {key: value for key, value in MIXED["prefill"].items() if key not in FAST}}
    assert now(run_offline(MODULE, policies=slow, what_if={"instances": {"prefill": 2}, "values": {"prefill": values["prefill"]}})) == {
        "prefill": 3
    }


def test_a_metric_that_is_left_out_has_no_value_so_that_nothing_is_scaled_in() -> None:
    given = {
        "instances": {"prefill": 3, "decode": 3},
        "values": {"prefill": {WAITING: 0}, "decode": {WAITING: 0, "generation_tokens_per_second": 0}},
    }
    result = run_offline(MODULE, policies=MIXED, what_if=given)
    assert now(result) == {"prefill": 3, "decode": 1}
    assert any(line == f"prefill {KV}: no value is given" for line in result["autoscaling"]["table"])


def test_ratios_count_the_pods_of_instances_with_several() -> None:
    policies = {"prefill": policy({"name": KV, "target": 0.8})}
    for pods, count in ((1, 2), (2, 3)):
        given = {"instances": {"prefill": 2}, "pods_per_instance": {"prefill": pods}, "values": {"prefill": {KV: 0.6}}}
        assert now(run_offline(MODULE, policies=policies, what_if=given)) == {"prefill": count}


def test_what_was_wanted_and_done_before_counts_for_windows_and_steps() -> None:
    policies = {
        "prefill": policy({"name": WAITING, "target": 5}, scale_in={"window": 120}),
        "decode": policy({"name": WAITING, "target": 5}, scale_out={"steps": [{"type": "Pods", "value": 2, "period": 60}]}),
    }
    values = {"prefill": {WAITING: 5}, "decode": {WAITING: 100}}
    past = {"prefill": {"wanted": [{"count": 3, "ago": 100}]}, "decode": {"changed": [{"by": 1, "ago": 30}]}}
    given = {"instances": {"prefill": 4, "decode": 3}, "values": values}
    assert now(run_module(MODULE, policies=policies, what_if=given)) == {"prefill": 1, "decode": 5}
    assert now(run_module(MODULE, policies=policies, what_if={**given, "past": past})) == {"prefill": 3, "decode": 4}
    older = {"prefill": {"wanted": [{"count": 3, "ago": 130}]}, "decode": {"changed": [{"by": 1, "ago": 70}]}}
    assert now(run_module(MODULE, policies=policies, what_if={**given, "past": older})) == {"prefill": 1, "decode": 5}


def exposition(folder: Path, name: str, seconds: float, **loads: Load) -> str:
    """What a coordinator shows of one endpoint for each engine role that has worked for so long, in a file."""
    rows = []
    for number, (role, load) in enumerate(loads.items()):
        engine = Engine(Endpoint(role, f"vllm-0-{role}-0", f"vllm-0-{role}-0-0", f"10.0.0.{number}", 0))
        for dummy in range(round(seconds)):
            engine.advance(1.0, load)
        rows.append(shown(engine, number))
    file = folder / name
    file.write_text(write(rows, "dp"))
    return str(file)


def test_policies_are_evaluated_on_two_recorded_answers_of_a_coordinator(tmp_path: Path) -> None:
    loads = {"prefill": Load(waiting=12, running=4, kv=0.9, finished=3), "decode": Load(waiting=1, running=8, kv=0.4, finished=2)}
    files = [exposition(tmp_path, name, seconds, **loads) for name, seconds in (("before.prom", 60), ("after.prom", 90))]
    policies = {
        "prefill": policy({"name": WAITING, "target": 5}, {"name": KV, "target": 0.8}, **FAST),
        "decode": policy({"name": WAITING, "target": 5}, {"name": "generation_tokens_total", "target": 100}),
    }
    given = {"instances": {"prefill": 1, "decode": 1}, "recorded": files, "seconds": 30}
    result = run_offline(MODULE, policies=policies, what_if=given)
    rows = {
        row["engine_role"]: {metric["name"]: metric["value"] for metric in row["metrics"]} for row in result["autoscaling"]["engine_roles"]
    }
    assert rows["prefill"] == {WAITING: 12.0, KV: 0.9} and now(result)["prefill"] == 3
    assert rows["decode"][WAITING] == 1.0 and rows["decode"]["generation_tokens_total"] > 0
    one = run_offline(MODULE, policies=policies, what_if={**given, "recorded": files[1:]})
    metric = one["autoscaling"]["engine_roles"][1]["metrics"][1]
    assert metric["value"] is None and "30 s" in metric["problem"], "a rate needs two"


def test_the_recorded_answers_of_the_real_coordinator_give_their_true_load(shared_dir: Path) -> None:
    folder = shared_dir / "upstream" / "metrics"
    policies = {
        "prefill": policy({"name": WAITING, "target": 5}, {"name": "prompt_tokens_per_second", "target": 5000}),
        "decode": policy({"name": "generation_tokens_per_second", "target": 1000}),
    }
    given = {"instances": {"prefill": 2, "decode": 2}, "recorded": [str(folder / "dp.prom"), str(folder / "t30" / "dp.prom")]}
    rows = run_offline(MODULE, policies=policies, what_if=given)["autoscaling"]["engine_roles"]
    values = {metric["name"]: metric["value"] for row in rows for metric in row["metrics"]}
    assert values[WAITING] == 8.0
    assert values["prompt_tokens_per_second"] == pytest.approx(11_000, rel=0.02), "the coordinator's own view says about 4,000"
    assert values["generation_tokens_per_second"] == pytest.approx(2_200, rel=0.02)


WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    ({}, "give the namespace of a service, or policies and what_if"),
    ({"policies": QUEUE}, "give the namespace of a service, or policies and what_if"),
    ({"policies": QUEUE, "what_if": {}}, "what_if.instances: say how many prefill instances there are"),
    ({"policies": QUEUE, "what_if": {"instances": {"prefill": 1.5}}}, "what_if.instances.prefill: 1.5 is no whole number"),
    ({"policies": QUEUE, "what_if": {"instances": {"prefill": True}}}, "what_if.instances.prefill: true is no whole number"),
    ({"policies": QUEUE, "what_if": {"instances": {"prefill": 1, "router": 1}}}, "there is no policy for"),
    ({"policies": QUEUE, "what_if": {"instances": {"prefill": 1}, "values": {"prefill": {WAITING: "many"}}}}, "is no number"),
    ({"policies": QUEUE, "what_if": {"instances": {"prefill": 1}, "values": {"prefill": 7}}}, "is no mapping"),
    ({"policies": QUEUE, "what_if": {"instances": {"prefill": 1}, "values": {"prefill": {"waiting": 7}}}}, f"it has {WAITING}"),
    ({"policies": QUEUE, "what_if": {"instances": {"prefill": 1}, "seconds": 0}}, "what_if.seconds"),
    ({"policies": QUEUE, "what_if": {"instances": {"prefill": 1}, "recorded": ["/no/such/file"]}}, "/no/such/file"),
    (
        {"policies": QUEUE, "what_if": {"instances": {"prefill": 1}, "past": {"prefill": {"wanted": [{"count": 1}]}}}},
        "past.prefill.wanted[0]",
    ),
    ({"policies": QUEUE, "what_if": {"instances": {"prefill": 1}, "past": {"prefill": 4}}}, "what_if.past.prefill"),
    ({"policies": {"router": {}}, "what_if": {"instances": {"router": 1}}}, "router"),
    ({"namespace": "chat", "policies": QUEUE, "what_if": {"instances": {"prefill": 1}}}, "leave what_if out"),
)


@pytest.mark.parametrize(("options", "said"), WRONG)
def test_wrong_options_are_named_with_their_path(options: dict[str, Any], said: str) -> None:
    result = run_module(MODULE, **options)
    assert result["failed"] and said in result["msg"]


def test_a_recorded_text_that_is_none_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "wrong.prom"
    file.write_text("# HELP x y\nvllm:num_requests_waiting{role= 1\n")
    given = {"instances": {"prefill": 1}, "recorded": [str(file)]}
    result = run_module(MODULE, policies=QUEUE, what_if=given)
    assert result["failed"] and "what_if.recorded[0]" in result["msg"] and "line 2" in result["msg"]


def test_a_cluster_without_any_provider_is_told_and_nothing_is_written(on_set: Driver) -> None:
    driver = on_set
    succeeded(driver.deploy())
    bare = succeeded(driver.run(MODULE, namespace=driver.namespace))["autoscaling"]
    assert not bare["works"] and [problem["problem"] for problem in bare["problems"]] == ["NoPolicy"]
    limits(driver, 1, 4)
    found = succeeded(driver.run(MODULE, namespace=driver.namespace, check_mode=True))["autoscaling"]
    words = {problem["problem"] for problem in found["problems"]}
    assert "NoApiService" in words and not words & {"MetricUnknown", "MetricUnreadable"}, "no metric is to blame"
    assert found["engine_roles"][0]["metrics"][0]["problem"] and not found["works"]
    assert found["engine_roles"][0]["now"]["count"] == 2, "without a value nothing is changed"
    assert driver.proxy.mutating() == []


def test_a_namespace_without_a_service_and_a_service_of_another_kind_are_told(on_deployments: Driver) -> None:
    driver = on_deployments
    found = succeeded(driver.run(MODULE, namespace=driver.namespace))["autoscaling"]
    assert [problem["problem"] for problem in found["problems"]] == ["NotDeployed"]
    succeeded(driver.deploy())
    found = succeeded(driver.run(MODULE, namespace=driver.namespace))["autoscaling"]
    assert [problem["problem"] for problem in found["problems"]] == ["WrongBackend"]
