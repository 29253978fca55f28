# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quantiles of histograms, as Prometheus' `histogram_quantile` defines them (https://prometheus.io/docs/prometheus/latest/querying/functions/)."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

# Counts that differ by less than this part of them are the same: sums of floating point numbers are not exact.
_SAME = 1e-12


def histogram_quantile(quantile: float, buckets: Iterable[tuple[float, float]]) -> float:
    """The quantile (0..1) of buckets (upper bound, count of all observations up to it), in any order.

    Within a bucket observations are taken as evenly spread; the lowest bucket begins at 0 unless its bound is not positive. A
    quantile in the highest bucket is the bound below it. NaN without observations, without a bucket `+Inf`, or with no other bucket.
    Below 0 it is -Inf, above 1 +Inf.
    """
    if math.isnan(quantile):
        return math.nan
    if not 0 <= quantile <= 1:
        return math.copysign(math.inf, quantile)
    bounds, counts = _in_order(buckets)
    if len(bounds) < 2 or bounds[-1] != math.inf or not counts[-1] > 0:
        return math.nan
    return _interpolated(quantile * counts[-1], bounds, counts)


def _interpolated(rank: float, bounds: Sequence[float], counts: Sequence[float]) -> float:
    """Where the observation of a rank lies."""
    index = bisect_left(counts, rank, hi=len(counts) - 1)
    if index == len(bounds) - 1:
        return bounds[-2]
    if index == 0 and bounds[0] <= 0:
        return bounds[0]
    low, below = (bounds[index - 1], counts[index - 1]) if index else (0.0, 0.0)
    inside = counts[index] - below
    if inside == 0:  # only for the quantile 0 of a histogram whose lowest bucket is empty
        return math.nan
    return low + (bounds[index] - low) * ((rank - below) / inside)


def _in_order(buckets: Iterable[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Bounds and counts, each bound once, and counts that never fall: what is below a bound is below each higher one, too."""
    merged: dict[float, float] = {}
    for bound, count in buckets:
        merged[bound] = merged.get(bound, 0.0) + count
    bounds = sorted(merged)
    return bounds, list(accumulate((merged[bound] for bound in bounds), _not_less))


def _not_less(before: float, count: float) -> float:
    same = abs(count - before) <= _SAME * (abs(count) + abs(before))
    return before if count < before or same else count
