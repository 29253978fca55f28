# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How requests are sent, over real sockets: dead connections, abandoned streams, tokens that change, and nothing sent twice."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import urllib3

from ansible_collections.ascend.mindie.plugins.module_utils._cluster import client
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.api import Response, TransportError
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.client import Token
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.transport import Sender

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
STREAM = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{"a": 1}\n\r\n'
SHORT = 0.7


class Server:
    """Answers each request of each connection with `answer`; what is in `dead` says nothing any more."""

    def __init__(self) -> None:
        self.answer = ANSWER
        self.requests: list[bytes] = []
        self.connections: list[socket.socket] = []
        self.dead: set[socket.socket] = set()
        self.ended = threading.Semaphore(0)
        self.together: threading.Barrier | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        for connection in self.connections:
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _address = self._listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            while request := _whole(connection):
                self.requests.append(request)
                if self.together:
                    self.together.wait(10)
                if connection in self.dead:
                    continue
                if not self.answer:
                    break
                connection.sendall(self.answer)
        except OSError:
            pass
        connection.close()
        self.ended.release()


def _whole(connection: socket.socket) -> bytes:
    """The next request with its body; empty when there is none."""
    found = b""
    while part := connection.recv(1 << 16):
        found += part
        head, end, body = found.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        if end and len(body) >= int(length[1] if length else 0):
            break
    return found


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.close()


def sender(server: Server, **headers: str) -> Sender:
    return Sender(urllib3.PoolManager(maxsize=4), server.url, lambda: headers)


def get(send: Sender, *, stream: bool = False, seconds: float = 5.0) -> Response:
    return send("GET", "/api", [], None, "application/json", (seconds, seconds), stream)


def two_at_once(send: Sender, server: Server) -> list[Any]:
    """What two requests come to that are sent at the same time, hence over two connections."""

    def ask() -> Response | TransportError:
        try:
            return get(send, seconds=SHORT)
        except TransportError as error:
            return error

    server.together = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        found = [future.result(10) for future in [pool.submit(ask) for dummy in range(2)]]
    server.together = None
    return found


def two_idle_connections(send: Sender, server: Server) -> None:
    assert [answer.status for answer in two_at_once(send, server)] == [200, 200] and len(server.connections) == 2


def test_when_one_connection_is_dead_the_other_idle_ones_are_not_tried(server: Server) -> None:
    send = sender(server)
    two_idle_connections(send, server)
    server.dead = set(server.connections)
    with pytest.raises(TransportError):
        get(send, seconds=SHORT)
    assert [answer.status for answer in two_at_once(send, server)] == [200, 200] and len(server.connections) == 4


def test_when_a_stream_falls_silent_idle_connections_are_not_trusted_either(server: Server) -> None:
    send = sender(server)
    two_idle_connections(send, server)
    server.answer = STREAM
    stream = get(send, stream=True, seconds=SHORT).stream
    assert stream and next(stream) == b'{"a": 1}'
    server.dead = set(server.connections)
    with pytest.raises(TransportError):
        next(stream)
    server.answer = ANSWER
    assert [answer.status for answer in two_at_once(send, server)] == [200, 200] and len(server.connections) == 4


def test_an_abandoned_stream_closes_its_connection(server: Server) -> None:
    server.answer = STREAM
    stream = get(sender(server), stream=True).stream
    assert stream and next(stream) == b'{"a": 1}'
    stream.close()
    assert server.ended.acquire(timeout=5)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
def test_a_request_without_an_answer_is_sent_once(server: Server, method: str) -> None:
    server.answer = b""
    with pytest.raises(TransportError):
        sender(server)(method, "/api", [], {"a": 1}, "application/json", (5.0, 5.0))
    assert len(server.requests) == 1


def test_what_is_sent(server: Server) -> None:
    server.answer = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbusy"
    send = sender(server, Authorization="Bearer x")
    answer = send("PATCH", "/apis/a", [("fieldManager", "a b"), ("limit", "5")], [{"op": "é"}], "application/json-patch+json", (5.0, 5.0))
    assert (answer.status, answer.body, answer.retry_after, answer.stream) == (429, b"busy", 7.0, None)
    head, body = server.requests[0].split(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    assert lines[0] == "patch /apis/a?fieldmanager=a+b&limit=5 http/1.1"
    assert {"accept: application/json", "content-type: application/json-patch+json", "authorization: bearer x"} <= set(lines)
    assert json.loads(body) == [{"op": "é"}]


def test_a_watch_that_is_refused_has_no_stream(server: Server) -> None:
    server.answer = b"HTTP/1.1 410 Gone\r\nContent-Length: 4\r\n\r\ngone"
    answer = get(sender(server), stream=True)
    assert (answer.status, answer.body, answer.stream) == (410, b"gone", None)


def test_a_token_is_read_again_when_it_is_old_and_kept_when_it_cannot_be_read(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "time", lambda: 0.0)
    file = tmp_path / "token"
    file.write_text("one\n")
    token = Token(file)
    file.write_text("two\n")
    assert token.header() == {"Authorization": "Bearer one"}
    now[0] += client.TOKEN_SECONDS + 1
    assert token.header() == {"Authorization": "Bearer two"}
    file.unlink()
    now[0] += client.TOKEN_SECONDS + 1
    assert token.header() == {"Authorization": "Bearer two"}
    file.write_text("")
    assert token.header() == {"Authorization": "Bearer two"}
    file.write_text("three\n")
    now[0] += client.TOKEN_SECONDS + 1
    assert token.header() == {"Authorization": "Bearer three"}
