# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to be repaired, decided from one snapshot of a namespace: no I/O and no clock.

Whatever happened, in whatever order it was heard of, the same snapshot leads to the same repairs. How long something has been so comes
in as `ages`, measured by the watcher itself: time stamps of other machines, and clocks that jump, decide nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ansible_collections.ascend.mindie.plugins.module_utils._motor import job_facts, plan_recreate, plan_restore
from ansible_collections.ascend.mindie.plugins.module_utils._motor import pods as pod_facts
from ansible_collections.ascend.mindie.plugins.module_utils._motor.instances import parse_instance_name
from ansible_collections.ascend.mindie.plugins.module_utils._motor.job_facts import GROUP_LABEL, RULE_LABEL, RUNNING, TASK_LABEL
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_recreate import NUDGED
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_reader import RuleError, read_data
from ansible_collections.ascend.mindie.plugins.module_utils._motor.scaling_rule import Decision, decide
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot, is_deleted, service_pods, service_state
from ansible_collections.ascend.mindie.plugins.module_utils._motor.stored import baseline_counts
from ansible_collections.ascend.mindie.plugins.module_utils._motor.workloads import ASCEND_JOB, JOB_LABEL, pod_count

from .settings import NUDGE, RECREATE_FAILED, RELEASE_STUCK, RESTORE_MISSING, Settings

Object: TypeAlias = "Mapping[str, Any]"
# What is timed: (what, of which object).
Key: TypeAlias = "tuple[str, ...]"
# Whether there is room for a job now: "" or why not.
Room: TypeAlias = "Callable[[Object], str]"

WAITS, NUDGED_FOR, NODE, LEAVING, FAILED, MISSING = "waits", "nudged", "node", "leaving", "failed", "missing"

# A job that was held for less is tried again by the operator itself within about a second.
HELD_SECONDS = 3.0
# The operator's own attempts are at most 20 s apart: when none of them made pods, the nudge was for nothing and may be repeated.
NUDGE_AGAIN_SECONDS = 30.0
# What belongs to one failure comes within this time (the PodGroup goes, other pods fail).
FAILED_SECONDS = 5.0
GRACE_SECONDS = 30.0


@dataclass(frozen=True)
class Repair:
    """One repair of one object. `version` is the resourceVersion that was seen, `cause` what it is remembered by (of a nudge)."""

    act: str
    namespace: str
    kind: str
    name: str
    why: str
    uid: str = ""
    version: str = ""
    cause: str = ""

    @property
    def key(self) -> str:
        """By what its tries are counted."""
        return f"{self.act} {self.namespace}/{self.name}"


@dataclass(frozen=True)
class Decisions:
    """`repairs` that are due; `waiting` says of others, by key, what keeps them; `due` is in how many seconds time alone changes that."""

    repairs: tuple[Repair, ...] = ()
    waiting: Mapping[str, str] = field(default_factory=dict)
    due: float | None = None


def timed(snapshot: Snapshot) -> frozenset[Key]:
    """What holds now and whose age matters."""
    return frozenset(
        [
            *((WAITS, uid) for uid in _waiting_jobs(snapshot)),
            *((NUDGED_FOR, job["metadata"]["uid"], _nudged(job)) for job in snapshot.jobs if _nudged(job)),
            *((NODE, name) for name, node in _nodes_of_leaving(snapshot).items() if not pod_facts.node_is_ready(node)),
            *((LEAVING, pod["metadata"]["uid"]) for pod in snapshot.pods if pod_facts.is_leaving(pod)),
            *((FAILED, job["metadata"]["uid"]) for job in snapshot.jobs if job_facts.failed_for_good(job)),
            *((MISSING, name) for name in plan_restore.missing(snapshot)),
        ]
    )


def decide_repairs(snapshot: Snapshot, ages: Mapping[Key, float], settings: Settings, room: Room, own: str = "") -> Decisions:
    """The repairs that are due, of those that are switched on. Holders of locks whose names begin with `own` are ourselves."""
    makers = {NUDGE: _nudges, RELEASE_STUCK: _releases, RECREATE_FAILED: _recreations, RESTORE_MISSING: _restorations}
    found, waiting, due = [], {}, []
    hold = plan_restore.held_by_hand(snapshot)
    for act, make in makers.items():
        for repair, obstacle, seconds in make(snapshot, ages, settings, room, own) if settings.acts[act] else ():
            if not hold and not obstacle and seconds <= 0:
                found.append(repair)
                continue
            waiting[repair.key] = hold or obstacle or f"due in {seconds:.0f} s"
            if seconds > 0:
                due.append(seconds)
    return Decisions(tuple(found), waiting, min(due, default=None))


# A repair, what keeps it from being made ("" when nothing does), and in how many seconds it is due.
_Candidate: TypeAlias = "tuple[Repair, str, float]"


def _nudges(snapshot: Snapshot, ages: Mapping[Key, float], settings: Settings, room: Room, own: str) -> Iterator[_Candidate]:
    """Held jobs that the rule allows now. The operator looks at a held job every 20 s; a nudge makes it look at once.

    No more are nudged than the tier asks for: the operator lets every job pass that it looks at before the first one runs.
    """
    by_uid = {job["metadata"]["uid"]: job for job in snapshot.jobs}
    waiting = [by_uid[uid] for uid in _waiting_jobs(snapshot)]
    left: dict[tuple[str, str, str], int] = {}
    for job in sorted(waiting, key=lambda job: _order(snapshot, job)):
        labels, metadata = _labels(job), job["metadata"]
        task = labels[RULE_LABEL], labels.get(TASK_LABEL, ""), labels.get(GROUP_LABEL, "")
        decision, asked = _decision(snapshot, *task)
        if decision is None or not decision.create:
            continue
        left.setdefault(task, asked - _starting(snapshot, task))
        if left[task] <= 0:
            continue
        left[task] -= 1
        cause = f"{_version(snapshot, task[0])}/{decision.tier}/{asked}"
        seconds = HELD_SECONDS - ages.get((WAITS, metadata["uid"]), 0.0)
        if _nudged(job) == cause:
            seconds = NUDGE_AGAIN_SECONDS - ages.get((NUDGED_FOR, metadata["uid"], cause), 0.0)
        yield _repair(NUDGE, job, ASCEND_JOB, f"it was held, and now {decision.why}", cause), "", seconds


def _releases(snapshot: Snapshot, ages: Mapping[Key, float], settings: Settings, room: Room, own: str) -> Iterator[_Candidate]:
    """Pods that were told to stop on a server that is not Ready: nobody there says that they have stopped."""
    nodes = _nodes_of_leaving(snapshot)
    for pod in service_pods(snapshot):
        name = pod_facts.node_of(pod)
        node = nodes.get(name)
        if not pod_facts.is_leaving(pod) or node is None or pod_facts.node_is_ready(node):
            continue
        told = float(pod["metadata"].get("deletionGracePeriodSeconds") or GRACE_SECONDS)
        dead, leaving = ages.get((NODE, name), 0.0), ages.get((LEAVING, pod["metadata"]["uid"]), 0.0)
        why = f"it hangs in Terminating on server {name}, which has not been Ready for {settings.stuck_after} s or longer"
        yield _repair(RELEASE_STUCK, pod, "Pod", why), "", max(settings.stuck_after - dead, told - leaving)


def _recreations(snapshot: Snapshot, ages: Mapping[Key, float], settings: Settings, room: Room, own: str) -> Iterator[_Candidate]:
    """Jobs that have failed for good, and those that a watcher has deleted but not yet created again."""
    for name, backup in plan_recreate.kept(snapshot).items():
        why = "it was deleted to be created again"
        yield Repair(RECREATE_FAILED, snapshot.namespace, ASCEND_JOB, name, why), plan_restore.locked(snapshot, own), 0.0
    for job in snapshot.jobs:
        reason = job_facts.failed_for_good(job)
        if not reason or is_deleted(job) or job["metadata"]["name"] in plan_recreate.kept(snapshot):
            continue
        obstacle = _not_again(snapshot, job, own) or room(job)
        seconds = FAILED_SECONDS - ages.get((FAILED, job["metadata"]["uid"]), 0.0)
        yield _repair(RECREATE_FAILED, job, ASCEND_JOB, f"it has failed for good: {reason}"), obstacle, seconds


def _not_again(snapshot: Snapshot, job: Object, own: str) -> str:
    """Why a failed job is not created again, or ""."""
    name, labels = job["metadata"]["name"], _labels(job)
    if job_facts.is_invalid(job):
        return "the operator refuses it as it is: correct it and create it again by hand"
    leaving = [other["metadata"]["name"] for other in snapshot.jobs if is_deleted(other)]
    if leaving:
        return f"{', '.join(leaving)} is being deleted"
    parsed, baseline = parse_instance_name(name, snapshot.base_name), baseline_counts(snapshot.config_map)
    if parsed and baseline is not None and len(service_state(snapshot).live(parsed[0])) > baseline.get(parsed[0], 0):
        return f"the baseline has {baseline.get(parsed[0], 0)} {parsed[0]} instances, and there are more"
    if RULE_LABEL in labels:
        decision, dummy = _decision(snapshot, labels[RULE_LABEL], labels.get(TASK_LABEL, ""), labels.get(GROUP_LABEL, ""))
        if decision is None:
            return f"its scaling rule {labels[RULE_LABEL]} is missing or broken"
        if not decision.create:
            return decision.why
    return plan_restore.locked(snapshot, own)


def _restorations(snapshot: Snapshot, ages: Mapping[Key, float], settings: Settings, room: Room, own: str) -> Iterator[_Candidate]:
    """Instances of the baseline that are not there. The plan is made anew, under the lock, from what is there then."""
    names = plan_restore.missing(snapshot)
    if names:
        youngest = min(ages.get((MISSING, name), 0.0) for name in names)
        why = f"the baseline has {', '.join(names)}, and for {settings.missing_after} s or longer nothing of it was there"
        repair = Repair(RESTORE_MISSING, snapshot.namespace, "ConfigMap", "motor-config", why)
        yield repair, plan_restore.obstacle(snapshot, own), settings.missing_after - youngest


def _waiting_jobs(snapshot: Snapshot) -> list[str]:
    """Jobs (uid) under a rule that have fewer pods than they want, although the operator may consult the rule about them."""
    pods: dict[str, int] = defaultdict(int)
    for pod in snapshot.pods:
        pods[_labels(pod).get(JOB_LABEL, "")] += 1
    groups = job_facts.by_owner(snapshot.pod_groups)
    found = []
    for job in snapshot.jobs:
        metadata = job["metadata"]
        phase = job_facts.phase(groups.get(metadata["uid"]))
        if RULE_LABEL not in _labels(job) or is_deleted(job) or job_facts.failed_for_good(job):
            continue
        if phase not in ("", job_facts.PENDING) and pods[metadata["name"]] < pod_count(job):
            found.append(metadata["uid"])
    return found


def _decision(snapshot: Snapshot, rule: str, task: str, group: str) -> tuple[Decision | None, int]:
    """What the operator decides now about a job of this rule, task and group, and how many more it would start. None for a rule that it refuses."""
    found = snapshot.others.get(("ConfigMap", rule))
    try:
        tiers = read_data((found or {}).get("data") or {}, source=rule).tiers
    except RuleError:
        return None, 0
    running = job_facts.running(snapshot.pod_groups, rule, task)
    decision = decide(tiers, running, group)
    return decision, tiers[decision.tier][group].number - running.get(group, 0) if decision.create else 0


def _starting(snapshot: Snapshot, task: tuple[str, str, str]) -> int:
    """Jobs of the same task and group that have pods and do not run yet: they are what the tier asks for."""
    groups = job_facts.by_owner(snapshot.pod_groups)
    with_pods = {_labels(pod).get(JOB_LABEL) for pod in snapshot.pods}
    alike = (job for job in snapshot.jobs if _task(job) == task and job["metadata"]["name"] in with_pods)
    return sum(job_facts.phase(groups.get(job["metadata"]["uid"])) != RUNNING for job in alike)


def _task(job: Object) -> tuple[str, str, str]:
    labels = _labels(job)
    return labels.get(RULE_LABEL, ""), labels.get(TASK_LABEL, ""), labels.get(GROUP_LABEL, "")


def _nodes_of_leaving(snapshot: Snapshot) -> dict[str, Object]:
    """The servers of pods that were told to stop. What a server that is gone has left is collected by Kubernetes."""
    names = {pod_facts.node_of(pod) for pod in snapshot.pods if pod_facts.is_leaving(pod)}
    return {name: node for name in names if (node := snapshot.nodes.get(name)) is not None}


def _repair(act: str, obj: Object, kind: str, why: str, cause: str = "") -> Repair:
    metadata = obj["metadata"]
    return Repair(act, metadata["namespace"], kind, metadata["name"], why, metadata["uid"], metadata["resourceVersion"], cause)


def _order(snapshot: Snapshot, job: Object) -> tuple[int, str]:
    parsed = parse_instance_name(job["metadata"]["name"], snapshot.base_name)
    return (parsed[1] if parsed else 0, job["metadata"]["name"])


def _version(snapshot: Snapshot, rule: str) -> str:
    found = snapshot.others.get(("ConfigMap", rule))
    return str(found["metadata"].get("resourceVersion", "")) if found else ""


def _nudged(job: Object) -> str:
    return str((job["metadata"].get("annotations") or {}).get(NUDGED, ""))


def _labels(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}
