# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts over scaling policies: does HPA follow one, does it leave the count alone, is a policy gone.

The status of an InstanceSet tells little: it keeps an old text when the API server refuses the autoscaler. The autoscaler itself tells.
HPA's controller sets no observedGeneration; what shows that it has read a new spec is which metrics its status tells of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from .compare import differences
from .infer_service_set import counts as set_counts
from .owners import INSTANCE_SET, SCALED_OBJECT, target_of
from .readiness import Verdict
from .scaling_policy import FROZEN_METRIC, is_frozen, limits, normal, policy_of, same
from .state import Snapshot, infer_roles, instance_set_of

Object = Mapping[str, Any]
# Why the autoscaler cannot change a count at all, by condition: it cannot read the scale subresource, or there is no instance.
_CANNOT = (("AbleToScale", "FailedGetScale"), ("ScalingActive", "ScalingDisabled"))


def followed(engine_roles: Collection[str], snapshot: Snapshot) -> Verdict:
    """The autoscalers are as the policies say, and the counts are within their limits."""
    return _verdict(_unfollowed(snapshot, role) for role in infer_roles(snapshot) if role["name"] in engine_roles)


def frozen(engine_roles: Collection[str], snapshot: Snapshot) -> Verdict:
    """HPA has heard that it is to leave the counts alone: none of its passes that could still change one is under way."""
    return _verdict(_unfrozen(snapshot, role) for role in infer_roles(snapshot) if role["name"] in engine_roles)


def released(engine_roles: Collection[str], snapshot: Snapshot) -> Verdict:
    """There is no autoscaler any more, and the counts are those of the InferServiceSet."""
    return _verdict(_unreleased(snapshot, role) for role in infer_roles(snapshot) if role["name"] in engine_roles)


def scaler_of(snapshot: Snapshot, engine_role: str) -> Object | None:
    """The autoscaler that the Infer Operator made for an engine role, or None."""
    instance_set = instance_set_of(snapshot, engine_role)
    if instance_set is None:
        return None
    name = instance_set["metadata"]["name"]
    return next((scaler for scaler in snapshot.autoscalers if _is_of(scaler, name)), None)


def _is_of(scaler: Object, name: str) -> bool:
    owners = scaler["metadata"].get("ownerReferences") or ()
    made = any((owner.get("kind"), owner.get("name")) == (INSTANCE_SET, name) for owner in owners)
    return made and scaler["kind"] != SCALED_OBJECT and target_of(scaler) == (INSTANCE_SET, name)


def _verdict(found: Iterable[str]) -> Verdict:
    problems = [problem for problem in found if problem]
    return Verdict(not problems, "; ".join(problems))


def _unfollowed(snapshot: Snapshot, role: Object) -> str:
    wanted, instance_set = policy_of(role) or {}, instance_set_of(snapshot, role["name"])
    if instance_set is None:
        return f"InstanceSet of {role['name']} does not exist yet"
    name, scaler = instance_set["metadata"]["name"], scaler_of(snapshot, role["name"])
    if not same(policy_of(instance_set["spec"]), wanted):
        return f"InstanceSet {name} does not have the policy yet"
    if scaler is None or differences(normal(wanted["spec"]), normal(scaler["spec"])):
        said = ((instance_set.get("status") or {}).get("scalingResourceStatus") or {}).get("message", "")
        what = "there is no autoscaler" if scaler is None else f"autoscaler {scaler['metadata']['name']} is not as the policy says"
        return f"{role['name']}: {what} yet" + (f" (the Infer Operator says: {said})" if said else "")
    low, high = limits(wanted) or (0, 0)
    count = int(instance_set["spec"].get("replicas") or 0)
    return "" if low <= count <= high else f"{role['name']}: HPA has not yet brought {count} instances within {low} and {high}"


def _unfrozen(snapshot: Snapshot, role: Object) -> str:
    instance_set = instance_set_of(snapshot, role["name"])
    if instance_set is None:
        return ""
    status, metadata = instance_set.get("status") or {}, instance_set["metadata"]
    if not is_frozen(policy_of(instance_set["spec"])) or status.get("observedGeneration") != metadata.get("generation"):
        return f"the Infer Operator has not yet seen that the count of {role['name']} is to be left alone"
    scaler = scaler_of(snapshot, role["name"])
    if scaler is None or (is_frozen({"spec": scaler["spec"]}) and _has_read(scaler)):
        return ""
    return f"HPA has not yet seen that it is to leave the count of {role['name']} alone ({scaler['metadata']['name']})"


def _has_read(scaler: Object) -> bool:
    """The status is of a pass that began with the spec that freezes: it tells of its metric, whether an adaptor had a value or not."""
    status = scaler.get("status") or {}
    external = (row.get("external") or {} for row in status.get("currentMetrics") or ())
    if any((row.get("metric") or {}).get("name") == FROZEN_METRIC for row in external):
        return True
    conditions = status.get("conditions") or ()
    off = any((row.get("type"), row.get("reason")) in _CANNOT and row.get("status") == "False" for row in conditions)
    return off or any(row.get("type") == "ScalingActive" and FROZEN_METRIC in str(row.get("message")) for row in conditions)


def _unreleased(snapshot: Snapshot, role: Object) -> str:
    instance_set, scaler = instance_set_of(snapshot, role["name"]), scaler_of(snapshot, role["name"])
    if instance_set is None:
        return ""
    wanted = set_counts(snapshot).get(role["name"], 0)
    if policy_of(instance_set["spec"]) is not None or instance_set["spec"].get("replicas") != wanted:
        return f"InstanceSet {instance_set['metadata']['name']} is not yet as the set says"
    return "" if scaler is None else f"autoscaler {scaler['metadata']['name']} is not gone yet"
