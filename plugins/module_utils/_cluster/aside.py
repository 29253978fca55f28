# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work that must not hold up a run: done one after the other in a thread that nobody waits for longer than asked."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

Work = Callable[[], None]


class Aside:
    """`put` work; the thread starts with the first. Work must not raise. After `close` nothing that has not begun is done."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Work] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._open = 0
        self._idle = threading.Event()
        self._idle.set()
        self._closed = False
        self._thread: threading.Thread | None = None

    def put(self, work: Work) -> None:
        """Do this when what came before is done."""
        with self._lock:
            self._open += 1
            self._idle.clear()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()
        self._queue.put(work)

    def close(self, seconds: float) -> None:
        """Wait until all is done, at most for so long, and begin nothing more."""
        self._idle.wait(seconds)
        self._closed = True

    def _run(self) -> None:
        while True:
            work = self._queue.get()
            if not self._closed:
                work()
            with self._lock:
                self._open -= 1
                if not self._open:
                    self._idle.set()
