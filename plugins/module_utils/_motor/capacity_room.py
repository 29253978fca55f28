# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Room for instances: free NPUs of servers by how many pods of which size they hold, and how whole instances take them.

A pod takes its NPUs from the server where it breaks up the least: a place of just its size first, then the smallest larger one. A
block of pods that belongs into one super pod takes the fullest one that has room for all of it. An instance is placed whole or not
at all. Nothing depends on names or on the order of servers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .capacity_model import Server, Shape

# How many servers have how many free NPUs, by level of the grid, for one super pod (region).
Histogram: TypeAlias = "tuple[int, ...]"
Place: TypeAlias = "tuple[int, int]"


@dataclass(frozen=True)
class Grid:
    """What free NPUs are worth to pods of some sizes: a server with 7 free NPUs has none for pods of 8.

    `levels` are the sums of sizes that a server can have free, ascending; `floor[n]` is the largest of them not above n, or 0.
    `best[size]` are the levels where a pod of that size fits, the best first: the size of the place that it breaks up, and the
    index of the level.
    """

    sizes: tuple[int, ...]
    levels: tuple[int, ...]
    floor: bytes
    best: Mapping[int, tuple[tuple[int, int], ...]]

    @classmethod
    def of(cls, shapes: Iterable[Shape], most: int) -> Grid:
        """The grid of the pods of `shapes` on servers of up to `most` NPUs."""
        sizes = tuple(sorted({shape.npus_per_pod for shape in shapes}))
        sums = [False] * (most + 1)
        sums[0] = True
        for level in range(1, most + 1):
            sums[level] = any(size <= level and sums[level - size] for size in sizes)
        levels = tuple(level for level in range(1, most + 1) if sums[level])
        floor = bytes(max((level for level in levels if level <= free), default=0) for free in range(256))
        best = {size: _best(size, sizes, levels) for size in sizes}
        return cls(sizes, levels, floor, best)

    @property
    def one_size(self) -> bool:
        """All pods are of one size: then only the number of places counts."""
        return len(self.sizes) == 1

    @property
    def nested(self) -> bool:
        """Each size divides the next larger one: then no free NPUs are lost by how pods are placed."""
        return all(large % small == 0 for small, large in zip(self.sizes, self.sizes[1:], strict=False))


def _best(size: int, sizes: Sequence[int], levels: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """By the smallest place that filling up with the largest pods leaves, then by what is free."""
    return tuple(sorted((_smallest(level, size, sizes), index) for index, level in enumerate(levels) if level >= size))


def _smallest(level: int, size: int, sizes: Sequence[int]) -> int:
    """The smallest place for a pod of `size` on a server with `level` free NPUs that is filled with the largest pods first."""
    found = 0
    for large in reversed(sizes):
        if large >= size and level >= large:
            found = large
        level %= large
    return found


class Regions:
    """Super pods as numbers. They matter only when an instance has to be within one; else all servers are one region.

    A server without a super pod is in region 0, which hosts no block.
    """

    def __init__(self, servers: Sequence[Server], shapes: Iterable[Shape]) -> None:
        matter = any(shape.sp_block for shape in shapes)
        names = sorted({server.super_pod for server in servers} - {""}) if matter else []
        self.count = len(names) + 1
        index = {name: number for number, name in enumerate(names, 1)}
        self.of = [index.get(server.super_pod, 0) for server in servers]


class Room:
    """Free places by region. `take` is the only thing that changes it."""

    def __init__(self, grid: Grid, histograms: Iterable[Histogram]) -> None:
        self._grid = grid
        self._counts = [list(histogram) for histogram in histograms]

    @classmethod
    def of(cls, grid: Grid, regions: Regions, free: Sequence[int]) -> Room:
        """The room of servers with so many free NPUs, in the order of `regions.of`."""
        index = {level: number for number, level in enumerate(grid.levels)}
        counts = [[0] * len(grid.levels) for dummy in range(regions.count)]
        for region, npus in zip(regions.of, free, strict=True):
            level = grid.floor[npus]
            if level:
                counts[region][index[level]] += 1
        return cls(grid, [tuple(row) for row in counts])

    def copy(self) -> Room:
        """The same room, to be taken independently."""
        return Room(self._grid, [tuple(row) for row in self._counts])

    @property
    def nested(self) -> bool:
        """See `Grid.nested`."""
        return self._grid.nested

    @property
    def npus(self) -> int:
        """Free NPUs in places for pods."""
        return sum(self._free(region) for region in range(len(self._counts)))

    def take(self, shape: Shape) -> list[Place] | None:
        """Take the NPUs of one whole instance: region and level of the server of each pod, or None (and nothing changes)."""
        before = [list(row) for row in self._counts]
        places: list[Place] = []
        for dummy in range(shape.pods // shape.pods_per_block):
            region = self._region(shape)
            if region is None:
                self._counts = before
                return None
            places += [(region, self._pod(region, shape.npus_per_pod)) for dummy in range(shape.pods_per_block)]
        return places

    def _region(self, shape: Shape) -> int | None:
        """Where the next block breaks up the smallest place; then where the least is free."""
        first = 1 if shape.sp_block else 0
        size, pods = shape.npus_per_pod, shape.pods_per_block
        fitting = [region for region in range(first, len(self._counts)) if self._places(region, size) >= pods]
        return min(fitting, key=lambda region: (self._best(region, size)[0], self._free(region), self._counts[region]), default=None)

    def _places(self, region: int, size: int) -> int:
        return sum(count * (level // size) for count, level in zip(self._counts[region], self._grid.levels, strict=True))

    def _free(self, region: int) -> int:
        return sum(count * level for count, level in zip(self._counts[region], self._grid.levels, strict=True))

    def _best(self, region: int, size: int) -> tuple[int, int]:
        counts = self._counts[region]
        return next(place for place in self._grid.best[size] if counts[place[1]])

    def _pod(self, region: int, size: int) -> int:
        """Take one pod's NPUs; returns the level that the server had."""
        counts, grid = self._counts[region], self._grid
        index = self._best(region, size)[1]
        counts[index] -= 1
        left = grid.floor[grid.levels[index] - size]
        if left:
            counts[grid.levels.index(left)] += 1
        return grid.levels[index]
