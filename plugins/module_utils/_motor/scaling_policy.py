# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A scaling policy: by what HPA changes the count of one engine role, and the `scalingPolicy` of an InferServiceSet that says so.

The Infer Operator makes a HorizontalPodAutoscaler (autoscaling/v2) of `scalingPolicy.spec`, adds the target, and the labels by which
external metrics are found. What the API server would refuse must never get there: the operator then tries again for ever, or its
status keeps an old text. So a policy that can be made here is one that is accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeGuard

from .compare import quantity
from .instances import ENGINE_ROLES
from .owners import POLICY, POLICY_TYPE

# Encode has no metrics of its own; router, controller and coordinator are no engine roles.
AUTOSCALED = tuple(role for role in ENGINE_ROLES if role != "encode")
VALUE, AVERAGE_VALUE = "Value", "AverageValue"
TARGET_TYPES = (VALUE, AVERAGE_VALUE)
PODS, PERCENT = "Pods", "Percent"
MAX, MIN, DISABLED = "Max", "Min", "Disabled"
SELECTS = (MAX, MIN, DISABLED)
# No adaptor serves it. When HPA tells of it, it has seen that it is to leave the count alone.
FROZEN_METRIC = "ascend-mindie-frozen"
_STILL = {"selectPolicy": DISABLED}
_FROZEN_BEHAVIOR = {"scaleUp": _STILL, "scaleDown": _STILL}


@dataclass(frozen=True)
class Target:
    """One external metric and what it is compared with: per instance (`AverageValue`, for totals), or as it is (`Value`)."""

    metric: str
    target: Fraction
    target_type: str

    def spec(self) -> dict[str, Any]:
        """The entry of `spec.metrics`."""
        field = "value" if self.target_type == VALUE else "averageValue"
        target = {"type": self.target_type, field: quantity_text(self.target)}
        return {"type": "External", "external": {"metric": {"name": self.metric}, "target": target}}


@dataclass(frozen=True)
class ScaleStep:
    """At most so many instances (`Pods`), or so much of them (`Percent`), within `period` seconds."""

    type: str
    value: int
    period: int


@dataclass(frozen=True)
class Pace:
    """How fast the count may change in one direction; what is None is HPA's default. `window` in seconds."""

    window: int | None = None
    steps: tuple[ScaleStep, ...] = ()
    select: str | None = None

    def spec(self) -> dict[str, Any]:
        """`scaleUp` or `scaleDown` of `spec.behavior`; empty when HPA's defaults hold."""
        found: dict[str, Any] = {} if self.window is None else {"stabilizationWindowSeconds": self.window}
        if self.steps:
            found["policies"] = [{"type": step.type, "value": step.value, "periodSeconds": step.period} for step in self.steps]
        return found if self.select is None else {**found, "selectPolicy": self.select}


@dataclass(frozen=True)
class Policy:
    """The policy of one engine role. Counts are of instances."""

    engine_role: str
    minimum: int
    maximum: int
    metrics: tuple[Target, ...]
    scale_out: Pace = Pace()
    scale_in: Pace = Pace()

    def scaling_policy(self) -> dict[str, Any]:
        """`roles[].scalingPolicy` of the InferServiceSet."""
        spec: dict[str, Any] = {"minReplicas": self.minimum, "maxReplicas": self.maximum}
        spec["metrics"] = [target.spec() for target in self.metrics]
        paces = {"scaleUp": self.scale_out.spec(), "scaleDown": self.scale_in.spec()}
        behavior = {direction: pace for direction, pace in paces.items() if pace}
        return {"type": POLICY_TYPE, "spec": {**spec, **({"behavior": behavior} if behavior else {})}}


def quantity_text(number: Fraction) -> str:
    """A number as a Kubernetes quantity: `5`, `800m`. Only thousandths have a text."""
    if number.denominator == 1:
        return str(number.numerator)
    thousandths = number * 1000
    if thousandths.denominator != 1:
        raise ValueError(f"{number} is no multiple of a thousandth")
    return f"{thousandths.numerator}m"


def policy_of(role: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The `scalingPolicy` of a role of an InferServiceSet or of an InstanceSet's spec, of whatever type; None without one."""
    found = role.get(POLICY)
    return found if isinstance(found, Mapping) and found else None


def same(one: Any, other: Any) -> bool:
    """True for policies that mean the same: numbers of metrics may be written otherwise (`0.8`, `800m`)."""
    return bool(normal(one) == normal(other))


def limits(scaling_policy: Mapping[str, Any] | None) -> tuple[int, int] | None:
    """Minimum and maximum of a policy in the cluster, as HPA takes them; None when they are none (or it is of another type)."""
    if not scaling_policy or scaling_policy.get("type") != POLICY_TYPE:
        return None
    spec = scaling_policy.get("spec")
    low, high = (spec.get("minReplicas", 1), spec.get("maxReplicas")) if isinstance(spec, Mapping) else (None, None)
    return (low, high) if _is_count(low) and _is_count(high) and 0 <= low <= high else None


def frozen(scaling_policy: Mapping[str, Any], live: int) -> dict[str, Any]:
    """A policy under which HPA leaves the count alone and says that it does: it follows a metric that nobody serves, and neither direction
    is allowed. Its limits stay those that it obeys already, so that they cause no change either.
    """
    low, high = limits(scaling_policy) or (1, live)
    low, high = min(low, max(live, 1)), max(high, live, 1)
    metrics = [Target(FROZEN_METRIC, Fraction(1), AVERAGE_VALUE).spec()]
    return {"type": POLICY_TYPE, "spec": {"minReplicas": low, "maxReplicas": high, "metrics": metrics, "behavior": _FROZEN_BEHAVIOR}}


def is_frozen(scaling_policy: Mapping[str, Any] | None) -> bool:
    """True for a policy that `frozen` has made: it is being switched off. An autoscaler's spec, which has defaults besides, will do, too."""
    spec = (scaling_policy or {}).get("spec")
    if not isinstance(spec, Mapping) or _names(spec) != [FROZEN_METRIC]:
        return False
    behavior = spec.get("behavior") or {}
    return all((behavior.get(direction) or {}).get("selectPolicy") == DISABLED for direction in _FROZEN_BEHAVIOR)


def _names(spec: Mapping[str, Any]) -> list[Any]:
    metrics = spec.get("metrics")
    external = [row.get("external") for row in metrics if isinstance(row, Mapping)] if isinstance(metrics, list) else []
    return [(row.get("metric") or {}).get("name") for row in external if isinstance(row, Mapping)]


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def normal(value: Any, key: str = "") -> Any:
    """A policy or its spec with the numbers of its metrics as numbers, however they are written."""
    if isinstance(value, Mapping):
        return {name: normal(item, name) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [normal(item) for item in value]
    number = quantity(value) if key in ("value", "averageValue") and isinstance(value, str) else None
    return value if number is None else number
