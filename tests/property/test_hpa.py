# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever the metrics and the past are, the formula of HorizontalPodAutoscalers keeps what Kubernetes promises of it."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from fractions import Fraction

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ansible_collections.ascend.mindie.plugins.module_utils._motor import hpa
from ansible_collections.ascend.mindie.plugins.module_utils._motor.hpa import Autoscaler, Counts, Past, Reading, Rules, Step, Target, decide

EXAMPLES = int(os.environ.get("MINDIE_EXAMPLES", "300"))
often = settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))

AMOUNTS = st.integers(0, 200_000).map(lambda number: Fraction(number, 1000))
TARGETS = st.builds(
    Target,
    st.just("load"),
    st.sampled_from([hpa.VALUE, hpa.AVERAGE_VALUE]),
    st.integers(1, 50_000).map(lambda number: Fraction(number, 1000)),
)
STEPS = st.builds(Step, st.sampled_from([hpa.PODS, hpa.PERCENT]), st.integers(1, 200), st.integers(1, 120))
RULES = st.builds(
    Rules,
    st.integers(0, 300),
    st.lists(STEPS, min_size=1, max_size=3).map(tuple),
    st.sampled_from([hpa.MAX, hpa.MIN, hpa.DISABLED]),
    st.sampled_from([0.0, 0.1, 0.5]),
)
READINGS = st.just(Reading(None, "none")) | AMOUNTS.map(Reading)
AGES = st.floats(0, 400)
PASTS = st.builds(
    Past,
    st.lists(st.tuples(AGES, st.integers(1, 16)), max_size=6).map(tuple),
    st.lists(st.tuples(AGES, st.integers(-4, 4)), max_size=6).map(tuple),
)


@st.composite
def scalers(draw: st.DrawFn) -> Autoscaler:
    low = draw(st.integers(1, 8))
    high = draw(st.integers(low, 16))
    rules = draw(st.tuples(RULES, RULES) | st.just((None, None)))
    return Autoscaler(low, high, tuple(draw(st.lists(TARGETS, min_size=1, max_size=3))), *rules)


@st.composite
def situations(draw: st.DrawFn) -> tuple[Autoscaler, list[Reading], Counts, Past]:
    scaler = draw(scalers())
    now = draw(st.integers(1, 20))
    ready = draw(st.none() | st.integers(0, 40))
    readings = [draw(READINGS) for _target in scaler.targets]
    return scaler, readings, Counts(now, draw(st.sampled_from([now, max(0, now - 1), now + 1])), ready), draw(PASTS)


@often
@given(situations())
def test_the_count_never_leaves_the_limits_and_comes_back_into_them_at_once(case: tuple[Autoscaler, list[Reading], Counts, Past]) -> None:
    scaler, readings, counts, past = case
    count = decide(scaler, readings, counts, past).count
    assert scaler.low <= count <= scaler.high
    if not scaler.low <= counts.wanted <= scaler.high:
        assert count == min(max(counts.wanted, scaler.low), scaler.high)


@often
@given(situations())
def test_nothing_is_scaled_in_while_a_metric_has_no_value(case: tuple[Autoscaler, list[Reading], Counts, Past]) -> None:
    scaler, readings, counts, past = case
    assume(scaler.low <= counts.wanted <= scaler.high)
    decision = decide(scaler, readings, counts, past)
    if any(proposal.count is None for proposal in decision.proposals):
        assert decision.computed is None or decision.computed >= counts.wanted or decision.count == counts.wanted
    if all(proposal.count is None for proposal in decision.proposals):
        assert decision.count == counts.wanted and decision.reason == hpa.NO_METRIC


@often
@given(situations(), st.data())
def test_more_load_never_asks_for_less(case: tuple[Autoscaler, list[Reading], Counts, Past], data: st.DataObject) -> None:
    """With the same tolerance both ways; the tolerance itself makes the count jump, but never back."""
    scaler, readings, counts, past = case
    counts = replace(counts, there=counts.wanted, ready_pods=counts.wanted)
    more = [reading if reading.value is None else Reading(reading.value + data.draw(AMOUNTS)) for reading in readings]
    assert decide(scaler, more, counts, past).count >= decide(scaler, readings, counts, past).count


@often
@given(situations())
def test_a_value_that_was_lost_holds_or_raises_the_count(case: tuple[Autoscaler, list[Reading], Counts, Past]) -> None:
    """Beside a metric that asks for less than there is: without it the count may be lower, never below what is now."""
    scaler, readings, counts, dummy = case
    assume(scaler.low <= counts.wanted <= scaler.high)
    for number, reading in enumerate(readings):
        if reading.value is not None:
            lost = [*readings[:number], Reading(None, "lost"), *readings[number + 1 :]]
            decision = decide(scaler, lost, counts, Past())
            assert decision.count >= counts.wanted


@often
@given(situations())
def test_what_was_wanted_within_the_window_is_not_scaled_in(case: tuple[Autoscaler, list[Reading], Counts, Past]) -> None:
    scaler, readings, counts, past = case
    assume(scaler.low <= counts.wanted <= scaler.high)
    window = scaler.scale_in.window if scaler.scale_in else hpa.SCALE_IN_WINDOW
    wanted = [count for age, count in past.recommendations if age < window]
    decision = decide(scaler, readings, counts, past)
    if wanted and max(wanted) >= counts.wanted:
        assert decision.count >= counts.wanted


@often
@given(situations())
def test_what_is_disabled_does_not_happen(case: tuple[Autoscaler, list[Reading], Counts, Past]) -> None:
    """A policy that is frozen both ways changes nothing, whatever the load is."""
    scaler, readings, counts, past = case
    assume(scaler.low <= counts.wanted <= scaler.high)
    still = Rules(0, hpa.SCALE_IN_STEPS, hpa.DISABLED)
    assert decide(replace(scaler, scale_out=still, scale_in=still), readings, counts, past).count == counts.wanted


@often
@given(st.integers(1, 16), st.integers(1, 50_000), AMOUNTS)
def test_a_total_at_rest_fits_the_instances(now: int, amount: int, value: Fraction) -> None:
    """Following the proposals of a steady total ends at once, with every instance at or below its target (or within the tolerance)."""
    target = Target("load", hpa.AVERAGE_VALUE, Fraction(amount, 1000))
    first = hpa.propose(target, Reading(value), Counts(now, now, now)).count
    assume(first)
    again = hpa.propose(target, Reading(value), Counts(first or 0, first or 0, first or 0)).count
    assert again == first
    assert math.ceil(value * 1000) <= (first or 0) * amount * (1 + hpa.TOLERANCE) + 1e-6
