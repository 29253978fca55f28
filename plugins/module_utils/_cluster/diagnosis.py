# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads why workloads cannot make their pods: seldom, and only while something does not come to run."""

from __future__ import annotations

import threading
import time

from .._motor.errors import MotorError
from .._motor.terminal import Workloads
from .api import Api, ApiError
from .aside import Aside

FIRST_SECONDS = 10.0
LONGEST_SECONDS = 120.0
# A StatefulSet that is refused its pods says so in Events alone.
KINDS = {"deployments": ("Deployment",), "infer_service_set": ("Deployment", "StatefulSet")}
EVENTS = "reason=FailedCreate,type=Warning"


class Diagnosis:
    """`workloads` is what was read last. Reads 10 s after the start and then at pauses that double, in a thread of their own."""

    def __init__(self, api: Api, namespace: str, backend: str, aside: Aside, changed: threading.Event, warnings: list[str]) -> None:
        self._api, self._namespace, self._aside, self._changed, self._warnings = api.pausing(None), namespace, aside, changed, warnings
        self._kinds = KINDS.get(backend, ())
        self._events = backend == "infer_service_set"
        self._pause = FIRST_SECONDS
        self._next = time.monotonic() + FIRST_SECONDS
        self._busy = False
        self.workloads = Workloads()

    def look(self) -> None:
        """Something does not run: read when it is time."""
        now = time.monotonic()
        if self._busy or not self._kinds or now < self._next:
            return
        self._next = now + self._pause
        self._pause = min(2 * self._pause, LONGEST_SECONDS)
        self._busy = True
        self._aside.put(self._read)

    def _read(self) -> None:
        try:
            objects = tuple(item for kind in self._kinds for item in self._api.list_objects(kind, self._namespace).items)
            events = self._api.list_objects("Event", self._namespace, field_selector=EVENTS).items if self._events else ()
            self.workloads = Workloads(objects, events)
            self._changed.set()
        except ApiError as error:
            if error.status in (401, 403):
                self._kinds = ()
                self._warnings.append(f"What keeps workloads from making pods cannot be read: {error}")
        except MotorError:
            pass  # the run has to stop, and says so itself
        finally:
            self._busy = False
