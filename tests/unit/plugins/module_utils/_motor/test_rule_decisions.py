# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which tier counts, which job may create pods, why not, and how a rule is written."""

from __future__ import annotations

import json

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_reader import Size, Sizes
from ansible_collections.ascend.mindie.plugins.module_utils._motor.scaling_rule import Decision, decide, pick, write


def tiers(*numbers: str) -> tuple[Sizes, ...]:
    """`21` are two instances of p and one of d; `2-` leaves d out."""
    return tuple({group: Size(int(digit), 1) for group, digit in zip("pd", tier, strict=True) if digit != "-"} for tier in numbers)


TWO, GROWN = tiers("21", "11"), tiers("31", "21", "11")
# Rule, running p and d, tier, may p create, may d create; None: the operator crashes.
DECISIONS: list[tuple[tuple[Sizes, ...], str, int, bool | None, bool | None]] = [
    (TWO, "00", 1, True, True),
    (TWO, "10", 1, False, True),
    (TWO, "01", 1, True, False),
    (TWO, "11", 0, True, False),
    (TWO, "20", 1, False, True),
    (TWO, "21", -1, False, False),
    (TWO, "30", 1, False, True),
    (TWO, "32", -1, False, False),
    (GROWN, "21", 0, True, False),
    (GROWN, "20", 2, False, True),
    (GROWN, "11", 1, True, False),
    (tiers("21", "1-"), "00", 1, True, None),
    (tiers("21", "1-"), "10", 0, True, True),
    (tiers("2-"), "20", -1, False, False),
    (tiers("2-"), "10", 0, True, None),
    (tiers("21", "00"), "00", 0, True, True),
    ((), "00", -1, False, False),
]


@pytest.mark.parametrize(("rule", "running", "tier", "prefill", "decode"), DECISIONS)
def test_the_smallest_tier_that_is_not_satisfied_decides(
    rule: tuple[Sizes, ...], running: str, tier: int, prefill: bool | None, decode: bool | None
) -> None:
    counts = {group: int(digit) for group, digit in zip("pd", running, strict=True)}
    assert pick(rule, counts) == tier
    for group, wanted in (("p", prefill), ("d", decode)):
        found = decide(rule, counts, group)
        assert (found.tier, found.crashes) == (tier, wanted is None)
        assert found.create is bool(wanted)


def test_what_does_not_run_counts_as_none() -> None:
    assert pick(TWO, {}) == 1 and decide(TWO, {}, "p").create
    assert decide(TWO, {"p": 1}, "d").why == "tier 1 asks for 1 instances of d, 0 run"


WHY = {
    "p may": (TWO, {"p": 1, "d": 1}, "p", Decision(0, True, False, "tier 0 asks for 2 instances of p, 1 run", asked=1)),
    "p waits for d": (TWO, {"p": 1}, "p", Decision(1, False, False, "tier 1 has its 1 instances of p and waits for d (0 of 1)")),
    "satisfied": (
        TWO,
        {"p": 2, "d": 1},
        "p",
        Decision(-1, False, False, "every tier of the rule is satisfied, so nothing more is started"),
    ),
    "no tiers": ((), {}, "p", Decision(-1, False, False, "the rule has no tiers, so nothing more is started")),
    "crash": (TWO, {}, "x", Decision(1, False, True, 'tier 1 counts now and has no group "x": the operator crashes')),
    "two are waited for": (
        ({"p": Size(1, 1), "d": Size(2, 1), "e": Size(1, 1)},),
        {"p": 1, "d": 1},
        "p",
        Decision(0, False, False, "tier 0 has its 1 instances of p and waits for d (1 of 2), e (0 of 1)"),
    ),
}


@pytest.mark.parametrize(("rule", "running", "group", "decision"), WHY.values(), ids=WHY)
def test_a_decision_says_why(rule: tuple[Sizes, ...], running: dict[str, int], group: str, decision: Decision) -> None:
    assert decide(rule, running, group) == decision


def test_a_rule_is_written_as_texts_with_every_group_in_every_tier() -> None:
    text = write([{"p": Size(2, 4), "d": Size(1, 3)}, {"p": Size(1, 9)}])
    assert json.loads(text) == {
        "version": "1.0",
        "elastic_scaling_list": [
            {
                "group_list": [
                    {"group_name": "p", "group_num": "2", "server_num_per_group": "4"},
                    {"group_name": "d", "group_num": "1", "server_num_per_group": "3"},
                ]
            },
            {
                "group_list": [
                    {"group_name": "p", "group_num": "1", "server_num_per_group": "4"},
                    {"group_name": "d", "group_num": "0", "server_num_per_group": "3"},
                ]
            },
        ],
    }
    assert text.startswith('{\n  "version": "1.0",\n  "elastic_scaling_list": [\n    {\n') and text.endswith("}\n")
    assert list(json.loads(text)["elastic_scaling_list"][0]["group_list"][0]) == ["group_name", "group_num", "server_num_per_group"]


def test_names_are_written_as_they_are() -> None:
    assert '"组"' in write([{"组": Size(1, 1)}])


def test_a_rule_without_tiers_is_written_with_an_empty_list() -> None:
    assert json.loads(write([])) == {"version": "1.0", "elastic_scaling_list": []}
