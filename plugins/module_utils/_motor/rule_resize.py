# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scaling rule that fits counts of instances: for a new service, and what becomes of a live rule when its service is scaled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from .rule_reader import Size, Sizes

Tiers: TypeAlias = "tuple[Sizes, ...]"


def for_counts(counts: Mapping[str, int], servers: Mapping[str, int], shrinks: str) -> Tiers:
    """Tiers from `counts` (instances by group, in the order of the rule) down to one instance of the group `shrinks`.

    This is the order in which Motor gives up instances: prefill goes, decode stays (Motor's own generator writes the same).
    """
    sizes = [{**counts, shrinks: number} for number in range(counts[shrinks], 0, -1)]
    return tuple(_tier(tier, servers) for tier in sizes)


def resized(tiers: Sequence[Sizes], counts: Mapping[str, int], servers: Mapping[str, int], shrinks: str) -> Tiers:
    """The live `tiers` when `counts` instances of each group are to run: no tier asks for more, the first one asks for just that.

    Smaller tiers, and groups that are not in `counts`, stay as they are. Growing adds a tier on top for every further instance: first
    those of the other groups, then those of `shrinks`, so that a service grows back in the order in which it was built.
    """
    if not tiers:
        return for_counts(counts, servers, shrinks)
    clipped = [{**tier, **_clipped(tier, counts, servers)} for tier in tiers]
    grown = [*_steps_up(clipped[0], counts, servers, shrinks), *clipped]
    return tuple(_without_repetition(grown))


def _clipped(tier: Sizes, counts: Mapping[str, int], servers: Mapping[str, int]) -> Sizes:
    return {group: Size(min(tier[group].number if group in tier else 0, count), servers[group]) for group, count in counts.items()}


def _steps_up(top: Sizes, counts: Mapping[str, int], servers: Mapping[str, int], shrinks: str) -> list[Sizes]:
    """Tiers between `top` and `counts`, the largest first."""
    steps: list[Sizes] = []
    current = dict(top)
    for group in sorted(counts, key=lambda name: name == shrinks):
        for number in range(current[group].number + 1, counts[group] + 1):
            current = {**current, group: Size(number, servers[group])}
            steps.append(current)
    return steps[::-1]


def _without_repetition(tiers: Iterable[Sizes]) -> Iterable[Sizes]:
    previous: Sizes = {}
    for tier in tiers:
        if tier != previous:
            yield tier
        previous = tier


def _tier(counts: Mapping[str, int], servers: Mapping[str, int]) -> Sizes:
    return {group: Size(number, servers[group]) for group, number in counts.items()}
