# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is shown when something goes wrong with describing it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from rescheduling_watcher import describe
from rescheduling_watcher.board import Board
from rescheduling_watcher.describe import Describer
from rescheduling_watcher.room import Room
from rescheduling_watcher.settings import Settings
from rescheduling_watcher.world import World

from ansible_collections.ascend.mindie.plugins.module_utils._cluster.api import Api
from tests.cluster.kube_client import wait_for
from tests.support.watcher_snapshots import NAMESPACE, motor_config


class Heard(World):
    """A world that hears of things from the test."""

    def ready(self, namespace: str) -> bool:
        return True


class Shown:
    """A describer with a world that the test fills."""

    def __init__(self) -> None:
        self.world = Heard(Api(_unasked), Settings(namespaces=()), threading.Event())
        self.board = Board(self.world, lambda: {"revision": 0})
        self.describer = Describer(self.world, self.board, Room(self.world), lambda namespace, item: None)
        self.world._heard("ConfigMap", None, motor_config(2, 1))
        self.describer.start()

    def services(self) -> list[str]:
        return [service["namespace"] for service in self.board.report()["services"]]


def _unasked(*dummy: Any, **more: Any) -> Any:
    raise AssertionError("nobody is asked")


@pytest.fixture
def shown() -> Iterator[Shown]:
    found = Shown()
    yield found
    found.describer.stop()


def test_a_service_that_cannot_be_described_is_not_shown_as_it_was_before(
    shown: Shown, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And the log says why, once, however often it is tried."""
    shown.describer.ask(NAMESPACE)
    wait_for(lambda: shown.services() == [NAMESPACE], 5, "it is shown")
    tried: list[int] = []

    def fail(*dummy: Any, **more: Any) -> dict[str, Any]:
        tried.append(1)
        raise KeyError("what nobody thought of")

    with monkeypatch.context() as wrong, caplog.at_level(logging.ERROR):
        wrong.setattr(describe, "service_report", fail)
        for number in range(1, 4):
            shown.describer.ask(NAMESPACE)
            wait_for(lambda wanted=number: len(tried) == wanted, 5, "it is tried")
        wait_for(lambda: shown.services() == [], 5, "nothing is shown")
        assert [record.message for record in caplog.records] == [f"cannot describe namespace {NAMESPACE}"]
    shown.describer.ask(NAMESPACE)
    wait_for(lambda: shown.services() == [NAMESPACE], 5, "it is shown again")
