# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a scaling rule is read: the operator's patience with keys, its order of errors, merged lists, integers, and places."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import rule_reader
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_reader import (
    DATA_KEY,
    INT_ERROR,
    JSON_ERROR,
    MISSING_KEY,
    TIER_ERROR,
    TYPE_ERROR,
    RuleError,
    Size,
    attempt,
    integer,
    known_key,
    read,
    read_data,
    text_of,
)


def rule(*tiers: str) -> str:
    """A rule of tiers that are written as `g0 2 1, g1 1 1`: group, instances, servers."""
    keys = ("group_name", "group_num", "server_num_per_group")
    entries = [[dict(zip(keys, entry.split(), strict=True)) for entry in tier.split(", ")] for tier in tiers]
    return json.dumps({"elastic_scaling_list": [{"group_list": tier} for tier in entries]})


def refused(text: str) -> RuleError:
    with pytest.raises(RuleError) as caught:
        read(text, source="rule")
    return caught.value


def test_tiers_are_sizes_by_group() -> None:
    assert read(rule("g0 2 4, g1 1 3", "g0 1 4, g1 1 3"), source="rule").tiers == (
        {"g0": Size(2, 4), "g1": Size(1, 3)},
        {"g0": Size(1, 4), "g1": Size(1, 3)},
    )


KINDS: dict[str, tuple[str, str, tuple[int, int]]] = {
    "no JSON": ('{"a": }', JSON_ERROR, (1, 7)),
    "NaN": ('{"a": NaN}', JSON_ERROR, (1, 7)),
    "text behind it": ("{}\n{}", JSON_ERROR, (2, 1)),
    "a number as key": ("{1: 2}", JSON_ERROR, (1, 2)),
    "a key that only ends in a quote": ('{a": 2}', JSON_ERROR, (1, 2)),
    "a missing colon": ('{"a" 1}', JSON_ERROR, (1, 6)),
    "list on top": ("[]", TYPE_ERROR, (1, 1)),
    "text on top": ('"x"', TYPE_ERROR, (1, 1)),
    "number on top": ("1", TYPE_ERROR, (1, 1)),
    "true on top": ("true", TYPE_ERROR, (1, 1)),
    "version": ('{"version": 1}', TYPE_ERROR, (1, 13)),
    "list is an object": ('{"elastic_scaling_list": {}}', TYPE_ERROR, (1, 26)),
    "tier is a list": ('{"elastic_scaling_list": [[]]}', TYPE_ERROR, (1, 27)),
    "groups are a text": ('{"elastic_scaling_list": [{"group_list": "x"}]}', TYPE_ERROR, (1, 42)),
    "group is a number": ('{"elastic_scaling_list": [{"group_list": [1]}]}', TYPE_ERROR, (1, 43)),
    "name is a boolean": ('{"elastic_scaling_list": [{"group_list": [{"group_name": true}]}]}', TYPE_ERROR, (1, 58)),
    "number is missing": ('{"elastic_scaling_list": [{"group_list": [{"server_num_per_group": "1"}]}]}', INT_ERROR, (1, 43)),
    "group is null": ('{"elastic_scaling_list": [{"group_list": [null]}]}', INT_ERROR, (1, 43)),
    "number is a word": (rule("g0 two 1"), INT_ERROR, (1, 77)),
    "servers are a word": (rule("g0 2 one"), INT_ERROR, (1, 106)),
    "more instances": (rule("g0 1 1", "g0 2 1"), TIER_ERROR, (1, 164)),
    "more servers": (rule("g0 1 1", "g0 1 2"), TIER_ERROR, (1, 193)),
    "new group": (rule("g0 1 1", "g1 1 1"), TIER_ERROR, (1, 145)),
}


@pytest.mark.parametrize(("text", "kind", "place"), KINDS.values(), ids=KINDS)
def test_errors_have_their_kind_and_place(text: str, kind: str, place: tuple[int, int]) -> None:
    error = refused(text)
    assert (error.kind, (error.line, error.column)) == (kind, place)
    assert error.reason == "RuleRefused" and str(error).startswith(f"rule, line {place[0]}, column {place[1]}: ")


@pytest.mark.parametrize(
    ("value", "kind"), [("1", "number"), ("-1.5e3", "number"), ("true", "true"), ("false", "false"), ("[]", "array"), ("{}", "object")]
)
def test_a_wrong_type_is_told_as_what_it_is(value: str, kind: str) -> None:
    error = refused(f'{{"version": {value}}}')
    assert error.message.endswith(f"; it is of type {kind}") and '("version": "...")' in error.message
    assert (error.path, error.key, error.tier, error.group) == ("", "", None, None)


def test_errors_of_groups_tell_key_tier_and_group() -> None:
    error = refused(rule("g0 1 1, g1 2 2", "g0 1 1, g1 2 3"))
    assert (error.path, error.key) == ("elastic_scaling_list[1].group_list[1].server_num_per_group", "server_num_per_group")
    assert (error.tier, error.group) == (1, "g1")
    assert "g1" in error.message and "3 servers" in error.message and "2 of the tier before" in error.message
    assert refused(rule("g0 1 1", "g0 2 1")).key == "group_num" and refused(rule("g0 1 1", "g1 1 1")).key == "group_name"


def test_a_number_that_is_missing_and_one_that_is_none_are_told_apart() -> None:
    assert '"two" is no integer' in refused(rule("g0 two 1")).message
    assert '"" is no integer' in refused(rule("g0 2 1").replace('"2"', '""')).message
    assert "it is missing" in refused('{"elastic_scaling_list": [{"group_list": [{}]}]}').message


def test_the_first_bad_kind_wins_whatever_its_place() -> None:
    ints, tiers = rule("g0 x 1"), rule("g0 1 1", "g0 2 1")
    assert refused(tiers.replace('"2"', '"y"')).kind == INT_ERROR
    assert refused(ints.replace('"1"', "1")).kind == TYPE_ERROR
    assert refused(ints.replace('"1"', "1") + "x").kind == JSON_ERROR
    assert refused('{"version": 1, "version": "1"}').kind == TYPE_ERROR


def test_all_errors_of_that_kind_are_told() -> None:
    tried = attempt(rule("g0 x 1, g1 1 y", "g0 1 1, g1 1 1"), source="rule")
    assert [(error.tier, error.group, error.key) for error in tried.errors] == [(0, "g0", "group_num"), (0, "g1", "server_num_per_group")]
    assert tried.reading is None and tried.top is not None
    assert [error.tier for error in attempt(rule("g0 1 1", "g0 2 1", "g0 3 1"), source="rule").errors] == [1, 2]
    assert attempt("{", source="rule").top is None
    assert attempt(rule("g0 1 1"), source="rule").errors == ()


def test_the_words_are_those_of_the_operator_and_of_recorded_answers() -> None:
    assert DATA_KEY == "elastic_scaling.json"
    kinds = (MISSING_KEY, JSON_ERROR, TYPE_ERROR, INT_ERROR, TIER_ERROR)
    assert kinds == ("missing_key", "json_error", "type_error", "int_error", "tier_error")


def test_the_data_key_is_compared_exactly() -> None:
    assert read_data({DATA_KEY: rule("g0 1 1")}, source="x").tiers == ({"g0": Size(1, 1)},)
    with pytest.raises(RuleError) as caught:
        read_data({DATA_KEY.upper(): ""}, source="ConfigMap a/b")
    assert caught.value.kind == MISSING_KEY and caught.value.line is None
    assert str(caught.value) == f"ConfigMap a/b: it has no key {DATA_KEY}"
    with pytest.raises(RuleError, match=f"ConfigMap a/b {DATA_KEY}, line 1"):
        read_data({DATA_KEY: ""}, source="ConfigMap a/b")


@pytest.mark.parametrize(
    "text", ["null", "{}", '{"elastic_scaling_list": null}', '{"elastic_scaling_list": []}', '{"x": [1, {"y": 1e999}]}']
)
def test_no_tiers_are_no_error(text: str) -> None:
    assert read(text, source="rule").tiers == ()


@pytest.mark.parametrize("tier", ["null", "{}", '{"group_list": null}', '{"group_list": []}', '{"Groups": [1]}'])
def test_a_tier_may_be_empty(tier: str) -> None:
    assert read(f'{{"elastic_scaling_list": [{tier}]}}', source="rule").tiers == ({},)


KEYS = {
    "Group_Name": "group_name", "GROUP_NUM": "group_num", "\u017ferver_num_per_group": "server_num_per_group", "Version": "version",
    "group\u2010name": "group\u2010name", "\uff47roup_num": "\uff47roup_num", "x": "x", "ela\u017ftic_\u017fcaling_list": "elastic_scaling_list",
}  # fmt: skip


@pytest.mark.parametrize(("key", "known"), KEYS.items())
def test_keys_fold_letter_by_letter(key: str, known: str) -> None:
    assert known_key(key) == known
    assert read(rule("g0 1 1").replace("group_num", "Group_Num"), source="rule").tiers == ({"g0": Size(1, 1)},)


INTEGERS: dict[str, int | None] = {
    "0": 0, "2": 2, "+2": 2, "-1": -1, "02": 2, "-0": 0, "0" * 5000 + "7": 7, str(2**63 - 1): 2**63 - 1, str(-(2**63)): -(2**63),
    str(2**63): None, str(-(2**63) - 1): None, "9" * 20: None, "9" * 5000: None, "": None, " 2": None, "2 ": None, "2.0": None, "1_0": None,
    "+": None, "+-1": None, "0x1": None, "\uff12": None, "\u0662": None, "1e3": None,
}  # fmt: skip


@pytest.mark.parametrize(("text", "number"), INTEGERS.items(), ids=lambda value: str(value)[:20])
def test_integers_are_ascii_digits_within_64_bits(text: str, number: int | None) -> None:
    assert integer(text) == number


def entry(name: Any = None, number: Any = None, servers: Any = None) -> str:
    given = {"group_name": name, "group_num": number, "server_num_per_group": servers}
    return json.dumps({key: value for key, value in given.items() if value is not None})


def tiers_of(groups: str) -> tuple[rule_reader.Sizes, ...]:
    return read(f'{{"elastic_scaling_list": [{{{groups}}}]}}', source="rule").tiers


def test_all_letters_of_ascii_fold_and_nothing_beside_them() -> None:
    assert known_key("ABCDEFGHIJKLMNOPQRSTUVWXYZ@[`{") == "abcdefghijklmnopqrstuvwxyz@[`{"


def test_a_null_text_leaves_what_was_there() -> None:
    written = entry("g0", "3", "1")[:-1]
    assert tiers_of(f'"group_list": [{written}, "group_num": null}}]') == ({"g0": Size(3, 1)},)
    assert tiers_of(f'"group_list": [{written}, "group_num": "4"}}]') == ({"g0": Size(4, 1)},)


def test_a_second_list_is_read_over_the_first_one() -> None:
    first = f'"group_list": [{entry("g0", "3", "1")}, {entry("g1", "2", "1")}]'
    assert tiers_of(f'{first}, "group_list": [{entry(number="5")}, {{}}]') == ({"g0": Size(5, 1), "g1": Size(2, 1)},)
    assert tiers_of(f'{first}, "group_list": [null]') == ({"g0": Size(3, 1)},)
    # What a shorter list cut off comes back under a longer one, unless an empty list or null came between.
    assert tiers_of(f'{first}, "group_list": [{{}}], "group_list": [{{}}, {{}}]') == ({"g0": Size(3, 1), "g1": Size(2, 1)},)
    for forgetting in ("[]", "null"):
        with pytest.raises(RuleError) as caught:
            tiers_of(f'{first}, "group_list": {forgetting}, "group_list": [{{}}]')
        assert caught.value.kind == INT_ERROR
    assert tiers_of(f'{first}, "group_list": null') == ({},)


def test_a_bad_number_that_was_cut_off_does_not_count() -> None:
    bad = f'"group_list": [{entry("g0", "3", "1")}, {entry("g1", "x", "1")}]'
    assert tiers_of(f'{bad}, "group_list": [{{}}]') == ({"g0": Size(3, 1)},)


def test_lists_of_tiers_merge_too() -> None:
    text = f'{{"elastic_scaling_list": [{{"group_list": [{entry("g0", "3", "1")}]}}], "Elastic_Scaling_List": [{{}}, null]}}'
    assert read(text, source="rule").tiers == ({"g0": Size(3, 1)}, {})


def test_the_last_entry_of_a_group_counts_and_all_are_read() -> None:
    assert read(rule("g0 1 1, g0 2 2"), source="rule").tiers == ({"g0": Size(2, 2)},)
    assert refused(rule("g0 x 1, g0 2 2")).kind == INT_ERROR


def test_a_group_without_a_name_is_called_by_the_empty_name() -> None:
    found = read(f'{{"elastic_scaling_list": [{{"group_list": [{entry(None, "1", "1")}]}}]}}', source="rule")
    assert found.tiers == ({"": Size(1, 1)},)


def test_groups_may_go_and_numbers_may_stay_or_fall() -> None:
    assert len(read(rule("g0 2 2, g1 1 1", "g0 2 2", "g0 -1 0"), source="rule").tiers) == 3


def test_depth_is_limited_as_in_go() -> None:
    assert read('{"x":' + "[" * 9999 + "]" * 9999 + "}", source="rule").tiers == ()
    error = refused('{"x":' + "[" * 10000 + "]" * 10000 + "}")
    assert (error.kind, error.column) == (JSON_ERROR, 10005) and "10000 levels" in error.message


TEXTS = {
    r"\ud800": "\ufffd", r"\udc00": "\ufffd", r"\ud83d\ude00": "\U0001f600", r"\ud800x": "\ufffdx", r"\ud800\udc00": "\U00010000",
    r"\udbff\udfff": "\U0010ffff", r"\ud800\udbff": "\ufffd\ufffd", r"\udfff": "\ufffd", r"\udc00\udc00": "\ufffd\ufffd",
    r"\ud800\ue000": "\ufffd\ue000", r"\ud800\ud800": "\ufffd\ufffd",
    r"\ud800\u0041": "\ufffdA", r"\n": "\n", r"\/": "/", r"\u00e9": "é", r"\ud7ff": "\ud7ff", r"\ue000": "\ue000",
}  # fmt: skip


@pytest.mark.parametrize(("written", "name"), TEXTS.items())
def test_escapes_are_read_as_go_reads_them(written: str, name: str) -> None:
    assert list(read(rule("g0 1 1").replace("g0", written), source="rule").tiers[0]) == [name]


@pytest.mark.parametrize("written", [r"\x", r"\u12", "\x01", "\n"])
def test_what_is_no_text_of_json_is_refused(written: str) -> None:
    assert refused(rule("g0 1 1").replace("g0", written)).kind == JSON_ERROR


def test_each_invalid_byte_is_one_replacement_character() -> None:
    assert text_of(b"a\xe2\x82b") == "a\ufffd\ufffdb"
    assert text_of("é".encode()) == "é"
