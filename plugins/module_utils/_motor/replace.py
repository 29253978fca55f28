# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rolling replacement: outdated workloads give way to new ones, one instance per engine role at a time.

NPU nodes are full, so nothing surges: delete, wait until the pods are gone, create, wait until Ready. Engine instances come first:
a new image that does not start costs one instance per engine role, and the control roles still serve with the others.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import ascend_jobs, generation, infer_service_set
from . import pods as pod_facts
from .compare import differences, merged
from .converge import OTHER_START, Outdated, marked
from .instances import ENGINE_ROLES, parse_instance_name
from .job_facts import BACKEND as JOBS
from .manifests.identity import keep_identity
from .ownership import CONTROL_APP, CONTROL_ROLES, JOB_APP
from .plan import ABSENT, GONE, KNOWN, RUNNING, Step, Subject, create, delete, update
from .rank_tables import rank_table
from .state import INFER_LABEL, Snapshot, is_deleted
from .workloads import ASCEND_JOB, pod_count, pod_labels

# A standby pod is never Ready, so a rollout that surges waits for ever: the standby pod gives way first, then the master.
_STANDBY_STRATEGY = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}


def outdated_children(snapshot: Snapshot, infer_set: Mapping[str, Any] | None, value: str) -> tuple[Outdated, ...]:
    """Workloads of the Infer Operator that were made for something else than what the set (as it is going to be) says.

    The operator never updates what runs, and never says what it was made from: the generation and the pod template are compared.
    """
    unmarked = generation.of_baseline(snapshot.config_map)
    roles = {role["name"]: role for role in ((infer_set or {}).get("spec") or {}).get("template", {}).get("roles") or ()}
    found = []
    for live in snapshot.workloads:
        role = roles.get((live["metadata"].get("labels") or {}).get(f"{INFER_LABEL}instanceset-name", ""))
        if role is None:
            continue
        wanted = infer_service_set.child(role, live)
        paths = tuple(path for path in differences(wanted, live) if path.startswith("spec"))
        if generation.is_other(live["metadata"], unmarked, value):
            paths = (OTHER_START, *paths)
        if paths or is_deleted(live):
            found.append(Outdated(live, paths or ("deletionTimestamp",), wanted))
    return tuple(found)


def steps(snapshot: Snapshot, outdated: Sequence[Outdated], fresh: Iterable[Subject], value: str) -> tuple[Step, ...]:
    """The rounds. `fresh` are instances that are new already but not yet running: the next one goes only when they run."""
    if not outdated:
        return ()
    waiting = tuple(fresh)
    # What is deleted before the operator has taken the change over comes back as it was.
    found = [Step("wait for the operator to take the change over", until=KNOWN, always=True)] if _in_set(snapshot) else []
    found += [Step("wait for instances that are new already", until=RUNNING, subjects=waiting, always=True)] if waiting else []
    engines: dict[str, list[Outdated]] = {}
    control = []
    for item in outdated:
        role = _engine_role(snapshot, item)
        if role:
            engines.setdefault(role, []).append(item)
        else:
            control.append(item)
    queues = [sorted(items, key=lambda item: _urgency(snapshot, item)) for items in engines.values()]
    for batch in itertools.zip_longest(*queues):
        found.extend(_swap(snapshot, [item for item in batch if item], value))
    for item in control:
        found.extend(_standby(snapshot, item, value) if _is_standby(item.live) else _swap(snapshot, [item], value))
    return tuple(found)


def unfinished_rollouts(snapshot: Snapshot, outdated: Iterable[Outdated]) -> tuple[Step, ...]:
    """Standby pairs that were left between their two halves: the master is the old pod, the new one waits for it to go."""
    left_out = {item.name for item in outdated}
    found = []
    for live in (*snapshot.own_workloads, *snapshot.workloads):
        if live["metadata"]["name"] in left_out or not _is_standby(live):
            continue
        pods = subject_pods(snapshot, subject(live))
        newest = max(pods, key=lambda pod: pod["metadata"].get("creationTimestamp") or "", default=None)
        old = [pod for pod in pods if newest and pod_facts.template_hash(pod) != pod_facts.template_hash(newest)]
        masters = [pod for pod in old if pod_facts.is_ready(pod)]
        if masters:
            found.append(_retire(live, masters, pod_facts.template_hash(masters[0])))
    return tuple(found)


def subject(workload: Mapping[str, Any]) -> Subject:
    """What has to be Ready of a workload: all its pods, of a standby pair one."""
    labels = pod_labels(workload)
    own = {key: item for key, item in (workload["metadata"].get("labels") or {}).items() if key.startswith(INFER_LABEL + "instanceset-")}
    pods = pod_count(workload)
    control = _control_role(workload)
    return Subject(control or workload["metadata"]["name"], own or labels, min(pods, 1) if control else pods)


def subject_pods(snapshot: Snapshot, wanted: Subject) -> list[Mapping[str, Any]]:
    """The pods of a subject that stay."""
    return [pod for pod in snapshot.pods if wanted.has(pod) and not pod_facts.is_leaving(pod)]


def _swap(snapshot: Snapshot, batch: Sequence[Outdated], value: str) -> list[Step]:
    """Out with the old, in with the new; the Infer Operator makes the new ones by itself."""
    names = ", ".join(item.name for item in batch)
    subjects = tuple(subject(item.wanted or item.live) for item in batch)
    if _in_set(snapshot):
        writes = tuple(delete(item.live["kind"], item.live, _why(item), "Foreground") for item in batch)
        return [Step(f"replace {names}", writes, until=RUNNING, subjects=subjects, always=True)]
    coming = tuple(create(_successor(snapshot, item, value), _why(item)) for item in batch)
    start = Step(f"start {names} anew", coming, until=RUNNING, subjects=subjects, always=True)
    if snapshot.backend == JOBS:
        return [*_stop_jobs(snapshot, batch, names), start]
    engines = all(_engine_role(snapshot, item) for item in batch)
    going = tuple(delete(item.live["kind"], item.live, _why(item), "Background" if engines else "Foreground") for item in batch)
    return [Step(f"stop {names}", going, until=GONE if engines else ABSENT, always=True), start]


def _stop_jobs(snapshot: Snapshot, batch: Sequence[Outdated], names: str) -> list[Step]:
    """A job goes with its rank table. In the foreground the operator might make pods anew. The name of an instance is free when its
    pods and its PodGroup are gone: a PodGroup that is left holds NPUs, and counts as an instance that runs.
    """
    going = [delete(ASCEND_JOB, item.live, _why(item)) for item in batch]
    tables = [table for item in batch for table in ascend_jobs.delete_rank_table(snapshot, item.name, _why(item))]
    roles = [(item, _engine_role(snapshot, item)) for item in batch]
    if all(role for dummy, role in roles):
        stop = Step(f"stop {names}", (*going, *tables), until=GONE, always=True)
    else:
        old = tuple(Subject(subject(item.live).name, pod_labels(item.live)) for item in batch)
        stop = Step(f"stop {names}", tuple(going), until=RUNNING, subjects=old, always=True)
    new = tuple(create(rank_table(item.wanted or item.live, role), _why(item)) for item, role in roles if role)
    return [stop, *([Step(f"rank tables of {names}", new)] if new else [])]


def _successor(snapshot: Snapshot, item: Outdated, value: str) -> Mapping[str, Any]:
    """Control pods keep JOB_NAME, which names their lock and their state; a changed engine instance is a new one to the controller."""
    wanted = item.wanted or item.live
    return marked(wanted if _engine_role(snapshot, item) else keep_identity(wanted, item.live), value)


def _standby(snapshot: Snapshot, item: Outdated, value: str) -> list[Step]:
    live = item.live
    wanted = copy.deepcopy(dict(marked(keep_identity(item.wanted or live, live), value)))
    wanted["spec"]["strategy"] = _STANDBY_STRATEGY
    pods = subject_pods(snapshot, subject(live))
    old = pod_facts.template_hash(pods[0]) if pods else ""
    first = Step(
        f"replace the standby pod of {item.name}",
        (update(merged(wanted, live), _why(item)),),
        until=RUNNING,
        subjects=(Subject(subject(live).name, subject(live).labels, 0, started=1, old=old, but_ready=True),) if pods else (),
        always=True,
    )
    masters = [pod for pod in pods if pod_facts.is_ready(pod)]
    return [first, *([_retire(live, masters, old)] if masters else [])]


def _retire(live: Mapping[str, Any], masters: Sequence[Mapping[str, Any]], old: str) -> Step:
    name = subject(live).name
    writes = tuple(delete("Pod", pod, f"the master of {name} gives way to the new standby pod") for pod in masters)
    wanted = Subject(name, subject(live).labels, 1, old=old)
    return Step(f"replace the master pod of {name}", writes, until=RUNNING, subjects=(wanted,), always=True)


def _is_standby(live: Mapping[str, Any]) -> bool:
    return bool(_control_role(live)) and live["kind"] == "Deployment" and int(live["spec"].get("replicas", 1)) > 1


def _control_role(workload: Mapping[str, Any]) -> str:
    """`controller` or `coordinator`, else ""."""
    own = (workload["metadata"].get("labels") or {}).get(f"{INFER_LABEL}instanceset-name", "")
    by_name = {app: role for apps in (CONTROL_APP, JOB_APP) for role, app in apps.items()}
    return own if own in CONTROL_ROLES else by_name.get(workload["metadata"]["name"], "")


def _in_set(snapshot: Snapshot) -> bool:
    return snapshot.backend == "infer_service_set"


def _engine_role(snapshot: Snapshot, item: Outdated) -> str | None:
    if _in_set(snapshot):
        role = (item.live["metadata"].get("labels") or {}).get(f"{INFER_LABEL}instanceset-name")
        return role if role in ENGINE_ROLES else None
    parsed = parse_instance_name(item.name, snapshot.base_name)
    return parsed[0] if parsed else None


def _urgency(snapshot: Snapshot, item: Outdated) -> tuple[int, int]:
    """What does not run goes first (it serves nobody), then the highest index."""
    wanted = subject(item.live)
    ready = sum(pod_facts.is_ready(pod) for pod in subject_pods(snapshot, wanted))
    running = ready >= wanted.ready and not is_deleted(item.live)
    digits = item.name[len(item.name.rstrip("0123456789")) :]
    return (int(running), -int(digits or 0))


def _why(item: Outdated) -> str:
    return f"replaced, because {item.why or ', '.join(item.paths) + ' differs'}"


def is_starting(snapshot: Snapshot, workload: Mapping[str, Any]) -> bool:
    """True for a workload that does not run yet."""
    wanted = subject(workload)
    return sum(pod_facts.is_ready(pod) for pod in subject_pods(snapshot, wanted)) < wanted.ready
