# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of differences themselves, and that the documentation shows them as they are."""

from __future__ import annotations

from . import allowed, recorded

MAX_ROWS = 15
PAGE = recorded.ROOT / "docs" / "differences.md"


def test_the_documentation_shows_the_tables() -> None:
    assert PAGE.read_text().endswith(allowed.tables()), "write the tables of tests/functional/allowed.py into docs/differences.md"


def test_the_tables_are_sound() -> None:
    assert len(allowed.ALLOWED) <= MAX_ROWS
    assert {row.rule for row in allowed.ALLOWED} == set(allowed.RULES)
    assert sum(len(row.states) for row in allowed.SECOND) == len(allowed.second_by_state())


def test_a_row_allows_only_what_it_says() -> None:
    row = next(row for row in allowed.ALLOWED if row.kind == "ClusterRole")
    fits = recorded.Difference("ClusterRole", "role", "metadata.name", "role", "role-a", "a")
    assert row.allows(fits)
    for wrong in (
        recorded.Difference("Deployment", "role", "metadata.name", "role", "role-a", "a"),
        recorded.Difference("ClusterRole", "role", "metadata.labels.x", "role", "role-a", "a"),
        recorded.Difference("ClusterRole", "role", "metadata.name", "role", "role-b", "a"),
        recorded.Difference("ClusterRole", "role", "", recorded.ABSENT, "there", "a"),
    ):
        assert not row.allows(wrong)


def test_a_row_of_the_second_table_names_all_differences() -> None:
    reached = allowed.Reached("something", ("Deployment a/vllm-p*: only recorded",))
    gone = [recorded.Difference("Deployment", name, "", "there", recorded.ABSENT, "a") for name in ("a/vllm-p1", "a/vllm-p2", "a/vllm-d1")]
    assert reached.unmet(gone[:2]) == []
    assert reached.unmet(gone) == ["Deployment a/vllm-d1: only recorded"]
    assert reached.unmet([]) == ["nothing is like Deployment a/vllm-p*: only recorded"]
