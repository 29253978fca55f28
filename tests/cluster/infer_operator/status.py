# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the status of InferServiceSet, InferService and InstanceSet says. Pure, but for the time of a condition."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from ..kube_client import Obj


def now() -> str:
    """The time as Kubernetes writes it, in whole seconds."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def is_ready(obj: Obj) -> bool:
    """Whether the condition Ready of an object (also a Node or a Pod) is True."""
    conditions: Sequence[Obj] = obj.get("status", {}).get("conditions") or ()
    return any(row["type"] == "Ready" and row["status"] == "True" for row in conditions)


def ready_status(obj: Obj, replicas: int, ready: int, reason: str, what: str, *, none_is_ready: bool = True) -> Obj:
    """The new status. ``reason`` and ``what`` word the condition when all are ready; otherwise it says how many are."""
    old: Obj = obj.get("status", {})
    condition: Obj = {"type": "Ready", "status": "True", "reason": reason, "message": f"All {what} replicas are ready"}
    if ready < replicas or (replicas == 0 and not none_is_ready):
        message = f"{ready} of {replicas} {what} replicas are ready"
        condition = {"type": "Ready", "status": "False", "reason": "ReplicasNotReady", "message": message}
    before: Obj = next((row for row in old.get("conditions") or () if row["type"] == "Ready"), {})
    changed = before.get("status") != condition["status"]
    condition["lastTransitionTime"] = now() if changed else before["lastTransitionTime"]
    return {
        "observedGeneration": obj["metadata"]["generation"],
        "replicas": replicas,
        "readyReplicas": ready,
        "conditions": [condition],
    }


def workload_ready(workload: Obj) -> bool:
    """A Deployment or StatefulSet that is up to date, complete and in no roll-out."""
    wanted = workload["spec"].get("replicas", 1)
    status: Obj = workload.get("status", {})
    if status.get("observedGeneration", 0) < workload["metadata"]["generation"]:
        return False
    if status.get("readyReplicas", 0) != wanted or status.get("updatedReplicas", 0) != wanted:
        return False
    if workload["kind"] == "StatefulSet":
        current, update = status.get("currentRevision", ""), status.get("updateRevision", "")
        return not (current and update and current != update)
    true = {row["type"] for row in status.get("conditions") or () if row["status"] == "True"}
    return status.get("availableReplicas", 0) == wanted and {"Available", "Progressing"} <= true
