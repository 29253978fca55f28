# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The view of a service: that of cut objects is that of whole ones, and in whatever order objects come it is the same."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.ascend.mindie.plugins.module_utils._motor.overview_details import service_report
from ansible_collections.ascend.mindie.plugins.module_utils._motor.servers import servers, servers_view
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot
from tests.property import events
from tests.property.cases import BACKENDS, Case, build, cases
from tests.property.salt import salted
from tests.support.cut import cut

EXAMPLES = int(os.environ.get("MINDIE_EXAMPLES", "1250")) // 5
_MOMENTS = st.lists(st.tuples(st.sampled_from(("tick", *events.EVENTS)), st.integers(0, 11)), min_size=1, max_size=6)


def moments(case: Case, script: list[tuple[str, int]], seed: int) -> Iterator[Snapshot]:
    """The service as it is found, and after each of the things that happen to it."""
    world = build(case)
    # Where less is free than is asked for, jobs wait.
    world.capacity = (10**6, 40)[seed % 2]
    yield salted(world.snapshot(), seed)
    for number, (what, pick) in enumerate(script, 1):
        if what == "tick":
            world.tick()
        else:
            events.EVENTS[what](world, pick)
        yield salted(world.snapshot(), seed + number)


def view(snapshot: Snapshot) -> dict[str, Any]:
    """Everything that is said of a service."""
    nodes = [found for found in snapshot.nodes.values() if found]
    return {**service_report(snapshot, servers=servers(nodes, snapshot.pods)), "servers": servers_view(nodes, snapshot.pods)}


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_state_of_cut_objects_is_that_of_whole_ones(backend: str, show: Callable[[str], None]) -> None:
    seen: set[str] = set()

    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(cases(backend), _MOMENTS, st.integers(0, 999))
    def holds(case: Case, script: list[tuple[str, int]], seed: int) -> None:
        for snapshot in moments(case, script, seed):
            found = view(snapshot)
            assert view(cut(snapshot)) == found
            seen.update(item["state"] for item in found["instances"])

    holds()
    show(f"states that were compared: {', '.join(sorted(seen))}")
    assert {"running", "failed", "missing", "surplus"} <= seen


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_order_of_objects_means_nothing(backend: str) -> None:
    @settings(max_examples=EXAMPLES // 2, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(cases(backend), _MOMENTS, st.integers(0, 999))
    def holds(case: Case, script: list[tuple[str, int]], seed: int) -> None:
        shuffle = random.Random(seed)
        for snapshot in moments(case, script, seed):
            other = _mixed(snapshot, shuffle)
            assert _sorted(view(other)) == _sorted(view(snapshot))

    holds()


def _mixed(snapshot: Snapshot, shuffle: random.Random) -> Snapshot:
    lists: dict[str, Any] = {name: shuffle.sample(found, len(found)) for name, found in vars(snapshot).items() if isinstance(found, tuple)}
    others = shuffle.sample(list(snapshot.others.items()), len(snapshot.others))
    return replace(snapshot, **{name: tuple(found) for name, found in lists.items()}, others=dict(others))


def _sorted(found: dict[str, Any]) -> dict[str, Any]:
    """Findings of the same severity come in the order of the objects that they are about."""
    for task in found["tasks"]:
        task["findings"] = sorted(task["findings"], key=lambda row: (row["code"], row["name"], row["message"]))
    return found
