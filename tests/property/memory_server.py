# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server in memory for the program's own watches: its lists say what is so, its streams say what they are told to say, when they are."""

from __future__ import annotations

import json
import queue
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._cluster import metadata_list
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.api import Response
from ansible_collections.ascend.mindie.plugins.module_utils._motor.kinds import KINDS

Obj = dict[str, Any]
Event = tuple[str, Obj]
# Smaller than what is asked for, so that lists have several pages.
PAGE = 3
PATIENCE = 10.0


class Stream:
    """The events of one watch. `opened` is released each time the watch is opened, which is after each list."""

    def __init__(self) -> None:
        self._lines: queue.Queue[bytes] = queue.Queue()
        self.opened = threading.Semaphore(0)

    def open(self) -> Iterator[bytes]:
        self.opened.release()
        while line := self._lines.get():
            yield line
            self._lines.task_done()
        self._lines.task_done()

    def say(self, event: Event) -> None:
        """Returns when the watch has taken it over."""
        self.mumble(event)
        self._lines.join()

    def mumble(self, event: Event) -> None:
        """Say something that ends the watch."""
        self._lines.put(json.dumps({"type": event[0], "object": event[1]}).encode())

    def break_off(self) -> None:
        """The server has forgotten what comes next: the watch lists, and watches again."""
        self.mumble(("ERROR", {"code": 410, "message": "too old resource version"}))
        self._lines.task_done()  # nobody asks for what follows in this one
        self.wait()

    def end(self) -> None:
        """The time of the watch is up: it is opened again."""
        self._lines.put(b"")
        self.wait()

    def wait(self) -> None:
        """Until the watch is open."""
        if not self.opened.acquire(timeout=PATIENCE):
            raise TimeoutError("the watch was not opened again")


class MemoryServer:
    """Objects by kind, namespace and name. Each change has a version; the event that tells of it is returned, and said to nobody.

    While `answers` is not set, lists are made and kept back.
    """

    def __init__(self) -> None:
        self.objects: dict[str, dict[tuple[str, str], Obj]] = defaultdict(dict)
        self._version = 0
        self._streams: dict[str, Stream] = {}
        self._made: dict[tuple[str, str, str], int] = defaultdict(int)
        self._lists: dict[str, tuple[str, list[Obj]]] = {}
        self._lock = threading.Lock()
        self.listing = threading.Semaphore(0)
        self.answers = threading.Event()
        self.answers.set()

    def put(self, kind: str, obj: Obj) -> Event:
        """Create or change an object."""
        key = _key(obj)
        self._version += 1
        there = key in self.objects[kind]
        if not there:
            self._made[kind, *key] += 1
        metadata = {**obj["metadata"], "uid": self.uid(kind, *key), "resourceVersion": str(self._version)}
        stored = {**obj, "kind": kind, "apiVersion": KINDS[kind].api_version, "metadata": metadata}
        self.objects[kind][key] = stored
        return ("MODIFIED" if there else "ADDED"), stored

    def take(self, kind: str, key: tuple[str, str]) -> Event | None:
        """Delete an object, if it is there."""
        found = self.objects[kind].pop(key, None)
        if found is None:
            return None
        self._version += 1
        return "DELETED", {**found, "metadata": {**found["metadata"], "resourceVersion": str(self._version)}}

    def uid(self, kind: str, namespace: str, name: str) -> str:
        """The uid that an object has, or had last."""
        return f"{kind}/{namespace}/{name}/{self._made[kind, namespace, name]}"

    def stream(self, kind: str, scope: str | None) -> Stream:
        """The watch of a kind, in one namespace or in all."""
        with self._lock:
            return self._streams.setdefault(KINDS[kind].path(scope), Stream())

    def streams(self) -> list[Stream]:
        """Those of all watches that there are or were."""
        with self._lock:
            return list(self._streams.values())

    def __call__(
        self,
        method: str,
        path: str,
        query: list[tuple[str, str]],
        body: Any,
        content_type: str,
        timeout: tuple[float, float],
        stream: bool = False,
        fence: Callable[[], None] | None = None,
        accept: str = "application/json",
    ) -> Response:
        asked = dict(query)
        kind, scope, name = _parts(path)
        if method != "GET" or not kind:
            raise ValueError(f"a watch does not send {method} {path}")
        if stream:
            return Response(200, b"", self.stream(kind, scope).open())
        if name:
            one = self.objects[kind].get((scope or "", name))
            return Response(200, json.dumps(one).encode()) if one else Response(404, json.dumps({"details": {"name": name}}).encode())
        token, dummy, begin = asked.get("continue", "").partition("/")
        if not token:
            token = f"{kind} {scope} {self._version} {threading.get_ident()}"
            listed = [obj for (namespace, name), obj in sorted(self.objects[kind].items()) if scope in (None, namespace)]
            self._lists[token] = str(self._version), listed
            self.listing.release()
        self.answers.wait(PATIENCE)
        (version, found), at = self._lists[token], int(begin or 0)
        more = {"continue": f"{token}/{at + PAGE}"} if at + PAGE < len(found) else {}
        metadata = {"resourceVersion": version, **more}
        items = found[at : at + PAGE]
        if accept == metadata_list.FORM.accept:
            items = [{"metadata": item["metadata"]} for item in items]
        return Response(200, json.dumps({"metadata": metadata, "items": items}).encode())


_PATHS = {kind.plural: name for name, kind in KINDS.items()}


def _key(obj: Obj) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _parts(path: str) -> tuple[str, str | None, str]:
    """Kind, namespace and name of the object or the objects at a path."""
    rest = path.partition("/namespaces/")[2]
    namespace, found, plural = rest.partition("/")
    parts = (plural if found else path).rstrip("/").split("/")
    if parts[-1] in _PATHS:
        return _PATHS[parts[-1]], namespace if found else None, ""
    return _PATHS.get(parts[-2], ""), namespace if found else None, parts[-1]
