# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who the adaptor lets in, over real TLS connections, and what it does when certificate or rules change."""

from __future__ import annotations

import contextlib
import datetime
import http.client
import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from metrics_adaptor import front as fronts
from metrics_adaptor import metrics, server
from metrics_adaptor.book import Book
from metrics_adaptor.front import AUTHORITY, NAMES, Front, Rules
from metrics_adaptor.metrics import Counters, Facts, Itself

from ansible_collections.ascend.mindie.plugins.module_utils._cluster import certificates as library
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.api import Api, ApiError
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.http_limits import Limits, Running
from ansible_collections.ascend.mindie.plugins.module_utils._motor.certificates import Serving
from ansible_collections.ascend.mindie.plugins.module_utils._motor.load import Limits as LoadLimits
from tests.cluster.certificates import Authority, pem

HOST = "adaptor.system.svc"
ROOT = "/apis/external.metrics.k8s.io/v1beta1"


class Kubernetes:
    """Has the one ConfigMap."""

    def __init__(self, authority: Authority) -> None:
        self.data = {AUTHORITY: pem(authority.certificate).decode(), NAMES: '["front-proxy-client"]'}
        self.fails = False
        self.asked: list[tuple[str, str | None, str]] = []

    def get(self, kind: str, namespace: str | None, name: str) -> dict[str, Any]:
        self.asked.append((kind, namespace, name))
        if self.fails:
            raise ApiError("read it", "no", reason="Forbidden", status=403)
        return {"data": dict(self.data)}


class Place:
    """An adaptor's front on loopback, with certificates of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "certificate"
        self.folder.mkdir()
        self._scratch, self._number = folder, 0
        self.authority = Authority.new("front-proxy")
        self.kubernetes = Kubernetes(self.authority)
        self.counters = Counters()
        self.front = Front(cast(Api, self.kubernetes), self.folder)
        self.serving = self.renew()
        self.running: Running | None = None

    def open(self) -> Running:
        book = Book(LoadLimits())
        book.sync(())
        self.front.start()
        self.running = server.serve_api("127.0.0.1", 0, server.Desk(self.front, book, self.counters))
        self.front.changed = self.running.end_connections
        return self.running

    def close(self) -> None:
        self.front.stop()
        if self.running:
            self.running.stop()

    def renew(self, serving: Serving | None = None) -> Serving:
        """Put a certificate where a kubelet would, both files at one moment."""
        made = serving or library.make([HOST], time.time())
        version = self._file("version", None)
        version.mkdir()
        (version / "tls.crt").write_text(made.certificate)
        (version / "tls.key").write_text(made.private_key)
        for name in ("tls.crt", "tls.key"):
            with contextlib.suppress(FileExistsError):
                (self.folder / name).symlink_to(f"..data/{name}")
        (self.folder / "..new").symlink_to(version)
        os.replace(self.folder / "..new", self.folder / "..data")
        self.serving = made
        return made

    def _file(self, name: str, content: bytes | None) -> Path:
        self._number += 1
        path = self._scratch / f"{self._number}-{name}"
        if content is not None:
            path.write_bytes(content)
        return path

    def client(
        self, name: str | None = "front-proxy-client", authority: Authority | None = None, trusts: Serving | None = None
    ) -> ssl.SSLContext:
        """The TLS settings of a client with a certificate for this name."""
        context = ssl.create_default_context(cadata=(trusts or self.serving).authority)
        if name is not None:
            certificate, key = (authority or self.authority).issue(name)
            context.load_cert_chain(self._file("client.crt", certificate), self._file("client.key", key))
        return context

    def connect(self, context: ssl.SSLContext, *, hello: bool = True) -> http.client.HTTPSConnection:
        assert self.running
        connection = http.client.HTTPSConnection("127.0.0.1", self.running.port, timeout=5)
        raw = socket.create_connection(("127.0.0.1", self.running.port), timeout=5)
        connection.sock = context.wrap_socket(raw, server_hostname=HOST) if hello else raw
        return connection

    def ask(self, context: ssl.SSLContext, path: str = ROOT, **headers: str) -> tuple[int, Any]:
        return request(self.connect(context), path, **headers)

    def told(self) -> str:
        return metrics.render(Facts(self.counters, Itself("", True, 0.0, 0, ()), (), (), 0.0))


def request(connection: http.client.HTTPSConnection, path: str = ROOT, **headers: str) -> tuple[int, Any]:
    connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def until(check: Callable[[], Any], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(fronts, "FILES_EVERY", 0.1)
    monkeypatch.setattr(fronts, "RULES_EVERY", 0.1)
    found = Place(tmp_path)
    yield found
    found.close()


def test_the_api_server_is_let_in_by_its_certificate(place: Place) -> None:
    place.open()
    status, found = place.ask(place.client())
    assert status == 200 and found["kind"] == "APIResourceList"
    assert set(place.kubernetes.asked) == {("ConfigMap", "kube-system", "extension-apiserver-authentication")}


def test_who_shows_no_certificate_is_told_to_ask_the_api_server(place: Place) -> None:
    place.open()
    pretending = {"X_Remote_User": "system:admin", "X_Remote_Group": "system:masters", "Authorization": "Bearer token"}
    for headers in ({}, pretending):
        connection = place.connect(place.client(None))
        status, found = request(connection, **headers)
        assert (status, found["kind"], found["reason"]) == (401, "Status", "Unauthorized") and "ask it" in found["message"]
        assert connection.sock is None, "the connection is not kept"
    assert 'motor_adaptor_refused_total{why="no certificate"} 2' in place.told()


def test_a_certificate_of_another_authority_is_refused_whatever_its_name(place: Place) -> None:
    place.open()
    with pytest.raises(OSError):
        place.ask(place.client(authority=Authority.new("front-proxy")))
    until(lambda: 'motor_adaptor_refused_total{why="wrong authority"} 1' in place.told())


def test_a_name_that_is_not_allowed_is_refused(place: Place) -> None:
    place.open()
    status, found = place.ask(place.client("somebody"))
    assert (status, found["reason"]) == (403, "Forbidden") and "'somebody'" in found["message"]
    assert 'motor_adaptor_refused_total{why="wrong name"} 1' in place.told()


def test_without_a_list_of_names_any_name_of_the_authority_will_do(place: Place) -> None:
    place.kubernetes.data[NAMES] = "[]"
    place.open()
    assert place.ask(place.client("anybody"))[0] == 200


def test_names_that_change_hold_for_open_connections_too(place: Place) -> None:
    place.open()
    connection = place.connect(place.client())
    assert request(connection)[0] == 200
    place.kubernetes.data[NAMES] = '["another"]'
    until(lambda: place.front._rules and place.front._rules.names == {"another"})
    assert request(connection)[0] == 403


def test_another_authority_ends_the_connections_of_the_former_one(place: Place) -> None:
    place.open()
    old, connection = place.client(), place.connect(place.client())
    assert request(connection)[0] == 200
    other = Authority.new("front-proxy")
    place.kubernetes.data[AUTHORITY] = pem(other.certificate).decode()
    until(lambda: place.front.reloads == 2)
    with pytest.raises((OSError, http.client.HTTPException)):
        request(connection)
    with pytest.raises((OSError, http.client.HTTPException)):
        place.ask(old)
    assert place.ask(place.client(authority=other))[0] == 200


@pytest.mark.parametrize("data", [{}, {AUTHORITY: ""}, {AUTHORITY: "no PEM"}, {NAMES: "no list"}, {NAMES: "{}"}])
def test_rules_that_cannot_be_read_leave_those_that_there_are(place: Place, data: dict[str, str]) -> None:
    place.open()
    place.kubernetes.data = {**place.kubernetes.data, **data} if data else {}
    until(lambda: "rules" in place.front.problems)
    assert place.ask(place.client())[0] == 200


def test_nobody_is_let_in_before_it_is_known_who_may(place: Place) -> None:
    place.kubernetes.fails = True
    place.open()
    assert not place.front.ready
    with pytest.raises(OSError):
        place.ask(place.client())
    place.kubernetes.fails = False
    until(lambda: place.front.ready)
    assert place.ask(place.client())[0] == 200 and place.front.problems == {}


def test_a_new_certificate_is_shown_without_a_restart_and_open_connections_go_on(place: Place) -> None:
    place.open()
    old, connection = place.serving, place.connect(place.client())
    assert request(connection)[0] == 200
    place.renew()
    until(lambda: place.front.reloads == 2)
    assert request(connection)[0] == 200
    assert place.ask(place.client())[0] == 200, "who trusts the new authority meets the new certificate"
    with pytest.raises(ssl.SSLCertVerificationError):
        place.ask(place.client(trusts=old))


def test_a_certificate_and_a_key_that_do_not_belong_together_are_not_used(place: Place) -> None:
    place.open()
    good, other = place.serving, library.make([HOST], time.time())
    place.renew(Serving(other.certificate, good.private_key, other.authority))
    until(lambda: "certificate" in place.front.problems)
    assert place.ask(place.client(trusts=good))[0] == 200
    place.renew(other)
    until(lambda: not place.front.problems)
    assert place.ask(place.client(trusts=other))[0] == 200


def test_a_certificate_that_has_gone_is_held_on_to(place: Place) -> None:
    place.open()
    (place.folder / "tls.key").unlink()
    until(lambda: "certificate" in place.front.problems)
    assert place.ask(place.client())[0] == 200


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_1_2_and_1_3_are_spoken(place: Place, version: ssl.TLSVersion) -> None:
    place.open()
    context = place.client()
    context.minimum_version = context.maximum_version = version
    assert place.ask(context)[0] == 200


def test_older_versions_of_tls_are_not_spoken(place: Place) -> None:
    place.open()
    context = place.client()
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(OSError):
        place.ask(context)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_no_session_outlives_the_authority_that_it_began_with(place: Place, version: ssl.TLSVersion) -> None:
    running = place.open()
    context = place.client()
    context.minimum_version = context.maximum_version = version
    first = place.connect(context)
    assert request(first)[0] == 200
    assert isinstance(first.sock, ssl.SSLSocket)
    session = first.sock.session
    place.kubernetes.data[AUTHORITY] = pem(Authority.new("front-proxy").certificate).decode()
    until(lambda: place.front.reloads == 2)

    def resume() -> None:
        again = http.client.HTTPSConnection("127.0.0.1", running.port, timeout=5)
        again.sock = context.wrap_socket(socket.create_connection(("127.0.0.1", running.port), 5), server_hostname=HOST, session=session)
        request(again)

    with pytest.raises(OSError):
        resume()


def test_one_connection_serves_many_requests(place: Place) -> None:
    place.open()
    connection = place.connect(place.client())
    for dummy in range(20):
        assert request(connection)[0] == 200
        assert connection.sock is not None


def test_strangers_who_hold_connections_keep_nobody_out(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "API_LIMITS", Limits(connections=8, idle=5, first=5, kept=5))
    running = place.open()
    known = place.connect(place.client())
    assert request(known)[0] == 200
    strangers = [socket.create_connection(("127.0.0.1", running.port), timeout=5) for dummy in range(20)]
    assert place.ask(place.client())[0] == 200
    assert request(known)[0] == 200, "and who was let in stays"
    for stranger in strangers:
        stranger.close()


def test_a_handshake_that_does_not_go_on_is_given_up(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "API_LIMITS", Limits(connections=8, idle=5, first=0.5, kept=5))
    running = place.open()
    with socket.create_connection(("127.0.0.1", running.port), timeout=5) as stranger:
        begun = time.monotonic()
        assert stranger.recv(100) == b"" and time.monotonic() - begun < 3


def test_who_speaks_no_tls_gets_nothing(place: Place) -> None:
    running = place.open()
    with socket.create_connection(("127.0.0.1", running.port), timeout=5) as stranger:
        stranger.sendall(b"GET /apis HTTP/1.1\r\nHost: x\r\n\r\n")
        said = b""
        with contextlib.suppress(ConnectionResetError):
            while more := stranger.recv(4096):
                said += more
    assert b"HTTP/" not in said
    assert place.ask(place.client())[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_nothing_but_reading_is_allowed(place: Place, method: str) -> None:
    place.open()
    connection = place.connect(place.client())
    connection.request(method, ROOT)
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())["reason"]) == (405, "MethodNotAllowed")


def test_a_request_that_is_too_large_is_refused(place: Place) -> None:
    place.open()
    assert place.ask(place.client(), f"{ROOT}?{'a' * 70000}")[0] in (400, 414)
    assert place.ask(place.client(), ROOT, **{f"X{number}": "y" for number in range(200)})[0] in (400, 431)


def test_a_pod_that_ends_answers_and_lets_nobody_ask_again_on_the_same_connection(place: Place) -> None:
    running = place.open()
    connection = place.connect(place.client())
    assert request(connection)[0] == 200 and connection.sock is not None
    running.leave()
    assert request(connection)[0] == 200 and connection.sock is None
    assert place.ask(place.client())[0] == 200


def test_many_ask_at_once(place: Place) -> None:
    place.open()
    context = place.client()
    statuses: list[int] = []

    def ask() -> None:
        connection = place.connect(context)
        statuses.extend(request(connection)[0] for dummy in range(20))

    threads = [threading.Thread(target=ask) for dummy in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 200


def test_the_end_of_a_certificate_is_read_as_it_is(place: Place) -> None:
    place.open()
    assert place.front.expires == library.read(place.serving).not_after
    far = library.make([HOST], datetime.datetime(2060, 1, 1, tzinfo=datetime.UTC).timestamp())
    assert fronts.expiry(far.certificate.encode()) == library.read(far).not_after, "from 2050 on it is written otherwise"


CERTIFICATE = {"notAfter": "Jan 15 08:00:00 2027 GMT", "subject": ((("commonName", "front-proxy-client"),),)}


@pytest.mark.parametrize(
    ("certificate", "clock", "status"),
    [
        (CERTIFICATE, 1_799_999_999.0, None),
        (CERTIFICATE, 1_800_000_000.0, 401),
        (None, 0.0, 401),
        ({}, 0.0, 401),
        ({**CERTIFICATE, "subject": ()}, 0.0, 403),
        ({**CERTIFICATE, "subject": ((("organizationName", "front-proxy-client"),),)}, 0.0, 403),
    ],
)
def test_a_certificate_is_good_for_its_name_and_its_time(certificate: Any, clock: float, status: int | None) -> None:
    found = fronts.refusal(certificate, frozenset({"front-proxy-client"}), clock)
    assert (found[0] if found else None) == status


def test_rules_are_what_the_api_server_writes() -> None:
    text = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"
    assert fronts.rules({"data": {AUTHORITY: text, NAMES: '["a","b"]'}}) == Rules(text, frozenset({"a", "b"}))
    assert fronts.rules({"data": {AUTHORITY: text}}) == Rules(text, frozenset())
    with pytest.raises(ValueError, match="no aggregation layer"):
        fronts.rules(None)
