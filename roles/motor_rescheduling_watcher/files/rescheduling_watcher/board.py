# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is shown: the views of all services as of the last look, the servers, and the last repairs. Thread-safe."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._cluster.program_shell import rfc3339
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.watch import Health
from ansible_collections.ascend.mindie.plugins.module_utils._motor.servers import servers_view

from .world import NODE, World

KEPT_REPAIRS = 50
# Servers are put together for who asks, and not more often than this.
SERVERS_SECONDS = 2.0


class Board:
    """`who` gives what is to be said of the program itself."""

    def __init__(self, world: World, who: Callable[[], dict[str, Any]]) -> None:
        self._world, self._who = world, who
        self._lock = threading.Lock()
        self._services: dict[str, dict[str, Any]] = {}
        self._since: dict[str, dict[str, tuple[str, str]]] = {}
        self._repairs: deque[dict[str, Any]] = deque(maxlen=KEPT_REPAIRS)
        self._revision = 0
        self._servers: list[dict[str, Any]] = []
        self._servers_at = -SERVERS_SECONDS

    def show(self, namespace: str, view: dict[str, Any]) -> dict[str, Any]:
        """The view of a service as of now. Returns it with the times since when states have been so."""
        with self._lock:
            view = self._timed(namespace, view)
            self._revision += self._services.get(namespace) != view
            self._services[namespace] = view
        return view

    def forget(self, namespace: str) -> None:
        """There is no service any more."""
        with self._lock:
            self._since.pop(namespace, None)
            self._revision += self._services.pop(namespace, None) is not None

    def _timed(self, namespace: str, view: dict[str, Any]) -> dict[str, Any]:
        """A change of state that was seen is known better than what objects tell of it."""
        before = self._since.get(namespace)
        now = rfc3339(time.time())
        since: dict[str, tuple[str, str]] = {}
        for instance in view["instances"]:
            name, state = instance["name"], instance["state"]
            known = (before or {}).get(name)
            first = instance["since"] if before is None else now
            since[name] = known if known and known[0] == state else (state, first or now)
        self._since[namespace] = since
        return {**view, "instances": [{**item, "since": since[item["name"]][1]} for item in view["instances"]]}

    def repaired(self, entry: Mapping[str, Any]) -> None:
        """A repair has ended."""
        with self._lock:
            self._repairs.appendleft(dict(entry))
            self._revision += 1

    def report(self) -> dict[str, Any]:
        """Everything there is to show, as plain data."""
        servers = self._current_servers()
        watches = [_watch(health, time.monotonic()) for health in self._world.health()]
        with self._lock:
            program = {**self._who(), "synced": self._world.synced, "at": rfc3339(time.time()), "revision": self._revision}
            services = [self._services[name] for name in sorted(self._services)]
            return {"program": program, "services": services, "servers": servers, "repairs": list(self._repairs), "watches": watches}

    def _current_servers(self) -> list[dict[str, Any]]:
        with self._lock:
            now = time.monotonic()
            if now - self._servers_at >= SERVERS_SECONDS:
                found = servers_view(self._world.everywhere(NODE), self._world.everywhere("Pod"))
                self._revision += found != self._servers
                self._servers, self._servers_at = found, now
            return self._servers


def _watch(health: Health, now: float) -> dict[str, Any]:
    return {
        "kind": health.kind,
        "namespace": health.namespace or "",
        "synced": health.synced,
        "restarts": health.restarts,
        "relists": health.relists,
        "objects": health.objects,
        # Nobody says anything of a kind that there is not.
        "silent_seconds": round(now - health.heard, 1) if health.heard and not health.unknown else None,
        "relist_seconds": round(health.relist_seconds, 3),
        "error": "" if health.unknown else health.errors,
    }
