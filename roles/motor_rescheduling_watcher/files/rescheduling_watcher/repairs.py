# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to be repaired, decided from one snapshot of a namespace: no I/O and no clock.

Whatever happened, in whatever order it was heard of, the same snapshot leads to the same repairs. How long something has been so comes
in as `ages`, measured by the watcher itself: time stamps of other machines, and clocks that jump, decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ansible_collections.ascend.mindie.plugins.module_utils._motor import hands_off, job_facts, plan_restore
from ansible_collections.ascend.mindie.plugins.module_utils._motor import pods as pod_facts
from ansible_collections.ascend.mindie.plugins.module_utils._motor.instances import parse_instance_name
from ansible_collections.ascend.mindie.plugins.module_utils._motor.job_facts import GROUP_LABEL, RULE_LABEL, RUNNING, TASK_LABEL, Census
from ansible_collections.ascend.mindie.plugins.module_utils._motor.ownership import CONFIG_MAP
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_recreate import NUDGED, still_there
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot, is_deleted, service_pods, service_state
from ansible_collections.ascend.mindie.plugins.module_utils._motor.stored import baseline_counts
from ansible_collections.ascend.mindie.plugins.module_utils._motor.workloads import ASCEND_JOB, pod_count

from .settings import NUDGE, RECREATE_FAILED, RELEASE_STUCK, RESTORE_MISSING, Settings

Object = Mapping[str, Any]
# What is timed: (what, of which object).
Key: TypeAlias = "tuple[str, ...]"
# Whether there is room for a job now: "" or why not.
Room = Callable[[Object], str]
_Task: TypeAlias = "tuple[str, str, str]"

WAITS, NUDGED_FOR, NODE, LEAVING, FAILED, MISSING = "waits", "nudged", "node", "leaving", "failed", "missing"

# A job that was held for less is tried again by the operator itself within about a second.
HELD_SECONDS = 3.0
# The operator's own attempts are at most 20 s apart: when none of them made pods, the nudge was for nothing and may be repeated, each
# time so much later than the time before.
NUDGE_AGAIN_SECONDS, MOST_NUDGES = 30.0, 20
# What belongs to one failure comes within this time (the PodGroup goes, other pods fail).
FAILED_SECONDS = 5.0
GRACE_SECONDS = 30.0


@dataclass(frozen=True)
class Repair:
    """One repair of one object. `version` is the resourceVersion that was seen, `cause` what it is remembered by (of a nudge), or
    since when it has been so (of a pod that is released).
    """

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
    """`repairs` that are due; `waiting` says of others, by key, what keeps them, `obstacles` the same without those that are just not due
    yet; `due` is in how many seconds time alone changes that.
    """

    repairs: tuple[Repair, ...] = ()
    waiting: Mapping[str, str] = field(default_factory=dict)
    obstacles: Mapping[str, str] = field(default_factory=dict)
    due: float | None = None


@dataclass(frozen=True)
class Facts:
    """What takes time to find out about a snapshot, and is asked for more than once."""

    census: Census
    pods: Mapping[str, Sequence[Object]]
    waiting: Sequence[Object]
    missing: Sequence[str]


def facts(snapshot: Snapshot) -> Facts:
    """`pods` are those of jobs by the job's name; `waiting` are jobs that have fewer pods than they want; `missing` names instances."""
    census, pods = Census(snapshot.pod_groups, lambda name: snapshot.others.get(("ConfigMap", name))), job_facts.pods_by_job(snapshot.pods)
    return Facts(census, pods, _waiting_jobs(snapshot, census, pods), plan_restore.missing(snapshot))


def timed(snapshot: Snapshot, known: Facts | None = None) -> frozenset[Key]:
    """What holds now and whose age matters. `known` are the facts, where they are."""
    known = known or facts(snapshot)
    return frozenset(
        [
            *((WAITS, job["metadata"]["uid"]) for job in known.waiting),
            *((NUDGED_FOR, job["metadata"]["uid"], _nudged(job)) for job in snapshot.jobs if _nudged(job)),
            *(_outage(name, node) for name, node in _nodes_of_leaving(snapshot).items() if not pod_facts.node_is_ready(node)),
            *((LEAVING, pod["metadata"]["uid"]) for pod in snapshot.pods if pod_facts.is_leaving(pod)),
            *((FAILED, job["metadata"]["uid"]) for job in snapshot.jobs if job_facts.failed_for_good(job)),
            *((MISSING, name) for name in known.missing),
        ]
    )


@dataclass(frozen=True)
class _Case:
    """One snapshot with all that decides about it."""

    snapshot: Snapshot
    known: Facts
    ages: Mapping[Key, float]
    settings: Settings
    room: Room
    own: str

    def left(self, key: Key, seconds: float) -> float:
        """For how much longer something has to hold."""
        return seconds - self.ages.get(key, 0.0)


# A repair, what keeps it from being made ("" when nothing does), and in how many seconds it is due.
_Candidate: TypeAlias = "tuple[Repair, str, float]"


def decide_repairs(
    snapshot: Snapshot, ages: Mapping[Key, float], settings: Settings, room: Room, own: str = "", known: Facts | None = None
) -> Decisions:
    """The repairs that are due, of those that are switched on. Holders of locks whose names begin with `own` are ourselves."""
    makers = {NUDGE: _nudges, RELEASE_STUCK: _releases, RECREATE_FAILED: _recreations, RESTORE_MISSING: _restorations}
    case = _Case(snapshot, known or facts(snapshot), ages, settings, room, own)
    hold = hands_off.held_by_hand(snapshot)
    found, waiting, obstacles, due = [], {}, {}, []
    for act, make in makers.items():
        for repair, obstacle, seconds in make(case) if settings.acts[act] else ():
            if not hold and not obstacle and seconds <= 0:
                found.append(repair)
                continue
            waiting[repair.key] = hold or obstacle or f"due in {seconds:.0f} s"
            if hold or obstacle:
                obstacles[repair.key] = hold or obstacle
            if seconds > 0:
                due.append(seconds)
    return Decisions(tuple(found), waiting, obstacles, min(due, default=None))


def _nudges(case: _Case) -> Iterator[_Candidate]:
    """Held jobs that the rule allows now. The operator looks at a held job every 20 s; a nudge makes it look at once.

    No more are nudged than the tier asks for: the operator lets every job pass that it looks at before the first one runs.
    """
    snapshot, census = case.snapshot, case.known.census
    left: dict[_Task, int] = {}
    for job in sorted(case.known.waiting, key=lambda job: _order(snapshot, job)):
        task, decision = _task(job), census.decision(job)
        if decision is None or not decision.create or census.uncountable(*task[:2]):
            continue
        if task not in left:
            left[task] = decision.asked - _starting(snapshot, case.known, task)
        if left[task] <= 0:
            continue
        left[task] -= 1
        cause = f"{_version(snapshot, task[0])}/{decision.tier}/{decision.asked}"
        uid, times = job["metadata"]["uid"], _times(_nudged(job), cause)
        nudged = (NUDGED_FOR, uid, _nudged(job))
        seconds = case.left(nudged, times * NUDGE_AGAIN_SECONDS) if times else case.left((WAITS, uid), HELD_SECONDS)
        # What is written has to differ from what is there: else nobody hears of it.
        yield _repair(NUDGE, job, ASCEND_JOB, f"it was held, and now {decision.why}", f"{cause}#{times + 1}"), "", seconds


def _releases(case: _Case) -> Iterator[_Candidate]:
    """Pods that were told to stop on a server that is not Ready: nobody there says that they have stopped."""
    nodes, after = _nodes_of_leaving(case.snapshot), case.settings.stuck_after
    for pod in service_pods(case.snapshot):
        name = pod_facts.node_of(pod)
        node = nodes.get(name)
        if not pod_facts.is_leaving(pod) or node is None or pod_facts.node_is_ready(node):
            continue
        grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or GRACE_SECONDS)
        seconds = max(case.left(_outage(name, node), after), case.left((LEAVING, pod["metadata"]["uid"]), grace))
        why = f"it hangs in Terminating, and server {name} has not been Ready for {after} s"
        yield _repair(RELEASE_STUCK, pod, "Pod", why, pod_facts.node_since(node)), "", seconds


def _recreations(case: _Case) -> Iterator[_Candidate]:
    """Jobs that have failed for good, and those that a watcher has deleted but not yet created again."""
    snapshot = case.snapshot
    begun = hands_off.kept(snapshot)
    for name in begun:
        why = "it was deleted to be created again"
        obstacle = hands_off.locked(snapshot, case.own) or still_there(snapshot, name)
        yield Repair(RECREATE_FAILED, snapshot.namespace, ASCEND_JOB, name, why), obstacle, 0.0
    for job in snapshot.jobs:
        # Of a training job that has failed its user wants to see why, and not have it run again.
        reason = job_facts.failed_for_good(job) if job_facts.serves(job, snapshot.base_name) else ""
        if reason and not is_deleted(job) and job["metadata"]["name"] not in begun:
            seconds = case.left((FAILED, job["metadata"]["uid"]), FAILED_SECONDS)
            yield _repair(RECREATE_FAILED, job, ASCEND_JOB, f"it has failed for good: {reason}"), _not_again(case, job), seconds


def _not_again(case: _Case, job: Object) -> str:
    """Why a failed job is not created again, or ""."""
    snapshot = case.snapshot
    if job_facts.is_invalid(job):
        return "the operator refuses it as it is: correct it and create it again by hand"
    leaving = [other["metadata"]["name"] for other in snapshot.jobs if is_deleted(other)]
    if leaving:
        return f"{', '.join(leaving)} is being deleted"
    parsed, baseline = parse_instance_name(job["metadata"]["name"], snapshot.base_name), baseline_counts(snapshot.config_map)
    if parsed and baseline is not None and len(service_state(snapshot).live(parsed[0])) > baseline.get(parsed[0], 0):
        return f"the baseline has {baseline.get(parsed[0], 0)} {parsed[0]} instances, and there are more"
    if RULE_LABEL in _labels(job):
        decision = case.known.census.decision(job)
        if decision is None:
            return f"its scaling rule {_labels(job)[RULE_LABEL]} is missing or broken"
        if not decision.create:
            return decision.why
    return hands_off.locked(snapshot, case.own) or case.room(job)


def _restorations(case: _Case) -> Iterator[_Candidate]:
    """Instances of the baseline that are not there. The plan is made anew, under the lock, from what is there then."""
    snapshot = case.snapshot
    names = case.known.missing
    if names:
        after = case.settings.missing_after
        why = f"the baseline has {', '.join(names)}, and for {after} s that was not there"
        repair = Repair(RESTORE_MISSING, snapshot.namespace, "ConfigMap", CONFIG_MAP, why)
        yield repair, plan_restore.obstacle(snapshot, case.own), max(case.left((MISSING, name), after) for name in names)


def _waiting_jobs(snapshot: Snapshot, census: Census, pods: Mapping[str, Sequence[Object]]) -> list[Object]:
    """Jobs under a rule that have fewer pods than they want, although the operator may consult the rule about them."""
    found = []
    for job in snapshot.jobs:
        if RULE_LABEL not in _labels(job) or is_deleted(job) or job_facts.failed_for_good(job):
            continue
        phase = job_facts.phase(census.pod_group(job))
        if phase not in ("", job_facts.PENDING) and len(pods.get(job["metadata"]["name"], ())) < pod_count(job):
            found.append(job)
    return found


def _starting(snapshot: Snapshot, known: Facts, task: _Task) -> int:
    """Jobs of the same task and group that have pods and do not run yet: they are what the tier asks for."""
    alike = (job for job in snapshot.jobs if _task(job) == task and job["metadata"]["name"] in known.pods)
    return sum(job_facts.phase(known.census.pod_group(job)) != RUNNING for job in alike)


def _task(job: Object) -> _Task:
    """Rule, jobID and group: the jobs of a task are counted together."""
    labels = _labels(job)
    return labels.get(RULE_LABEL, ""), labels.get(TASK_LABEL, ""), labels.get(GROUP_LABEL, "")


def _nodes_of_leaving(snapshot: Snapshot) -> dict[str, Object]:
    """The servers of pods that were told to stop. What a server that is gone has left is collected by Kubernetes."""
    names = {pod_facts.node_of(pod) for pod in snapshot.pods if pod_facts.is_leaving(pod)}
    return {name: node for name in names if (node := snapshot.nodes.get(name)) is not None}


def _outage(name: str, node: Object) -> Key:
    """One time of being not Ready: a server that came back meanwhile, seen or not, begins anew."""
    return (NODE, name, pod_facts.node_since(node))


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


def _times(nudged: str, cause: str) -> int:
    """How often a job was nudged for this cause."""
    said, dummy, number = nudged.rpartition("#")
    return min(int(number[:3]), MOST_NUDGES) if said == cause and number.isdecimal() else 0


def _labels(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}
