# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What AscendJobs, their PodGroups and pods say of instances, and why a job has no pods.

Only the phase of the PodGroup and the readiness of pods tell the truth. Of the conditions of a job one counts: a true `Failed` is for
good. The others, like those of PodGroups, keep the past (ground facts of the Ascend Operator).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .instances import parse_instance_name
from .ownership import JOB_APPS
from .pods import is_leaving, is_ready
from .remembered import remembered
from .rule_reader import DATA_KEY, Reading, RuleError, read_data
from .scaling_rule import Decision, decide
from .workloads import ASCEND_JOB, JOB_LABEL, pod_count

Object = Mapping[str, Any]

BACKEND = "ascend_jobs"
RULE_LABEL = "mind-cluster/scaling-rule"
GROUP_LABEL = "mind-cluster/group-name"
TASK_LABEL = "jobID"
RETRIES_LABEL = "fault-retry-times"
RUNNING, PENDING = "Running", "Pending"
PENDING_REASON = "its PodGroup is Pending: not enough NPUs are free, or its queue is not open"


@dataclass(frozen=True)
class JobFact:
    """One AscendJob, or what is left of one that is gone (`leaving`, `job` None). `wanted` pods; `verdict` (state, reason) where pods do
    not tell, which is so since `since` (RFC 3339, "" when nothing says).
    """

    name: str
    pods: tuple[Object, ...]
    wanted: int
    leaving: bool
    verdict: tuple[str, str] | None = None
    since: str = ""
    job: Object | None = None


class Census:
    """The jobs of a namespace as the Ascend Operator counts them; each rule is read once, each PodGroup is looked at once.

    `rule_named` finds the ConfigMap of a scaling rule, or None; without it nothing is known of rules.
    """

    def __init__(self, pod_groups: Sequence[Object], rule_named: Callable[[str], Object | None] = lambda name: None) -> None:
        self.pod_groups = pod_groups
        self._rule_named = rule_named
        self._readings: dict[str, Reading | RuleError | None] = {}
        self._by_name = {group["metadata"]["name"]: group for group in reversed(pod_groups)}
        self._by_owner = {owner.get("uid"): group for group in reversed(pod_groups) for owner in _owners(group)}
        self._running: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self._nameless: dict[tuple[str, str], str] = {}
        for group in pod_groups:
            self._count(group)

    def _count(self, group: Object) -> None:
        labels = _labels(group)
        if RULE_LABEL not in labels or TASK_LABEL not in labels:
            return
        key = labels[RULE_LABEL], labels[TASK_LABEL]
        if GROUP_LABEL not in labels:
            name = group["metadata"]["name"]
            self._nameless[key] = min(self._nameless.get(key, name), name)  # the same one in whatever order they come
        if phase(group) == RUNNING:
            self._running[key][labels.get(GROUP_LABEL, "")] += 1

    def pod_group(self, job: Object) -> Object | None:
        """The PodGroup of a job, or None."""
        uid = job["metadata"].get("uid", "")
        return self._by_name.get(f"{job['metadata']['name']}-{uid}") or self._by_owner.get(uid)

    def running(self, rule: str, task: str) -> Mapping[str, int]:
        """PodGroups in phase `Running` by group, for the jobs of one rule and task."""
        return self._running.get((rule, task), Counter())

    def uncountable(self, rule: str, task: str) -> str:
        """Why the operator cannot count the jobs of a task, so that it holds every one of them, or ""."""
        name = self._nameless.get((rule, task))
        if name is None:
            return ""
        return f"PodGroup {name} has no label {GROUP_LABEL}, so that the operator cannot count and holds every job of the task"

    def reading(self, namespace: str, name: str) -> Reading | RuleError | None:
        """A rule as the operator reads it; None when there is none."""
        if name not in self._readings:
            found = self._rule_named(name)
            text = ((found or {}).get("data") or {}).get(DATA_KEY)
            self._readings[name] = None if found is None else _read(text, f"ConfigMap {namespace}/{name}")
        return self._readings[name]

    def decision(self, job: Object) -> Decision | None:
        """What the operator decides for a job, None when it does not come to that: it names no rule, or one that cannot be read."""
        labels = _labels(job)
        reading = self.reading(job["metadata"].get("namespace", ""), labels[RULE_LABEL]) if RULE_LABEL in labels else None
        if not isinstance(reading, Reading):
            return None
        return decide(reading.tiers, self.running(labels[RULE_LABEL], labels.get(TASK_LABEL, "")), labels.get(GROUP_LABEL, ""))

    def held(self, job: Object) -> str:
        """Why the operator lets this job make no pods now, or "" when it may."""
        labels = _labels(job)
        name = labels.get(RULE_LABEL)
        if name is None:
            return ""
        namespace = job["metadata"].get("namespace", "")
        reading = self.reading(namespace, name)
        if reading is None:
            return f"its scaling rule, ConfigMap {namespace}/{name}, does not exist"
        if isinstance(reading, RuleError):
            return f"the scaling rule cannot be read: {reading.message}"
        decision = self.decision(job)
        return self.uncountable(name, labels.get(TASK_LABEL, "")) or ("" if decision is None or decision.create else decision.why)


def facts(jobs: Sequence[Object], census: Census, pods: Sequence[Object]) -> Iterator[JobFact]:
    """The jobs, then the names of gone jobs whose pods or PodGroups are still there: a name is free only without all of them."""
    by_name = pods_by_job(pods)
    there = {job["metadata"]["name"] for job in jobs}
    uids = {job["metadata"].get("uid", "") for job in jobs}
    for job in jobs:
        name = job["metadata"]["name"]
        own = by_name.get(name, [])
        gone_by = job["metadata"].get("deletionTimestamp")
        verdict = None if gone_by else _verdict(job, census, own)
        since = gone_by or (_failed(job) or {}).get("lastTransitionTime") or job["metadata"].get("creationTimestamp")
        yield JobFact(name, tuple(own), pod_count(job), bool(gone_by), verdict, str(since or ""), job)
    left: dict[str, list[Object]] = {name: found for name, found in by_name.items() if name not in there}
    for group in census.pod_groups:
        if _owner_uid(group) not in uids:
            left.setdefault(_owner_name(group), [])
    for name, found in left.items():
        if name and name not in there:
            yield JobFact(name, tuple(found), len(found), leaving=True)


def pods_by_job(pods: Sequence[Object]) -> dict[str, list[Object]]:
    """Pods of AscendJobs by the name of their job."""
    found: dict[str, list[Object]] = defaultdict(list)
    for pod in pods:
        name = _labels(pod).get(JOB_LABEL)
        if name:
            found[name].append(pod)
    return dict(found)


def failed_for_good(job: Object) -> str:
    """Why the operator has given the job up, or "". It never comes back: delete it and create it again."""
    condition = _failed(job)
    return str(condition.get("message") or condition.get("reason") or "Failed") if condition else ""


def serves(job: Object, base_name: str) -> bool:
    """Whether a job is part of an inference task, by its labels or its name; others train."""
    labels = _labels(job)
    return RULE_LABEL in labels or labels.get("app") in JOB_APPS or parse_instance_name(job["metadata"]["name"], base_name) is not None


def is_invalid(job: Object) -> bool:
    """Whether the operator has refused the job as it is, so that the same one would be refused again."""
    return (_failed(job) or {}).get("reason") == "JobValidFailed"


def _failed(job: Object) -> Object | None:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return next((row for row in conditions if row.get("type") == "Failed" and row.get("status") == "True"), None)


def phase(pod_group: Object | None) -> str:
    """The phase of a PodGroup, "" when it has none yet or is not there."""
    return str(((pod_group or {}).get("status") or {}).get("phase") or "")


def _verdict(job: Object, census: Census, pods: list[Object]) -> tuple[str, str] | None:
    over = failed_for_good(job)
    if over:
        return "failed", f"AscendJob {job['metadata']['name']} has failed for good: {over}"
    own = census.pod_group(job)
    now = phase(own)
    if pods:
        # The rule counts an instance only then, so others may still be held for its sake.
        uncounted = own is not None and now != RUNNING and all(is_ready(pod) and not is_leaving(pod) for pod in pods)
        return ("starting", f"its pods are ready, its PodGroup is {now or 'new'}") if uncounted and len(pods) >= pod_count(job) else None
    if own is None:
        return "starting", "the Ascend Operator has made no PodGroup for it yet"
    if not now:
        return "starting", "Volcano has not looked at its PodGroup yet"
    if now == PENDING:
        return "pending", PENDING_REASON
    why = census.held(job)
    return ("held", why) if why else ("starting", "its pods are about to be created")


@remembered
def _read(text: str | None, source: str) -> Reading | RuleError:
    """Rules are read again and again, and seldom change."""
    try:
        return read_data({} if text is None else {DATA_KEY: text}, source=source)
    except RuleError as error:
        return error.with_traceback(None)


def _owners(pod_group: Object) -> Sequence[Object]:
    found: Sequence[Object] = pod_group["metadata"].get("ownerReferences") or ()
    return found


def _owner(pod_group: Object) -> Object:
    found: Object = next((owner for owner in _owners(pod_group) if owner.get("kind") == ASCEND_JOB), {})
    return found


def _owner_uid(pod_group: Object) -> str:
    return str(_owner(pod_group).get("uid") or pod_group["metadata"]["name"])


def _owner_name(pod_group: Object) -> str:
    return str(_owner(pod_group).get("name") or "")


def _labels(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}
