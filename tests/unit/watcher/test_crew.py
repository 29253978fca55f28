# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who does repairs, and when: with acts that end when the test wants, to see what waits for what."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from rescheduling_watcher.acts import Outcome
from rescheduling_watcher.crew import WORKERS, Crew
from rescheduling_watcher.metrics import Counters
from rescheduling_watcher.repairs import Repair

from ansible_collections.ascend.mindie.plugins.module_utils._cluster.lock import LockHeld
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import MotorError, Refused
from ansible_collections.ascend.mindie.plugins.module_utils._motor.hands_off import HANDS_OFF
from tests.cluster.kube_client import wait_for


class Around:
    """Everything around a crew: what it is given, and what it has said."""

    def __init__(self) -> None:
        self.noted_text = ""
        self.outcomes: list[str] = []
        self.begun: list[str] = []
        self.errors: list[MotorError] = []
        self.may_end = threading.Event()
        self.finds: Callable[[], None] = lambda: None
        me: Any = self
        self.crew = Crew(me, me, me, me, Counters(), 2, self.find, lambda namespace, seconds: None)

    def carry_out(self, repair: Repair, fence: Callable[[], None]) -> Outcome:
        self.begun.append(repair.key)
        for error in self.errors:
            raise error
        if repair.act == "recreate_failed":
            assert self.may_end.wait(10)
        return Outcome(done=True, said="done")

    def note(self, text: str) -> None:
        self.noted_text = text

    def noted(self) -> str:
        return self.noted_text

    def find(self, repair: Repair) -> None:
        self.finds()

    def repaired(self, entry: dict[str, Any]) -> None:
        self.outcomes.append(entry["outcome"])

    def offer(self, act: str, name: str, namespace: str = "chat") -> None:
        """Whatever the budget of the act has left."""
        self.crew._buckets[act]._left = 1.0
        self.crew.offer(Repair(act, namespace, "AscendJob", name, "why"), lambda: None)

    def tries(self, key: str) -> int:
        """How often it may be offered until it is given up, counted from now on."""
        with self.crew._lock:
            return self.crew._tries.count(key, time.time()) if self.crew._tries else 0

    def rested(self) -> None:
        """No time passes in a test."""
        wait_for(lambda: not self.crew._busy, 5, "nothing is going on")
        self.crew._resting.clear()


@pytest.fixture
def around() -> Iterator[Around]:
    found = Around()
    yield found
    found.may_end.set()
    found.crew.stop()


def test_single_requests_do_not_wait_for_transactions(around: Around) -> None:
    """As many transactions as there is room for wait for pods to go, and more are to come: nudges and Events go out all the same."""
    for number in range(WORKERS + 2):
        around.offer("recreate_failed", "p0", f"chat-{number}")
    wait_for(lambda: len(around.begun) == WORKERS, 5, "all that can be are at it")
    told = threading.Event()
    around.crew.aside(told.set)
    around.offer("nudge", "p1")
    assert told.wait(5)
    wait_for(lambda: around.outcomes == ["done"], 5, "the nudge is done")


def test_a_repair_that_somebody_stands_in_the_way_of_was_not_tried(around: Around) -> None:
    for error in (Refused("on hold", reason=HANDS_OFF), LockHeld("held by a playbook", reason="LockHeld")) * 3:
        around.errors = [error]
        around.offer("recreate_failed", "p0")
        around.rested()
    assert len(around.begun) == 6 and not around.outcomes and around.tries("recreate_failed chat/p0") == 0


def test_what_was_begun_was_tried_although_somebody_came_in_between(around: Around) -> None:
    around.errors = [Refused("on hold", reason=HANDS_OFF)]
    around.errors[0].details["changed"] = True
    for dummy in range(3):
        around.offer("recreate_failed", "p0")
        around.rested()
    wait_for(lambda: around.outcomes == ["given up"], 5, "it is given up")
    assert len(around.begun) == 2 and len(json.loads(around.noted_text)["recreate_failed chat/p0"]) == 2


def test_whatever_goes_wrong_nothing_is_busy_for_ever(around: Around) -> None:
    def fail() -> None:
        raise KeyError("an owner without a name")

    around.finds = fail
    around.offer("release_stuck", "pod")
    around.rested()
    around.finds = lambda: None
    around.offer("release_stuck", "pod")
    wait_for(lambda: around.outcomes == ["done"], 5, "it is done the next time")


def test_repairs_of_thousands_of_objects_leave_nothing_behind(around: Around) -> None:
    for number in range(100):
        around.offer("nudge", f"p{number}")
        wait_for(lambda: not around.crew._busy, 5, "it is done")
        around.crew._resting = dict.fromkeys(around.crew._resting, 0.0)
    assert len(around.crew._resting) <= 2
