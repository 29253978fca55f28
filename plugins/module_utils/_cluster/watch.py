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

# A watch that says nothing for as long as the client's read timeout is taken for dead; the server sends bookmarks every minute.
WATCH_SECONDS = 300.0
RETRY_SECONDS = 1.0


class Watch:
    """Keeps `objects` of one kind up to date in a thread. `changed` is set after every change; `failed` holds a lasting error."""

    def __init__(
        self, api: Api, kind: str, namespace: str, items: Iterable[Mapping[str, Any]], version: str, changed: threading.Event
    ) -> None:
        self._api, self._kind, self._namespace = api, kind, namespace
        self._objects = {item["metadata"]["uid"]: item for item in items}
        self._version = version
        self._changed = changed
        self._stop = threading.Event()
        self._lock = threading.Lock()
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
        while not self._stop.is_set():
            try:
                self._follow()
            except ApiError as error:
                if error.status in (401, 403, 404):
                    self.failed = error
                    self._changed.set()
                    return
                self._stop.wait(RETRY_SECONDS)
                self._relist()
            except (TransportError, ValueError):  # the socket died, or the stream broke off within a line: a list shows what was missed
                self._stop.wait(RETRY_SECONDS)
                self._relist()

    def _follow(self) -> None:
        started = time.monotonic()
        lines = self._api.open_watch(self._kind, self._namespace, self._version, "", WATCH_SECONDS)
        for line in lines:
            if self._stop.is_set():
                return
            if not self._apply(json.loads(line)):
                self._relist()
                return
        if time.monotonic() - started < RETRY_SECONDS:
            self._stop.wait(RETRY_SECONDS)

    def _apply(self, event: Mapping[str, Any]) -> bool:
        """Take over one event; False when the stream reports an error and the objects must be listed again."""
        kind, obj = event["type"], event["object"]
        if kind == "ERROR":
            return False
        self._version = obj["metadata"].get("resourceVersion", self._version)
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
        if self._stop.is_set():
            return
        try:
            found = self._api.list_objects(self._kind, self._namespace)
        except ApiError:
            return
        with self._lock:
            self._objects = {item["metadata"]["uid"]: item for item in found.items}
            self._version = found.resource_version
        self._changed.set()
