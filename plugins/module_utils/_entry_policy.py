# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module for scaling policies does: its options, what it asks the cluster before it writes, and its result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _entry
from ._cluster.api import ApiError
from ._cluster.servers import observe_servers
from ._motor import policy_checks, servers
from ._motor.errors import InputError, Refused
from ._motor.plan import Plan
from ._motor.plan_policy import plan_policies, plan_policies_absent, policies_of
from ._motor.policy_reader import read_policies
from ._motor.scaling_policy import AUTOSCALED, PERCENT, PODS, SELECTS, TARGET_TYPES, Policy
from ._motor.scaling_presets import PRESETS
from ._motor.state import Snapshot, service_state
from ._motor.stored import stored_config
from ._motor.user_config import UserConfig

EXTERNAL_METRICS = "external.metrics.k8s.io"
_PACE: dict[str, Any] = {
    "type": "dict",
    "options": {
        "window": {"type": "raw"},
        "steps": {
            "type": "list",
            "elements": "dict",
            "options": {
                "type": {"type": "str", "choices": [PODS, PERCENT], "required": True},
                "value": {"type": "raw", "required": True},
                "period": {"type": "raw", "required": True},
            },
        },
        "select": {"type": "str", "choices": list(SELECTS)},
    },
}
_POLICY: dict[str, Any] = {
    "type": "dict",
    "options": {
        "min": {"type": "raw", "required": True},
        "max": {"type": "raw", "required": True},
        "preset": {"type": "str", "choices": list(PRESETS)},
        "metrics": {
            "type": "list",
            "elements": "dict",
            "options": {
                "name": {"type": "str", "required": True},
                "target": {"type": "raw", "required": True},
                "target_type": {"type": "str", "choices": list(TARGET_TYPES)},
                "foreign": {"type": "bool", "default": False},
            },
        },
        "scale_out": _PACE,
        "scale_in": _PACE,
    },
}
POLICY_SPEC: dict[str, Any] = {
    "namespace": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "policies": {"type": "dict", "options": dict.fromkeys(AUTOSCALED, _POLICY)},
    "engine_roles": {"type": "list", "elements": "str", "choices": list(AUTOSCALED)},
    "outside": {"type": "str", "choices": list(policy_checks.OUTSIDE), "default": policy_checks.REFUSE},
    "check_capacity": {"type": "bool", "default": True},
    **_entry.WAIT_SPEC,
}


def run(module: Any) -> dict[str, Any]:
    """Parse, observe, plan, execute, report."""
    absent = module.params["state"] == "absent"
    policies = {} if absent else given_policies(module)
    if not absent and module.params["engine_roles"] is not None:
        raise InputError.at(
            "this is for state absent; with state present, policies says which engine roles are meant", source="engine_roles"
        )
    service = _Service(module, module.params["namespace"])
    result = service.converge(service.planner_absent() if absent else service.planner(policies))
    return {**result, **service.policies(module)}


def given_policies(module: Any) -> dict[str, Policy]:
    """The policies of the options, checked."""
    found = read_policies(module.params["policies"] or {})
    if not found:
        raise InputError.at("give the policy of at least one engine role", source="policies")
    return found


class _Service(_entry.Service):
    """A service whose policies are set, with what was asked of its cluster once."""

    def __init__(self, module: Any, namespace: str) -> None:
        super().__init__(module, namespace)
        self._asked: tuple[dict[str, Any] | None, Any] | None = None
        self._seen: list[Snapshot] = []
        self._wanted: dict[str, Policy] | None = None

    def planner(self, policies: Mapping[str, Policy]) -> Any:
        """Plans to set policies. The cluster is asked what it can do only when there is something to write."""
        self._wanted = dict(policies)

        def planned(snapshot: Snapshot) -> Plan:
            self._seen.append(snapshot)
            plan = plan_policies(snapshot, _stored(snapshot), policies, self._module.params["outside"])
            if any(step.writes for step in plan.steps):
                self._check(snapshot, policies)
            return plan

        return planned

    def planner_absent(self) -> Any:
        """Plans to take policies away."""

        def planned(snapshot: Snapshot) -> Plan:
            self._seen.append(snapshot)
            return plan_policies_absent(snapshot, _stored(snapshot), self._module.params["engine_roles"])

        return planned

    def policies(self, module: Any) -> dict[str, Any]:
        """What the result says of policies: as they are now, and with `diff` also as they were."""
        before = policies_of(self._seen[0])
        if self._wanted is None:
            chosen = module.params["engine_roles"]
            after = {role: policy for role, policy in before.items() if chosen is not None and role not in chosen}
        else:
            after = {**before, **{role: policy.scaling_policy() for role, policy in self._wanted.items()}}
        shown = before if module.check_mode else after
        return {"policies": shown, **({"diff": {"before": {"policies": before}, "after": {"policies": after}}} if module._diff else {})}

    def _check(self, snapshot: Snapshot, policies: Mapping[str, Policy]) -> None:
        if self._asked is None:
            self._asked = self.api.schemas(policy_checks.SETS), self._servers(snapshot)
            if EXTERNAL_METRICS not in self.api.groups:
                self._module.warn(
                    f"The cluster serves no {EXTERNAL_METRICS}: until an adaptor does (role motor_autoscale), HPA has no values and leaves counts alone."
                )
        openapi, found = self._asked
        policy_checks.require_version(snapshot, openapi)
        if found is not None:
            policy_checks.require_room(snapshot, service_state(snapshot), policies, found)

    def _servers(self, snapshot: Snapshot) -> Any:
        if not self._module.params["check_capacity"]:
            return None
        try:
            return servers.servers(*observe_servers(self.api, snapshot.pods, self._module.warn))
        except ApiError as error:
            if error.status != 403:
                raise
            self._module.warn(f"Whether the servers have NPUs for max instances was not checked: {error}")
            return None


def _stored(snapshot: Snapshot) -> UserConfig:
    stored = stored_config(snapshot.config_map)
    if stored is None:
        raise Refused(f"no service is deployed in {snapshot.namespace}", reason="NotDeployed")
    return stored
