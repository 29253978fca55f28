# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quantiles of histograms: the cases that the definition names."""

from __future__ import annotations

import math

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor.quantiles import histogram_quantile

INF, NAN = math.inf, math.nan
TEN = [(0.1, 2.0), (0.5, 6.0), (1.0, 10.0), (INF, 10.0)]


@pytest.mark.parametrize(
    ("quantile", "buckets", "expected"),
    [
        (0.5, TEN, 0.1 + 0.4 * 3 / 4),
        (0.2, TEN, 0.1),
        (0.1, TEN, 0.05),
        (1.0, TEN, 1.0),
        (0.0, TEN, 0.0),
        (0.95, TEN, 0.5 + 0.5 * 3.5 / 4),
        (0.5, list(reversed(TEN)), 0.1 + 0.4 * 3 / 4),
        (0.99, [(0.1, 2.0), (INF, 10.0)], 0.1),
        (0.5, [(-1.0, 4.0), (0.0, 5.0), (INF, 5.0)], -1.0),
        (0.9, [(-1.0, 4.0), (0.0, 5.0), (INF, 5.0)], -0.5),
        (0.5, [(0.1, 2.0), (0.5, 1.0), (1.0, 4.0), (INF, 4.0)], 0.1),
        (0.75, [(0.1, 2.0), (0.5, 1.0), (1.0, 4.0), (INF, 4.0)], 0.75),
        (0.5, [(0.1, 1.0), (0.1, 1.0), (INF, 4.0)], 0.1),
        (0.5, [(0.1, 3.0), (1.0, 3.0 - 1e-13), (INF, 3.0 + 1e-13)], 0.05),
        (0.0, [(0.1, 0.0), (1.0, 3.0), (INF, 3.0)], NAN),
        (0.5, [], NAN),
        (0.5, [(INF, 3.0)], NAN),
        (0.5, [(0.1, 2.0), (1.0, 3.0)], NAN),
        (0.5, [(0.1, 0.0), (INF, 0.0)], NAN),
        (0.5, [(0.1, NAN), (INF, NAN)], NAN),
        (NAN, TEN, NAN),
        (-0.1, TEN, -INF),
        (1.1, TEN, INF),
    ],
)
def test_a_quantile_is_what_prometheus_defines(quantile: float, buckets: list[tuple[float, float]], expected: float) -> None:
    found = histogram_quantile(quantile, buckets)
    assert found == pytest.approx(expected, nan_ok=True)
