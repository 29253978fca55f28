# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long things have been as they are, by the watcher's own monotonic clock. What is no longer so is forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .repairs import Key


class Ages:
    """First sights of what holds in one namespace."""

    def __init__(self) -> None:
        self._first: dict[Key, float] = {}

    def update(self, keys: Iterable[Key], now: float) -> Mapping[Key, float]:
        """`keys` hold at `now` (seconds of a monotonic clock). Returns for how many seconds each has held."""
        self._first = {key: self._first.get(key, now) for key in keys}
        return {key: now - first for key, first in self._first.items()}
