# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scaling rules with comments: what is a comment, what stays, and brackets that fell into one."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ansible_collections.ascend.mindie.plugins.module_utils._motor import rule_reader
from ansible_collections.ascend.mindie.plugins.module_utils._motor.findings import NOTE, WARNING
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_lint import lint
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_reader import DATA_KEY, RuleError, Size
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_relaxed import relaxed

# The faults of a published sample, in our own words: comments everywhere, and one of them ends with the bracket of the next line.
SAMPLE = """\
{
  "version": "1.0",     # any text
  "elastic_scaling_list": [
    {
      "group_list": [   # full size   {
          "group_name": "prefill",     // ours
          "group_num": "2",
          "server_num_per_group": "4"  # servers of one instance
        },
        {"group_name": "decode", "group_num": "1", "server_num_per_group": "4"}
      ]
    },
    {
      "group_list": [
        {"group_name": "prefill", "group_num": "1", "server_num_per_group": "4"},
        {"group_name": "decode", "group_num": "1", "server_num_per_group": "4"}
      ]
    }
  ]
}
"""
SIZES = ({"prefill": Size(2, 4), "decode": Size(1, 4)}, {"prefill": Size(1, 4), "decode": Size(1, 4)})


def sizes(text: str) -> tuple[rule_reader.Sizes, ...]:
    return rule_reader.read(text, source="rule").tiers


def test_a_sample_with_comments_is_refused_with_line_and_column_when_strict() -> None:
    found = lint(SAMPLE, source="rule").findings
    assert [(one.code, one.line, one.column) for one in found] == [("R104", 2, 25)]
    assert "(4 in all)" in found[0].message
    assert "relaxed" in found[0].remedy


def test_a_bracket_that_fell_into_a_comment_is_taken_as_code_with_a_warning() -> None:
    found = relaxed(SAMPLE, source="rule")
    assert sizes(found.text) == SIZES
    assert [(one.code, one.severity, one.line, one.column) for one in found.findings] == [("R501", NOTE, 2, 25), ("R502", WARNING, 5, 39)]
    assert "rule, line 5, column 39" in found.findings[1].message


def test_the_published_sample_becomes_the_rule_that_its_page_describes(shared_dir: Path) -> None:
    published = shared_dir / "upstream" / "samples" / "elastic-scaling-as-documented.yaml"
    text = yaml.safe_load(published.read_text())["data"][DATA_KEY]
    strict = lint(text, source="rule")
    assert strict.reading is None
    assert [(one.code, one.line, one.column) for one in strict.findings] == [("R104", 2, text.splitlines()[1].index("#") + 1)]
    found = relaxed(text, source="rule")
    assert sizes(found.text) == ({"group0": Size(2, 2), "group1": Size(1, 2)}, {"group0": Size(1, 2), "group1": Size(1, 2)})
    bracket = next(one for one in found.findings if one.code == "R502")
    line = text.splitlines()[4]
    assert (bracket.line, bracket.column) == (5, len(line)) and line.endswith("{")
    assert lint(found.text, source="rule").findings == ()


def test_lines_and_columns_stay() -> None:
    found = relaxed(SAMPLE, source="rule").text
    assert len(found) == len(SAMPLE)
    assert [len(line) for line in found.splitlines()] == [len(line) for line in SAMPLE.splitlines()]
    broken = '{\n "a": 1 # one\n "b": 2}'
    with pytest.raises(RuleError) as caught:
        rule_reader.read(relaxed(broken, source="rule").text, source="rule")
    assert (caught.value.line, caught.value.column) == (3, 2)


STRINGS = {
    "hash": '{"a": "# no comment"}',
    "slashes": '{"a": "http://x"}',
    "behind an escaped quote": '{"a": "x\\" # y"}',
    "behind an escaped backslash": '{"a": "x\\\\", "b": "# y"}',
    "in a key": '{"#": "//"}',
}


@pytest.mark.parametrize("text", STRINGS.values(), ids=STRINGS)
def test_text_in_strings_is_never_touched(text: str) -> None:
    found = relaxed(text, source="rule")
    assert (found.text, found.findings) == (text, ())


def test_a_comment_behind_a_string_with_escapes_is_removed() -> None:
    assert relaxed('{"a": "x\\\\" # y\n}', source="rule").text == '{"a": "x\\\\"    \n}'
    assert relaxed('{"a": "\\"" // "\r\n}', source="rule").text == '{"a": "\\""     \r\n}'


def test_an_open_string_does_not_hide_the_comments_of_other_lines() -> None:
    assert relaxed('{"a": "open # not this\n# this\n}', source="rule").text == '{"a": "open # not this\n      \n}'


@pytest.mark.parametrize("text", ['{"a": 1, # x\n}', '{"elastic_scaling_list": [ # x\n {},\n]}', '{"a": 1 /* x */}', "{'a': 1} # x"])
def test_other_faults_stay_errors(text: str) -> None:
    with pytest.raises(RuleError):
        rule_reader.read(relaxed(text, source="rule").text, source="rule")


def test_a_bracket_stays_a_comment_when_the_text_is_json_without_it() -> None:
    found = relaxed('{ # {\n"a": [1] # ]\n}', source="rule")
    assert found.text == '{    \n"a": [1]    \n}'
    assert [one.code for one in found.findings] == ["R501"]


def test_a_bracket_stays_a_comment_when_it_does_not_help() -> None:
    found = relaxed('{"a": [1, # ]\n', source="rule")
    assert found.text == '{"a": [1,    \n'
    assert [one.code for one in found.findings] == ["R501"]


def test_only_the_brackets_that_are_needed_become_code() -> None:
    text = '{"a": [ # one {\n"b": 1}, # two {\n"c": 2} # three }\n] # four ]\n}'
    found = relaxed(text, source="rule")
    assert found.text == '{"a": [       {\n"b": 1},       {\n"c": 2}          \n]         \n}'
    assert [(one.code, one.line) for one in found.findings] == [("R501", 1), ("R502", 1), ("R502", 2)]


def test_closing_brackets_come_back_too() -> None:
    assert relaxed('{"a": [1 # ]\n, 2 # ]\n}', source="rule").text == '{"a": [1    \n, 2   ]\n}'


def test_a_bracket_inside_a_comment_is_no_code() -> None:
    found = relaxed('{"a": [ # one { two\n"b": 1}]}', source="rule")
    assert [one.code for one in found.findings] == ["R501"]


def test_a_text_full_of_bracketed_comments_is_not_guessed_at() -> None:
    text = '{"a": [\n' + "# {\n" * 17 + '"b": 1}]}'
    assert [one.code for one in relaxed(text, source="rule").findings] == ["R501"]
    assert [one.code for one in relaxed(text.replace("# {\n", "", 1), source="rule").findings] == ["R501", "R502"]
