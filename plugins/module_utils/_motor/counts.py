# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How counts of instances change: what goes, what comes, in which order. Shrink before grow, decode before prefill."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import deployments, infer_service_set
from .errors import Refused
from .plan import GONE, Step, Write
from .state import ServiceState, Snapshot

# A surplus prefill instance can reserve the NPUs that a decode instance waits for, so decode grows first.
GROW_ORDER = ("decode", "prefill", "union", "encode")

Templates = Mapping[tuple[str, int], Mapping[str, Any]]


@dataclass(frozen=True)
class CountChange:
    """Indexes that go and come, per engine role."""

    remove: Mapping[str, tuple[int, ...]]
    add: Mapping[str, tuple[int, ...]]


def change(state: ServiceState, wanted: Mapping[str, int]) -> CountChange:
    """Highest indexes go first; the lowest free indexes come first."""
    remove, add = {}, {}
    for role in GROW_ORDER:
        live = [instance.index for instance in state.live(role)]
        target = wanted.get(role, 0)
        surplus = sorted(live, reverse=True)[: max(0, len(live) - target)]
        if surplus:
            remove[role] = tuple(surplus)
        missing = target - len(live)
        if missing > 0:
            free = (index for index in range(target + len(live)) if index not in live)
            add[role] = tuple(itertools.islice(free, missing))
    return CountChange(remove, add)


def refuse_owned(state: ServiceState, wanted: Mapping[str, int]) -> None:
    """An autoscaler's count is its own: refuse to set another one."""
    for role, owner in state.owners.items():
        live = len(state.live(role))
        if role in wanted and wanted[role] != live:
            raise Refused(
                f"Cannot set {role} instances of {state.namespace} to {wanted[role]}: {owner} owns this count (now {live}). "
                f"Edit the limits of {owner}, or leave {role} out.",
                reason="CountOwned",
                paths=(role,),
            )


def steps(snapshot: Snapshot, state: ServiceState, wanted: Mapping[str, int], templates: Templates | None = None) -> tuple[Step, ...]:
    """Steps that bring the live instances to `wanted`. Growing waits until every pod that leaves is gone: NPUs are free only then."""
    todo = change(state, wanted)
    shrinking = _shrink(snapshot, todo)
    growing = _grow(snapshot, todo, wanted, templates or {})
    if not shrinking and not growing:
        return ()
    found = []
    if shrinking or (growing and state.leaving()):
        title = "remove surplus instances" if shrinking else "wait for instances that are still stopping"
        found.append(Step(title, shrinking, until=GONE, always=bool(growing)))
    found.extend(Step(f"create {role} instances", writes) for role, writes in growing)
    return tuple(found)


def _shrink(snapshot: Snapshot, todo: CountChange) -> tuple[Write, ...]:
    if not todo.remove:
        return ()
    if snapshot.backend == "infer_service_set":
        return (infer_service_set.shrink(snapshot, todo.remove),)
    return deployments.shrink(snapshot, todo.remove)


def _grow(snapshot: Snapshot, todo: CountChange, wanted: Mapping[str, int], templates: Templates) -> list[tuple[str, tuple[Write, ...]]]:
    if not todo.add:
        return []
    if snapshot.backend == "infer_service_set":
        names = " and ".join(role for role in GROW_ORDER if role in todo.add)
        return [(names, (infer_service_set.grow(snapshot, {role: wanted[role] for role in todo.add}, todo.remove),))]
    return [(role, deployments.grow(snapshot, role, todo.add[role], templates)) for role in GROW_ORDER if role in todo.add]
