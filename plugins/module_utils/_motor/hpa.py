# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a HorizontalPodAutoscaler (autoscaling/v2) with external metrics does with given numbers.

The rules are those of Kubernetes, "Horizontal Pod Autoscaling" (algorithm details, support for multiple metrics, configurable scaling
behavior), computed as its controller does: amounts in thousandths, ratios and ceilings in floating point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from .compare import quantity

VALUE, AVERAGE_VALUE = "Value", "AverageValue"
EXTERNAL = "External"
PODS, PERCENT = "Pods", "Percent"
MAX, MIN, DISABLED = "Max", "Min", "Disabled"

TOLERANCE = 0.1
# Seconds for which a lower count must have been wanted, where neither the policy nor the controller's command line says otherwise.
SCALE_IN_WINDOW = 300
# Without any `behavior` one step goes to twice the count, or to four.
_FACTOR, _AT_LEAST = 2, 4

# What became of a look at the metrics, one word each.
SCALED_OUT, SCALED_IN, STAYS = "ScalesOut", "ScalesIn", "Stays"
ABOVE_MAXIMUM, BELOW_MINIMUM, NO_INSTANCES, NO_METRIC = "AboveMaximum", "BelowMinimum", "NoInstances", "NoMetric"


@dataclass(frozen=True)
class Target:
    """One metric of an autoscaler. `amount` is what it shall be: as it is (`Value`), or divided by the number of instances
    (`AverageValue`). `unsupported`: a metric that is no external one, in words.
    """

    metric: str
    kind: str
    amount: Fraction
    selector: Mapping[str, str] = field(default_factory=dict)
    unsupported: str = ""


@dataclass(frozen=True)
class Step:
    """At most `value` instances (`Pods`), or per cent of them, within `period` seconds."""

    kind: str
    value: int
    period: int


@dataclass(frozen=True)
class Rules:
    """How fast the count may go one way. `window` (seconds) looks back at what was wanted before."""

    window: int
    steps: tuple[Step, ...]
    select: str = MAX
    tolerance: float = TOLERANCE


@dataclass(frozen=True)
class Autoscaler:
    """The part of an autoscaler's spec that decides. Without any `behavior` in it both rules are None."""

    low: int
    high: int
    targets: tuple[Target, ...]
    scale_out: Rules | None = None
    scale_in: Rules | None = None


@dataclass(frozen=True)
class Reading:
    """The value of a metric, or why there is none."""

    value: Fraction | None
    problem: str = ""


@dataclass(frozen=True)
class Counts:
    """Instances that are wanted (`spec.replicas`), that there are (`status.replicas`), and how many of all their pods are ready
    (None: there are no pods).
    """

    wanted: int
    there: int
    ready_pods: int | None


@dataclass(frozen=True)
class Past:
    """What the controller remembers: counts that it computed, and changes that it made, each with its age in seconds."""

    recommendations: tuple[tuple[float, int], ...] = ()
    changes: tuple[tuple[float, int], ...] = ()


@dataclass(frozen=True)
class Proposal:
    """What one metric asks for; `count` is None when it has no value. `ratio` is the value divided by the target."""

    metric: str
    count: int | None
    ratio: float | None
    words: str


@dataclass(frozen=True)
class Decision:
    """The count that the autoscaler sets, one word, and why in words. `computed` is the count before windows, steps and limits."""

    count: int
    reason: str
    words: str
    proposals: tuple[Proposal, ...]
    computed: int | None = None


SCALE_OUT_STEPS = (Step(PODS, 4, 15), Step(PERCENT, 100, 15))
SCALE_IN_STEPS = (Step(PERCENT, 100, 15),)


def autoscaler(spec: Mapping[str, Any], *, scale_in_window: int = SCALE_IN_WINDOW) -> Autoscaler:
    """Read the spec of a HorizontalPodAutoscaler. What is left out in it has the defaults that the API server gives it."""
    behavior = spec.get("behavior")
    scale_out = scale_in = None
    if behavior is not None:
        scale_out = _rules(behavior.get("scaleUp"), 0, SCALE_OUT_STEPS)
        scale_in = _rules(behavior.get("scaleDown"), scale_in_window, SCALE_IN_STEPS)
    targets = tuple(_target(metric) for metric in spec.get("metrics") or ())
    low = spec.get("minReplicas")
    return Autoscaler(1 if low is None else int(low), int(spec["maxReplicas"]), targets, scale_out, scale_in)


def milli(amount: Fraction) -> int:
    """The amount in thousandths, rounded up, as quantities of Kubernetes are."""
    return math.ceil(amount * 1000)


def propose(target: Target, reading: Reading, counts: Counts, tolerances: tuple[float, float] = (TOLERANCE, TOLERANCE)) -> Proposal:
    """What this metric alone asks for. `tolerances`: how far below and above its target it may be, as a part of it."""
    if target.unsupported or reading.value is None:
        return Proposal(target.metric, None, None, f"{target.metric}: {target.unsupported or reading.problem}")
    if target.kind == AVERAGE_VALUE:
        return _by_average(target, reading.value, counts, tolerances)
    return _by_value(target, reading.value, counts, tolerances)


def decide(
    scaler: Autoscaler,
    readings: Sequence[Reading],
    counts: Counts,
    past: Past | None = None,
    *,
    scale_in_window: int = SCALE_IN_WINDOW,
) -> Decision:
    """What the autoscaler sets the count to now. `readings` are in the order of its targets.

    `scale_in_window` is that of the controller, for autoscalers without any `behavior`.
    """
    now = counts.wanted
    proposals = tuple(
        propose(target, reading, counts, _tolerances(scaler)) for target, reading in zip(scaler.targets, readings, strict=True)
    )
    if now == 0:
        return Decision(0, NO_INSTANCES, "the count is 0, so that the autoscaler does nothing", proposals)
    if now > scaler.high:
        return Decision(scaler.high, ABOVE_MAXIMUM, f"{now} are more than the maximum of {scaler.high}: at once {scaler.high}", proposals)
    if now < scaler.low:
        return Decision(scaler.low, BELOW_MINIMUM, f"{now} are less than the minimum of {scaler.low}: at once {scaler.low}", proposals)
    failed = [proposal for proposal in proposals if proposal.count is None]
    counted = [proposal for proposal in proposals if proposal.count is not None]
    computed = max((proposal.count or 0 for proposal in counted), default=None)
    if computed is None or (failed and computed < now):
        return Decision(now, NO_METRIC, _held(failed, counted, computed), proposals, computed)
    return _limited(scaler, computed, now, past or Past(), proposals, scale_in_window)


def shown(number: Fraction | float | int) -> str:
    """A number as people write it."""
    return f"{float(number):.6g}"


def _target(metric: Mapping[str, Any]) -> Target:
    kind = str(metric.get("type") or "")
    if kind != EXTERNAL:
        return Target(kind or "metric", "", Fraction(0), unsupported=f"a metric of type {kind or 'none'} is not looked at here")
    external = metric["external"]
    target, selector = external["target"], (external["metric"].get("selector") or {}).get("matchLabels") or {}
    # The controller goes by which amount there is, not by the type.
    average = target.get("averageValue")
    amount = quantity(target.get("value") if average is None else average)
    name = str(external["metric"]["name"])
    if amount is None or amount <= 0:
        return Target(name, "", Fraction(0), dict(selector), unsupported="its target is no positive number")
    return Target(name, VALUE if average is None else AVERAGE_VALUE, amount, dict(selector))


def _rules(given: Mapping[str, Any] | None, window: int, steps: tuple[Step, ...]) -> Rules:
    found = given or {}
    policies = found.get("policies")
    if policies is not None:
        steps = tuple(Step(str(item["type"]), int(item["value"]), int(item["periodSeconds"])) for item in policies)
    seconds, tolerance = found.get("stabilizationWindowSeconds"), quantity(found.get("tolerance"))
    return Rules(
        window=window if seconds is None else int(seconds),
        steps=steps,
        select=str(found.get("selectPolicy") or MAX),
        tolerance=TOLERANCE if tolerance is None else float(tolerance),
    )


def _tolerances(scaler: Autoscaler) -> tuple[float, float]:
    return (
        scaler.scale_in.tolerance if scaler.scale_in else TOLERANCE,
        scaler.scale_out.tolerance if scaler.scale_out else TOLERANCE,
    )


def _within(ratio: float, tolerances: tuple[float, float]) -> bool:
    return 1.0 - tolerances[0] <= ratio <= 1.0 + tolerances[1]


def _by_average(target: Target, value: Fraction, counts: Counts, tolerances: tuple[float, float]) -> Proposal:
    """The value is a sum: so many instances that each has its target."""
    amount, wanted = milli(value), milli(target.amount)
    ratio = amount / (wanted * counts.there) if counts.there else math.inf if amount else math.nan
    text = f"{target.metric}: {shown(value)} in all, {shown(target.amount)} per instance wanted"
    if _within(ratio, tolerances):
        return Proposal(target.metric, counts.there, ratio, f"{text}: {_near(ratio)}, {counts.there} stay")
    count = math.ceil(amount / wanted)
    return Proposal(target.metric, count, ratio, f"{text}: ceil({shown(value)} / {shown(target.amount)}) = {count}")


def _by_value(target: Target, value: Fraction, counts: Counts, tolerances: tuple[float, float]) -> Proposal:
    """The value is the same for all: the pods that are ready, times how far it is off its target."""
    ratio = milli(value) / milli(target.amount)
    text = f"{target.metric}: {shown(value)}, {shown(target.amount)} wanted"
    if _within(ratio, tolerances):
        return Proposal(target.metric, counts.wanted, ratio, f"{text}: {_near(ratio)}, {counts.wanted} stay")
    if counts.ready_pods is None:
        return Proposal(target.metric, None, ratio, f"{text}: there are no pods")
    count = math.ceil(ratio * counts.ready_pods)
    formula = f"ceil({counts.ready_pods} ready pods * {shown(value)} / {shown(target.amount)}) = {count}"
    return Proposal(target.metric, count, ratio, f"{text}: {formula}")


def _near(ratio: float) -> str:
    return f"{shown(round(ratio, 3))} of the target is near enough"


def _held(failed: Iterable[Proposal], counted: Sequence[Proposal], computed: int | None) -> str:
    names = ", ".join(proposal.metric for proposal in failed)
    if not counted:
        return f"no metric has a value, so that nothing is changed{f' (none: {names})' if names else ': it has none'}"
    return f"the others ask for {computed}, but nothing is scaled in while a metric has no value (none: {names})"


def _limited(scaler: Autoscaler, computed: int, now: int, past: Past, proposals: tuple[Proposal, ...], scale_in_window: int) -> Decision:
    """What is left of the computed count after windows, steps and limits."""
    words = [_asked(proposals, computed)]
    steady = _stabilised(scaler, computed, now, past, scale_in_window)
    if steady != computed:
        words.append(f"{'more' if steady > computed else 'less'} was wanted within the stabilisation window, so {steady}")
    if scaler.scale_out is None or scaler.scale_in is None:
        count = max(scaler.low, min(steady, scaler.high, max(_FACTOR * now, _AT_LEAST)))
        pace = f"one step goes to {max(_FACTOR * now, _AT_LEAST)} at most"
    else:
        count, pace = _paced(scaler.scale_out, scaler.scale_in, steady, now, past)
        count = min(count, scaler.high) if steady > now else max(count, scaler.low) if steady < now else count
    if count != steady:
        limit = {scaler.high: f"the maximum is {scaler.high}", scaler.low: f"the minimum is {scaler.low}"}
        words.append(f"{limit.get(count, pace)}, so {count}")
    reason = SCALED_OUT if count > now else SCALED_IN if count < now else STAYS
    return Decision(count, reason, "; ".join(words), proposals, computed)


def _asked(proposals: tuple[Proposal, ...], computed: int) -> str:
    """The metrics that decide, and what is not counted on."""
    deciding = next(proposal for proposal in proposals if proposal.count == computed)
    failed = [proposal.metric for proposal in proposals if proposal.count is None]
    more = f" (the highest of {len(proposals) - len(failed)})" if len(proposals) - len(failed) > 1 else ""
    return deciding.words + more + (f"; without a value: {', '.join(failed)}" if failed else "")


def _stabilised(scaler: Autoscaler, computed: int, now: int, past: Past, scale_in_window: int) -> int:
    if scaler.scale_out is None or scaler.scale_in is None:
        return max([computed, *(count for age, count in past.recommendations if age <= scale_in_window)])
    upper = min([computed, *(count for age, count in past.recommendations if age < scaler.scale_out.window)])
    lower = max([computed, *(count for age, count in past.recommendations if age < scaler.scale_in.window)])
    return min(max(now, upper), lower)


def _paced(scale_out: Rules, scale_in: Rules, steady: int, now: int, past: Past) -> tuple[int, str]:
    """The count as far as the steps allow, and what they allow in words."""
    if steady > now:
        most = max(now, _reach(scale_out, now, past, _grown, (min, max)))
        return min(steady, most), f"the steps of scaling out allow {most} now"
    if steady < now:
        least = min(now, _reach(scale_in, now, past, _shrunk, (max, min)))
        return max(steady, least), f"the steps of scaling in allow {least} now"
    return steady, ""


def _reach(
    rules: Rules,
    now: int,
    past: Past,
    step: Callable[[Step, int], int],
    choose: tuple[Callable[[list[int]], int], Callable[[list[int]], int]],
) -> int:
    """How far one may go now; each step counts from what there was when its period began. `choose`: for `Min`, and else."""
    if rules.select == DISABLED or not rules.steps:
        return now
    began = (now - sum(delta for age, delta in past.changes if age < item.period) for item in rules.steps)
    reached = [step(item, start) for item, start in zip(rules.steps, began, strict=True)]
    return choose[0](reached) if rules.select == MIN else choose[1](reached)


def _grown(step: Step, start: int) -> int:
    return start + step.value if step.kind == PODS else math.ceil(start * (1 + step.value / 100))


def _shrunk(step: Step, start: int) -> int:
    return start - step.value if step.kind == PODS else int(start * (1 - step.value / 100))
