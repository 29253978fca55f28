# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sends requests to a service, so many at once, and looks at its instances meanwhile and until they are back in."""

from __future__ import annotations

import copy
import http.client
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any, Protocol
from urllib.parse import urlsplit

from .._motor.load_report import Courses, Seen, Tally, outcome_of
from .api import Api, ApiError
from .signals import Interrupted, Signals

POLL_SECONDS = 1.0
# What is under way when the run is told to stop may end within this time.
LAST_SECONDS = 5.0
# More of an answer is not read, so that results and memory stay small.
LARGEST_ANSWER = 1 << 20

# Instances of each engine role, as they are now.
Look = Callable[[], Mapping[str, Seen]]


class Send(Protocol):
    """Sends one request, with a JSON body if any; returns status and body of the answer."""

    def __call__(self, method: str, path: str, body: Any) -> tuple[int, bytes]: ...


class NoAnswer(Exception):
    """A request that was not answered; `outcome` is what to call that."""

    def __init__(self, outcome: str, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome


@dataclass(frozen=True)
class Limits:
    """How many requests, how many at once; for how long (seconds) to look, and how long nothing may happen after the last request."""

    requests: int
    concurrency: int
    watch: float
    grace: float


@dataclass(frozen=True)
class Done:
    """What was seen. `settled`: all engine roles that were scaled out are back in."""

    tally: Tally
    courses: Courses
    sending: float
    watched: float
    settled: bool
    interrupted: str = ""


class Direct:
    """Sends to an address of the service itself; a thread keeps its connection."""

    def __init__(self, base: str, headers: Mapping[str, str], context: SSLContext | None, timeout: float) -> None:
        self._url, self._headers, self._context, self._timeout = urlsplit(base), dict(headers), context, timeout
        self._kept = threading.local()

    def __call__(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        """Send one request. Raises NoAnswer."""
        connection = self._connection()
        try:
            sent = None if body is None else json.dumps(body).encode()
            connection.request(method, f"{self._url.path.rstrip('/')}{path}", body=sent, headers=self._headers)
            answer = connection.getresponse()
            return answer.status, _read(answer)
        except TimeoutError as error:
            connection.close()
            raise NoAnswer("timeout", f"no answer within {self._timeout:g} s") from error
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise NoAnswer("no answer", f"{type(error).__name__}: {error}") from error

    def _connection(self) -> http.client.HTTPConnection:
        found: http.client.HTTPConnection | None = getattr(self._kept, "connection", None)
        if found is None:
            host, port = self._url.hostname or "", self._url.port
            if self._url.scheme == "https":
                found = http.client.HTTPSConnection(host, port, timeout=self._timeout, context=self._context)
            else:
                found = http.client.HTTPConnection(host, port, timeout=self._timeout)
            self._kept.connection = found
        return found


def _read(answer: http.client.HTTPResponse) -> bytes:
    """The answer, as far as it is wanted. The rest is read and forgotten, so that the connection can be used again."""
    found = answer.read(LARGEST_ANSWER)
    while answer.read(LARGEST_ANSWER):
        pass
    return found


class ThroughProxy:
    """Sends through the API server to a Service (`SCHEME:NAME:PORT`)."""

    def __init__(self, api: Api, namespace: str, service: str, timeout: float) -> None:
        self._api, self._namespace, self._service, self._timeout = api, namespace, service, timeout

    def __call__(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        """Send one request. Raises NoAnswer, and ApiError when this user may not."""
        try:
            answer = self._api.pass_on(method, self._namespace, self._service, path, body, self._timeout)
        except ApiError as error:
            if error.status in (401, 403):
                raise
            raise NoAnswer("timeout" if "timed out" in error.message else "no answer", error.message) from error
        return answer.status, answer.body[:LARGEST_ANSWER]


class Senders:
    """Threads that send until all requests are sent, or they are told to stop."""

    def __init__(self, send: Send, path: str, body: Any, limits: Limits) -> None:
        self._send, self._path, self._body = send, path, body
        self._left, self._lock, self._stop = limits.requests, threading.Lock(), threading.Event()
        self._tally = Tally()
        self.failed: ApiError | None = None
        count = min(limits.concurrency, limits.requests)
        self._threads = [threading.Thread(target=self._work, name=f"load-{index}", daemon=True) for index in range(count)]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    @property
    def done(self) -> bool:
        """Whether all of them have ended."""
        return not any(thread.is_alive() for thread in self._threads)

    def stop(self, seconds: float) -> None:
        """Send nothing more, and give what is under way so much time."""
        self._stop.set()
        until = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def tally(self) -> Tally:
        """What has become of the requests until now."""
        with self._lock:
            return copy.deepcopy(self._tally)

    def _work(self) -> None:
        while self._take():
            started = time.monotonic()
            try:
                outcome, message = outcome_of(*self._send("POST", self._path, self._body))
            except NoAnswer as error:
                outcome, message = error.outcome, str(error)
            except ApiError as error:
                self.failed = error
                self._stop.set()
                return
            with self._lock:
                self._tally.add(outcome, time.monotonic() - started, message)

    def _take(self) -> bool:
        with self._lock:
            if self._stop.is_set() or self._left <= 0:
                return False
            self._left -= 1
            return True


def run(senders: Senders, look: Look, limits: Limits, signals: Signals) -> Done:
    """Send, look each second, and return when all is as it was before, when nothing has happened for a while, or when time is up.

    A signal ends it in order: nothing more is sent, and what was seen is returned. Raises ApiError when the counts cannot be read, or
    when this user may not send.
    """
    courses = Courses({}).saw(0.0, look())
    started, ended = time.monotonic(), None
    interrupted = ""
    senders.start()
    try:
        while True:
            signals.sleep(POLL_SECONDS)
            at = time.monotonic() - started
            if senders.failed is not None:
                raise senders.failed
            courses = courses.saw(at, look())
            if ended is None and senders.done:
                ended = at
            if at >= limits.watch or (ended is not None and _over(courses, at - ended, limits)):
                break
    except Interrupted as error:
        interrupted = str(error.details.get("signal") or error.message)
    finally:
        senders.stop(LAST_SECONDS if ended is None else 0.0)
    watched = time.monotonic() - started
    settled = not courses.out and not interrupted
    return Done(senders.tally(), courses, watched if ended is None else ended, watched, settled, interrupted)


def _over(courses: Courses, idle: float, limits: Limits) -> bool:
    """Whether nothing more is to be expected, so many seconds after the last request."""
    return not courses.out and (courses.grew or idle >= limits.grace)
