# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits for what a plan wants to see, by watching, with a deadline, and no longer than there is hope."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from .._motor import readiness, terminal
from .._motor.errors import MotorError
from .._motor.readiness import Verdict
from .._motor.state import Snapshot
from .._motor.terminal import Symptom
from .api import Api
from .diagnosis import Diagnosis
from .progress import Progress
from .watch import Watch

TICK = 0.2
# A signal or a lost lock ends a wait after this long at most.
LONGEST_TICK = 0.5
# The message names so many instances; the result has all of them.
MOST_NAMED = 8
INSTANCES_FAILED, WAIT_TIMEOUT = "InstancesFailed", "WaitTimeout"
# What leaves is not asked how it is.
_HEALTH_IS_NO_MATTER = (readiness.gone, readiness.reduced, readiness.no_pods, readiness.known)


class WaitFailed(MotorError):
    """What was waited for does not come: instances cannot run (InstancesFailed), or the deadline was reached (WaitTimeout)."""

    def conclude(self, said: str, **details: Any) -> None:
        """Add to the message what was done about it."""
        self.message = f"{self.message} {said}"
        self.args = (self.message,)
        self.details.update(details)


@dataclass(frozen=True)
class Patience:
    """How long to wait. `deadline` is a time of the monotonic clock; a state that may flap must hold for `stable_for` seconds;
    pods may be unschedulable for `unschedulable` seconds. `scope` says whose troubles end a wait early.
    """

    deadline: float
    stable_for: float = 0.0
    unschedulable: float = float("inf")
    scope: terminal.Scope = terminal.EVERYTHING


class Waiter:
    """Watches a service from a snapshot on, and tells `progress` what it sees. `check` raises when the run has to stop."""

    def __init__(self, api: Api, namespace: str, check: Callable[[], None], patience: Patience, progress: Progress) -> None:
        self._api, self._namespace, self._check = api, namespace, check
        self._patience, self.progress = patience, progress
        self._started = time.monotonic()
        self._changed = threading.Event()
        self._watches: dict[str, Watch] = {}
        self._diagnosis: Diagnosis | None = None
        self._first_seen: dict[terminal.Key, float] = {}
        self._ended_since: float | None = None
        self._looked = 0.0

    def until(
        self, what: str, judge: readiness.Judge, snapshot: Snapshot, wanted: Mapping[str, int], about: Collection[str] | None = None
    ) -> None:
        """Return when `judge` finds the service done (and, where it may flap, unchanged for `stable_for`).

        `about` names the instances and control roles whose troubles matter (None: of all that are not spared).
        """
        self._watch(snapshot.watched(health=judge not in (readiness.gone, readiness.no_pods)), snapshot)
        since, mark = time.monotonic(), None
        while True:
            self._changed.clear()
            current = self.current(snapshot)
            seen = judge(current, wanted)
            now = time.monotonic()
            self.progress.waiting(current, seen.seen)
            if not seen.done or seen.mark != mark:
                since, mark = now, seen.mark
            if seen.done and now - since >= (self._patience.stable_for if seen.may_flap else 0.0):
                return
            self._check()
            if not seen.done and judge not in _HEALTH_IS_NO_MATTER and now - self._looked >= TICK:
                self._looked = now  # many pods make many changes, and looking at all of them is not for nothing
                self._end_early(what, current, now, about)
            if now > self._patience.deadline:
                if self._came_unseen(judge, current, wanted):
                    return
                self._late(what, seen, current)
            self._changed.wait(min(TICK if seen.done else LONGEST_TICK, max(0.01, self._patience.deadline - now)))

    def until_autoscaled(self, what: str, judge: Callable[[Snapshot], Verdict], snapshot: Snapshot) -> None:
        """Return when autoscalers and InstanceSets are as `judge` wants them. Nobody's health matters."""
        self._watch(snapshot.watched(health=False, scaling=True), snapshot)
        while True:
            self._changed.clear()
            current = self.current(snapshot)
            seen = judge(current)
            self.progress.waiting(current, seen.seen)
            if seen.done:
                return
            self._check()
            if time.monotonic() > self._patience.deadline:
                self._late(what, seen, None)
            self._changed.wait(min(LONGEST_TICK, max(0.01, self._patience.deadline - time.monotonic())))

    def until_absent(self, what: str, kind: str, name: str, uid: str) -> None:
        """Return when an object is gone (one that was deleted in the foreground is there until all that it owned is gone),
        or another one has its name.
        """
        while (self._api.get(kind, self._namespace, name) or {}).get("metadata", {}).get("uid") == uid:
            self._check()
            if time.monotonic() > self._patience.deadline:
                self._late(what, Verdict(False, f"{kind} {name} still has dependents"), None)
            time.sleep(TICK)

    def current(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with what the watches have seen since."""
        for watch in self._watches.values():
            if watch.failed:
                raise watch.failed
        return snapshot.refreshed({kind: watch.objects() for kind, watch in self._watches.items()})

    def close(self) -> None:
        """End the watches."""
        for watch in self._watches.values():
            watch.stop()

    def _end_early(self, what: str, current: Snapshot, now: float, about: Collection[str] | None) -> None:
        """Raise WaitFailed when something that this run is about cannot run, a moment later, so that all that fail alike are told."""
        symptoms = tuple(item for item in self._symptoms(current, now) if about is None or item.name in about)
        ages = {key: now - first for key, first in self._first_seen.items()}
        ended = terminal.terminal(symptoms, ages, self._patience.scope, self._patience.unschedulable)
        if not ended:
            self._ended_since = None
            return
        if self._ended_since is None:
            self._ended_since = now
        if now - self._ended_since < terminal.TOGETHER_SECONDS:
            return
        besides = _named([symptom for symptom in symptoms if symptom not in ended])
        message = f"Cannot {what} of {self._namespace}: {_named(ended)}." + (f" Besides, {besides}." if besides else "")
        failed = [symptom.to_dict() for symptom in ended]
        raise WaitFailed(message, reason=INSTANCES_FAILED, failed_instances=failed, last_seen=_named(symptoms))

    def _symptoms(self, current: Snapshot, now: float) -> tuple[Symptom, ...]:
        if self._diagnosis is None:
            progress = self.progress
            self._diagnosis = Diagnosis(self._api, self._namespace, current.backend, progress.aside, self._changed, progress.warnings)
        self._diagnosis.look()
        symptoms = terminal.symptoms(current, self._diagnosis.workloads)
        self._first_seen = {symptom.key: self._first_seen.get(symptom.key, now) for symptom in symptoms}
        return symptoms

    def _came_unseen(self, judge: readiness.Judge, current: Snapshot, wanted: Mapping[str, int]) -> bool:
        """A last look past the watches: nothing is called missing that is there."""
        try:
            pods = self._api.pausing(None).list_objects("Pod", self._namespace).items
        except MotorError:
            return False
        seen = judge(replace(current, pods=pods), wanted)
        return seen.done and not seen.may_flap

    def _late(self, what: str, seen: Verdict, current: Snapshot | None) -> NoReturn:
        waited = f"{time.monotonic() - self._started:.0f} s"
        message = f"Cannot {what} of {self._namespace} within {waited}. Last seen: {seen.seen or 'not yet stable'}."
        symptoms = self._symptoms(current, time.monotonic()) if current else ()
        failed = [symptom.to_dict() for symptom in symptoms]
        raise WaitFailed(message, reason=WAIT_TIMEOUT, failed_instances=failed, last_seen=seen.seen)

    def _watch(self, kinds: Mapping[str, tuple[Mapping[str, Any], ...]], snapshot: Snapshot) -> None:
        for kind, items in kinds.items():
            version = snapshot.versions.get(kind, "")
            if kind not in self._watches:
                if not version:  # observing did not need them
                    found = self._api.list_objects(kind, snapshot.namespace)
                    items, version = found.items, found.resource_version
                self._watches[kind] = Watch(self._api, kind, snapshot.namespace, self._changed, items=items, version=version)


def _named(symptoms: Sequence[Symptom]) -> str:
    named = "; ".join(f"{symptom.name} cannot run ({symptom.reason})" for symptom in symptoms[:MOST_NAMED])
    more = len(symptoms) - MOST_NAMED
    return f"{named}; and {more} more" if more > 0 else named
