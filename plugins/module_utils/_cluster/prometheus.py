# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What programs have to tell of themselves, in the text format of Prometheus."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import TypeAlias

# The values of the labels, and the number.
Sample: TypeAlias = "tuple[tuple[str, ...], float]"

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Histogram:
    """Observations by upper bound. May be used by several threads."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds, self._counts = bounds, [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._lock = threading.Lock()

    def observe(self, value: float) -> None:
        """Count one observation."""
        with self._lock:
            self._counts[bisect_left(self._bounds, value)] += 1
            self._sum += value

    def cumulated(self) -> tuple[list[tuple[str, int]], float]:
        """How many observations are not above each bound, the last one being infinite; and the sum of all."""
        with self._lock:
            counts, total = list(self._counts), self._sum
        found, so_far = [], 0
        for bound, count in zip((*map(number, self._bounds), "+Inf"), counts, strict=True):
            so_far += count
            found.append((bound, so_far))
        return found, total


def family(name: str, kind: str, text: str, labels: tuple[str, ...], samples: Iterable[Sample]) -> Iterator[str]:
    """The lines of one metric; none when there is no sample. Samples of the same labels are added up, as one series must not be told twice."""
    found: dict[tuple[str, ...], float] = {}
    for values, value in samples:
        found[values] = found.get(values, 0) + value
    if found:
        yield from _head(name, kind, text)
    for values, value in found.items():
        yield f"{name}{_labels(zip(labels, values, strict=True))} {number(value)}"


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def histogram(name: str, text: str, observed: Histogram) -> Iterator[str]:
    """The lines of a histogram."""
    buckets, total = observed.cumulated()
    yield from _head(name, "histogram", text)
    for bound, count in buckets:
        yield f'{name}_bucket{{le="{bound}"}} {count}'
    yield f"{name}_sum {number(total)}"
    yield f"{name}_count {buckets[-1][1]}"


def _labels(pairs: Iterable[tuple[str, str]]) -> str:
    text = ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs)
    return f"{{{text}}}" if text else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def number(value: float) -> str:
    """A number as Prometheus reads it."""
    return str(int(value)) if value == int(value) else repr(float(value))
