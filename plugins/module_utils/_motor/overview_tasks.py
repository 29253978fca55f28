# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inference tasks of a namespace: the AscendJobs of one scaling rule and one jobID, which the operator counts together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import job_settings
from .instances import parse_instance_name
from .job_facts import GROUP_LABEL, RULE_LABEL, TASK_LABEL, Census
from .rule_reader import Reading
from .scaling_rule import may_count, reached
from .state import Object, Snapshot, is_deleted


def tasks_view(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Per task its tiers (instances by group, the full size first), what runs, and which tier that makes: `tier_now` is the largest one
    all of whose counts run, None when not even the smallest one's do. A rule that is not `readable` holds every job.

    `crashing_jobs` would crash the Ascend Operator, for the whole cluster, as soon as a pod of them is missing while a tier that does
    not know their group counts.
    """
    census = Census(snapshot.pod_groups, snapshot.rule_named)
    jobs = _by_task(snapshot)
    return [_task(snapshot, census, *key, jobs[key]) for key in sorted(jobs)]


def _by_task(snapshot: Snapshot) -> dict[tuple[str, str], list[Object]]:
    """Jobs by rule and task; a task of which only PodGroups are left has none, and neither has a rule of the service without jobs."""
    found: dict[tuple[str, str], list[Object]] = defaultdict(list)
    for kind in (snapshot.pod_groups, snapshot.jobs):
        for obj in kind:
            labels = _labels(obj)
            if RULE_LABEL in labels:
                found[labels[RULE_LABEL], labels.get(TASK_LABEL, "")] += [obj] if kind is snapshot.jobs else []
    if snapshot.rule is not None:
        name = str(snapshot.rule["metadata"]["name"])
        if not any(rule == name for rule, dummy in found):
            found[name, ""] = []
    return found


def _task(snapshot: Snapshot, census: Census, rule: str, task: str, jobs: Sequence[Object]) -> dict[str, Any]:
    reading = census.reading(snapshot.namespace, rule)
    tiers = reading.tiers if isinstance(reading, Reading) else ()
    running = dict(census.running(rule, task))
    crashing = _crashing(tiers, jobs)
    return {
        "rule": rule,
        "task": task,
        "present": reading is not None,
        "readable": isinstance(reading, Reading),
        "crashes": bool(crashing),
        "crashing_jobs": crashing,
        "tiers": [{group: size.number for group, size in tier.items()} for tier in tiers],
        "running": running,
        "groups": _roles(snapshot, rule, jobs),
        "tier_now": reached(tiers, running),
    }


def _crashing(tiers: Sequence[Mapping[str, Any]], jobs: Iterable[Object]) -> list[str]:
    """Jobs of groups that are not in every tier that may count."""
    counting = [tier for tier, counts in zip(tiers, may_count(tiers), strict=True) if counts]
    own = ((job["metadata"]["name"], _labels(job).get(GROUP_LABEL)) for job in jobs if TASK_LABEL in _labels(job) and not is_deleted(job))
    return sorted(name for name, group in own if group is not None and any(group not in tier for tier in counting))


def _roles(snapshot: Snapshot, rule: str, jobs: Iterable[Object]) -> dict[str, str]:
    """The engine role of each group: as the service says, else as the names of jobs do."""
    settings = job_settings.of_service(snapshot.config_map)
    if settings and settings.scaling_rule == rule:
        return {group: role for role, group in settings.groups.items()}
    found: dict[str, str] = {}
    for job in jobs:
        parsed = parse_instance_name(job["metadata"]["name"], snapshot.settings.name_prefix)
        if parsed:
            found.setdefault(_labels(job).get(GROUP_LABEL, ""), parsed[0])
    return dict(sorted(found.items()))


def _labels(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}
