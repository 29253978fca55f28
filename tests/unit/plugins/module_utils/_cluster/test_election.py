# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who leads by which clock, against a server that speaks the wire format; processes and a real server are in the functional tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._cluster.api import Api
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.election import Election
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.lock import LockLost

from .conftest import Clock
from .test_lock import Server

DURATION = 10.0


def wait(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def make(server: Server, holder: str = "pod-a", duration: float = DURATION) -> Election:
    return Election(Api(server), "ns", "ascend-mindie", holder, duration)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def leader(server: Server, clock: Clock) -> Iterator[Election]:
    """It leads, and nothing renews its Lease within the seconds that a test takes."""
    found = make(server)
    found.start()
    wait(lambda: found.leading)
    yield found
    found.stop()


def test_nobody_leads_before_it_contends(server: Server) -> None:
    election = make(server)
    assert not election.leading and election.leader == "" and election.noted() == ""
    with pytest.raises(LockLost, match="does not lead"):
        election.check()
    election.stop()
    assert server.requests == []


def test_a_leader_stops_to_lead_before_others_may_begin(leader: Election, clock: Clock) -> None:
    leader.check()
    clock.now += 0.8 * DURATION
    assert leader.leading
    clock.now += 0.1
    assert not leader.leading
    with pytest.raises(LockLost, match="could not be renewed for 8 s"):
        leader.check()


def test_the_lease_says_who_leads_and_for_how_long_in_whole_seconds(server: Server) -> None:
    election = make(server, duration=9.2)
    election.start()
    wait(lambda: election.leading)
    assert server.lease
    spec = server.lease["spec"]
    assert spec["holderIdentity"].startswith("pod-a_") and spec["leaseDurationSeconds"] == 10, "others must not count fewer seconds"
    assert "labels" not in server.lease["metadata"] and election.leader == "pod-a"
    election.stop()
    assert server.lease["spec"]["holderIdentity"] == "" and not election.leading


def test_a_pod_whose_container_was_started_again_is_another_candidate(server: Server, leader: Election) -> None:
    again = make(server)
    again.start()
    wait(lambda: again.leader == "pod-a")
    assert leader.leading and not again.leading
    again.stop()


def test_a_note_is_a_renewal_and_keeps_what_others_noted(server: Server, leader: Election, clock: Clock) -> None:
    assert server.lease
    server.store({**server.lease, "metadata": {**server.lease["metadata"], "annotations": {"team": "a"}}})
    clock.now += 0.7 * DURATION
    leader.note("tried")  # refused once, as somebody else wrote meanwhile
    assert server.lease["metadata"]["annotations"] == {"team": "a", "ascend.mindie/attempts": "tried"} and leader.noted() == "tried"
    clock.now += 0.7 * DURATION
    leader.check()


def test_a_fence_is_of_one_term(leader: Election, server: Server, clock: Clock) -> None:
    fence = leader.fence()
    fence()
    leader.stop()
    with pytest.raises(LockLost):
        fence()


def test_what_keeps_a_candidate_from_leading_is_told_until_it_passes(server: Server) -> None:
    server.faults = [500]
    election = make(server, duration=0.3)
    election.start()
    wait(lambda: "500" in election.error)
    wait(lambda: election.leading)
    assert election.error == ""
    election.stop()
