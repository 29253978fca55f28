# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What fits on servers, and what failures leave of a task under its rule."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import capacity
from ansible_collections.ascend.mindie.plugins.module_utils._motor.capacity import (
    Instance,
    Server,
    Shape,
    impossible_tiers,
    place,
    simulate,
)
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_reader import Size

P, D = "prefill", "decode"


def tiers(*counts: tuple[int, int]) -> tuple[dict[str, Size], ...]:
    return tuple({P: Size(prefill, 1), D: Size(decode, 1)} for prefill, decode in counts)


def a2(number: int) -> list[Server]:
    return [Server(f"node-{index}", 8) for index in range(number)]


def whole(prefill: int, decode: int, *, decode_pods: int = 1) -> list[Shape]:
    """Instances of whole A2 servers."""
    return [Shape(P, prefill, 1, 8), Shape(D, decode, decode_pods, 8)]


TWO_TIERS = tiers((2, 1), (1, 1))


class TestPlace:
    def test_instances_are_placed_whole_and_never_share_npus(self) -> None:
        servers = [Server("a", 16), Server("b", 16, used=8), Server("c", 16, usable=False), Server("d", 16)]
        placed = place(servers, [Shape(D, 2, 2, 16), Shape(P, 2, 1, 8)])
        load: Counter[str] = Counter()
        for instance in placed.instances:
            for name in instance.pods:
                load[name] += instance.npus_per_pod
        assert dict(load) == {"a": 16, "b": 8, "d": 16}
        assert placed.left == {D: 1, P: 1}

    def test_a_small_pod_leaves_whole_servers_free(self) -> None:
        servers = [Server("a", 16), Server("b", 16, used=12), Server("c", 16, used=8)]
        placed = place(servers, [Shape(P, 1, 1, 4), Shape(D, 1, 1, 8)])
        assert [instance.pods for instance in placed.instances] == [("b",), ("c",)]

    def test_a_block_stays_in_one_super_pod_and_takes_the_fullest_that_has_room(self) -> None:
        servers = [Server(f"{pod}{index}", 16, pod) for pod, number in (("a", 4), ("b", 2), ("c", 1)) for index in range(number)]
        placed = place([*servers, Server("alone", 16)], [Shape(D, 2, 2, 16, sp_block=32), Shape(P, 1, 2, 16)])
        assert [instance.pods for instance in placed.instances] == [("b0", "b1"), ("a0", "a1"), ("alone", "c0")]

    def test_blocks_smaller_than_the_instance_may_be_in_different_super_pods(self) -> None:
        servers = [Server(f"{pod}{index}", 16, pod) for pod in "ab" for index in range(3)]
        assert not place(servers, [Shape(D, 1, 4, 16, sp_block=64)]).instances
        assert place(servers, [Shape(D, 1, 4, 16, sp_block=32)]).left == {D: 0}

    def test_the_rule_decides_the_order_decode_before_prefill(self) -> None:
        placed = place(a2(3), whole(3, 2), tiers((3, 2), (1, 1)))
        assert [instance.name for instance in placed.instances] == ["decode-0", "prefill-0", "decode-1"]
        assert placed.left == {P: 2, D: 0}

    def test_it_fills_up_beside_what_runs_with_the_lowest_free_index(self) -> None:
        running = [Instance(P, "prefill-1", ("node-1",), 8)]
        placed = place(a2(3), whole(2, 1), TWO_TIERS, running)
        assert [(instance.name, instance.pods) for instance in placed.instances] == [
            ("prefill-1", ("node-1",)),
            ("decode-0", ("node-0",)),
            ("prefill-0", ("node-2",)),
        ]

    def test_how_many_more_fit(self) -> None:
        servers = [Server(f"{pod}{index}", 16, pod) for pod in "ab" for index in range(3)]
        assert capacity.more(servers, Shape(D, 0, 2, 16, sp_block=32)) == 2
        assert capacity.more(servers, Shape(D, 0, 2, 16)) == 3
        assert capacity.more(servers, Shape(D, 0, 1, 6), [Instance(P, "p", ("a0", "b0"), 8)]) == 10
        assert capacity.more([], Shape(D, 0, 1, 8)) == 0


class TestImpossibleTiers:
    def test_tiers_that_no_empty_server_can_hold_are_named(self) -> None:
        rule = tiers((4, 2), (3, 1), (1, 1))
        shapes = whole(0, 0, decode_pods=2)
        assert impossible_tiers(a2(5), shapes, rule) == (0,)
        assert impossible_tiers(a2(4), shapes, rule) == (0, 1)
        assert impossible_tiers(a2(8), shapes, rule) == ()
        assert impossible_tiers([], shapes, rule) == (0, 1, 2)

    def test_enough_npus_are_not_enough_when_no_server_has_room_for_a_pod(self) -> None:
        servers = [Server(f"s{index}", 8, used=4) for index in range(4)]
        assert impossible_tiers(servers, whole(0, 0), tiers((1, 1))) == (0,)

    def test_it_looks_for_an_order_that_fits(self) -> None:
        # Prefill first would take the only super pod that has room for decode.
        servers = [Server("a0", 16, "a"), Server("a1", 16, "a"), Server("x", 16), Server("y", 16)]
        shapes = [Shape(P, 1, 1, 16, sp_block=16), Shape(D, 1, 2, 16, sp_block=32)]
        assert impossible_tiers(servers, shapes, tiers((0, 1))) == ()
        assert impossible_tiers(servers, shapes, tiers((1, 1))) == (0,)

    def test_groups_without_a_shape_are_left_out(self) -> None:
        assert impossible_tiers(a2(1), [Shape(D, 0, 1, 8)], tiers((9, 1))) == ()


class TestSimulate:
    def test_the_documented_walk_through(self) -> None:
        """2 prefill + 1 decode, no spare server, the server of decode fails: a prefill gives way, and decode is built anew."""
        found = simulate(a2(3), whole(2, 1), TWO_TIERS, 1)
        decode_fails = next(outcome for outcome in found.levels[1].outcomes if "decode-0" in outcome.lost)
        assert (decode_fails.tier, decode_fails.running) == (1, {P: 1, D: 1})
        assert decode_fails.given_up == ("prefill-0",)
        assert [(held.group, held.count, held.reason, held.tier) for held in decode_fails.held] == [(P, 1, "no_room", 0)]
        assert decode_fails.regrows == (P,)

    def test_every_single_failure_ends_the_same_there(self) -> None:
        level = simulate(a2(3), whole(2, 1), TWO_TIERS, 1).levels[1]
        assert [(outcome.running, outcome.combinations, outcome.share) for outcome in level.outcomes] == [({P: 1, D: 1}, 3, 1.0)]
        assert level.expected == {P: 1.0, D: 1.0}

    def test_without_a_motor_controller_decode_stays_away_and_the_service_is_down(self) -> None:
        found = simulate(a2(3), whole(2, 1), TWO_TIERS, 1, keep_decode=False)
        worst = found.levels[1].worst
        assert (worst.tier, worst.running, worst.given_up) == (None, {P: 2, D: 0}, ())
        assert [(held.group, held.reason, held.tier) for held in worst.held] == [(D, "no_room", 1)]
        assert found.levels[1].typical.tier == 1
        assert found.critical == worst.servers

    def test_a_spare_server_takes_what_is_lost(self) -> None:
        found = simulate(a2(4), whole(2, 1), TWO_TIERS, 2)
        assert {outcome.tier for outcome in found.levels[1].outcomes} == {0}
        assert found.critical == ()
        # The spare server is one of the two that fail in half of the cases; else both find room for one instance.
        assert [(outcome.tier, outcome.combinations) for outcome in found.levels[2].outcomes] == [(1, 6)]

    def test_a_lost_instance_of_many_pods_leaves_its_other_servers_free(self) -> None:
        found = simulate(a2(4), whole(2, 1, decode_pods=2), TWO_TIERS, 1)
        decode_fails = next(outcome for outcome in found.levels[1].outcomes if outcome.lost == ("decode-0",))
        assert decode_fails.running == {P: 1, D: 1}
        assert decode_fails.given_up == ("prefill-0",)

    def test_prefill_is_ended_in_the_order_of_the_controller_and_grows_back_where_it_was_ended_in_vain(self) -> None:
        """Decode wants two servers of one super pod: only ending p1 and p2 makes such room, but p0 comes first."""
        servers = [Server(f"{pod}{index}", 8, pod) for pod in "abc" for index in range(2)]
        places = ["c0", "b0", "b1", "c1"]
        running = [Instance(P, f"p{index}", (name,), 8) for index, name in enumerate(places)]
        running.append(Instance(D, "d0", ("a0", "a1"), 8))
        shapes = [Shape(P, 4, 1, 8), Shape(D, 1, 2, 8, sp_block=16)]
        rule = tiers((4, 1), (1, 1))
        outcomes = simulate(servers, shapes, rule, 1, running=running).levels[1].outcomes
        found = next(outcome for outcome in outcomes if outcome.lost == ("d0",))
        assert (found.running, found.given_up) == ({P: 3, D: 1}, ("p0", "p1", "p2"))
        # Nowhere two servers in one super pod: all but one are ended, and decode stays away all the same.
        scattered = [replace(server, super_pod=server.name) if server.super_pod != "a" else server for server in servers]
        worst = simulate(scattered, shapes, rule, 1, running=running).levels[1].worst
        assert (worst.tier, worst.running, worst.given_up) == (None, {P: 1, D: 0}, ("p0", "p1", "p2"))

    def test_a_rule_that_keeps_prefill_instead_of_decode_makes_the_controller_end_prefill_in_vain(self) -> None:
        found = simulate(a2(4), whole(3, 1), tiers((3, 1), (3, 0)), 1)
        hit = next(outcome for outcome in found.levels[1].outcomes if outcome.lost == ("decode-0",))
        assert (hit.tier, hit.running, hit.given_up) == (None, {P: 1, D: 0}, ("prefill-0", "prefill-1"))
        assert [(held.group, held.count, held.reason) for held in hit.held] == [(P, 2, "given_up"), (D, 1, "held")]
        assert hit.regrows == (P, P, D)

    def test_a_rule_shrunk_below_what_runs_holds_what_is_lost(self) -> None:
        running = [Instance(P, "p0", ("node-0",), 8), Instance(P, "p1", ("node-1",), 8), Instance(D, "d0", ("node-2",), 8)]
        found = simulate(a2(4), whole(2, 1), tiers((1, 1)), 1, running=running)
        prefill_fails = next(outcome for outcome in found.levels[1].outcomes if outcome.lost == ("p0",))
        assert prefill_fails.tier == 0
        assert [(held.group, held.reason, held.tier) for held in prefill_fails.held] == [(P, "held", -1)]
        assert prefill_fails.regrows == ()

    def test_the_tier_that_counts_holds_what_it_has_enough_of(self) -> None:
        found = simulate(a2(2), whole(2, 1, decode_pods=2), TWO_TIERS, 0)
        held = {item.group: item for item in simulate(a2(2), whole(2, 1, decode_pods=3), TWO_TIERS, 0).levels[0].worst.held}
        assert found.levels[0].worst.running == {P: 0, D: 1}
        assert (held[P].reason, held[P].tier, held[P].count) == ("held", 1, 1)
        assert "waits for decode (0 of 1)" in held[P].why
        assert (held[D].reason, held[D].tier) == ("no_room", 1)

    def test_it_says_that_the_operator_crashes(self) -> None:
        rule = ({P: Size(2, 1), D: Size(1, 1)}, {P: Size(1, 1)})
        found = simulate(a2(3), whole(2, 1), rule, 1, running=[])
        assert found.levels[0].worst.crashes
        assert [item.reason for item in found.levels[1].worst.held] == ["crash", "crash"]
        assert found.levels[1].worst.regrows == ()

    def test_an_instance_that_two_failing_servers_share_is_lost_once(self) -> None:
        servers = [Server(name, 8) for name in "abce"]
        pods = {(D, "d0"): "ab", (D, "d1"): "ce", (P, "p0"): "a", (P, "p1"): "b", (P, "p2"): "c", (P, "p3"): "e"}
        running = [Instance(group, name, tuple(names), 4) for (group, name), names in pods.items()]
        # A rule that asks for nothing: what is lost is not built anew.
        level = simulate(servers, [Shape(P, 4, 1, 4), Shape(D, 2, 2, 4)], tiers((0, 0)), 2, running=running).levels[2]
        assert {(outcome.running[P], outcome.running[D]): outcome.combinations for outcome in level.outcomes} == {(2, 1): 2, (2, 0): 4}

    def test_typical_is_the_median_and_worst_comes_first(self) -> None:
        servers = [*a2(3), *(Server(f"spare-{index}", 8, used=8) for index in range(5))]
        level = simulate(servers, whole(2, 1), TWO_TIERS, 1).levels[1]
        assert [(outcome.tier, outcome.combinations) for outcome in level.outcomes] == [(1, 3), (0, 5)]
        assert (level.worst.tier, level.typical.tier) == (1, 0)
        assert level.expected == {P: pytest.approx(1.625), D: 1.0}

    def test_servers_that_are_not_usable_do_not_fail_and_have_no_room(self) -> None:
        servers = [*a2(3), Server("down", 8, usable=False)]
        level = simulate(servers, whole(2, 1), TWO_TIERS, 1).levels[1]
        assert (level.combinations, level.worst.tier) == (3, 1)

    def test_no_more_servers_fail_than_there_are(self) -> None:
        found = simulate(a2(2), whole(1, 1), tiers((1, 1)), 5)
        assert [level.failures for level in found.levels] == [0, 1, 2]
        assert found.levels[2].worst.running == {P: 0, D: 0}

    def test_the_group_that_gives_way_can_be_named(self) -> None:
        rule = ({D: Size(1, 1), P: Size(2, 1)}, {D: Size(1, 1), P: Size(1, 1)})
        found = simulate(a2(3), whole(2, 1), rule, 1, shrinks=P)
        assert (found.shrinks, found.keeps, found.levels[1].worst.tier) == (P, D, 1)

    def test_the_result_is_plain_data_and_the_same_each_time(self) -> None:
        texts = {json.dumps(simulate(a2(5), whole(3, 1, decode_pods=2), tiers((3, 1), (1, 1)), 3).to_dict()) for dummy in range(2)}
        assert len(texts) == 1
        assert set(json.loads(texts.pop())["levels"][1]) == {"failures", "combinations", "outcomes", "expected", "worst", "typical"}

    def test_three_failures_of_200_servers_of_which_no_two_are_alike(self) -> None:
        servers = a2(200)
        shapes = [Shape(P, 120, 1, 8), Shape(D, 78, 1, 8)]
        level = simulate(servers, shapes, tiers(*((number, 78) for number in range(120, 0, -1))), 3).levels[3]
        assert level.combinations == 1_313_400
        # Two spare servers: what ends below the full size are failures of three servers with an instance, or with one spare.
        assert [(outcome.tier, outcome.combinations) for outcome in level.outcomes] == [(1, 1_313_400)]

    def test_too_many_different_cases_are_refused_with_their_number(self) -> None:
        with pytest.raises(InputError, match="4 failures of these servers are 66018451 different cases"):
            simulate(a2(200), whole(100, 100), tiers((100, 100)), 4)
        alike = simulate(a2(200), whole(1, 1), tiers((1, 1)), 4)
        assert alike.levels[4].combinations == 64_684_950


GOOD: dict[str, Any] = {
    "servers": [{"name": "a", "npus": 8}, {"name": "b", "hardware_type": "800I_A3", "super_pod": 1, "usable": False, "used": 2}],
    "shapes": [{"group": P, "count": 2, "pods": 1, "npus_per_pod": 8}],
    "instances": [{"group": P, "name": "p0", "pods": ["a"], "npus_per_pod": 8}],
}


class TestInventory:
    def test_plain_data_become_servers_shapes_and_instances(self) -> None:
        found = capacity.from_inventory(GOOD)
        assert found.servers == (Server("a", 8), Server("b", 16, "1", False, 2))
        assert found.shapes == (Shape(P, 2, 1, 8),)
        assert found.running == (Instance(P, "p0", ("a",), 8),)
        assert capacity.from_inventory({**GOOD, "instances": None}).running is None

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"nodes": []}, "unknown key nodes"),
            ({"servers": {"a": 8}}, "servers: it has to be a list"),
            ({"servers": ["a"]}, r"servers\[0\]: it has to be a mapping"),
            ({"servers": [{"npus": 8}]}, r"servers\[0\].name: it has to be a text"),
            ({"servers": [{"name": "a"}]}, r"servers\[0\].npus: it has to be a whole number"),
            ({"servers": [{"name": "a", "npus": True}]}, r"servers\[0\].npus"),
            ({"servers": [{"name": "a", "npus": 8, "usable": "yes"}]}, r"servers\[0\].usable: it has to be true or false"),
            ({"servers": [{"name": "a", "npus": 8, "super_pod": []}]}, r"servers\[0\].super_pod: it has to be a text"),
            ({"servers": [{"name": "a", "hardware_type": "A9"}]}, r"servers\[0\].hardware_type: it is none of 800I_A2"),
            ({"servers": [{"name": "a", "npus": 8, "used": 9}]}, r"servers\[0\]: server a has 8 NPUs \(0 to 255\), of which 9 are used"),
            ({"servers": [{"name": "a", "npus": 8}, {"name": "a", "npus": 8}]}, r'servers\[1\].name: server "a" is given twice'),
            ({"shapes": [{"group": P, "count": 1, "pods": 0, "npus_per_pod": 8}]}, r"shapes\[0\]: an instance has at least 1 pod"),
            (
                {"shapes": [{"group": P, "count": 1, "pods": 2, "npus_per_pod": 8, "sp_block": 12}]},
                r"shapes\[0\].sp_block: it has to be a multiple",
            ),
            (
                {"shapes": [{"group": P, "count": 1, "pods": 1, "npus_per_pod": 8}] * 2},
                r'shapes\[1\].group: group "prefill" is given twice',
            ),
            ({"instances": [{"group": P, "name": "p", "pods": ["x"], "npus_per_pod": 8}]}, 'runs on the unknown server "x"'),
            (
                {"instances": [{"group": P, "name": "p", "pods": [], "npus_per_pod": 8}]},
                r"instances\[0\].pods: it has to be a list of names",
            ),
            ({"instances": [{"group": P, "name": "p", "pods": ["a", "a"], "npus_per_pod": 8}]}, "server a runs more than its NPUs allow"),
            (
                {"instances": [{"group": P, "name": "p", "pods": ["a"], "npus_per_pod": 1}] * 2},
                'instance "p" of group "prefill" is given twice',
            ),
        ],
    )
    def test_what_is_wrong_is_named_with_its_path(self, change: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            capacity.from_inventory({**GOOD, **change})

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"tiers": ()}, "the rule has no tiers"),
            ({"failures": -1}, "failures: it has to be at least 0"),
            ({"shapes": [*whole(1, 1), Shape("other", 1, 1, 8)]}, 'group "other" is not in the first tier'),
            ({"shrinks": "other"}, 'shrinks: group "other" is not in the first tier'),
            ({"running": [Instance("other", "o", ("node-0",), 8)]}, 'instance o is of group "other", which has no shape'),
        ],
    )
    def test_a_simulation_that_makes_no_sense_is_refused(self, changes: dict[str, Any], message: str) -> None:
        given = {"servers": a2(2), "shapes": whole(1, 1), "tiers": tiers((1, 1)), "failures": 1, **changes}
        with pytest.raises(InputError, match=message):
            simulate(**given)
