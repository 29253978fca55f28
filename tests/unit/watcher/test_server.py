# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the watcher answers over HTTP, over real sockets."""

from __future__ import annotations

import gzip
import http.client
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from rescheduling_watcher import page, server

from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError
from tests.support import watcher_report

Headers = dict[str, str]


@dataclass
class Watcher:
    """What the server asks, to be changed by tests."""

    report: dict[str, Any] = field(default_factory=watcher_report.faulty)
    alive: bool = True
    why: dict[str, Any] = field(default_factory=lambda: {"ready": True, "moved_seconds_ago": 0.4})
    broken: bool = False

    def tell(self) -> dict[str, Any]:
        if self.broken:
            raise RuntimeError("the secret of this failure")
        return self.report

    def health(self) -> tuple[bool, dict[str, Any]]:
        return self.alive, self.why


class Asked:
    """The watcher that a server asks: one server for all tests, another watcher for each."""

    watcher = Watcher()

    @classmethod
    def tell(cls) -> Any:
        return cls.watcher.tell()

    @classmethod
    def health(cls) -> Any:
        return cls.watcher.health()


@pytest.fixture(scope="module")
def shared() -> Iterator[server.Running]:
    asked = {"report": Asked.tell, "health": Asked.health}
    found = server.serve("127.0.0.1", 0, metrics=lambda: "motor_watcher_leader 1\n", **asked)
    yield found
    found.stop()


@pytest.fixture
def watcher() -> Watcher:
    Asked.watcher = Watcher()
    return Asked.watcher


@pytest.fixture
def running(shared: server.Running, watcher: Watcher) -> server.Running:
    return shared


def ask(running: server.Running, path: str, method: str = "GET", **headers: str) -> tuple[int, Headers, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=5)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def raw(running: server.Running, sent: bytes, seconds: float = 5) -> bytes:
    with socket.create_connection(("127.0.0.1", running.port), timeout=seconds) as connection:
        connection.sendall(sent)
        found = b""
        while more := connection.recv(65536):
            found += more
        return found


def test_the_state_is_the_report(running: server.Running, watcher: Watcher) -> None:
    status, headers, body = ask(running, "/state.json")
    assert status == 200 and headers["content-type"] == "application/json"
    assert json.loads(body) == watcher.report


def test_half_a_character_that_somebody_wrote_somewhere_hides_nothing(watcher: Watcher) -> None:
    """JSON within annotations may hold what is no text: all the rest is told as ever."""
    broken = "scale \ud800"
    watcher.report["services"][0]["lock"] = {"holder": "x", "verb": broken, "since": ""}
    watcher.why["said"] = broken
    other = server.serve("127.0.0.1", 0, report=watcher.tell, metrics=lambda: f'x{{verb="{broken}"}} 1\n', health=watcher.health)
    try:
        answers = [ask(other, path) for path in ("/state.json", "/metrics", "/healthz")]
    finally:
        other.stop()
    assert [(status, b"scale ?" in body) for status, dummy, body in answers] == [(200, True)] * 3


def test_a_state_that_is_known_is_not_sent_again(running: server.Running, watcher: Watcher) -> None:
    tag = ask(running, "/state.json")[1]["etag"]
    watcher.report = {**watcher.report, "program": {**watcher.report["program"], "at": "2026-11-30T16:00:00Z"}}
    status, headers, body = ask(running, "/state.json", If_None_Match=f'"other", W/{tag}')
    assert (status, body, headers["etag"]) == (304, b"", tag)
    assert ask(running, "/state.json", If_None_Match='"other"')[0] == 200


def test_a_new_revision_is_sent(running: server.Running, watcher: Watcher) -> None:
    tag = ask(running, "/state.json")[1]["etag"]
    watcher.report = watcher_report.well()
    status, headers, body = ask(running, "/state.json", If_None_Match=tag)
    assert status == 200 and headers["etag"] != tag and json.loads(body) == watcher.report


@pytest.mark.parametrize("change", [{"leader": "another"}, {"synced": False}])
def test_another_leader_is_news_without_a_new_revision(running: server.Running, watcher: Watcher, change: dict[str, Any]) -> None:
    tag = ask(running, "/state.json")[1]["etag"]
    watcher.report = {**watcher.report, "program": {**watcher.report["program"], **change}}
    assert ask(running, "/state.json", If_None_Match=tag)[0] == 200


def test_a_watch_that_fails_is_news_and_one_that_is_silent_is_not(running: server.Running, watcher: Watcher) -> None:
    tag = ask(running, "/state.json")[1]["etag"]
    first, *others = watcher.report["watches"]
    watcher.report = {**watcher.report, "watches": [{**first, "silent_seconds": 29.0}, *others]}
    assert ask(running, "/state.json", If_None_Match=tag)[0] == 304
    watcher.report = {**watcher.report, "watches": [{**first, "error": "403 Forbidden"}, *others]}
    assert ask(running, "/state.json", If_None_Match=tag)[0] == 200


def test_a_process_does_not_take_the_revision_of_another_one_for_its_own(running: server.Running, watcher: Watcher) -> None:
    tag = ask(running, "/state.json")[1]["etag"]
    other = server.serve("127.0.0.1", 0, report=watcher.tell, metrics=str, health=watcher.health)
    try:
        assert ask(other, "/state.json", If_None_Match=tag)[0] == 200
    finally:
        other.stop()


def test_what_is_large_is_compressed_for_who_takes_it(running: server.Running, watcher: Watcher) -> None:
    for path in ("/state.json", "/"):
        plain = ask(running, path)[2]
        status, headers, body = ask(running, path, Accept_Encoding="br, gzip;q=0.5")
        assert status == 200 and headers["content-encoding"] == "gzip" and headers["vary"] == "Accept-Encoding"
        assert gzip.decompress(body) == plain and len(body) < len(plain) / 3 and int(headers["content-length"]) == len(body)
        assert "content-encoding" not in ask(running, path, Accept_Encoding="gzip;q=0, br")[1]
    assert "content-encoding" not in ask(running, "/metrics", Accept_Encoding="gzip")[1]


def test_metrics_are_those_given(running: server.Running) -> None:
    status, headers, body = ask(running, "/metrics")
    assert (status, body) == (200, b"motor_watcher_leader 1\n") and headers["content-type"].startswith("text/plain; version=0.0.4")


def test_healthz_says_whether_the_program_is_alive_and_why(running: server.Running, watcher: Watcher) -> None:
    assert ask(running, "/healthz")[0] == 200
    watcher.alive, watcher.why = False, {"ready": True, "moved_seconds_ago": 71.0}
    status, headers, body = ask(running, "/healthz")
    assert status == 503 and headers["content-type"] == "application/json"
    assert json.loads(body) == {"alive": False, "ready": True, "moved_seconds_ago": 71.0}


@pytest.mark.parametrize(("alive", "ready", "status"), [(True, True, 200), (True, False, 503), (False, True, 503)])
def test_readyz_wants_filled_caches_of_a_program_that_is_alive(
    running: server.Running, watcher: Watcher, alive: bool, ready: bool, status: int
) -> None:
    watcher.alive, watcher.why = alive, {"ready": ready}
    found = ask(running, "/readyz")
    assert found[0] == status and json.loads(found[2])["ready"] is (status == 200)
    assert ask(running, "/healthz")[0] == (200 if alive else 503)


def test_the_page_is_served_with_its_policy(running: server.Running) -> None:
    status, headers, body = ask(running, "/?lang=zh")
    assert status == 200 and headers["content-type"] == "text/html; charset=utf-8" and body.decode() == page.page()
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none';") and "unsafe" not in policy and "frame-ancestors 'none'" in policy


@pytest.mark.parametrize("path", ["/", "/state.json", "/metrics", "/healthz", "/nowhere"])
def test_every_answer_carries_the_headers_that_protect(running: server.Running, path: str) -> None:
    headers = ask(running, path)[1]
    assert headers["cache-control"] == "no-store" and headers["x-content-type-options"] == "nosniff"
    assert (
        headers["x-frame-options"] == "DENY"
        and headers["referrer-policy"] == "no-referrer"
        and "default-src 'none'" in headers["content-security-policy"]
    )
    assert "python" not in headers["server"].lower()


def test_what_is_not_there_is_404(running: server.Running) -> None:
    for path in ("/nowhere", "/../etc/passwd", "/state.json/", "//nowhere"):
        assert ask(running, path)[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_nothing_but_reading_is_allowed(running: server.Running, method: str) -> None:
    status, headers, dummy = ask(running, "/state.json", method)
    assert status == 405 and headers["allow"] == "GET, HEAD" and headers["connection"] == "close"


def test_head_says_what_get_would(running: server.Running) -> None:
    for path in ("/", "/state.json", "/healthz", "/nowhere"):
        status, headers, body = ask(running, path, "HEAD")
        got = ask(running, path)
        assert status == got[0] and body == b"" and headers["content-length"] == str(len(got[2]))


def test_a_failure_is_told_in_the_log_and_not_to_the_reader(
    running: server.Running, watcher: Watcher, caplog: pytest.LogCaptureFixture
) -> None:
    watcher.broken = True
    status, dummy, body = ask(running, "/state.json")
    assert status == 500 and b"secret" not in body and "the secret of this failure" in caplog.text
    watcher.broken = False
    assert ask(running, "/state.json")[0] == 200


def test_requests_leave_no_line_in_the_log(running: server.Running, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        for path in ("/healthz", "/readyz", "/metrics", "/state.json", "/nowhere"):
            ask(running, path)
        raw(running, b"nonsense\r\n\r\n")
    assert caplog.records == []


def test_one_connection_serves_many_requests(running: server.Running) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=5)
    for path in ("/healthz", "/state.json", "/nowhere", "/metrics"):
        connection.request("GET", path)
        connection.getresponse().read()
        assert connection.sock is not None, path
    connection.close()


def test_a_body_is_not_taken_for_the_next_request(running: server.Running) -> None:
    smuggled = b"GET /state.json HTTP/1.1\r\n\r\n"
    sent = b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(smuggled) + smuggled
    assert raw(running, sent).count(b"HTTP/1.1 200") == 1


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 70000 + b" HTTP/1.1\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\nConnection: close\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\r\n\r\n",
    ],
)
def test_a_broken_request_gets_an_answer_and_harms_nobody(running: server.Running, sent: bytes) -> None:
    found = raw(running, sent)
    assert b" 4" in found[:12] or b" 5" in found[:12] or b"error" in found
    assert ask(running, "/healthz")[0] == 200


def test_who_holds_connections_keeps_nobody_out(running: server.Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe that gets no answer would have the program killed."""
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 4)
    before = threading.active_count()
    idle = [socket.create_connection(("127.0.0.1", running.port), timeout=5) for dummy in range(12)]
    for dummy in range(5):
        assert ask(running, "/healthz")[0] == 200
    until(lambda: threading.active_count() <= before + 4)
    assert idle[0].recv(10) == b"", "the oldest made room"
    for connection in idle:
        connection.close()


def test_who_was_answered_and_stays_makes_room_when_all_do(running: server.Running, monkeypatch: pytest.MonkeyPatch) -> None:
    stays = [http.client.HTTPConnection("127.0.0.1", running.port, timeout=5) for dummy in range(4)]
    for connection in stays:
        connection.request("GET", "/healthz")
        connection.getresponse().read()
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 4)
    assert ask(running, "/healthz")[0] == 200
    for connection in stays:
        connection.close()


def test_a_head_that_grows_and_grows_is_given_up(running: server.Running) -> None:
    """By lines, each of which the base class would take."""
    line = b"X: " + b"a" * 60_000 + b"\r\n"
    assert b" 431 " in raw(running, b"GET /healthz HTTP/1.1\r\n" + 2 * line)
    assert b" 200 " in raw(running, b"GET /healthz HTTP/1.1\r\nConnection: close\r\n" + line + b"\r\n")


def test_each_request_of_a_connection_has_room_for_its_own_head(running: server.Running) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=5)
    for dummy in range(3):
        connection.request("GET", "/healthz", headers={"X": "a" * 40_000})
        answer = connection.getresponse()
        assert (answer.status, bool(answer.read())) == (200, True)
    connection.close()


def test_connections_are_not_kept_where_places_get_rare(running: server.Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 4)
    idle = [socket.create_connection(("127.0.0.1", running.port), timeout=5) for dummy in range(2)]
    until(lambda: ask(running, "/healthz")[1].get("connection") == "close")
    for connection in idle:
        connection.close()
    until(lambda: "connection" not in ask(running, "/healthz")[1])


def test_a_request_that_trickles_in_is_given_up(running: server.Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SLOWEST", 0.6)
    begun = time.monotonic()
    with socket.create_connection(("127.0.0.1", running.port), timeout=5) as connection, pytest.raises(OSError):
        _trickle(connection, 200)
    assert time.monotonic() - begun < 5


def _trickle(connection: socket.socket, count: int) -> None:
    for dummy in range(count):
        connection.sendall(b"X")
        time.sleep(0.05)


def test_it_stops_at_once_even_while_somebody_is_connected(watcher: Watcher) -> None:
    found = server.serve("127.0.0.1", 0, report=watcher.tell, metrics=str, health=watcher.health)
    with socket.create_connection(("127.0.0.1", found.port), timeout=5) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        said = b""
        while not said.endswith(b"}\n"):
            said += connection.recv(65536)
        assert b"200" in said
        begun = time.monotonic()
        found.stop()
        assert time.monotonic() - begun < 2
        assert connection.recv(65536) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", found.port), timeout=5)


def test_it_listens_on_the_address_given_alone(running: server.Running) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", running.port), timeout=5)


def test_it_listens_on_addresses_of_version_6(watcher: Watcher) -> None:
    if not socket.has_ipv6:
        pytest.skip("needs IPv6")
    try:
        found = server.serve("::1", 0, report=watcher.tell, metrics=str, health=watcher.health)
    except OSError:
        pytest.skip("needs the loopback address of IPv6")
    try:
        with socket.create_connection(("::1", found.port), timeout=5):
            pass
    finally:
        found.stop()


def test_many_ask_at_once(running: server.Running, watcher: Watcher) -> None:
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(ask(running, "/state.json")[0])) for dummy in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [200] * 20


def test_an_unknown_language_is_refused(watcher: Watcher) -> None:
    with pytest.raises(InputError, match="language: it has to be one of en, zh"):
        server.serve("127.0.0.1", 0, report=watcher.tell, metrics=str, health=watcher.health, language="fr")


def until(check: Any) -> None:
    """Wait for something that takes a moment."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        try:
            if check():
                return
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.02)
    pytest.fail("it did not happen")
