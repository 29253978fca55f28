# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A budget of acts: so many at once, so many per second after that."""

from __future__ import annotations


class Bucket:
    """`burst` acts at once, then `rate` per second. Times are seconds of a monotonic clock that the caller has."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, float(burst)
        self._left, self._at = float(burst), 0.0

    def take(self, now: float) -> float:
        """0.0 when an act may be done at `now` (it is then counted), else the seconds until one may."""
        if now > self._at:
            self._left = min(self._burst, self._left + (now - self._at) * self._rate)
            self._at = now
        if self._left >= 1.0:
            self._left -= 1.0
            return 0.0
        return (1.0 - self._left) / self._rate
