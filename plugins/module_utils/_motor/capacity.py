# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What fits on servers, and what is left of a task under its rule when k of them fail.

`place` lays instances out, `more` says how many more fit, `impossible_tiers` which tiers never can be reached, `simulate` what every
failure of up to k servers leads to. The model of the rule and of the Motor controller is described in `capacity_growth.py`, that of
servers in `capacity_room.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

from .capacity_failures import Survey, Tally, survey
from .capacity_growth import Held, Rest, Task
from .capacity_model import Instance, Inventory, Load, Server, Shape, checked_shapes, from_inventory, loaded
from .capacity_room import Grid, Place, Regions, Room
from .errors import InputError
from .rule_reader import Size
from .scaling_rule import reached

__all__ = (
    "Instance",
    "Inventory",
    "Level",
    "Outcome",
    "Placement",
    "Server",
    "Shape",
    "Simulation",
    "from_inventory",
    "impossible_tiers",
    "more",
    "place",
    "reachable",
    "simulate",
)


@dataclass(frozen=True)
class Placement:
    """Instances that run or have been placed, and by group how many of the wanted ones have not been."""

    instances: tuple[Instance, ...]
    left: Mapping[str, int]


@dataclass(frozen=True)
class Outcome:
    """Where failures of so many servers lead: `combinations` of servers end with the same instances running.

    `tier` is the largest one that is satisfied; None: not even the smallest, so the service is down. `regrows`: groups in the order
    in which instances start when there is room again. `servers`, `lost`, `given_up` are of one example: the servers that fail, the
    instances they take along, and those that the Motor controller ends for decode. `crashes`: the operator does, see the rule.
    """

    tier: int | None
    running: Mapping[str, int]
    combinations: int
    share: float
    held: tuple[Held, ...]
    regrows: tuple[str, ...]
    servers: tuple[str, ...]
    lost: tuple[str, ...]
    given_up: tuple[str, ...]
    crashes: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        lists = {key: list(getattr(self, key)) for key in ("regrows", "servers", "lost", "given_up")}
        held = [item.to_dict() for item in self.held]
        return {**self.__dict__, "running": dict(self.running), "held": held, **lists}


@dataclass(frozen=True)
class Level:
    """All combinations of `failures` servers. `outcomes` come worst first; the typical one is the median; `expected` is the mean
    number of running instances by group.
    """

    failures: int
    combinations: int
    outcomes: tuple[Outcome, ...]
    typical: Outcome
    expected: Mapping[str, float]

    @property
    def worst(self) -> Outcome:
        """The worst outcome."""
        return self.outcomes[0]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        outcomes = [outcome.to_dict() for outcome in self.outcomes]
        found = {"failures": self.failures, "combinations": self.combinations, "outcomes": outcomes, "expected": dict(self.expected)}
        return {**found, "worst": self.worst.to_dict(), "typical": self.typical.to_dict()}


@dataclass(frozen=True)
class Simulation:
    """Levels for 0, 1, ... k failures; `critical` are the servers whose failure alone does the most harm (none, if none does any)."""

    servers: tuple[Server, ...]
    shapes: tuple[Shape, ...]
    tiers: tuple[Mapping[str, Size], ...]
    instances: tuple[Instance, ...]
    levels: tuple[Level, ...]
    critical: tuple[str, ...]
    keep_decode: bool
    # Groups whose instances the Motor controller ends, and for which; "" for none.
    shrinks: str
    keeps: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data for results of modules."""
        return {
            "servers": [dict(server.__dict__) for server in self.servers],
            "shapes": [dict(shape.__dict__) for shape in self.shapes],
            "tiers": [{group: dict(size.__dict__) for group, size in tier.items()} for tier in self.tiers],
            "instances": [instance.to_dict() for instance in self.instances],
            "levels": [level.to_dict() for level in self.levels],
            "critical": list(self.critical),
            "keep_decode": self.keep_decode,
            "shrinks": self.shrinks,
            "keeps": self.keeps,
        }


def place(
    servers: Sequence[Server],
    shapes: Sequence[Shape],
    tiers: Sequence[Mapping[str, Size]] = (),
    running: Iterable[Instance] = (),
    *,
    shrinks: str = "",
) -> Placement:
    """Place whole instances beside those that run, in the order in which the rule lets them start; without tiers in the order of shapes.

    Deterministic: of servers that are equally good, the first one given is taken. Names of instances are `<group>-<index>`, with the
    lowest free index. Raises InputError for shapes or a load that cannot be.
    """
    checked_shapes(shapes)
    load = loaded(servers, running)
    task = Task(
        shapes, tiers or [{shape.group: Size(shape.count, shape.pods) for shape in shapes}], shrinks=shrinks or _last(shapes, tiers)
    )
    counts = _counts(load, task)
    layout = _Layout(load, task.shapes)
    started = task.grow(counts, layout.room) or []
    for index, places in started:
        layout.add(task.shapes[index], places)
    left = {group: max(0, shape.count - count) for group, shape, count in zip(task.groups, task.shapes, counts, strict=True)}
    return Placement(tuple(layout.instances), left)


def reachable(
    servers: Sequence[Server], shapes: Sequence[Shape], tiers: Sequence[Mapping[str, Size]], running: Iterable[Instance] = ()
) -> int | None:
    """The largest tier that is reached when everything is started that the rule allows and the servers have room for.

    What runs stays where it is. None: not even the smallest tier. Instances of every group are there as the largest tier asks for, whatever
    the `count` of shapes; for these counts it is what `simulate` finds without any failure. Groups that the rule does not have are left out.
    """
    asked = {shape.group: max(0, tiers[0][shape.group].number) for shape in shapes if shape.group in tiers[0]}
    wanted = [replace(shape, count=asked[shape.group]) for shape in shapes if shape.group in asked]
    placed = place(servers, wanted, tiers, [instance for instance in running if instance.group in asked])
    return reached(tiers, Counter(instance.group for instance in placed.instances))


def more(servers: Sequence[Server], shape: Shape, running: Iterable[Instance] = ()) -> int:
    """How many more instances of a shape fit beside those that run. Its `count` does not matter."""
    checked_shapes([shape])
    room = _Layout(loaded(servers, running), [shape]).room
    found = 0
    while room.take(shape):
        found += 1
    return found


def impossible_tiers(servers: Sequence[Server], shapes: Sequence[Shape], tiers: Sequence[Mapping[str, Size]]) -> tuple[int, ...]:
    """Indexes of tiers for which the servers have no room even when nothing of the task runs.

    Groups without a shape are left out, and `count` does not matter. A tier is called impossible when no order of its groups fits.
    """
    checked_shapes(shapes)
    load = loaded(servers, ())
    empty = _Layout(load, shapes).room
    by_group = {shape.group: shape for shape in shapes}
    found = []
    for index, tier in enumerate(tiers):
        wanted = [(by_group[group], size.number) for group, size in tier.items() if group in by_group and size.number > 0]
        if not any(_fit(empty.copy(), order) for order in permutations(wanted)):
            found.append(index)
    return tuple(found)


def simulate(
    servers: Sequence[Server],
    shapes: Sequence[Shape],
    tiers: Sequence[Mapping[str, Size]],
    failures: int,
    *,
    running: Iterable[Instance] | None = None,
    keep_decode: bool = True,
    shrinks: str = "",
) -> Simulation:
    """What every failure of 0 to `failures` usable servers leads to.

    `running` is what runs now, the instances of a group in the order in which the Motor controller would give them up; None: laid out by
    `place`. `keep_decode`: a Motor controller is there that ends prefill instances while decode is short; `shrinks` is the group that it
    ends (default: the first group of the first tier, as it reads the rule by position). Raises InputError.
    """
    if isinstance(failures, bool) or failures < 0:
        raise InputError.at("it has to be at least 0", source="failures")
    checked_shapes(shapes)
    task = Task(shapes, tiers, keep_decode=keep_decode, shrinks=shrinks)
    if running is None:
        running = place(servers, shapes, tiers, shrinks=shrinks).instances
    load = loaded(servers, running)
    _counts(load, task)
    grid, regions = _grid(load.servers, task.shapes), Regions(load.servers, task.shapes)
    found = survey(load, task, grid, regions, min(failures, sum(server.usable for server in servers)))
    levels = tuple(_level(task, number, tallies) for number, tallies in enumerate(found.levels))
    return Simulation(
        servers=tuple(servers),
        shapes=tuple(shapes),
        tiers=tuple(tiers),
        instances=load.instances,
        levels=levels,
        critical=_critical(task, found),
        keep_decode=keep_decode,
        shrinks=task.groups[task.shrinks] if task.shrinks is not None else "",
        keeps=task.groups[task.keeps] if task.keeps is not None else "",
    )


def _level(task: Task, failures: int, tallies: Mapping[Rest, Tally]) -> Level:
    combinations = sum(tally.combinations for tally in tallies.values())
    ranked = sorted(tallies.items(), key=lambda item: _harm(task, item[0]), reverse=True)
    outcomes = tuple(_outcome(task, rest, tally, combinations) for rest, tally in ranked)
    middle, passed = (combinations + 1) // 2, 0
    for typical in outcomes:
        passed += typical.combinations
        if passed >= middle:
            break
    means = {
        group: sum(rest.running[index] * tally.combinations for rest, tally in tallies.items()) / combinations
        for index, group in enumerate(task.groups)
    }
    return Level(failures, combinations, outcomes, typical, means)


def _outcome(task: Task, rest: Rest, tally: Tally, combinations: int) -> Outcome:
    return Outcome(
        tier=task.tier(rest.running),
        running=task.named(rest.running),
        combinations=tally.combinations,
        share=tally.combinations / combinations,
        held=task.held(rest),
        regrows=() if rest.crashes else task.regrows(rest.running),
        servers=tally.servers,
        lost=tally.lost,
        given_up=tally.given_up,
        crashes=rest.crashes,
    )


def _harm(task: Task, rest: Rest) -> tuple[int, list[int], bool, bool]:
    """The smaller the tier the worse; then fewer instances, those counting first that start first."""
    tier = task.tier(rest.running)
    fewer = [-rest.running[index] for index in task.start_order]
    return len(task.tiers) if tier is None else tier, fewer, rest.crashes, rest.shrunk


def _critical(task: Task, found: Survey) -> tuple[str, ...]:
    if not found.single:
        return ()
    before = max(_harm(task, rest) for rest in found.levels[0])
    harms = {name: _harm(task, rest) for name, rest in found.single.items()}
    most = max(harms.values())
    return tuple(name for name, harm in harms.items() if harm == most) if most > before else ()


def _counts(load: Load, task: Task) -> list[int]:
    """Running instances by group."""
    for instance in load.instances:
        if instance.group not in task.groups:
            raise InputError.at(f'instance {instance.name} is of group "{instance.group}", which has no shape', source="instances")
    return [sum(item.group == group for item in load.instances) for group in task.groups]


def _last(shapes: Sequence[Shape], tiers: Sequence[Mapping[str, Size]]) -> str:
    """Without tiers no group gives way to another: naming the last one leaves the order as it is."""
    return "" if tiers or not shapes else shapes[-1].group


def _grid(servers: Sequence[Server], shapes: Iterable[Shape]) -> Grid:
    return Grid.of(shapes, max((server.npus for server in servers), default=0))


def _fit(room: Room, wanted: Iterable[tuple[Shape, int]]) -> bool:
    return all(room.take(shape) for shape, number in wanted for dummy in range(number))


class _Layout:
    """Turns places (region and level) into servers."""

    def __init__(self, load: Load, shapes: Sequence[Shape]) -> None:
        self._servers = load.servers
        self._free = dict(load.free)
        self._grid, self._regions = _grid(load.servers, shapes), Regions(load.servers, shapes)
        self.room = Room.of(self._grid, self._regions, [load.free[server.name] for server in load.servers])
        self.instances = list(load.instances)

    def add(self, shape: Shape, places: Iterable[Place]) -> None:
        """One more instance."""
        pods = tuple(self._server(place, shape.npus_per_pod) for place in places)
        taken = {item.name for item in self.instances if item.group == shape.group}
        index = next(number for number in range(len(taken) + 1) if f"{shape.group}-{number}" not in taken)
        self.instances.append(Instance(shape.group, f"{shape.group}-{index}", pods, shape.npus_per_pod))

    def _server(self, place: Place, npus: int) -> str:
        region, level = place
        for server, of in zip(self._servers, self._regions.of, strict=True):
            if of == region and self._grid.floor[self._free[server.name]] == level:
                self._free[server.name] -= npus
                return server.name
        raise ValueError(f"no server has {level} free NPUs")
