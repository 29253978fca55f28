# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever tiers are written, they are read back as meant, hold no job by an error and never crash the operator; and no text at all
makes the reader, the lint or the relaxed reading fail in any way but the one that is promised.
"""

from __future__ import annotations

import json
import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.ascend.mindie.plugins.module_utils._motor import rule_reader, scaling_rule
from ansible_collections.ascend.mindie.plugins.module_utils._motor.findings import ERROR, worst
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_lint import lint
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_reader import RuleError, Size, Sizes
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_relaxed import relaxed

EXAMPLES = int(os.environ.get("MINDIE_EXAMPLES", "300"))
often = settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))

NAMES = st.text(max_size=8) | st.from_regex(r"\A[a-z][-a-z0-9]{0,10}[a-z0-9]\Z")
NUMBERS = st.integers(0, 5) | st.integers(0, 2**63 - 1)


@st.composite
def descending(draw: st.DrawFn) -> list[Sizes]:
    """Tiers in which no group grows downwards. Later tiers may leave out groups, whose servers are those of the first tier."""
    names = draw(st.lists(NAMES, unique=True, min_size=1, max_size=4))
    servers = {name: draw(NUMBERS) for name in names}
    numbers = {name: sorted(draw(st.lists(NUMBERS, min_size=4, max_size=4)), reverse=True) for name in names}
    tiers = [{name: Size(numbers[name][index], servers[name]) for name in names} for index in range(draw(st.integers(1, 4)))]
    for index in range(1, len(tiers)):
        for name in draw(st.sets(st.sampled_from(names))):
            for later in tiers[index:]:
                later.pop(name, None)
    return tiers


def meant(tiers: list[Sizes]) -> tuple[Sizes, ...]:
    return tuple({name: tier.get(name, Size(0, size.servers)) for name, size in tiers[0].items()} for tier in tiers)


@often
@given(descending())
def test_what_is_written_is_read_back_as_meant(tiers: list[Sizes]) -> None:
    assert rule_reader.read(scaling_rule.write(tiers), source="rule").tiers == meant(tiers)


@often
@given(descending(), st.data())
def test_what_is_written_crashes_the_operator_at_no_counts(tiers: list[Sizes], data: st.DataObject) -> None:
    read = rule_reader.read(scaling_rule.write(tiers), source="rule").tiers
    near = {name: sorted({0, *(tier[name].number for tier in read), *(max(0, tier[name].number - 1) for tier in read)}) for name in read[0]}
    counts = {name: data.draw(st.sampled_from(numbers) | NUMBERS) for name, numbers in near.items()}
    decisions = {name: scaling_rule.decide(read, counts, name) for name in read[0]}
    assert not any(decision.crashes for decision in decisions.values())
    # Unless all tiers are satisfied, somebody may start: a rule that is written stalls nobody.
    satisfied = scaling_rule.pick(read, counts) == scaling_rule.SATISFIED
    assert satisfied == all(counts[name] >= size.number for tier in read for name, size in tier.items())
    assert satisfied != any(decision.create for decision in decisions.values())


@often
@given(descending())
def test_what_is_written_has_an_error_only_when_it_asks_for_nothing(tiers: list[Sizes]) -> None:
    found = lint(scaling_rule.write(tiers), source="rule").findings
    asks = any(size.number > 0 for tier in tiers for size in tier.values())
    assert (worst(found) == ERROR) == (not asks)
    assert {one.code for one in found if one.severity == ERROR} <= {"R112"}


@often
@given(descending())
def test_the_same_tiers_give_the_same_bytes_and_plain_json(tiers: list[Sizes]) -> None:
    text = scaling_rule.write(tiers)
    assert text == scaling_rule.write([dict(tier) for tier in tiers])
    document = json.loads(text)
    entries = [entry for tier in document["elastic_scaling_list"] for entry in tier["group_list"]]
    assert all(isinstance(value, str) for entry in entries for value in entry.values())
    assert len({tuple(entry["group_name"] for entry in tier["group_list"]) for tier in document["elastic_scaling_list"]}) == 1
    read = rule_reader.read(text, source="rule").tiers
    assert scaling_rule.write(read) == text and scaling_rule.may_count(read) == scaling_rule.may_count(meant(tiers))


# Pieces of rules, so that texts get past the first character.
PIECES = st.sampled_from(
    [
        '{"elastic_scaling_list": [', '{"group_list": [', '{"group_name": "g0", "group_num": "2", "server_num_per_group": "1"}',
        '"group_name":', '"group_num":', '"Group_Num":', '"version":', '"1"', '"+1"', '"x"', "null", "1", "{", "}", "[", "]", ",", ":", '"',
        "\\", "# {", "// ]", "\n", " ", "\ufeff", "\u017f", "]}", "]}]}",
    ]
)  # fmt: skip
TEXTS = st.text() | st.lists(PIECES, max_size=24).map("".join) | descending().map(scaling_rule.write)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A sound rule with a few pieces put in, or cut out."""
    text = scaling_rule.write(draw(descending()))
    for dummy in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        text = text[:start] + draw(PIECES | st.just("")) + text[start + draw(st.integers(0, 12)) :]
    return text


def accepted(text: str) -> tuple[Sizes, ...] | RuleError:
    """The tiers, or why the operator refuses the text: reading fails in no other way."""
    try:
        return rule_reader.read(text, source="rule").tiers
    except RuleError as error:
        return error


def is_place(text: str, line: int | None, column: int | None) -> bool:
    lines = text.split("\n")
    return line is not None and column is not None and 1 <= line <= len(lines) and 1 <= column <= len(lines[line - 1]) + 1


@often
@given(TEXTS | damaged())
def test_any_text_is_read_or_refused_and_linted_alike(text: str) -> None:
    answer = accepted(text)
    found = lint(text, source="rule")
    if isinstance(answer, RuleError):
        assert is_place(text, answer.line, answer.column)
        assert found.reading is None and worst(found.findings) == ERROR
    else:
        assert found.reading is not None and found.reading.tiers == answer
    for one in found.findings:
        assert one.message.startswith("rule") and is_place(text, one.line, one.column)


@often
@given(TEXTS | damaged())
def test_relaxed_reading_never_changes_what_a_strict_text_means(text: str) -> None:
    found = relaxed(text, source="rule")
    assert len(found.text) == len(text)
    assert [len(line) for line in found.text.split("\n")] == [len(line) for line in text.split("\n")]
    if rule_reader.attempt(text, source="rule").top is not None:
        assert (found.text, found.findings) == (text, ())


@often
@given(descending(), st.data())
def test_comments_at_the_end_of_lines_change_nothing(tiers: list[Sizes], data: st.DataObject) -> None:
    text = scaling_rule.write(tiers)
    comment = st.sampled_from(["", " # x", ' // "y', " # {", " # ] }", " // , ["])
    commented = "\n".join(line + data.draw(comment) for line in text.split("\n"))
    assert rule_reader.read(relaxed(commented, source="rule").text, source="rule").tiers == meant(tiers)
