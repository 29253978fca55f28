# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP server of programs, over TLS where that is wanted. It only ever reads, and nobody can hold it up: connections, sizes and times are limited."""

from __future__ import annotations

import gzip
import io
import json
import logging
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import Message
from http import HTTPStatus
from http.client import LineTooLong
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ssl import SSLContext, SSLError, SSLSocket
from typing import Any, TypeAlias
from urllib.parse import urlsplit

LOG = logging.getLogger(__name__)
JSON = "application/json"
# Answers from so many bytes on are compressed for those who take that.
LARGE = 1024
# Seconds that the handshake of a connection may be silent for.
HANDSHAKE = 5
# Bytes of all headers of a request: who is not let in could fill the memory with them.
LARGEST_HEAD = 64 << 10


@dataclass(frozen=True)
class Limits:
    """`connections`: so many at a time; beyond half of them none is kept. Seconds: `idle`, a connection may be silent for so long;
    `first`, from its start to its first answer; `kept`, from one answer to the next.
    """

    connections: int
    idle: float
    first: float
    kept: float


@dataclass(frozen=True)
class Asked:
    """A request. `connection` tells by which certificate it comes, where there is one."""

    target: str
    headers: Message
    connection: socket.socket

    @property
    def path(self) -> str:
        """The target without a query; nothing of one that cannot be read."""
        try:
            return urlsplit(self.target).path
        except ValueError:
            return ""


@dataclass(frozen=True)
class Answer:
    """What is answered. `packed` is the body compressed, where it is known already; `close`: the connection is not kept."""

    status: int
    body: bytes
    content_type: str
    headers: Mapping[str, str] = field(default_factory=dict)
    packed: bytes | None = None
    close: bool = False


Respond: TypeAlias = "Callable[[Asked], Answer]"
Errors: TypeAlias = "Callable[[int, Mapping[str, Any]], Answer]"


def told(status: int, said: Mapping[str, Any]) -> Answer:
    """An answer in JSON."""
    return Answer(status, (json.dumps(said, ensure_ascii=False) + "\n").encode(errors="replace"), JSON)


def packed(body: bytes) -> bytes:
    """The body compressed, the same for the same body."""
    return gzip.compress(body, 5, mtime=0)


def pages(answers: Mapping[str, Callable[[], Answer]]) -> Respond:
    """Answers by path; anything else is not there."""

    def respond(asked: Asked) -> Answer:
        make = answers.get(asked.path)
        if make is None:
            return told(HTTPStatus.NOT_FOUND, {"error": "there is no such page", "pages": sorted(answers)})
        return make()

    return respond


@dataclass(frozen=True)
class Site:
    """What is served. `name` is who the header Server says it is; `headers` go with each answer; `limits` are asked for each time.

    `secured` gives the TLS settings for the next connection; None: plain HTTP. `error` forms what this server itself has to say.
    `refused` is told of connections that failed before they asked anything.
    """

    name: str
    respond: Respond
    limits: Callable[[], Limits]
    headers: Mapping[str, str] = field(default_factory=dict)
    secured: Callable[[], SSLContext] | None = None
    error: Errors = told
    refused: Callable[[Exception], None] = lambda error: None


@dataclass
class _Connection:
    deadline: float
    # A stranger has got no answer yet but for refusals.
    stranger: bool = True


class Server(ThreadingHTTPServer):
    """At most so many connections at a time, none of them for longer than it may take."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, address: str, port: int, site: Site) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.site = site
        self.leaving = False
        self._open: dict[socket.socket, _Connection] = {}
        self._lock = threading.Lock()
        super().__init__((address, port), _Handler)

    @property
    def busy(self) -> bool:
        """Whether connections should not be kept."""
        return self.leaving or len(self._open) > self.site.limits().connections // 2

    def get_request(self) -> tuple[Any, Any]:
        """The next connection; the handshake is made by its own thread, so that it keeps nobody waiting."""
        connection, address = super().get_request()
        if self.site.secured is not None:
            try:
                connection = self.site.secured().wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
            except OSError:  # it is gone already, or there is no certificate yet
                connection.close()
                raise
        return connection, address

    def answered(self, connection: socket.socket, *, known: bool) -> None:
        """The time of the next request on this connection begins."""
        with self._lock:
            found = self._open.get(connection)
            if found:
                found.deadline = time.monotonic() + self.site.limits().kept
                found.stranger = found.stranger and not known

    def process_request(self, request: Any, client_address: Any) -> None:
        """Take a connection, or refuse it. The oldest stranger makes room: who is not let in, or asks nothing, keeps nobody out.

        In plain HTTP, where all are alike, anybody does at last: a probe has to get through whoever else is there.
        """
        limits = self.site.limits()
        with self._lock:
            full = len(self._open) >= limits.connections
            strangers = [connection for connection, found in self._open.items() if found.stranger] if full else []
            others = list(self._open) if full and not self.site.secured else []
            makes_room = next(iter((*strangers, *others)), None)
            if makes_room:
                del self._open[makes_room]
            taken = not full or makes_room is not None
            if taken:
                self._open[request] = _Connection(time.monotonic() + limits.first)
        if makes_room:
            _cut(makes_room)
        if taken:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """A connection has ended."""
        with self._lock:
            self._open.pop(request, None)
        if isinstance(request, SSLSocket):  # TCP alone: nobody waits for what the other side says of an end
            self.close_request(request)
        else:
            super().shutdown_request(request)

    def service_actions(self) -> None:
        """Called several times a second: ends connections whose request takes too long, however slowly it trickles in."""
        now = time.monotonic()
        self._end(lambda found: found.deadline < now)

    def end_connections(self) -> None:
        """Nobody is waited for."""
        self._end(lambda found: True)

    def _end(self, which: Callable[[_Connection], bool]) -> None:
        with self._lock:
            chosen = [connection for connection, found in self._open.items() if which(found)]
        for connection in chosen:
            _cut(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection broke."""
        LOG.debug("connection of %s ended", client_address[0], exc_info=True)


def _cut(connection: socket.socket) -> None:
    """End it under whoever reads from it. That of TLS would go on in plain text for a moment, so it is done below it."""
    with suppress(OSError):  # it has just ended by itself
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


class _Lines(io.BufferedReader):
    """Reads lines, no more than `left` bytes of them."""

    left = sys.maxsize

    def readline(self, size: int | None = -1) -> bytes:
        """The next line, as much as `size` of it. Raises LineTooLong, which the base class of the handler answers."""
        line = super().readline(size)
        self.left -= len(line)
        if self.left < 0:
            raise LineTooLong("head of the request")
        return line


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    sys_version = ""
    wbufsize = -1  # head and body go out together
    server: Server

    def setup(self) -> None:
        super().setup()
        self.rfile = self._lines = _Lines(self.rfile.detach())
        self._idle = self.server.site.limits().idle
        self.connection.settimeout(self._idle)

    def handle(self) -> None:
        if isinstance(self.connection, SSLSocket) and not self._shake_hands(self.connection):
            return
        super().handle()

    def _shake_hands(self, connection: SSLSocket) -> bool:
        connection.settimeout(HANDSHAKE)
        try:
            connection.do_handshake()
        except (SSLError, OSError) as error:
            self.server.site.refused(error)
            return False
        connection.settimeout(self._idle)
        return True

    def parse_request(self) -> bool:
        """Each line may be long; all of them together may not."""
        self._lines.left = LARGEST_HEAD
        try:
            return super().parse_request()
        finally:
            self._lines.left = sys.maxsize

    def version_string(self) -> str:
        return self.server.site.name

    def do_GET(self) -> None:
        answer = self._answer()
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # nobody reads a body, so the next request would begin in it
        known = answer.headers.get("ETag")
        if known and _matches(self.headers.get("If-None-Match", ""), known):
            answer = Answer(HTTPStatus.NOT_MODIFIED, b"", "", answer.headers)
        self._send(answer)

    do_HEAD = do_GET  # noqa: N815 (the base class looks for this name)

    def _answer(self) -> Answer:
        asked = Asked(self.path, self.headers, self.connection)
        try:
            return self.server.site.respond(asked)
        except Exception:  # whatever is wrong with the state, the program goes on, and says so
            LOG.exception("cannot answer %s", asked.path)
            said = {"error": "this could not be worked out; the log of the program says why"}
            return self.server.site.error(HTTPStatus.INTERNAL_SERVER_ERROR, said)

    def _send(self, answer: Answer) -> None:
        body = answer.body
        self.send_response(answer.status)
        if len(body) >= LARGE and _takes_gzip(self.headers.get("Accept-Encoding", "")):
            body = answer.packed or packed(body)
            self.send_header("Content-Encoding", "gzip")
        if answer.content_type:
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(body)))
        for name, value in {**self.server.site.headers, **answer.headers}.items():
            self.send_header(name, value)
        if answer.close or self.close_connection or self.server.busy:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.server.answered(self.connection, known=not answer.close)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Errors of the base class (a broken request, another method) in the form of all others."""
        refused = code == HTTPStatus.NOT_IMPLEMENTED
        status = HTTPStatus.METHOD_NOT_ALLOWED if refused else code
        said = self.server.site.error(status, {"error": message or HTTPStatus(code).phrase})
        self.headers = self.headers if hasattr(self, "headers") else self.MessageClass()
        self._send(Answer(said.status, said.body, said.content_type, {"Allow": "GET, HEAD"} if refused else {}, close=True))

    def log_message(self, format: str, *args: Any) -> None:
        LOG.debug("%s %s", self.address_string(), format % args)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Nothing: probes and scrapes would fill the log."""


class Running:
    """A server that answers in threads of its own."""

    def __init__(self, address: str, port: int, site: Site) -> None:
        self._server = Server(address, port, site)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.2,), name="http", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port it listens on, which matters when 0 was asked for."""
        return int(self._server.server_address[1])

    def leave(self) -> None:
        """Go on, but keep no connection beyond the next answer, so that who asks goes elsewhere by and by."""
        self._server.leaving = True

    def end_connections(self) -> None:
        """End what is open and go on."""
        self._server.end_connections()

    def stop(self) -> None:
        """Take no more connections and end those there are. Returns within a second."""
        self._server.shutdown()
        self._server.server_close()
        self._server.end_connections()
        self._thread.join(1)


def _takes_gzip(accepted: str) -> bool:
    for part in accepted.lower().split(","):
        name, dummy, weight = part.replace(" ", "").partition(";q=")
        if name == "gzip":
            return weight.strip("0.") != "" or not weight
    return False


def _matches(asked: str, tag: str) -> bool:
    known = {part.strip().removeprefix("W/") for part in asked.split(",")}
    return tag in known or asked.strip() == "*"
