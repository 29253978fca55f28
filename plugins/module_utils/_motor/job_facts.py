# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What AscendJobs, their PodGroups and pods say of instances, and why a job has no pods.

Only the phase of the PodGroup and the readiness of pods tell the truth. Of the conditions of a job one counts: a true `Failed` is for
good. The others, like those of PodGroups, keep the past (ground facts of the Ascend Operator).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .pods import is_leaving, is_ready
from .rule_reader import Reading, RuleError, read_data
from .scaling_rule import decide
from .workloads import ASCEND_JOB, JOB_LABEL, pod_count

Object = Mapping[str, Any]

BACKEND = "ascend_jobs"
RULE_LABEL = "mind-cluster/scaling-rule"
GROUP_LABEL = "mind-cluster/group-name"
TASK_LABEL = "jobID"
RETRIES_LABEL = "fault-retry-times"
RUNNING, PENDING = "Running", "Pending"


@dataclass(frozen=True)
class JobFact:
    """One AscendJob, or what is left of one that is gone (`leaving`). `wanted` pods; `verdict` (state, reason) where pods do not tell."""

    name: str
    pods: tuple[Object, ...]
    wanted: int
    leaving: bool
    verdict: tuple[str, str] | None = None


def facts(jobs: Sequence[Object], pod_groups: Sequence[Object], pods: Sequence[Object], rule: Object | None) -> Iterator[JobFact]:
    """The jobs, then the names of gone jobs whose pods or PodGroups are still there: a name is free only without all of them."""
    by_name: dict[str, list[Object]] = defaultdict(list)
    for pod in pods:
        name = _labels(pod).get(JOB_LABEL)
        if name:
            by_name[name].append(pod)
    groups = by_owner(pod_groups)
    for job in jobs:
        name, uid = job["metadata"]["name"], job["metadata"].get("uid", "")
        own = by_name.pop(name, [])
        leaving = bool(job["metadata"].get("deletionTimestamp"))
        verdict = None if leaving else _verdict(job, groups.get(uid), own, pod_groups, rule)
        groups.pop(uid, None)
        yield JobFact(name, tuple(own), pod_count(job), leaving, verdict)
    left = {name: (*found,) for name, found in by_name.items()}
    for group in groups.values():
        left.setdefault(_owner_name(group), ())
    there = {job["metadata"]["name"] for job in jobs}
    for name, found in left.items():
        if name and name not in there:
            yield JobFact(name, found, len(found), leaving=True)


def failed_for_good(job: Object) -> str:
    """Why the operator has given the job up, or "". It never comes back: delete it and create it again."""
    failure = _failure(job)
    return str(failure.get("message") or failure.get("reason") or "Failed") if failure else ""


def is_invalid(job: Object) -> bool:
    """Whether the operator has refused the job as it is, so that the same one would be refused again."""
    return (_failure(job) or {}).get("reason") == "JobValidFailed"


def by_owner(pod_groups: Iterable[Object]) -> dict[str, Object]:
    """PodGroups by the uid of their AscendJob."""
    return {_owner_uid(group): group for group in pod_groups}


def running(pod_groups: Sequence[Object], rule: str, task: str) -> dict[str, int]:
    """PodGroups in phase `Running` by group, as the operator counts them for the jobs of one rule and task."""
    found = (group for group in pod_groups if _labels(group).get(RULE_LABEL) == rule and _labels(group).get(TASK_LABEL) == task)
    return Counter(_labels(group).get(GROUP_LABEL, "") for group in found if phase(group) == RUNNING)


def pod_group_of(pod_groups: Iterable[Object], job: Object) -> Object | None:
    """The PodGroup of a job, or None."""
    uid, name = job["metadata"].get("uid", ""), f"{job['metadata']['name']}-{job['metadata'].get('uid', '')}"
    owned = (
        group
        for group in pod_groups
        if group["metadata"]["name"] == name or any(owner.get("uid") == uid for owner in group["metadata"].get("ownerReferences") or ())
    )
    return next(owned, None)


def phase(pod_group: Object | None) -> str:
    """The phase of a PodGroup, "" when it has none yet or is not there."""
    return str(((pod_group or {}).get("status") or {}).get("phase") or "")


def held(job: Object, pod_groups: Sequence[Object], rule: Object | None) -> str:
    """Why the operator lets this job make no pods now, or "" when it may."""
    labels = _labels(job)
    name = labels.get(RULE_LABEL)
    if name is None:
        return ""
    namespace = job["metadata"].get("namespace", "")
    if rule is None:
        return f"its scaling rule, ConfigMap {namespace}/{name}, does not exist"
    reading = _read(rule, f"ConfigMap {namespace}/{name}")
    if isinstance(reading, RuleError):
        return f"the scaling rule cannot be read: {reading.message}"
    decision = decide(reading.tiers, running(pod_groups, name, labels.get(TASK_LABEL, "")), labels.get(GROUP_LABEL, ""))
    return "" if decision.create else decision.why


def _verdict(
    job: Object, own: Object | None, pods: list[Object], pod_groups: Sequence[Object], rule: Object | None
) -> tuple[str, str] | None:
    over = failed_for_good(job)
    if over:
        return "failed", f"AscendJob {job['metadata']['name']} has failed for good: {over}"
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
        return "pending", "its PodGroup is Pending: not enough NPUs are free, or its queue is not open"
    why = held(job, pod_groups, rule)
    return ("held", why) if why else ("starting", "its pods are about to be created")


def _failure(job: Object) -> Object | None:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return next((row for row in conditions if row.get("type") == "Failed" and row.get("status") == "True"), None)


def _read(rule: Object, source: str) -> Reading | RuleError:
    try:
        return read_data(rule.get("data") or {}, source=source)
    except RuleError as error:
        return error


def _owner(pod_group: Object) -> Object:
    owners = pod_group["metadata"].get("ownerReferences") or ()
    found: Object = next((owner for owner in owners if owner.get("kind") == ASCEND_JOB), {})
    return found


def _owner_uid(pod_group: Object) -> str:
    return str(_owner(pod_group).get("uid") or pod_group["metadata"]["name"])


def _owner_name(pod_group: Object) -> str:
    return str(_owner(pod_group).get("name") or "")


def _labels(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}
