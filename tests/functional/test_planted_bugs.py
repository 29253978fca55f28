# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bugs that would break the transaction are planted into what carries plans out; the tests of its promises have to fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._cluster.lock import Contender, Lock
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.steps import Execution
from tests.functional import test_modules
from tests.functional.conftest import Driver


def lock_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that somebody holds is neither waited for nor taken: the run works without."""
    monkeypatch.setattr(Contender, "free", lambda self, lease: True)
    acquire = Lock.acquire

    def skip(self: Any, observed: Any, intent: Any) -> bool:
        held = observed and observed["spec"].get("holderIdentity")
        return True if held else acquire(self, observed, intent)

    monkeypatch.setattr(Lock, "acquire", skip)
    for name in ("check", "release", "remove"):
        real = getattr(Lock, name)
        monkeypatch.setattr(Lock, name, lambda self, real=real, **options: real(self, **options) if self._lease else None)


def holder_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run takes the Lease without asking whether somebody holds it."""
    monkeypatch.setattr(Contender, "free", lambda self, lease: True)


def record_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Success is recorded before the work, too."""
    real = Execution.run

    def run(self: Any, by: str, run: str) -> Any:
        if self._snapshot.config_map:  # else there is nothing yet to record on
            self._record(by, run)
        return real(self, by, run)

    monkeypatch.setattr(Execution, "run", run)


def record_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Success is recorded when the writes are done, whatever became of the pods."""
    real = Execution.__init__

    def quick(self: Any, *args: Any, wait: bool, **options: Any) -> None:
        real(self, *args, wait=False, **options)

    monkeypatch.setattr(Execution, "__init__", quick)


def grow_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """New instances are made while pods of old ones still hold NPUs."""
    monkeypatch.setattr(Execution, "_await", lambda self, step, *rest: None)


@pytest.mark.parametrize(
    ("bug", "promise"),
    [
        (lock_skipped, test_modules.test_one_writer_at_a_time),
        (holder_ignored, test_modules.test_one_writer_at_a_time),
        (record_first, test_modules.test_motor_config_keeps_its_content_while_instances_are_still_changing),
        (record_without_waiting, test_modules.test_motor_config_keeps_its_content_while_instances_are_still_changing),
        (grow_without_waiting, test_modules.test_shrink_before_grow_waits_until_pods_are_gone),
    ],
    ids=lambda value: value.__name__.removeprefix("test_"),
)
def test_a_planted_bug_fails_the_test_of_its_promise(
    monkeypatch: pytest.MonkeyPatch, on_deployments: Driver, bug: Callable[[pytest.MonkeyPatch], None], promise: Callable[[Driver], None]
) -> None:
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        promise(on_deployments)
