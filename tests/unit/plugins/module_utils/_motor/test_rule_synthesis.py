# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rule that is made from servers and counts is sound, fits, and gets smaller as it was asked for."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import capacity, rule_lint, rule_synthesis, scaling_rule
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_reader import Sizes

WISH: dict[str, Any] = {"servers": 8, "hardware": "A3", "instances": {"prefill": 4, "decode": 2}}


def tiers(**changes: Any) -> tuple[Sizes, ...]:
    return rule_synthesis.synthesise(rule_synthesis.given({**WISH, **changes}))


def counts(**changes: Any) -> list[tuple[int, int]]:
    return [(tier["group0"].number, tier["group1"].number) for tier in tiers(**changes)]


def test_prefill_gives_way_and_decode_stays() -> None:
    assert counts() == [(4, 2), (3, 2), (2, 2), (1, 2)]
    assert counts(minimum={"prefill": 3}) == [(4, 2), (3, 2)]


def test_without_keep_decode_the_ratio_stays_close() -> None:
    assert counts(keep_decode=False) == [(4, 2), (3, 2), (3, 1), (2, 1), (1, 1)]
    assert counts(keep_decode=False, minimum={"prefill": 2, "decode": 2}) == [(4, 2), (3, 2), (2, 2)]
    assert counts(instances={"prefill": 1, "decode": 3}, keep_decode=False) == [(1, 3), (1, 2), (1, 1)]


def test_steps_are_taken_as_they_are() -> None:
    steps = [{"prefill": 4, "decode": 2}, {"prefill": 2, "decode": 1}]
    assert counts(steps=steps) == [(4, 2), (2, 1)] == counts(steps=steps, instances=None)


def test_the_rule_says_pods_and_the_names_of_groups_with_prefill_first() -> None:
    found = tiers(pods_per_instance={"decode": 2}, groups={"prefill": "z", "decode": "a"})
    assert list(found[0]) == ["z", "a"] and (found[0]["z"].servers, found[0]["a"].servers) == (1, 2)
    assert all(tier["a"].servers == 2 for tier in found)


def test_small_pods_share_a_server() -> None:
    assert counts(servers=3, npus_per_pod={"prefill": 4}) == [(4, 2), (3, 2), (2, 2), (1, 2)]
    assert counts(servers=3, hardware=None, npus_per_server=16, npus_per_pod={"prefill": 4})[0] == (4, 2)


def test_what_does_not_fit_is_refused_and_the_error_says_what_does() -> None:
    with pytest.raises(InputError) as failed:
        tiers(servers=4)
    assert failed.value.path == "synthesize.servers"
    assert "4 prefill and 2 decode do not fit on 4 servers of 16 NPUs" in failed.value.message
    assert "What fits of the tiers is 2 prefill and 2 decode" in failed.value.message
    with pytest.raises(InputError, match="Not even the smallest tier fits"):
        tiers(servers=2)


@pytest.mark.parametrize(
    ("changes", "path", "said"),
    [
        ({"servers": "8"}, "servers", "'8' is no whole number"),
        ({"servers": 2.0}, "servers", "2.0"),
        ({"servers": True}, "servers", "true"),
        ({"servers": None}, "servers", "needed"),
        ({"servers": 0}, "servers", "between 1"),
        ({"hardware": None}, "hardware", "A2 or A3"),
        ({"npus_per_server": 8}, "npus_per_server", "16 NPUs"),
        ({"instances": None}, "instances", "steps"),
        ({"instances": {"prefill": 4}}, "instances.decode", "needed"),
        ({"instances": {"prefill": 97, "decode": 1}}, "instances.prefill", "between 1 and 96"),
        ({"instances": {"prefill": "２", "decode": 1}}, "instances.prefill", "no whole number"),
        ({"npus_per_pod": {"decode": 17}}, "npus_per_pod.decode", "does not fit on a server of 16"),
        ({"groups": {"prefill": "group1"}}, "groups.decode", "of its own"),
        ({"minimum": {"prefill": 5}}, "minimum.prefill", "more than the 4"),
        ({"minimum": {"decode": 1}}, "minimum.decode", "keep_decode"),
        ({"minimum": {"prefill": 0}}, "minimum.prefill", "between 1"),
        ({"steps": [{"prefill": 3, "decode": 2}]}, "steps[0].prefill", "first step is the full size"),
        ({"steps": [{"prefill": 4, "decode": 2}, {"prefill": 2, "decode": 3}]}, "steps[1].decode", "largest step first"),
        ({"steps": [{"prefill": 4, "decode": 2}, {"prefill": 4, "decode": 2}]}, "steps[1]", "once more"),
        ({"steps": [{"prefill": 4, "decode": 2}, {"prefill": 1}]}, "steps[1].decode", "needed"),
        (
            {"steps": [{"prefill": 4, "decode": 2}, {"prefill": 1, "decode": 1}], "minimum": {"prefill": 2}},
            "steps[1].prefill",
            "minimum of 2",
        ),
    ],
)
def test_a_wish_that_cannot_be_is_refused_with_its_path(changes: dict[str, Any], path: str, said: str) -> None:
    with pytest.raises(InputError) as failed:
        tiers(**changes)
    assert failed.value.path == f"synthesize.{path}" and said in failed.value.message


def wish(chance: random.Random) -> dict[str, Any]:
    """A wish that is sound and may fit or not."""
    hardware = chance.choice(["A2", "A3"])
    full = {"prefill": chance.randint(1, 6), "decode": chance.randint(1, 4)}
    keep = chance.random() < 0.6
    minimum: dict[str, Any] = {"prefill": chance.randint(1, full["prefill"])} if chance.random() < 0.5 else {}
    if not keep and chance.random() < 0.5:
        minimum["decode"] = chance.randint(1, full["decode"])
    sizes = [size for size in (1, 2, 3, 4, 8, 16) if size <= rule_synthesis.NPUS_PER_SERVER[hardware]]
    return {
        "servers": chance.randint(1, 20),
        "hardware": hardware,
        "instances": full,
        "pods_per_instance": {role: chance.randint(1, 3) for role in rule_synthesis.ENGINE_ROLES},
        "npus_per_pod": {role: chance.choice(sizes) for role in rule_synthesis.ENGINE_ROLES},
        "keep_decode": keep,
        "minimum": minimum,
    }


def test_any_rule_that_is_made_passes_lint_and_simulation(show: Callable[[str], None]) -> None:
    chance = random.Random(20260801)
    made = refused = 0
    for dummy in range(400):
        options = wish(chance)
        wanted = rule_synthesis.given(options)
        try:
            found = rule_synthesis.synthesise(wanted)
        except InputError as error:
            refused += 1
            fits = re.search(r"What fits of the tiers is (\d+) prefill and (\d+) decode", error.message)
            if fits:
                smaller = {"prefill": int(fits[1]), "decode": int(fits[2])}
                minimum = {role: min(count, smaller[role]) for role, count in wanted.minimum.items()}
                assert rule_synthesis.synthesise(rule_synthesis.given({**options, "instances": smaller, "minimum": minimum}))
            continue
        made += 1
        checked = rule_lint.lint(scaling_rule.write(found), source="made")
        assert checked.findings == () and checked.reading and checked.reading.tiers == found, options
        assert {group: size.number for group, size in found[0].items()} == dict(
            zip(wanted.groups.values(), wanted.instances.values(), strict=True)
        )
        assert {group: size.number for group, size in found[-1].items()} == dict(
            zip(wanted.groups.values(), wanted.minimum.values(), strict=True)
        )
        simulated = capacity.simulate(wanted.inventory(), wanted.shapes(wanted.instances), found, 0)
        assert simulated.levels[0].worst.tier == 0 and not simulated.levels[0].worst.crashes, options
    assert made > 100 and refused > 50
    show(f"{made} rules were made and simulated, {refused} wishes did not fit")
