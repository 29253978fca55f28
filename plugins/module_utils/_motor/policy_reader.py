# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads scaling policies as options give them. What HPA, the Infer Operator or the API server would take wrongly is refused here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NoReturn

from . import load_metrics
from .compare import quantity
from .errors import InputError
from .fields import MAX_COUNT, shown, wrong_count
from .scaling_policy import AUTOSCALED, PERCENT, PODS, SELECTS, TARGET_TYPES, VALUE, Pace, Policy, ScaleStep, Target, quantity_text
from .scaling_presets import PRESETS

SOURCE = "policies"
WRONG_TARGET_TYPE, UNKNOWN_METRIC, NOT_AUTOSCALED, MIN_ABOVE_MAX = "WrongTargetType", "UnknownMetric", "NotAutoscaled", "MinAboveMax"
_INVALID = "InvalidInput"

# The bounds of autoscaling/v2, in seconds.
MAX_WINDOW, MAX_PERIOD = 3600, 1800
# More than this is a mistake, and HPA counts thousandths in 64 bits.
_MOST = Fraction(10**12)
_LARGEST_STEP = 1000
_KEYS = ("min", "max", "preset", "metrics", "scale_out", "scale_in")
_METRIC_KEYS = ("name", "target", "target_type", "foreign")
_PACE_KEYS = ("window", "steps", "select")
_STEP_KEYS = ("type", "value", "period")
# What may be part of a URL path, and of the API server's check of it.
_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.:-]{0,251}[A-Za-z0-9_])?")
_INSTANCES = 4
# For a Value HPA multiplies by the instances that are ready, and those whose engines still load their weights are, for minutes: it would
# double again and again what is on its way already. So one is waited for before the next comes, unless the user knows better.
ONE_AT_A_TIME = Pace(steps=(ScaleStep(PODS, 1, 300),))


def read_policies(data: Any, *, source: str = SOURCE) -> dict[str, Policy]:
    """The policies by engine role. Raises InputError with path, and with a `reason` of its own where HPA would go wrong."""
    if not isinstance(data, Mapping):
        _fail(
            f"{shown(data)} is no mapping: write engine roles ({', '.join(AUTOSCALED)}), each with min, max and metrics or a preset", source
        )
    given = {role: policy for role, policy in data.items() if policy is not None}
    for role in given:
        if role not in AUTOSCALED:
            wrong = f"{shown(role)} is not scaled by load: policies are for {', '.join(AUTOSCALED)}; router, controller and coordinator never are"
            _fail(wrong, f"{source}.{role}", NOT_AUTOSCALED)
    return {role: _policy(role, given[role], f"{source}.{role}") for role in AUTOSCALED if role in given}


def wrong_type(metric: load_metrics.Metric, target: Fraction) -> str:
    """What HPA would do with the other target type, with its formula and numbers."""
    text, count = _decimal(target), _INSTANCES
    if metric.target_type == VALUE:
        return (
            f"{metric.name} does not grow with the number of instances, and for AverageValue HPA wants ceil(value / target) instances: with {count} "
            f"instances at just {text} that is ceil({text} / {text}) = 1, however many there are, and with 1 instance at {text} still 1. It would "
            f"scale in for ever. Use target_type Value, by which it wants ceil({count} x {text} / {text}) = {count}"
        )
    total = _decimal(count * target)
    return (
        f"{metric.name} is the total of all instances, and for Value HPA wants ceil(instances x value / target): with {count} instances of {text} each "
        f"that is ceil({count} x {total} / {text}) = {count * count}, and from there more and more, up to max. Use target_type AverageValue, "
        f"by which it wants ceil({total} / {text}) = {count}"
    )


def _policy(role: str, data: Any, path: str) -> Policy:
    _known(data, _KEYS, path)
    for key in ("min", "max"):
        wrong = wrong_count(data.get(key), maximum=MAX_COUNT)
        if wrong:
            _fail(f"{wrong}; HPA keeps the count between min and max" if data.get(key) is None else wrong, f"{path}.{key}")
    low, high = data["min"], data["max"]
    if low > high:
        wrong = f"min {low} is above max {high}: the operator would try in vain to make an autoscaler of it, and its status would not tell"
        _fail(wrong, path, MIN_ABOVE_MAX)
    metrics = _metrics(role, data, path)
    runs_away = data.get("scale_out") is None and any(target.target_type == VALUE for target in metrics)
    scale_out = ONE_AT_A_TIME if runs_away else _pace(data.get("scale_out"), f"{path}.scale_out")
    return Policy(role, low, high, metrics, scale_out, _pace(data.get("scale_in"), f"{path}.scale_in"))


def _metrics(role: str, data: Mapping[str, Any], path: str) -> tuple[Target, ...]:
    preset = data.get("preset")
    if preset is not None and (not isinstance(preset, str) or preset not in PRESETS):
        _fail(f"{shown(preset)} is unknown: write one of {', '.join(PRESETS)}", f"{path}.preset")
    wanted: dict[str, str | None] = dict(PRESETS[preset][role]) if preset else {}
    found: dict[str, Target] = {}
    for index, item in enumerate(_list(data.get("metrics"), f"{path}.metrics")):
        target = _target(item, f"{path}.metrics[{index}]")
        if target.metric in found:
            _fail(f"{target.metric} is given twice", f"{path}.metrics[{index}].name")
        found[target.metric] = target
    for name, text in wanted.items():
        metric = load_metrics.METRICS[name]
        if text is None and name not in found:
            wrong = (
                f"preset {preset} has no target for {name} ({metric.why}), as it depends on model and NPUs: add what one instance is to do"
            )
            _fail(f"{wrong} to metrics, as {{name: {name}, target: ...}}", f"{path}.preset")
        if text is not None and name not in found:
            found[name] = Target(name, quantity(text) or Fraction(0), metric.target_type)
    if not found:
        _fail(f"there is nothing to scale by: give metrics, or a preset ({', '.join(PRESETS)})", path)
    return tuple(sorted(found.values(), key=lambda target: list(wanted).index(target.metric) if target.metric in wanted else len(wanted)))


def _target(data: Any, path: str) -> Target:
    _known(data, _METRIC_KEYS, path)
    name, foreign = data.get("name"), data.get("foreign") or False
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        _fail(f"{shown(name)} is no name of a metric", f"{path}.name")
    if not isinstance(foreign, bool):
        _fail(f"{shown(foreign)} is neither true nor false", f"{path}.foreign")
    number = _number(data.get("target"), f"{path}.target")
    target_type = data.get("target_type")
    if target_type is not None and target_type not in TARGET_TYPES:
        _fail(f"{shown(target_type)} is unknown: write one of {', '.join(TARGET_TYPES)}", f"{path}.target_type")
    metric = load_metrics.find(name)
    if metric is None:
        return Target(name, number, _foreign_type(name, target_type, path, foreign=foreign))
    if target_type not in (None, metric.target_type):
        _fail(wrong_type(metric, number), f"{path}.target_type", WRONG_TARGET_TYPE)
    return Target(name if foreign else metric.name, number, metric.target_type)


def _foreign_type(name: str, target_type: str | None, path: str, *, foreign: bool) -> str:
    if not foreign:
        like = load_metrics.suggestions(name)
        hint = f" Did you mean {', '.join(like)}?" if like else " They are listed in docs/autoscaling.md."
        wrong = (
            f"{name} is none of the metrics that the adaptor serves.{hint} If another provider serves it, set foreign: true and target_type"
        )
        _fail(wrong, f"{path}.name", UNKNOWN_METRIC)
    if target_type is None:
        wrong = f"what {name} means is not known here: write AverageValue for a total of all instances, Value for a mean, ratio or latency"
        _fail(wrong, f"{path}.target_type")
    return target_type


def _number(value: Any, path: str) -> Fraction:
    number = None if value is None or isinstance(value, (dict, list)) else quantity(repr(value) if isinstance(value, float) else value)
    if number is None:
        _fail(f"{shown(value)} is no quantity: write a number such as 5, 0.8 or 500m", path)
    if not 0 < number <= _MOST:
        _fail(f"{shown(value)} is no target: write a number above 0, at most {_MOST}", path)
    if (number * 1000).denominator != 1:
        _fail(f"{shown(value)} has more than three decimal places: HPA counts in thousandths and would round it", path)
    return number


def _pace(data: Any, path: str) -> Pace:
    if data is None:
        return Pace()
    _known(data, _PACE_KEYS, path)
    window, select = data.get("window"), data.get("select")
    if window is not None:
        _integer(window, f"{path}.window", 0, MAX_WINDOW)
    if select is not None and select not in SELECTS:
        _fail(f"{shown(select)} is unknown: write one of {', '.join(SELECTS)}", f"{path}.select")
    steps = _list(data.get("steps"), f"{path}.steps")
    return Pace(window, tuple(_step(item, f"{path}.steps[{index}]") for index, item in enumerate(steps)), select)


def _step(data: Any, path: str) -> ScaleStep:
    _known(data, _STEP_KEYS, path)
    if data.get("type") not in (PODS, PERCENT):
        _fail(
            f"{shown(data.get('type'))} is unknown: write {PODS} (so many instances) or {PERCENT} (of the instances that there are)",
            f"{path}.type",
        )
    for key, most in (("value", _LARGEST_STEP), ("period", MAX_PERIOD)):
        _integer(data.get(key), f"{path}.{key}", 1, most)
    return ScaleStep(data["type"], data["value"], data["period"])


def _integer(value: Any, path: str, minimum: int, maximum: int) -> None:
    wrong = wrong_count(value, minimum=minimum, maximum=maximum)
    if wrong:
        _fail(wrong, path)


def _list(value: Any, path: str) -> list[Any]:
    if value is not None and not isinstance(value, list):
        _fail(f"{shown(value)} is no list", path)
    return value or []


def _known(data: Any, keys: tuple[str, ...], path: str) -> None:
    if not isinstance(data, Mapping):
        _fail(f"{shown(data)} is no mapping: write {', '.join(keys)}", path)
    for key in data:
        if key not in keys:
            _fail(f"{shown(key)} is unknown: write {', '.join(keys)}", path)


def _decimal(number: Fraction) -> str:
    """A number as people write it; all of ours are thousandths."""
    return f"{float(number):g}" if number < 10**6 else quantity_text(number)


def _fail(wrong: str, path: str, reason: str = _INVALID) -> NoReturn:
    raise InputError(f"{path}: {wrong}", reason=reason, source=path.split(".", maxsplit=1)[0], path=path)
