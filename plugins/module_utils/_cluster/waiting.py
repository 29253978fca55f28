# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits for what a plan wants to see, by watching, with a deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from .._motor import readiness
from .._motor.errors import MotorError
from .._motor.state import Snapshot
from .api import Api
from .watch import Watch

TICK = 0.2
# A signal or a lost lock ends a wait after this long at most.
LONGEST_TICK = 0.5


class WaitTimeout(MotorError):
    """A wait reached its deadline; the message holds the last seen state."""


class Waiter:
    """Watches a service from a snapshot on. `deadline` is a time of the monotonic clock; `check` raises when the run has to stop."""

    def __init__(self, api: Api, namespace: str, check: Callable[[], None], deadline: float, *, stable_for: float) -> None:
        self._api, self._namespace, self._check = api, namespace, check
        self._deadline, self._stable_for = deadline, stable_for
        self._started = time.monotonic()
        self._changed = threading.Event()
        self._watches: dict[str, Watch] = {}

    def until(self, what: str, judge: readiness.Judge, snapshot: Snapshot, wanted: Mapping[str, int]) -> None:
        """Return when `judge` finds the service done (and, where it may flap, unchanged for `stable_for`)."""
        self._watch(snapshot, sets=judge is not readiness.no_pods)
        since, mark = time.monotonic(), None
        while True:
            self._changed.clear()
            seen = judge(self.current(snapshot), wanted)
            now = time.monotonic()
            if not seen.done or seen.mark != mark:
                since, mark = now, seen.mark
            if seen.done and now - since >= (self._stable_for if seen.may_flap else 0.0):
                return
            self._keep_on(what, seen)
            self._changed.wait(min(TICK if seen.done else LONGEST_TICK, max(0.01, self._deadline - now)))

    def until_absent(self, what: str, kind: str, name: str) -> None:
        """Return when an object is gone (one that was deleted in the foreground is there until all that it owned is gone)."""
        while self._api.get(kind, self._namespace, name):
            self._keep_on(what, readiness.Verdict(False, f"{kind} {name} still has dependents"))
            time.sleep(TICK)

    def current(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with what the watches have seen since."""
        for watch in self._watches.values():
            if watch.failed:
                raise watch.failed
        pods, sets = self._watches.get("Pod"), self._watches.get("InstanceSet")
        current = replace(snapshot, pods=pods.objects()) if pods else snapshot
        return replace(current, instance_sets=sets.objects()) if sets else current

    def close(self) -> None:
        """End the watches."""
        for watch in self._watches.values():
            watch.stop()

    def _keep_on(self, what: str, seen: readiness.Verdict) -> None:
        self._check()
        if time.monotonic() > self._deadline:
            message = (
                f"Cannot {what} of {self._namespace} within {time.monotonic() - self._started:.0f} s. Last seen: {seen.seen or 'not yet stable'}. "
                "Nothing was undone; correct the cause and run the task again to go on, or raise wait_timeout."
            )
            raise WaitTimeout(message, reason="WaitTimeout", last_seen=seen.seen)

    def _watch(self, snapshot: Snapshot, *, sets: bool) -> None:
        sources = {"Pod": (snapshot.pods, snapshot.pods_version)}
        if sets and snapshot.backend == "infer_service_set":
            sources["InstanceSet"] = (snapshot.instance_sets, snapshot.instance_sets_version)
        for kind, (items, version) in sources.items():
            if kind not in self._watches:
                self._watches[kind] = Watch(self._api, kind, snapshot.namespace, items, version, self._changed)
