# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Executes plans in a world as `_cluster` does at an API server, and looks after every write and tick whether a promise is broken."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._motor import readiness
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import MotorError
from ansible_collections.ascend.mindie.plugins.module_utils._motor.generation import generation
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan import ABSENT, GONE, KNOWN, NO_PODS, REDUCED, RUNNING, Step, Write
from ansible_collections.ascend.mindie.plugins.module_utils._motor.record import INTENT_ANNOTATION, with_applied
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot
from tests.property import cases, facts, jobs
from tests.property.ascend import JOB
from tests.property.cases import Case, Wish
from tests.property.events import EVENTS
from tests.property.world import NAMESPACE, Answer, Obj, World

# Ticks without an end after which a run gives up, as wait_timeout does.
PATIENCE = 12
# Runs after the last thing that happened.
ENOUGH = 4

UNTIL = {GONE: readiness.gone, REDUCED: readiness.reduced, NO_PODS: readiness.no_pods, KNOWN: readiness.known}
_COUNT = re.compile(r'("(?:p_instances_num|d_instances_num|hybrid_instances_num)": *)\d+')


class Stopped(Exception):
    """The run was killed here."""


class Abandoned(Stopped):
    """The run was killed here, and another task comes next."""


class Late(Exception):
    """A wait reached its deadline."""


class Story:
    """One case from its beginning to its end."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.world = cases.build(case)
        self.npus = cases.npus_of(case)
        self.script = list(reversed(case.script))
        self.runs = itertools.count(1)
        self.random = random.Random(case.seed)
        # The wish whose last run wrote something and did not end.
        self.unfinished: Wish | None = None

    def play(self) -> None:
        """Every wish to its end; what was left behind is taken up again when a later wish is refused because of it."""
        for wish in self.case.wishes:
            ended = self._pursue(wish)
            if ended == "Unfinished":
                assert self.unfinished, "refused as unfinished, but everything was finished"
                before = self._pursue(self.unfinished, quiet=True)
                again = self._pursue(wish, quiet=True)
                assert again != "Unfinished" or before != "done", f"{wish.verb} is still refused after the other one was finished"

    def _pursue(self, wish: Wish, *, quiet: bool = False) -> str:
        """Run the task again and again until it has nothing to do, or is refused."""
        calm = 0
        while calm < ENOUGH:
            if quiet or not self.script:
                self.script.clear()
                self._rest()
                calm += 1
            run = Run(self, wish)
            ended = run.go()
            self.unfinished = wish if run.began and ended != "done" else None if run.began else self.unfinished
            if ended == "abandoned" and not quiet:
                return ended
            if ended == "unchanged":
                self._reached(wish)
                return "done"
            if ended not in ("done", "stopped", "abandoned", "conflict", "late"):
                self._refusal_holds(wish, ended, run.observed)
                return ended
        raise AssertionError(f"{wish.verb} does not end: {ended} after {calm} runs in peace; {self._shortfall(wish)}")

    def _rest(self) -> None:
        """Nothing is broken any more, and what was going on in the cluster has ended."""
        EVENTS["healed"](self.world, 0)
        self.world.capacity = 10**6
        for _tick in range(self.case.stopping + 4):
            self.world.tick()

    def _reached(self, wish: Wish) -> None:
        """An unchanged run is only right when the wish is fulfilled."""
        world = self.world
        if wish.verb == "remove":
            left = [key for key in world.objects if key[0] in ("ConfigMap", "Lease", "InferServiceSet")]
            left.extend([*facts.engine_pods(world), *facts.engine_workloads(world), *world.jobs()])
            assert not left, f"left after removal: {left}"
            return
        assert facts.record_fits(world) or facts.by_deployer(world), "nothing is left to do, but the record says otherwise"
        if wish.verb == "update_config":
            assert wish.log_level in (_log_level(world), "INFO"), f"the log level is {_log_level(world)}"
            return
        if wish.verb == "deploy":
            assert facts.images(world) <= {wish.image}, f"pods of another image are left: {facts.images(world)}"
        if self.script:
            return  # something may be broken just now; the end is looked at when nothing happens any more
        assert not self._shortfall(wish), self._shortfall(wish)
        jobs.check_end(world)
        baseline = facts.baseline(world)
        owned = cases.owned_roles(world)
        for role, count in wish.counts:
            assert role in owned or baseline[role] == count, f"the baseline says {baseline}"

    def _shortfall(self, wish: Wish) -> str:
        if wish.verb in ("remove", "update_config"):
            return ""
        owned, found = cases.owned_roles(self.world), facts.counts(self.world)
        return facts.shortfall(self.world, {role: found[role] if role in owned else count for role, count in wish.counts})

    def _refusal_holds(self, wish: Wish, reason: str, snapshot: Snapshot) -> None:
        """A refusal has to have its reason in the world."""
        world, found = self.world, facts.counts(self.world)
        owned = cases.owned_roles(world)
        reasons = {
            "NotDeployed": snapshot.config_map is None,
            "Unfinished": True,  # judged in `play`
            "RestartNeeded": not wish.allow_restart and (facts.images(world) | facts.stored_images(world)) != {wish.image},
            "NoSibling": world.backend in facts.KINDS and any(self._lacks_sibling(wish, role, count) for role, count in wish.counts),
            "NoSuchRole": world.backend == "infer_service_set" and not facts.set_roles(world),
            "CountOwned": any(role in owned and found[role] != count for role, count in wish.counts),
            "CountsDiffer": facts.has_baseline(world) and facts.baseline(world) != dict(wish.counts),
            "ProtectedInstance": any(role in dict(wish.counts) for role, _index in wish.protect),
            "OrderNotPossible": world.backend == "infer_service_set" and wish.order == "unhealthy_first",
            "Fault": not wish.during_fault and any(pod.broken for pod in world.pods.values()),
            "Drift": wish.on_drift == "fail" and facts.has_baseline(world) and facts.has_drift(world),
        }
        allowed = {
            "deploy": ("RestartNeeded", "ProtectedInstance", "OrderNotPossible", "NoSibling"),
            "scale": (
                *("NotDeployed", "Unfinished", "NoSibling", "NoSuchRole", "CountOwned"),
                *("ProtectedInstance", "OrderNotPossible", "Fault", "Drift"),
            ),
            "update_config": ("NotDeployed", "Unfinished", "CountsDiffer"),
        }
        assert reason in allowed.get(wish.verb, ()) and reasons[reason], f"{wish.verb} was refused: {reason}"

    def _lacks_sibling(self, wish: Wish, role: str, count: int) -> bool:
        """Nothing to copy; a deployment has what was rendered, but namesakes may hold those names."""
        nothing = not facts.counts(self.world)[role] and count > 0
        return nothing and (wish.verb == "scale" or any(facts.namesake(self.world, role, index) for index in range(count)))


class Run:
    """One run of one task: observe, plan, write, wait, record."""

    def __init__(self, story: Story, wish: Wish) -> None:
        self._story, self._wish, self._world = story, wish, story.world
        self._number = next(story.runs)
        self._others = wish.verb in ("deploy", "remove")
        self.observed = self._snapshot = self._world.snapshot(others=self._others)
        self._owned = cases.owned_roles(self._world)
        self._blind = False
        self._recorded = False
        self.began = False

    def go(self) -> str:
        """How it ended: unchanged, done, stopped, abandoned, conflict, late, or the reason of a refusal."""
        try:
            self._plan = cases.planner(self._story.case, self._wish, self._world)(self._snapshot)
        except MotorError as error:
            return error.reason
        if self._plan.empty:
            return "unchanged"
        self._most = jobs.most(self._world)
        self._allow()
        self._unready = self._count_unready()
        self._quiet = not self._broken()
        if self._wish.verb in ("scale", "deploy"):
            self._check_victims()
        try:
            self._execute()
        except Abandoned:
            return "abandoned"
        except Stopped:
            return "stopped"
        except Late:
            assert self._blind or self._broken(), f"waits in vain: {self._last_seen}"
            return "late"
        except Answer as answer:
            if not self._blind:
                raise AssertionError(f"a write failed though nobody else wrote: {answer}") from answer
            return "conflict"
        return "done"

    def _count_unready(self) -> dict[str, int]:
        """Instances that are wanted and do not run, by engine role."""
        running = [role for role, index in facts.wanted_pods(self._world) if facts.healthy(self._world, (role, index))]
        return {role: count - running.count(role) for role, count in self._plan.counts.items()}

    def _broken(self) -> bool:
        return any(pod.broken for pod in self._world.pods.values())

    def _allow(self) -> None:
        """The cluster has room for what runs now or for what will run, whichever is more."""
        world, npus = self._world, self._story.npus
        after = sum(count * self._pods_of(role) * npus[role] for role, count in self._plan.counts.items())
        self._allowed = max(facts.asked(world, npus), 0 if self._plan.removes else after + facts.evicted(world, npus))
        world.capacity = self._allowed

    def _pods_of(self, role: str) -> int:
        config = cases.config_of(self._story.case.backend, self._story.case.hybrid, self._wish.counts)
        return config.pods_per_instance[role] or 1

    # The order of things is that of `_cluster`.

    def _execute(self) -> None:
        plan, world = self._plan, self._world
        self.began = True
        self._lock({"verb": plan.verb, "from": dict(plan.counts_before), "to": dict(plan.counts), "run": self._run, "by": "me"})
        for step in plan.steps:
            stale = self._stale(step)
            for write in self._story.random.sample(step.writes, len(step.writes)):
                self._moment()
                self._send(write)
                self._look()
            if step.until:
                self._await(step, stale)
        if plan.settles:
            self._wait(readiness.settled)
        # What happens between the last look and the record cannot be seen.
        self._blind |= self._moment()
        if plan.record:
            self._record()
        self._moment()
        if plan.removes:
            world.delete("Lease", "ascend-mindie")
        else:
            self._lock(None)

    def _stale(self, step: Step) -> frozenset[str]:
        """The pods that go with the workloads that this step deletes."""
        deletes = any(write.verb == "delete" and write.kind != "Pod" for write in step.writes)
        shown = self._world.shown_pods() if deletes else ()
        return frozenset(pod["metadata"]["uid"] for pod in shown if any(subject.has(pod) for subject in step.subjects))

    def _await(self, step: Step, stale: frozenset[str]) -> None:
        workloads = [obj for obj in (*self._snapshot.own_workloads, self._snapshot.infer_service_set) if obj]
        marked = [obj for obj in workloads if "deletionTimestamp" in obj["metadata"]]
        for obj in marked:
            self._snapshot = self._snapshot.without(obj["kind"], obj["metadata"]["name"])
        if step.until == RUNNING:
            self._wait(readiness.present(step.subjects, stale))
        elif step.until != ABSENT:
            self._wait(UNTIL[step.until])
        foreground = [(write.kind, write.name, write.preconditions["uid"]) for write in step.writes if write.propagation == "Foreground"]
        self._wait_until_absent({*foreground, *((obj["kind"], obj["metadata"]["name"], obj["metadata"]["uid"]) for obj in marked)})

    @property
    def _run(self) -> str:
        return f"run-{self._number}"

    def _lock(self, intent: Mapping[str, Any] | None) -> None:
        metadata: Obj = {"name": "ascend-mindie", "namespace": NAMESPACE, "annotations": {}}
        if intent:
            metadata["annotations"][INTENT_ANNOTATION] = json.dumps(intent)
        lease = {"kind": "Lease", "metadata": metadata, "spec": {}}
        store = self._world.replace if ("Lease", "ascend-mindie") in self._world.objects else self._world.create
        store(lease)

    def _moment(self) -> bool:
        """What the script says happens here; False when it says nothing."""
        if not self._story.script:
            return False
        what, pick = self._story.script.pop()
        if what == "stop":
            raise Stopped
        if what == "abandon":
            raise Abandoned
        if what in EVENTS:
            effect = EVENTS[what](self._world, pick)
            self._quiet = False
            self._blind |= effect.blind
            self._allowed += effect.npus
            self._world.capacity += effect.npus
        self._tick()
        return True

    def _tick(self) -> None:
        self._world.tick()
        self._look()

    def _look(self) -> None:
        """No more NPUs are asked for than there is room for, and the scaling rule is right at every moment."""
        jobs.check_rule(self._world, None if self._blind else self._most)
        if self._quiet and self._plan.verb == "deploy" and dict(self._plan.counts) == dict(self._plan.counts_before):
            for role, number in self._count_unready().items():
                assert number <= max(1, self._unready[role]), f"{number} {role} instances are not ready at once"
        asked = facts.asked(self._world, self._story.npus)
        assert asked <= self._allowed, f"{asked} NPUs are asked for, there is room for {self._allowed}"

    def _wait(self, verdict: readiness.Judge) -> None:
        def done() -> bool:
            world = self._world
            watched = {"Pod": world.shown_pods(), "InstanceSet": world.shown_sets(), "PodGroup": world.shown_groups(), JOB: world.jobs()}
            seen = verdict(self._snapshot.refreshed(watched), self._plan.counts)
            self._last_seen = seen.seen
            return seen.done

        self._wait_until(done)

    def _wait_until_absent(self, objects: set[tuple[str, str, str]]) -> None:
        def absent() -> bool:
            there = {(*key, obj["metadata"]["uid"]) for key, obj in self._world.objects.items()}
            self._last_seen = f"still there: {objects & there}"
            return not objects & there

        self._wait_until(absent)

    def _wait_until(self, done: Callable[[], bool]) -> None:
        ticks = 0
        while ticks < PATIENCE:
            ticks = 0 if self._moment() else ticks + 1
            if done():
                return
            self._tick()
        raise Late

    # Promises about the plan.

    def _check_victims(self) -> None:
        """The right instances go: none that is protected, no healthy one before a sick one, of equals the highest index."""
        world, wish = self._world, self._wish
        writes = [write for step in self._plan.steps for write in step.writes]
        # What is created again under its name is replaced.
        gone = {write.name for write in writes if write.verb == "delete"} - {write.name for write in writes if write.verb == "create"}
        by_name = {obj["metadata"]["name"]: place for place, obj in facts.engine_workloads(world).items()}
        leaving = {by_name[name] for name in gone & by_name.keys()}
        if world.backend == "infer_service_set" and facts.set_roles(world):
            leaving = {(role, index) for role, index in facts.wanted_pods(world) if index >= self._plan.counts.get(role, 0)}
        protected = leaving & set(wish.protect)
        assert not protected, f"{protected} is protected"
        for role, index in leaving:
            for other in facts.wanted_pods(world):
                if other[0] == role and other not in leaving and other not in wish.protect and not jobs.is_idle(world, (role, index)):
                    assert not jobs.makes_none(world, other) or wish.order == "unhealthy_first", (
                        f"{(role, index)} goes, {other} makes no pods and stays"
                    )
                    first = (facts.healthy(world, (role, index)), -index) if wish.order == "unhealthy_first" else (True, -index)
                    second = (facts.healthy(world, other), -other[1]) if wish.order == "unhealthy_first" else (True, -other[1])
                    # Among sick ones it also matters how sick they are.
                    assert first < second or not (first[0] or second[0]), f"{(role, index)} goes, {other} stays"

    def _send(self, write: Write) -> None:
        if write.kind == "ConfigMap" and write.body:
            self._check_claim(write.body)
        self._check(write)
        if write.verb == "delete":
            self._world.delete(write.kind, write.name, write.preconditions, write.propagation)
            self._snapshot = self._snapshot.without(write.kind, write.name)
            return
        if write.verb == "create":
            stored = self._world.create(write.body)
        elif write.patch:
            stored = self._world.patch(write.kind, write.name, write.body)
        else:
            stored = self._world.replace(write.body)
        self._snapshot = self._snapshot.with_object(stored)

    def _record(self) -> None:
        plan, before = self._plan, self._snapshot.config_map or {}
        made = generation(plan.data or {})
        updated = with_applied(before, plan.data or {}, plan.counts, at="2026-01-02T00:00:00Z", by="me", run=self._run, generation=made)
        if self._wish.verb == "scale":
            old, new = (_COUNT.sub(r"\1", obj["data"]["user_config.json"]) for obj in (before, updated))
            assert old == new and {**before["data"], "user_config.json": ""} == {**updated["data"], "user_config.json": ""}, (
                "more than counts"
            )
        self._check_claim(updated)
        self._snapshot = self._snapshot.with_object(self._world.replace(updated))
        self._recorded = True

    # Promises about single writes.

    def _check(self, write: Write) -> None:
        assert not self._recorded, "a write after the record of success"
        assert _bound(write), f"{write.verb} {write.kind} {write.name} is not bound to what was seen"
        if self._wish.verb == "remove":
            assert write.verb == "delete", f"removing means to {write.verb} {write.name}"
            return
        place = facts.named(self._world, write.name) if write.kind in facts.KINDS.values() else None
        if self._wish.verb == "scale":
            known = place or write.kind == "ConfigMap" or (write.kind == "InferServiceSet" and write.patch)
            assert known, f"scaling writes {write.kind} {write.name}"
        if place:
            self._check_instance(write, *place)
        elif write.patch:
            self._check_patch(write.body)

    def _check_instance(self, write: Write, role: str, index: int) -> None:
        if self._blind:
            return
        assert write.verb == "create" or not facts.namesake(self._world, role, index), f"{write.name} is not an instance"
        if write.verb == "create":
            assert not facts.occupied(self._world, role, index), f"{write.name}: {facts.occupied(self._world, role, index)}"
        replaced = {other.verb for step in self._plan.steps for other in step.writes if other.name == write.name} == {"create", "delete"}
        if write.kind == JOB:
            jobs.check_write(self._world, write, role, self._plan.counts, replaced=replaced)
        if write.verb in ("create", "delete") and not replaced:
            assert role not in self._owned, f"an autoscaler owns the count of {role}"

    def _check_patch(self, patch: list[Obj]) -> None:
        """Only counts change, and no index whose pods are still going is asked for."""
        found = self._world.objects.get(("InferServiceSet", "vllm"))
        roles = found["spec"]["template"]["roles"] if found else []
        for item in patch if found else ():
            if item["op"] == "test":
                continue
            counts = item["op"] == "replace" and re.fullmatch(r"/spec/template/roles/\d+/replicas", item["path"])
            assert counts, f"more than counts: {item}"
            role = roles[int(item["path"].split("/")[4])]
            assert self._blind or role["name"] not in self._owned, f"an autoscaler owns the count of {role['name']}"
            for index in range(int(role.get("replicas") or 0), item["value"]):
                left = facts.occupied(self._world, role["name"], index)
                assert self._blind or not left, f"{role['name']} {index}: {left}"

    def _check_claim(self, obj: Obj) -> None:
        """Success is said only of what has been reached. Health is not waited for where nothing was added."""
        known = facts.recorded_by(self._world.objects.get(("ConfigMap", "motor-config"), obj))
        if facts.recorded_by(obj) in ("", known) or self._blind or self._plan.verb == "update_config":
            return
        missing = facts.shortfall(self._world, self._plan.counts, healthy=self._plan.settles)
        assert not missing, f"recorded too early: {missing}"


def _bound(write: Write) -> bool:
    """Whether the server refuses the write when the object is no longer the one that was seen."""
    if write.verb == "delete":
        return bool(write.preconditions.get("uid"))
    if write.patch:
        tested = {item["path"] for item in write.body if item["op"] == "test"}
        return {"/metadata/uid", *(item["path"] for item in write.body)} <= tested
    return write.verb == "create" or bool(write.body["metadata"].get("resourceVersion"))


def _log_level(world: World) -> str:
    config = json.loads(world.objects["ConfigMap", "motor-config"]["data"]["user_config.json"])
    return str(config.get("motor_controller_config", {}).get("logging_config", {}).get("log_level", "INFO"))
