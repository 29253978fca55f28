# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulation of failures says what playing each single failure through on the servers says, for random servers, loads and rules.

The player below knows nothing of classes, numbers and marks: it moves pods on servers, one combination of failed servers after the other.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.ascend.mindie.plugins.module_utils._motor import capacity, capacity_failures
from ansible_collections.ascend.mindie.plugins.module_utils._motor.capacity import Instance, Server, Shape
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_reader import Size
from ansible_collections.ascend.mindie.plugins.module_utils._motor.scaling_rule import decide

EXAMPLES = int(os.environ.get("MINDIE_EXAMPLES", "1250")) // 3


@dataclass(frozen=True)
class Situation:
    """All that a simulation starts from."""

    servers: tuple[Server, ...]
    shapes: tuple[Shape, ...]
    tiers: tuple[Mapping[str, Size], ...]
    running: tuple[Instance, ...]
    failures: int
    keep_decode: bool

    def simulate(self) -> capacity.Simulation:
        return capacity.simulate(self.servers, self.shapes, self.tiers, self.failures, running=self.running, keep_decode=self.keep_decode)


@dataclass(frozen=True)
class End:
    running: tuple[tuple[str, int], ...]
    crashes: bool
    lost: tuple[str, ...]
    given_up: tuple[str, ...]


class Player:
    """Plays one failure through."""

    def __init__(self, situation: Situation, failed: Sequence[str]) -> None:
        self.case, self.failed = situation, failed
        self.shapes = {shape.group: shape for shape in situation.shapes}
        self.order = [group for group in situation.tiers[0] if group in self.shapes]
        self.sizes = sorted({shape.npus_per_pod for shape in situation.shapes}, reverse=True)
        self.blocks = any(shape.sp_block for shape in situation.shapes)
        first_two = list(situation.tiers[0])[:2]
        keeps = situation.keep_decode and len(first_two) == 2 and all(group in self.shapes for group in first_two)
        self.prefill, self.decode = first_two if keeps else (None, None)

    def play(self) -> End:
        hit = [item for item in self.case.running if set(item.pods) & set(self.failed)]
        alive = [item for item in self.case.running if item not in hit]
        self.begin(alive)
        crashed = self.grow(capped=False)
        victims = [item for item in alive if item.group == self.prefill]
        if crashed or not hit or self.prefill is None or not self.short() or self.counts[self.prefill] <= 1:
            return self.end(crashed, hit, [])
        for number in range(max(1, len(victims))):
            ended = victims[:number]
            self.begin([item for item in alive if item not in ended])
            if self.grow(capped=True):
                return self.end(True, hit, ended)
            if not self.short():
                return self.end(self.grow(capped=False), hit, ended)
        return self.end(False, hit, victims[: max(0, len(victims) - 1)])

    def end(self, crashed: bool, hit: list[Instance], ended: list[Instance]) -> End:
        names = [tuple(item.name for item in items) for items in (hit, ended)]
        return End(tuple(self.counts.items()), crashed, *names)

    def begin(self, alive: Sequence[Instance]) -> None:
        self.counts = {group: sum(item.group == group for item in alive) for group in self.order}
        self.free = {server.name: server.npus - server.used for server in self.case.servers}
        for item in alive:
            for name in item.pods:
                self.free[name] -= item.npus_per_pod
        for server in self.case.servers:
            if not server.usable or server.name in self.failed:
                self.free[server.name] = 0

    def short(self) -> bool:
        return self.counts[self.decode] < self.case.tiers[0][self.decode].number

    def grow(self, *, capped: bool) -> bool:
        """Start instances as long as any can be started; True: the operator crashes."""
        prefill = next(iter(self.case.tiers[0]))
        while True:
            waiting = [group for group in self.order if self.counts[group] < self.shapes[group].count]
            waiting.sort(key=lambda group: group == prefill)
            decisions = {group: decide(self.case.tiers, self.counts, group) for group in waiting}
            if any(decision.crashes for decision in decisions.values()):
                return True
            for group in waiting:
                stopped = capped and group == self.prefill and self.counts[group]
                if decisions[group].create and not stopped and self.start(self.shapes[group]):
                    break
            else:
                return False

    def start(self, shape: Shape) -> bool:
        before = dict(self.free)
        block = shape.sp_block // shape.npus_per_pod if shape.sp_block else 1
        for dummy in range(shape.pods // block):
            pods = [name for name in self.super_pods() if name or not shape.sp_block]
            fitting = [name for name in pods if sum(self.free[s] // shape.npus_per_pod for s in self.within(name)) >= block]
            if not fitting:
                self.free = before
                return False
            chosen = min(fitting, key=lambda name: self.worth(name, shape.npus_per_pod))
            for dummy in range(block):
                self.free[min(self.within(chosen), key=lambda s: self.breaks(s, shape.npus_per_pod))] -= shape.npus_per_pod
        self.counts[shape.group] += 1
        return True

    def super_pods(self) -> list[str]:
        return sorted({server.super_pod for server in self.case.servers}) if self.blocks else [""]

    def within(self, super_pod: str) -> list[str]:
        return [server.name for server in self.case.servers if not self.blocks or server.super_pod == super_pod]

    def useful(self, server: str) -> int:
        """What pods could fill of the free NPUs of a server."""
        sums = {0}
        for level in range(1, self.free[server] + 1):
            if any(level - size in sums for size in self.sizes):
                sums.add(level)
        return max(sums)

    def breaks(self, server: str, size: int) -> tuple[int, int]:
        """The smallest place for a pod when the server is filled with the largest pods first, and what is free."""
        left, found = self.useful(server), 0
        if left < size:
            return 1000, 1000
        for large in self.sizes:
            if left >= large >= size:
                found = large
            left %= large
        return found, self.useful(server)

    def worth(self, super_pod: str, size: int) -> tuple[object, ...]:
        useful = [self.useful(server) for server in self.within(super_pod)]
        counts = Counter(useful)
        most = max(server.npus for server in self.case.servers)
        sums = [level for level in range(1, most + 1) if self.reachable(level)]
        breaks = min(self.breaks(server, size)[0] for server in self.within(super_pod))
        return breaks, sum(useful), [counts[level] for level in sums]

    def reachable(self, level: int) -> bool:
        return level == 0 or any(level >= size and self.reachable(level - size) for size in self.sizes)


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    npus = draw(st.sampled_from([4, 8]))
    pods = draw(st.sampled_from([("",), ("a", "b"), ("", "a", "b")]))
    servers = tuple(
        Server(f"s{i}", npus, draw(st.sampled_from(pods)), draw(st.integers(0, 9)) > 0, draw(st.sampled_from([0, 0, 0, 1, 2])))
        for i in range(draw(st.integers(2, 7)))
    )
    sizes = draw(st.sampled_from([(npus,), (npus // 2,), (npus // 2, npus), (1, 2, 4), (2, 3), (3, 4)]))
    shapes = []
    for group in draw(st.sampled_from([("p",), ("p", "d"), ("p", "d"), ("p", "d", "e"), ("d", "p")])):
        size, number = draw(st.sampled_from(sizes)), draw(st.integers(1, 3))
        block = draw(st.sampled_from([0, 0, size * number, size]))
        shapes.append(Shape(group, draw(st.integers(0, 4)), number, size, block))
    tiers = draw(rules([shape.group for shape in shapes]))
    running = draw(loads(servers, shapes, tiers))
    return Situation(servers, tuple(shapes), tiers, running, draw(st.integers(1, 3)), draw(st.integers(0, 3)) > 0)


@st.composite
def full_services(draw: st.DrawFn) -> Situation:
    """A service that fills its servers and has to shrink for decode, scattered over super pods."""
    pods = draw(st.sampled_from([("",), ("a", "b", "c")]))
    servers = tuple(Server(f"s{i}", 4, draw(st.sampled_from(pods))) for i in range(draw(st.integers(4, 8))))
    sizes = draw(st.sampled_from([(4, 4), (2, 4), (4, 2), (2, 2), (1, 4), (3, 4)]))
    block = draw(st.integers(1, 3)) if len(pods) == 1 else 2
    shapes = (
        Shape("p", draw(st.integers(3, 8)), draw(st.integers(1, 2)), sizes[0]),
        Shape("d", draw(st.integers(1, 2)), block, sizes[1], block * sizes[1] if len(pods) > 1 else 0),
    )
    least = draw(st.integers(0, 2))
    tiers = tuple({"p": Size(number, 1), "d": Size(shapes[1].count, 1)} for number in range(shapes[0].count, least, -1))
    running = draw(st.permutations(capacity.place(servers, shapes, tiers).instances))
    return Situation(servers, shapes, tiers, tuple(running), draw(st.integers(1, 2)), True)


@st.composite
def rules(draw: st.DrawFn, groups: Sequence[str]) -> tuple[Mapping[str, Size], ...]:
    groups = sorted(groups, key=lambda group: group != "p") if draw(st.booleans()) else groups
    tiers = [{group: Size(draw(st.integers(0, 4)), 1) for group in groups}]
    for dummy in range(draw(st.integers(0, 3))):
        smaller = {group: Size(draw(st.integers(0, size.number)), 1) for group, size in tiers[-1].items()}
        if draw(st.integers(0, 9)) == 0 and len(smaller) > 1:
            del smaller[draw(st.sampled_from(sorted(smaller)))]
        tiers.append(smaller)
    return tuple(tiers)


@st.composite
def loads(draw: st.DrawFn, servers: Sequence[Server], shapes: Sequence[Shape], tiers: Sequence[Mapping[str, Size]]) -> tuple[Instance, ...]:
    """As the rule would lay it out, or at random, also as no scheduler would."""
    if draw(st.booleans()):
        return capacity.place(servers, shapes, tiers).instances
    free = {server.name: server.npus - server.used for server in servers if server.usable}
    found: list[Instance] = []
    for shape in shapes:
        for index in range(draw(st.integers(0, shape.count))):
            names: list[str] = []
            for dummy in range(shape.pods):
                fitting = [name for name, npus in free.items() if npus >= shape.npus_per_pod + names.count(name) * shape.npus_per_pod]
                if fitting:
                    names.append(draw(st.sampled_from(fitting)))
            if len(names) == shape.pods:
                found.append(Instance(shape.group, f"{shape.group}-{index}", tuple(names), shape.npus_per_pod))
                for name in names:
                    free[name] -= shape.npus_per_pod
    return tuple(found)


def compare(case: Situation) -> None:
    simulation = case.simulate()
    usable = [server.name for server in case.servers if server.usable]
    assert len(simulation.levels) == min(case.failures, len(usable)) + 1
    for level in simulation.levels:
        ends = [Player(case, failed).play() for failed in itertools.combinations(usable, level.failures)]
        played = Counter((end.running, end.crashes) for end in ends)
        simulated: Counter[object] = Counter()
        for outcome in level.outcomes:
            simulated[tuple(outcome.running.items()), outcome.crashes] += outcome.combinations
            example = Player(case, outcome.servers).play()
            assert example == End(tuple(outcome.running.items()), outcome.crashes, outcome.lost, outcome.given_up)
        assert simulated == played
        for group, mean in level.expected.items():
            assert mean == pytest.approx(sum(dict(end.running)[group] for end in ends) / len(ends))


def test_it_is_equal_to_playing_every_combination_through() -> None:
    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(situations() | full_services())
    def holds(case: Situation) -> None:
        compare(case)

    holds()


def test_the_order_and_the_names_of_servers_change_no_number() -> None:
    @settings(max_examples=EXAMPLES // 5, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(situations() | full_services(), st.randoms(use_true_random=False))
    def holds(case: Situation, random: Random) -> None:
        servers = list(case.servers)
        random.shuffle(servers)
        names = {server.name: f"x{index}" for index, server in enumerate(servers)}
        other = dataclasses.replace(
            case,
            servers=tuple(dataclasses.replace(server, name=names[server.name]) for server in servers),
            running=tuple(dataclasses.replace(item, pods=tuple(names[name] for name in item.pods)) for item in case.running),
        )
        ours, theirs = ([numbers(level) for level in one.simulate().levels] for one in (case, other))
        assert ours == theirs

    holds()


def numbers(level: capacity.Level) -> dict[object, int]:
    found: Counter[object] = Counter()
    for outcome in level.outcomes:
        found[tuple(outcome.running.items()), outcome.crashes] += outcome.combinations
    return dict(found)


def test_forgetting_what_is_known_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity_failures, "MOST_KNOWN", 3)

    @settings(max_examples=EXAMPLES // 5, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(situations() | full_services())
    def holds(case: Situation) -> None:
        compare(case)

    holds()


def test_the_tier_that_is_possible_is_where_a_simulation_without_failures_ends(show: Callable[[str], None]) -> None:
    found: Counter[int | None] = Counter()

    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(situations() | full_services())
    def holds(case: Situation) -> None:
        asked = [dataclasses.replace(shape, count=max(0, case.tiers[0][shape.group].number)) for shape in case.shapes]
        ended = dataclasses.replace(case, shapes=tuple(asked), failures=0).simulate().levels[0]
        possible = capacity.reachable(case.servers, case.shapes, case.tiers, case.running)
        assert possible == ended.worst.tier == ended.typical.tier
        found[possible] += 1

    holds()
    show(f"services by the tier that is possible: {dict(found)}")
    assert len(found) > 2
