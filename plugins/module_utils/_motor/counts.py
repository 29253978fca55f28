# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How counts of instances change: what goes, what comes, in which order. Shrink before grow, decode before prefill."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from . import ascend_jobs, deployments, drain, infer_service_set
from .choice import Choice, Removal, require_highest, victims
from .errors import Refused
from .job_facts import BACKEND as JOBS
from .plan import GONE, REDUCED, Step, Write
from .state import ServiceState, Snapshot

# A surplus prefill instance can reserve the NPUs that a decode instance waits for, so decode grows first.
GROW_ORDER = ("decode", "prefill", "union", "encode")

Templates = Mapping[tuple[str, int], Mapping[str, Any]]


@dataclass(frozen=True)
class CountChange:
    """Instances that go, and indexes that come, per engine role."""

    removals: Mapping[str, tuple[Removal, ...]]
    add: Mapping[str, tuple[int, ...]]

    @property
    def remove(self) -> dict[str, tuple[int, ...]]:
        """Indexes that go."""
        return {role: tuple(removal.index for removal in gone) for role, gone in self.removals.items()}


def change(state: ServiceState, wanted: Mapping[str, int], choice: Choice | None = None) -> CountChange:
    """What goes is the user's choice (the highest indexes unless told otherwise); the lowest free indexes come.

    The index of an instance that is still stopping is taken only after the wait for its pods that comes before growing.
    """
    removals, add = {}, {}
    for role in GROW_ORDER:
        live = [instance.index for instance in state.live(role)]
        missing = wanted.get(role, 0) - len(live)
        if missing < 0:
            removals[role] = victims(state, role, -missing, choice or Choice())
        if missing > 0:
            taken = {*live, *(found.index for found in state.instances if found.engine_role == role and found.state == "foreign")}
            free = (index for index in itertools.count() if index not in taken)
            add[role] = tuple(itertools.islice(free, missing))
    return CountChange(removals, add)


def refuse_owned(state: ServiceState, wanted: Mapping[str, int]) -> None:
    """An autoscaler's count is its own: refuse to set another one."""
    for role, owner in state.owners.items():
        live = len(state.live(role))
        if role in wanted and wanted[role] != live:
            raise Refused(
                f"Cannot set {role} instances of {state.namespace} to {wanted[role]}: {owner} owns this count (now {live}). "
                f"{owner.remedy(role)}. Or leave {role} out; the other engine roles can be scaled.",
                reason="CountOwned",
                paths=(role,),
            )


def keep_owned(state: ServiceState, wanted: Mapping[str, int]) -> tuple[dict[str, int], tuple[str, ...]]:
    """`wanted` with the live counts of engine roles that an autoscaler owns, and a notice for each that was asked for otherwise."""
    kept, notices = dict(wanted), []
    for role, owner in state.owners.items():
        live = len(state.live(role))
        if role in wanted and wanted[role] != live:
            kept[role] = live
            notices.append(
                f"{live} {role} instances of {state.namespace} are kept, although {wanted[role]} are configured: "
                f"{owner} owns this count. {owner.remedy(role)}."
            )
    return kept, tuple(notices)


def steps(
    snapshot: Snapshot,
    state: ServiceState,
    wanted: Mapping[str, int],
    templates: Templates | None = None,
    choice: Choice | None = None,
) -> tuple[Step, ...]:
    """Steps that bring the live instances to `wanted`. Growing waits until every pod that leaves is gone: NPUs are free only then."""
    todo = change(state, wanted, choice)
    shrinking = _shrink(snapshot, state, todo, choice or Choice())
    growing = _grow(snapshot, todo, wanted, templates or {})
    found = list(_rule(snapshot, wanted, templates or {}))
    if shrinking or state.leaving():
        title = "remove surplus instances" if shrinking else "wait for instances that are still stopping"
        idle = drain.before(snapshot, todo.removals, choice.wait_idle) if shrinking and choice and choice.wait_idle else None
        found.append(Step(title, shrinking, until=GONE if growing else REDUCED, always=bool(growing), idle=idle))
    found.extend(Step(f"create {what}", writes) for what, writes in growing)
    return tuple(found)


def growth(snapshot: Snapshot, state: ServiceState, wanted: Mapping[str, int]) -> tuple[Step, ...]:
    """Steps that create what is missing of `wanted` and do nothing else: nothing goes, and no scaling rule is changed."""
    todo = change(state, wanted)
    grown = _grow(snapshot, replace(todo, removals={}), wanted, {}, ascend_jobs.renewed_rank_tables)
    return tuple(Step(f"create {what}", writes) for what, writes in grown)


def only_shrink(found: Iterable[Step]) -> bool:
    """True when these steps do nothing but remove instances: then the health of what stays is no reason to wait."""
    return all(step.until in (GONE, REDUCED) or step.title == ascend_jobs.RULE_STEP for step in found)


def _rule(snapshot: Snapshot, wanted: Mapping[str, int], templates: Templates) -> tuple[Step, ...]:
    """AscendJobs create pods as their scaling rule allows: it comes first, both ways."""
    if snapshot.backend != JOBS:
        return ()
    return ascend_jobs.rule_steps(snapshot, wanted, ascend_jobs.servers_of(snapshot, templates))


def _shrink(snapshot: Snapshot, state: ServiceState, todo: CountChange, choice: Choice) -> tuple[Write, ...]:
    if snapshot.backend == JOBS:
        return ascend_jobs.shrink(snapshot, todo.removals)
    if not todo.removals:
        return ()
    if snapshot.backend == "infer_service_set":
        for role, gone in todo.removals.items():
            require_highest(state, role, gone, choice)
        return (infer_service_set.shrink(snapshot, todo.removals),)
    return deployments.shrink(snapshot, todo.removals)


def _grow(
    snapshot: Snapshot,
    todo: CountChange,
    wanted: Mapping[str, int],
    templates: Templates,
    rank_tables: Callable[[Snapshot, str, tuple[Write, ...]], tuple[Write, ...]] = ascend_jobs.rank_tables,
) -> list[tuple[str, tuple[Write, ...]]]:
    """What is created, in words, and the writes; one step each."""
    if not todo.add:
        return []
    if snapshot.backend == "infer_service_set":
        names = " and ".join(role for role in GROW_ORDER if role in todo.add)
        return [(f"{names} instances", (infer_service_set.grow(snapshot, {role: wanted[role] for role in todo.add}),))]
    found: list[tuple[str, tuple[Write, ...]]] = []
    for role in GROW_ORDER:
        if role in todo.add:
            writes = deployments.grow(snapshot, role, todo.add[role], templates)
            tables = rank_tables(snapshot, role, writes)
            found.extend([(f"rank tables of {role} instances", tables)] if tables else [])
            found.append((f"{role} instances", writes))
    return found
