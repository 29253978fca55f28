# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Describes services in a thread of its own: that takes longer than to decide, and decisions do not wait for it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from ansible_collections.ascend.mindie.plugins.module_utils._motor.overview_details import service_report

from . import news
from .board import Board
from .room import Room
from .world import World

LOG = logging.getLogger(__name__)
# What could not be described is tried again.
AGAIN_SECONDS = 5.0
# A namespace that takes long to describe and changes all the time must not take all the time there is: it rests so many times as long.
REST = 3.0


class Describer:
    """Shows on the board what a namespace looks like whenever it was `ask`ed for, and gives what is news of it to `tell`."""

    def __init__(self, world: World, board: Board, room: Room, tell: Callable[[str, news.Item], None]) -> None:
        self._world, self._board, self._room, self._tell = world, board, room, tell
        self._gossip: dict[str, news.Gossip] = {}
        self._asked: dict[str, None] = {}
        self._due: dict[str, float] = {}
        self._resting: dict[str, float] = {}
        self._broken: dict[str, str] = {}
        self._woken = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="describe", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the description that is being made."""
        with self._woken:
            self._stopping = True
            self._woken.notify()
        self._thread.join(AGAIN_SECONDS)

    def tell_all(self) -> None:
        """Whoever told before may have told nothing of what is so now: tell it again. What is told at objects already is not told twice."""
        self._gossip.clear()

    def ask(self, namespace: str) -> None:
        """Describe it as soon as there is time."""
        with self._woken:
            self._asked[namespace] = None
            self._rest(namespace)
            self._woken.notify()

    def _run(self) -> None:
        while (namespace := self._next()) is not None:
            began = time.monotonic()
            try:
                due = self._describe(namespace)
                self._broken.pop(namespace, None)
            except Exception as error:
                if self._broken.get(namespace) != repr(error):
                    LOG.exception("cannot describe namespace %s", namespace)
                self._broken[namespace] = repr(error)
                self._board.forget(namespace)  # nothing is better than what is no longer so
                due = AGAIN_SECONDS
            with self._woken:
                now = time.monotonic()
                self._resting[namespace] = now + REST * (now - began)
                self._due.pop(namespace, None)
                if due is not None:
                    self._due[namespace] = now + due
                self._rest(namespace)

    def _rest(self, namespace: str) -> None:
        """Whoever was asked for while it rests is described after that."""
        at = self._resting.get(namespace, 0.0)
        if namespace in self._asked and at > time.monotonic():
            del self._asked[namespace]
            self._due[namespace] = min(at, self._due.get(namespace, at))

    def _next(self) -> str | None:
        """The namespace that waits longest, or None at the end."""
        with self._woken:
            while not self._stopping:
                now = time.monotonic()
                self._asked.update(dict.fromkeys(name for name, at in self._due.items() if at <= now and name not in self._asked))
                if self._asked:
                    namespace = next(iter(self._asked))
                    del self._asked[namespace]
                    return namespace
                self._woken.wait(min(self._due.values()) - now if self._due else None)
        return None

    def _describe(self, namespace: str) -> float | None:
        """Returns in how many seconds there may be more to tell, without any change."""
        if not self._world.ready(namespace):
            return None
        if not self._world.has_service(namespace):
            self._board.forget(namespace)
            self._gossip.pop(namespace, None)
            return None
        view = self._board.show(namespace, service_report(self._world.snapshot(namespace), servers=self._room.servers()))
        told, due = self._gossip.setdefault(namespace, news.Gossip()).look(view, time.monotonic())
        for item in told:
            self._tell(namespace, item)
        return due
