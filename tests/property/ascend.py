# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the Ascend Operator and Volcano do in a world: PodGroups of AscendJobs, pods as the scaling rule allows, all of an instance or none.

Their objects are made, and the rule is asked, as the stand-ins at the control plane do it. Left out: services, rank tables' content,
back-off (held jobs are looked at with every tick), and jobs that fail for good.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._motor import rule_reader, scaling_rule
from tests.cluster.ascend_operator import objects

Obj = dict[str, Any]
JOB = objects.ASCEND_JOBS.kind
PENDING, INQUEUE, RUNNING, UNKNOWN = "Pending", "Inqueue", "Running", "Unknown"
WAITING = ("", PENDING)


class Crashed(Exception):
    """The operator dies of a rule, for the whole cluster."""


def phase(pod_group: Obj) -> str:
    """Its phase, empty when Volcano has not looked at it."""
    return str((pod_group.get("status") or {}).get("phase") or "")


def owner_of(pod_group: Obj) -> Obj:
    """The job of a PodGroup."""
    found: Obj = pod_group["metadata"]["ownerReferences"][0]
    return found


def missing(job: Obj, pods: dict[str, Any]) -> list[Obj]:
    """The pods that a job lacks. One that is stopping has its name until it is gone."""
    name = job["metadata"]["name"]
    lacking = (row for row in objects.replicas(job) if f"{name}-{row.type.lower()}-{row.index}" not in pods)
    return [objects.pod(job, row, 0, "") for row in lacking]


def may_create(job: Obj, rule: Obj | None, pod_groups: dict[str, Obj]) -> bool:
    """Whether the operator lets a job create pods. Raises Crashed."""
    labels = objects.labels_of(job)
    if objects.RULE not in labels:
        return True
    try:
        reading = rule_reader.read_data((rule or {}).get("data") or {}, source="rule")
    except rule_reader.RuleError:
        return False
    task = {key: labels[key] for key in (objects.RULE, objects.JOB_ID)}.items()
    siblings = [objects.labels_of(group) for group in pod_groups.values() if phase(group) == RUNNING]
    running = Counter(found[objects.RULE_GROUP] for found in siblings if task <= found.items())
    decision = scaling_rule.decide(reading.tiers, running, labels[objects.RULE_GROUP])
    if decision.crashes:
        raise Crashed(decision.why)
    return decision.create


def npus_of(pod_group: Obj) -> int:
    """What has to be free before a PodGroup is let in."""
    return int(((pod_group.get("spec") or {}).get("minResources") or {}).get("huawei.com/Ascend910", 0))


def next_phase(pod_group: Obj, placed: int) -> str:
    """The phase after a session, by how many pods are placed."""
    wanted = max(1, int(pod_group["spec"]["minMember"]))
    if placed >= wanted:
        return RUNNING
    if placed:
        return UNKNOWN
    return INQUEUE if phase(pod_group) == INQUEUE else PENDING
