# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A service as it is shown: to whoever asks with a module, to the watcher's page, to its metrics.

Works on objects that are cut (`kept.py`) as on whole ones. What takes longer, as it looks at all servers and all jobs of a rule, is in
`overview_details.task_details`; `overview_details.service_report` has both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from . import drift, job_facts
from . import pods as pod_facts
from . import servers as server_facts
from .capacity_model import Server, Shape
from .guard import unfinished_verb
from .hardware import SUPER_POD_BLOCK
from .job_facts import GROUP_LABEL
from .overview_tasks import tasks_view
from .ownership import JOB_APP
from .record import HOLD_ANNOTATION, intent_of
from .shortage import Room
from .state import ControlRole, Instance, Object, Snapshot, instance_of, settled_backend
from .stored import baseline_counts

PENDING, STARTING = "pending", "starting"


def service_view(snapshot: Snapshot, *, servers: Sequence[Server] | None = None) -> dict[str, Any]:
    """The state of a service as plain data: instances with reasons, control roles, drift, lock, and its tasks under scaling rules.

    `servers` (`servers.servers` of all nodes and pods that are known) tell how much is missing for what waits; None: not known.
    """
    snapshot = settled_backend(snapshot)
    state, found = drift.assess(snapshot)
    instances = _explained(snapshot, state.instances)
    instances = _with_amounts(snapshot, instances, servers) if servers is not None else instances
    groups = {job["metadata"]["name"]: _labels(job).get(GROUP_LABEL, "") for job in snapshot.jobs}
    control = tuple(replace(role, reason=_why_no_pods(snapshot, role)) if not role.pods else role for role in state.control)
    return {
        **replace(state, instances=tuple(instances), control=control).to_dict(),
        "instances": [{**item.to_dict(), "group": groups.get(item.name, "")} for item in instances],
        "hold": HOLD_ANNOTATION in _annotations(snapshot.config_map),
        "hold_text": str(_annotations(snapshot.config_map).get(HOLD_ANNOTATION) or ""),
        "unfinished": unfinished_verb(snapshot) or "",
        "lock": _lock(snapshot),
        "baseline": baseline_counts(snapshot.config_map),
        "drift": found.to_dict(),
        "tasks": tasks_view(snapshot),
    }


def _why_no_pods(snapshot: Snapshot, role: ControlRole) -> str:
    """Why a control role has no pods, as its AscendJob tells."""
    if snapshot.backend != job_facts.BACKEND:
        return role.reason
    jobs = sorted((job for job in snapshot.jobs if _labels(job).get("app") == JOB_APP.get(role.name)), key=_name)
    census = job_facts.Census(snapshot.pod_groups, snapshot.rule_named)
    told = [fact.verdict[1] for fact in job_facts.facts(jobs, census, ()) if fact.job is not None and fact.verdict]
    return "; ".join(told) or ("it is being deleted" if jobs else "its AscendJob is not there")


def _lock(snapshot: Snapshot) -> dict[str, str] | None:
    spec = (snapshot.lease or {}).get("spec") or {}
    if not spec.get("holderIdentity"):
        return None
    verb = (intent_of(snapshot.lease) or {}).get("verb", "")
    return {"holder": str(spec["holderIdentity"]), "verb": str(verb), "since": str(spec.get("acquireTime") or "")}


def _explained(snapshot: Snapshot, instances: Sequence[Instance]) -> tuple[Instance, ...]:
    """The instances, with what is behind it when one has been starting for long: pods that the server refuses."""
    if not any(item.state == STARTING for item in instances):
        return tuple(instances)
    notes: dict[str, str] = {}
    for deployment in snapshot.deployments:
        refused = _refused(deployment)
        if refused:
            notes[deployment["metadata"]["name"]] = f"its Deployment cannot make pods: {refused}"
    return tuple(
        replace(item, reason=f"{item.reason}; {note}") if item.state == STARTING and (note := notes.get(item.name)) else item
        for item in instances
    )


def _refused(deployment: Object) -> str:
    conditions = (deployment.get("status") or {}).get("conditions") or ()
    found: Object = next((row for row in conditions if row.get("type") == "ReplicaFailure" and row.get("status") == "True"), {})
    return str(found.get("message") or "")


def _with_amounts(snapshot: Snapshot, instances: Sequence[Instance], servers: Sequence[Server]) -> tuple[Instance, ...]:
    """The instances, with how much is missing in the reason of those that wait."""
    if not any(item.state == PENDING for item in instances):
        return tuple(instances)
    room = Room(servers, server_facts.enqueued(snapshot.pod_groups, snapshot.pods))
    shapes = dict(_waiting(snapshot, instances))
    return tuple(replace(item, reason=_reason(item, room, shapes[item.name])) if item.name in shapes else item for item in instances)


def _waiting(snapshot: Snapshot, instances: Sequence[Instance]) -> Iterator[tuple[str, Shape]]:
    """What each instance that waits still needs: the pods that no server has yet."""
    bound = Counter(instance_of(snapshot, pod) for pod in snapshot.pods if pod_facts.node_of(pod) and not pod_facts.is_leaving(pod))
    blocks = {job["metadata"]["name"]: str(_annotations(job).get(SUPER_POD_BLOCK, "")) for job in snapshot.jobs}
    for item in instances:
        if item.state == PENDING and item.pods and item.npus:
            block = blocks.get(item.name, "")
            pods = max(0, item.pods - bound[item.engine_role, item.index])
            yield item.name, Shape("", 0, pods, -(-item.npus // item.pods), int(block) if block.isdecimal() else 0)


def _reason(item: Instance, room: Room, shape: Shape) -> str:
    lacking = room.lacking(shape)
    if item.reason != job_facts.PENDING_REASON:
        return f"{item.reason.rstrip('.')}; it {lacking}" if lacking else item.reason
    why = f"it {lacking}" if lacking else room.reserved(shape, item.name)
    return f"its PodGroup is Pending: {why or 'there is room for it, so its queue may not be open, or Volcano has not looked yet'}"


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def _annotations(obj: Object | None) -> Mapping[str, str]:
    return (obj or {}).get("metadata", {}).get("annotations") or {}


def _labels(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}
