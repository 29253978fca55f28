# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rule that fits counts: growing adds tiers on top, shrinking cuts them; no tier ever asks for more than is to run."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ascend.mindie.plugins.module_utils._motor import rule_reader, scaling_rule
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_reader import Size, Sizes
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_resize import for_counts, resized

SERVERS = {"g0": 1, "g1": 2}


def tiers(*rows: tuple[int, int]) -> tuple[Sizes, ...]:
    return tuple({"g0": Size(p, 1), "g1": Size(d, 2)} for p, d in rows)


def test_a_new_rule_goes_down_to_one_prefill_and_keeps_decode() -> None:
    assert for_counts({"g0": 3, "g1": 2}, SERVERS, "g0") == tiers((3, 2), (2, 2), (1, 2))


@pytest.mark.parametrize(
    ("live", "wanted", "expected"),
    [
        (((2, 1), (1, 1)), (3, 1), ((3, 1), (2, 1), (1, 1))),
        (((3, 1), (2, 1), (1, 1)), (1, 1), ((1, 1),)),
        (((3, 1), (2, 1), (1, 1)), (2, 1), ((2, 1), (1, 1))),
        (((2, 1), (1, 1)), (4, 1), ((4, 1), (3, 1), (2, 1), (1, 1))),
        (((2, 1), (1, 1)), (2, 2), ((2, 2), (2, 1), (1, 1))),
        (((2, 1), (1, 1)), (3, 2), ((3, 2), (2, 2), (2, 1), (1, 1))),
        (((4, 2), (2, 2)), (3, 2), ((3, 2), (2, 2))),
        (((4, 2), (2, 2)), (3, 1), ((3, 1), (2, 1))),
        (((4, 1), (2, 1), (1, 1)), (2, 3), ((2, 3), (2, 2), (2, 1), (1, 1))),
        ((), (2, 1), ((2, 1), (1, 1))),
        (((2, 1), (1, 1)), (2, 1), ((2, 1), (1, 1))),
    ],
)
def test_a_live_rule_follows_the_counts(
    live: tuple[tuple[int, int], ...], wanted: tuple[int, int], expected: tuple[tuple[int, int], ...]
) -> None:
    assert resized(tiers(*live), {"g0": wanted[0], "g1": wanted[1]}, SERVERS, "g0") == tiers(*expected)


def test_groups_of_somebody_else_stay() -> None:
    live = tuple({**tier, "other": Size(1, 1)} for tier in tiers((2, 1), (1, 1)))
    found = resized(live, {"g0": 3, "g1": 1}, SERVERS, "g0")
    assert [tier["other"] for tier in found] == [Size(1, 1)] * 3 and found[0]["g0"].number == 3


def test_a_group_that_a_live_tier_omits_is_asked_for_with_none() -> None:
    live = ({"g0": Size(2, 1), "g1": Size(1, 2)}, {"g0": Size(1, 1)})
    assert resized(live, {"g0": 2, "g1": 1}, SERVERS, "g0") == tiers((2, 1), (1, 0))


def test_the_number_of_servers_is_that_of_the_instances() -> None:
    live = tuple({group: Size(size.number, 7) for group, size in tier.items()} for tier in tiers((2, 1), (1, 1)))
    assert resized(live, {"g0": 2, "g1": 1}, SERVERS, "g0") == tiers((2, 1), (1, 1))


COUNTS = st.tuples(st.integers(1, 6), st.integers(1, 6))


@given(start=COUNTS, wishes=st.lists(COUNTS, min_size=1, max_size=5))
def test_whatever_is_wished_for_in_turn_the_operator_reads_a_sound_rule(start: tuple[int, int], wishes: list[tuple[int, int]]) -> None:
    live = for_counts(dict(zip(SERVERS, start, strict=True)), SERVERS, "g0")
    for wish in wishes:
        counts = dict(zip(SERVERS, wish, strict=True))
        live = resized(live, counts, SERVERS, "g0")
        reading = rule_reader.read(scaling_rule.write(live), source="rule")
        assert reading.tiers == live and {group: size.number for group, size in live[0].items()} == counts
        assert all(size.number > 0 for tier in live for size in tier.values())
        assert all(upper != lower for upper, lower in itertools.pairwise(live))
        assert resized(live, counts, SERVERS, "g0") == live
        assert all(not scaling_rule.decide(live, {}, group).crashes for group in counts)
