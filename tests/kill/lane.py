# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A namespace of its own for one backend, in which one verb after another is ended, run again and checked."""

from __future__ import annotations

import json
import re
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._motor import record, scaling_policy
from tests.cluster.infer_operator.objects import INFER_SERVICE_SETS, INSTANCE_SETS
from tests.cluster.kube_client import CONFIG_MAPS, KubeClient, Resource

from . import child, picture, rule
from .child import Moment, Ran, Task, Trap
from .picture import CLUSTER_KINDS, KINDS, LEASES, OF_NAMESPACE, REVISIONS, Picture
from .play import Strike, interrupted
from .rule import Checked
from .services import SERVICES, Service
from .verbs import JOB_BACKEND, POLICY, SET_BACKEND, Verb, Wish

NAMESPACES = Resource("v1", "Namespace", "namespaces", namespaced=False)
ACCOUNTS = Resource("v1", "ServiceAccount", "serviceaccounts")
# Namespaces of lanes carry it, so that all of them can be found and deleted.
LABEL = "tests/kill"
# More revisions than are kept.
HIGH = 20
TOO_SLOW = "it could not be renewed"
MOST_REPETITIONS = 2
LONGEST_SCALING = 60.0
MANAGED_BY = "app.kubernetes.io/managed-by=ascend.mindie"
COMMON = {"wait_timeout": 60, "lock_duration": 2}


class Unprepared(Exception):
    """The state before the verb could not be reached."""


@dataclass(frozen=True)
class Outcome:
    """What came of one point; no problem means that the promise was kept. `reached`: the signal was sent. `linted`: how often
    a scaling rule was checked; `smaller`: how often it asked for less than ran.
    """

    problems: tuple[str, ...]
    reached: bool
    repeated: int
    seconds: float
    linted: int = 0
    smaller: int = 0


class Lane:
    """One service after another, in namespaces of this process's own."""

    def __init__(self, kubeconfig: str, number: int, backend: str, folder: Path) -> None:
        self._kubeconfig, self._number, self.backend = kubeconfig, number, backend
        self.service: Service = SERVICES[backend](backend, number)
        self.client = KubeClient.from_kubeconfig(kubeconfig)
        self.namespace = ""
        self._now: Wish | None = None
        self._made = 0
        self._folder = folder
        self._checked: list[Checked] = []

    def user_config(self, wish: Wish) -> dict[str, Any]:
        """The user config of a wish."""
        return self.service.user_config(self.namespace, wish)

    def deployment(self, wish: Wish) -> Task:
        """The task that brings a service into being."""
        return "motor_service", {"user_config_content": self.user_config(wish), **self.service.sources(wish)}

    def run(self, task: Task, trap: Trap | None = None) -> Ran:
        """Run a task in a child."""
        module, options = task
        given = {"kubeconfig": self._kubeconfig, **COMMON, **options}
        return child.run(module, given, namespace=self.namespace, folder=str(self._folder), trap=trap)

    def rehearse(self, verb: Verb) -> tuple[tuple[Moment, ...], dict[Wish, Picture]]:
        """The requests of the verb when nothing disturbs it, and what there is before it and after it."""
        self._prepare(verb, verb.start, verb.goal)
        before = picture.settled(self.client, self.namespace)
        self._forget_discovery()
        ran = self.run(verb.task(self, verb.goal))
        if problems := _wrong(ran.result) or self._ends_well(verb.goal):
            raise Unprepared(f"{verb.name} on {self.backend}: {'; '.join(problems)}")
        self._now = verb.goal
        return ran.moments, {verb.start: before, verb.goal: picture.settled(self.client, self.namespace)}

    def _prepare(self, verb: Verb, start: Wish, goal: Wish) -> None:
        if verb.past and (self._now is None or self._now.strange or self._now.absent or not self.revision(goal)):
            self.reach(goal)
        self.reach(start)
        if not start.absent and not start.strange:
            self._make_old()

    def revision(self, wish: Wish) -> int:
        """The newest revision of the history that is like a wish; 0 when there is none."""
        config = self.user_config(wish)
        numbers = [
            item["revision"]
            for item in picture.history(self.client, self.namespace)
            if json.loads(item["data"]["config"]["text"]) == config
        ]
        return max(numbers, default=0)

    def reach(self, wish: Wish) -> None:
        """Bring a service into the state that a verb starts from."""
        if self._now == wish:
            return
        if wish.strange:
            self.reach(replace(wish, strange=False))
            self._make_strange()
            self._now = wish
            return
        if wish.scaled:
            self.reach(replace(wish, scaled=0))
            self._scale_by_policy(wish)
            self._now = wish
            return
        if self._now is None or self._now.strange or self._now.absent or self._now.scaled or wish.absent:
            self._start_afresh()
        if not wish.absent:
            module, options = self.deployment(wish)
            ran = self.run((module, {**options, "allow_restart": True}))
            if problems := _wrong(ran.result):
                raise Unprepared(f"deploy {wish} on {self.backend}: {'; '.join(problems)}")
        self._now = wish

    def _scale_by_policy(self, wish: Wish) -> None:
        """Give prefill a policy, and do what an autoscaler then does: set the count of the InstanceSet."""
        ran = self.run(("motor_scaling_policy", {"namespace": self.namespace, "policies": {"prefill": POLICY}}))
        if problems := _wrong(ran.result):
            raise Unprepared(f"policy on {self.backend}: {'; '.join(problems)}")
        self.client.patch(INSTANCE_SETS, self.namespace, "vllm-0-prefill", {"spec": {"replicas": wish.scaled}}, subresource="scale")
        deadline = time.monotonic() + LONGEST_SCALING
        while (self.client.get(INSTANCE_SETS, self.namespace, "vllm-0-prefill") or {})["status"].get("readyReplicas") != wish.scaled:
            if time.monotonic() > deadline:
                raise Unprepared(f"{wish.scaled} prefill instances by a policy")
            time.sleep(0.1)

    def point(self, verb: Verb, trap: Trap, pictures: dict[Wish, Picture], nth: int = 0) -> Outcome:
        """End the verb at one request, run it again once, and see that all is well; then see that a third run has nothing to do.

        `nth`: it is run by ansible-playbook, which gets the signal at this write. Where the machine was too slow to renew a lock of two
        seconds, the point proves nothing and is repeated.
        """
        started = time.monotonic()
        self._checked.clear()
        repeated, (reached, problems) = 0, self._point(verb, trap, pictures, nth)
        while repeated < MOST_REPETITIONS and TOO_SLOW in " ".join(problems):
            repeated, (reached, problems) = repeated + 1, self._point(verb, trap, pictures, nth)
        linted, smaller = (sum(getattr(one, field) for one in self._checked) for field in ("linted", "smaller"))
        return Outcome(tuple(problems), reached, repeated, time.monotonic() - started, linted, smaller)

    def _point(self, verb: Verb, trap: Trap, pictures: dict[Wish, Picture], nth: int) -> tuple[bool, list[str]]:
        start, goal = (verb.goal, verb.start) if verb.toggles and self._now == verb.goal else (verb.start, verb.goal)
        try:
            self._prepare(verb, start, goal)
        except Unprepared as error:
            self._now = None
            return True, [f"not prepared: {error}"]
        self._forget_discovery()
        before, task = self._workloads(), verb.task(self, goal)
        sprung, said, again, problems = self._play(task, Strike(trap.signal, nth, trap.when)) if nth else self._end_and_run(task, trap)
        problems = problems or _wrong(again) or self._check(verb, goal, before, pictures[goal]) or _not_idle(self.run(task))
        if not sprung and TOO_SLOW in said:
            problems.append(said)
        self._now = None if problems else goal
        return sprung, [*problems, f"namespace: {self.namespace}", f"first run: {said}"] if problems else []

    def _end_and_run(self, task: Task, trap: Trap) -> tuple[bool, str, dict[str, Any] | None, list[str]]:
        """Whether the signal was sent, what the module said to it, the result of the next run, and what was wrong already."""
        ended = self.run(task, trap)
        said = str((ended.result or {}).get("msg", f"no message, ended by signal {ended.ended_by}"))
        problems = self._not_orderly(ended) if ended.sprung and trap.signal != signal.SIGKILL else []
        problems += self._rule_problems(self._check_rule(self.client))
        return ended.sprung, said, self.run(task).result, problems

    def _play(self, task: Task, strike: Strike) -> tuple[bool, str, dict[str, Any] | None, list[str]]:
        """The same for ansible-playbook."""
        module, options = task
        given = (module, {**COMMON, **options})

        def between() -> dict[str, Any]:  # in a child, which must not share a connection
            return dict(self._check_rule(KubeClient.from_kubeconfig(self._kubeconfig)).__dict__)

        done = child.forked(lambda: interrupted(self._kubeconfig, self._folder, given, strike, between))[0]
        if done is None:
            return False, "", None, ["the play could not be run"]
        problems = self._rule_problems(Checked(**done["between"]))
        return done["sprung"], f"ansible-playbook ended with {done['code']}: {done['said']}", done["again"], problems

    def _check_rule(self, client: KubeClient, *, done: bool = False) -> Checked:
        """The scaling rule as it is now; other backends have none."""
        return rule.check(client, self.namespace, done=done) if self.backend == JOB_BACKEND else Checked()

    def _rule_problems(self, checked: Checked) -> list[str]:
        """What is wrong with the rule; what was looked at is counted."""
        self._checked.append(checked)
        return list(checked.problems)

    def _not_orderly(self, ended: Ran) -> list[str]:
        """What is wrong with how a module ended that was asked to end: it says how far it came, and gives the lock back."""
        lease = self.client.get(LEASES, self.namespace, "ascend-mindie")
        holder, intent = (lease or {}).get("spec", {}).get("holderIdentity"), record.intent_of(lease)
        if holder:
            return [f"it was asked to end, and the lock is still held by {holder}"]
        if ended.result is None:
            return ["it said nothing when asked to end"] if ended.mutating() else []
        if not ended.result.get("failed"):
            return []
        step = re.search(r"interrupted by SIG\w+ (at step \d+ of \d+|before anything was written)", ended.result["msg"])
        if ended.result.get("reason") != "Interrupted" or not step:
            return [f"asked to end it says {ended.result['msg']}"]
        return [] if intent or not step[1].startswith("at") else ["asked to end it did not keep its intent"]

    def forget(self) -> None:
        """Nothing is known of the service any more: the next verb gets a new one."""
        self._now = None

    def _check(self, verb: Verb, goal: Wish, before: dict[str, tuple[str, int]], wanted: Picture) -> list[str]:
        problems = picture.wait_for(self.client, self.namespace, wanted)
        after = self._workloads()
        expected = set() if goal.absent else self._names(goal)
        if set(after) != expected:
            problems.append(f"workloads are {sorted(after)}, wanted {sorted(expected)}")
        if verb.keeps:
            problems += [f"{name}, which stays, was touched" for name in before if name in after and before[name] != after[name]]
        return problems + self._ends_well(goal)

    def _ends_well(self, goal: Wish) -> list[str]:
        """What is wrong with record and lock."""
        config_map = self.client.get(CONFIG_MAPS, self.namespace, "motor-config")
        lease = self.client.get(LEASES, self.namespace, "ascend-mindie")
        rule_problems = self._rule_problems(self._check_rule(self.client, done=True))
        if goal.absent:
            return [f"{name} is left" for name, found in (("motor-config", config_map), ("the Lease", lease)) if found]
        problems = rule_problems
        applied, standing = record.applied_of(config_map) or {}, record.standing(config_map)
        if standing != record.APPLIED or applied.get("counts") != goal.counts():
            problems.append(f"the record of success is {standing}, {applied}")
        if config_map and json.loads(config_map["data"]["user_config.json"]) != self.user_config(goal):
            problems.append("motor-config does not hold the wanted user config")
        if self.backend == SET_BACKEND and self._policies() != (["prefill"] if goal.scaled else []):
            problems.append(f"there are policies of {self._policies()}")
        intent = record.intent_of(lease) or {}
        # A run that was ended between the record and giving the lock back is finished: the next one finds nothing to do, and writes nothing.
        if not lease or ((intent or lease["spec"].get("holderIdentity")) and intent.get("run") != applied.get("run")):
            problems.append(f"the Lease has the intent {intent} and is held by {(lease or {}).get('spec', {}).get('holderIdentity')}")
        return problems

    def _policies(self) -> list[str]:
        """Engine roles with a scaling policy that is not being switched off."""
        found = self.client.get(INFER_SERVICE_SETS, self.namespace, "vllm") or {"spec": {"template": {"roles": []}}}
        roles = found["spec"]["template"]["roles"]
        return [role["name"] for role in roles if "scalingPolicy" in role and not scaling_policy.is_frozen(role["scalingPolicy"])]

    def _workloads(self) -> dict[str, tuple[str, int]]:
        """uid and generation of each engine workload."""
        found = {item["metadata"]["name"]: item["metadata"] for item in self.client.list(self.service.workloads, self.namespace)["items"]}
        return {name: (item["uid"], item["generation"]) for name, item in found.items() if not name.startswith(self.service.control)}

    def _names(self, wish: Wish) -> set[str]:
        live = {**wish.counts(), **({"prefill": wish.scaled} if wish.scaled else {})}
        return {self.service.name(role, index) for role, count in live.items() for index in range(count)}

    def _forget_discovery(self) -> None:
        """The client library asks for the server's version and groups only when it does not remember them."""
        for file in self._folder.iterdir():
            file.unlink()

    def _make_strange(self) -> None:
        """Take away all that tells our objects from those of Motor's own deployer."""
        for kind in KINDS:
            for item in self.client.list(kind, self.namespace, labelSelector=MANAGED_BY)["items"]:
                ours = {key: None for key in item["metadata"]["labels"] if key.startswith("app.kubernetes.io/")}
                changes = {"metadata": {"labels": ours, "annotations": {record.APPLIED_ANNOTATION: None}}}
                self.client.patch(kind, self.namespace, item["metadata"]["name"], changes)
        for item in picture.history(self.client, self.namespace):
            self.client.delete(REVISIONS, self.namespace, item["metadata"]["name"])
        self.client.delete(LEASES, self.namespace, "ascend-mindie")

    def _make_old(self) -> None:
        """Let the history be so long that a part of it is dropped with the next record."""
        applied = record.applied_of(self.client.get(CONFIG_MAPS, self.namespace, "motor-config")) or {}
        if applied["revision"] < HIGH:
            text = json.dumps({**applied, "revision": HIGH})
            self.client.patch(CONFIG_MAPS, self.namespace, "motor-config", {"metadata": {"annotations": {record.APPLIED_ANNOTATION: text}}})

    def _start_afresh(self) -> None:
        self._drop()
        self._made += 1
        self.namespace = f"kill-{self.backend[:5]}-{self._number}-{self._made}"
        self.client.create(NAMESPACES, {"metadata": {"name": self.namespace, "labels": {LABEL: "true"}}})
        while self.client.get(ACCOUNTS, self.namespace, "default") is None:
            time.sleep(0.05)
        self._now = Wish(absent=True)

    def _drop(self) -> None:
        if self.namespace:
            self.client.delete(NAMESPACES, "", self.namespace)
            for kind in CLUSTER_KINDS:
                for item in self.client.list(kind, labelSelector=f"{OF_NAMESPACE}={self.namespace}")["items"]:
                    self.client.delete(kind, "", item["metadata"]["name"])
            while self.client.get(NAMESPACES, "", self.namespace):  # its node ports are free only then
                time.sleep(0.1)
        self.namespace = ""


def _wrong(result: dict[str, Any] | None) -> list[str]:
    """What is wrong with a run that should have succeeded."""
    if result is None:
        return ["the run ended without a result"]
    return [f"the run failed: {result.get('msg')}"] if result.get("failed") else []


def _not_idle(ran: Ran) -> list[str]:
    """What is wrong with a run that should have found nothing to do."""
    result = ran.result or {"failed": True}
    if result.get("failed") or result.get("changed") or result.get("actions"):
        return [f"run once more, it is not unchanged: {result.get('msg')} {result.get('actions')}"]
    return [f"run once more, it wrote: {', '.join(ran.mutating())}"] if ran.mutating() else []
