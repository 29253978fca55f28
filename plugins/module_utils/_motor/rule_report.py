# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is told of a scaling rule: its tiers, which of them counts now, and for each job whether it may create pods, in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import job_facts, scaling_rule
from . import pods as pod_facts
from .capacity import Instance, Server, Shape
from .findings import Finding
from .job_facts import GROUP_LABEL, RULE_LABEL, TASK_LABEL, Census, pods_by_job
from .plan_rule import meaning, strict_text
from .rule_reader import Reading
from .state import Object, Snapshot, is_deleted
from .workloads import pod_count

_HOLDS = "the operator refuses the rule, so that it holds every job"


@dataclass(frozen=True)
class Picture:
    """What there is to show of a rule. `running` goes by task and group, `instances` is None when nothing is said of them; `possible` is
    the tier that servers have room for, by task.
    """

    source: str
    facts: Mapping[str, Any]
    reading: Reading | None
    findings: Sequence[Finding]
    running: Mapping[str, Mapping[str, int]]
    jobs: Sequence[Mapping[str, Any]]
    servers: tuple[Server, ...]
    shapes: Mapping[str, Shape]
    instances: tuple[Instance, ...] | None
    requests: int = 0
    possible: Mapping[str, int | None] = field(default_factory=dict)


def rule_facts(namespace: str, name: str, reading: Reading | None, *, present: bool | None = None) -> dict[str, Any]:
    """The rule as plain data; without a reading there is none, or (`present`) one that the operator refuses."""
    return {
        "namespace": namespace,
        "name": name,
        "present": reading is not None if present is None else present,
        "text": strict_text(reading) if reading else "",
        "groups": list(dict.fromkeys(meaning(reading)[1])) if reading else [],
        "tiers": [{group: dict(size.__dict__) for group, size in tier.items()} for tier in reading.tiers] if reading else [],
    }


def tasks(picture: Picture) -> list[dict[str, Any]]:
    """For each inference task (by jobID) what runs, the tier that counts now, and the tiers that are and can be reached."""
    tiers = picture.reading.tiers if picture.reading else None
    return [
        {
            "job_id": task,
            "running": dict(counts),
            "tier": None if tiers is None else scaling_rule.pick(tiers, counts),
            "tier_now": None if tiers is None else scaling_rule.reached(tiers, counts),
            "tier_possible": picture.possible.get(task),
        }
        for task, counts in sorted(picture.running.items())
    ]


def running(snapshot: Snapshot, name: str) -> dict[str, dict[str, int]]:
    """Running instances by task and group, as the operator counts them. A task without any is there, too."""
    objects = (*snapshot.jobs, *snapshot.pod_groups)
    found = {_labels(obj).get(TASK_LABEL, "") for obj in objects if _labels(obj).get(RULE_LABEL) == name}
    census = Census(snapshot.pod_groups)
    return {task: dict(census.running(name, task)) for task in found}


def group_answers(reading: Reading | None, counts: Mapping[str, int]) -> list[dict[str, Any]]:
    """Whether one more job of each group might create its pods, where nothing but counts are known."""
    groups = dict.fromkeys((*(meaning(reading)[1] if reading else ()), *counts))
    return [{"name": "", "group": group, "job_id": "", **_decided(reading, counts, group)} for group in groups]


def job_answers(snapshot: Snapshot, name: str, reading: Reading | None) -> list[dict[str, Any]]:
    """Whether each job that names the rule may create pods now."""
    counts = running(snapshot, name)
    census, pods = Census(snapshot.pod_groups), pods_by_job(snapshot.pods)
    jobs = sorted((job for job in snapshot.jobs if _labels(job).get(RULE_LABEL) == name), key=lambda job: str(job["metadata"]["name"]))
    return [
        {
            "name": job["metadata"]["name"],
            "group": _labels(job).get(GROUP_LABEL, ""),
            "job_id": _labels(job).get(TASK_LABEL, ""),
            **(
                _beside_the_rule(census, job, pods.get(job["metadata"]["name"], []))
                or _decided(reading, counts[_labels(job).get(TASK_LABEL, "")], _labels(job).get(GROUP_LABEL, ""))
            ),
        }
        for job in jobs
    ]


def _beside_the_rule(census: Census, job: Object, pods: Sequence[Object]) -> dict[str, Any] | None:
    """What keeps a job from creating pods before the operator asks the rule, in the order in which it looks; None when it asks."""
    why = _not_asked(census, job, pods)
    return {"may_create": False, "crashes": False, "why": why} if why else None


def _not_asked(census: Census, job: Object, pods: Sequence[Object]) -> str:
    labels = _labels(job)
    if is_deleted(job):
        return "it is being deleted"
    missing = [key for key in (GROUP_LABEL, TASK_LABEL) if key not in labels]
    if missing:
        return f"it has no label {' and no label '.join(missing)}: the operator gives it up for good"
    over = job_facts.failed_for_good(job)
    if over:
        return f"the operator has given it up for good ({over}): delete it and create it again"
    if len(pods) >= pod_count(job):
        ill = next((trouble.reason for trouble in map(pod_facts.trouble, pods) if trouble), "")
        return f"it has all its {len(pods)} pods and needs no more" + (f", but they do not run: {ill}" if ill else "")
    own = census.pod_group(job)
    if job_facts.phase(own) == job_facts.PENDING:
        return "its PodGroup is Pending, as not enough NPUs are free (or its queue is not open): the operator does not even ask the rule"
    if own is None:
        return "the Ascend Operator has made no PodGroup for it yet, so that it does not even ask the rule"
    if not job_facts.phase(own):
        return "Volcano has not looked at its PodGroup yet: the operator does not even ask the rule"
    return census.uncountable(labels[RULE_LABEL], labels[TASK_LABEL])


def _decided(reading: Reading | None, counts: Mapping[str, int], group: str) -> dict[str, Any]:
    if reading is None:
        return {"may_create": False, "crashes": False, "why": _HOLDS}
    decision = scaling_rule.decide(reading.tiers, counts, group)
    return {"may_create": decision.create, "crashes": decision.crashes, "why": decision.why}


def _labels(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}
