# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What HPA would do by given policies with given numbers, or with those of recorded expositions of a coordinator."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn

from . import hpa, load
from .compare import quantity
from .errors import InputError
from .exposition import BadExposition
from .fields import shown
from .load import Limits, NoValue, Scrape
from .load_metrics import bare, find
from .load_window import Sheets
from .policy_report import Answer, evaluated
from .policy_words import table

SOURCE = "what_if"
_MOST = 4096
# What rates and quantiles are made of.
_TEXTS = 2
_LONGEST = 86_400


@dataclass(frozen=True)
class WhatIf:
    """Counts of instances and pods and what HPA remembers, by engine role, and values by engine role and metric. `seconds` lie between
    two expositions.
    """

    counts: Mapping[str, hpa.Counts]
    values: Mapping[tuple[str, str], Fraction]
    seconds: float
    pasts: Mapping[str, hpa.Past]


def read(given: Mapping[str, Any], policies: Mapping[str, Any]) -> WhatIf:
    """Read the option `what_if` for these policies. Raises InputError with the path."""
    instances, pods = given.get("instances") or {}, given.get("pods_per_instance") or {}
    for option, mapping in (
        ("instances", instances),
        ("pods_per_instance", pods),
        ("values", given.get("values") or {}),
        ("past", given.get("past") or {}),
    ):
        for role in mapping:
            if role not in policies:
                _fail(f"there is no policy for {shown(role)}", f"{SOURCE}.{option}")
    counts = {}
    for role in policies:
        if role not in instances:
            _fail(f"say how many {role} instances there are", f"{SOURCE}.instances")
        now = _count(instances[role], f"{SOURCE}.instances.{role}", least=0)
        counts[role] = hpa.Counts(now, now, now * _count(pods.get(role, 1), f"{SOURCE}.pods_per_instance.{role}", least=1))
    seconds = 30.0 if given.get("seconds") is None else float(given["seconds"])
    if not 0 < seconds <= _LONGEST:
        _fail(f"{seconds:g} is no time between two texts: write seconds, {_LONGEST} at most", f"{SOURCE}.seconds")
    pasts = {role: _past(past, f"{SOURCE}.past.{role}") for role, past in (given.get("past") or {}).items()}
    values = dict(_values(given.get("values") or {}))
    for role, metric in values:
        there = [target.metric for target in hpa.autoscaler(policies[role]["spec"]).targets]
        if metric not in map(bare, there):
            _fail(f"the policy of {role} has no metric {shown(metric)}: it has {', '.join(there)}", f"{SOURCE}.values.{role}")
    return WhatIf(counts, values, seconds, pasts)


def evaluate(policies: Mapping[str, Mapping[str, Any]], wish: WhatIf, recorded: Sequence[str] = ()) -> dict[str, Any]:
    """Each engine role with its metrics, and what HPA would do now. `recorded` are texts of `/metrics?type=dp`, the older one first."""
    rows, scrapes = [], _scrapes(recorded, wish.seconds)
    for role, policy in policies.items():
        answers = _answers(role, policy["spec"], wish, scrapes)
        rows.append(evaluated(role, policy["spec"], answers, wish.counts[role], wish.pasts.get(role, hpa.Past())))
    lines = table(rows, (), ("What HPA would do",))
    without = [
        f"{row['engine_role']} {metric['name']}: {metric['problem']}" for row in rows for metric in row["metrics"] if metric["problem"]
    ]
    return {"engine_roles": rows, "problems": [], "table": [*lines, *(("", *without) if without else ())]}


def _scrapes(recorded: Sequence[str], seconds: float) -> tuple[Scrape, ...]:
    if len(recorded) > _TEXTS:
        _fail(f"{len(recorded)} files are too many: two at most, the older one first", f"{SOURCE}.recorded")
    sheets, found = Sheets(), []
    for number, text in enumerate(recorded):
        try:
            found.append(Scrape(number * seconds, sheets.make(text)))
        except BadExposition as error:
            _fail(f"this is no exposition: {error.message}", f"{SOURCE}.recorded[{number}]")
    return tuple(found)


def _answers(role: str, spec: Mapping[str, Any], wish: WhatIf, scrapes: Sequence[Scrape]) -> dict[str, Answer]:
    found = {}
    for target in hpa.autoscaler(spec).targets:
        number = wish.values.get((role, bare(target.metric)))
        found[target.metric] = Answer(number) if number is not None else _recorded(role, target.metric, wish.seconds, scrapes)
    return found


def _recorded(role: str, name: str, seconds: float, scrapes: Sequence[Scrape]) -> Answer:
    """The value that the adaptor would have made of these texts, with all of the time between them as its window."""
    metric = find(name)
    if not scrapes or metric is None:
        return Answer(None, "no value is given")
    limits = Limits(window=seconds, stale_after=seconds, frozen_after=math.inf, joining=0.0)
    try:
        # As the adaptor gives it, in thousandths.
        return Answer(Fraction(round(load.value(metric, role, scrapes, limits=limits).value * 1000), 1000))
    except NoValue as error:
        return Answer(None, error.message)


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


def _past(given: Any, path: str) -> hpa.Past:
    """Counts that were wanted before, and changes that were made, each so many seconds `ago`."""
    if not isinstance(given, Mapping) or set(given) - {"wanted", "changed"}:
        _fail(f"{shown(given)}: write wanted (count, ago) and changed (by, ago)", path)
    wanted = tuple(_remembered(given, "wanted", "count", path))
    return hpa.Past(wanted, tuple(_remembered(given, "changed", "by", path)))


def _remembered(given: Mapping[str, Any], what: str, number: str, path: str) -> Iterator[tuple[float, int]]:
    rows = given.get(what) or []
    for index, row in enumerate(rows if isinstance(rows, list) else [rows]):
        place = f"{path}.{what}[{index}]"
        if not isinstance(row, Mapping) or set(row) != {number, "ago"}:
            _fail(f"{shown(row)}: write {number} and ago (seconds)", place)
        ago = quantity(row["ago"])
        if ago is None or ago < 0:
            _fail(f"{shown(row['ago'])} is no number of seconds", f"{place}.ago")
        yield float(ago), _count(row[number], f"{place}.{number}", least=0 if what == "wanted" else -_MOST)


def _count(value: Any, path: str, *, least: int) -> int:
    """A count, or the text of one, as surveys give it."""
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= _MOST:
        _fail(f"{shown(value)} is no whole number from {least} to {_MOST}", path)
    return number


def _fail(wrong: str, path: str) -> NoReturn:
    raise InputError.at(wrong, source=SOURCE, path=path)
