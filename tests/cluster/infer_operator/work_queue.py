# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys that wait to be reconciled, each at most once, with delays and exponential back-off."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from ..kube_client import Key

LOG = logging.getLogger(__name__)

FIRST_RETRY = 0.005
LONGEST_RETRY = 1000.0


class Requeue(Exception):
    """Try this key again after so many seconds; no failure."""

    def __init__(self, after: float, why: str) -> None:
        self.after = after
        super().__init__(why)


class Worker(threading.Thread):
    """One thread that calls ``reconcile(key)`` for each key that is due.

    An exception counts as a failure: the key comes again after 5 ms, doubling up to 1000 s, as controller-runtime does,
    or sooner when something adds it.
    """

    def __init__(self, name: str, reconcile: Callable[[Key], None]) -> None:
        super().__init__(name=name, daemon=True)
        self._reconcile = reconcile
        self._due: dict[Key, float] = {}
        self._failures: dict[Key, int] = {}
        self._changed = threading.Condition()
        self._stopped = False

    def add(self, key: Key, after: float = 0.0) -> None:
        """Have a key reconciled in ``after`` seconds, or earlier if it waits for an earlier moment already."""
        due = time.monotonic() + after
        with self._changed:
            self._due[key] = min(due, self._due.get(key, due))
            self._changed.notify()

    def stop(self) -> None:
        """End after the key in work."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def _next(self) -> Key | None:
        with self._changed:
            while not self._stopped:
                key = min(self._due, key=self._due.__getitem__, default=None)
                if key is None:
                    self._changed.wait()
                    continue
                wait = self._due[key] - time.monotonic()
                if wait <= 0:
                    del self._due[key]
                    return key
                self._changed.wait(wait)
            return None

    def run(self) -> None:
        """Work until stopped."""
        while (key := self._next()) is not None:
            try:
                self._reconcile(key)
                self._failures.pop(key, None)
            except Requeue as again:
                LOG.info("%s %s/%s: again in %.2f s: %s", self.name, *key, again.after, again)
                self.add(key, again.after)
            except Exception as error:
                count = self._failures[key] = self._failures.get(key, 0) + 1
                delay = min(FIRST_RETRY * 2 ** min(count - 1, 20), LONGEST_RETRY)
                LOG.warning("%s %s/%s: attempt %d: %s; again in %.3f s", self.name, *key, count, error, delay)
                self.add(key, delay)
