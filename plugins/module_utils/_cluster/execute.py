# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a plan under the lock: writes of a step up to 8 at once, waits, and records the success last."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from .._motor import readiness
from .._motor.errors import MotorError
from .._motor.plan import GONE, NO_PODS, Plan, Step, Write
from .._motor.record import with_applied
from .._motor.state import Snapshot
from .api import Api, ApiError
from .lock import Contender, Lock
from .watch import Watch

WRITERS = 8
TICK = 0.2


class WaitTimeout(MotorError):
    """A wait reached its deadline; the message holds the last seen state."""


@dataclass(frozen=True)
class Settings:
    """How to run: waiting, and who we are. Seconds throughout; `stable_for` is how long a finished state must hold."""

    by: str
    run: str
    wait: bool = True
    wait_timeout: float = 1800.0
    stable_for: float = 0.0
    lock_timeout: float = 30.0
    lock_duration: float = 15.0


Observe = Callable[[], Snapshot]
Planner = Callable[[Snapshot], Plan]


def run(api: Api, observe: Observe, planner: Planner, settings: Settings, *, check_mode: bool) -> tuple[Plan, Snapshot]:
    """Observe and plan; when there is something to do, lock and execute. Returns the plan and the snapshot after it.

    A lock that cannot be taken as it was observed means that somebody wrote meanwhile: observe and plan again.
    """
    contender = Contender(settings.lock_timeout)
    while True:
        snapshot = observe()
        plan = planner(snapshot)
        if plan.empty or check_mode:
            return plan, snapshot
        if not contender.free(snapshot.lease):
            contender.pause()
            continue
        lock = Lock(api, plan.namespace, f"{settings.by}/{settings.run}", settings.lock_duration)
        if plan_creates_namespace(plan):
            snapshot = Execution(api, lock, settings, snapshot, plan).write(plan.steps[0])
            plan = replace(plan, steps=plan.steps[1:])
        if lock.acquire(snapshot.lease, intent(plan, settings)):
            return _locked(api, lock, plan, snapshot, settings)


def plan_creates_namespace(plan: Plan) -> bool:
    """The Lease lives in the namespace, so a missing namespace has to come before the lock."""
    return bool(plan.steps) and any(write.kind == "Namespace" for write in plan.steps[0].writes)


def intent(plan: Plan, settings: Settings) -> dict[str, Any]:
    """What the Lease says while the plan runs, and after it was interrupted."""
    return {
        "verb": plan.verb,
        "from": dict(plan.counts_before),
        "to": dict(plan.counts),
        "by": settings.by,
        "run": settings.run,
        "started": _now(),
    }


def _locked(api: Api, lock: Lock, plan: Plan, snapshot: Snapshot, settings: Settings) -> tuple[Plan, Snapshot]:
    execution = Execution(api, lock, settings, snapshot, plan)
    try:
        after = execution.run()
    except BaseException:
        with contextlib.suppress(ApiError):  # what went wrong before matters more; an unreleased lock runs out by itself
            lock.release(done=False)
        raise
    finally:
        execution.close()
    if plan.removes:
        lock.remove()
    else:
        lock.release(done=True)
    return plan, after


class Execution:
    """One run of one plan. Keeps the snapshot current from the answers of the server and from watches."""

    def __init__(self, api: Api, lock: Lock, settings: Settings, snapshot: Snapshot, plan: Plan) -> None:
        self._api, self._lock, self._settings, self._plan = api, lock, settings, plan
        self._snapshot = snapshot
        self._changed = threading.Event()
        self._watches: dict[str, Watch] = {}
        self._deadline = time.monotonic() + settings.wait_timeout

    def run(self) -> Snapshot:
        """Every step in order, the final wait, the record."""
        for step in self._plan.steps:
            self._lock.check()
            self.write(step)
            if step.until and (step.always or self._settings.wait):
                self._wait(step.title, {GONE: readiness.gone, NO_PODS: readiness.no_pods}[step.until])
                self._wait_for_dependents(step)
        if self._settings.wait and self._plan.settles:
            self._wait("reach the wanted state", readiness.settled)
        if self._plan.record:
            self._record()
        return self._current()

    def write(self, step: Step) -> Snapshot:
        """Send the writes of a step, up to 8 at once; the first error wins after all have ended."""
        with ThreadPoolExecutor(WRITERS) as pool:
            answers = [(write, pool.submit(self._send, write)) for write in step.writes]
        for write, answer in answers:
            stored = answer.result()
            if write.verb == "delete":
                self._snapshot = self._snapshot.without(write.kind, write.name)
            elif stored and write.kind != "Namespace":
                self._snapshot = self._snapshot.with_object(stored)
        return self._snapshot

    def close(self) -> None:
        """End the watches."""
        for watch in self._watches.values():
            watch.stop()

    def _send(self, write: Write) -> Mapping[str, Any] | None:
        if write.verb == "create":
            return self._api.create(write.body)
        if write.verb == "delete":
            self._api.delete(write.kind, write.namespace, write.name, preconditions=write.preconditions, propagation=write.propagation)
            return None
        if write.patch:
            return self._api.patch(write.kind, write.namespace, write.name, write.body)
        return self._api.replace(write.body)

    def _record(self) -> None:
        self._lock.check()
        plan, settings = self._plan, self._settings
        updated = with_applied(
            self._snapshot.config_map or {},
            plan.data or {},
            plan.counts,
            at=_now(),
            by=settings.by,
            run=settings.run,
            env_sha256=plan.env_sha256,
        )
        self._snapshot = self._snapshot.with_object(self._api.replace(updated))

    def _wait(self, what: str, verdict: readiness.Judge) -> None:
        self._watch(sets=verdict is readiness.settled)
        since, mark = time.monotonic(), None
        while True:
            self._changed.clear()
            seen = verdict(self._current(), self._plan.counts)
            now = time.monotonic()
            if not seen.done or seen.mark != mark:
                since, mark = now, seen.mark
            if seen.done and now - since >= (self._settings.stable_for if seen.may_flap else 0.0):
                return
            if now > self._deadline:
                raise WaitTimeout(self._late(what, seen), reason="WaitTimeout", last_seen=seen.seen)
            self._lock.check()
            self._changed.wait(min(TICK if seen.done else 1.0, max(0.01, self._deadline - now)))

    def _wait_for_dependents(self, step: Step) -> None:
        """An object that was deleted in the foreground is there until all that it owned is gone."""
        for write in step.writes:
            while write.propagation == "Foreground" and self._api.get(write.kind, write.namespace, write.name):
                if time.monotonic() > self._deadline:
                    seen = readiness.Verdict(False, f"{write.kind} {write.name} still has dependents")
                    raise WaitTimeout(self._late(step.title, seen), reason="WaitTimeout", last_seen=seen.seen)
                self._lock.check()
                time.sleep(TICK)

    def _late(self, what: str, seen: readiness.Verdict) -> str:
        return (
            f"Cannot {what} of {self._plan.namespace} within {self._settings.wait_timeout:g} s. Last seen: {seen.seen or 'not yet stable'}. "
            "Nothing was undone; correct the cause and run the task again to go on, or raise wait_timeout."
        )

    def _watch(self, *, sets: bool) -> None:
        snapshot = self._snapshot
        sources = {"Pod": (snapshot.pods, snapshot.pods_version)}
        if sets and snapshot.backend == "infer_service_set":
            sources["InstanceSet"] = (snapshot.instance_sets, snapshot.instance_sets_version)
        for kind, (items, version) in sources.items():
            if kind not in self._watches:
                self._watches[kind] = Watch(self._api, kind, snapshot.namespace, items, version, self._changed)

    def _current(self) -> Snapshot:
        """The snapshot with what the watches have seen since."""
        for watch in self._watches.values():
            if watch.failed:
                raise watch.failed
        pods, sets = self._watches.get("Pod"), self._watches.get("InstanceSet")
        current = replace(self._snapshot, pods=pods.objects()) if pods else self._snapshot
        return replace(current, instance_sets=sets.objects()) if sets else current


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
