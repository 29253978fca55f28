# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults: scheduled pods of instances that stay and that have failed, crash, or have lost their node. No scale-out beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .errors import Refused
from .guard import unfinished_verb
from .plan import Plan
from .pods import crashes, is_leaving
from .state import Instance, ServiceState, Snapshot, instance_of, service_state
from .stored import baseline_counts


def checked(snapshot: Snapshot, plan: Plan, *, allowed: bool) -> Plan:
    """The plan, after `refuse` unless faults are `allowed`."""
    if not allowed:
        refuse(snapshot, plan)
    return plan


def refuse(snapshot: Snapshot, plan: Plan) -> None:
    """Raise Refused when the plan adds instances to a service some of whose instances that stay are faulty.

    Bringing back what the baseline has is no scale-out, and a plan that only removes is never refused.
    """
    state = service_state(snapshot)
    growing = _growing(snapshot, state, plan.counts)
    if not growing:
        return
    leaving = {gone.name for step in plan.steps for write in step.writes for gone in write.removed}
    found = [instance for instance in faulty(snapshot, state) if instance.name not in leaving]
    if found:
        raise Refused(
            f"Cannot add {' and '.join(growing)} instances to {snapshot.namespace}: {'; '.join(f'{i.name}: {i.reason}' for i in found)}. "
            "Repair or remove what is faulty first, as it may need the NPUs that new instances would take, or set allow_during_fault: true.",
            reason="Fault",
            paths=tuple(instance.name for instance in found),
        )


def faulty(snapshot: Snapshot, state: ServiceState) -> tuple[Instance, ...]:
    """Live instances with a fault, its reason in each. What an unfinished change has made is no fault."""
    unfinished = _unfinished(snapshot, state)
    crashing = {instance_of(snapshot, pod): crashes(pod) for pod in snapshot.pods if crashes(pod) and not is_leaving(pod)}
    found: list[Instance] = []
    for role in {instance.engine_role: None for instance in state.instances}:
        live = state.live(role)
        staying = live if unfinished is None else live[: unfinished.get(role, 0)]
        for instance in staying:
            reason = crashing.get((instance.engine_role, instance.index), "") if instance.state != "running" else ""
            if instance.state == "failed" or reason:
                found.append(replace(instance, reason=instance.reason if instance.state == "failed" else reason))
    return tuple(found)


def _unfinished(snapshot: Snapshot, state: ServiceState) -> Mapping[str, int] | None:
    if not unfinished_verb(snapshot):
        return None
    counts: Mapping[str, int] = (state.intent or {}).get("from") or {}
    return counts


def _growing(snapshot: Snapshot, state: ServiceState, counts: Mapping[str, int]) -> list[str]:
    """Engine roles that get more instances than there are, or than the baseline has."""
    baseline = baseline_counts(snapshot.config_map) or {}
    return [role for role, count in counts.items() if count > max(len(state.live(role)), baseline.get(role, 0))]
