# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop: namespaces that have changed are looked at. A look decides about repairs; it is followed by a description, which takes longer,
has a thread of its own, and is what is shown and told.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._cluster.api import Api
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.election import Election
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.signals import Signals
from ansible_collections.ascend.mindie.plugins.module_utils._motor.ownership import CONFIG_MAP

from . import news
from .acts import Acts
from .ages import Ages
from .board import Board
from .crew import Crew
from .describe import Describer
from .metrics import Counters
from .repairs import Repair, decide_repairs, facts, timed
from .room import Room
from .settings import Settings
from .tell import Teller
from .world import World

LOG = logging.getLogger(__name__)
# Events that come together are looked at together.
GATHER_SECONDS = 0.02
# Nothing at all happening, this often the loop shows that it is alive and looks at what waits.
LONGEST_WAIT = 5.0
UNREADY_SECONDS = 0.5
ALIVE_SECONDS = 60.0


@dataclass(frozen=True)
class Identity:
    """Who this process is: the program's name and namespace, and the pod."""

    program: str
    namespace: str
    pod: str
    version: str


class Controller:
    """Everything that runs, put together. `run` returns when `stop` was called."""

    def __init__(self, api: Api, settings: Settings, identity: Identity, signals: Signals) -> None:
        self._settings, self._identity = settings, identity
        self._changed = threading.Event()
        self._stopping = threading.Event()
        self.counters = Counters()
        self.world = World(api, settings, self._changed)
        self.election = Election(api, identity.namespace, identity.program, identity.pod, float(settings.lease_duration))
        self._acts = Acts(api, identity.program, identity.pod, float(settings.lease_duration), signals, self.world.build)
        self._teller = Teller(api.fenced(self.election.check), f"{identity.program}/{identity.pod}")
        self.board = Board(self.world, self._who)
        self._crew = Crew(
            self._acts, self.election, self._teller, self.board, self.counters, settings.tries_per_hour, self._about, self._look_again
        )
        self._ages: dict[str, Ages] = {}
        self._room = Room(self.world)
        self._describer = Describer(self.world, self.board, self._room, self._tell)
        self._troubles: dict[tuple[str, str], str] = {}
        self._broken: dict[str, str] = {}
        self._waiting: dict[str, Mapping[str, str]] = {}
        self._due: dict[str, float] = {}
        self._due_lock = threading.Lock()
        self._moved = time.monotonic()
        self._led = False

    def stop(self) -> None:
        """End in order: what is going on is finished, the leadership is given back."""
        self._stopping.set()
        self._changed.set()

    def health(self) -> tuple[bool, dict[str, Any]]:
        """Whether the loop moves, and whether everything was listed."""
        still = time.monotonic() - self._moved
        alive = still < ALIVE_SECONDS
        return alive, {"ready": self.world.synced, "leading": self.election.leading, "seconds_since_last_look": round(still, 1)}

    def run(self) -> None:
        """Watch, look, repair."""
        self.world.start()
        self.election.start()
        self._describer.start()
        try:
            while not self._stopping.is_set():
                self._turn()
        finally:
            self._describer.stop()
            self._crew.stop()
            self.world.stop()
            self.election.stop()

    def _turn(self) -> None:
        self._changed.wait(self._seconds_to_wait())
        self._stopping.wait(GATHER_SECONDS)
        self._changed.clear()
        self._moved = time.monotonic()
        heard = self.world.take_dirty()
        for namespace in set(heard) | self._everything_when_leading_begins() | self._take_due():
            self._safely(self._look, namespace)
            if namespace in heard:
                self.counters.decisions.observe(time.monotonic() - heard[namespace])
            self._describer.ask(namespace)
        self._log_troubles()

    def _safely(self, what: Callable[[str], None], namespace: str) -> None:
        """One service that cannot be understood must not keep the others from being looked after."""
        self._moved = time.monotonic()
        if self._stopping.is_set():
            return
        try:
            what(namespace)
            self._broken.pop(namespace, None)
        except Exception as error:
            if self._broken.get(namespace) != repr(error):
                LOG.exception("cannot look at namespace %s", namespace)
            self._broken[namespace] = repr(error)
            self._look_again(namespace, LONGEST_WAIT)

    def _look(self, namespace: str) -> None:
        """Decide. What is not known in full is not decided about: what was not listed is not missing."""
        if not self.world.ready(namespace):
            self._ages.pop(namespace, None)  # what was so before and is so then need not have been so in between
            self._look_again(namespace, UNREADY_SECONDS)
            return
        if not self.world.has_service(namespace):
            self._ages.pop(namespace, None)
            self._waiting.pop(namespace, None)
            return
        snapshot = self.world.snapshot(namespace)
        known = facts(snapshot)
        ages = self._ages.setdefault(namespace, Ages()).update(timed(snapshot, known), time.monotonic())
        decisions = decide_repairs(snapshot, ages, self._settings, self._room, self._acts.own, known)
        if self._led and self.election.leading:
            fence = self.election.fence()
            for repair in decisions.repairs:
                self._crew.offer(repair, fence)
            self._log_waiting(namespace, decisions.obstacles)
        if decisions.waiting:
            self._look_again(namespace, min(decisions.due or LONGEST_WAIT, LONGEST_WAIT))

    def _log_waiting(self, namespace: str, obstacles: Mapping[str, str]) -> None:
        """Why what is to be repaired is not, once each time that changes."""
        before = self._waiting.pop(namespace, {})
        for key, why in obstacles.items():
            if before.get(key) != why:
                LOG.info("not now: %s: %s", key, why)
        if obstacles:
            self._waiting[namespace] = obstacles

    def _log_troubles(self) -> None:
        """What keeps watches from watching, once each time it changes."""
        troubles = {
            (health.kind, health.namespace or ""): health.errors for health in self.world.health() if health.errors and not health.unknown
        }
        if self.election.error:
            troubles["Lease", self._identity.namespace] = self.election.error
        for key, text in troubles.items():
            if self._troubles.get(key) != text:
                LOG.warning("%s", text)
        self._troubles = troubles

    def _tell(self, namespace: str, item: news.Item) -> None:
        if not self.election.leading:
            return
        level = logging.WARNING if item.news.warning else logging.INFO
        LOG.log(level, "%s/%s: %s: %s", namespace, item.name, item.news.reason, item.news.message)
        about = self.world.named(namespace, item.kind, item.name)
        if about:
            self._crew.aside(lambda: self._teller.tell(about, item.news, for_good=item.for_good, instance=item.instance))

    def _about(self, repair: Repair) -> Mapping[str, Any] | None:
        """The object of a repair; of a pod the job that it belongs to, where there is one."""
        found = self.world.named(repair.namespace, repair.kind, repair.name)
        owner = next(
            (row for row in ((found or {}).get("metadata", {}).get("ownerReferences") or ()) if row.get("kind") == "AscendJob"), None
        )
        job = self.world.named(repair.namespace, "AscendJob", owner["name"]) if owner else None
        return job or found or self.world.named(repair.namespace, "ConfigMap", CONFIG_MAP)

    def _who(self) -> dict[str, Any]:
        identity, settings = self._identity, self._settings
        return {
            "name": identity.program,
            "version": identity.version,
            "namespace": identity.namespace,
            "pod": identity.pod,
            "leader": self.election.leader,
            "leading": self.election.leading,
            "acts": dict(settings.acts),
            "namespaces": list(settings.namespaces) or ["*"],
        }

    def _everything_when_leading_begins(self) -> set[str]:
        """What the leader before has seen and not done is to be seen by the new one."""
        before, self._led = self._led, self.election.leading
        if before or not self._led:
            return set()
        self._crew.begin_term()
        self._describer.tell_all()
        return set(self.world.namespaces())

    def _look_again(self, namespace: str, seconds: float) -> None:
        at = time.monotonic() + max(seconds, 0.05)
        with self._due_lock:
            self._due[namespace] = min(at, self._due.get(namespace, at))
        self._changed.set()

    def _take_due(self) -> set[str]:
        now = time.monotonic()
        with self._due_lock:
            found = {namespace for namespace, at in self._due.items() if at <= now}
            for namespace in found:
                del self._due[namespace]
        return found

    def _seconds_to_wait(self) -> float:
        with self._due_lock:
            first = min(self._due.values(), default=None)
        return LONGEST_WAIT if first is None else min(LONGEST_WAIT, max(0.0, first - time.monotonic()))
