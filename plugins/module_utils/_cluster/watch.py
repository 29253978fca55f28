# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List and watch objects of one kind, surviving 410, errors in the stream, silent sockets and lost deletes."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from .api import PLAIN, Api, ApiError, Form, KindMissing, TransportError
from .retry import LONGEST_RETRY_AFTER

WATCH_SECONDS = 300.0
# A server sends a bookmark about every minute, and a dead connection says nothing either: rather than wait for a bookmark, a watch
# that was silent for this long is given up and the objects are listed. So nothing is missed for longer, and a quiet watch costs
# two requests per period.
SILENT_SECONDS = 30.0
# Who lists regularly anyway waits for the bookmarks: a server that says nothing for longer than they take is not there any more.
BOOKMARK_SECONDS = 75.0
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 15.0
# A server that is away is asked more often: that costs it nothing, and it should not be back for long before that is noticed.
AWAY_PAUSE = 5.0
# Answers that will not change by asking again soon: no right to ask, or no such kind.
LASTING = frozenset({401, 403, 404})
LASTING_PAUSE = 60.0
# So often, and after so many seconds each, is looked whether the watch has told what a list of metadata has shown.
ON_ITS_WAY, ON_ITS_WAY_SECONDS = 40, 0.05
# Regular lists of a program are made one after the other: none is urgent, and each takes memory, and time of the server.
_BESIDE = threading.Lock()
# The server has no time, or there is none: what was known last is as good as before.
_BUSY = frozenset({None, 429, 503})

Object: TypeAlias = "Mapping[str, Any]"
Key: TypeAlias = "tuple[str, str]"


@dataclass(frozen=True)
class Health:
    """How a watch is. `unknown`: the server does not know the kind; `restarts`: how often the watch broke; `errors`: its present trouble.

    `heard` and `listed` (when the server last said anything, and last told all objects) are times of the monotonic clock,
    0 for never; `relist_seconds` is how long the last list took.
    """

    kind: str
    namespace: str | None
    synced: bool
    unknown: bool
    restarts: int
    relists: int
    errors: str
    heard: float
    listed: float
    relist_seconds: float
    objects: int


class _Stopped(Exception):
    """The watch is to end."""


class Watch:
    """Keeps `objects` of one kind up to date in a thread, in one namespace or (None) in the cluster. `changed` is set after every change.

    Without `items` (and the `version` of their list) it lists first: page by page, each page cut with `keep` before the next one is
    asked for. `on_change(old, new)` is called, one call at a time, for each object that came (old is None), changed or went (new is None),
    also when only a list shows it; no object goes back to what it was.

    Who lists every `relist_every` seconds goes on watching meanwhile, so that nothing is heard later for that. Such lists need only say
    which objects there are, and in which versions; `relist_form` may be one that says no more.

    A watch whose time is up is opened again. One that breaks, or that is silent for `silent` seconds, is opened again where it
    ended by who lists every `relist_every` seconds anyway, and is followed by a list else; pauses grow while nothing is heard.
    `failed` holds an error whose status is in `lasting`, which ends the watch. Where other answers last, it is asked again, after
    a minute in the end, and meanwhile `synced` is false; a kind that the server does not know has no objects.
    """

    def __init__(
        self,
        api: Api,
        kind: str,
        namespace: str | None,
        changed: threading.Event,
        *,
        items: Iterable[Object] | None = None,
        version: str = "",
        field_selector: str = "",
        keep: Callable[[Object], Object] | None = None,
        silent: float | None = None,
        relist_every: float | None = None,
        relist_form: Form = PLAIN,
        on_change: Callable[[Object | None, Object | None], None] | None = None,
        lasting: Collection[int] = LASTING,
    ) -> None:
        self._api, self._lists = api.pausing(None), api.pausing(self._sleep)
        self._kind, self._namespace, self._changed = kind, namespace, changed
        self._selector, self._keep, self._on_change = field_selector, keep, on_change
        self._silent = silent or (BOOKMARK_SECONDS if relist_every else SILENT_SECONDS)
        self._every, self._form, self._lasting = relist_every, relist_form, lasting
        self._objects: dict[Key, Object] = {_key(item): item for item in items or ()}
        self._version, self._must_list = version, items is None
        self._due = self._next_list()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._telling = threading.Lock()
        self._touched: dict[Key, int] | None = None
        self._floor = 0
        self._pause = FIRST_PAUSE
        self._restarts = self._relists = 0
        self._heard = self._listed = self._relist_seconds = 0.0
        self._trouble = ""
        self._unknown = False
        self.synced = not self._must_list
        self.failed: ApiError | None = None
        self._thread = threading.Thread(target=self._run, name=f"watch {kind} {namespace or ''}", daemon=True)
        self._thread.start()

    def objects(self) -> tuple[Object, ...]:
        """The objects as of now."""
        with self._lock:
            return tuple(self._objects.values())

    @property
    def health(self) -> Health:
        """How the watch is."""
        with self._lock:
            return Health(
                kind=self._kind,
                namespace=self._namespace,
                synced=self.synced,
                unknown=self._unknown,
                restarts=self._restarts,
                relists=self._relists,
                errors=self._trouble,
                heard=self._heard,
                listed=self._listed,
                relist_seconds=self._relist_seconds,
                objects=len(self._objects),
            )

    def stop(self) -> None:
        """End the watch; its thread ends with the next word of the server."""
        self._stop.set()

    def _run(self) -> None:
        try:
            while not self._stop.is_set() and not self.failed:
                self._once()
        except _Stopped:
            pass

    def _once(self) -> None:
        """List where that is due, and watch until the watch ends."""
        began, least, most = time.monotonic(), 0.0, LONGEST_PAUSE
        try:
            if self._must_list:
                self._list()
            elif began >= self._due:
                self._list_beside()
            if self._follow():
                return
            self._note("the watch ended before its time")
        except _Stopped:
            raise
        except ApiError as error:
            least, most = self._refused(error)
        except Exception as error:  # the socket died, or what came is no event: what there was is told again
            self._note(f"the watch broke: {error}" if str(error) else "the watch broke", lists=not isinstance(error, TransportError))
        if not self.failed:
            self._rest(time.monotonic() - began, least, most)

    def _refused(self, error: ApiError) -> tuple[float, float]:
        """Take notice of a refused request; returns the seconds to wait at least and at most."""
        unknown = isinstance(error, KindMissing)
        self._note(error.message, lists=error.status not in _BUSY, broke=not unknown)
        if error.status not in LASTING:
            return min(error.retry_after or 0.0, LONGEST_RETRY_AFTER), LONGEST_PAUSE if error.status else AWAY_PAUSE
        if error.status in self._lasting:
            self.failed = error
            self._changed.set()
        elif unknown:
            self._version = ""
            with self._telling:
                self._replace({})
        with self._lock:
            self.synced = self._unknown = unknown
        return (LASTING_PAUSE if unknown else 0.0), LASTING_PAUSE

    def _note(self, trouble: str, *, lists: bool = False, broke: bool = True) -> None:
        """Something is wrong. `lists`: what is known is not good enough to go on from; `broke`: there was a watch that broke."""
        self._must_list = self._must_list or lists or self._every is None
        with self._lock:
            self._trouble = trouble
            self._restarts += broke

    def _hear(self) -> None:
        with self._lock:
            self._heard, self._trouble = time.monotonic(), ""

    def _rest(self, lived: float, least: float, most: float) -> None:
        """Pause after a watch that lived only briefly, longer each time. One that was silent for long is opened again at once."""
        if lived > LONGEST_PAUSE and not least:
            self._pause = FIRST_PAUSE
            return
        self._sleep(max(least, self._pause) * random.uniform(0.75, 1.25))
        self._pause = min(2 * self._pause, most)

    def _sleep(self, seconds: float) -> None:
        if self._stop.wait(seconds):
            raise _Stopped

    def _follow(self) -> bool:
        """Take over events until the watch ends; False when it ended before its time."""
        opened = time.monotonic()
        seconds = min(WATCH_SECONDS, max(1.0, self._due - opened))
        heard = False
        for line in self._open(seconds):
            if self._stop.is_set():
                raise _Stopped
            self._apply(json.loads(line))
            self._hear()
            heard, self._pause = True, FIRST_PAUSE
        return heard or time.monotonic() - opened >= seconds

    def _open(self, seconds: float) -> Iterable[bytes]:
        lines = self._api.open_watch(self._kind, self._namespace, self._version, seconds, self._silent, field_selector=self._selector)
        self._hear()
        return lines

    def _apply(self, event: Mapping[str, Any]) -> None:
        """Take over one event; ValueError when the stream reports an error."""
        kind, obj = event["type"], event["object"]
        if kind == "ERROR":
            raise ValueError(f"the server said {obj.get('code')} {obj.get('message')}")
        self._version = obj["metadata"]["resourceVersion"]
        if kind == "BOOKMARK":
            return
        key = _key(obj)
        new = None if kind == "DELETED" else self._cut(obj)
        number = _number(self._version)
        with self._telling:
            if 0 < number <= self._floor:
                return  # a list that was taken over knows this, and perhaps better
            if self._touched is not None:
                self._touched[key] = number
            with self._lock:
                old = self._objects.get(key)
                if new is not None:
                    self._objects[key] = new
                elif old is not None and (_uid(old) == _uid(obj) or _version_of(old) < number):
                    del self._objects[key]  # whoever had the name before the one that went now, went before it
                else:
                    return  # it went unseen, and another one may have its name
            self._tell(old, new)
        self._changed.set()

    def _list(self) -> None:
        """Take over what there is: nothing is heard meanwhile."""
        began = time.monotonic()
        found, self._version = self._read()
        with self._telling:
            self._touched, self._floor = None, 0
            self._replace(found)
        with self._lock:
            self.synced, self._unknown = True, False
        self._must_list, self._due = False, self._next_list()
        self._count(began)

    def _list_beside(self) -> None:
        """List while the watch goes on. What that tells may be older than the list, or newer: versions are numbers that grow."""
        self._due = self._next_list()
        touched: dict[Key, int] = {}
        with self._telling:
            if self._touched is not None:
                return  # the list before is not done
            self._touched = touched

        def work() -> None:
            try:
                with _BESIDE:
                    began = time.monotonic()
                    found, version = self._read_again(touched)
            except _Stopped:
                return
            except Exception as error:  # the watch itself says what is wrong, if it is; a list alone is missed by nobody for a while
                self._due = min(self._due, time.monotonic() + LASTING_PAUSE)
                self._note(str(error), broke=False)
                with self._telling:
                    self._touched = None if self._touched is touched else self._touched
                return
            with self._telling:
                if self._touched is not touched:
                    return  # a later list was taken over: this one is too old
                self._touched, self._floor = None, _number(version)
                newer = {key for key, number in touched.items() if number > self._floor}
                listed = {key: obj for key, obj in found.items() if key not in newer}
                self._replace(listed | {key: self._objects[key] for key in newer & self._objects.keys()})
            self._count(began)

        threading.Thread(target=work, name=f"list {self._kind} {self._namespace or ''}", daemon=True).start()

    def _count(self, began: float) -> None:
        """A list has been taken over."""
        with self._lock:
            self._relists += 1
            self._listed = time.monotonic()
            self._relist_seconds = self._listed - began
        self._changed.set()

    def _read(self) -> tuple[dict[Key, Object], str]:
        """All objects, those that are known already as they are known, and the version of the list."""
        found: dict[Key, Object] = {}
        version = ""
        for page in self._lists.pages(self._kind, self._namespace, field_selector=self._selector):
            self._hear()
            for item in page.items:
                key = _key(item)
                known = self._objects.get(key)
                found[key] = known if known is not None and _same(known, item) else self._cut(item)
            version = page.resource_version
            del page  # not two pages at once
        return found, version

    def _read_again(self, touched: Mapping[Key, int]) -> tuple[dict[Key, Object], str]:
        """The same as far as it is known already. What the list shows that is not known as it is may be on its way: only if it was not
        heard of in a while, all is read.
        """
        found: dict[Key, Object] = {}
        unlike: set[Key] = set()
        unheard: list[Object] = []
        version = ""
        for page in self._lists.pages(self._kind, self._namespace, field_selector=self._selector, form=self._form):
            self._hear()
            for item in page.items:
                known = self._objects.get(_key(item))
                if known is not None and _same(known, item):
                    found[_key(item)] = known
                else:
                    unlike.add(_key(item))
                    unheard.append(item)
            version = page.resource_version
        for dummy in range(ON_ITS_WAY):
            with self._telling:
                unheard = [item for item in unheard if touched.get(_key(item), 0) < _number(item["metadata"]["resourceVersion"])]
                if not unheard:
                    return {**found, **{key: self._objects[key] for key in unlike & self._objects.keys()}}, version
            self._sleep(ON_ITS_WAY_SECONDS)
        return self._read()

    def _replace(self, found: dict[Key, Object]) -> None:
        """Take over what there is, and tell in what it differs from what was known."""
        with self._lock:
            known, self._objects = self._objects, found
        for key, old in known.items():
            if key not in found:
                self._tell(old, None)
        for key, new in found.items():
            if known.get(key) is not new:
                self._tell(known.get(key), new)

    def _tell(self, old: Object | None, new: Object | None) -> None:
        if not self._on_change:
            return
        if old is not None and new is not None and _uid(old) != _uid(new):  # another one has its name
            self._on_change(old, None)
            old = None
        self._on_change(old, new)

    def _cut(self, obj: Object) -> Object:
        return self._keep(obj) if self._keep else obj

    def _next_list(self) -> float:
        """When to list again; not all watches of a program at once."""
        return time.monotonic() + self._every * random.uniform(0.9, 1.0) if self._every else float("inf")


def _key(obj: Object) -> Key:
    metadata = obj["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def _number(version: str) -> int:
    """A resourceVersion as the number that it is, 0 when it is none."""
    return int(version) if version.isdecimal() else 0


def _version_of(obj: Object) -> int:
    return _number(obj["metadata"]["resourceVersion"])


def _uid(obj: Object) -> Any:
    return obj["metadata"]["uid"]


def _same(one: Object, other: Object) -> bool:
    """Whether these are one object in one version."""
    return all(one["metadata"].get(name) == other["metadata"].get(name) for name in ("uid", "resourceVersion"))
