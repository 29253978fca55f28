# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which AscendJobs the operator refuses, in its order, and what it says. Pure functions."""

from __future__ import annotations

from ..kube_client import Obj
from . import objects

LEADERS = {"pytorch": "Master", "mindspore": "Scheduler", "tensorflow": "Chief"}


def invalid(job: Obj, queues: set[str]) -> tuple[str, str] | None:
    """Reason and text, or None for a valid job. ``queues`` are those that exist."""
    return _scaling(job) or _spec(job) or _queue(job, queues) or _types(job) or _replicas(job)


def _scaling(job: Obj) -> tuple[str, str] | None:
    labels, name = objects.labels_of(job), job["metadata"]["name"]
    if objects.RULE not in labels:
        return None
    for label, wrong, hint in (
        (objects.RULE_GROUP, "group name", "<the group of job>"),
        (objects.JOB_ID, "jobID", "<the jobID of job>"),
    ):
        if label not in labels:
            return "InvalidScalingConfig", f"job {name} has no {wrong}, please set label of {label}={hint}"
    return None


def _spec(job: Obj) -> tuple[str, str] | None:
    name, spec = job["metadata"]["name"], job.get("spec") or {}
    if not spec.get("replicaSpecs"):
        return "InvalidSpecs", f"job {name} has no replicaSpecs"
    if spec.get("successPolicy") not in (None, "", "AllWorkers"):
        return "InvalidSuccessPolicy", f"job {name} has successPolicy {spec['successPolicy']}, which must be empty or AllWorkers"
    return None


def _queue(job: Obj, queues: set[str]) -> tuple[str, str] | None:
    policy = (job["spec"].get("runPolicy") or {}).get("schedulingPolicy")
    if policy is None or policy.get("queue") in queues:
        return None
    queue = policy.get("queue") or ""
    return "InvalidQueue", f'check queue<{queue}> failed, err: queues.scheduling.volcano.sh "{queue}" not found, maybe it is not create'


def _types(job: Obj) -> tuple[str, str] | None:
    framework = objects.labels_of(job).get(objects.FRAMEWORK)
    if not framework:
        return "InvalidFramework", f"framework label is not set, please set label {objects.FRAMEWORK} as one of <{','.join(LEADERS)}>"
    if framework not in LEADERS:
        return "InvalidFramework", f"framework {framework} is not supported, it must be one of <{','.join(LEADERS)}>"
    for kind in job["spec"]["replicaSpecs"]:
        if kind not in (LEADERS[framework], "Worker"):
            return "InvalidReplicaType", f"replica type {kind} does not go with framework {framework}"
    return None


def _replicas(job: Obj) -> tuple[str, str] | None:
    for kind, spec in job["spec"]["replicaSpecs"].items():
        count = objects.count_of(spec)
        if (kind != "Worker" and count != 1) or not 0 <= count <= 20000:
            return "InvalidReplicaSpec", f"replica type {kind} cannot have {count} replicas"
        containers = ((spec.get("template") or {}).get("spec") or {}).get("containers") or []
        if not any(row.get("name") == objects.CONTAINER and row.get("image") for row in containers):
            return "InvalidContainer", f"replica type {kind} has no container {objects.CONTAINER} with an image"
    return None
