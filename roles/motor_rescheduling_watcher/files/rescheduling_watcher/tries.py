# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tries of repairs: how often, of what, within the last hour. They are kept on the watcher's own Lease, so that the next leader knows them."""

from __future__ import annotations

import json
from collections.abc import Mapping

HOUR = 3600.0
# All annotations of an object together have room for 256 KiB.
MOST_BYTES = 200_000


class Tries:
    """Seconds since the epoch of each try, by the key of the repair. A clock that jumps by less than an hour forgets none."""

    def __init__(self, text: str = "") -> None:
        self._times = _decoded(text)

    def count(self, key: str, now: float) -> int:
        """Tries within an hour of `now`."""
        return len(_recent(self._times.get(key, ()), now))

    def add(self, key: str, now: float) -> None:
        """One more try."""
        self._times[key] = [*_recent(self._times.get(key, ()), now), now]

    def remove(self, key: str, at: float) -> None:
        """The try at this time was none."""
        self._times[key] = [time for time in self._times.get(key, ()) if time != at]

    def text(self, now: float) -> str:
        """What is worth being kept, as JSON. The rest is forgotten."""
        recent = ((_recent(times, now), key) for key, times in self._times.items())
        latest = sorted(((times, key) for times, key in recent if times), key=lambda item: max(item[0]), reverse=True)
        self._times = {}
        room = MOST_BYTES
        for times, key in latest:
            room -= len(_encoded({key: times}))
            if room < 0:
                break
            self._times[key] = times
        return _encoded(self._times)


def _encoded(found: Mapping[str, list[float]]) -> str:
    return json.dumps({key: [round(time) for time in times] for key, times in found.items()}, sort_keys=True, separators=(",", ":"))


def _recent(times: list[float] | tuple[float, ...], now: float) -> list[float]:
    return [time for time in times if abs(now - time) < HOUR]


def _decoded(text: str) -> dict[str, list[float]]:
    """What an annotation holds; nothing when somebody wrote something else into it."""
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, Mapping):
        return {}
    return {
        str(key): [float(time) for time in times if isinstance(time, (int, float))]
        for key, times in found.items()
        if isinstance(times, list)
    }
