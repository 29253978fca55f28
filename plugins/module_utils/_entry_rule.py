# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules for scaling rules share: their options, and the rule that these give. Nothing here needs a cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from . import _inputs_rule
from ._motor import rule_lint, rule_reader, rule_synthesis, scaling_rule
from ._motor.errors import InputError
from ._motor.findings import NOTE, Finding
from ._motor.job_settings import DEFAULT_RULE
from ._motor.ownership import CONFIG_MAP
from ._motor.plan_rule import refuse_errors
from ._motor.rank_tables import RANK_TABLE_PREFIX
from ._motor.rule_given import GivenRule
from ._motor.rule_reader import DATA_KEY, Reading
from ._motor.rule_relaxed import relaxed
from ._motor.rule_synthesis import Wish

MAX_NAME = 63
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
WAYS = ("rule", "rule_file", "synthesize")
_PAIR: dict[str, Any] = {"type": "dict", "options": {role: {"type": "raw"} for role in rule_synthesis.ENGINE_ROLES}}
RULE_SPEC: dict[str, Any] = {
    "name": {"type": "str", "default": DEFAULT_RULE},
    "rule": {"type": "raw"},
    "rule_file": {"type": "path"},
    "relaxed": {"type": "bool", "default": False},
    "synthesize": {
        "type": "dict",
        "options": {
            "servers": {"type": "raw", "required": True},
            "hardware": {"type": "str", "choices": list(rule_synthesis.NPUS_PER_SERVER)},
            "npus_per_server": {"type": "raw"},
            "instances": _PAIR,
            "pods_per_instance": _PAIR,
            "npus_per_pod": _PAIR,
            "groups": {"type": "dict", "options": {role: {"type": "str"} for role in rule_synthesis.ENGINE_ROLES}},
            "keep_decode": {"type": "bool", "default": True},
            "minimum": _PAIR,
            "steps": {"type": "list", "elements": "dict", "options": _PAIR["options"]},
        },
    },
}


@dataclass(frozen=True)
class Checked:
    """A rule that the options give, checked. `reading` is None when the operator would refuse it; `wish` is what it was made for."""

    source: str
    findings: tuple[Finding, ...]
    reading: Reading | None
    wish: Wish | None = None

    def strict(self) -> Reading:
        """The rule as we write it and the operator reads it. Raises RuleRefused when there is an error among the findings."""
        refuse_errors(self.source, self.findings)
        tiers = self.reading.tiers if self.reading else ()
        return rule_reader.read(scaling_rule.write(tiers), source=self.source)


def checked_rule(module: Any) -> Checked | None:
    """The rule of the options, linted; None when they give none. Raises InputError for options that make no rule."""
    params = module.params
    _require_name(params["name"])
    if params["synthesize"] is not None:
        return synthesised(params["synthesize"])
    given = _inputs_rule.read_rule(params["rule"], params["rule_file"])
    if given is None:
        return None
    _require_same("name", given.name, params["name"], given.source)
    if params["namespace"]:
        _require_same("namespace", given.namespace, params["namespace"], given.source)
    return checked(given, relaxed_input=params["relaxed"])


def synthesised(options: dict[str, Any]) -> Checked:
    """The rule that fits the wish. Raises InputError when the wish is unsound, or does not fit on the servers."""
    wish = rule_synthesis.given(options)
    text = scaling_rule.write(rule_synthesis.synthesise(wish))
    lint = rule_lint.lint(text, source=rule_synthesis.SOURCE)
    return Checked(rule_synthesis.SOURCE, lint.findings, lint.reading, wish)


def checked(given: GivenRule, *, relaxed_input: bool) -> Checked:
    """A rule as it was given, linted; with `relaxed_input` its comments are taken away before."""
    removed: tuple[Finding, ...] = ()
    if relaxed_input and DATA_KEY in given.data:
        plain = relaxed(given.data[DATA_KEY], source=given.source)
        given, removed = given.with_text(plain.text), plain.findings
    lint = rule_lint.lint_data(given.data, source=given.source)
    return Checked(given.source, tuple(map(given.placed, (*removed, *lint.findings))), lint.reading)


def warn_of(module: Any, findings: Iterable[Finding]) -> None:
    """Tell of every warning, and of errors that did not end the task; notes are in the result only."""
    for finding in findings:
        if finding.severity != NOTE:
            module.warn(f"{finding.code}: {finding.message.rstrip('.')}. {finding.effect} {finding.remedy}")


def _require_name(name: str) -> None:
    """A rule is a ConfigMap of its own, and its name the value of a label."""
    if len(name) > MAX_NAME or not _NAME.fullmatch(name):
        wrong = f"{name!r} cannot be the name of a rule: write at most {MAX_NAME} lower-case letters, digits, - and ."
        raise InputError.at(wrong, source="name")
    if name == CONFIG_MAP or name.startswith(RANK_TABLE_PREFIX):
        raise InputError.at(f"the ConfigMap {name} is for something else: give the rule another name", source="name")


def _require_same(option: str, found: str, wanted: str, source: str) -> None:
    if found and found != wanted:
        wrong = f"the manifest is of {option} {found}, but option {option} is {wanted}: make them equal"
        raise InputError.at(wrong, source=source, path=f"metadata.{option}")
