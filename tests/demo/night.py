# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The chapter at night: the same server fails, and nobody is at hand. Once without the rescheduling watcher, once with it.

What the demo still does itself is what Motor's controller does on a real cluster: it ends a prefill instance so that decode gets its server.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from tests.support.watcher import Watcher

from .elastic import NAMESPACE, Chapter, Moment

# The server is away for so long. Dead servers are found after ten seconds, their pods evicted five later.
ABSENT = 50.0
DECODE, PREFILL = "mindie-server-d0", "mindie-server-p1"
WATCHER_NAMESPACE = "mindie-system"
# What takes minutes on a real cluster.
QUICK = {"stuck_after": 3, "missing_after": 5, "lease_duration": 5}


@dataclass(frozen=True)
class Night:
    """Seconds: for how long no decode instance ran, and how long after the return of the server the service was whole again."""

    watched: bool
    without_decode: float
    regrow: float
    repairs: tuple[str, ...] = ()


class NightChapter(Chapter):
    """Plays one night on the cluster of the chapter, whose service is whole. `watcher` is None when there is none."""

    def night(self, watcher: Watcher | None, absent: float = ABSENT) -> Night:
        """The server is away for `absent` seconds. Raises PlaybookFailed when the service does not recover."""
        self._until(lambda now: now.tier == -1, "the whole service runs")
        lost = self._server_of(DECODE)
        failed = self._now()
        self._act(f"server {lost} fails", lambda: self.cluster.down_node(lost))
        if watcher:
            self._until(lambda now: now.states[DECODE] == "pending", "the watcher has taken away the pod that hangs there")
            self._act("the demo, in place of Motor's controller: end prefill 1", lambda: self._end(f"{PREFILL}-master-0"))
            self._until(lambda now: now.states[DECODE] == "running" and now.tier == 0, "1 prefill and 1 decode instance serve")
        else:
            self._until(lambda dummy: self._hangs(DECODE), "the pod on the dead server is evicted")
        self._until(lambda dummy: self._now() >= failed + absent, "somebody has repaired the server")
        returned = self._now()
        self._act(f"server {lost} is back", lambda: self.cluster.up_node(lost))
        self._until(lambda now: set(now.states.values()) == {"running"} and now.tier == -1, "2 prefill and 1 decode instance serve again")
        repairs = tuple(f"{act} {name}" for act, name, dummy in watcher.repairs(NAMESPACE)) if watcher else ()
        return Night(watcher is not None, self._without_decode(), self._now() - returned, repairs)

    def _now(self) -> float:
        return time.monotonic() - self._started

    def _without_decode(self) -> float:
        """From when decode was last seen to run before the failure until it ran again."""
        out = [index for index, moment in enumerate(self.moments) if moment.states[DECODE] != "running"]
        return self._at(out[-1] + 1) - self._at(out[0])

    def _at(self, index: int) -> float:
        moment: Moment = self.moments[index]
        return moment.at


def installed(cluster: Any) -> Watcher:
    """The watcher for the service of the chapter, with all acts switched on. To be used as a context manager."""
    watcher = Watcher(cluster, WATCHER_NAMESPACE)
    watcher.install(NAMESPACE, **QUICK)
    return watcher
