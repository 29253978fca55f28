# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much is missing for an instance that waits for NPUs, in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .capacity_model import Server, Shape

# More jobs than these are only counted.
_NAMED = 3


class Room:
    """What is free on servers. `enqueued` are jobs that reserve NPUs of no certain server (`servers.enqueued`)."""

    def __init__(self, servers: Iterable[Server], enqueued: Sequence[Mapping[str, Any]] = ()) -> None:
        self._free = {server.name: max(0, server.npus - server.used) for server in servers if server.usable}
        self._super_pods: dict[str, list[int]] = defaultdict(list)
        for server in servers:
            if server.super_pod and server.usable:
                self._super_pods[server.super_pod].append(self._free[server.name])
        self.free = sum(self._free.values())
        self._most = max(self._free, key=lambda name: self._free[name], default="")
        self._enqueued = enqueued

    def lacking(self, shape: Shape) -> str:
        """What an instance lacks: of NPUs, of room on one server, or of room in one super pod; "" when it could be placed."""
        size, pods = shape.npus_per_pod, shape.pods
        if not size or not pods:
            return ""
        if pods == 1:
            largest = self._free.get(self._most, 0)
            return "" if largest >= size else f"needs {size} NPUs on one server, {self._largest(largest)}"
        needs = f"needs {shape.npus} NPUs ({pods} x {size})"
        if self.free < shape.npus:
            return f"{needs}, {self.free} are free"
        places = sum(free // size for free in self._free.values())
        if places < pods:
            return f"{needs}, there is room for {places} x {size}, though {self.free} are free"
        return self._lacking_together(shape)

    def _largest(self, largest: int) -> str:
        return f"the largest free room is {largest} on {self._most}" if largest else "no server has any free"

    def _lacking_together(self, shape: Shape) -> str:
        """The pods of a block have to be in one super pod."""
        if not shape.sp_block:
            return ""
        room = {name: sum(free // shape.npus_per_pod for free in frees) for name, frees in self._super_pods.items()}
        blocks, wanted = sum(places // shape.pods_per_block for places in room.values()), shape.pods // shape.pods_per_block
        if blocks >= wanted:
            return ""
        most = max(room, key=lambda name: room[name], default="")
        found = f"super pod {most} has room for {room[most] * shape.npus_per_pod}" if most else "no server is in a super pod"
        return f"needs {wanted} x {shape.sp_block} NPUs, each in one super pod, there is room for {blocks} of them ({found})"

    def reserved(self, shape: Shape, name: str) -> str:
        """Which other jobs, though they have no pods, reserve so many NPUs that too few are left for this one; "" when enough are."""
        others = [row for row in self._enqueued if row["job"] != name]
        taken = sum(row["npus"] for row in others)
        if not taken or self.free - taken >= shape.npus:
            return ""
        jobs = ", ".join(row["job"] for row in others[:_NAMED]) + (f" and {len(others) - _NAMED} more" if len(others) > _NAMED else "")
        return f"{self.free} NPUs are free, but {taken} of them are reserved by jobs that were let in before and have no pods: {jobs}"
