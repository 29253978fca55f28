# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Expositions: what is read of Prometheus' text, and what makes a text worthless."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ansible_collections.ascend.mindie.plugins.module_utils._motor import exposition
from ansible_collections.ascend.mindie.plugins.module_utils._motor.exposition import BadExposition, Reader


def rows(text: str, *families: str) -> list[tuple[str, dict[str, str], float]]:
    return [(series.name, dict(series.labels), value) for series, value in exposition.read(text, families or None)]


@pytest.mark.parametrize(
    ("line", "labels", "value"),
    [
        ("a 1", {}, 1.0),
        ("a{} 1", {}, 1.0),
        ('a{x="1"} 2.5', {"x": "1"}, 2.5),
        ('a{x="1",} 2.5', {"x": "1"}, 2.5),
        ('a{x="1",y="2"} -3e-4', {"x": "1", "y": "2"}, -3e-4),
        ('a { x = "1" , y = "2" }\t7', {"x": "1", "y": "2"}, 7.0),
        ('  a{x="1"}   7 ', {"x": "1"}, 7.0),
        ('a{x="1"} 7\r', {"x": "1"}, 7.0),
        ('a{x="1"} 7 1700000000000', {"x": "1"}, 7.0),
        ('a{x="1"} 7 -5', {"x": "1"}, 7.0),
        ('a{x="say \\"hi\\" {here} = 1, 2"} 7', {"x": 'say "hi" {here} = 1, 2'}, 7.0),
        ('a{x="back\\\\slash\\nline\\q"} 7', {"x": "back\\slash\nline\\q"}, 7.0),
        ('a{x="模型"} 7', {"x": "模型"}, 7.0),
        ('a{x=" } 5 6"} 7', {"x": " } 5 6"}, 7.0),
        ('a{role="prefill",role="theirs"} 7', {"role": "prefill"}, 7.0),
        ("a +Inf", {}, math.inf),
        ("a -Inf", {}, -math.inf),
        ("a Nan", {}, math.nan),
        ("a NaN", {}, math.nan),
    ],
)
def test_a_line_is_read(line: str, labels: dict[str, str], value: float) -> None:
    for text in (line, f"{line}\n", f"\n# HELP a x\n{line}\nb 5"):
        ((name, found, number),) = rows(text, "a")
        assert name == "a" and found == labels
        assert number == value or (math.isnan(number) and math.isnan(value))


@pytest.mark.parametrize(
    "line",
    [
        "<html>",
        "a",
        "a{",
        'a{x="1"}',
        'a{x="1" 7',
        'a{x="1} 7',
        "a{x=1} 7",
        'a{="1"} 7',
        'a{x="1"}7',
        'a{x="1"y="2"} 7',
        'a{x="1"} seven',
        "a 1_000",
        "a 7 now",
        "a 7 5 3",
        "a 7 # {} 5",
        "1a 7",
        '{"1":[{"name":"a"}]}',
        "\x00\x01\x02",
        "a\x0b7",
        'a{x="' + "y" * exposition.LONGEST_LINE + '"} 1',
    ],
)
def test_a_line_that_is_no_sample_makes_the_text_worthless(line: str) -> None:
    with pytest.raises(BadExposition) as found:
        exposition.read(f'# HELP a x\na{{x="0"}} 1\n{line}\na{{x="2"}} 1')
    assert found.value.line == 3 and found.value.message.startswith("line 3: ") and len(found.value.message) < 200
    if "no number" not in found.value.message:  # which nobody looks for in a row that nobody wants
        with pytest.raises(BadExposition):
            exposition.read(line, ["wanted"])


def test_only_wanted_families_are_kept_whatever_their_prefix() -> None:
    text = "vllm:x_bucket 1\nvllm:x_sum 2\nvllm:x_count 3\nother:x 4\nvllm:xy 5\nvllm:y_x 6\nx 7\nx_created 8"
    assert [row[0] for row in rows(text, "x")] == ["vllm:x_bucket", "vllm:x_sum", "vllm:x_count", "other:x", "x"]


def test_nothing_and_comments_are_no_rows() -> None:
    for text in ("", "\n", "\n\n", "#", "# HELP", "# TYPE a gauge\n# TYPE a gauge\n#\n", "   \n# x"):
        assert rows(text) == []


def test_more_rows_than_the_limit_are_refused() -> None:
    assert len(exposition.read("a 1\n" * 5, None, 5)) == 5
    for families in (None, ["wanted"]):
        with pytest.raises(BadExposition, match="line 6: more than 5 rows"):
            exposition.read("a 1\n" * 6, families, 5)


def test_a_series_that_is_there_twice_is_two_rows() -> None:
    assert rows('a{x="1"} 1\na{x="1"} 2') == [("a", {"x": "1"}, 1.0), ("a", {"x": "1"}, 2.0)]


def test_what_stays_the_same_is_one_object_and_new_values_are_read() -> None:
    reader = Reader(["a"])
    first, second = reader.read('a{x="1"} 1\nb 1\na{x="2"} 2'), reader.read('a{x="1"} 3\nb 2\na{x="2"} 4')
    assert first.series is second.series and list(second.values) == [3.0, 4.0]
    fewer = reader.read('a{x="2"} 5\nb 3')
    assert [dict(series.labels) for series in fewer.series] == [{"x": "2"}] and list(fewer.values) == [5.0]
    more = reader.read('a{x="1"} 6\na{x="2"} 7 1700000000000')
    assert [(dict(series.labels), value) for series, value in more] == [({"x": "1"}, 6.0), ({"x": "2"}, 7.0)]
    with pytest.raises(BadExposition):
        reader.read('a{x="1"} six')
    assert list(reader.read('a{x="1"} 8').values) == [8.0]


def test_texts_that_are_worth_nothing_leave_nothing_behind() -> None:
    reader = Reader()
    reader.read("a 1")
    for number in range(20):
        with pytest.raises(BadExposition):
            reader.read("\n".join([*(f'a{{x="{number}.{row}"}} 1' for row in range(50)), "<html>"]))
    assert reader._known.keys() == {"a"}


def test_the_time_of_a_sample_is_never_taken_for_its_value() -> None:
    reader = Reader()
    for stamp in (1700000000000, 1700000005000):
        assert list(reader.read(f'a{{x="1"}} 7 {stamp}\na 8 {stamp}').values) == [7.0, 8.0]


def test_every_recorded_exposition_is_read_as_prometheus_reads_it(shared_dir: Path) -> None:
    files = sorted((shared_dir / "upstream" / "metrics").rglob("*.prom"))
    assert len(files) >= 20
    for file in files:
        text = file.read_text()
        known = [
            (sample.name, dict(sample.labels), float(sample.value))
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        ]
        assert sorted(map(repr, rows(text))) == sorted(map(repr, known)), file


def test_a_recorded_exposition_that_is_cut_anywhere_is_survived(shared_dir: Path) -> None:
    text = (shared_dir / "upstream" / "metrics" / "dp-union.prom").read_text()
    whole, refused = rows(text), 0
    for end in range(0, len(text), 97):
        try:
            cut = rows(text[:end])
        except BadExposition:
            refused += 1
        else:
            assert cut[:-1] == whole[: max(0, len(cut) - 1)]
    assert refused > 100
