# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run of one plan under the lock: the writes of a step up to 8 at once, waits in between, the record last."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .._motor import readiness
from .._motor.generation import generation
from .._motor.plan import ABSENT, GONE, KNOWN, NO_PODS, REDUCED, RUNNING, Plan, Step, Write
from .._motor.record import with_applied
from .._motor.state import Snapshot, deleted_workloads
from .api import Api, Conflict
from .idle import until_idle
from .waiting import Waiter
from .writes import Stored, Writes

_JUDGES: dict[str, readiness.Judge] = {
    GONE: readiness.gone,
    REDUCED: readiness.reduced,
    NO_PODS: readiness.no_pods,
    KNOWN: readiness.known,
}


class Execution:
    """Keeps the snapshot current from the answers of the server and from watches. `done` lists the writes that were carried out,
    `drained` what instances were doing when they were deleted; `recorded` is the service with the record of success that was written.

    `check` raises when nothing more may be written; `place` says in words how far the plan has come.
    """

    def __init__(self, api: Api, plan: Plan, snapshot: Snapshot, waiter: Waiter, check: Callable[[], None], *, wait: bool) -> None:
        self._api = api.fenced(check)
        self._plan, self._waiter, self._check, self._wait = plan, waiter, check, wait
        self._snapshot, self._progress = snapshot, waiter.progress
        self._writes = Writes(self._api)
        self.done, self.unsure = self._writes.done, self._writes.unsure
        self.drained: list[dict[str, Any]] = []
        self.recorded: Snapshot | None = None
        self.place = ""

    def run(self, by: str, run: str) -> Snapshot | None:
        """Every step in order, the final wait, the record. None after a step that says to observe and plan again."""
        settles = self._wait and self._plan.settles
        total = len(self._plan.steps) + settles + self._plan.record
        for number, step in enumerate(self._plan.steps, start=1):
            self.place = f"at step {number} of {total} ({step.title})"
            self._check()
            self._progress.step(step.title)
            if step.idle:
                self.drained.extend(until_idle(self._api, self._plan.namespace, step.idle, self._check, self._tell))
            stale = self._stale(step)
            self.write(step)
            self._await(step, stale)
            if step.look_again:
                return None
        if settles:
            self.place = f"at step {total - self._plan.record} of {total} (wait for the instances)"
            self._progress.step("wait for the instances")
            self._waiter.until("reach the wanted state", readiness.settled, self._snapshot, self._plan.counts)
        if self._plan.record:
            self.place = f"at step {total} of {total} (record the success)"
            self._progress.step("record the success")
            self._record(by, run)
        after = self._waiter.current(self._snapshot)
        self._progress.ended(after, self._plan.verb)
        return after

    def _tell(self, missing: str) -> None:
        self._progress.waiting(self._snapshot, missing)

    def write(self, step: Step) -> Snapshot:
        """Send the writes of a step, up to 8 at once; the first error wins after all have ended."""
        for write, stored in self._writes.send(step.writes):
            self._take_over(write, stored)
        return self._snapshot

    def _take_over(self, write: Write, stored: Stored) -> None:
        if write.verb == "delete":
            self._snapshot = self._snapshot.without(write.kind, write.name)
        elif stored and write.kind != "Namespace":
            self._snapshot = self._snapshot.with_object(stored)

    def _stale(self, step: Step) -> frozenset[str]:
        """The pods (by uid) that go with the workloads that this step deletes."""
        workloads = any(write.verb == "delete" and write.kind != "Pod" for write in step.writes)
        pods = self._waiter.current(self._snapshot).pods if workloads else ()
        return frozenset(pod["metadata"]["uid"] for pod in pods if any(subject.has(pod) for subject in step.subjects))

    def _await(self, step: Step, stale: frozenset[str]) -> None:
        if not (step.always or self._wait):
            return
        if step.autoscaled:
            self._waiter.until_autoscaled(step.title, step.autoscaled, self._snapshot)
        if not step.until:
            return
        stopping = deleted_workloads(self._snapshot)
        for found in stopping:  # they are not watched; their pods are
            self._snapshot = self._snapshot.without(found["kind"], found["metadata"]["name"])
        if step.until == RUNNING:
            about = [subject.name for subject in step.subjects]
            self._waiter.until(step.title, readiness.present(step.subjects, stale), self._snapshot, self._plan.counts, about)
        elif step.until != ABSENT:
            self._waiter.until(step.title, _JUDGES[step.until], self._snapshot, self._plan.counts)
        for found in stopping:
            self._waiter.until_absent(step.title, found["kind"], found["metadata"]["name"], found["metadata"]["uid"])
        for write in step.writes:
            if write.propagation == "Foreground":
                self._waiter.until_absent(step.title, write.kind, write.name, write.preconditions["uid"])

    def _record(self, by: str, run: str) -> None:
        self._check()
        plan = self._plan
        updated = with_applied(
            self._snapshot.config_map or {},
            plan.data or {},
            plan.counts,
            at=_now(),
            by=by,
            run=run,
            env_sha256=plan.env_sha256,
            generation=generation(plan.data or {}),
        )
        write = plan.recording()
        try:
            self._snapshot = self._snapshot.with_object(self._api.replace(updated))
        except Conflict as error:
            if error.uncertain:
                self.unsure.append(write)
            raise
        self.done.append(write)
        self.recorded = self._snapshot


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
