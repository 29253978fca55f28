# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long and how often a request is sent again."""

from __future__ import annotations

import random
import time

# Together longer than a short outage of the API server or a leader change of etcd, and shorter than a user's patience.
SECONDS = 20.0
FIRST_PAUSE = 0.25
LONGEST_PAUSE = 4.0
# A server that asks for more is overloaded for longer than a task should wait without a word.
LONGEST_RETRY_AFTER = 10.0
# What has never answered is probably not there: a wrong address, or no way to it.
SECONDS_FOR_A_STRANGER = 2.0

TRANSIENT = frozenset({429, 500, 502, 503, 504})


class Attempts:
    """Counts the attempts of one request and says how long to pause before the next one."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._pause = FIRST_PAUSE
        self.made = 1

    def pause(self, retry_after: float | None = None, *, stranger: bool = False) -> float | None:
        """Seconds to wait before the next attempt, or None when enough have been made. `retry_after` is what the server asked for;
        a `stranger` is a server that has never answered.
        """
        wait = self._pause * random.uniform(0.5, 1.0)
        if retry_after is not None:
            wait = min(retry_after, LONGEST_RETRY_AFTER) + wait
        if time.monotonic() + wait - self._started > (min(SECONDS, SECONDS_FOR_A_STRANGER) if stranger else SECONDS):
            return None
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        self.made += 1
        return wait

    def said(self) -> str:
        """In words how often it was tried, empty for a single attempt."""
        return f" ({self.made} attempts within {time.monotonic() - self._started:.0f} s)" if self.made > 1 else ""
