# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the Ascend Operator decides by a scaling rule: which tier counts, and which jobs may create pods.

A rule is a list of tiers, the full size first. The operator takes the smallest tier that is not satisfied; a job may create its
pods when that tier asks for more instances of its group than run. It never removes anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .rule_reader import GROUPS, LIST, NAME, NUMBER, SERVERS, Size

# What Motor's own generator writes; the operator never looks at it.
VERSION = "1.0"
SATISFIED = -1


@dataclass(frozen=True)
class Decision:
    """May a job create pods? `tier` is the index of the tier that counts (-1: all are satisfied); `crashes`: the operator dies of it.
    `asked`: how many more instances of the group are to be started.
    """

    tier: int
    create: bool
    crashes: bool
    why: str
    asked: int = 0


def pick(tiers: Sequence[Mapping[str, Size]], running: Mapping[str, int]) -> int:
    """The index of the tier that counts: from the last one up the first in which any group has fewer instances than asked for; else -1.

    `running` are the PodGroups in phase `Running` by group name.
    """
    for index in range(len(tiers) - 1, -1, -1):
        if any(running.get(group, 0) < size.number for group, size in tiers[index].items()):
            return index
    return SATISFIED


def may_count(tiers: Sequence[Mapping[str, Size]]) -> list[bool]:
    """For each tier, whether there are counts by which the operator takes it.

    It is taken when all tiers below it are satisfied and it is not: some group has to have more instances in it than in any below.
    """
    below: dict[str, int] = {}
    found = []
    for tier in reversed(tiers):
        more = {group: size.number for group, size in tier.items() if size.number > below.get(group, 0)}
        below.update(more)
        found.append(bool(more))
    return found[::-1]


def reached(tiers: Sequence[Mapping[str, Size]], running: Mapping[str, int]) -> int | None:
    """The index of the largest tier all of whose counts run; None: not even the smallest one."""
    for index, tier in enumerate(tiers):
        if all(running.get(group, 0) >= size.number for group, size in tier.items()):
            return index
    return None


def decide(tiers: Sequence[Mapping[str, Size]], running: Mapping[str, int], group: str) -> Decision:
    """Whether a job of `group` may create its pods now.

    A tier that counts and does not know the group crashes the operator, for the whole cluster and again after each restart.
    """
    tier = pick(tiers, running)
    if tier == SATISFIED:
        why = "every tier of the rule is satisfied" if tiers else "the rule has no tiers"
        return Decision(tier, create=False, crashes=False, why=f"{why}, so nothing more is started")
    size = tiers[tier].get(group)
    if size is None:
        return Decision(tier, create=False, crashes=True, why=f'tier {tier} counts now and has no group "{group}": the operator crashes')
    found = running.get(group, 0)
    if size.number > found:
        why = f"tier {tier} asks for {size.number} instances of {group}, {found} run"
        return Decision(tier, create=True, crashes=False, why=why, asked=size.number - found)
    waits = ", ".join(
        f"{name} ({running.get(name, 0)} of {other.number})" for name, other in tiers[tier].items() if running.get(name, 0) < other.number
    )
    return Decision(tier, create=False, crashes=False, why=f"tier {tier} has its {size.number} instances of {group} and waits for {waits}")


def write(tiers: Sequence[Mapping[str, Size]]) -> str:
    """The rule as strict JSON: texts for all numbers, every group of the first tier in every tier ("0" rather than left out).

    The same tiers give the same bytes. `servers` of a group are those of its first tier throughout.
    """
    order = list(tiers[0]) if tiers else []
    rows = [[_row(group, tier.get(group, Size(0, 0)).number, tiers[0][group].servers) for group in order] for tier in tiers]
    document = {"version": VERSION, LIST: [{GROUPS: row} for row in rows]}
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def _row(group: str, number: int, servers: int) -> dict[str, str]:
    return {NAME: group, NUMBER: str(number), SERVERS: str(servers)}
