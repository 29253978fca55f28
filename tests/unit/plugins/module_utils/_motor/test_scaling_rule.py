# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of the Ascend Operator: read and decided as the operator does, written so that it is never misunderstood."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._motor import rule_reader, scaling_rule
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_reader import RuleError


def text_of(row: dict[str, Any]) -> dict[str, str]:
    if "data" in row:
        return dict(row["data"])
    text = rule_reader.text_of(base64.b64decode(row["rule_b64"])) if "rule_b64" in row else row["rule"]
    return {rule_reader.DATA_KEY: text}


def answer(row: dict[str, Any]) -> dict[str, Any]:
    """What our reader and decision say, in the form of a vector's `expect`."""
    found: dict[str, Any] = {"load": "ok", "tiers": None, "tier": None, "create": False if "group" in row else None, "panic": False}
    try:
        reading = rule_reader.read_data(text_of(row), source="rule")
    except RuleError as error:
        return {**found, "load": error.kind}
    found["tiers"] = [{g: {"group_num": s.number, "server_num_per_group": s.servers} for g, s in tier.items()} for tier in reading.tiers]
    if "counts" in row:
        found["tier"] = scaling_rule.pick(reading.tiers, row["counts"])
    if "group" in row:
        decision = scaling_rule.decide(reading.tiers, row["counts"], row["group"])
        found.update(create=None if decision.crashes else decision.create, panic=decision.crashes)
    return found


def test_every_recorded_vector_agrees(shared_dir: Path, show: Callable[[str], None]) -> None:
    rows = [json.loads(line) for line in (shared_dir / "vectors" / "scaling-rule.jsonl").read_text().splitlines()]
    wrong = {}
    for row in rows:
        expected = {key: value for key, value in row["expect"].items() if key != "detail"}
        found = answer(row)
        if {key: found[key] for key in expected} != expected:
            wrong[row["id"]] = (found, expected)
    show(f"{len(rows) - len(wrong)} of {len(rows)} recorded vectors agree")
    assert not wrong
