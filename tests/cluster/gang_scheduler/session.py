# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One session of the scheduler on what the cluster holds at its start. Pure functions; nothing is written here."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from ..kube_client import Key, Obj, key_of
from . import placing, resources
from .resources import Amounts

SCHEDULER = "volcano"
GROUP_NAME = "scheduling.k8s.io/group-name"
PENDING, INQUEUE, RUNNING, UNKNOWN, COMPLETED = "Pending", "Inqueue", "Running", "Unknown", "Completed"
WAITING = ("", PENDING)
OVER = ("Succeeded", "Failed")
SCHEDULABLE, UNSCHEDULABLE = "Schedulable", "Unschedulable"


def group_of(pod: Obj) -> str:
    """The name of a pod's PodGroup; empty when it has none."""
    return str((pod["metadata"].get("annotations") or {}).get(GROUP_NAME) or "")


def is_ours(pod: Obj) -> bool:
    """Whether this scheduler places the pod."""
    return bool(pod["spec"].get("schedulerName") == SCHEDULER)


def is_placed(pod: Obj) -> bool:
    """It has a node and is neither over nor going."""
    return bool(pod["spec"].get("nodeName")) and _lives(pod)


def waits(pod: Obj) -> bool:
    """It has no node and is not going."""
    return not pod["spec"].get("nodeName") and _lives(pod)


def _lives(pod: Obj) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and phase_of(pod) not in OVER


def phase_of(obj: Obj) -> str:
    """status.phase of a pod or PodGroup, empty when it has none yet."""
    return str((obj.get("status") or {}).get("phase") or "")


@dataclasses.dataclass
class Group:
    """A PodGroup and its pods."""

    obj: Obj
    pods: list[Obj]
    phase: str
    ready: bool = False
    """Whether ``minMember`` of its pods have a node when the session ends."""
    message: str = ""

    @property
    def minimum(self) -> int:
        """How many pods start together."""
        return int((self.obj.get("spec") or {}).get("minMember") or 0)

    @property
    def needs(self) -> Amounts:
        """The resources without which it is not let in."""
        return resources.amounts((self.obj.get("spec") or {}).get("minResources"))

    def having(self, phase: str) -> int:
        """How many pods are in a phase (a pod that is going runs no longer)."""
        return sum(phase_of(pod) == phase and (phase in OVER or is_placed(pod)) for pod in self.pods)

    def placed(self) -> list[Obj]:
        """The pods that had a node when the session began."""
        return [pod for pod in self.pods if is_placed(pod)]


class Session:
    """What there is; `run` works it off. Its results: ``binds`` and ``groups``, and ``complaints``: reason and text why a pod waits."""

    def __init__(self, nodes: Iterable[Obj], pods: Iterable[Obj], groups: Iterable[Obj] = (), *, enqueue_always: bool = False) -> None:
        self.nodes = {node["metadata"]["name"]: node for node in sorted(nodes, key=_natural)}
        self.enqueue_always = enqueue_always
        self.binds: list[tuple[Obj, str]] = []
        self.complaints: dict[Key, tuple[str, str]] = {}
        every = list(pods)
        self.ours = [pod for pod in every if is_ours(pod)]
        self.free = {name: resources.amounts((node.get("status") or {}).get("allocatable")) for name, node in self.nodes.items()}
        for pod in every:
            where = pod["spec"].get("nodeName")
            if where in self.free and phase_of(pod) not in OVER:
                self.free[where] = resources.minus(self.free[where], resources.of_pod(pod))
        members: dict[Key, list[Obj]] = {}
        for pod in self.ours:
            members.setdefault((pod["metadata"]["namespace"], group_of(pod)), []).append(pod)
        self.groups = [Group(obj, members.get(key_of(obj), []), phase_of(obj)) for obj in sorted(groups, key=_age)]
        self._keys = {key_of(group.obj) for group in self.groups}

    def run(self) -> None:
        """A whole session."""
        self.enqueue()
        self.place_singles()
        for group in self.groups:
            self._allocate(group)
        for group in self.groups:
            group.phase = _phase(group)

    def enqueue(self) -> None:
        """Let PodGroups in, the oldest first, as far as the capacity of the whole cluster reaches.

        Pods that outlive their PodGroup are forgotten here, although their nodes are not free.
        """
        capacity = resources.total(resources.amounts((node.get("status") or {}).get("allocatable")) for node in self.nodes.values())
        counted = [pod for pod in self.ours if is_placed(pod) and self._has_group(pod)]
        taken = resources.total(resources.of_template(pod["spec"]) for pod in counted)
        promised = [taken, *(_promised(group) for group in self.groups if group.phase not in WAITING)]
        left = resources.minus(capacity, resources.total(promised))
        for group in self.groups:
            if group.phase not in WAITING:
                continue
            missing = resources.short_of(group.needs, left)
            if missing and not self.enqueue_always:
                group.phase = PENDING
                group.message = f"queue resource quota insufficient: insufficient {', '.join(missing)}"
            else:
                group.phase = INQUEUE
                left = resources.minus(left, group.needs)

    def _has_group(self, pod: Obj) -> bool:
        """Whether its PodGroup exists; where it names none, Volcano would have made one."""
        return not group_of(pod) or (pod["metadata"]["namespace"], group_of(pod)) in self._keys

    def place_singles(self) -> None:
        """Bind pods that have no PodGroup."""
        for pod in sorted(self.ours, key=_age):
            if waits(pod) and not group_of(pod):
                self._place(pod)

    def _allocate(self, group: Group) -> None:
        """Bind all waiting pods of a PodGroup, if enough of them find a place."""
        have = len(group.placed()) + group.having("Succeeded")
        before, start = {name: dict(row) for name, row in self.free.items()}, len(self.binds)
        if group.phase not in WAITING:
            for pod in sorted(group.pods, key=_age):
                if waits(pod):
                    self._place(pod)
        group.ready = have + len(self.binds) - start >= group.minimum
        if not group.ready:
            for pod, node in self.binds[start:]:
                namespace, name = key_of(pod)
                told = f"Pod {namespace}/{name} can possibly be assigned to {node}, once minAvailable is satisfied"
                self.complaints[namespace, name] = SCHEDULABLE, told
            self.free = before
            del self.binds[start:]
            count = sum(map(waits, group.pods))
            group.message = (
                group.message or f"{count}/{count} tasks in gang unschedulable: pod group is not ready, minAvailable {group.minimum}"
            )

    def _place(self, pod: Obj) -> None:
        node, complaint = placing.choose(pod, self.nodes, self.free)
        if node:
            self.free[node] = resources.minus(self.free[node], resources.of_pod(pod))
            self.binds.append((pod, node))
        else:
            self.complaints[key_of(pod)] = UNSCHEDULABLE, complaint


def _promised(group: Group) -> Amounts:
    """What is kept for a PodGroup that was let in beyond what its pods have."""
    return resources.minus(group.needs, resources.total(resources.of_template(pod["spec"]) for pod in group.placed()))


def _phase(group: Group) -> str:
    """The phase when the session ends, by its pods as they were when it began."""
    done = group.having("Succeeded")
    if group.having("Running") and not group.ready:
        return UNKNOWN
    if len(group.placed()) + done >= max(1, group.minimum):
        return COMPLETED if done and done == len(group.pods) else RUNNING
    return group.phase if group.phase == INQUEUE else PENDING


def _age(obj: Obj) -> tuple[str, Key]:
    return obj["metadata"].get("creationTimestamp", ""), key_of(obj)


def _natural(node: Obj) -> tuple[str, int, str]:
    """``a3-2`` before ``a3-10``."""
    name = node["metadata"]["name"]
    head, dummy, tail = name.rpartition("-")
    return (head, int(tail), name) if tail.isdigit() else (name, 0, name)


def status(group: Group, transition: str, now: str) -> Obj:
    """The new status of a PodGroup. A condition is added or changed, never taken back."""
    old: Mapping[str, object] = group.obj.get("status") or {}
    new: Obj = {**old, "phase": group.phase}
    for name, phase in (("running", "Running"), ("succeeded", "Succeeded"), ("failed", "Failed")):
        count = group.having(phase)
        if count or name in new:
            new[name] = count
    conditions = list(new.get("conditions") or [])
    wanted = _condition(group)
    before: Obj = next((row for row in conditions if row["type"] == wanted["type"]), {})
    if any(before.get(name) != value for name, value in wanted.items()):
        wanted.update(lastTransitionTime=now, transitionID=transition)
        new["conditions"] = [*(row for row in conditions if row["type"] != wanted["type"]), wanted]
    return new


def _condition(group: Group) -> Obj:
    if group.ready:
        return {"type": "Scheduled", "status": "True", "reason": "tasks in gang are ready to be scheduled"}
    return {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": group.message}
