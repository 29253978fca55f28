# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a condition enters the status of an AscendJob: hardly ever as one expects. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable

from ..kube_client import Obj

CREATED, RUNNING, RESTARTING, SUCCEEDED, FAILED = "Created", "Running", "Restarting", "Succeeded", "Failed"


def rows(job: Obj) -> list[Obj]:
    """The conditions of a job."""
    return list((job.get("status") or {}).get("conditions") or [])


def holds(conditions: Iterable[Obj], kind: str) -> bool:
    """Whether a condition is there and true."""
    return any(row["type"] == kind and row["status"] == "True" for row in conditions)


def is_over(job: Obj) -> bool:
    """Failed or succeeded, for good."""
    return any(holds(rows(job), kind) for kind in (FAILED, SUCCEEDED))


def with_condition(old: list[Obj], kind: str, reason: str, message: str, now: str) -> list[Obj]:
    """The list with a true condition of this type at its end.

    Nothing happens once the job has failed, nor when the condition is there with the same reason: text and order stay. Running and Restarting
    replace each other; the end of a job makes Running false; nothing else takes a condition back.
    """
    before = next((row for row in old if row["type"] == kind), None)
    if holds(old, FAILED) or (before and before["status"] == "True" and before.get("reason") == reason):
        return old
    changed = before["lastTransitionTime"] if before and before["status"] == "True" else now
    replaced = {RUNNING: {RESTARTING}, RESTARTING: {RUNNING}}.get(kind, set()) | {kind}
    kept = [dict(row) for row in old if row["type"] not in replaced]
    if kind in (FAILED, SUCCEEDED):
        for row in kept:
            if row["type"] == RUNNING:
                row["status"] = "False"
    new = {"type": kind, "status": "True", "reason": reason, "message": message, "lastUpdateTime": now, "lastTransitionTime": changed}
    return [*kept, new]
