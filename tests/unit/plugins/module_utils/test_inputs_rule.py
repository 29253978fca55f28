# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A scaling rule is read from every form in which it can be given, with the places of the file in which it stands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.ascend.mindie.plugins.module_utils import _entry_rule, _inputs_rule
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_reader import DATA_KEY
from tests.functional.rules import DOCUMENTED, TWO_TIERS, mapping

BROKEN = TWO_TIERS.replace('"2",', '"2"', 1)


def place(text: str) -> tuple[int | None, int | None]:
    """Where the first finding is."""
    given = _inputs_rule.read_rule(text, None)
    assert given is not None
    finding = _entry_rule.checked(given, relaxed_input=False).findings[0]
    return finding.line, finding.column


def manifest(text: str, indent: int) -> str:
    block = "".join(f"{' ' * indent}{line}\n" for line in text.rstrip("\n").split("\n"))
    return f"# A rule\n\napiVersion: v1\nkind: ConfigMap\ndata:\n  # of the service\n  {DATA_KEY}: |\n{block}metadata: {{name: scaling-rule}}\n"


def test_nothing_given_is_no_rule() -> None:
    assert _inputs_rule.read_rule(None, None) is None


def test_text_that_begins_like_json_is_json_be_it_broken() -> None:
    for text in (
        "{",
        '{"a": ',
        "  \n[",
        '"x"',
        "\ufeff{}",
        "# a comment\n{}",
        "// a comment\n{}",
        "/* a\ncomment */ {}",
        "",
        "null",
        '"elastic_scaling_list": []',
    ):
        given = _inputs_rule.read_rule(text, None)
        assert given is not None and given.data == {DATA_KEY: text} and given.typed


@pytest.mark.parametrize("indent", [4, 7])
def test_places_in_a_manifest_are_those_of_the_file(indent: int) -> None:
    line, column = place(BROKEN)
    text = manifest(BROKEN, indent)
    assert line and column
    found = place(text)
    assert found == (line + 7, column + indent)
    assert text.split("\n")[line + 6][column + indent - 1] == BROKEN.split("\n")[line - 1][column - 1]


def test_a_rule_in_another_kind_of_scalar_keeps_its_own_places() -> None:
    quoted = yaml.safe_dump({"kind": "ConfigMap", "data": {DATA_KEY: BROKEN}}, default_style='"')
    assert place(quoted) == place(BROKEN)


def test_a_byte_order_mark_in_a_manifest_is_found() -> None:
    given = _inputs_rule.read_rule(manifest("\ufeff" + TWO_TIERS, 4), None)
    assert given is not None
    assert [finding.code for finding in _entry_rule.checked(given, relaxed_input=False).findings] == ["R103"]


def test_of_several_documents_the_one_with_a_rule_is_meant() -> None:
    other = "kind: Namespace\nmetadata: {name: x}\n---\n"
    given = _inputs_rule.read_rule(other + DOCUMENTED, None)
    assert given is not None and given.name == "scaling-rule" and given.namespace == "mindie-service"
    line = 1 + other.count("\n") + 4
    assert _entry_rule.checked(given, relaxed_input=False).findings[0].line == line
    with pytest.raises(InputError, match="2 ConfigMaps have a scaling rule"):
        _inputs_rule.read_rule(DOCUMENTED + "---\n" + DOCUMENTED, None)


def test_a_manifest_without_the_key_is_one_of_a_rule_without_it() -> None:
    given = _inputs_rule.read_rule({"kind": "ConfigMap", "data": {"elastic-scaling.json": TWO_TIERS}}, None)
    assert given is not None
    assert [finding.code for finding in _entry_rule.checked(given, relaxed_input=False).findings] == ["R101"]


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"kind": "Deployment"}, "kind: this is a Deployment"),
        ({"kind": "ConfigMap", "data": "x"}, "data: a str instead of a mapping"),
        ({"kind": "ConfigMap", "metadata": [1]}, "metadata: a list instead of a mapping"),
        ({"kind": "ConfigMap", "data": {DATA_KEY: {"version": "1.0"}}}, "the value is no text: put a |"),
        ("a: [", "line 2, column 1: this is no valid YAML"),
        (17, "a int is neither JSON text nor a mapping"),
        ({"elastic_scaling_list": [{"group_list": [{"group_num": 2.5}]}]}, "elastic_scaling_list[0].group_list[0].group_num: 2.5"),
        ({"elastic_scaling_list": [{"group_list": [{"server_num_per_group": False}]}]}, "group_list[0].server_num_per_group: false"),
        ({1: 2}, "the key 1 is no string"),
    ],
)
def test_what_cannot_be_a_rule_is_refused_with_its_place(rule: Any, said: str) -> None:
    with pytest.raises(InputError) as failed:
        _inputs_rule.read_rule(rule, None)
    assert said in failed.value.message


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"rule_file \(.*nothing\): there is no such file"):
        _inputs_rule.read_rule(None, str(tmp_path / "nothing"))


def test_a_mapping_has_no_lines_and_its_numbers_become_texts() -> None:
    given = _inputs_rule.read_rule({**mapping(2, 1), "version": 1.0}, None)
    assert given is not None and json.loads(given.data[DATA_KEY]) == json.loads(TWO_TIERS)
    wrong = mapping(2, 1)
    wrong["elastic_scaling_list"][0]["group_list"][0]["group_num"] = "two"
    given = _inputs_rule.read_rule(wrong, None)
    assert given is not None
    finding = _entry_rule.checked(given, relaxed_input=False).findings[0]
    assert (finding.line, finding.column) == (None, None) and "line" not in finding.message
    assert finding.path == "elastic_scaling_list[0].group_list[0].group_num"


def test_things_that_are_no_tiers_and_groups_are_left_for_the_check_to_judge() -> None:
    for odd in ({"elastic_scaling_list": 3}, {"elastic_scaling_list": ["x", {"group_list": 1}, {"group_list": ["x"]}]}, {"version": True}):
        given = _inputs_rule.read_rule(odd, None)
        assert given is not None and json.loads(given.data[DATA_KEY]) == odd
        assert _entry_rule.checked(given, relaxed_input=False).reading is None


def test_the_documented_sample_becomes_the_two_tiers_of_its_page(shared_dir: Path) -> None:
    file = shared_dir / "upstream" / "samples" / "elastic-scaling-as-documented.yaml"
    if not file.exists():
        pytest.skip("the recorded documentation is not there")
    given = _inputs_rule.read_rule(None, str(file))
    assert given is not None
    strict = _entry_rule.checked(given, relaxed_input=False)
    finding = strict.findings[0]
    assert strict.reading is None and finding.code == "R104" and finding.line and finding.column
    assert file.read_text().split("\n")[finding.line - 1][finding.column - 1] == "#"
    relaxed = _entry_rule.checked(given, relaxed_input=True)
    assert "R502" in {one.code for one in relaxed.findings}
    assert relaxed.strict().text == TWO_TIERS.replace('group": "1"', 'group": "2"')


def test_recorded_rules_given_as_text_are_taken_exactly_when_the_operator_takes_them(shared_dir: Path, show: Callable[[str], None]) -> None:
    lines = (shared_dir / "vectors" / "scaling-rule.jsonl").read_text(encoding="ascii").splitlines()
    vectors = [vector for vector in map(json.loads, lines) if "rule" in vector]
    for vector in vectors:
        try:
            given = _inputs_rule.read_rule(vector["rule"], None)
        except InputError:
            assert vector["expect"]["load"] != "ok", vector["id"]
            continue
        assert given is not None
        if not given.typed:  # a rule in YAML is none for the operator, but one for us
            assert "YAML" in vector["about"]
            continue
        reading = _entry_rule.checked(given, relaxed_input=False).reading
        if vector["expect"]["load"] != "ok":
            assert reading is None, vector["id"]
            continue
        assert reading is not None, vector["id"]
        found = [
            {group: {"group_num": size.number, "server_num_per_group": size.servers} for group, size in tier.items()}
            for tier in reading.tiers
        ]
        assert found == vector["expect"]["tiers"], vector["id"]
    show(f"{len(vectors)} recorded texts are taken or refused as the operator does")
