# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a coordinator's metrics per endpoint (`type=dp`) say at one moment, and by how much counters grew between several moments.

A sheet holds numbers only. Where they are is kept once for all sheets with the same series: a coordinator writes the same series
again and again.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from . import load_metrics
from .exposition import LARGEST_ROWS, Reader, Series

BUCKET, SUM, COUNT = "bucket", "sum", "count"
_PARTS = (BUCKET, SUM, COUNT)
_ENDPOINT_LABELS = ("role", "instance_id", "dp_rank", "pod_ip")

FAMILIES = frozenset(family for metric in load_metrics.METRICS.values() for family in metric.families)
_HISTOGRAMS = frozenset(
    family
    for metric in load_metrics.METRICS.values()
    if metric.how in (load_metrics.QUANTILE, load_metrics.MEAN_OF_HISTOGRAM)
    for family in metric.families
)


class Endpoint(NamedTuple):
    """One engine endpoint."""

    instance: str
    rank: str
    pod_ip: str


# A number of a family: (part, upper bound). Of what is no histogram there is one, ("", 0).
Part: TypeAlias = "tuple[str, float]"
PLAIN: Part = ("", 0.0)
# What makes the numbers of one histogram, or the one of a counter: the labels that are left, and which of several alike it is. An
# endpoint with several engines writes a series more than once, as the label that tells them apart is taken away.
Group: TypeAlias = "tuple[tuple[tuple[str, str], ...], int]"
Places: TypeAlias = "Mapping[Group, Mapping[Part, int]]"


class Table:
    """Where in a sheet the numbers of each engine role, family and endpoint are. `roles`: the endpoints of each engine role."""

    def __init__(self, series: tuple[Series, ...]) -> None:
        self.series = series
        self.roles: dict[str, set[Endpoint]] = {}
        self._places: dict[tuple[str, str], dict[Endpoint, dict[Group, dict[Part, int]]]] = {}
        seen: Counter[tuple[str, tuple[str, ...]]] = Counter()
        for position, one in enumerate(series):
            labels = one.labels
            role, instance, rank, pod_ip = (labels.get(name, "") for name in _ENDPOINT_LABELS)
            if role and instance and pod_ip:
                endpoint = Endpoint(instance, rank, pod_ip)
                family, part = _family(one.name, labels.get("le", ""))
                rest = tuple(sorted(item for item in labels.items() if item[0] not in _ENDPOINT_LABELS and item[0] != "le"))
                self.roles.setdefault(role, set()).add(endpoint)
                groups = self._places.setdefault((role, family), {}).setdefault(endpoint, {})
                groups.setdefault((rest, seen[one.name, one.written]), {})[part] = position
                seen[one.name, one.written] += 1

    def endpoints(self, role: str) -> frozenset[Endpoint]:
        """The endpoints of an engine role."""
        return frozenset(self.roles.get(role, ()))

    def places(self, role: str, family: str) -> Mapping[Endpoint, Places]:
        """Where the numbers of a family are, by endpoint."""
        return self._places.get((role, family), {})


@lru_cache(maxsize=4096)
def _family(name: str, bound: str) -> tuple[str, Part]:
    """The family (without prefix) that a series is of, and which of its numbers it is. They are the same for all endpoints."""
    name = name.rpartition(":")[2]
    base, dummy, part = name.rpartition("_")
    if part in _PARTS and base in _HISTOGRAMS:
        return base, (part, _bound(bound) if part == BUCKET else 0.0)
    return name, PLAIN


def _bound(text: str) -> float:
    """The upper bound of a bucket; of one that has none, a bound that no quantile is made with."""
    try:
        bound = float(text)
    except ValueError:
        return -math.inf
    return -math.inf if math.isnan(bound) else bound


@dataclass(frozen=True, slots=True)
class Sheet:
    """The numbers of one moment."""

    table: Table
    values: array[float]

    def same(self, other: Sheet) -> bool:
        """Whether nothing differs; that no number is there, and is none again, is no difference."""
        return self.values.tobytes() == other.values.tobytes() and self.table.series == other.table.series

    def numbers(self, role: str, family: str) -> dict[Endpoint, list[float]]:
        """The rows of a family that is no histogram, by endpoint."""
        return {
            endpoint: [self.values[parts[PLAIN]] for parts in groups.values() if PLAIN in parts]
            for endpoint, groups in self.table.places(role, family).items()
        }


class Sheets:
    """Makes sheets of one text of a coordinator after another."""

    def __init__(self, largest_rows: int = LARGEST_ROWS) -> None:
        self._reader = Reader(FAMILIES, largest_rows)
        self._table = Table(())

    def make(self, text: str) -> Sheet:
        """The sheet of a text. Raises BadExposition."""
        rows = self._reader.read(text)
        if rows.series is not self._table.series:
            self._table = Table(rows.series)
        return Sheet(self._table, rows.values)


def growth(sheets: Sequence[Sheet], role: str, family: str) -> Iterator[Mapping[Part, float]]:
    """By how much counters grew from the first sheet to the last: one mapping per counter or histogram of an endpoint.

    Endpoints that came or left meanwhile count for as long as they were seen. A counter that fell began again at 0.
    """
    paths: dict[tuple[Endpoint, Group], list[tuple[Sheet, Mapping[Part, int]]]] = {}
    for sheet in sheets:
        for endpoint, groups in sheet.table.places(role, family).items():
            for group, parts in groups.items():
                paths.setdefault((endpoint, group), []).append((sheet, parts))
    return (_grown(path) for path in paths.values())


def _grown(path: Sequence[tuple[Sheet, Mapping[Part, int]]]) -> Mapping[Part, float]:
    total: dict[Part, float] = dict.fromkeys(path[-1][1], 0.0)
    begin: tuple[Sheet, Mapping[Part, int]] | None = path[0]
    for before, now in pairwise(path):
        if _lead(*now) < _lead(*before):
            _add(total, begin, before)
            begin = None
    _add(total, begin, path[-1])
    return total


def _lead(sheet: Sheet, parts: Mapping[Part, int]) -> float:
    """The number that tells whether all of them began again: a histogram does so as a whole."""
    position = next((parts[part] for part in (PLAIN, (COUNT, 0.0), (BUCKET, math.inf)) if part in parts), None)
    return 0.0 if position is None else sheet.values[position]


def _add(total: dict[Part, float], begin: tuple[Sheet, Mapping[Part, int]] | None, end: tuple[Sheet, Mapping[Part, int]]) -> None:
    sheet, parts = end
    for part, position in parts.items():
        before = 0.0 if begin is None or part not in begin[1] else begin[0].values[begin[1][part]]
        total[part] = total.get(part, 0.0) + sheet.values[position] - before


def buckets(grown: Iterable[Mapping[Part, float]]) -> list[tuple[float, float]]:
    """The buckets of several histograms together. Only bounds that all of them have: up to those the counts are exact."""
    single = [{bound: count for (part, bound), count in one.items() if part == BUCKET} for one in grown]
    common = set.intersection(*(set(one) for one in single)) if single else set()
    return [(bound, sum(one[bound] for one in single)) for bound in sorted(common)]


def total(grown: Iterable[Mapping[Part, float]], part: str = "") -> float:
    """The growth of one number of all together."""
    return sum(one.get((part, 0.0), 0.0) for one in grown)
