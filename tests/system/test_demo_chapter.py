# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last chapter of the demo: a server of a service of AscendJobs fails and returns."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from rich.console import Console

from tests.cluster import Cluster
from tests.demo import elastic, night, show
from tests.demo.elastic import Chapter, Moment

P0, P1, D0 = (f"{elastic.PREFIX}{name}" for name in ("p0", "p1", "d0"))


@pytest.fixture(scope="module")
def stage() -> Iterator[Cluster]:
    with elastic.start() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def chapter(stage: Cluster) -> Chapter:
    played = Chapter(Console(file=io.StringIO()), stage)
    played.play()
    return played


@pytest.fixture
def moments(chapter: Chapter) -> list[Moment]:
    return chapter.moments


def place(moments: list[Moment], words: str) -> int:
    """Where something is told for the first time."""
    return next(index for index, now in enumerate(moments) if words in now.happened)


def test_a_service_that_loses_a_server_runs_on_smaller_and_regrows_by_itself(moments: list[Moment]) -> None:
    fails, smaller, back = (place(moments, words) for words in ("fails", "1 prefill and 1 decode instance serve", "is back"))
    assert fails < smaller < back
    assert [now.tier for now in (moments[0], moments[smaller], moments[-1])] == [-1, 0, -1]
    assert (moments[smaller].states[P0], moments[smaller].states[D0]) == ("running", "running") and moments[smaller].states[P1] != "running"
    assert set(moments[-1].states.values()) == {"running"}
    assert not any("the demo" in now.happened for now in moments[back:]), "nobody helps when the server is back"


def test_the_rule_holds_prefill_until_decode_has_its_server(moments: list[Moment]) -> None:
    ended, smaller = place(moments, "in place of Motor's controller"), place(moments, "1 prefill and 1 decode instance serve")
    held = [now for now in moments[ended:smaller] if now.states[P1] == "held"]
    assert held and all(now.tier == 1 and "waits for group1" in now.why[P1] for now in held)


def test_what_was_simulated_beforehand_is_what_comes(chapter: Chapter) -> None:
    states = chapter.moments[place(chapter.moments, "1 prefill and 1 decode instance serve")].states
    running = {"group0": [states[P0], states[P1]].count("running"), "group1": [states[D0]].count("running")}
    worst = chapter.foretold["worst"]
    assert (worst["running"], worst["tier"], worst["combinations"]) == (running, 1, elastic.SERVERS)


def test_the_timeline_has_every_moment(moments: list[Moment]) -> None:
    page = io.StringIO()
    show.timeline(Console(file=page, width=200), moments, elastic.PREFIX)
    text = page.getvalue()
    assert all(f"{now.at:.1f} │" in text for now in moments) and "all met" in text and "server a2-" in text


def test_at_night_the_watcher_does_what_a_person_would_have_to(stage: Cluster, chapter: Chapter) -> None:
    """Decode serves again long before its server is back, and nobody was at hand."""
    absent = 35.0
    with night.installed(stage) as watcher:
        found = night.NightChapter(Console(file=io.StringIO()), stage).night(watcher, absent)
    assert found.repairs[0] == f"release_stuck {D0}-master-0" and found.without_decode < absent
    page = io.StringIO()
    show.nights(Console(file=page, width=200), [found], absent)
    assert "with the watcher" in page.getvalue() and f"{found.regrow:.1f}" in page.getvalue()
