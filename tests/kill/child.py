# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module's main() in a forked child that notes each request, and gets a signal at one of them.

The parent has imported everything, has one thread and holds no connection, so a child starts in milliseconds. The signal is sent from
the child's own HTTP client: before it hands a request to the socket, or when it has read the server's answer.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import parse_qs, urlsplit

from urllib3.connectionpool import HTTPConnectionPool

from tests.cluster.http_stream import Request
from tests.support.modules import run_module

Task = tuple[str, dict[str, Any]]
"""A module and its options."""
BEFORE, AFTER = "before", "after"
LEASE = "leases/ascend-mindie"
# The names of a revision of the history and of an Event carry a number.
NUMBERED = re.compile(r"^(motor-(?=\d)|motor-config\.).*$")
# No run of these small services takes longer, waiting for a dead lock included.
LONGEST_SECONDS = 120.0


@dataclass(frozen=True)
class Moment:
    """One request of a run: what it is, the how many-th of its kind, and whether it changes something."""

    what: str
    number: int
    mutating: bool

    @property
    def of_lease(self) -> bool:
        """Whether it is about the lock."""
        return f" {LEASE}" in self.what

    @property
    def timed(self) -> bool:
        """Whether it depends on the clock how often it comes: renewals of the lock, watches, Events about a wait of some seconds."""
        return "(renew)" in self.what or self.what.startswith(("WATCH", "POST events/", "PATCH events/", "PUT events/"))


@dataclass(frozen=True)
class Trap:
    """Where the child gets a signal."""

    moment: Moment
    when: str = BEFORE
    signal: signal.Signals = signal.SIGKILL

    def __str__(self) -> str:
        again = f" no. {self.moment.number}" if self.moment.number > 1 else ""
        return f"{self.signal.name} {self.when} {self.moment.what}{again}"


@dataclass(frozen=True)
class Ran:
    """How a child ended: the module's result (None when it had no time to say one), its requests, and whether the trap was sprung."""

    result: dict[str, Any] | None
    moments: tuple[Moment, ...]
    sprung: bool
    ended_by: int

    def mutating(self) -> list[str]:
        """The requests that changed something."""
        return [moment.what for moment in self.moments if moment.mutating]


def run(module: str, options: Mapping[str, Any], *, namespace: str, folder: str, trap: Trap | None = None) -> Ran:
    """Run a module in a child and wait for its end. `folder` is for temporary files, such as the client library's cache."""
    log = os.memfd_create("log")

    def work() -> dict[str, Any]:
        tempfile.tempdir = folder
        _Noting(namespace, log, trap).install()
        return run_module(module, **options)

    try:
        result, ended_by = forked(work)
        # Of the last line there may be a part only, when it was being written as the signal came.
        lines = [json.loads(line) for line in _text(log).splitlines(keepends=True) if line.endswith("\n")]
    finally:
        os.close(log)
    moments = tuple(Moment(*line) for line in lines if line)
    return Ran(result, moments, len(moments) < len(lines), ended_by)


def forked(work: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any] | None, int]:
    """Do some work in a child: what it returned (None when it did not come that far), and the signal that ended it, or 0."""
    output = os.memfd_create("output")
    try:
        child = os.fork()
        if not child:
            _be_child(work, output)
        _wait(child)
        status = os.waitpid(child, 0)[1]
        text = _text(output)
    finally:
        os.close(output)
    return json.loads(text) if text else None, os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def _wait(child: int) -> None:
    """Until the child has ended; one that hangs is killed, and so has no result."""
    handle = os.pidfd_open(child)
    try:
        if not select.select([handle], [], [], LONGEST_SECONDS)[0]:
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(handle)


def _text(file: int) -> str:
    size = os.fstat(file).st_size
    return os.pread(file, size, 0).decode()


def _be_child(work: Callable[[], dict[str, Any]], output: int) -> NoReturn:
    """What the child does; it ends without the parent's exit handlers."""
    try:
        os.write(output, json.dumps(work()).encode())
    except KeyboardInterrupt:
        pass  # a module does not heed SIGINT before it has connected
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(0)


class _Noting:
    """Stands around the HTTP client's one way to send a request."""

    def __init__(self, namespace: str, log: int, trap: Trap | None) -> None:
        self._namespace, self._log, self._trap = namespace, log, trap
        self._lock = threading.Lock()
        self._seen: Counter[str] = Counter()

    def install(self) -> None:
        send: Callable[..., Any] = HTTPConnectionPool.urlopen

        def noted(pool: HTTPConnectionPool, method: str, url: str, body: Any = None, *arguments: Any, **options: Any) -> Any:
            moment = self._note(method, url, body)
            self._spring(moment, BEFORE)
            answer = send(pool, method, url, body, *arguments, **options)
            self._spring(moment, AFTER)
            return answer

        HTTPConnectionPool.urlopen = noted

    def _note(self, method: str, url: str, body: Any) -> Moment:
        what, mutating = describe(method, url, body, self._namespace)
        with self._lock:
            self._seen[what] += 1
            moment = Moment(what, self._seen[what], mutating)
            os.write(self._log, json.dumps([moment.what, moment.number, mutating]).encode() + b"\n")
        return moment

    def _spring(self, moment: Moment, when: str) -> None:
        trap = self._trap
        if trap and trap.moment == moment and trap.when == when:
            os.write(self._log, b"null\n")
            os.kill(os.getpid(), trap.signal)


def describe(method: str, url: str, body: Any, namespace: str) -> tuple[str, bool]:
    """A request in words that are the same in every namespace, and whether it changes something."""
    parts = urlsplit(url)
    text = body.decode() if isinstance(body, bytes) else str(body or "")
    request = Request(method, parts.path, parse_qs(parts.query, keep_blank_values=True), body=text.encode())
    name = request.name
    if method == "POST":
        name = ((json.loads(text) if text else {}).get("metadata") or {}).get("name", "")
    name = NUMBERED.sub(r"\1#", name.replace(namespace, "~"))
    place = "/".join(part for part in (request.kind_of_resource or request.path, name) if part)
    if place == LEASE and request.mutating:
        place = f"{place} ({_lease_write(method, text)})"
    return f"{'WATCH' if request.watch else method} {place}", request.mutating


def _lease_write(method: str, text: str) -> str:
    """What a write of the Lease does."""
    if method == "DELETE":
        return "remove"
    spec = json.loads(text).get("spec") or {}
    if not spec.get("holderIdentity"):
        return "release"
    return "acquire" if spec.get("acquireTime") == spec.get("renewTime") else "renew"
