# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Of the replicas of a program one leads: real processes, each behind a proxy of its own, that end, are killed and are frozen."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.cluster.fault_proxy import AFTER, FaultProxy
from tests.support.candidate import Candidate

NAME = "mindie-watcher"
LEASE = f"/leases/{NAME}$"
DURATION = 2.0
# Far longer than anything here takes, however busy the machine is.
PATIENCE = 30.0
ATTEMPTS = "ascend.mindie/attempts"
Show = Callable[[str], None]


class Pair:
    """Two candidates, `first` of which leads."""

    def __init__(self, cluster: Cluster, namespace: str, first: Candidate, second: Candidate, proxies: list[FaultProxy]) -> None:
        self.cluster, self.namespace, self.first, self.second = cluster, namespace, first, second
        self.first_proxy, self.second_proxy = proxies

    def lease(self) -> Any:
        return self.cluster.get(f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/{NAME}")

    def written(self) -> set[str]:
        items = self.cluster.get(f"/api/v1/namespaces/{self.namespace}/configmaps")["items"]
        return {item["metadata"]["name"] for item in items} - {"kube-root-ca.crt"}

    def second_leads(self) -> float:
        """Wait until the second one leads; returns the seconds that took."""
        return until(lambda: self.second.ask("leading"))

    def never_both(self) -> None:
        """At no time both of them said that they lead."""
        until(lambda: self.second.ask("terms"))
        terms = sorted([*self.first.ask("terms"), *self.second.ask("terms")])
        assert len(terms) >= 2 and all(one[1] < other[0] for one, other in pairwise(terms)), terms


def until(done: Callable[[], bool]) -> float:
    began = time.monotonic()
    while not done():
        assert time.monotonic() - began < PATIENCE
        time.sleep(0.01)
    return time.monotonic() - began


@pytest.fixture
def pair(cluster: Cluster, namespace: str) -> Iterator[Pair]:
    with contextlib.ExitStack() as stack:
        proxies = [stack.enter_context(FaultProxy(cluster)) for dummy in range(2)]
        both = [
            stack.enter_context(Candidate(kubeconfig=proxy.kubeconfig, namespace=namespace, name=NAME, holder=holder, duration=DURATION))
            for proxy, holder in zip(proxies, ("pod-a", "pod-b"), strict=True)
        ]
        leads = [False, False]
        while not any(leads):
            leads = [candidate.ask("leading") for candidate in both]
        assert leads.count(True) == 1, "started together, one of them leads"
        if leads[1]:
            both.reverse()
            proxies.reverse()
        yield Pair(cluster, namespace, *both, proxies)


def test_one_leads_and_hands_over_at_its_end(pair: Pair, show: Show) -> None:
    until(lambda: pair.second.ask("leader") != "")
    leader = pair.first.ask("leader")
    assert leader in ("pod-a", "pod-b") and pair.second.ask("leader") == leader and not pair.second.ask("leading")
    assert pair.first.ask("write", "by-the-leader") == "written"
    assert "does not lead" in pair.second.ask("write", "by-the-other") and "does not lead" in pair.second.ask("note", "x")
    assert pair.first.ask("note", '{"a": 1}') == "noted"
    assert pair.lease()["metadata"]["annotations"][ATTEMPTS] == '{"a": 1}', "it is stored when note returns"
    pair.first.ask("stop")
    assert not pair.lease()["spec"]["holderIdentity"].startswith(leader), "it does not leave the other one waiting"
    assert "does not lead" in pair.first.ask("write", "after-the-end")
    seconds = pair.second_leads()
    assert pair.second.ask("noted") == '{"a": 1}' and pair.second.ask("note", "2") == "noted"
    assert pair.written() == {"by-the-leader"}
    pair.never_both()
    show(f"duration {DURATION:g} s: the other one leads {seconds:.2f} s after a clean end")


def test_a_leader_that_is_killed_is_followed_and_its_notes_stay(pair: Pair, show: Show) -> None:
    assert pair.first.ask("note", "tried once") == "noted"
    pair.first.kill()
    seconds = pair.second_leads()
    assert pair.second.ask("noted") == "tried once" and pair.second.ask("write", "by-the-next") == "written"
    show(f"duration {DURATION:g} s: the other one leads {seconds:.2f} s after the leader was killed")


def test_a_leader_that_was_frozen_in_a_write_sends_nothing_when_it_thaws(pair: Pair, show: Show) -> None:
    pair.first.order("freeze", "decided-before-the-frost")
    until(pair.first.stopped)
    seconds = pair.second_leads()
    pair.first_proxy.clear()
    pair.first.send(signal.SIGCONT)
    said = pair.first.answer()
    assert "Lost the lead" in said or "does not lead" in said
    assert not pair.first.ask("leading") and "does not lead" in pair.first.ask("write", "after-the-frost")
    until(lambda: pair.first.ask("leader") == pair.second.ask("leader"))
    assert pair.second.ask("write", "by-the-next") == "written" and pair.written() == {"by-the-next"}
    assert pair.first_proxy.mutating() == [], "nor does it touch the Lease"
    pair.never_both()
    show(f"duration {DURATION:g} s: the other one leads {seconds:.2f} s after the leader froze")


def test_what_was_decided_in_one_term_is_not_done_in_the_next(pair: Pair) -> None:
    pair.second.kill()
    pair.first.ask("decide")
    pair.first.send(signal.SIGSTOP)
    time.sleep(1.5 * DURATION)
    pair.first.send(signal.SIGCONT)
    until(lambda: len(pair.first.ask("terms")) == 2)
    assert pair.first.ask("write", "in-the-new-term") == "written"
    assert "does not lead" in pair.first.ask("act", "of-the-old-term") and pair.written() == {"in-the-new-term"}


def test_a_note_is_stored_although_answers_are_lost_and_the_server_refuses(pair: Pair) -> None:
    pair.first_proxy.fault(method="PUT", path=LEASE, nth=1, drop=AFTER)
    pair.first_proxy.fault(method="PUT", path=LEASE, nth=2, status=503)
    assert pair.first.ask("note", "stubborn") == "noted"
    assert pair.lease()["metadata"]["annotations"][ATTEMPTS] == "stubborn"
    pair.first_proxy.fault(method="PUT", path=LEASE, status=503)
    said = pair.first.ask("note", "never")
    assert "Lost the lead" in said and "503" in said
    pair.second_leads()
    assert pair.second.ask("noted") == "stubborn"
    pair.never_both()
