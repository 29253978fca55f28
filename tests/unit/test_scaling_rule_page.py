# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What docs/scaling_rule.md says is what the programs do."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from ansible_collections.ascend.mindie.plugins.module_utils import _entry_rule, _inputs_rule
from ansible_collections.ascend.mindie.plugins.module_utils._motor import rule_codes, rule_synthesis, scaling_rule
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_reader import Reading

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "scaling_rule.md").read_text(encoding="utf-8")
# What runs, the tier that counts, and whether a job of either group may start.
ROWS = re.findall(r"^\| (\d) \+ (\d) \| (\d|none) \| (yes|no) \| (yes|no) \|", PAGE, re.MULTILINE)


def sample() -> Reading:
    """The rule at the top of the page, which has no findings."""
    blocks = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    given = _inputs_rule.read_rule(blocks[0], None)
    assert given is not None
    checked = _entry_rule.checked(given, relaxed_input=False)
    assert checked.findings == () and checked.reading is not None
    return checked.reading


def test_the_table_of_codes_is_that_of_the_checks() -> None:
    assert rule_codes.table() in PAGE


@pytest.mark.parametrize("row", ROWS)
def test_each_decision_of_the_page_is_that_of_the_operator(row: tuple[str, ...]) -> None:
    running = {"group0": int(row[0]), "group1": int(row[1])}
    decisions = [scaling_rule.decide(sample().tiers, running, group) for group in running]
    assert ["yes" if decision.create else "no" for decision in decisions] == list(row[3:])
    assert decisions[0].tier == (-1 if row[2] == "none" else int(row[2]))


def test_the_page_has_decisions() -> None:
    assert len(ROWS) == 6


def test_the_rule_that_the_page_makes_is_the_one_it_says() -> None:
    tasks = [yaml.safe_load(block)[0] for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
    (options,) = [task["ascend.mindie.motor_scaling_rule"]["synthesize"] for task in tasks if "synthesize" in json.dumps(task)]
    tiers = rule_synthesis.synthesise(rule_synthesis.given(options))
    said = re.search(r"makes the tiers (\d \+ \d), (\d \+ \d) and (\d \+ \d)\.", PAGE)
    assert said and list(said.groups()) == [f"{tier['group0'].number} + {tier['group1'].number}" for tier in tiers]


def test_the_example_of_a_rule_has_no_findings() -> None:
    for path in sorted((ROOT / "examples" / "scaling-rules").iterdir()):
        given = _inputs_rule.read_rule(None, str(path))
        assert given is not None
        checked = _entry_rule.checked(given, relaxed_input="relaxed" in path.name)
        assert {finding.severity for finding in checked.findings} <= {"note"} and checked.reading is not None, path.name
