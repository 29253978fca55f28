# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all modules share: options, reading of inputs, running a plan, and the shape of results and errors."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ._cluster import execute, history
from ._entry_module import who
from ._entry_observe import Observer
from ._motor import drift, report
from ._motor.choice import HIGHEST_INDEX, ORDERS, Choice, WaitIdle, read_protect
from ._motor.deployments import NO_SIBLING
from ._motor.errors import Refused
from ._motor.idle import CONTINUE, ON_TIMEOUT
from ._motor.instances import ENGINE_ROLES
from ._motor.plan import Plan
from ._motor.state import Snapshot

WAIT_SPEC: dict[str, Any] = {
    "wait": {"type": "bool", "default": True},
    "wait_timeout": {"type": "int", "default": 1800},
    "unschedulable_timeout": {"type": "int"},
    "lock_timeout": {"type": "int", "default": 30},
    "lock_duration": {"type": "int", "default": 15},
}
ON_FAILURE_SPEC: dict[str, Any] = {"on_failure": {"type": "str", "choices": ["keep", "rollback"], "default": "keep"}}
DRIFT_SPEC: dict[str, Any] = {
    "on_drift": {"type": "str", "choices": list(drift.ON_DRIFT), "default": drift.REPAIR},
    "allow_during_fault": {"type": "bool", "default": False},
}
IDLE_DEFAULTS: dict[str, Any] = {"timeout": 300, "on_timeout": CONTINUE}
SCALE_IN_SPEC: dict[str, Any] = {
    "order": {"type": "str", "choices": list(ORDERS), "default": HIGHEST_INDEX},
    "protect": {"type": "dict", "options": {role: {"type": "list", "elements": "raw"} for role in ENGINE_ROLES}},
    "wait_idle": {
        "type": "dict",
        "options": {
            "timeout": {"type": "int", "default": IDLE_DEFAULTS["timeout"]},
            "on_timeout": {"type": "str", "choices": list(ON_TIMEOUT), "default": IDLE_DEFAULTS["on_timeout"]},
        },
    },
}

# What a service consists of besides workloads, motor-config and pods.
OBJECT_KINDS = ("Service", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "PersistentVolumeClaim")

# Seconds that a finished state must hold where the operator may tear down what it just built.
GANG_STABLE_SECONDS = 5.0


def given_choice(module: Any) -> Choice:
    """Which instances may go, and how, as the options `order`, `protect` and `wait_idle` say."""
    given, wait_idle = module.params["wait_idle"], None
    if given is not None:
        idle = {**IDLE_DEFAULTS, **given}  # an empty mapping gets no defaults from the argument spec
        wait_idle = WaitIdle(float(max(0, idle["timeout"])), idle["on_timeout"])
    return Choice(module.params["order"], read_protect(module.params["protect"]), wait_idle)


class Service(Observer):
    """One service in one cluster, on which plans are run for a module."""

    def _remembering(self, planner: Callable[[Snapshot], Plan]) -> Callable[[Snapshot], Plan]:
        """The planner, which is given the history when no live instance is left to copy."""

        def planned(snapshot: Snapshot) -> Plan:
            try:
                return planner(snapshot)
            except Refused as error:
                revision = history.last(self.api, snapshot) if error.reason == NO_SIBLING else None
                if revision is None:
                    raise
            return planner(replace(snapshot, revision=revision))

        return planned

    def converge(self, planner: Callable[[Snapshot], Plan]) -> dict[str, Any]:
        """Run the plan (or in check mode only predict it) and return the module's result."""
        params = self._module.params
        settings = execute.Settings(
            by=who(),
            run=uuid.uuid4().hex,
            wait=params["wait"],
            wait_timeout=float(params["wait_timeout"]),
            unschedulable_timeout=_seconds(params["unschedulable_timeout"]),
            lock_timeout=float(params["lock_timeout"]),
            lock_duration=float(max(1, params["lock_duration"])),
            stable_for=GANG_STABLE_SECONDS,
            roll_back=params.get("on_failure") == "rollback",
        )
        planner = self._remembering(planner)
        outcome = execute.run(self.api, self.observe, planner, settings, check_mode=self._module.check_mode)
        result = {"changed": bool(outcome.actions), "actions": outcome.actions, "service": drift.reported(outcome.after).to_dict()}
        result["drift"] = drift.find(outcome.before).to_dict()
        if "protect" in params:  # a verb that removes instances
            result["removed"] = outcome.removed
        if params.get("wait_idle") is not None:
            result["drained"] = outcome.drained
        for notice in outcome.plan.notices:
            self._module.warn(notice)
        result["timeline"] = outcome.timeline
        result["requests"] = self.api.requests
        for warning in outcome.warnings:
            self._module.warn(warning)
        if self._module._diff:
            result["diff"] = report.diff(outcome.before, outcome.plan)
        return result


def _seconds(option: int | None) -> float | None:
    return None if option is None else float(option)
