# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installs, changes and removes a program: observe, plan, write, wait. Without a lock, as each write is a compare-and-swap by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NoReturn

from .._motor import program_state, programs
from .._motor.errors import MotorError
from .._motor.plan import ABSENT, AVAILABLE, Plan, Write
from .._motor.plan_program import Live
from .._motor.pods import node_of
from .._motor.programs import Key, Object
from .._motor.terminal import TOGETHER_SECONDS, Symptom
from .api import Api, Conflict
from .signals import Interrupted, Signals
from .waiting import INSTANCES_FAILED, MOST_NAMED, WAIT_TIMEOUT, WaitFailed
from .writes import Writes

READERS = 8
# How often a plan is made again because somebody else keeps changing the same objects.
PLANS = 5
TICK = 0.3
# Pods are listed less often than the Deployment is read.
LOOK_SECONDS = 1.0


def observe_program(api: Api, name: str, namespace: str, namespaces: Iterable[str], more: Iterable[str] = ()) -> Live:
    """All that there is of a program. `namespaces` are those in which it is to have rights, `more` objects that only some programs have;
    others are remembered in its ConfigMap.

    A namespace is looked for where nothing of the program is in it.
    """
    wanted, own = set(namespaces), ("ConfigMap", namespace, name)
    ledger = api.get(*_place(own))
    places, others = {*wanted, *programs.remembered(ledger)}, {*more, *programs.remembered_objects(ledger)}
    keys = [key for key in programs.possible(name, namespace, places, others) if key != own]
    with ThreadPoolExecutor(READERS) as pool:
        found: dict[Key, Object | None] = {own: ledger, **dict(zip(keys, pool.map(lambda key: api.get(*_place(key)), keys), strict=True))}
        rights = programs.rights_name(name, namespace)
        unknown = {place for place in wanted if not found["Role", place, rights]} | (set() if ledger else {namespace})
        looked = dict(zip(sorted(unknown), pool.map(lambda place: api.get("Namespace", None, place), sorted(unknown)), strict=True))
    return Live(name, namespace, {key: obj for key, obj in found.items() if obj}, looked)


@dataclass(frozen=True)
class Outcome:
    """What a run did (or in check mode would do), the plan that it followed first, and the Deployment as it was last seen."""

    plan: Plan
    before: Live
    actions: list[dict[str, Any]]
    deployment: Object | None = None


def run(
    api: Api,
    observe: Callable[[], Live],
    planner: Callable[[Live], Plan],
    *,
    wait: bool,
    wait_timeout: float,
    check_mode: bool,
    offered: str = "",
) -> Outcome:
    """Observe and plan; when there is something to do, carry it out. The signals that end programs are heeded.

    `offered` is the APIService that is waited for besides the pods.
    """
    signals = Signals()
    this = _Run(api.pausing(signals.sleep), observe, planner, signals, wait_timeout, wait, offered)
    with signals.handled():
        try:
            return this.run(check_mode=check_mode)
        except Interrupted as error:
            place = this.place or "before anything was written"
            message = f"The run was {error.message} {place}. Run the task again to finish it."
            raise this.told(Interrupted(message, reason=error.reason, **error.details)) from error
        except MotorError as error:
            raise this.told(error) from None


@dataclass
class _Run:
    api: Api
    observe: Callable[[], Live]
    planner: Callable[[Live], Plan]
    signals: Signals
    wait_timeout: float
    wait: bool
    offered: str = ""
    done: list[Write] = field(default_factory=list)
    unsure: list[Write] = field(default_factory=list)
    place: str = ""

    def __post_init__(self) -> None:
        self._started = time.monotonic()
        self._deadline = self._started + self.wait_timeout

    def told(self, error: MotorError) -> MotorError:
        """The error with what was done."""
        error.details.setdefault("actions", [write.action() for write in self.done])
        error.details.setdefault("changed", bool(self.done))
        return error

    def run(self, *, check_mode: bool) -> Outcome:
        """Carry the plan out; after a conflict the rest of the way is planned from what is there then."""
        live = self.observe()
        first, before = self.planner(live), live
        if check_mode:
            return Outcome(first, before, first.actions(), _deployment(live))
        plan = first
        for attempt in range(1, PLANS + 1):
            try:
                if live.going():
                    self._until_gone(live.going())
                    live = self.observe()
                    plan = self._planned_again(live)
                self._carry_out(plan, live)
                break
            except Conflict:
                if attempt == PLANS:
                    raise
                self.signals.sleep(0.1 * 2**attempt)
                live = self.observe()
                plan = self._planned_again(live)
        waiting = self.wait and plan.settles
        deployment = self._available(live) if waiting else _deployment(live)
        if waiting and self.offered:
            self._served()
        return Outcome(first, before, [write.action() for write in self.done], deployment)

    def _planned_again(self, live: Live) -> Plan:
        """The new plan. A write that got no answer and is not needed any more was carried out."""
        plan = self.planner(live)
        needed = plan.actions()
        self.done.extend(write for write in self.unsure if write.action() not in needed)
        self.unsure.clear()
        return plan

    def _carry_out(self, plan: Plan, live: Live) -> None:
        for number, step in enumerate(plan.steps, start=1):
            self.place = f"at step {number} of {len(plan.steps)} ({step.title})"
            self.signals.check()
            writes = Writes(self.api.fenced(self.signals.check))
            try:
                for dummy in writes.send(step.writes):
                    pass
            finally:
                self.done.extend(writes.done)
                self.unsure.extend(writes.unsure)
            if step.until == ABSENT:
                self._until_gone({_key(write): write.preconditions["uid"] for write in step.writes})
            elif step.until == AVAILABLE and self.wait:
                self._available(live)

    def _until_gone(self, going: dict[Key, str]) -> None:
        """Wait until objects that were deleted are gone, or others have their names."""
        for key, uid in going.items():
            while ((found := self.api.get(*_place(key))) or {}).get("metadata", {}).get("uid") == uid:
                if time.monotonic() > self._deadline:
                    self._late(f"is not gone: {self._kept_by(key, found or {})}")
                self.signals.sleep(TICK)

    def _kept_by(self, key: Key, found: Object) -> str:
        """Why an object that was deleted is still there."""
        kind, namespace, name = key
        pods = self.api.list_objects("Pod", namespace).items if kind == "Deployment" else ()
        left = [f"{pod['metadata']['name']} on {node_of(pod) or 'no server'}" for pod in program_state.all_pods(found, pods)]
        return f"{kind} {namespace}/{name} is kept by " + (f"its pods {', '.join(left)}, which do not stop" if left else "finalizers")

    def _available(self, live: Live) -> Object | None:
        """Wait until the Deployment is available; no longer than there is hope."""
        self.place = "while waiting for its pods"
        health = _Health(old=not any(write.kind == "Deployment" for write in self.done))
        while True:
            deployment = self.api.get("Deployment", live.namespace, live.name)
            missing = program_state.missing(deployment) if deployment else "the Deployment is gone"
            if not missing:
                return deployment
            now = time.monotonic()
            if deployment and now - health.looked >= LOOK_SECONDS:
                fatal = health.look(deployment, self.api.list_objects("Pod", live.namespace).items, now)
                if fatal:
                    self._failed(live, fatal, missing)
            if now > self._deadline:
                self._late(f"is not available: {missing}")
            self.signals.sleep(TICK)

    def _served(self) -> None:
        """Wait until the API server has reached the API."""
        self.place = "while waiting for its API"
        while missing := program_state.unserved(self.api.get("APIService", None, self.offered)):
            if time.monotonic() > self._deadline:
                self._late(
                    "is not reached by the API server, though its pods are available. See whether a network policy or a firewall keeps it from "
                    f"their port of the API; it says: {missing}"
                )
            self.signals.sleep(TICK)

    def _failed(self, live: Live, fatal: Sequence[Symptom], missing: str) -> NoReturn:
        named = "; ".join(symptom.reason for symptom in fatal[:MOST_NAMED])
        message = f"The program {live.namespace}/{live.name} cannot run: {named}. Everything is written; correct the cause and run the task again."
        failed = [{"name": symptom.name, "reason": symptom.reason} for symptom in fatal]
        raise WaitFailed(message, reason=INSTANCES_FAILED, failed_pods=failed, last_seen=missing)

    def _late(self, said: str) -> NoReturn:
        waited = f"{time.monotonic() - self._started:.0f} s"
        message = f"After {waited} the program {said}. Run the task again to go on, or raise wait_timeout."
        raise WaitFailed(message, reason=WAIT_TIMEOUT, last_seen=said)


@dataclass
class _Health:
    """What has been seen of the pods. `old`: this run has not changed the Deployment, so that troubles may be about to end."""

    old: bool
    looked: float = 0.0
    _before: frozenset[str] | None = None
    _since: dict[tuple[str, str], float] = field(default_factory=dict)
    _ended: float | None = None

    def look(self, deployment: Object, pods: Sequence[Mapping[str, Any]], now: float) -> Sequence[Symptom]:
        """The symptoms that end the wait; a moment after the first, so that all that fail alike are told together."""
        if self._before is None:
            there = (deployment, *program_state.all_pods(deployment, pods)) if self.old else ()
            self._before = frozenset(obj["metadata"]["name"] for obj in there)
        self.looked = now
        found = program_state.symptoms(deployment, pods)
        self._since = {symptom.key: self._since.get(symptom.key, now) for symptom in found}
        fatal = [item for item in found if now - self._since[item.key] >= program_state.lasting(item, self._before)]
        self._ended = None if not fatal else now if self._ended is None else self._ended
        return fatal if self._ended is not None and now - self._ended >= TOGETHER_SECONDS else ()


def _deployment(live: Live) -> Object | None:
    return live.objects.get(("Deployment", live.namespace, live.name))


def _key(write: Write) -> Key:
    return write.kind, write.namespace or "", write.name


def _place(key: Key) -> tuple[str, str | None, str]:
    kind, namespace, name = key
    return kind, namespace or None, name
