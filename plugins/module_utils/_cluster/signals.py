# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SIGTERM, SIGINT and SIGHUP end a run in order: the request in flight is finished, the lock is given back."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator

from .._motor.errors import MotorError

ORDERLY = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
SLICE = 0.1


class Interrupted(MotorError):
    """The run was told to stop; `signal` says by which signal."""


class Signals:
    """Remembers a signal. The handler only sets a field, as it runs amid anything else."""

    def __init__(self) -> None:
        self._received = 0

    @contextlib.contextmanager
    def handled(self) -> Iterator[None]:
        """Handle the signals in here. Only the main thread can; others leave them as they are."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, lambda received, dummy: self.receive(received)) for number in ORDERLY}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def check(self) -> None:
        """Raise Interrupted when a signal has come."""
        if self._received:
            name = signal.Signals(self._received).name
            raise Interrupted(f"interrupted by {name}", reason="Interrupted", signal=name)

    def sleep(self, seconds: float) -> None:
        """Sleep, but not past a signal."""
        until = time.monotonic() + seconds
        while True:
            self.check()
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(SLICE, left))

    def receive(self, number: int) -> None:
        """A signal has come."""
        self._received = number
