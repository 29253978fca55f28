# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scaling policies as options give them: what is made of them, and what is refused because HPA would go wrong with it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import load_metrics, policy_reader, scaling_policy
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError
from ansible_collections.ascend.mindie.plugins.module_utils._motor.scaling_presets import PRESETS

WAITING = {"name": "num_requests_waiting", "target": 5}


def given(**policy: Any) -> dict[str, Any]:
    """A sound policy of decode with these fields set otherwise."""
    return {"decode": {"min": 1, "max": 4, "metrics": [WAITING], **policy}}


def spec(**policy: Any) -> dict[str, Any]:
    found: dict[str, Any] = policy_reader.read_policies(given(**policy))["decode"].scaling_policy()["spec"]
    return found


def targets(**policy: Any) -> dict[str, str]:
    """Metrics with their target types and texts."""
    rows = [row["external"] for row in spec(**policy)["metrics"]]
    return {row["metric"]["name"]: " ".join(str(text) for text in row["target"].values()) for row in rows}


def refused(data: Any) -> InputError:
    with pytest.raises(InputError) as error:
        policy_reader.read_policies(data)
    return error.value


def test_a_policy_becomes_the_spec_of_an_autoscaler_without_its_target() -> None:
    assert policy_reader.read_policies(given())["decode"].scaling_policy() == {
        "type": "HPA",
        "spec": {
            "minReplicas": 1,
            "maxReplicas": 4,
            "metrics": [
                {
                    "type": "External",
                    "external": {"metric": {"name": "num_requests_waiting"}, "target": {"type": "AverageValue", "averageValue": "5"}},
                }
            ],
        },
    }


def test_windows_steps_and_selection_are_those_of_the_autoscaler() -> None:
    pace = {
        "window": 60,
        "steps": [{"type": "Pods", "value": 1, "period": 30}, {"type": "Percent", "value": 50, "period": 60}],
        "select": "Min",
    }
    assert spec(scale_out=pace, scale_in={"select": "Disabled"})["behavior"] == {
        "scaleUp": {
            "stabilizationWindowSeconds": 60,
            "policies": [{"type": "Pods", "value": 1, "periodSeconds": 30}, {"type": "Percent", "value": 50, "periodSeconds": 60}],
            "selectPolicy": "Min",
        },
        "scaleDown": {"selectPolicy": "Disabled"},
    }
    assert "behavior" not in spec(scale_out={}, scale_in=None)


@pytest.mark.parametrize(("count", "told"), [(0, "0 is out of range"), (17, "17 is out of range"), (False, "false is no number")])
def test_a_count_that_may_not_be_is_told_as_it_was_written(count: Any, told: str) -> None:
    assert told in refused(given(min=count)).message


def test_a_misspelt_metric_is_told_with_the_one_that_is_meant() -> None:
    assert "Did you mean num_requests_waiting" in refused(given(metrics=[{"name": "num_request_waiting", "target": 5}])).message
    assert "docs/autoscaling.md" in refused(given(metrics=[{"name": "temperature", "target": 5}])).message


@pytest.mark.parametrize("prefix", ["", "vllm:", "motor:", "vllm_"])
def test_metrics_are_known_with_and_without_their_prefix(prefix: str) -> None:
    assert targets(metrics=[{"name": f"{prefix}num_requests_waiting", "target": "5"}]) == {"num_requests_waiting": "AverageValue 5"}


@pytest.mark.parametrize(
    ("target", "text"),
    [(5, "5"), (0.8, "800m"), ("0.8", "800m"), ("800m", "800m"), ("0.80", "800m"), ("2k", "2000"), (1.5, "1500m"), ("5.0", "5")],
)
def test_targets_are_written_as_the_server_writes_them(target: Any, text: str) -> None:
    assert targets(metrics=[{"name": "generation_tokens_per_second", "target": target}]) == {
        "generation_tokens_per_second": f"AverageValue {text}"
    }


def test_every_metric_of_the_adaptor_has_the_target_type_that_fits_it() -> None:
    for metric in load_metrics.METRICS.values():
        assert targets(metrics=[{"name": metric.name, "target": 1}]) == {metric.name: f"{metric.target_type} 1"}
        other = {"Value": "AverageValue", "AverageValue": "Value"}[metric.target_type]
        error = refused(given(metrics=[{"name": metric.name, "target": 1, "target_type": other}]))
        assert error.reason == "WrongTargetType" and error.path == "policies.decode.metrics[0].target_type"


def test_the_documented_cache_use_with_an_average_value_is_refused_with_the_formula() -> None:
    documented = {"name": "kv_cache_usage_perc", "target": "0.8", "target_type": "AverageValue"}
    error = refused({"prefill": {"min": 1, "max": 4, "metrics": [documented]}})
    assert error.reason == "WrongTargetType"
    assert "ceil(value / target)" in error.message and "ceil(0.8 / 0.8) = 1" in error.message and "scale in for ever" in error.message
    assert "Use target_type Value, by which it wants ceil(4 x 0.8 / 0.8) = 4" in error.message


def test_a_total_with_a_value_is_refused_with_the_formula() -> None:
    error = refused(given(metrics=[{**WAITING, "target_type": "Value"}]))
    assert "ceil(4 x 20 / 5) = 16" in error.message and "up to max" in error.message and "ceil(20 / 5) = 4" in error.message


@pytest.mark.parametrize("preset", [name for name in PRESETS if name != "throughput"])
@pytest.mark.parametrize("role", ["prefill", "decode", "union"])
def test_presets_need_nothing_else(preset: str, role: str) -> None:
    policy = policy_reader.read_policies({role: {"min": 1, "max": 2, "preset": preset}})[role]
    assert [target.metric for target in policy.metrics] == list(PRESETS[preset][role])
    assert policy.metrics[0].metric == "num_requests_waiting"


def test_presets_have_metrics_of_the_table_alone() -> None:
    names = {name for preset in PRESETS.values() for targets in preset.values() for name in targets}
    assert names <= set(load_metrics.METRICS)
    assert all(set(roles) == set(scaling_policy.AUTOSCALED) for roles in PRESETS.values())


def test_the_recommended_metrics_of_each_engine_role_are_in_presets() -> None:
    """Prefill: requests waiting, cache use, prompt tokens, time to the first token; decode: waiting, tokens, time per token and of all."""
    named = {role: {name for preset in PRESETS.values() for name in preset[role]} for role in ("prefill", "decode")}
    assert {"num_requests_waiting", "kv_cache_usage_perc_sum", "prompt_tokens_per_second", "time_to_first_token_seconds_p95"} <= named[
        "prefill"
    ]
    assert "time_per_output_token_seconds_p95" in named["decode"] and "e2e_request_latency_seconds_p95" in named["decode"]
    assert {"num_requests_waiting", "generation_tokens_per_second"} <= named["decode"]


def test_a_metric_takes_the_place_of_that_of_the_preset() -> None:
    metrics = [{"name": "vllm:num_requests_waiting", "target": 9}, {"name": "num_requests_running", "target": 64}]
    assert targets(preset="latency", metrics=metrics) == {
        "num_requests_waiting": "AverageValue 9",
        "time_per_output_token_seconds_p95": "Value 50m",
        "e2e_request_latency_seconds_p95": "Value 2",
        "num_requests_running": "AverageValue 64",
    }


def test_throughput_wants_to_be_told_what_an_instance_can_do() -> None:
    error = refused(given(preset="throughput", metrics=None))
    assert (
        error.path == "policies.decode.preset" and "generation_tokens_per_second" in error.message and "depends on model" in error.message
    )
    speed = {"name": "motor:generation_tokens_per_second", "target": 2500}
    assert targets(preset="throughput", metrics=[speed])["generation_tokens_per_second"] == "AverageValue 2500"


def test_a_metric_of_another_provider_keeps_its_name_and_needs_its_target_type() -> None:
    foreign = {"name": "motor_queue:sum", "target": 5, "foreign": True}
    assert targets(metrics=[{**foreign, "target_type": "AverageValue"}]) == {"motor_queue:sum": "AverageValue 5"}
    assert refused(given(metrics=[foreign])).path == "policies.decode.metrics[0].target_type"
    assert targets(metrics=[{**WAITING, "name": "vllm:num_requests_waiting", "foreign": True}]) == {
        "vllm:num_requests_waiting": "AverageValue 5"
    }


@pytest.mark.parametrize(
    ("data", "path", "words", "reason"),
    [
        ({"router": {}}, "policies.router", "never are", "NotAutoscaled"),
        ({"controller": {}}, "policies.controller", "never are", "NotAutoscaled"),
        ({"coordinator": {}}, "policies.coordinator", "never are", "NotAutoscaled"),
        ({"encode": {}}, "policies.encode", "prefill, decode, union", "NotAutoscaled"),
        ([], "policies", "no mapping", "InvalidInput"),
        ({"decode": "yes"}, "policies.decode", "no mapping", "InvalidInput"),
        (given(min=4, max=2), "policies.decode", "min 4 is above max 2", "MinAboveMax"),
        (given(min=0), "policies.decode.min", "from 1 to 16", "InvalidInput"),
        (given(min=None), "policies.decode.min", "HPA keeps the count", "InvalidInput"),
        (given(max=17), "policies.decode.max", "from 1 to 16", "InvalidInput"),
        (given(min="two"), "policies.decode.min", "without quotes", "InvalidInput"),
        (given(min="2"), "policies.decode.min", "without quotes", "InvalidInput"),
        (given(min=True), "policies.decode.min", "is no number", "InvalidInput"),
        (given(max=4.0), "policies.decode.max", "write 4", "InvalidInput"),
        (given(type="KEDA"), "policies.decode", "'type' is unknown", "InvalidInput"),
        (given(metrics=[]), "policies.decode", "nothing to scale by", "InvalidInput"),
        (given(metrics={}), "policies.decode.metrics", "no list", "InvalidInput"),
        (given(metrics=[{**WAITING, "kind": "x"}]), "policies.decode.metrics[0]", "'kind' is unknown", "InvalidInput"),
        (
            given(metrics=[WAITING, {**WAITING, "name": "vllm:num_requests_waiting"}]),
            "policies.decode.metrics[1].name",
            "twice",
            "InvalidInput",
        ),
        (given(metrics=[{"name": "time_to_first_token_seconds", "target": 1}]), "policies.decode.metrics[0].name", "_p95", "UnknownMetric"),
        (given(metrics=[{"name": "queue", "target": 1}]), "policies.decode.metrics[0].name", "foreign: true", "UnknownMetric"),
        (given(metrics=[{"name": "a/b", "target": 1, "foreign": True}]), "policies.decode.metrics[0].name", "no name", "InvalidInput"),
        (given(metrics=[{"name": "..", "target": 1, "foreign": True}]), "policies.decode.metrics[0].name", "no name", "InvalidInput"),
        (given(metrics=[{**WAITING, "target": 0}]), "policies.decode.metrics[0].target", "above 0", "InvalidInput"),
        (given(metrics=[{**WAITING, "target": "-5"}]), "policies.decode.metrics[0].target", "above 0", "InvalidInput"),
        (given(metrics=[{**WAITING, "target": "5e15"}]), "policies.decode.metrics[0].target", "at most", "InvalidInput"),
        (given(metrics=[{**WAITING, "target": "0.0005"}]), "policies.decode.metrics[0].target", "thousandths", "InvalidInput"),
        (given(metrics=[{**WAITING, "target": "many"}]), "policies.decode.metrics[0].target", "no quantity", "InvalidInput"),
        (given(metrics=[{**WAITING, "target": True}]), "policies.decode.metrics[0].target", "no quantity", "InvalidInput"),
        (given(metrics=[{"name": "num_requests_waiting"}]), "policies.decode.metrics[0].target", "no quantity", "InvalidInput"),
        (
            given(metrics=[{**WAITING, "target_type": "Utilization"}]),
            "policies.decode.metrics[0].target_type",
            "AverageValue",
            "InvalidInput",
        ),
        (given(metrics=[{**WAITING, "foreign": "yes"}]), "policies.decode.metrics[0].foreign", "true nor false", "InvalidInput"),
        (given(preset="best"), "policies.decode.preset", "queue, cache", "InvalidInput"),
        (given(preset=["queue"]), "policies.decode.preset", "queue, cache", "InvalidInput"),
        (given(scale_in={"window": 3601}), "policies.decode.scale_in.window", "from 0 to 3600", "InvalidInput"),
        (given(scale_in={"window": "60"}), "policies.decode.scale_in.window", "without quotes", "InvalidInput"),
        (given(scale_in=300), "policies.decode.scale_in", "no mapping", "InvalidInput"),
        (given(scale_in={"wait": 1}), "policies.decode.scale_in", "'wait' is unknown", "InvalidInput"),
        (given(scale_out={"select": "max"}), "policies.decode.scale_out.select", "Max, Min, Disabled", "InvalidInput"),
        (given(scale_out={"steps": [{"type": "Instances"}]}), "policies.decode.scale_out.steps[0].type", "Pods", "InvalidInput"),
        (
            given(scale_out={"steps": [{"type": "Pods", "value": 0, "period": 1}]}),
            "policies.decode.scale_out.steps[0].value",
            "from 1",
            "InvalidInput",
        ),
        (
            given(scale_out={"steps": [{"type": "Pods", "value": 1, "period": 1801}]}),
            "policies.decode.scale_out.steps[0].period",
            "from 1 to 1800",
            "InvalidInput",
        ),
    ],
)
def test_what_hpa_or_the_operator_would_take_wrongly_is_refused_with_its_place(data: Any, path: str, words: str, reason: str) -> None:
    error = refused(data)
    assert (error.path, error.reason) == (path, reason) and words in error.message and error.message.startswith(path)


def test_quantities_are_thousandths_or_whole() -> None:
    assert [scaling_policy.quantity_text(Fraction(text)) for text in ("5", "0.5", "1.25", "0.001")] == ["5", "500m", "1250m", "1m"]
    with pytest.raises(ValueError, match="thousandth"):
        scaling_policy.quantity_text(Fraction("0.0001"))


@pytest.mark.parametrize(
    ("policy", "scale_up"),
    [
        ({"preset": "latency"}, {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 300}]}),
        (
            {"metrics": [WAITING, {"name": "kv_cache_usage_perc", "target": "0.8"}]},
            {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 300}]},
        ),
        ({"preset": "latency", "scale_out": {"window": 30}}, {"stabilizationWindowSeconds": 30}),
        ({"preset": "queue"}, None),
    ],
    ids=["latency", "a mean", "the user knows better", "totals"],
)
def test_what_hpa_multiplies_by_instances_that_still_load_adds_one_at_a_time(policy: dict[str, Any], scale_up: Any) -> None:
    found = spec(**({"metrics": None} | policy))
    assert (found.get("behavior") or {}).get("scaleUp") == scale_up
