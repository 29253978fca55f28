# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the watcher tells over HTTP: its page, the same as JSON, metrics, and whether it is alive. It only ever reads."""

from __future__ import annotations

import gzip
import json
import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit
from zlib import crc32

from . import page
from .metrics import CONTENT_TYPE

LOG = logging.getLogger(__name__)
JSON, HTML = "application/json", "text/html; charset=utf-8"
# Seconds: a connection may be silent for so long, and go for so long without a request that arrives and is answered.
IDLE, SLOWEST = 15, 30
# Beyond so many connections the next one gets 503; beyond half of it they are not kept, so that probes always find a place.
MOST_CONNECTIONS = 32
# Answers from so many bytes on are compressed for those who take that.
LARGE = 1024

Report = Callable[[], dict[str, Any]]
Health = Callable[[], tuple[bool, dict[str, Any]]]


@dataclass(frozen=True)
class _Answer:
    status: int
    body: bytes
    content_type: str
    headers: Mapping[str, str] = field(default_factory=dict)
    # The same, compressed, where it is known already.
    packed: bytes | None = None


class _State:
    """The report as JSON. One revision is encoded once, whoever asks for it."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._lock = threading.Lock()
        # Revisions count from the start of the process: what another one has said is something else.
        self._process = secrets.token_hex(6)
        self._latest: _Answer | None = None

    def answer(self) -> _Answer:
        report = self._report()
        tag = f'"{self._process}-{report["program"]["revision"]}-{_beside(report)}"'
        with self._lock:
            if self._latest is None or self._latest.headers["ETag"] != tag:
                body = json.dumps(report, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
                self._latest = _Answer(HTTPStatus.OK, body, JSON, {"ETag": tag}, _packed(body))
            return self._latest


def _beside(report: Mapping[str, Any]) -> str:
    """What the revision does not count: the program itself and its watches, without what changes by itself."""
    program = {name: value for name, value in report["program"].items() if name != "at"}
    watches = [{name: value for name, value in watch.items() if not name.endswith("_seconds")} for watch in report["watches"]]
    return f"{crc32(json.dumps([program, watches]).encode()):08x}"


class _Server(ThreadingHTTPServer):
    """At most `MOST_CONNECTIONS` at a time, none of them for longer than it may take."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: str, port: int, answers: Mapping[str, Callable[[], _Answer]]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.answers = answers
        self._begun: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        super().__init__((address, port), _Handler)

    @property
    def busy(self) -> bool:
        """Whether connections should not be kept."""
        return len(self._begun) > MOST_CONNECTIONS // 2

    def answered(self, connection: socket.socket) -> None:
        """The time of the next request on this connection begins."""
        with self._lock:
            if connection in self._begun:
                self._begun[connection] = time.monotonic()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            full = len(self._begun) >= MOST_CONNECTIONS
            if not full:
                self._begun[request] = time.monotonic()
        if full:
            self._refuse(request)
        else:
            super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._begun.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Called several times a second: ends connections whose request takes too long, however slowly it trickles in."""
        late = time.monotonic() - SLOWEST
        self._cut(lambda begun: begun < late)

    def end_connections(self) -> None:
        """Nobody is waited for."""
        self._cut(lambda begun: True)

    def _cut(self, which: Callable[[float], bool]) -> None:
        with self._lock:
            chosen = [connection for connection, begun in self._begun.items() if which(begun)]
        for connection in chosen:
            with suppress(OSError):  # it has just ended by itself
                connection.shutdown(socket.SHUT_RDWR)

    def _refuse(self, connection: socket.socket) -> None:
        with suppress(OSError):  # gone already
            connection.settimeout(1)
            connection.sendall(b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n")
        self.shutdown_request(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        LOG.debug("connection of %s ended", client_address[0], exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "motor-watcher", ""
    timeout = IDLE
    wbufsize = -1  # head and body go out together
    server: _Server

    def handle_one_request(self) -> None:
        super().handle_one_request()
        self.server.answered(self.connection)

    def do_GET(self) -> None:
        answer = self._answer()
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # nobody reads a body, so the next request would begin in it
        known = answer.headers.get("ETag")
        if known and _matches(self.headers.get("If-None-Match", ""), known):
            answer = _Answer(HTTPStatus.NOT_MODIFIED, b"", "", answer.headers)
        self._send(answer)

    do_HEAD = do_GET  # noqa: N815 (the base class looks for this name)

    def _answer(self) -> _Answer:
        make = self.server.answers.get(urlsplit(self.path).path)
        if make is None:
            return _told(HTTPStatus.NOT_FOUND, {"error": "there is no such page", "pages": sorted(self.server.answers)})
        try:
            return make()
        except Exception:  # whatever is wrong with the state, the program goes on, and says so
            LOG.exception("cannot answer %s", urlsplit(self.path).path)
            return _told(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": "this could not be worked out; the log of the program says why"})

    def _send(self, answer: _Answer) -> None:
        body = answer.body
        self.send_response(answer.status)
        if len(body) >= LARGE and _takes_gzip(self.headers.get("Accept-Encoding", "")):
            body = answer.packed or _packed(body)
            self.send_header("Content-Encoding", "gzip")
        if answer.content_type:
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(body)))
        for name, value in {**_HEADERS, **answer.headers}.items():
            self.send_header(name, value)
        if self.close_connection or self.server.busy:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Errors of the base class (a broken request, another method) in the form of all others."""
        refused = code == HTTPStatus.NOT_IMPLEMENTED
        told = _told(HTTPStatus.METHOD_NOT_ALLOWED if refused else code, {"error": message or HTTPStatus(code).phrase})
        self.close_connection = True
        self.headers = self.headers if hasattr(self, "headers") else self.MessageClass()
        self._send(_Answer(told.status, told.body, told.content_type, {"Allow": "GET, HEAD"} if refused else {}))

    def log_message(self, format: str, *args: Any) -> None:
        LOG.debug("%s %s", self.address_string(), format % args)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Nothing: probes and scrapes would fill the log."""


_HEADERS = {
    "Cache-Control": "no-store",
    "Vary": "Accept-Encoding",
    "Content-Security-Policy": page.POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Running:
    """A server that answers in threads of its own."""

    def __init__(self, server: _Server) -> None:
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, args=(0.2,), name="http", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port it listens on, which matters when 0 was asked for."""
        return int(self._server.server_address[1])

    def stop(self) -> None:
        """Take no more connections and end those there are. Returns within a second."""
        self._server.shutdown()
        self._server.server_close()
        self._server.end_connections()
        self._thread.join(1)


def serve(address: str, port: int, *, report: Report, metrics: Callable[[], str], health: Health, language: str = "en") -> Running:
    """Answer on this address until stopped.

    `report` is what /state.json tells; its program.revision has to change with whatever is worth telling. `health` says whether the
    program is alive, and why; `ready` in what it says decides about /readyz. All three are called by several threads at once.
    Raises OSError when the address cannot be listened on, InputError for a language that the page is not in.
    """
    state = _State(report)
    shown = page.page(language=language).encode()
    answers: dict[str, Callable[[], _Answer]] = {
        "/": lambda: _Answer(HTTPStatus.OK, shown, HTML),
        "/state.json": state.answer,
        "/metrics": lambda: _Answer(HTTPStatus.OK, metrics().encode(errors="replace"), CONTENT_TYPE),
        "/healthz": lambda: _alive(health),
        "/readyz": lambda: _ready(health),
    }
    return Running(_Server(address, port, answers))


def _alive(health: Health) -> _Answer:
    alive, why = health()
    return _told(HTTPStatus.OK if alive else HTTPStatus.SERVICE_UNAVAILABLE, {"alive": alive, **why})


def _ready(health: Health) -> _Answer:
    alive, why = health()
    ready = alive and bool(why.get("ready"))
    return _told(HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE, {"alive": alive, **why, "ready": ready})


def _told(status: int, said: Mapping[str, Any]) -> _Answer:
    return _Answer(status, (json.dumps(said, ensure_ascii=False) + "\n").encode(errors="replace"), JSON)


def _packed(body: bytes) -> bytes:
    return gzip.compress(body, 5, mtime=0)


def _takes_gzip(accepted: str) -> bool:
    for part in accepted.lower().split(","):
        name, dummy, weight = part.replace(" ", "").partition(";q=")
        if name == "gzip":
            return weight.strip("0.") != "" or not weight
    return False


def _matches(asked: str, tag: str) -> bool:
    known = {part.strip().removeprefix("W/") for part in asked.split(",")}
    return tag in known or asked.strip() == "*"
