# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Going back after a change that did not come to run: to the counts of the baseline, by the same steps as any change of counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import counts, deployments, plan_remove
from .choice import Choice
from .errors import Refused
from .guard import DEPLOY, SCALE
from .instances import ENGINE_ROLES, parse_instance_name
from .plan import Plan, Step, Write, update
from .record import APPLIED, DEPLOYER, applied_of, standing
from .state import ServiceState, Snapshot, service_state
from .workloads import ASCEND_JOB

VERB = "roll_back"


def plan_rollback(before: Snapshot, now: Snapshot, failed: Plan) -> Plan:
    """Plan the way from `now` back to the baseline of `before`, from which `failed` had started.

    A service that was never reached in full is removed, its claims stay. The record stays as it is. Raises Refused for
    changes that are more than counts.
    """
    if failed.verb not in (SCALE, DEPLOY):
        raise Refused(f"{failed.verb} changes more than counts.", reason="NoRollback")
    replaced = [subject.name for step in failed.steps if step.writes for subject in step.subjects]
    if replaced and _baseline(before) is not None:
        raise Refused(
            f"instances were being replaced ({', '.join(replaced)}), and the old ones are not made again. "
            "Deploy the former configuration, or correct the new one.",
            reason="NoRollback",
        )
    state = service_state(now)
    baseline = _baseline(before)
    if baseline is None:
        return plan_remove.plan_remove(now, claims=False)
    wanted, notices = counts.keep_owned(state, baseline)
    steps = counts.steps(now, state, wanted, _templates(before), _choice(service_state(before), baseline))
    return Plan(
        verb=VERB,
        namespace=now.namespace,
        steps=(*_restore(before, now), *steps),
        counts=wanted,
        counts_before=state.counts(),
        data=(now.config_map or {}).get("data"),
        settles=not counts.only_shrink(steps),
        notices=notices,
    )


def left_changed(before: Snapshot, failed: Plan) -> tuple[str, ...]:
    """What `failed` may have changed and rolling back does not: kind and name. Empty when the baseline is reached again."""
    if _baseline(before) is None:
        return ()
    others = [f"{write.kind} {write.name}" for step in failed.steps for write in step.writes if not _goes_back(before, write)]
    return tuple(sorted(set(others)))


def _goes_back(before: Snapshot, write: Write) -> bool:
    if write.kind == "InferServiceSet":
        return write.patch
    if write.kind == "ConfigMap":
        return standing(before.config_map) in (APPLIED, DEPLOYER)
    return (
        write.kind in ("Deployment", ASCEND_JOB)
        and parse_instance_name(write.name, before.base_name) is not None
        and write.verb != "update"
    )


def _baseline(before: Snapshot) -> Mapping[str, int] | None:
    """Counts that the service last reached in full; None when it never did."""
    if standing(before.config_map) == DEPLOYER:
        return service_state(before).counts()
    record = applied_of(before.config_map)
    counts_then = (record.get("counts") or {}) if record else None
    return counts_then and {role: counts_then[role] for role in ENGINE_ROLES if role in counts_then}


def _choice(before: ServiceState, baseline: Mapping[str, int]) -> Choice:
    """What was there before stays, as far as the counts allow."""
    live = {role: frozenset(instance.index for instance in before.live(role)) for role in baseline}
    return Choice(protect={role: indexes for role, indexes in live.items() if len(indexes) <= baseline[role]})


def _templates(before: Snapshot) -> dict[tuple[str, int], Mapping[str, Any]]:
    """Instances as they were, to be made again."""
    found: dict[tuple[str, int], Mapping[str, Any]] = {}
    for obj in before.own_workloads:
        key = parse_instance_name(obj["metadata"]["name"], before.base_name)
        if key:
            found[key] = deployments.clone(obj, before, *key)
    return found


def _restore(before: Snapshot, now: Snapshot) -> tuple[Step, ...]:
    """`motor-config` as it was, when the change had written it already."""
    old, new = before.config_map, now.config_map
    if not old or not new or standing(old) not in (APPLIED, DEPLOYER) or old.get("data") == new.get("data"):
        return ()
    marks = {key: old["metadata"].get(key) or {} for key in ("labels", "annotations")}
    body = {**new, "metadata": {**new["metadata"], **marks}, "data": old.get("data")}
    return (Step("restore motor-config", (update(body, "go back to the baseline"),)),)
