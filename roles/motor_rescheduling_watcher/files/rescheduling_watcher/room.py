# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether there is room for a job that would be created again, on the servers as they are now."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._motor import capacity
from ansible_collections.ascend.mindie.plugins.module_utils._motor.capacity_model import Server
from ansible_collections.ascend.mindie.plugins.module_utils._motor.job_facts import pods_by_job
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_cluster import shape_of
from ansible_collections.ascend.mindie.plugins.module_utils._motor.servers import servers, without

from .world import NODE, World

# Servers are put together from all pods there are: as much as can be is decided by the same ones.
FRESH_SECONDS = 1.0


class Room:
    """Only pods of namespaces that are watched are known to take room."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._at = -FRESH_SECONDS
        self._servers: tuple[Server, ...] = ()

    def servers(self) -> tuple[Server, ...]:
        """The servers with NPUs, and what is used of them, as of at most a second ago."""
        now = time.monotonic()
        if now - self._at >= FRESH_SECONDS:
            self._servers, self._at = servers(self._world.everywhere(NODE), self._world.everywhere("Pod")), now
        return self._servers

    def __call__(self, job: Mapping[str, Any]) -> str:
        """Why there is none, or "". What its own pods have left is free for the job."""
        name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
        shape = shape_of(job, name)
        if shape is None:
            return ""
        own = pods_by_job(self._world.snapshot(namespace).pods).get(name, [])
        if capacity.more(without(self.servers(), own), shape):
            return ""
        return f"no servers that are Ready have room for its {shape.pods} pods with {shape.npus_per_pod} NPUs each"
