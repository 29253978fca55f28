# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a task comes to rest under its rule: what is started while there is room, what is held by which tier, what is given up.

The model, and where reality may differ:

* Instances start one by one in the order of `scaling_rule.pick`: the smallest tier that is not satisfied, in it the other groups
  before the one that shrinks (decode before prefill). Really, all jobs that a tier allows try at once, and Volcano's queue decides.
* Motor's controller reads the first tier by position: the first group is prefill, the second decode. After a fault, while fewer decode
  instances run than that tier asks for, it ends one prefill instance after the other, the first of its list first, whether or not
  that makes room, until one is left. A prefill that the rule lets start again meanwhile would be ended again, so none is started.
* An instance that waits while the tier that counts does not know its group is a crash of the operator: nothing is started any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .capacity_model import Shape
from .capacity_room import Place, Room
from .errors import InputError
from .rule_reader import Size
from .scaling_rule import SATISFIED, decide, pick, reached

# Why an instance that exists does not run.
HELD, NO_ROOM, GIVEN_UP, CRASH = "held", "no_room", "given_up", "crash"


@dataclass(frozen=True)
class Held:
    """`count` instances of a group that exist and do not run. `tier` is the one that counts (-1: all are satisfied)."""

    group: str
    count: int
    reason: str
    tier: int
    why: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class Rest:
    """Where a task comes to rest: running instances by group. `shrunk`: the rule lets a prefill start that would be ended again."""

    running: tuple[int, ...]
    crashes: bool = False
    shrunk: bool = False


class Task:
    """The groups of a task with their shapes, its tiers, and what the Motor controller gives up for what (`shrinks`, `keeps`).

    Groups are in the order of the first tier, and counts of instances are tuples in that order.
    """

    def __init__(
        self, shapes: Sequence[Shape], tiers: Sequence[Mapping[str, Size]], *, keep_decode: bool = True, shrinks: str = ""
    ) -> None:
        if not tiers:
            raise InputError("the rule has no tiers, so it lets nothing start", source="tiers")
        by_group = {shape.group: shape for shape in shapes}
        unknown = [group for group in by_group if group not in tiers[0]]
        if unknown:
            raise InputError.at(f'group "{unknown[0]}" is not in the first tier of the rule', source="shapes")
        order = list(tiers[0])
        if shrinks and shrinks not in order:
            raise InputError.at(f'group "{shrinks}" is not in the first tier of the rule', source="shrinks")
        self.tiers = tiers
        self.groups = tuple(group for group in order if group in by_group)
        self.shapes = tuple(by_group[group] for group in self.groups)
        gives = shrinks or order[0]
        others = [group for group in order if group != gives]
        self.shrinks = self._index(gives) if keep_decode and others else None
        self.keeps = self._index(others[0]) if self.shrinks is not None else None
        if self.keeps is None:
            self.shrinks = None
        self._may_crash = any(group not in tier for group in self.groups for tier in tiers)
        self.start_order = tuple(sorted(range(len(self.groups)), key=lambda index: self.groups[index] == gives))

    def _index(self, group: str) -> int | None:
        return self.groups.index(group) if group in self.groups else None

    def named(self, running: Sequence[int]) -> dict[str, int]:
        """Counts by name of the group."""
        return dict(zip(self.groups, running, strict=True))

    def tier(self, running: Sequence[int]) -> int | None:
        """The largest tier that is satisfied; None: not even the smallest one is, so the service is down."""
        return reached(self.tiers, self.named(running))

    def short(self, running: Sequence[int]) -> int:
        """How many decode instances are missing from the first tier, as the Motor controller sees it (0 when it gives up nothing)."""
        if self.keeps is None:
            return 0
        return max(0, self.tiers[0][self.groups[self.keeps]].number - running[self.keeps])

    def grow(self, running: list[int], room: Room, *, capped: bool = False) -> list[tuple[int, list[Place]]] | None:
        """Start what the rule allows and the room holds; changes both. Returns group and places of each; None: the operator crashes.

        `capped`: of the group that shrinks only the first instance is started.
        """
        started: list[tuple[int, list[Place]]] = []
        full: set[int] = set()
        while True:
            allowed = self.allowed(running)
            if allowed is None:
                return None
            for index in allowed:
                if index in full or (capped and index == self.shrinks and running[index]):
                    continue
                places = room.take(self.shapes[index])
                if places is not None:
                    running[index] += 1
                    started.append((index, places))
                    break
                full.add(index)
            else:
                return started

    def allowed(self, running: Sequence[int]) -> list[int] | None:
        """Groups with an instance that waits and that the rule lets start, the first to start first. None: the operator crashes."""
        named = self.named(running)
        tier = pick(self.tiers, named)
        if tier == SATISFIED:
            return []
        waiting = [index for index in self.start_order if running[index] < self.shapes[index].count]
        if any(self.groups[index] not in self.tiers[tier] for index in waiting):
            return None
        return [index for index in waiting if self.tiers[tier][self.groups[index]].number > running[index]]

    def settle(self, left: Sequence[int], ended: int, room: Room, *, fault: bool) -> Rest | int:
        """Where the task comes to rest, or (a number) how many prefill instances have to be ended at least before that can be said.

        `left` run after the fault, `ended` of the group that shrinks were ended besides; `room` is what is free then and is used up.
        """
        if not ended:
            running = list(left)
            crashes = self.grow(running, room.copy()) is None
            if crashes or not fault or self.shrinks is None or not self.short(running) or running[self.shrinks] <= 1:
                return Rest(tuple(running), crashes)
        if self.shrinks is None:
            raise ValueError("nothing is ended without a group that shrinks")
        running = list(left)
        running[self.shrinks] -= ended
        fewest = self._fewest(left, room)
        if self.grow(running, room, capped=True) is None:
            return Rest(tuple(running), crashes=True)
        if not self.short(running):
            crashes = self.grow(running, room) is None
            return Rest(tuple(running), crashes)
        most = left[self.shrinks] - 1
        if ended < most:
            return min(most, ended + fewest)
        return Rest(tuple(running), shrunk=self.shrinks in (self.allowed(running) or ()))

    def _fewest(self, left: Sequence[int], room: Room) -> int:
        """How many more have to be ended at least, judged by the bare number of NPUs."""
        if self.keeps is None or self.shrinks is None or not room.nested or self._may_crash:
            return 1
        lacking = self.short(left) * self.shapes[self.keeps].npus - room.npus
        return max(1, -(-lacking // self.shapes[self.shrinks].npus))

    def held(self, rest: Rest) -> tuple[Held, ...]:
        """What does not run although it exists, and which tier holds it."""
        named = self.named(rest.running)
        found = []
        for index, (group, shape) in enumerate(zip(self.groups, self.shapes, strict=True)):
            count = shape.count - rest.running[index]
            if count > 0:
                decision = decide(self.tiers, named, group)
                reason, why = HELD, decision.why
                if decision.crashes or rest.crashes:
                    reason = CRASH
                elif decision.create and rest.shrunk and index == self.shrinks:
                    reason, why = GIVEN_UP, "the Motor controller ends prefill instances while decode is short of the first tier"
                elif decision.create:
                    reason, why = NO_ROOM, f"{decision.why}; {_need(shape)} are not free"
                found.append(Held(group, count, reason, decision.tier, why))
        return tuple(found)

    def regrows(self, running: Sequence[int]) -> tuple[str, ...]:
        """Groups in the order in which the rule lets their instances start once there is room for all."""
        counts = list(running)
        order: list[str] = []
        while True:
            allowed = self.allowed(counts)
            if not allowed:
                return tuple(order)
            counts[allowed[0]] += 1
            order.append(self.groups[allowed[0]])


def _need(shape: Shape) -> str:
    text = f"{shape.pods} x {shape.npus_per_pod} NPUs" if shape.pods > 1 else f"{shape.npus_per_pod} NPUs of one server"
    if shape.sp_block:
        text += f", {shape.sp_block} of them in one super pod" if shape.sp_block < shape.npus else " in one super pod"
    return text
