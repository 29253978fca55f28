# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps an instance from running and does not end by itself, and when that ends a wait before its deadline."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from . import pods as pod_facts
from .instances import ENGINE_ROLES, parse_instance_name
from .plan import Plan
from .record import APPLIED, DEPLOYER, applied_of, standing
from .state import Instance, Object, ServiceState, Snapshot, control_apps, instance_name_of, instance_pods, service_state
from .workloads import ASCEND_JOB, template_labels

# Kinds of symptoms besides those of pods.
REFUSED, PROGRESS = "refused", "progress"
# Why the server refuses pods may pass: a quota is counted again only some time after other pods are gone.
REFUSED_SECONDS = 15.0
# What was there before this run may be about to run, the cause being corrected: it is tried again after a pause that grows to five minutes.
OLD_SECONDS = 330.0
# Instances that fail alike are told together.
TOGETHER_SECONDS = 1.0

# What the state of an instance without pods means: its AscendJob has failed, or waits for NPUs.
_WITHOUT_PODS = {"failed": pod_facts.FAILED, "pending": pod_facts.UNSCHEDULABLE}

Key = tuple[str, str]


@dataclass(frozen=True)
class Symptom:
    """Something lasting that keeps `name` from running. `index` is None for a control role, whose name is also its `engine_role`."""

    name: str
    engine_role: str
    index: int | None
    kind: str
    reason: str

    @property
    def key(self) -> Key:
        """By this a symptom is the same one at two times."""
        return self.name, self.kind

    def to_dict(self) -> dict[str, Any]:
        """Plain data for results."""
        return {"name": self.name, "engine_role": self.engine_role, "index": self.index, "reason": self.reason}


@dataclass(frozen=True)
class Workloads:
    """Deployments and StatefulSets as last read, and Events that say why a workload cannot make its pods."""

    objects: tuple[Object, ...] = ()
    events: tuple[Object, ...] = ()


def symptoms(snapshot: Snapshot, workloads: Workloads) -> tuple[Symptom, ...]:
    """All lasting troubles of instances that are to stay, and of control roles without a ready pod."""
    state = service_state(snapshot)
    by_instance = _pods_by_instance(snapshot)
    found = [_of_instance(instance, by_instance.get(instance.name, []), workloads) for instance in _not_running(state)]
    apps = control_apps(snapshot)
    for role in state.control:
        if not role.pods_ready:
            pods = [pod for pod in snapshot.pods if _app(pod) == apps[role.name] and not pod_facts.is_leaving(pod)]
            found.append(_of_control(role.name, apps[role.name], pods, workloads))
    return tuple(symptom for symptom in found if symptom)


@dataclass(frozen=True)
class Scope:
    """What a run is about, by names of instances and control roles. `old` were there before, and the run does not touch them;
    of these, `spared` are no business of the run: their troubles do not end it.
    """

    old: frozenset[str] = frozenset()
    spared: frozenset[str] = frozenset()


EVERYTHING = Scope()


def scope(before: Snapshot, plan: Plan) -> Scope:
    """The scope of a run that carries out `plan`, made for `before`.

    Of the instances that are there, those of the last record of success are the oldest; the rest belong to a change that has
    not ended. Control roles count when this run makes them, or when the service was never reached in full.
    """
    state, as_recorded = service_state(before), standing(before.config_map) in (APPLIED, DEPLOYER)
    touched = {write.name for step in plan.steps for write in step.writes if write.kind in ("Deployment", "StatefulSet", ASCEND_JOB)}
    touched.update(subject.name for step in plan.steps for subject in step.subjects)
    born = _births(before)
    kept: set[str] = set()
    for engine_role, count in _recorded(before, state).items():
        oldest = sorted(state.live(engine_role), key=lambda instance: (born.get(instance.name, "~"), instance.index))
        kept.update(instance.name for instance in oldest[:count])
    there = {instance.name for engine_role in ENGINE_ROLES for instance in state.live(engine_role)}
    if not _makes_control(before, plan):
        there.update(role.name for role in state.control if role.pods)
        kept.update(role.name for role in state.control if as_recorded)
    return Scope(frozenset(there - touched), frozenset(kept - touched))


def terminal(found: Iterable[Symptom], ages: Mapping[Key, float], about: Scope, unschedulable_seconds: float) -> tuple[Symptom, ...]:
    """The symptoms that end the wait. `ages` are seconds since each was first seen without a break."""
    mine = (symptom for symptom in found if symptom.name not in about.spared)
    return tuple(symptom for symptom in mine if ages[symptom.key] >= _lasting(symptom, about, unschedulable_seconds))


def _lasting(symptom: Symptom, about: Scope, unschedulable_seconds: float) -> float:
    """How many seconds a symptom must be seen before it ends the wait."""
    if symptom.kind == pod_facts.UNSCHEDULABLE:
        return unschedulable_seconds
    if symptom.name in about.old:
        # A deadline for progress that passed in an earlier run says nothing of this one.
        return math.inf if symptom.kind == PROGRESS else OLD_SECONDS
    return REFUSED_SECONDS if symptom.kind == REFUSED else 0.0


def _not_running(state: ServiceState) -> list[Instance]:
    """Instances that are to run. What an autoscaler makes and takes away is its own business."""
    others = ("running", "terminating", "foreign", "missing", "surplus")
    return [item for item in state.instances if item.state not in others and item.engine_role not in state.owners]


def _pods_by_instance(snapshot: Snapshot) -> dict[str, list[Object]]:
    found: dict[str, list[Object]] = defaultdict(list)
    if snapshot.backend == "infer_service_set":
        state = service_state(snapshot)
        by_key = instance_pods(snapshot)
        found.update({item.name: by_key.get((item.engine_role, item.index), []) for item in state.instances})
    else:
        for pod in snapshot.pods:
            found[instance_name_of(snapshot, pod)].append(pod)
    return {name: [pod for pod in pods if not pod_facts.is_leaving(pod)] for name, pods in found.items()}


def _of_instance(instance: Instance, pods: list[Object], workloads: Workloads) -> Symptom | None:
    """An instance runs only when all its pods do, so one that cannot is enough. An AscendJob that has failed never comes back."""
    name = instance.name
    if not pods and instance.state in _WITHOUT_PODS:
        return Symptom(name, instance.engine_role, instance.index, _WITHOUT_PODS[instance.state], instance.reason)
    for pod in pods:
        trouble = pod_facts.trouble(pod)
        if trouble and trouble.lasting:
            return Symptom(name, instance.engine_role, instance.index, trouble.lasting, trouble.reason)
    workload = next((item for item in workloads.objects if item["metadata"]["name"] == name), None)
    return of_workload(workload, pods, instance.pods, workloads.events, (name, instance.engine_role, instance.index))


def _of_control(name: str, app: str, pods: list[Object], workloads: Workloads) -> Symptom | None:
    """A control role works with one ready pod, so each of its pods has to be in trouble."""
    troubles = [pod_facts.trouble(pod) for pod in pods]
    lasting = [trouble for trouble in troubles if trouble and trouble.lasting]
    if lasting and len(lasting) == len(pods):
        return Symptom(name, name, None, lasting[0].lasting, lasting[0].reason)
    workload = next((item for item in workloads.objects if template_labels(item).get("app") == app), None)
    return of_workload(workload, pods, 1, workloads.events, (name, name, None))


def of_workload(
    workload: Object | None, pods: list[Object], wanted: int, events: tuple[Object, ...], who: tuple[str, str, int | None]
) -> Symptom | None:
    """Why a workload (of `who`: name, engine role and index of a symptom), which is to have so many pods, makes none or does not get on."""
    if workload is None:
        return None
    conditions = {item["type"]: item for item in (workload.get("status") or {}).get("conditions") or ()}
    failure, progress = conditions.get("ReplicaFailure") or {}, conditions.get("Progressing") or {}
    kind = workload["kind"]
    if len(pods) < wanted:
        said = str(failure.get("message") or "") if failure.get("status") == "True" else _said(workload, events)
        if "forbidden" in said:
            return Symptom(*who, REFUSED, f"{kind} {workload['metadata']['name']} cannot make its pods: {said}")
    late = progress.get("status") == "False" and progress.get("reason") == "ProgressDeadlineExceeded"
    # A model that takes long to load makes no progress that a Deployment could see; its startup probe gives it the time.
    if late and not any(map(pod_facts.is_starting_up, pods)):
        return Symptom(*who, PROGRESS, f"{kind} {workload['metadata']['name']}: ProgressDeadlineExceeded: {progress.get('message', '')}")
    return None


def _said(workload: Object, events: tuple[Object, ...]) -> str:
    """What the newest Event says of this very workload (by uid): a StatefulSet has no condition for it."""
    about = [event for event in events if (event.get("involvedObject") or {}).get("uid") == workload["metadata"].get("uid")]
    newest = max(about, key=lambda event: str(event.get("lastTimestamp") or ""), default=None)
    return str((newest or {}).get("message") or "")


def _recorded(before: Snapshot, state: ServiceState) -> Mapping[str, int]:
    """Counts that the service last reached in full."""
    if standing(before.config_map) == DEPLOYER:
        return state.counts()
    return (applied_of(before.config_map) or {}).get("counts") or {}


def _births(snapshot: Snapshot) -> dict[str, str]:
    """When each instance was made (RFC 3339), as the server says; without pods there is no time yet."""
    if snapshot.backend == "infer_service_set":
        pods = {name: [_created(pod) for pod in found] for name, found in _pods_by_instance(snapshot).items()}
        return {name: min(times) for name, times in pods.items() if times}
    return {item["metadata"]["name"]: _created(item) for item in snapshot.own_workloads}


def _makes_control(before: Snapshot, plan: Plan) -> bool:
    """True when the plan makes or changes a workload that is no engine instance."""
    for step in plan.steps:
        for write in step.writes:
            if write.kind == "InferServiceSet" and write.verb == "create":
                return True
            if (
                write.kind in ("Deployment", ASCEND_JOB)
                and write.verb != "delete"
                and not parse_instance_name(write.name, before.base_name)
            ):
                return True
    return False


def _created(obj: Object) -> str:
    return str(obj["metadata"].get("creationTimestamp") or "")


def _app(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get("app", ""))
