# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A clock that tests of the lock set."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._cluster import lock as locks


class Clock:
    """The monotonic clock stands still unless it is told; everything else is real."""

    def __init__(self) -> None:
        self.now = 1000.0

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fake = SimpleNamespace(
            monotonic=lambda: self.now, sleep=lambda seconds: None, time=time.time, strftime=time.strftime, gmtime=time.gmtime
        )
        monkeypatch.setattr(locks, "time", fake)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    found.install(monkeypatch)
    return found
