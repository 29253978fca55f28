# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From observation to record: observe, plan, lock, carry out. What somebody changed in between is observed and planned again."""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from .._motor import terminal
from .._motor.errors import MotorError, Refused
from .._motor.plan import Plan, Write
from .._motor.plan_rollback import left_changed, plan_rollback
from .._motor.state import Snapshot
from . import history
from .api import Api, ApiError, Conflict
from .lock import Contender, Lock, LockLost
from .progress import Progress
from .signals import Interrupted, Signals
from .steps import Execution
from .waiting import INSTANCES_FAILED, WAIT_TIMEOUT, Patience, Waiter, WaitFailed

# How often a plan is made again because somebody else keeps changing the same objects.
PLANS = 5
LOCK_PAUSE = 0.5
_NOTHING_UNDONE = "Nothing was undone; correct the cause and run the task again to go on"
_KEPT = {INSTANCES_FAILED: f"{_NOTHING_UNDONE}.", WAIT_TIMEOUT: f"{_NOTHING_UNDONE}, or raise wait_timeout."}


@dataclass(frozen=True)
class Settings:
    """How to run: waiting, and who we are. Seconds throughout; `stable_for` is how long a finished state must hold,
    `unschedulable_timeout` how long pods may be unschedulable (None: until the deadline). `roll_back` what does not come to run.
    """

    by: str
    run: str
    wait: bool = True
    wait_timeout: float = 1800.0
    unschedulable_timeout: float | None = None
    stable_for: float = 0.0
    roll_back: bool = False
    lock_timeout: float = 30.0
    lock_duration: float = 15.0


@dataclass(frozen=True)
class Outcome:
    """What a run did (or in check mode would do), the plan it followed at last, and the service before and after.

    `timeline` tells what happened when; `warnings` what the user should know besides.
    """

    plan: Plan
    before: Snapshot
    after: Snapshot
    actions: list[dict[str, Any]]
    removed: list[dict[str, Any]]
    drained: list[dict[str, Any]] = field(default_factory=list)
    timeline: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


Observe = Callable[[], Snapshot]
Planner = Callable[[Snapshot], Plan]


def run(api: Api, observe: Observe, planner: Planner, settings: Settings, *, check_mode: bool, signals: Signals | None = None) -> Outcome:
    """Observe and plan; when there is something to do, lock and carry it out. The signals that end programs are heeded,
    or (`signals`, of a program with threads) what the caller has received.
    """
    signals = signals or Signals()
    this = _Run(api.pausing(signals.sleep), observe, planner, settings, signals)
    with signals.handled():
        try:
            return this.run(check_mode)
        except Interrupted as error:
            raise this.interrupted(error) from error


@dataclass(frozen=True)
class _Undone:
    """What became of a change that did not come to run: what to say, whether the baseline is reached again, whether the service is gone."""

    said: str
    complete: bool = False
    removes: bool = False


@dataclass
class _Run:
    api: Api
    observe: Observe
    planner: Planner
    settings: Settings
    signals: Signals
    done: list[Write] = field(default_factory=list)
    unsure: list[Write] = field(default_factory=list)
    drained: list[dict[str, Any]] = field(default_factory=list)
    place: str = ""
    _recorded: tuple[Snapshot, Plan] | None = None

    def __post_init__(self) -> None:
        self._deadline = time.monotonic() + self.settings.wait_timeout

    def run(self, check_mode: bool) -> Outcome:
        """A lock that cannot be taken as it was observed means that somebody wrote meanwhile: observe and plan again."""
        holder = f"{self.settings.by}/{self.settings.run}"
        contender = Contender(self.settings.lock_timeout, holder)
        while True:
            self.signals.check()
            snapshot = self.observe()
            plan = self.planner(snapshot)
            if plan.empty or check_mode:
                return Outcome(plan, snapshot, snapshot, plan.actions(), removed(write for step in plan.steps for write in step.writes))
            if not contender.free(snapshot.lease):
                self.signals.sleep(LOCK_PAUSE)
                continue
            lock = Lock(self.api, plan.namespace, holder, self.settings.lock_duration)
            plan = self._create_namespace(plan, snapshot)
            if lock.acquire(snapshot.lease, intent(plan, self.settings)):
                return self._locked(lock, plan, snapshot)

    def _create_namespace(self, plan: Plan, snapshot: Snapshot) -> Plan:
        """The Lease lives in the namespace, so a missing namespace has to come before the lock."""
        if not plan.steps or not any(write.kind == "Namespace" for write in plan.steps[0].writes):
            return plan
        for write in plan.steps[0].writes:
            with contextlib.suppress(Conflict):  # it is there by now
                self.api.create(write.body)
            self.done.append(write)
        return replace(plan, steps=plan.steps[1:])

    def _locked(self, lock: Lock, plan: Plan, snapshot: Snapshot) -> Outcome:
        self._scope = terminal.scope(snapshot, plan)
        self._progress = Progress(self.api.fenced(lock.check), plan.verb, self.settings.by, self.settings.run, snapshot)
        try:
            outcome = self._persist(lock, plan, snapshot)
        except BaseException as error:
            self._give_up(lock, plan, snapshot, error)
            raise
        self._leave(lock, done=True, removes=outcome.plan.removes)
        return replace(outcome, timeline=self._progress.entries(), warnings=self._progress.warnings)

    def _give_up(self, lock: Lock, plan: Plan, before: Snapshot, error: BaseException) -> None:
        """Say what was done, roll back what did not come to run where that is asked for, and give the lock back."""
        undone = _Undone("")
        try:
            if isinstance(error, WaitFailed):
                self._progress.failed(error.reason, error.message, always=error.reason == INSTANCES_FAILED)
                undone = self._roll_back(lock, plan, before) if self.settings.roll_back else _Undone(_KEPT[error.reason])
                error.conclude(undone.said, **({"rolled_back": undone.complete} if self.settings.roll_back else {}))
        finally:
            self._leave(lock, done=undone.complete, removes=undone.removes)
            if isinstance(error, MotorError):
                error.details.setdefault("actions", [write.action() for write in self.done])
                error.details.setdefault("changed", bool(self.done))
                error.details.setdefault("timeline", self._progress.entries())
                error.warnings.extend(self._progress.warnings)

    def _roll_back(self, lock: Lock, failed: Plan, before: Snapshot) -> _Undone:
        """Go back to the baseline under the same lock, with as much time as before."""
        undo = copy.copy(self)
        undo.planner = lambda snapshot: plan_rollback(before, snapshot, failed)
        undo.settings = replace(self.settings, wait=True)
        undo._deadline = time.monotonic() + self.settings.wait_timeout
        try:
            snapshot = self.observe()
            plan = undo.planner(snapshot)
            undo._persist(lock, plan, snapshot)
        except Interrupted:
            raise
        except Refused as refusal:
            return _Undone(f"Not rolled back: {refusal.message}")
        except MotorError as problem:
            return _Undone(f"Rolling back failed: {problem.message} Run the task again, or scale to the counts of the baseline.")
        if plan.removes:
            said = "Rolled back: the service, which had never come to run, was removed (claims stay)."
            return _Undone(said, complete=True, removes=True)
        counts = ", ".join(f"{role} {count}" for role, count in plan.counts.items())
        left = left_changed(before, failed)
        rest = f" Not rolled back: {', '.join(left)}; run the task again to go on." if left else ""
        return _Undone(f"Rolled back: the counts are again those of the baseline ({counts}).{rest}", complete=not left)

    def _leave(self, lock: Lock, *, done: bool, removes: bool) -> None:
        """Give the lock back, as the last thing that is written. Only the history is written at the same time: the next record has
        another number, so that nobody's next run can meet it.
        """
        self._progress.close()
        with ThreadPoolExecutor(1) as pool:
            history_kept = pool.submit(self._keep_history, lock)
            try:
                if removes:
                    lock.remove()
                else:
                    lock.release(done=done)
            except (ApiError, LockLost) as error:  # what happened before matters more; an unreleased lock runs out by itself
                if isinstance(error, ApiError) and error.status == 403:
                    self._progress.warnings.append(f"The lock is not given back: {error}")
        self._progress.warnings.extend(history_kept.result())

    def _keep_history(self, lock: Lock) -> list[str]:
        if self._recorded is None:
            return []
        snapshot, plan = self._recorded
        return history.keep(self.api.fenced(lock.check), snapshot, f"{plan.verb}: {plan.why_record}")

    def _persist(self, lock: Lock, plan: Plan, before: Snapshot) -> Outcome:
        """Carry the plan out; after a conflict, and where a step asks for it, the rest of the way is planned from what is there then."""
        first, snapshot = plan, before
        attempt = 1
        while True:
            try:
                after = self._carry_out(lock, plan, snapshot)
                if after is not None:
                    actions = [write.action() for write in self.done] + plan.closing()
                    return Outcome(first, before, after, actions, removed(self.done), self.drained)
            except Conflict:
                if attempt == PLANS:
                    raise
                self.signals.sleep(0.1 * 2**attempt)
                attempt += 1
            lock.check()
            snapshot = self.observe()
            plan = self._planned_again(snapshot)

    def _planned_again(self, snapshot: Snapshot) -> Plan:
        """The new plan. A write that got no answer and is not needed any more was carried out."""
        plan = self.planner(snapshot)
        needed = plan.actions()
        self.done.extend(write for write in self.unsure if write.action() not in needed)
        self.unsure.clear()
        return plan

    def _carry_out(self, lock: Lock, plan: Plan, snapshot: Snapshot) -> Snapshot | None:
        def check() -> None:
            lock.check()
            self.signals.check()

        settings = self.settings
        limit = settings.unschedulable_timeout
        patience = Patience(self._deadline, settings.stable_for, settings.wait_timeout if limit is None else limit, self._scope)
        waiter = Waiter(self.api, plan.namespace, check, patience, self._progress)
        execution = Execution(self.api, plan, snapshot, waiter, check, wait=settings.wait)
        try:
            return execution.run(settings.by, settings.run)
        finally:
            waiter.close()
            self.place = execution.place
            self.done.extend(execution.done)
            self.unsure.extend(execution.unsure)
            self.drained.extend(execution.drained)
            self._recorded = (execution.recorded, plan) if execution.recorded else self._recorded

    def interrupted(self, error: Interrupted) -> Interrupted:
        """The error with how far the run has come."""
        place = self.place or "before anything was written"
        return Interrupted(f"The run was {error.message} {place}. Run the task again to finish it.", reason=error.reason, **error.details)


def removed(writes: Iterable[Write]) -> list[dict[str, Any]]:
    """The instances that go for good with these writes, and why these."""
    return [removal.to_dict() for write in writes for removal in write.removed]


def intent(plan: Plan, settings: Settings) -> dict[str, Any]:
    """What the Lease says while the plan runs, and after it was interrupted."""
    return {
        "verb": plan.verb,
        "from": dict(plan.counts_before),
        "to": dict(plan.counts),
        "by": settings.by,
        "run": settings.run,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
