# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List and watch objects of one kind, surviving 410, errors in the stream, silent sockets and lost deletes."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from .api import Api, ApiError, TransportError

WATCH_SECONDS = 300.0
# A server sends a bookmark about every minute, and a dead connection says nothing either: rather than wait for a bookmark, a watch
# that was silent for this long is given up and the objects are listed. So nothing is missed for longer, and a quiet watch costs
# two requests per period.
SILENT_SECONDS = 30.0
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 15.0
# Answers that will not change by asking again.
LASTING = frozenset({401, 403, 404})


class Watch:
    """Keeps `objects` of one kind up to date in a thread. `changed` is set after every change; `failed` holds a lasting error.

    Whatever ends a watch other than its time being up is followed by a list, after a pause that grows while nothing is heard.
    """

    def __init__(
        self, api: Api, kind: str, namespace: str, items: Iterable[Mapping[str, Any]], version: str, changed: threading.Event
    ) -> None:
        self._api, self._kind, self._namespace = api.pausing(None), kind, namespace
        self._objects = {item["metadata"]["uid"]: item for item in items}
        self._version = version
        self._changed = changed
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._pause = FIRST_PAUSE
        self.failed: ApiError | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def objects(self) -> tuple[Mapping[str, Any], ...]:
        """The objects as of now."""
        with self._lock:
            return tuple(self._objects.values())

    def stop(self) -> None:
        """End the watch; its thread ends with the next word of the server."""
        self._stop.set()

    def _run(self) -> None:
        current = True
        while not self._stop.is_set():
            opened = time.monotonic()
            try:
                if not current:
                    self._relist()
                current = self._follow()
            except ApiError as error:
                if error.status in LASTING:
                    self.failed = error
                    self._changed.set()
                    return
                current = False
            except (TransportError, ValueError, KeyError, TypeError):
                current = False  # the socket died, or what came is no event: a list shows what was missed
            if not current:
                self._rest(time.monotonic() - opened)

    def _rest(self, lived: float) -> None:
        """Pause after a watch that lived only briefly, longer each time. One that was silent for long is opened again at once."""
        if lived > LONGEST_PAUSE:
            self._pause = FIRST_PAUSE
            return
        self._stop.wait(self._pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _follow(self) -> bool:
        """Take over events until the watch ends; False when what was known must be listed again."""
        heard = False
        for line in self._api.open_watch(self._kind, self._namespace, self._version, WATCH_SECONDS, SILENT_SECONDS):
            if self._stop.is_set():
                return True
            if not self._apply(json.loads(line)):
                return False
            heard, self._pause = True, FIRST_PAUSE
        return heard

    def _apply(self, event: Mapping[str, Any]) -> bool:
        """Take over one event; False when the stream reports an error."""
        kind, obj = event["type"], event["object"]
        if kind == "ERROR":
            return False
        self._version = obj["metadata"]["resourceVersion"]
        if kind == "BOOKMARK":
            return True
        with self._lock:
            if kind == "DELETED":
                self._objects.pop(obj["metadata"]["uid"], None)
            else:
                self._objects[obj["metadata"]["uid"]] = obj
        self._changed.set()
        return True

    def _relist(self) -> None:
        found = self._api.list_objects(self._kind, self._namespace)
        with self._lock:
            self._objects = {item["metadata"]["uid"]: item for item in found.items}
            self._version = found.resource_version
        self._changed.set()
