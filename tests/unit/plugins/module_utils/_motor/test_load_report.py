# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How instances came and went under load, and what became of requests, as it is told."""

from __future__ import annotations

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import load_report
from ansible_collections.ascend.mindie.plugins.module_utils._motor.load_report import Courses, Seen, Tally, outcome_of, table


def courses(*looks: tuple[float, int, int]) -> Courses:
    found = Courses({})
    for at, wanted, ready in looks:
        found = found.saw(float(at), {"decode": Seen(wanted, ready)})
    return found


def test_the_times_of_scaling_out_of_being_complete_and_of_coming_back() -> None:
    found = courses((0, 1, 1), (5, 2, 1), (7, 2, 2), (9, 4, 2), (20, 4, 4), (50, 2, 2), (60, 1, 2), (61, 1, 1), (70, 1, 1))
    (told,) = found.to_list()
    assert told == {"engine_role": "decode", "before": 1, "most": 4, "after": 1, "first_scale_out": 5, "all_ready": 20, "back_in": 61}
    assert [row["seconds"] for row in found.timeline] == [0, 5, 7, 9, 20, 50, 60, 61], "only changes are told"
    assert not found.out and found.grew


def test_what_grows_again_is_not_back_yet() -> None:
    found = courses((0, 1, 1), (5, 2, 2), (10, 1, 1), (12, 2, 2))
    assert found.out and found.to_list()[0]["back_in"] is None


def test_what_is_never_complete_is_told_so() -> None:
    found = courses((0, 1, 1), (5, 3, 1), (30, 3, 2))
    (told,) = found.to_list()
    assert found.out and (told["first_scale_out"], told["all_ready"], told["back_in"]) == (5, None, None)


def test_what_has_no_instances_and_gets_none_is_not_told() -> None:
    assert courses((0, 0, 0), (5, 0, 0)).to_list() == []


def test_a_timeline_ends_somewhere() -> None:
    found = courses(*((float(at), 1 + at % 2, 1) for at in range(1000)))
    assert len(found.timeline) == load_report.LONGEST_TIMELINE


@pytest.mark.parametrize(
    ("status", "body", "outcome"),
    [
        (200, b'{"choices": [{"text": "x"}]}', load_report.OK),
        (200, b'{"content": [{"text": "x"}]}', load_report.OK),
        (200, b'{"choices": []}', "error in the answer"),
        (200, b'{"error": {"code": 500}}', "error in the answer"),
        (200, b"[]", "error in the answer"),
        (200, b"<html>", "no JSON"),
        (200, b'data: {"choices": []}\n\ndata: [DONE]', load_report.OK),
        (200, b'data: {"error":{"message":"Node fault","code":500}}', "error in the answer"),
        (503, b'{"detail":"Service is not available"}', "HTTP 503"),
        (401, b"", "HTTP 401"),
    ],
)
def test_an_answer_is_well_only_when_it_says_so(status: int, body: bytes, outcome: str) -> None:
    assert outcome_of(status, body)[0] == outcome


def test_outcomes_latencies_and_one_message_each() -> None:
    tally = Tally()
    for index in range(100):
        tally.add(load_report.OK, (index + 1) / 100)
    for text in ("first", "second"):
        tally.add("HTTP 503", 9.0, text)
    told = tally.to_dict(10.0)
    assert (told["sent"], told["failed"], told["per_second"]) == (102, 2, 10.2)
    assert told["outcomes"] == {"HTTP 503": 2, "ok": 100} and told["messages"] == {"HTTP 503": "first"}
    assert told["latency"] == {"p50": 0.5, "p95": 0.95, "p99": 0.99, "mean": 0.505, "longest": 1.0}, "failures are no latencies"


def test_the_table_says_what_was_not_reached() -> None:
    found = courses((0, 1, 1), (5, 3, 1))
    load = {**Tally().to_dict(1.0), "concurrency": 4, "scaling": found.to_list(), "settled": False, "watched": 60.0}
    text = "\n".join(table(load))
    assert "first scale-out after 5.0 s" in text and "all 3 ready after ... not within" in text
    assert "After 60.0 s the service was not back" in text
