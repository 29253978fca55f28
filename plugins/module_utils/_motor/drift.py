# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drift: the difference between the baseline and the live instances."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from . import siblings
from .errors import Refused
from .fields import MAX_COUNT
from .guard import unfinished_verb
from .instances import ENGINE_ROLES, INFER_SERVICE_SET_NAME, instance_name
from .pods import is_leaving
from .state import Instance, ServiceState, Snapshot, infer_roles, instance_pods, service_state
from .stored import baseline_counts

REPAIR, FAIL, ADOPT = "repair", "fail", "adopt"
ON_DRIFT = (REPAIR, FAIL, ADOPT)


@dataclass(frozen=True)
class Drift:
    """Instances, by name, that the baseline has and the cluster lacks (`missing`), that are there beyond it (`surplus`), that
    differ from their siblings (`altered`), and that are nobody's we know (`foreign`). The first three make it true.
    """

    missing: tuple[str, ...] = ()
    surplus: tuple[str, ...] = ()
    altered: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.missing or self.surplus or self.altered)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for results."""
        return {name: list(found) for name, found in self.__dict__.items()}

    def in_words(self) -> str:
        """`missing: vllm-p1; surplus: vllm-d2`; foreign ones are left out."""
        named = {"missing": self.missing, "surplus": self.surplus, "altered": self.altered}
        return "; ".join(f"{what}: {', '.join(names)}" for what, names in named.items() if names)


def assess(snapshot: Snapshot) -> tuple[ServiceState, Drift]:
    """The state of the service as it is shown, and its drift; see `reported` and `find`."""
    state = service_state(snapshot)
    marked = _altered(snapshot, state)
    instances = [replace(item, altered=item.name in marked) for item in state.instances]
    foreign = tuple(item.name for item in instances if item.state == "foreign")
    baseline = _baseline(snapshot)
    if baseline is None:
        return replace(state, instances=tuple(instances)), Drift(foreign=foreign)
    missing, surplus = _deviations(state, baseline)
    found = Drift(
        missing=tuple(_name(snapshot, *key) for key in missing),
        surplus=tuple(_name(snapshot, *key) for key in surplus),
        altered=tuple(item.name for item in instances if item.altered),
        foreign=foreign,
    )
    names = {item.name for item in instances}  # one that is still terminating is shown as that
    lacking = [_missing(snapshot, *key, baseline) for key in missing if _name(snapshot, *key) not in names]
    beyond = frozenset(surplus)
    shown = [_surplus(item, baseline) if (item.engine_role, item.index) in beyond else item for item in instances]
    return replace(state, instances=tuple(sorted([*shown, *lacking], key=Instance.order))), found


def find(snapshot: Snapshot) -> Drift:
    """The drift of a service. What an unfinished change has left is no drift, and an autoscaler's count is never one."""
    return assess(snapshot)[1]


def reported(snapshot: Snapshot) -> ServiceState:
    """The state of the service as it is shown: with the states `missing` and `surplus`, and what was altered.

    Plans want `service_state`, in which a surplus instance is what its pods make of it.
    """
    return assess(snapshot)[0]


def settle(snapshot: Snapshot, wanted: Mapping[str, int], on_drift: str) -> dict[str, int]:
    """The counts to go for: of an adopted engine role the live one, where the task asks just for the baseline's.

    Raises Refused for `fail` when there is drift, naming each instance.
    """
    if on_drift == FAIL:
        refuse(snapshot, find(snapshot))
    if on_drift != ADOPT:
        return dict(wanted)
    state, baseline = service_state(snapshot), _baseline(snapshot) or {}
    found = dict(wanted)
    for role, count in wanted.items():
        live = len(state.live(role))
        if role not in state.owners and baseline.get(role) == count and live != count:
            found[role] = _adoptable(snapshot, role, live)
    return found


def refuse(snapshot: Snapshot, found: Drift) -> None:
    """Raise Refused when there is drift."""
    if found:
        raise Refused(
            f"The live instances of {snapshot.namespace} differ from the baseline ({found.in_words()}). "
            "Repair them (on_drift: repair), take them as the new baseline (on_drift: adopt), or find out who changed them.",
            reason="Drift",
            paths=(*found.missing, *found.surplus, *found.altered),
        )


def _adoptable(snapshot: Snapshot, role: str, live: int) -> int:
    if 0 < live <= MAX_COUNT:
        return live
    raise Refused(
        f"Cannot adopt {live} live {role} instances of {snapshot.namespace}: a service has 1 to {MAX_COUNT}. Repair them instead (on_drift: repair).",
        reason="NotAdoptable",
        paths=(role,),
    )


def _baseline(snapshot: Snapshot) -> dict[str, int] | None:
    """The counts of the baseline, or None while a change is unfinished."""
    return None if unfinished_verb(snapshot) else baseline_counts(snapshot.config_map)


def _deviations(state: ServiceState, baseline: Mapping[str, int]) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Engine role and index of what is missing (lowest free indexes) and of what is surplus (highest indexes), as plans see it."""
    missing: list[tuple[str, int]] = []
    surplus: list[tuple[str, int]] = []
    for role in ENGINE_ROLES:
        if role in state.owners:
            continue
        live = sorted(item.index for item in state.live(role))
        wanted = baseline.get(role, 0)
        surplus.extend((role, index) for index in live[wanted:])
        taken = {*live, *(item.index for item in state.instances if item.engine_role == role and item.state == "foreign")}
        free = (index for index in itertools.count() if index not in taken)
        missing.extend((role, index) for index in itertools.islice(free, max(0, wanted - len(live))))
    return missing, surplus


def _missing(snapshot: Snapshot, role: str, index: int, baseline: Mapping[str, int]) -> Instance:
    return Instance(role, index, _name(snapshot, role, index), "missing", _expected(role, baseline))


def _surplus(instance: Instance, baseline: Mapping[str, int]) -> Instance:
    also = f", {instance.state}" + (f": {instance.reason}" if instance.reason else "")
    return replace(instance, state="surplus", reason=_expected(instance.engine_role, baseline) + also)


def _expected(role: str, baseline: Mapping[str, int]) -> str:
    return f"the baseline has {baseline.get(role, 0)} {role} instances"


def _name(snapshot: Snapshot, role: str, index: int) -> str:
    if snapshot.backend == "infer_service_set":
        return f"{INFER_SERVICE_SET_NAME}-0-{role}-{index}"
    return instance_name(snapshot.base_name, role, index)


def _altered(snapshot: Snapshot, state: ServiceState) -> frozenset[str]:
    if snapshot.backend != "infer_service_set":
        return siblings.altered(snapshot.own_workloads, snapshot.base_name, state.owners)
    # The operator never changes what runs, so that pods may be older than the set.
    images = {role["name"]: _images((role.get("spec") or {}).get("template") or {}) for role in infer_roles(snapshot)}
    pods = ((key, pod) for key, found in instance_pods(snapshot).items() for pod in found if not is_leaving(pod))
    return frozenset(_name(snapshot, *key) for key, pod in pods if not images.get(key[0], {}).items() <= _images(pod).items())


def _images(pod: Mapping[str, Any]) -> dict[str, str]:
    return {item["name"]: item.get("image", "") for item in (pod.get("spec") or {}).get("containers") or ()}
