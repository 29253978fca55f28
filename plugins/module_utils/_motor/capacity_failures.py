# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every failure of up to k servers, without looking at each one.

Servers with the same pods of the same instances and the same NPUs free are alike: which of them fail makes no difference, so a class
of them is gone through once, weighted by binomials. What is left after a failure is one number: the running instances by group and
the free NPUs are digits of it, and each server that fails and each instance that is lost adds its own part, so that a case costs a
few additions. Where the task comes to rest is worked out once per such number.

Slow are pods of several sizes that share servers without any order, as no `place` lays them out: there hardly any two changes add up,
and every prefill that is given up is looked at in every case (minutes for 3 of 200 such servers, seconds for 2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import comb
from typing import Any, NamedTuple, TypeAlias

from .capacity_growth import Rest, Task
from .capacity_model import Instance, Load
from .capacity_room import Grid, Regions, Room
from .errors import InputError

# Cases that are gone through at most; 3 of 200 servers, no two of them alike, are 1.4 million.
MOST_CASES = 3_000_000
# Numbers whose rest is remembered at a time.
MOST_KNOWN = 200_000
# A digit of the number: bits for a count of instances or of places.
_COUNT = 16
_DIGIT = (1 << _COUNT) - 1
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


class _State(NamedTuple):
    """A case: lost instances (bits), its number and mark, and what it touches."""

    lost: int
    number: int
    mark: int
    touched: int


class _Digits:
    """What instances and servers add to the number of a case, and to its mark, which is all that matters of it.

    The lowest digits count lost instances by group. Above them the number has the places of each region (pods of one size), or one
    byte per server with its free NPUs (any sizes); the mark has the servers of each region by level of free NPUs. With pods of one
    size both are the same.
    """

    def __init__(self, load: Load, task: Task, grid: Grid, regions: Regions) -> None:
        self._grid, self.regions = grid, regions
        self._low = _COUNT * len(task.groups)
        self._group = {group: index for index, group in enumerate(task.groups)}
        # Servers of a region are neighbours, so that each region is one slice of the bytes.
        order = sorted(range(len(load.servers)), key=lambda index: (regions.of[index], index))
        self._position = {load.servers[index].name: place for place, index in enumerate(order)}
        self._region = {server.name: region for server, region in zip(load.servers, regions.of, strict=True)}
        self.one_size = grid.one_size and all(item.npus_per_pod == grid.sizes[0] for item in load.instances)
        self._width = 1 if self.one_size else len(grid.levels)
        found = [regions.of[index] for index in order]
        starts = [found.index(region) if region in found else 0 for region in range(regions.count)]
        self._slices = [(start, start + found.count(region)) for region, start in enumerate(starts)]
        self._bytes = len(order)
        self._down = {server.name for server in load.servers if not server.usable}

    def server(self, name: str, npus: int) -> int:
        """What `npus` free NPUs of a server are worth; they may be free already or come free."""
        if self.one_size:
            return npus // self._grid.sizes[0] << self._low + _COUNT * self._region[name]
        return npus << self._low + _BYTE * self._position[name]

    def freed(self, instance: Instance) -> int:
        """What the NPUs of an instance are worth. A server that is not usable gives none back."""
        return sum(self.server(name, instance.npus_per_pod) for name in instance.pods if name not in self._down)

    def lost(self, instance: Instance) -> int:
        """The digit of one lost instance, without its NPUs."""
        return 1 << _COUNT * self._group[instance.group]

    def touches(self, bit: int, names: Iterable[str]) -> int:
        """What an instance (its bit, and the servers of its pods) changes. Marks of changes that touch nothing in common add up."""
        return 1 << bit if self.one_size else sum(1 << self._position[name] for name in set(names))

    def touched(self, name: str, bits: int) -> int:
        """What the loss of a server changes besides its instances (bits)."""
        return bits if self.one_size else 1 << self._position[name]

    def mark(self, number: int) -> int:
        """The mark of a number."""
        if self.one_size:
            return number
        data = (number >> self._low).to_bytes(self._bytes, "little").translate(self._grid.floor)
        found = 0
        for start, end in reversed(self._slices):
            for level in reversed(self._grid.levels):
                found = found << _COUNT | data.count(level, start, end)
        return found << self._low | number & (1 << self._low) - 1

    def left(self, mark: int, running: Sequence[int]) -> list[int]:
        """Running instances by group."""
        return [count - (mark >> _COUNT * index & _DIGIT) for index, count in enumerate(running)]

    def any_lost(self, mark: int) -> bool:
        """Whether the fault hit an instance of the task."""
        return bool(mark & (1 << self._low) - 1)

    def room(self, mark: int) -> Room:
        """The room of a case."""
        digits = mark >> self._low
        counts = [digits >> _COUNT * index & _DIGIT for index in range(self.regions.count * self._width)]
        filling = [0] * (len(self._grid.levels) - self._width)
        return Room(self._grid, [(*counts[at : at + self._width], *filling) for at in range(0, len(counts), self._width)])


@dataclass(frozen=True)
class _Class:
    """Servers that are alike: their names, the instances on them (bits), what the first one that fails adds to the number (its
    instances are lost) and to the mark, what each one takes from the number, and what the first one touches.
    """

    names: tuple[str, ...]
    hosts: int
    first: int
    mark: int
    goes: tuple[int, ...]
    touches: int


class _Victims:
    """Instances that may be given up, in their order: what the first n of them add to number and mark, and what they touch."""

    def __init__(self, load: Load, digits: _Digits, freed: Sequence[int], touches: Sequence[int], group: str | None, start: int) -> None:
        bits = [bit for bit, item in enumerate(load.instances) if item.group == group]
        self.bits = sum(1 << bit for bit in bits)
        # It does not matter which ones go: the rest follows from the mark alone.
        self.alike = digits.one_size and len({freed[bit] for bit in bits}) <= 1
        self.numbers, self.marks, self.touches = [0], [0], [0]
        for bit in bits:
            self.numbers.append(self.numbers[-1] + freed[bit])
            self.marks.append(digits.mark(start + self.numbers[-1]) - digits.mark(start))
            self.touches.append(self.touches[-1] | touches[bit])


class _Walk:
    """Goes through all cases."""

    def __init__(self, load: Load, task: Task, grid: Grid, regions: Regions, failures: int) -> None:
        self._load, self._task, self._failures = load, task, failures
        self._digits = digits = _Digits(load, task, grid, regions)
        self._freed = [digits.freed(item) for item in load.instances]
        self._gains = [freed + digits.lost(item) for freed, item in zip(self._freed, load.instances, strict=True)]
        self._touches = [digits.touches(bit, item.pods) for bit, item in enumerate(load.instances)]
        self._running = tuple(sum(item.group == group for item in load.instances) for group in task.groups)
        self._start = sum(digits.server(server.name, load.free[server.name]) for server in load.servers if server.usable)
        gives = task.groups[task.shrinks] if task.shrinks is not None else None
        self._victims = _Victims(load, digits, self._freed, self._touches, gives, self._start)
        self._known: dict[object, int] = {}
        self._final: dict[int, int] = {}
        self._rests: dict[Rest, int] = {}
        self._classes = self._alike()
        self._tallies: list[dict[int, int]] = [{} for dummy in range(failures + 1)]
        self._first: list[dict[int, Case]] = [{} for dummy in range(failures + 1)]

    def _alike(self) -> list[_Class]:
        load = self._load
        hosted: dict[str, dict[int, int]] = {server.name: {} for server in load.servers}
        for bit, item in enumerate(load.instances):
            for name in item.pods:
                hosted[name][bit] = hosted[name].get(bit, 0) + 1
        alike: dict[object, list[str]] = {}
        for server, region in zip(load.servers, self._digits.regions.of, strict=True):
            if server.usable:
                key = (region, load.free[server.name], tuple(hosted[server.name].items()))
                alike.setdefault(key, []).append(server.name)
        return [self._class(names, hosted[names[0]]) for names in alike.values()] if self._failures else []

    def _class(self, names: Sequence[str], pods: Mapping[int, int]) -> _Class:
        load, digits = self._load, self._digits
        npus = load.free[names[0]] + sum(number * load.instances[bit].npus_per_pod for bit, number in pods.items())
        goes = tuple(-digits.server(name, npus) for name in names[: self._failures])
        first = goes[0] + sum(self._gains[bit] for bit in pods)
        mark = digits.mark(self._start + first) - digits.mark(self._start)
        hosts = sum(1 << bit for bit in pods)
        touches = digits.touched(names[0], hosts)
        for bit in pods:
            touches |= self._touches[bit]
        return _Class(tuple(names), hosts, first, mark, goes, touches)

    def run(self) -> Survey:
        """All tallies."""
        require_cases([len(alike.names) for alike in self._classes], self._failures)
        start = _State(0, self._start, self._digits.mark(self._start), 0)
        self._count(0, start, 1, ())
        self._visit(0, 0, start, 1, ())
        rests = list(self._rests)
        levels = [
            {rests[rest]: self._tally(combinations, self._first[size][rest]) for rest, combinations in self._tallies[size].items()}
            for size in range(self._failures + 1)
        ]
        single = {}
        for index, alike in enumerate(self._classes):
            rest = self._index(self._state(((index, 1),)))
            single.update(dict.fromkeys(alike.names, rests[rest]))
        return Survey(levels, single)

    def _visit(self, begin: int, size: int, state: _State, weight: int, case: Case) -> None:
        """All cases that have the servers of `case`, and others from classes `begin` on."""
        most = self._failures - size
        if most == 1:
            self._leaves(begin, state, weight, case)
            return
        for index in range(begin, len(self._classes)):
            names = len(self._classes[index].names)
            for fail in range(1, min(names, most) + 1):
                ways, now = weight * comb(names, fail), (*case, (index, fail))
                failed = self._failed(index, fail, state)
                self._count(size + fail, failed, ways, now)
                if fail < most:
                    self._visit(index + 1, size + fail, failed, ways, now)

    def _leaves(self, begin: int, state: _State, weight: int, case: Case) -> None:
        """As `_visit`, for the last server that fails: nearly all cases are counted here."""
        final, tally, first = self._final, self._tallies[-1], self._first[-1]
        touched, mark = state.touched, state.mark
        for index in range(begin, len(self._classes)):
            alike = self._classes[index]
            rest = None if touched & alike.touches else final.get(mark + alike.mark)
            if rest is None:
                rest = self._index(self._failed(index, 1, state))
            tally[rest] = tally.get(rest, 0) + weight * len(alike.names)
            if rest not in first:
                first[rest] = (*case, (index, 1))

    def _failed(self, index: int, fail: int, state: _State) -> _State:
        """The state when so many servers of a class fail, too."""
        alike, number = self._classes[index], state.number
        apart = fail == 1 and not state.touched & alike.touches
        if apart:
            number += alike.first
        else:
            number += sum(alike.goes[:fail]) + sum(self._gains[bit] for bit in _bits(alike.hosts & ~state.lost))
        mark = state.mark + alike.mark if apart else self._digits.mark(number)
        touched = state.touched | alike.touches
        for name in alike.names[1:fail]:
            touched |= self._digits.touched(name, alike.hosts)
        return _State(state.lost | alike.hosts, number, mark, touched)

    def _state(self, case: Case) -> _State:
        state = _State(0, self._start, self._digits.mark(self._start), 0)
        for index, fail in case:
            state = self._failed(index, fail, state)
        return state

    def _count(self, size: int, state: _State, weight: int, case: Case) -> None:
        rest = self._index(state)
        tally = self._tallies[size]
        tally[rest] = tally.get(rest, 0) + weight
        self._first[size].setdefault(rest, case)

    def _index(self, state: _State) -> int:
        """The index of the rest of a case."""
        found = self._final.get(state.mark)
        if found is None:
            found, ended = self._rest(state)
            if not ended or self._victims.alike:
                _remember(self._final, state.mark, found)
        return found

    def _rest(self, state: _State) -> tuple[int, int]:
        """The rest of a case (its index), and how many instances are given up; they go in their order, as far as they are not lost."""
        victims = self._victims
        found = self._judged(state.mark, 0, state.mark)
        number, done, alive, ended = state.number, 0, victims.bits & ~state.lost, 0
        while found < 0:
            ended = -found
            if victims.touches[ended] & state.touched:
                while done < ended:
                    lowest = alive & -alive
                    number += self._freed[lowest.bit_length() - 1]
                    alive ^= lowest
                    done += 1
                mark = self._digits.mark(number)
            else:
                mark = state.mark + victims.marks[ended]
            found = self._judged(mark, ended, (ended, mark))
        return found, ended

    def _judged(self, mark: int, ended: int, key: object) -> int:
        """The index of the rest, or minus the number of instances that have to be given up at least."""
        found = self._known.get(key)
        if found is None:
            digits = self._digits
            rest = self._task.settle(digits.left(mark, self._running), ended, digits.room(mark), fault=digits.any_lost(mark))
            found = -rest if isinstance(rest, int) else self._rests.setdefault(rest, len(self._rests))
            _remember(self._known, key, found)
        return found

    def _tally(self, combinations: int, case: Case) -> Tally:
        state = self._state(case)
        dummy, ended = self._rest(state)
        servers = tuple(name for index, fail in case for name in self._classes[index].names[:fail])
        names = [item.name for item in self._load.instances]
        given_up = list(_bits(self._victims.bits & ~state.lost))[:ended]
        return Tally(combinations, servers, tuple(names[bit] for bit in _bits(state.lost)), tuple(names[bit] for bit in given_up))


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


def _remember(known: dict[Any, int], key: object, found: int) -> None:
    if len(known) >= MOST_KNOWN:
        known.clear()
    known[key] = found


def _bits(mask: int) -> Iterable[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
