# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever the watches of the watcher hear, in whatever order: it ends in the plan of one who was just told what there is."""

from __future__ import annotations

import json
import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from rescheduling_watcher import world as worlds
from rescheduling_watcher.repairs import Decisions, decide_repairs, timed
from rescheduling_watcher.room import Room
from rescheduling_watcher.settings import ACTS, Settings
from rescheduling_watcher.world import NODE, World

from ansible_collections.ascend.mindie.plugins.module_utils._cluster import watch as watches
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.api import Api
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.watch import Watch
from ansible_collections.ascend.mindie.plugins.module_utils._motor.overview_details import service_report
from ansible_collections.ascend.mindie.plugins.module_utils._motor.servers import servers, servers_view
from tests.cluster.kube_client import wait_for
from tests.property import histories
from tests.property.histories import NAMESPACES, Heard, Op
from tests.property.memory_server import MemoryServer

EXAMPLES = int(os.environ.get("MINDIE_EXAMPLES", "1250")) // 10
AGE = 1000.0
_OPS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 15), st.integers(0, 11), st.booleans()), min_size=1, max_size=24)
_WIDE = st.booleans()
_SEED = st.integers(0, 9999)
Plans = dict[str, Any]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "FIRST_PAUSE", 0.0)
    monkeypatch.setattr(watches, "ON_ITS_WAY_SECONDS", 0.002)


class Watched:
    """The watcher's world over a server in memory; `wide`: one watch per kind for all namespaces."""

    def __init__(self, server: MemoryServer, *, wide: bool) -> None:
        self._server, self._wide = server, wide
        self._settings = Settings(namespaces=() if wide else NAMESPACES, acts=dict.fromkeys(ACTS, True))
        self.world = World(Api(server), self._settings, threading.Event())
        self.world.start()
        for kind, scope in self._watches():
            server.stream(kind, scope).wait()
            server.listing.acquire()

    def hear(self, heard: Heard) -> None:
        """One event reaches the watch whose it is."""
        kind, event = heard
        self._server.stream(kind, self._scope(kind, event[1]["metadata"].get("namespace"))).say(event)

    def relist(self) -> None:
        """The server breaks all watches off."""
        for kind, scope in self._watches():
            if kind in histories.KINDS:
                self._server.stream(kind, scope).break_off()

    def begin_to_list(self) -> None:
        """It is time to list everything, while the watches go on. The lists are kept back until `end_of_lists`."""
        self._server.answers.clear()
        for watch in self.world._watches:
            watch._due = 0.0
        for kind, scope in self._watches():
            self._server.stream(kind, scope).end()
        if not self._server.listing.acquire(timeout=10.0):
            raise TimeoutError("nobody lists anything")

    def end_of_lists(self) -> None:
        """The lists arrive."""
        self._server.answers.set()
        wait_for(lambda: all(health.relists == 2 for health in self.world.health()), 10.0, "all is listed", 0.0005)

    def decide(self, namespace: str) -> Decisions:
        """As the loop decides, of what has been so for long."""
        snapshot = self.world.snapshot(namespace)
        return decide_repairs(snapshot, dict.fromkeys(timed(snapshot), AGE), self._settings, Room(self.world), "watcher/")

    def plan(self, namespace: str) -> Plans:
        """What it would do and what it waits for, in any order, and all it has to say."""
        decisions = self.decide(namespace)
        pods = self.world.everywhere("Pod")
        seen = servers(self.world.everywhere(NODE), pods)
        return {
            "has_service": self.world.has_service(namespace),
            "repairs": sorted(decisions.repairs, key=repr),
            "waiting": dict(decisions.waiting),
            "due": decisions.due,
            "view": _sorted(service_report(self.world.snapshot(namespace), servers=seen)),
            "servers": _sorted(servers_view(self.world.everywhere(NODE), pods)),
        }

    def stop(self) -> None:
        self.world.stop()
        for stream in self._server.streams():
            stream.mumble(("BOOKMARK", {"metadata": {"resourceVersion": "0"}}))

    def _watches(self) -> Iterator[tuple[str, str | None]]:
        return ((health.kind, health.namespace) for health in self.world.health())

    def _scope(self, kind: str, namespace: str | None) -> str | None:
        return None if self._wide or kind == NODE else namespace


def _sorted(found: Any) -> Any:
    """The order of lists of objects says nothing."""
    if isinstance(found, dict):
        return {key: _sorted(value) for key, value in found.items()}
    if isinstance(found, list):
        return sorted(map(_sorted, found), key=lambda item: json.dumps(item, sort_keys=True, default=str))
    return found


@contextmanager
def watched(server: MemoryServer, *, wide: bool) -> Iterator[Watched]:
    found = Watched(server, wide=wide)
    try:
        yield found
    finally:
        found.stop()


def told_anew(server: MemoryServer, *, wide: bool) -> dict[str, Plans]:
    """The plans of one who has only ever heard what there is now."""
    other = MemoryServer()
    other.objects = server.objects
    with watched(other, wide=wide) as found:
        return {namespace: found.plan(namespace) for namespace in NAMESPACES}


def same_without_a_list(ops: list[Op], seed: int, wide: bool) -> dict[str, Plans]:
    """Kinds in any order, and events told again: no list is needed."""
    server = MemoryServer()
    histories.begin(server)
    with watched(server, wide=wide) as found:
        for heard in histories.interleaved(histories.happen(server, ops), random.Random(seed)):
            found.hear(heard)
        plans = {namespace: found.plan(namespace) for namespace in NAMESPACES}
    assert plans == told_anew(server, wide=wide)
    return plans


def same_with_the_next_list(ops: list[Op], seed: int, wide: bool) -> None:
    """Events lost, doubled, and in any order, and then a list."""
    server = MemoryServer()
    histories.begin(server)
    with watched(server, wide=wide) as found:
        for heard in histories.garbled(histories.happen(server, ops), random.Random(seed)):
            found.hear(heard)
        found.relist()
        plans = {namespace: found.plan(namespace) for namespace in NAMESPACES}
    assert plans == told_anew(server, wide=wide)


def same_with_a_list_beside(ops: list[Op], seed: int, wide: bool) -> None:
    """Events lost, doubled, and in any order; then a list, while the watch goes on as it should."""
    server, chance = MemoryServer(), random.Random(seed)
    histories.begin(server)
    early = chance.randrange(len(ops) + 1)
    with watched(server, wide=wide) as found:
        for heard in histories.garbled(histories.happen(server, ops[:early]), chance):
            found.hear(heard)
        found.begin_to_list()
        told = histories.interleaved(histories.happen(server, ops[early:]), chance)
        late = chance.randrange(len(told) + 1)
        for heard in told[:late]:
            found.hear(heard)
        found.end_of_lists()
        for heard in told[late:]:
            found.hear(heard)
        plans = {namespace: found.plan(namespace) for namespace in NAMESPACES}
    assert plans == told_anew(server, wide=wide)


def same_for_who_looks_at_what_has_changed(ops: list[Op], seed: int, wide: bool) -> None:
    """As the loop does: only namespaces that the world names are decided upon, at any time."""
    server, chance = MemoryServer(), random.Random(seed)
    histories.begin(server)
    with watched(server, wide=wide) as found:
        decided = {namespace: found.decide(namespace) for namespace in NAMESPACES}
        found.world.take_dirty()
        for heard in histories.interleaved(histories.happen(server, ops), chance):
            found.hear(heard)
            if chance.random() < 0.3:
                decided |= {namespace: found.decide(namespace) for namespace in found.world.take_dirty()}
        decided |= {namespace: found.decide(namespace) for namespace in found.world.take_dirty()}
        assert {name: _acts(plan) for name, plan in decided.items()} == {name: _acts(found.decide(name)) for name in NAMESPACES}


def _acts(decisions: Decisions) -> Any:
    """What is done at once; whoever waits is looked at again anyway. Whether a job that has failed has room changes with other services.
    A rule that was written again as it was makes no difference: its version is part of the cause, and read when it is needed.
    """
    return sorted((repair.key, repair.uid, repair.why) for repair in decisions.repairs if repair.act != "recreate_failed")


def check(holds: Callable[..., None], **more: Any) -> None:
    chosen = {"max_examples": EXAMPLES, "deadline": None, "database": None, "suppress_health_check": list(HealthCheck), **more}
    examples = settings(**chosen)
    examples(given(_OPS, _SEED, _WIDE)(holds))()


def test_kinds_in_any_order_and_events_told_again_end_in_the_same_plan(show: Callable[[str], None]) -> None:
    seen: Counter[str] = Counter()

    def holds(ops: list[Op], seed: int, wide: bool) -> None:
        plans = same_without_a_list(ops, seed, wide)
        seen.update(repair.act for plan in plans.values() for repair in plan["repairs"])

    check(holds)
    show(f"repairs that were compared: {dict(seen)}")
    assert set(ACTS) <= set(seen), "all acts are among what is compared"


def test_events_lost_doubled_and_in_any_order_end_in_the_same_plan_with_the_next_list() -> None:
    check(same_with_the_next_list)


def test_a_list_that_takes_long_undoes_nothing_that_was_heard_meanwhile() -> None:
    check(same_with_a_list_beside)


def test_what_went_before_a_list_is_gone_with_it_although_it_was_heard_of_meanwhile() -> None:
    """A job is changed and deleted; the list is made after that, and arrives before its deletion is heard."""
    changes: list[Op] = [(0, 0, 0, False), (0, 0, 0, False), (0, 0, 0, True)]
    for seed in range(40):
        same_with_a_list_beside(changes, seed, wide=False)


def test_whoever_looks_only_at_what_has_changed_has_the_plans_of_now() -> None:
    check(same_for_who_looks_at_what_has_changed)


def names_are_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "_uid", lambda obj: "")


def lists_tell_of_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Watch._tell

    def tell(self: Watch, old: Any, new: Any) -> None:
        if new is not None or self._objects.get(watches._key(old)) is not None or not self._must_list:
            real(self, old, new)

    monkeypatch.setattr(Watch, "_tell", tell)


def lists_are_newer_than_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "_number", lambda version: 0)


def what_is_known_is_new_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "_same", lambda one, other: True)


def only_the_specification_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worlds, "_alike", lambda old, new: bool(old and new) and old.get("spec") == new.get("spec"))


def servers_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    def changed(self: World, name: str, old: Any, new: Any) -> None:
        self._nodes.pop(name, None) if new is None else self._nodes.update({name: new})

    monkeypatch.setattr(World, "_node_changed", changed)


@pytest.mark.parametrize(
    ("plant", "holds"),
    [
        (names_are_all, same_without_a_list),
        (lists_tell_of_no_end, same_with_the_next_list),
        (lists_are_newer_than_events, same_with_a_list_beside),
        (what_is_known_is_new_enough, same_with_the_next_list),
        (only_the_specification_counts, same_for_who_looks_at_what_has_changed),
        (servers_do_not_count, same_for_who_looks_at_what_has_changed),
    ],
    ids=lambda made: made.__name__,
)
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], holds: Callable[..., Any], monkeypatch: Any) -> None:
    plant(monkeypatch)

    def plain(ops: list[Op], seed: int, wide: bool) -> None:
        holds(ops, seed, wide)

    with pytest.raises(AssertionError):
        check(plain, max_examples=1500, derandomize=True, phases=[Phase.generate], report_multiple_bugs=False)
