# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What HPA would do by given policies with given numbers, or with those of recorded expositions of a coordinator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn

from . import hpa
from .compare import quantity
from .errors import InputError
from .fields import shown
from .load_metrics import bare
from .policy_report import Answer, evaluated
from .policy_words import table

SOURCE = "what_if"
_MOST = 4096


@dataclass(frozen=True)
class WhatIf:
    """Counts of instances and pods by engine role, and values by engine role and metric. `seconds` lie between two expositions."""

    counts: Mapping[str, hpa.Counts]
    values: Mapping[tuple[str, str], Fraction]
    seconds: float


def read(given: Mapping[str, Any], policies: Mapping[str, Any]) -> WhatIf:
    """Read the option `what_if` for these policies. Raises InputError with the path."""
    instances, pods = given.get("instances") or {}, given.get("pods_per_instance") or {}
    for option, mapping in (("instances", instances), ("pods_per_instance", pods), ("values", given.get("values") or {})):
        for role in mapping:
            if role not in policies:
                _fail(f"there is no policy for {shown(role)}", f"{SOURCE}.{option}")
    counts = {}
    for role in policies:
        if role not in instances:
            _fail(f"say how many {role} instances there are", f"{SOURCE}.instances")
        now = _count(instances[role], f"{SOURCE}.instances.{role}", least=0)
        counts[role] = hpa.Counts(now, now, now * _count(pods.get(role, 1), f"{SOURCE}.pods_per_instance.{role}", least=1))
    return WhatIf(counts, dict(_values(given.get("values") or {})), float(given.get("seconds") or 30.0))


def evaluate(policies: Mapping[str, Mapping[str, Any]], wish: WhatIf, recorded: Sequence[str] = ()) -> dict[str, Any]:
    """Each engine role with its metrics, and what HPA would do now. `recorded` are texts of `/metrics?type=dp`, the older one first."""
    rows = []
    for role, policy in policies.items():
        answers = _answers(role, policy["spec"], wish, recorded)
        rows.append(evaluated(role, policy["spec"], answers, wish.counts[role], hpa.Past()))
    return {"engine_roles": rows, "problems": [], "table": table(rows, (), ("What HPA would do",))}


def _answers(role: str, spec: Mapping[str, Any], wish: WhatIf, recorded: Sequence[str]) -> dict[str, Answer]:
    found = {}
    for target in hpa.autoscaler(spec).targets:
        value = wish.values.get((role, bare(target.metric)))
        found[target.metric] = Answer(value) if value is not None else _recorded(role, target.metric, wish, recorded)
    return found


def _recorded(role: str, metric: str, wish: WhatIf, recorded: Sequence[str]) -> Answer:
    return Answer(None, "no value is given")


def _values(given: Mapping[str, Any]) -> list[tuple[tuple[str, str], Fraction]]:
    found = []
    for role, metrics in given.items():
        if not isinstance(metrics, Mapping):
            _fail(f"{shown(metrics)} is no mapping of metrics to numbers", f"{SOURCE}.values.{role}")
        for metric, value in metrics.items():
            number = quantity(repr(value) if isinstance(value, float) else value)
            if value is not None and (number is None or number < 0):
                _fail(f"{shown(value)} is no number", f"{SOURCE}.values.{role}.{metric}")
            if number is not None:
                found.append(((str(role), bare(str(metric))), number))
    return found


def _count(value: Any, path: str, *, least: int) -> int:
    """A count, or the text of one, as surveys give it."""
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= _MOST:
        _fail(f"{shown(value)} is no whole number from {least} to {_MOST}", path)
    return number


def _fail(wrong: str, path: str) -> NoReturn:
    raise InputError.at(wrong, source=SOURCE, path=path)
