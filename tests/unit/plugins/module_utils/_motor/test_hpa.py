# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The formula of HorizontalPodAutoscalers on worked numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import hpa
from ansible_collections.ascend.mindie.plugins.module_utils._motor.hpa import Counts, Past, Reading, autoscaler, decide


def metric(name: str, kind: str, amount: str) -> dict[str, Any]:
    field = "averageValue" if kind == hpa.AVERAGE_VALUE else "value"
    return {"type": "External", "external": {"metric": {"name": name}, "target": {"type": kind, field: amount}}}


WAITING = metric("num_requests_waiting", hpa.AVERAGE_VALUE, "5")
KV = metric("kv_cache_usage_perc", hpa.VALUE, "800m")


def spec(*metrics: dict[str, Any], low: int = 1, high: int = 8, **more: Any) -> dict[str, Any]:
    return {"minReplicas": low, "maxReplicas": high, "metrics": list(metrics), **more}


def read(*values: str | None) -> list[Reading]:
    return [Reading(None, "no data") if value is None else Reading(Fraction(value)) for value in values]


def instances(count: int, pods: int = 1) -> Counts:
    return Counts(count, count, count * pods)


@pytest.mark.parametrize(
    ("value", "now", "count"),
    [("20", 2, 4), ("10.9", 2, 2), ("11", 2, 2), ("11.1", 2, 3), ("9", 2, 2), ("8.9", 2, 2), ("5", 2, 1), ("0", 2, 1)],
)
def test_a_total_is_divided_by_what_each_instance_may_have(value: str, now: int, count: int) -> None:
    assert decide(autoscaler(spec(WAITING)), read(value), instances(now)).count == count


@pytest.mark.parametrize(("value", "now", "count"), [("0.8", 3, 3), ("0.88", 3, 3), ("0.89", 3, 4), ("0.4", 4, 2), ("0", 4, 1)])
def test_a_ratio_multiplies_the_instances_that_there_are(value: str, now: int, count: int) -> None:
    assert decide(autoscaler(spec(KV)), read(value), instances(now)).count == count


def test_a_ratio_as_average_value_scales_in_for_ever() -> None:
    """What documents recommend for the use of the KV cache: full caches on four instances, and one is to be left."""
    wrong = autoscaler(spec(metric("kv_cache_usage_perc", hpa.AVERAGE_VALUE, "0.8")))
    for now in (4, 3, 2):
        decision = decide(wrong, read("0.79"), instances(now))
        assert decision.count == 1
        assert "ceil(0.79 / 0.8) = 1" in decision.words


def test_a_ratio_counts_pods_so_that_instances_of_two_pods_are_counted_twice() -> None:
    decision = decide(autoscaler(spec(KV)), read("0.6"), instances(2, pods=2))
    assert (decision.count, decision.reason) == (3, hpa.SCALED_OUT)
    assert "ceil(4 ready pods * 0.6 / 0.8) = 3" in decision.words


def test_the_highest_of_several_metrics_decides() -> None:
    decision = decide(autoscaler(spec(WAITING, KV)), read("20", "0.9"), instances(2))
    assert [proposal.count for proposal in decision.proposals] == [4, 3]
    assert decision.count == 4 and "num_requests_waiting" in decision.words


@pytest.mark.parametrize(
    ("values", "count", "reason"),
    [
        (("20", None), 4, hpa.SCALED_OUT),
        (("10", None), 2, hpa.STAYS),
        (("1", None), 2, hpa.NO_METRIC),
        ((None, None), 2, hpa.NO_METRIC),
        (("1", "0.1"), 1, hpa.SCALED_IN),
    ],
)
def test_a_metric_without_a_value_stops_scaling_in_alone(values: tuple[str | None, ...], count: int, reason: str) -> None:
    decision = decide(autoscaler(spec(WAITING, KV)), read(*values), instances(2))
    assert (decision.count, decision.reason) == (count, reason)
    assert (None not in values) or "kv_cache_usage_perc" in decision.words
    assert (decision.proposals[1].words == "kv_cache_usage_perc: no data") == (values[1] is None)


@pytest.mark.parametrize(("now", "count", "reason"), [(9, 8, hpa.ABOVE_MAXIMUM), (1, 2, hpa.BELOW_MINIMUM), (0, 0, hpa.NO_INSTANCES)])
def test_a_count_outside_the_limits_goes_to_them_at_once_whatever_the_metrics_say(now: int, count: int, reason: str) -> None:
    decision = decide(autoscaler(spec(WAITING, low=2)), read(None), instances(now))
    assert (decision.count, decision.reason) == (count, reason)


def test_without_behavior_one_step_reaches_four_or_twice_the_count() -> None:
    scaler = autoscaler(spec(WAITING, high=30))
    assert [decide(scaler, read("500"), instances(now)).count for now in (1, 3, 10, 20)] == [4, 6, 20, 30]


def test_the_window_keeps_the_highest_count_that_was_wanted_in_it() -> None:
    scaler = autoscaler(spec(WAITING))
    past = Past(recommendations=((200.0, 3), (299.0, 4), (301.0, 8)))
    assert decide(scaler, read("5"), instances(6), past).count == 4
    assert decide(scaler, read("5"), instances(6), past, scale_in_window=250).count == 3


def test_a_window_of_its_own_keeps_the_highest_count_that_was_wanted_in_it() -> None:
    scaler = autoscaler(spec(WAITING, behavior={"scaleDown": {"stabilizationWindowSeconds": 60}}))
    past = Past(recommendations=((30.0, 3), (59.0, 4), (61.0, 8)))
    assert decide(scaler, read("5"), instances(6), past).count == 4
    assert decide(scaler, read("5"), instances(3), past).count == 3, "a window never scales out"


def test_scaling_out_waits_for_its_own_window() -> None:
    scaler = autoscaler(spec(WAITING, behavior={"scaleUp": {"stabilizationWindowSeconds": 60}}))
    assert decide(scaler, read("20"), instances(2), Past(recommendations=((30.0, 2),))).count == 2
    assert decide(scaler, read("20"), instances(2), Past(recommendations=((61.0, 2),))).count == 4


@pytest.mark.parametrize(("select", "out", "back"), [("Max", 8, 2), ("Min", 5, 3), ("Disabled", 4, 4), (None, 8, 2)])
def test_steps_say_how_far_one_goes(select: str | None, out: int, back: int) -> None:
    steps = [{"type": "Pods", "value": 1, "periodSeconds": 60}, {"type": "Percent", "value": 100, "periodSeconds": 60}]
    smaller = [{"type": "Pods", "value": 1, "periodSeconds": 60}, {"type": "Percent", "value": 50, "periodSeconds": 60}]
    chosen = {} if select is None else {"selectPolicy": select}
    behavior = {"scaleUp": {"policies": steps, **chosen}, "scaleDown": {"policies": smaller, **chosen}}
    scaler = autoscaler(spec(WAITING, high=20, behavior=behavior))
    assert decide(scaler, read("100"), instances(4)).count == out
    assert decide(scaler, read("0"), instances(4)).count == back


def test_steps_count_from_what_there_was_when_their_period_began() -> None:
    behavior = {"scaleUp": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]}}
    scaler = autoscaler(spec(WAITING, high=20, behavior=behavior))
    assert decide(scaler, read("100"), instances(4), Past(changes=((30.0, 1),))).count == 5
    assert decide(scaler, read("100"), instances(4), Past(changes=((30.0, 2),))).count == 4
    assert decide(scaler, read("100"), instances(4), Past(changes=((61.0, 2),))).count == 6


def test_tolerances_of_its_own_go_before_the_tenth() -> None:
    behavior = {"scaleUp": {"tolerance": "0.5"}, "scaleDown": {"tolerance": "0"}}
    scaler = autoscaler(spec(WAITING, behavior=behavior))
    assert decide(scaler, read("15"), instances(2)).count == 2
    assert decide(scaler, read("9.9"), instances(2)).count == 2
    assert decide(scaler, read("5"), instances(2)).count == 1


def test_what_is_left_out_has_the_defaults_of_the_server() -> None:
    scaler = autoscaler({"maxReplicas": 3, "behavior": {}})
    assert (scaler.low, scaler.scale_out, scaler.scale_in) == (
        1,
        hpa.Rules(0, hpa.SCALE_OUT_STEPS),
        hpa.Rules(300, hpa.SCALE_IN_STEPS),
    )


def test_a_metric_that_is_no_external_one_has_no_value_here() -> None:
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
    decision = decide(autoscaler(spec(cpu)), read("1"), instances(2))
    assert decision.reason == hpa.NO_METRIC and "type Resource" in decision.proposals[0].words


def test_without_any_pod_a_ratio_says_nothing() -> None:
    assert decide(autoscaler(spec(KV)), read("0.1"), Counts(2, 2, None)).reason == hpa.NO_METRIC
