# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who owns the count of an engine role: a HorizontalPodAutoscaler, a ScaledObject, or the scaling policy of an InferServiceSet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .instances import ENGINE_ROLES, INFER_SERVICE_SET_NAME, parse_instance_name

Object = Mapping[str, Any]
SCALED_OBJECT = "ScaledObject"
POLICY = "scalingPolicy"
INSTANCE_SET = "InstanceSet"
# The only policy that the Infer Operator knows; with any other it goes by `roles[].replicas`.
POLICY_TYPE = "HPA"
_GROUPS = {INSTANCE_SET: "mindcluster.huawei.com", "Deployment": "apps", "StatefulSet": "apps"}
_WORKLOADS = frozenset({"Deployment", "StatefulSet"})


@dataclass(frozen=True)
class Owner:
    """An autoscaler (`kind`, `name`) and what it scales. `by_policy`: the Infer Operator keeps it as the role's scalingPolicy says."""

    kind: str
    name: str
    target_kind: str
    target: str
    by_policy: bool = False

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    def remedy(self, engine_role: str) -> str:
        """What to edit to change the count all the same."""
        if self.by_policy:
            limits = f"minReplicas and maxReplicas in the scalingPolicy of role {engine_role} of the InferServiceSet"
            by_module = "motor_scaling_policy, with outside: scale"
            return f"Edit {limits} ({by_module}; the Infer Operator takes back what is edited on the HorizontalPodAutoscaler)"
        if self.target_kind == INSTANCE_SET:
            return (
                f"Edit the limits of {self}, or delete it. Role {engine_role} of the InferServiceSet has no scalingPolicy of type HPA, "
                "so the Infer Operator takes back what an autoscaler sets"
            )
        return (
            f"Delete {self} or edit its limits: it changes the pods of {self.target_kind} {self.target}, "
            "which is one instance, and never the number of instances"
        )


def find(autoscalers: Iterable[Object], roles: Iterable[Object], base_name: str) -> dict[str, Owner]:
    """Owners by engine role. `roles` are those of the InferServiceSet (none in other backends)."""
    policies = {role["name"] for role in roles if has_policy(role)}
    owned = {
        role: Owner(POLICY, f"of role {role}", INSTANCE_SET, _set_name(role), by_policy=True) for role in ENGINE_ROLES if role in policies
    }
    for scaler in sorted(_effective(autoscalers), key=lambda scaler: scaler["kind"] == SCALED_OBJECT):
        kind, target = target_of(scaler)
        role = _role(kind, target, base_name)
        if role:
            by_policy = role in policies and kind == INSTANCE_SET
            owned[role] = Owner(*_known_as(scaler), kind, target, by_policy)
    return owned


def _known_as(scaler: Object) -> tuple[str, str]:
    """Kind and name of what users edit: KEDA makes a HorizontalPodAutoscaler for each ScaledObject."""
    owners = scaler["metadata"].get("ownerReferences") or ()
    made_for = next((str(owner["name"]) for owner in owners if owner.get("kind") == SCALED_OBJECT), None)
    return (SCALED_OBJECT, made_for) if made_for else (scaler["kind"], scaler["metadata"]["name"])


def has_policy(role: Object) -> bool:
    """True when the Infer Operator leaves the count of this role of an InferServiceSet to an autoscaler."""
    return bool((role.get("scalingPolicy") or {}).get("type") == POLICY_TYPE)


def scaled(autoscalers: Iterable[Object], kind: str, name: str) -> bool:
    """True when an autoscaler sets the replicas of this object."""
    return any(target_of(scaler) == (kind, name) for scaler in _effective(autoscalers))


def target_of(scaler: Object) -> tuple[str, str]:
    """Kind and name of what an autoscaler scales; ("", "") when it is of an API group that is none of ours."""
    target = scaler["spec"].get("scaleTargetRef") or {}
    # A ScaledObject that names neither kind nor API means a Deployment of apps.
    kind = str(target.get("kind") or "Deployment")
    group, dummy, version = str(target.get("apiVersion") or "").rpartition("/")
    known = kind in _GROUPS and (not version or group == _GROUPS[kind])
    return (kind, str(target.get("name") or "")) if known else ("", "")


def _effective(autoscalers: Iterable[Object]) -> Iterator[Object]:
    """Those that are to stay."""
    return (scaler for scaler in autoscalers if not scaler["metadata"].get("deletionTimestamp"))


def _role(kind: str, name: str, base_name: str) -> str | None:
    """The engine role that an InstanceSet, or the workload of an instance, belongs to."""
    if kind == INSTANCE_SET:
        return next((role for role in ENGINE_ROLES if name == _set_name(role)), None)
    if kind not in _WORKLOADS:
        return None
    parsed = parse_instance_name(name, base_name)
    if parsed:
        return parsed[0]
    prefix, dummy, index = name.rpartition("-")
    return next((role for role in ENGINE_ROLES if prefix == _set_name(role) and index.isdigit()), None)


def _set_name(engine_role: str) -> str:
    return f"{INFER_SERVICE_SET_NAME}-0-{engine_role}"
