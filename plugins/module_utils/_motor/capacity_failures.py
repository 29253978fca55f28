# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every failure of up to k servers, without looking at each one.

Servers with the same pods of the same instances and the same NPUs free are alike: which of them fail makes no difference, so a class
of them is gone through once, weighted by binomials. What is left after a failure is one number: the running instances by group and
the free NPUs are digits of it, and each server that fails and each instance that is lost adds its own part, so that a case costs a
few additions. Where the task comes to rest is worked out once per such number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import comb
from typing import TypeAlias

from .capacity_growth import Rest, Task
from .capacity_model import Instance, Load
from .capacity_room import Grid, Histogram, Regions, Room
from .errors import InputError

# Cases that are gone through at most; 3 of 200 servers, no two of them alike, are 1.4 million.
MOST_CASES = 3_000_000
# Numbers whose rest is remembered at a time.
MOST_KNOWN = 200_000
# A digit of the number: bits for a count of instances or of places.
_COUNT = 16
_BYTE = 8
Case: TypeAlias = "tuple[tuple[int, int], ...]"


@dataclass
class Tally:
    """How many combinations of servers end in a rest, and the first of them: its servers, what is lost, what is given up for decode."""

    combinations: int = 0
    servers: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    given_up: tuple[str, ...] = ()


@dataclass
class Survey:
    """Tallies by rest for 0, 1, ... k failures, and the rest after each single failure by name of the server."""

    levels: list[dict[Rest, Tally]]
    single: dict[str, Rest] = field(default_factory=dict)


class _Digits:
    """What instances and servers add to the number of a case.

    The lowest digits count lost instances by group. Above them are the places of each region (pods of one size), or one byte per
    server with its free NPUs (any sizes).
    """

    def __init__(self, load: Load, task: Task, grid: Grid, regions: Regions) -> None:
        self._grid, self.regions = grid, regions
        self._low = _COUNT * len(task.groups)
        self._group = {group: index for index, group in enumerate(task.groups)}
        # Servers of a region are neighbours, so that each region is one slice of the bytes.
        order = sorted(range(len(load.servers)), key=lambda index: (regions.of[index], index))
        self._position = {load.servers[index].name: place for place, index in enumerate(order)}
        self._region = {server.name: region for server, region in zip(load.servers, regions.of, strict=True)}
        self._places = grid.one_size and all(item.npus_per_pod == grid.sizes[0] for item in load.instances)
        found = [regions.of[index] for index in order]
        starts = [found.index(region) if region in found else 0 for region in range(regions.count)]
        self._slices = [(start, start + found.count(region)) for region, start in enumerate(starts)]
        self._bytes = len(order)
        self._down = {server.name for server in load.servers if not server.usable}

    @property
    def counts_places(self) -> bool:
        """The number itself says all that matters."""
        return self._places

    def server(self, name: str, npus: int) -> int:
        """What `npus` free NPUs of a server are worth; they may be free already or come free."""
        if self._places:
            return npus // self._grid.sizes[0] << self._low + _COUNT * self._region[name]
        return npus << self._low + _BYTE * self._position[name]

    def room_of(self, instance: Instance) -> int:
        """What the NPUs of an instance are worth. A server that is not usable gives none back."""
        return sum(self.server(name, instance.npus_per_pod) for name in instance.pods if name not in self._down)

    def lost(self, instance: Instance) -> int:
        """The digit of one lost instance, without its NPUs."""
        return 1 << _COUNT * self._group[instance.group]

    def key(self, number: int) -> object:
        """What tells apart cases that may end differently."""
        if self._places:
            return number
        return number & (1 << self._low) - 1, *self._rows(number)

    def _rows(self, number: int) -> list[Histogram]:
        """The histogram of each region; those of super pods in order, as one super pod is like another."""
        data = (number >> self._low).to_bytes(self._bytes, "little").translate(self._grid.floor)
        levels = self._grid.levels
        first, *others = [tuple([data.count(level, start, end) for level in levels]) for start, end in self._slices]
        return [first, *sorted(others)]

    def left(self, number: int, running: Sequence[int]) -> list[int]:
        """Running instances by group."""
        mask = (1 << _COUNT) - 1
        return [count - (number >> _COUNT * index & mask) for index, count in enumerate(running)]

    def any_lost(self, number: int) -> bool:
        """Whether the fault hit an instance of the task."""
        return bool(number & (1 << self._low) - 1)

    def room(self, number: int) -> Room:
        """The room of a case."""
        digits = number >> self._low
        if self._places:
            width = len(self._grid.levels)
            mask = (1 << _COUNT) - 1
            rows = [((digits >> _COUNT * region & mask), *[0] * (width - 1)) for region in range(self.regions.count)]
            return Room(self._grid, [row[:width] for row in rows])
        return Room(self._grid, self._rows(number))


@dataclass(frozen=True)
class _Class:
    """Servers that are alike: their names, the instances on them (bits), what the first one that fails adds to the number (its
    instances are lost), and what each one takes from it.
    """

    names: tuple[str, ...]
    hosts: int
    first: int
    goes: tuple[int, ...]


class _Walk:
    """Goes through all cases."""

    def __init__(self, load: Load, task: Task, grid: Grid, regions: Regions, failures: int) -> None:
        self._load, self._task, self._failures = load, task, failures
        self._digits = digits = _Digits(load, task, grid, regions)
        self._room_of = [digits.room_of(item) for item in load.instances]
        self._gains = [room + digits.lost(item) for room, item in zip(self._room_of, load.instances, strict=True)]
        self._running = tuple(sum(item.group == group for item in load.instances) for group in task.groups)
        gives = task.groups[task.shrinks] if task.shrinks is not None else None
        of_victims = {bit: room for bit, (item, room) in enumerate(zip(load.instances, self._room_of, strict=True)) if item.group == gives}
        self._victims = sum(1 << bit for bit in of_victims)
        # It does not matter which instances are given up: the rest follows from the number alone.
        self._victims_alike = digits.counts_places and len(set(of_victims.values())) <= 1
        self._known: dict[object, int] = {}
        self._rests: dict[Rest, int] = {}
        self._classes = self._alike()
        self._tallies: list[dict[int, int]] = [{} for dummy in range(failures + 1)]
        self._first: list[dict[int, Case]] = [{} for dummy in range(failures + 1)]

    def _alike(self) -> list[_Class]:
        load, digits = self._load, self._digits
        hosted: dict[str, dict[int, int]] = {server.name: {} for server in load.servers}
        for bit, item in enumerate(load.instances):
            for name in item.pods:
                hosted[name][bit] = hosted[name].get(bit, 0) + 1
        alike: dict[object, list[str]] = {}
        for server, region in zip(load.servers, digits.regions.of, strict=True):
            if server.usable:
                key = (region, load.free[server.name], tuple(hosted[server.name].items()))
                alike.setdefault(key, []).append(server.name)
        found = []
        for names in alike.values():
            bits = hosted[names[0]]
            whole = load.free[names[0]] + sum(number * load.instances[bit].npus_per_pod for bit, number in bits.items())
            goes = tuple(-digits.server(name, whole) for name in names[: self._failures])
            if goes:
                found.append(_Class(tuple(names), sum(1 << bit for bit in bits), goes[0] + sum(self._gains[bit] for bit in bits), goes))
        return found

    def run(self) -> Survey:
        """All tallies."""
        require_cases([len(alike.names) for alike in self._classes], self._failures)
        start = sum(self._digits.server(server.name, self._load.free[server.name]) for server in self._load.servers if server.usable)
        self._start = start
        self._count(0, start, 0, 1, ())
        self._visit(0, 0, 0, start, 1, ())
        rests = list(self._rests)
        levels = [
            {rests[rest]: self._tally(combinations, self._first[size][rest]) for rest, combinations in self._tallies[size].items()}
            for size in range(self._failures + 1)
        ]
        single = {}
        for index, alike in enumerate(self._classes):
            rest, *dummy = self._outcome(((index, 1),))
            single.update(dict.fromkeys(alike.names, rests[rest]))
        return Survey(levels, single)

    def _visit(self, begin: int, size: int, lost: int, number: int, weight: int, case: Case) -> None:
        """All cases that have the servers of `case`, and others from classes `begin` on."""
        classes, most = self._classes, self._failures - size
        for index in range(begin, len(classes)):
            alike = classes[index]
            value = self._added(alike, lost, number)
            now_lost = lost | alike.hosts
            for fail in range(1, min(len(alike.names), most) + 1):
                if fail > 1:
                    value += alike.goes[fail - 1]
                ways = weight * comb(len(alike.names), fail)
                now = (*case, (index, fail))
                self._count(size + fail, value, now_lost, ways, now)
                if fail < most - 1:
                    self._visit(index + 1, size + fail, now_lost, value, ways, now)
                elif fail == most - 1:
                    self._leaves(index + 1, now_lost, value, ways, now)

    def _leaves(self, begin: int, lost: int, number: int, weight: int, case: Case) -> None:
        """As `_visit`, for the last server that fails: nearly all cases are counted here."""
        digits, known, size = self._digits, self._known, self._failures
        tally, first, by_number = self._tallies[size], self._first[size], digits.counts_places
        for index in range(begin, len(self._classes)):
            alike = self._classes[index]
            value = self._added(alike, lost, number) if lost & alike.hosts else number + alike.first
            rest = known.get(value if by_number else digits.key(value))
            if rest is None or rest < 0:
                rest = self._rest(value, lost | alike.hosts)[0]
            tally[rest] = tally.get(rest, 0) + weight * len(alike.names)
            if rest not in first:
                first[rest] = (*case, (index, 1))

    def _added(self, alike: _Class, lost: int, number: int) -> int:
        """The number when one server of the class fails, too."""
        if not lost & alike.hosts:
            return number + alike.first
        return number + alike.goes[0] + sum(self._gains[bit] for bit in _bits(alike.hosts & ~lost))

    def _count(self, size: int, number: int, lost: int, weight: int, case: Case) -> None:
        rest = self._rest(number, lost)[0]
        tally = self._tallies[size]
        tally[rest] = tally.get(rest, 0) + weight
        self._first[size].setdefault(rest, case)

    def _rest(self, number: int, lost: int) -> tuple[int, int]:
        """The rest of a case (its index), and how many instances are given up; they go in their order, as far as they are not lost."""
        key = self._digits.key(number)
        found = self._judged(number, 0, key)
        ended, alive = 0, self._victims & ~lost
        while found < 0:
            while ended < -found:
                victim = alive & -alive
                number += self._room_of[victim.bit_length() - 1]
                alive ^= victim
                ended += 1
            found = self._judged(number, ended, (ended, self._digits.key(number)))
        if self._victims_alike:
            self._known[key] = found
        return found, ended

    def _judged(self, number: int, ended: int, key: object) -> int:
        """The index of the rest, or minus the number of instances that have to be given up at least."""
        found = self._known.get(key)
        if found is None:
            digits = self._digits
            left = digits.left(number, self._running)
            rest = self._task.settle(left, ended, digits.room(number), fault=digits.any_lost(number))
            found = -rest if isinstance(rest, int) else self._rests.setdefault(rest, len(self._rests))
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[key] = found
        return found

    def _outcome(self, case: Case) -> tuple[int, int, int]:
        """Rest, lost instances (bits) and number of those given up."""
        lost, number = 0, self._start
        for index, fail in case:
            alike = self._classes[index]
            number = self._added(alike, lost, number) + sum(alike.goes[1:fail])
            lost |= alike.hosts
        rest, ended = self._rest(number, lost)
        return rest, lost, ended

    def _tally(self, combinations: int, case: Case) -> Tally:
        dummy, lost, ended = self._outcome(case)
        servers = tuple(name for index, fail in case for name in self._classes[index].names[:fail])
        names = [item.name for item in self._load.instances]
        given_up = list(_bits(self._victims & ~lost))[:ended]
        return Tally(combinations, servers, tuple(names[bit] for bit in _bits(lost)), tuple(names[bit] for bit in given_up))


def survey(load: Load, task: Task, grid: Grid, regions: Regions, failures: int) -> Survey:
    """Every failure of 0 to `failures` servers. Raises InputError when these are too many different cases."""
    return _Walk(load, task, grid, regions, failures).run()


def require_cases(sizes: Iterable[int], failures: int) -> None:
    """Refuse what would take too long: `sizes` are the numbers of servers that are alike."""
    cases = [1, *[0] * failures]
    for size in sizes:
        cases = [sum(cases[total - fail] for fail in range(min(size, total) + 1)) for total in range(failures + 1)]
    if sum(cases) > MOST_CASES:
        wrong = f"{failures} failures of these servers are {sum(cases)} different cases, more than {MOST_CASES}; ask for fewer"
        raise InputError.at(wrong, source="failures")


def _bits(mask: int) -> Iterable[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
