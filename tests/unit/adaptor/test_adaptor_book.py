# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is answered of a coordinator that collects more seldom than others."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest
from metrics_adaptor.book import ROLE_LABEL, SERVICE_LABEL, SET_LABEL, Book
from metrics_adaptor.finder import Service

from ansible_collections.ascend.mindie.plugins.module_utils._motor.load import Limits, NoValue, Scrape
from ansible_collections.ascend.mindie.plugins.module_utils._motor.load_window import Sheets

SERVICE = Service(
    "chat", "vllm-0", "vllm", "1", ("decode",), ("decode",), "http://127.0.0.1:1/metrics", "http://127.0.0.1:1/v1/models", 4.0
)
DECODE = {SERVICE_LABEL: "vllm-0", SET_LABEL: "vllm", ROLE_LABEL: "decode"}
SPEED = 100


class Clock:
    """The monotonic clock of the book."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return time.time()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr("metrics_adaptor.book.time", found)
    return found


def answers(clock: Clock, collection: float, seconds: float) -> list[float | str]:
    """What is answered look after look, of an engine that makes so many tokens per second and whose coordinator collects so often."""
    book, sheets, chance, found = Book(Limits()), Sheets(), random.Random(7), list[float | str]()
    service = replace(SERVICE, collection=collection)
    book.sync([service])
    until = clock.now + seconds
    while clock.now < until:
        collected = clock.now // collection * collection
        endpoint = 'role="decode",instance_id="1",dp_rank="0",pod_ip="10.0.0.1"'
        text = f"vllm:num_requests_running{{{endpoint}}} 3\nvllm:generation_tokens_total{{{endpoint}}} {SPEED * collected}"
        book.record(service, Scrape(clock.now, sheets.make(text), routable={"decode": 1}), None)
        try:
            found.append(book.value("chat", DECODE, "generation_tokens_total").value)
        except NoValue as error:
            found.append(error.reason)
        clock.now += 5 * chance.uniform(0.9, 1.1)
    return found


@pytest.mark.parametrize("collection", [4.0, 11.0, 16.0, 31.0, 59.0])
def test_however_seldom_a_coordinator_collects_its_rates_are_near_the_truth(clock: Clock, collection: float) -> None:
    found = answers(clock, collection, 1800)
    known = [answer for answer in found if isinstance(answer, float)]
    assert min(known) > SPEED * 0.75 and max(known) < SPEED * 1.25
    assert set(found[: len(found) - len(known)]) <= {"TooShort"}, "from then on there is always one"


def test_one_that_hardly_ever_collects_is_taken_for_frozen_after_a_while(clock: Clock) -> None:
    assert "Frozen" in answers(clock, 1e9, 400)
