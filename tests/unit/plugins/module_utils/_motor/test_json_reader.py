# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The strict JSON reader: what it refuses and where, positions, byte fidelity."""

from __future__ import annotations

import datetime
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ascend.mindie.plugins.module_utils._motor import json_reader
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=20)
LAYOUTS = st.fixed_dictionaries({"indent": st.none() | st.integers(0, 4) | st.just("\t"), "ensure_ascii": st.booleans()})

REFUSED = [
    ("", 1, 1, "the text ends here, but a value is missing"),
    ("  ", 1, 3, "the text ends here"),
    ('{"a": 1, "a": 2}', 1, 10, "already, at line 1, column 2"),
    ('{"a": {"b": 1,\n "b": 1}}', 2, 2, "already, at line 1, column 8"),
    ('{"a": 1, "\\u0061": 2}', 1, 10, "already"),
    ("[NaN]", 1, 2, "JSON has no such number"),
    ("[Infinity]", 1, 2, "JSON has no such number"),
    ("[-Infinity]", 1, 2, "JSON has no such number"),
    ("[1e999]", 1, 2, "too large"),
    ("[-1e999]", 1, 2, "too large"),
    ("[" + "9" * 5000 + "]", 1, 2, "more than 4300 digits"),
    ("{} {}", 1, 4, "the document is complete before this place"),
    ('{"a": 1}\nx', 2, 1, 'found "x"'),
    ('{"a": 1,}', 1, 8, "a comma before }"),
    ("[1, 2 ,\n]", 1, 7, "a comma before ]"),
    ("[,]", 1, 2, 'found ","'),
    ("[1 2]", 1, 4, "instead of , or ]"),
    ('{"a" 1}', 1, 6, "instead of :"),
    ("{a: 1}", 1, 2, "a key in double quotes"),
    ("{1: 1}", 1, 2, "a key in double quotes"),
    ("{'a': 1}", 1, 2, "a single quote"),
    ("// x\n{}", 1, 1, "a comment"),
    ('{"a": 1 /* x */}', 1, 9, "a comment"),
    ('{"a": # x\n 1}', 1, 7, "a comment"),
    ('["a\nb"]', 1, 2, "does not end in this line"),
    ('["a', 1, 2, "does not end in this line"),
    ('["a\tb"]', 1, 4, "U+0009 in a string: write it as \\t"),
    ('["\x00"]', 1, 3, "U+0000 in a string: write it as \\u0000"),
    ('["\\x41"]', 1, 3, "no escape sequence"),
    ('["\\u12"]', 1, 3, "no escape sequence"),
    ('["\\', 1, 3, "no escape sequence"),
    ('["\\ud800"]', 1, 3, "half of a surrogate pair"),
    ('["\\ud800\\u0041"]', 1, 3, "half of a surrogate pair"),
    ('["\\udc00"]', 1, 3, "half of a surrogate pair"),
    ('["\ud800"]', 1, 3, "half of a surrogate pair"),
    ("[01]", 1, 2, 'found "01"'),
    ("[+1]", 1, 2, 'found "+1"'),
    ("[.5]", 1, 2, 'found ".5"'),
    ("[1.]", 1, 2, 'found "1."'),
    ("[1e]", 1, 2, 'found "1e"'),
    ("[-]", 1, 2, 'found "-"'),
    ("[0x10]", 1, 2, 'found "0x10"'),
    ("[1_000]", 1, 2, 'found "1_000"'),
    ("[\uff12]", 1, 2, 'found "\uff12"'),
    ("[\u0661]", 1, 2, 'found "\u0661"'),
    ("[True]", 1, 2, "write true"),
    ("[None]", 1, 2, "write null"),
    ("[\u00a01]", 1, 2, 'found "\\u00a0"'),
    ("\ufeff\ufeff[]", 1, 1, 'found "\\ufeff"'),
    ("[" * 202 + "]" * 202, 1, 202, "deeper than 200 levels"),
    ('{"a":' * 100000, 1, 1006, "deeper than 200 levels"),
]


@pytest.mark.parametrize(("text", "line", "column", "wrong"), REFUSED, ids=[repr(row[0][:30]) for row in REFUSED])
def test_what_is_no_strict_json_is_refused_where_it_stands(text: str, line: int, column: int, wrong: str) -> None:
    with pytest.raises(InputError) as caught:
        json_reader.read(text, source="user_config")
    assert (caught.value.line, caught.value.column) == (line, column)
    assert wrong in str(caught.value)
    assert str(caught.value).startswith(f"user_config, line {line}, column {column}: ")
    assert caught.value.details["source"] == "user_config"


def test_two_hundred_levels_are_read() -> None:
    assert json_reader.read("[" * 201 + "]" * 201, source="x").data[0][0][0]


def test_errors_name_the_path() -> None:
    with pytest.raises(InputError) as caught:
        json_reader.read('{"a": {"b": [1, {"c d": nul}]}}', source="x")
    assert caught.value.path == 'a.b[1]["c d"]'


def test_a_very_deep_path_is_cut_in_messages() -> None:
    with pytest.raises(InputError) as caught:
        json_reader.read("[" * 300, source="x")
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    ("token", "value"),
    [("0", 0), ("-0", 0), ("1e1", 10.0), ("2.9", 2.9), ("10", 10), ("1E+2", 100.0), ("9" * 400, int("9" * 400)), ("-12.5e-1", -1.25)],
)
def test_numbers_keep_their_kind_and_their_token(token: str, value: float) -> None:
    document = json_reader.read(f'{{"n": {token}}}', source="x")
    assert document.data["n"] == value
    assert type(document.data["n"]) is type(value)
    assert document.raw(("n",)) == token


def test_escapes() -> None:
    assert json_reader.read(r'"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"', source="x").data == '"\\/\b\f\n\r\té😀'


def test_a_byte_order_mark_and_windows_line_ends_are_read() -> None:
    document = json_reader.read('\ufeff{\r\n  "a": [1,\r\n 2]}\r\n', source="x")
    assert document.text == '{\r\n  "a": [1,\r\n 2]}\r\n'
    assert document.position(("a", 1)) == (3, 2)
    assert document.position(()) == (1, 1)


def test_a_path_that_is_absent_has_the_place_of_what_should_hold_it() -> None:
    document = json_reader.read('{\n "a": {}}', source="x")
    assert document.position(("a", "b", "c")) == (2, 7)
    assert document.position(("z",)) == (1, 1)


def test_value_and_has_tell_null_from_absent() -> None:
    document = json_reader.read('{"a": null, "b": [5]}', source="x")
    assert document.has(("a",))
    assert document.value(("a",), 1) is None
    assert not document.has(("c",))
    assert document.value(("c",), 1) == 1
    assert document.value(("b", 0)) == 5


@given(VALUES, LAYOUTS)
def test_valid_json_reads_as_the_standard_library_reads_it(value: Any, layout: dict[str, Any]) -> None:
    text = json.dumps(value, **layout)
    document = json_reader.read(text, source="x")
    assert repr(document.data) == repr(json.loads(text))


@given(st.text(alphabet='{}[]",:.-+eE0123 \n\\utrfalsn"', max_size=20))
def test_nothing_is_read_that_the_standard_library_refuses(text: str) -> None:
    try:
        data = json_reader.read(text, source="x").data
    except InputError:
        return
    assert repr(json.loads(text)) == repr(data)


@given(VALUES, LAYOUTS)
def test_every_span_holds_exactly_its_value(value: Any, layout: dict[str, Any]) -> None:
    document = json_reader.read("\n " + json.dumps(value, **layout), source="x")
    for path in document.spans:
        assert repr(json.loads(document.raw(path))) == repr(document.value(path))
        line, column = document.position(path)
        offset = sum(len(row) + 1 for row in document.text.split("\n")[: line - 1]) + column - 1
        assert offset == document.spans[path][0]


@given(VALUES, LAYOUTS, st.data())
def test_replace_touches_nothing_but_the_value(value: Any, layout: dict[str, Any], data: st.DataObject) -> None:
    document = json_reader.read(json.dumps(value, **layout), source="x")
    leaves = sorted((path for path in document.spans if not isinstance(document.value(path), (dict, list))), key=repr)
    chosen = data.draw(st.sets(st.sampled_from(leaves), max_size=3)) if leaves else set()
    changed = json_reader.read(document.replace(dict.fromkeys(chosen, '"new"')), source="x")
    assert set(changed.spans) == set(document.spans)
    for path in leaves:
        assert changed.raw(path) == ('"new"' if path in chosen else document.raw(path))
    back = changed.replace({path: document.raw(path) for path in chosen})
    assert back == document.text


def test_replace_refuses_an_absent_path() -> None:
    with pytest.raises(KeyError):
        json_reader.read("{}", source="x").replace({("a",): "1"})


@pytest.mark.parametrize(
    ("text", "parent", "written"),
    [
        ('{\n  "a": 1\n}', (), '{\n  "k": 5,\n  "a": 1\n}'),
        ('{"a": 1}', (), '{"k": 5, "a": 1}'),
        ("{ }", (), '{"k": 5}'),
        ("{}", (), '{"k": 5}'),
        ('{"a": {\r\n\t"b": 1}}', ("a",), '{"a": {\r\n\t"k": 5,\r\n\t"b": 1}}'),
    ],
)
def test_insert_keeps_the_indent(text: str, parent: json_reader.Path, written: str) -> None:
    assert json_reader.read(text, source="x").insert(parent, "k", "5") == written


@given(st.dictionaries(TEXT, VALUES, max_size=5))
def test_a_mapping_reads_as_given(data: dict[str, Any]) -> None:
    document = json_reader.from_mapping(data, "user_config_content")
    assert document.data == data
    assert json.loads(document.text) == data
    assert document.text == json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def test_tuples_and_subclasses_become_plain() -> None:
    class Tagged(str):
        pass

    document = json_reader.from_mapping({Tagged("a"): (Tagged("b"), 1, True, 0.5)}, "x")
    assert document.data == {"a": ["b", 1, True, 0.5]}


_cyclic: dict[str, Any] = {}
_cyclic["again"] = _cyclic


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        ({1: "a"}, "the key 1 is no string"),
        ({"a": {True: 1}}, "x: a: the key True"),
        ({"a": [datetime.date(2026, 5, 1)]}, "x: a[0]: a date cannot be written as JSON: put 2026-05-01 in quotes"),
        ({"a": math.nan}, "nan cannot be written as JSON"),
        ({"a": math.inf}, "inf cannot be written as JSON"),
        (_cyclic, "deeper than 200 levels"),
        ({"a": "\ud800"}, "half of a surrogate pair"),
    ],
)
def test_what_json_cannot_hold_is_refused(data: dict[Any, Any], wrong: str) -> None:
    with pytest.raises(InputError, match="x") as caught:
        json_reader.from_mapping(data, "x")
    assert wrong in str(caught.value)


def test_errors_about_a_mapping_name_no_line() -> None:
    error = json_reader.from_mapping({"a": 1}, "user_config_content").error(("a",), "wrong")
    assert str(error) == "user_config_content: a: wrong"
    assert error.line is None
    assert "line" not in error.details
