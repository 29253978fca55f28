# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts over a service: are the surplus instances gone, is the service as wanted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from . import infer_service_set
from . import pods as pod_facts
from .plan import Subject
from .state import ServiceState, Snapshot, service_pods, service_state


@dataclass(frozen=True)
class Verdict:
    """`seen` says in words what is still missing (empty when `done`). `mark` changes whenever what was seen changes.
    `may_flap`: the operator may tear down what it just built, so a finished state counts only when it stays.
    """

    done: bool
    seen: str
    mark: tuple[str, ...] = ()
    may_flap: bool = False


Judge = Callable[[Snapshot, Mapping[str, int]], Verdict]


def gone(snapshot: Snapshot, wanted: Mapping[str, int]) -> Verdict:
    """Every pod of an instance that leaves is gone, so that its NPUs are free. Nobody's health matters."""
    state = service_state(snapshot)
    leaving = [f"{instance.name} ({instance.reason})" for instance in state.leaving()]
    return Verdict(not leaving, "still stopping: " + ", ".join(leaving) if leaving else "")


def reduced(snapshot: Snapshot, wanted: Mapping[str, int]) -> Verdict:
    """As `gone`, and for good: the InstanceSets have no more instances than wanted."""
    seen = gone(snapshot, wanted)
    if not seen.done or snapshot.backend != "infer_service_set":
        return seen
    reason = infer_service_set.unreduced(snapshot, _without_owned(service_state(snapshot), wanted))
    return Verdict(not reason, reason)


def present(subjects: Sequence[Subject], stale: Collection[str]) -> Judge:
    """A judge: of each subject enough new pods run, and none of the old ones (`stale`: their uids) is left."""

    def judge(snapshot: Snapshot, wanted: Mapping[str, int]) -> Verdict:
        problems = [problem for subject in subjects for problem in _missing(subject, snapshot, stale)]
        return Verdict(not problems, "; ".join(problems))

    return judge


def _missing(subject: Subject, snapshot: Snapshot, stale: Collection[str]) -> list[str]:
    pods = [pod for pod in snapshot.pods if subject.has(pod)]
    old = [pod for pod in pods if pod["metadata"].get("uid") in stale or (subject.old and pod_facts.template_hash(pod) == subject.old)]
    new = [pod for pod in pods if pod not in old and not pod_facts.is_leaving(pod)]
    left = [pod for pod in old if not (subject.but_ready and pod_facts.is_ready(pod))]
    ready = sum(pod_facts.is_ready(pod) for pod in new)
    troubles = [trouble.reason for trouble in map(pod_facts.trouble, new) if trouble]
    problems = [f"{len(left)} old pods of {subject.name} left"] if left else []
    if ready < subject.ready:
        problems.append(f"{subject.name}: {troubles[0] if troubles else f'{ready} of {subject.ready} pods ready'}")
    elif sum(pod_facts.has_started(pod) for pod in new) < subject.started:
        problems.append(f"{subject.name}: {troubles[0] if troubles else 'the new pod has not started'}")
    return problems


def known(snapshot: Snapshot, wanted: Mapping[str, int]) -> Verdict:
    """The Infer Operator works by what its set says now."""
    reason = infer_service_set.unknown(snapshot)
    return Verdict(not reason, reason)


def no_pods(snapshot: Snapshot, wanted: Mapping[str, int]) -> Verdict:
    """No pod of the service is left."""
    names = sorted(pod["metadata"]["name"] for pod in service_pods(snapshot))
    return Verdict(not names, f"{len(names)} pods left: {', '.join(names[:8])}" if names else "")


def settled(snapshot: Snapshot, wanted: Mapping[str, int]) -> Verdict:
    """All wanted instances run, nothing is leaving, and each control role has a ready pod (a standby pod never is).

    An autoscaler may change its own count at any time, so of its instances only as many have to run as there were to be,
    or as it has left.
    """
    state = service_state(snapshot)
    ours = _without_owned(state, wanted)
    problems = [*_unready_instances(state, ours), *_unready_owned(state, wanted), *_unready_control(state)]
    if snapshot.backend == "infer_service_set":
        reason = infer_service_set.unsettled(snapshot, ours)
        problems.extend([reason] if reason else [])
    problems.extend(f"{instance.name} is still stopping" for instance in state.leaving() if instance.engine_role not in state.owners)
    mark = tuple(sorted(str(pod["metadata"].get("uid")) for pod in snapshot.pods))
    may_flap = snapshot.backend == "infer_service_set" and infer_service_set.uses_gang_scheduling(snapshot)
    return Verdict(not problems, "; ".join(problems), mark, may_flap)


def _without_owned(state: ServiceState, wanted: Mapping[str, int]) -> dict[str, int]:
    return {role: count for role, count in wanted.items() if role not in state.owners}


def _unready_owned(state: ServiceState, wanted: Mapping[str, int]) -> list[str]:
    problems: list[str] = []
    for role in state.owners:
        live = state.live(role)
        count = min(len(live), wanted.get(role, 0))
        waiting = [instance for instance in live if instance.state != "running"]
        if len(live) - len(waiting) < count:
            problems.extend(f"{i.name} {i.state}: {i.reason}" for i in waiting)
    return problems


def _unready_instances(state: ServiceState, wanted: Mapping[str, int]) -> list[str]:
    problems = []
    for role, count in wanted.items():
        live = state.live(role)
        running = [instance for instance in live if instance.state == "running"]
        if len(running) < count:
            problems.append(f"{role}: {len(running)} of {count} instances running")
        problems.extend(f"{i.name} {i.state}: {i.reason}" for i in live if i.state != "running")
        if len(live) > count:
            problems.append(f"{role}: {len(live)} instances, {count} wanted")
    return problems


def _unready_control(state: ServiceState) -> list[str]:
    return [f"{role.name}: {role.reason}" for role in state.control if not role.pods_ready]
