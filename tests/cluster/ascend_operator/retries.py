# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys that wait to be reconciled, as the operator's queue keeps them: timers of failures run beside whatever else adds a key."""

from __future__ import annotations

import threading
import time
from collections import deque

from ..kube_client import Key

FIRST = 0.005
LONGEST = 20.0


class Queue:
    """Each key at most once among those that are due, in order; and at most one timer per key, the earliest."""

    def __init__(self, longest: float = LONGEST) -> None:
        self._longest = longest
        self._ready: deque[Key] = deque()
        self._timers: dict[Key, float] = {}
        self._failures: dict[Key, int] = {}
        self._changed = threading.Condition()
        self._stopped = False

    def add(self, key: Key) -> None:
        """Have a key reconciled now. A timer that it has still runs."""
        with self._changed:
            if key not in self._ready:
                self._ready.append(key)
                self._changed.notify()

    def add_after(self, key: Key, seconds: float) -> None:
        """Have a key reconciled later; an earlier timer stays."""
        due = time.monotonic() + seconds
        with self._changed:
            self._timers[key] = min(due, self._timers.get(key, due))
            self._changed.notify()

    def failed(self, key: Key) -> float:
        """Set the timer for the next attempt, 5 ms after the first failure and twice as long after each other; say how long."""
        count = self._failures[key] = self._failures.get(key, 0) + 1
        delay = min(FIRST * 2.0 ** min(count - 1, 30), self._longest)
        self.add_after(key, delay)
        return delay

    def succeeded(self, key: Key) -> None:
        """The next failure is a first one again."""
        self._failures.pop(key, None)

    def stop(self) -> None:
        """Have `take` give None."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def take(self) -> Key | None:
        """Wait for the next key; None when stopped."""
        with self._changed:
            while not self._stopped:
                now = time.monotonic()
                for key in [key for key, due in self._timers.items() if due <= now]:
                    del self._timers[key]
                    if key not in self._ready:
                        self._ready.append(key)
                if self._ready:
                    return self._ready.popleft()
                self._changed.wait(min(self._timers.values()) - now if self._timers else None)
            return None
