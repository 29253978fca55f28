# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb `restore`: instances of the baseline that are not there are created again. Nothing is removed, and no count is changed."""

from __future__ import annotations

from collections.abc import Mapping

from . import counts, drift
from .errors import Refused
from .guard import RESTORE
from .hands_off import HANDS_OFF, held_by_hand, kept, locked
from .plan import Plan
from .record import APPLIED, standing
from .state import Snapshot, service_state
from .stored import baseline_counts


def missing(snapshot: Snapshot) -> tuple[str, ...]:
    """The instances of the baseline, by name, that are not there. None where an autoscaler owns the count, or a change is open."""
    return drift.find(snapshot).missing if standing(snapshot.config_map) == APPLIED else ()


def obstacle(snapshot: Snapshot, own: str = "") -> str:
    """Why nothing may be restored now, or ""."""
    found = standing(snapshot.config_map)
    if found != APPLIED:
        return f"motor-config is {found}: nothing says what the service last reached"
    state = service_state(snapshot)
    leaving = [instance.name for instance in state.leaving()]
    waits = f"still stopping: {', '.join(leaving)}" if leaving else ""
    if snapshot.backend == "infer_service_set" and snapshot.infer_service_set is None:
        return "its InferServiceSet is not there, and nothing keeps it: deploy the service again (role motor_deploy)"
    if not state.counts() and not any(role.pods for role in state.control):
        return "nothing of it is there any more, as if somebody was removing it: deploy the service again (role motor_deploy)"
    under_way = f"being created again: {', '.join(kept(snapshot))}" if kept(snapshot) else ""
    return held_by_hand(snapshot) or locked(snapshot, own) or under_way or waits


def plan_restore(snapshot: Snapshot, own: str = "") -> Plan:
    """Create what the baseline has and the cluster lacks. Empty when nothing is missing; raises Refused when nothing may be done."""
    if not missing(snapshot):
        return Plan(RESTORE, snapshot.namespace)
    why = obstacle(snapshot, own)
    if why:
        raise Refused(f"Cannot restore instances of {snapshot.namespace}: {why}.", reason=HANDS_OFF)
    state = service_state(snapshot)
    wanted = _wanted(baseline_counts(snapshot.config_map) or {}, state.counts(), state.owners)
    return Plan(
        verb=RESTORE,
        namespace=snapshot.namespace,
        steps=counts.growth(snapshot, state, wanted),
        counts=wanted,
        counts_before=state.counts(),
        settles=False,
    )


def _wanted(baseline: Mapping[str, int], live: Mapping[str, int], owned: Mapping[str, object]) -> dict[str, int]:
    """A surplus stays, and an autoscaler's count is its own."""
    return {role: live.get(role, 0) if role in owned else max(count, live.get(role, 0)) for role, count in baseline.items()}
