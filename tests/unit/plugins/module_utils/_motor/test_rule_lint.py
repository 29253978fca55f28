# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings in scaling rules by their text alone: each fault with its code, place and severity; an error exactly where it matters."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import rule_codes, scaling_rule
from ansible_collections.ascend.mindie.plugins.module_utils._motor.findings import (
    ERROR,
    NOTE,
    SEVERITIES,
    WARNING,
    Finding,
    by_severity,
    worst,
)
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_lint import Lint, lint, lint_data
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_reader import DATA_KEY, Size
from ansible_collections.ascend.mindie.plugins.module_utils._motor.scaling_rule import may_count

from .test_scaling_rule import text_of

ROOT = Path(__file__).parents[5]


def group(name: str, number: str, servers: str = "2") -> dict[str, Any]:
    return {"group_name": name, "group_num": number, "server_num_per_group": servers}


def rule(*tiers: list[dict[str, Any]], **more: Any) -> str:
    return json.dumps({"version": "1.0", "elastic_scaling_list": [{"group_list": tier} for tier in tiers], **more})


TWO_TIERS = rule([group("g0", "2"), group("g1", "1")], [group("g0", "1"), group("g1", "1")])
P, D = group("g0", "1"), group("g1", "1")


def only(text: str) -> Finding:
    """The one finding that there is."""
    found = lint(text, source="rule").findings
    assert len(found) == 1, found
    return found[0]


def codes(text: str) -> list[str]:
    return [finding.code for finding in lint(text, source="rule").findings]


def without(entry: dict[str, Any], key: str, **more: Any) -> dict[str, Any]:
    return {**{name: value for name, value in entry.items() if name != key}, **more}


def test_a_sound_rule_has_no_finding() -> None:
    found = lint(TWO_TIERS, source="rule")
    assert found.findings == ()
    assert found.reading is not None and found.reading.tiers[0] == {"g0": Size(2, 2), "g1": Size(1, 2)}


REFUSED = {
    "empty text": ("", "R102", 1, 1),
    "cut off": ('{\n "version": ', "R102", 2, 13),
    "second document": ("{}\n{}", "R102", 2, 1),
    "single quotes": ("{'a': 1}", "R102", 1, 2),
    "byte order mark": ("\ufeff{}", "R103", 1, 1),
    "comment": ('{ # x\n "version": "1.0"}', "R104", 1, 3),
    "comment with slashes": ('{\n "version": "1.0" // x\n}', "R104", 2, 19),
    "block comment": ("{ /* x */ }", "R104", 1, 3),
    "trailing comma": ('{\n "version": "1.0",\n}', "R105", 2, 18),
    "trailing comma in a list": ('{"elastic_scaling_list": [null, ]}', "R105", 1, 31),
    "list on top": ("[]", "R106", 1, 1),
    "version is a number": ('{\n "version": 1.0}', "R106", 2, 13),
    "tier is a text": ('{"elastic_scaling_list": ["x"]}', "R106", 1, 27),
}


@pytest.mark.parametrize(("text", "code", "line", "column"), REFUSED.values(), ids=REFUSED)
def test_a_refused_text_is_an_error_with_its_place(text: str, code: str, line: int, column: int) -> None:
    found = lint(text, source="rule")
    first = found.findings[0]
    assert (first.code, first.severity, first.line, first.column) == (code, ERROR, line, column)
    assert found.reading is None
    assert f"rule, line {line}, column {column}: " in first.message


def test_a_number_where_a_text_is_needed_is_told_for_every_place() -> None:
    text = rule([{"group_name": "g0", "group_num": 2, "server_num_per_group": 1}, D])
    found = lint(text, source="rule").findings
    assert [finding.code for finding in found] == ["R106", "R106"]
    assert [finding.column for finding in found] == [text.index(" 2,") + 2, text.index(" 1}") + 2]


@pytest.mark.parametrize("text", ["", " 2", "2 ", "2.0", "1_000", "two", "２", "9223372036854775808", "+", "--1"])
def test_a_text_that_is_no_integer_is_an_error_with_tier_and_group(text: str) -> None:
    found = only(rule([P, D], [group("g0", "1"), group("g1", text)]))
    assert (found.code, found.tier, found.group, found.path) == ("R107", 1, "g1", "elastic_scaling_list[1].group_list[1].group_num")


def test_missing_and_null_integers_are_told_all_at_once() -> None:
    found = lint(rule([without(P, "group_num"), without(D, "server_num_per_group", server_num_per_group=None)]), source="rule").findings
    assert [(finding.code, finding.group) for finding in found] == [("R107", "g0"), ("R107", "g1")]


TIERS = {
    "new group below": (rule([P, D], [P, group("g2", "1")]), "R108", "g2"),
    "more instances below": (rule([P, D], [P, group("g1", "2")]), "R109", "g1"),
    "more servers below": (rule([P, D], [P, group("g1", "1", "3")]), "R110", "g1"),
}


@pytest.mark.parametrize(("text", "code", "name"), TIERS.values(), ids=TIERS)
def test_a_tier_that_does_not_fit_the_one_before_is_an_error(text: str, code: str, name: str) -> None:
    found = only(text)
    assert (found.code, found.severity, found.tier, found.group) == (code, ERROR, 1, name)
    assert found.column and text[found.column - 1] == '"'


def test_a_missing_data_key_is_an_error_with_the_nearest_key() -> None:
    found = lint_data({"elastic-scaling.json": TWO_TIERS}, source="ConfigMap a/b")
    assert [(finding.code, finding.severity) for finding in found.findings] == [("R101", ERROR)]
    assert found.reading is None
    assert '"elastic-scaling.json"' in found.findings[0].remedy
    assert lint_data({}, source="x").findings[0].remedy == rule_codes.CODES["R101"].remedy
    assert lint_data({DATA_KEY: TWO_TIERS}, source="x") == lint(TWO_TIERS, source=f"x {DATA_KEY}")


@pytest.mark.parametrize("text", ["null", "{}", '{"elastic_scaling_list": null}', '{"elastic_scaling_list": []}', '{"version": "1.0"}'])
def test_no_tiers_hold_every_job(text: str) -> None:
    found = only(text)
    assert (found.code, found.severity, found.path, found.line, found.column) == ("R111", ERROR, "", 1, 1)
    assert found.message == "rule, line 1, column 1: the rule has no tiers"


def test_a_rule_that_asks_for_nothing_holds_every_job() -> None:
    assert codes(rule([group("g0", "0"), group("g1", "-1")])) == ["R112"]
    found = only('{"elastic_scaling_list": [{}, null]}')
    assert (found.code, found.severity, found.path, found.line, found.column) == ("R112", ERROR, "", 1, 1)


def test_an_omitted_group_is_an_error_where_its_tier_can_count() -> None:
    found = only(rule([group("g0", "2"), D], [P]))
    assert (found.code, found.severity, found.tier, found.group, found.path) == ("R201", ERROR, 1, "g1", "elastic_scaling_list[1]")


@pytest.mark.parametrize("smallest", [[], [group("g0", "0")]], ids=["empty", "zero"])
def test_an_omitted_group_in_a_tier_that_never_counts_is_a_warning(smallest: list[dict[str, Any]]) -> None:
    found = lint(rule([P, D], smallest), source="rule").findings
    assert {(one.code, one.severity) for one in found} == {("R301", WARNING), ("R312", WARNING)}


@pytest.mark.parametrize("entry", [without(P, "group_name"), {**P, "group_name": None}], ids=["absent", "null"])
def test_an_entry_without_a_name_is_an_error(entry: dict[str, Any]) -> None:
    assert codes(rule([entry, D])) == ["R202"]


def test_what_else_is_wrong_with_an_entry_without_a_name_is_told_of_the_empty_group() -> None:
    found = lint(rule([without(group("", "1", "0"), "group_name"), D]), source="rule").findings
    assert [(one.code, one.group) for one in found] == [("R202", ""), ("R305", "")]


def test_a_tier_that_never_counts_says_why() -> None:
    assert "the tiers below ask for as much" in only(rule([P, D], [P, D])).message
    assert "it asks for no instance" in only(rule([P, D], [group("g0", "0"), group("g1", "0")])).message
    mixed = lint(rule([P, group("g1", "0")], [P, group("g1", "0")]), source="rule").findings
    assert "the tiers below ask for as much" in next(one.message for one in mixed if one.code == "R301")


def test_a_misspelt_name_key_tells_the_right_one() -> None:
    found = lint(rule([without(P, "group_name", goup_name="g0"), D]), source="rule").findings
    assert [one.code for one in found] == ["R202", "R401"]
    assert found[1].remedy == 'Write "group_name".'


WARNINGS = {
    "equal tiers": (rule([P, D], [P, D]), "R301", 0, None),
    "an empty tier at the end": (rule([P, D], [group("g0", "0"), group("g1", "0")]), "R301", 1, None),
    "the smallest tier without decode": (rule([group("g0", "2"), D], [P, group("g1", "0")]), "R302", 1, "g1"),
    "a group that is never asked for": (rule([P, group("g1", "0")]), "R303", 0, "g1"),
    "servers that differ": (rule([group("g0", "2"), D], [group("g0", "1", "1"), D]), "R304", 1, "g0"),
    "no servers": (rule([group("g0", "1", "0"), D]), "R305", 0, "g0"),
    "a plus": (rule([group("g0", "+2"), D]), "R307", 0, "g0"),
    "a leading zero": (rule([group("g0", "02"), D]), "R307", 0, "g0"),
    "a leading zero of servers": (rule([group("g0", "1", "02"), D]), "R307", 0, "g0"),
    "a group twice": (rule([group("g0", "5"), P, D]), "R308", 0, "g0"),
    "a name with a blank": (rule([group("g 0", "1"), D]), "R309", 0, "g 0"),
    "a name that is too long": (rule([group("g" * 64, "1"), D]), "R309", 0, "g" * 64),
    "one group": (rule([P]), "R310", 0, None),
    "decode first": (rule([group("group1", "1"), group("group0", "1")]), "R311", 0, "group1"),
    "decode first, in words": (rule([group("my-decode", "1"), group("my-prefill", "1")]), "R311", 0, "my-decode"),
    "an empty name": (rule([group("", "1"), D]), "R314", 0, ""),
    "a key in another case": (rule([without(P, "group_num", Group_Num="1"), D]), "R402", 0, None),
    "a key with a long s": (rule([{**without(P, "server_num_per_group"), "ſerver_num_per_group": "2"}, D]), "R402", 0, None),
}


@pytest.mark.parametrize(("text", "code", "tier", "name"), WARNINGS.values(), ids=WARNINGS)
def test_a_doubtful_rule_is_a_warning_with_tier_and_group(text: str, code: str, tier: int, name: str | None) -> None:
    found = [one for one in lint(text, source="rule").findings if one.severity != NOTE]
    assert [(one.code, one.severity, one.tier, one.group) for one in found] == [(code, WARNING, tier, name)]
    assert found[0].line == 1 and found[0].column


def test_a_negative_number_is_a_warning_and_counts_as_none() -> None:
    found = lint(rule([P, group("g1", "-1")]), source="rule").findings
    assert [(one.code, one.path) for one in found] == [
        ("R303", "elastic_scaling_list[0]"),
        ("R306", "elastic_scaling_list[0].group_list[1].group_num"),
    ]


def test_the_longest_name_that_a_label_can_have_is_sound() -> None:
    assert codes(rule([group("g" * 63, "1"), D])) == []


def place_of(text: str, piece: str) -> tuple[int, int]:
    return 1, text.index(piece) + 1


def test_more_than_two_groups_are_a_note() -> None:
    text = rule([P, D, group("g2", "1")])
    found = only(text)
    assert (found.code, found.severity, found.path, found.tier) == ("R313", NOTE, "elastic_scaling_list[0]", 0)
    assert (found.line, found.column) == place_of(text, '{"group_list"')


def test_what_the_controller_reads_by_position_is_told_with_its_place() -> None:
    text = rule([P])
    found = only(text)
    assert (found.code, found.path, (found.line, found.column)) == ("R310", "elastic_scaling_list[0]", place_of(text, '{"group_list"'))
    text = rule([group("decode", "1"), group("prefill", "1")])
    found = only(text)
    assert (found.code, found.path, found.group) == ("R311", "elastic_scaling_list[0].group_list[0]", "decode")
    assert (found.line, found.column) == place_of(text, '{"group_name": "decode"')


@pytest.mark.parametrize(("first", "second"), [("group1", "group2"), ("x", "group0"), ("group0", "group1"), ("d0", "d1"), ("spd", "dpd")])
def test_an_order_that_names_do_not_contradict_is_no_finding(first: str, second: str) -> None:
    assert codes(rule([group(first, "1"), group(second, "1")])) == []


@pytest.mark.parametrize(
    ("first", "second"), [("d0", "p0"), ("Decode", "PREFILL"), ("a.decode.b", "a.prefill.b"), ("x-d", "x-p"), ("d_1", "p_1")]
)
def test_an_order_that_names_contradict_is_a_warning(first: str, second: str) -> None:
    assert codes(rule([group(first, "1"), group(second, "1")])) == ["R311"]


def test_another_version_is_a_note_and_none_is_nothing() -> None:
    assert only(TWO_TIERS.replace("1.0", "2.0")).code == "R406"
    assert codes(json.dumps({"elastic_scaling_list": json.loads(TWO_TIERS)["elastic_scaling_list"]})) == []


def test_unknown_keys_are_told_once_each() -> None:
    tiers = [{"server_count": 4, "group_list": [P, D]}] * 2
    found = lint(json.dumps({"status": "x", "elastic_scaling_list": tiers}), source="rule").findings
    assert sorted(one.code for one in found) == ["R301", "R405", "R405"]


MISSPELT = {
    "the list": ('{"elastic_scaling": []}', '"elastic_scaling_list"'),
    "groups": ('{"elastic_scaling_list": [{"groupList": []}]}', '"group_list"'),
    "a number": ('{"elastic_scaling_list": [{"group_list": [{"group_nums": "1"}]}]}', '"group_num"'),
    "a key of another object": ('{"elastic_scaling_list": [{"group_num": "1"}]}', "a group"),
}


@pytest.mark.parametrize(("text", "meant"), MISSPELT.values(), ids=MISSPELT)
def test_a_misspelt_or_misplaced_key_tells_what_is_meant(text: str, meant: str) -> None:
    found = [one for one in lint(text, source="rule").findings if one.code == "R401"]
    assert len(found) == 1 and meant in found[0].remedy
    assert found[0].column == text.rindex('{"') + 2


def test_repeated_keys_tell_whether_they_replace_or_merge() -> None:
    one = json.dumps([P, D])
    text = f'{{"elastic_scaling_list": [{{"group_list": {one}, "group_list": [{{"group_num": "1", "group_num": "2"}}, {{}}]}}]}}'
    found = lint(text, source="rule")
    assert [finding.code for finding in found.findings] == ["R404", "R403"]
    assert found.reading is not None and found.reading.tiers == ({"g0": Size(2, 2), "g1": Size(1, 2)},)
    assert codes('{"Version": "1.0", "version": "1.0"}') == ["R111", "R402", "R403"]


def test_a_repeated_list_that_drops_a_group_name_can_crash() -> None:
    text = json.dumps({"elastic_scaling_list": [{"group_list": [group("g0", "2"), D]}, {"group_list": [P, D]}]})
    text = text[:-2] + ', "group_list": [{"group_num": "1"}]}]}'
    assert codes(text.replace("}, ,", "}, ").replace(']}, "group_list"', '], "group_list"')) == ["R201", "R404"]


def test_findings_come_with_the_worst_first_and_then_by_place() -> None:
    found = lint(rule([group("g0", "+2"), D], [group("g0", "1")], stat="x"), source="rule").findings
    assert [one.severity for one in found] == [ERROR, WARNING, NOTE]
    assert worst(found) == ERROR and worst(found[1:]) == WARNING and worst(()) == ""
    assert by_severity(found[::-1]) == found


def test_findings_of_one_severity_come_in_the_order_of_the_text() -> None:
    first, second = group("g0", "+2", "02"), without(D, "group_num", Group_Num="1")
    for indent in (None, 1):
        found = lint(json.dumps({"elastic_scaling_list": [{"group_list": [first, second]}]}, indent=indent), source="rule").findings
        assert [one.code for one in found] == ["R307", "R307", "R402"]
        places = [(one.line, one.column) for one in found]
        assert places == sorted(places)
        assert len({line for line, dummy in places}) == (1 if indent is None else 3)


def test_a_finding_is_plain_data() -> None:
    found = only(rule([group("g0", "2"), D], [P]))
    assert json.loads(json.dumps(found.to_dict())) == found.to_dict()
    assert set(found.to_dict()) == {
        "code", "severity", "message", "effect", "remedy", "line", "column", "path", "tier", "group", "name",
    }  # fmt: skip


def test_every_code_has_a_severity_an_effect_and_a_remedy() -> None:
    for code, row in rule_codes.CODES.items():
        assert len(code) == 4 and code[0].isupper() and code[1:].isdigit()
        assert row.severity in SEVERITIES and row.title and row.effect.endswith(".") and row.remedy.endswith(".")
        assert f"| {code} | {row.severity} | {row.title} |" in rule_codes.table()


def test_every_code_is_made_somewhere() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "plugins/module_utils/_motor").glob("rule_*.py") if path.name != "rule_codes.py")
    assert [code for code in rule_codes.CODES if f'"{code}"' not in sources] == []


def reachable(found: Lint) -> set[str]:
    """What can come of an accepted rule, by asking for every job at all counts that matter."""
    tiers = found.reading.tiers if found.reading else ()
    groups = list(tiers[0]) if tiers else []
    ranges = [sorted({0, *(max(0, tier[name].number) for tier in tiers if name in tier)}) for name in groups]
    possible: set[str] = set()
    if math.prod(map(len, ranges)) <= 2000:
        candidates = [dict(zip(groups, counts, strict=True)) for counts in itertools.product(*ranges)]
    else:
        candidates = [{}, *({name: size.number for name, size in tier.items()} for tier in tiers)]
    for counts in candidates:
        for name in groups:
            decision = scaling_rule.decide(tiers, counts, name)
            possible.add("crash" if decision.crashes else "create" if decision.create else "hold")
    return possible


def is_error_due(found: Lint) -> bool:
    """Refused, never starts anything, or can crash; an entry without a name makes a job of the group that was meant crash."""
    if found.reading is None:
        return True
    nameless = any("group_name" not in entry.texts for tier in found.reading.decoded for entry in tier.entries())
    possible = reachable(found)
    return "create" not in possible or "crash" in possible or nameless


def test_there_is_an_error_exactly_where_the_operator_refuses_stalls_or_crashes(shared_dir: Path, show: Callable[[str], None]) -> None:
    rows = [json.loads(line) for line in (shared_dir / "vectors" / "scaling-rule.jsonl").read_text().splitlines()]
    wrong, number = [], 0
    for row in rows:
        found = lint_data(text_of(row), source="rule")
        refused = row["expect"]["load"] != "ok"
        known = refused or not row["expect"]["panic"] or row["group"] not in row["expect"]["tiers"][0]
        error = worst(found.findings) == ERROR
        number += error
        if error != is_error_due(found) or (refused and not error) or (not known and not error):
            wrong.append((row["id"], [one.code for one in found.findings]))
    show(f"an error finding where it is due for {len(rows) - len(wrong)} of {len(rows)} recorded rules, {number} have one")
    assert not wrong


def test_which_tiers_may_count_agrees_with_trying_all_counts() -> None:
    numbers = [dict(zip("ab", found, strict=True)) for found in itertools.product(range(-1, 3), repeat=2)]
    tiers = [{name: Size(number, 1) for name, number in found.items()} for found in numbers]
    for three in itertools.product(tiers, repeat=3):
        taken = {scaling_rule.pick(three, {"a": a, "b": b}) for a, b in itertools.product(range(4), repeat=2)}
        assert may_count(three) == [index in taken for index in range(3)]
