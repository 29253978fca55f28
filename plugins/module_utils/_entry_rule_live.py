# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scaling rule of one namespace in a cluster, for the modules that show or change it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from . import _entry_rule
from ._cluster import execute
from ._cluster.api import Api
from ._cluster.connection import connect
from ._cluster.rules import observe_rule
from ._entry_module import who
from ._entry_rule import Checked
from ._motor import plan_rule, rule_cluster, rule_report
from ._motor.findings import Finding, by_severity
from ._motor.overview_details import tier_possible
from ._motor.plan import Plan
from ._motor.plan_rule import WantedRule
from ._motor.rule_given import GivenRule
from ._motor.rule_reader import Reading, RuleError
from ._motor.rule_report import Picture
from ._motor.state import Snapshot


class Rules:
    """The rule `name` of a namespace: observes it and runs plans on it for a module."""

    def __init__(self, module: Any, namespace: str, name: str) -> None:
        self._module = module
        self.namespace, self.name = namespace, name
        self.api: Api = connect(module)

    def observe(self) -> Snapshot:
        """The rule and what it decides about."""
        return observe_rule(self.api, self.namespace, self.name, self._module.warn)

    def apply(self, checked: Checked, reading: Reading) -> dict[str, Any]:
        """Have the rule applied as `reading`; returns the module's result."""
        wanted = WantedRule(self.name, reading, checked.source)

        def lint(snapshot: Snapshot) -> tuple[Finding, ...]:
            return (*checked.findings, *self._live_findings(snapshot, wanted.reading))

        outcome = self._run(lambda snapshot: plan_rule.plan_rule(snapshot, wanted, lint, _now()))
        findings = lint(_with_rule(outcome.before, outcome.plan))
        _entry_rule.warn_of(self._module, findings)
        self._warn_of_broken(outcome)
        return self._result(outcome, rule_report.rule_facts(self.namespace, self.name, wanted.reading), wanted.text, findings)

    def remove(self) -> dict[str, Any]:
        """Have no such rule; returns the module's result."""
        outcome = self._run(lambda snapshot: plan_rule.plan_rule_absent(snapshot, self.name))
        return self._result(outcome, rule_report.rule_facts(self.namespace, self.name, None), "", ())

    def look(self, checked: Checked | None) -> Picture:
        """The rule that is live, or (`checked`) what would be if that one was."""
        snapshot = self.observe()
        live = snapshot.rule
        if checked is None:
            given = GivenRule((live or {}).get("data") or {}, f"ConfigMap {self.namespace}/{self.name}")
            checked = _entry_rule.checked(given, relaxed_input=False) if live is not None else Checked(given.source, (), None)
            present = live is not None
        else:
            present = True
        counts, servers = rule_report.running(snapshot, self.name), rule_cluster.all_servers(snapshot)
        return Picture(
            source=checked.source,
            facts=rule_report.rule_facts(self.namespace, self.name, checked.reading, present=present),
            reading=checked.reading,
            findings=by_severity((*checked.findings, *self._live_findings(snapshot, checked.reading))),
            running=counts,
            jobs=rule_report.job_answers(snapshot, self.name, checked.reading),
            servers=rule_cluster.servers(snapshot, self.name),
            shapes=rule_cluster.shapes(snapshot, self.name),
            instances=rule_cluster.instances(snapshot, self.name),
            requests=self.api.requests,
            possible={task: tier_possible(snapshot, self.name, task, checked.reading, servers) for task in counts},
        )

    def _live_findings(self, snapshot: Snapshot, reading: Reading | None) -> tuple[Finding, ...]:
        return rule_cluster.live_findings(snapshot, self.name, reading, rule_cluster.servers(snapshot, self.name))

    def _run(self, planner: Callable[[Snapshot], Plan]) -> execute.Outcome:
        params = self._module.params
        settings = execute.Settings(
            by=who(),
            run=uuid.uuid4().hex,
            wait=False,
            lock_timeout=float(params["lock_timeout"]),
            lock_duration=float(max(1, params["lock_duration"])),
        )
        return execute.run(self.api, self.observe, planner, settings, check_mode=self._module.check_mode)

    def _warn_of_broken(self, outcome: execute.Outcome) -> None:
        live = outcome.before.rule
        reading = plan_rule.live_reading(live) if live is not None else None
        if isinstance(reading, RuleError):
            self._module.warn(f"The operator refused the rule that was live until now, and held every job: {reading.message}")

    def _result(self, outcome: execute.Outcome, facts: dict[str, Any], text: str, findings: tuple[Finding, ...]) -> dict[str, Any]:
        for warning in outcome.warnings:
            self._module.warn(warning)
        result: dict[str, Any] = {
            "changed": bool(outcome.actions),
            "actions": outcome.actions,
            "rule": facts,
            "findings": [finding.to_dict() for finding in findings],
            "requests": self.api.requests,
        }
        if self._module._diff:
            result["diff"] = {"before": plan_rule.shown_text(outcome.before.rule), "after": text}
        return result


def _with_rule(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """The snapshot with the rule that the plan writes: readers that were there before have an old one from now on."""
    written = (write.body for step in plan.steps for write in step.writes if write.body)
    return replace(snapshot, rule=next(written, snapshot.rule))


def picture(module: Any, checked: Checked | None) -> Picture:
    """What there is to show of the rule of a namespace."""
    return Rules(module, module.params["namespace"], module.params["name"]).look(checked)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
