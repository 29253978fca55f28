# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quantities of Kubernetes and sums of them. Pure functions."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from ..kube_client import Obj

Amounts = dict[str, Fraction]
NPU = "huawei.com/Ascend910"

_SUFFIXES = {
    **{f"{letter}i": Fraction(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
    **{letter: Fraction(1000) ** power for power, letter in enumerate("kMGTPE", 1)},
    "m": Fraction(1, 1000),
    "u": Fraction(1, 10**6),
    "n": Fraction(1, 10**9),
}


@functools.lru_cache(maxsize=1024)
def quantity(text: str) -> Fraction:
    """The number that a quantity like ``16Gi``, ``500m`` or ``8`` stands for."""
    for suffix, factor in _SUFFIXES.items():
        if text.endswith(suffix):
            return Fraction(text.removesuffix(suffix)) * factor
    return Fraction(text)


def canonical(value: Fraction, *, binary: bool) -> str:
    """How Kubernetes writes a number: with the largest suffix that leaves a whole one. ``binary``: in powers of 1024, where it can."""
    if binary and value >= 1024 and value.denominator == 1:
        return _suffixed(int(value), 1024, ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))
    return _suffixed(math.ceil(value * 10**9), 1000, ("n", "u", "m", "", "k", "M", "G", "T", "P", "E"))


def _suffixed(number: int, base: int, suffixes: tuple[str, ...]) -> str:
    rank = 0
    while number and number % base == 0 and rank < len(suffixes) - 1:
        number, rank = number // base, rank + 1
    return f"{number}{suffixes[rank]}" if number else "0"


def in_powers_of_two(specs: Iterable[Obj]) -> set[str]:
    """The resources of which a sum over pods is written with suffixes like ``Gi``: the first container that asks for some does so."""
    first: dict[str, str] = {}
    for name, value in (row for spec in specs for container in spec.get("containers") or () for row in _given(container).items()):
        if quantity(str(value)):
            first.setdefault(name, str(value))
    return {name for name, text in first.items() if text.endswith("i")}


def amounts(given: Mapping[str, Any] | None) -> Amounts:
    """A resource list as numbers."""
    return {name: quantity(str(value)) for name, value in (given or {}).items()}


def total(rows: Iterable[Mapping[str, Fraction]]) -> Amounts:
    """The sum of several."""
    found: Amounts = {}
    for row in rows:
        for name, value in row.items():
            found[name] = found.get(name, Fraction(0)) + value
    return found


def minus(left: Mapping[str, Fraction], right: Mapping[str, Fraction]) -> Amounts:
    """What is left of each resource of ``left``, at least nothing."""
    return {name: max(Fraction(0), value - right.get(name, Fraction(0))) for name, value in left.items()}


def short_of(wanted: Mapping[str, Fraction], available: Mapping[str, Fraction]) -> list[str]:
    """The resources of which more is wanted than available."""
    return sorted(name for name, value in wanted.items() if value > available.get(name, Fraction(0)))


def of_template(spec: Obj) -> Amounts:
    """What one pod of a specification asks for: requests, or limits where none are given. Init containers do not add up."""
    rows = [_container(row) for row in spec.get("containers") or ()]
    first = [_container(row) for row in spec.get("initContainers") or ()]
    found = total(rows)
    for row in first:
        found = {name: max(found.get(name, Fraction(0)), row.get(name, Fraction(0))) for name in {*found, *row}}
    return found


def of_pod(pod: Obj) -> Amounts:
    """What a pod takes from its node, its place among the node's pods included."""
    return {**of_template(pod["spec"]), "pods": Fraction(1)}


def _container(container: Obj) -> Amounts:
    return amounts(_given(container))


def _given(container: Obj) -> Obj:
    given = container.get("resources") or {}
    return {**(given.get("limits") or {}), **(given.get("requests") or {})}
