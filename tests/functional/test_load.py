# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module motor_load at an address of the service itself: keys, TLS, outcomes, and what it does when nothing is scaled."""

from __future__ import annotations

import contextlib
import http.server
import json
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.certificates import Authority
from tests.functional.conftest import Driver
from tests.functional.test_modules import succeeded

KEY = "a-key-that-nobody-may-see"
WELL = json.dumps({"choices": [{"message": {"content": "well"}}]}).encode()


class Front:
    """What answers in the place of a coordinator, on loopback. `answers` are (status, body, seconds), one after the other, the last for ever."""

    def __init__(self, certificate: tuple[Path, Path] | None = None, key: str = "") -> None:
        self.answers: list[tuple[int, bytes, float]] = [(200, WELL, 0.0)]
        self.bodies: list[dict[str, Any]] = []
        self.most = self._now = 0
        self.key = key
        self._lock = threading.Lock()
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"http{'s' if certificate else ''}://127.0.0.1:{self._server.server_port}"

    def take(self, body: dict[str, Any]) -> tuple[int, bytes, float]:
        with self._lock:
            self.bodies.append(body)
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        yield
        with self._lock:
            self._now -= 1

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        front = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer(200, json.dumps({"data": [{"id": "served-model"}]}).encode())

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if front.key and self.headers.get("Authorization") != f"Bearer {front.key}":
                    return self._answer(401, b'{"detail":"Missing Authorization header"}')
                with front.busy():
                    status, content, seconds = front.take(body)
                    time.sleep(seconds)
                return self._answer(status, content)

            def _answer(self, status: int, content: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Be quiet."""

        return Handler

    @contextlib.contextmanager
    def serving(self) -> Iterator[Front]:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()


@pytest.fixture
def front() -> Iterator[Front]:
    with Front().serving() as serving:
        yield serving


def send(driver: Driver, front: Front, **options: Any) -> dict[str, Any]:
    given = {"namespace": driver.namespace, "url": front.url, "requests": 12, "concurrency": 3, "grace": 0, **options}
    return driver.run("motor_load", **given)


@pytest.fixture
def deployed(on_set: Driver) -> Driver:
    succeeded(on_set.deploy())
    return on_set


def test_as_many_are_under_way_as_asked_for_and_all_are_counted(deployed: Driver, front: Front) -> None:
    front.answers = [(200, WELL, 0.2)]
    load = succeeded(send(deployed, front))["load"]
    assert (load["sent"], load["failed"], front.most, len(front.bodies)) == (12, 0, 3, 12)
    assert {body["model"] for body in front.bodies} == {"served-model"} and not front.bodies[0]["stream"]
    assert 0.2 <= load["latency"]["p50"] < 2 and load["settled"]
    assert [(row["engine_role"], row["before"], row["most"], row["first_scale_out"]) for row in load["scaling"]] == [
        ("decode", 1, 1, None),
        ("prefill", 2, 2, None),
    ]
    assert deployed.proxy.mutating() == [], "nothing is written"


def test_outcomes_are_told_apart_with_one_message_each(deployed: Driver, front: Front) -> None:
    error = json.dumps({"error": {"message": "Node fault", "code": 500}}).encode()
    front.answers = [(503, b'{"detail":"Service is not available"}', 0.0), (200, error, 0.0), (200, WELL, 3.0), (200, WELL, 0.0)]
    load = succeeded(send(deployed, front, timeout=1, concurrency=1))["load"]
    assert load["outcomes"] == {"HTTP 503": 1, "error in the answer": 1, "ok": 9, "timeout": 1}
    assert "not available" in load["messages"]["HTTP 503"] and "Node fault" in load["messages"]["error in the answer"]


def test_nothing_listens_and_that_is_told(deployed: Driver, front: Front) -> None:
    load = succeeded(send(deployed, front, url="http://127.0.0.1:9", model="any"))["load"]
    assert load["outcomes"] == {"no answer": 12} and "refused" in load["messages"]["no answer"]


def test_a_body_and_a_model_are_sent_as_given(deployed: Driver, front: Front) -> None:
    succeeded(send(deployed, front, body={"prompt": "x", "stream": True}, model="mine", path="/v1/completions", requests=1))
    assert front.bodies == [{"prompt": "x", "stream": True, "model": "mine"}]


def test_a_key_is_sent_in_its_header_and_shown_nowhere(deployed: Driver) -> None:
    with Front(key=KEY).serving() as front:
        without = succeeded(send(deployed, front))["load"]
        assert without["outcomes"] == {"HTTP 401": 12}
        result = send(deployed, front, service_api_key=KEY)
        assert succeeded(result)["load"]["outcomes"] == {"ok": 12}
        assert KEY not in json.dumps(result)


def test_a_key_does_not_go_through_the_api_server(deployed: Driver) -> None:
    refused = deployed.run("motor_load", namespace=deployed.namespace, service_api_key=KEY)
    assert refused["failed"] and "service_api_key" in refused["msg"] and "via=node_port" in refused["msg"]
    assert deployed.proxy.requests == []


def test_certificates_are_checked_against_the_authority_that_is_given(deployed: Driver, tmp_path: Path) -> None:
    authority = Authority.new("somebody")
    files = tmp_path / "tls.crt", tmp_path / "tls.key"
    for file, content in zip(files, authority.issue("127.0.0.1", server=True), strict=True):
        file.write_bytes(content)
    with Front(certificate=files).serving() as front:
        unknown = succeeded(send(deployed, front, model="any"))["load"]
        assert unknown["outcomes"] == {"no answer": 12} and "certificate" in unknown["messages"]["no answer"].lower()
        assert succeeded(send(deployed, front, verify=False))["load"]["failed"] == 0
    assert "no certificates" in send(deployed, front, ca="nonsense")["msg"]


def test_time_is_up_and_the_rest_is_not_sent(deployed: Driver, front: Front) -> None:
    front.answers = [(200, WELL, 0.3)]
    started = time.monotonic()
    load = succeeded(send(deployed, front, requests=10_000, watch_timeout=3))["load"]
    assert time.monotonic() - started < 12 and 0 < load["sent"] < 100 and len(front.bodies) < 100


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"requests": 0}, "0 is not within"),
        ({"concurrency": 1001}, "1001 is not within"),
        ({"url": "ftp://x"}, "http:// or https://"),
        ({"url": "http://user@x"}, "http:// or https://"),
        ({"path": "v1"}, "a path begins with /"),
    ],
)
def test_wrong_options_are_named_before_anything_is_sent(on_set: Driver, options: dict[str, Any], said: str) -> None:
    result = on_set.run("motor_load", namespace=on_set.namespace, **options)
    assert result["failed"] and said in result["msg"] and on_set.proxy.requests == []


def test_a_service_of_deployments_can_be_put_under_load_too(on_deployments: Driver, front: Front) -> None:
    succeeded(on_deployments.deploy())
    load = succeeded(send(on_deployments, front))["load"]
    assert {row["engine_role"]: row["before"] for row in load["scaling"]} == {"decode": 1, "prefill": 2}


def test_the_node_port_of_the_service_is_found(deployed: Driver) -> None:
    done = succeeded(deployed.run("motor_load", namespace=deployed.namespace, via="node_port", check_mode=True))
    ports = [row for service in deployed.get("services", "v1").values() for row in service["spec"].get("ports", ())]
    port = next(row["nodePort"] for row in ports if row["port"] == 1025)
    assert done["load"]["to"].startswith("http://") and done["load"]["to"].endswith(f":{port}")


def test_without_a_service_it_says_what_to_do(on_set: Driver) -> None:
    assert on_set.run("motor_load", namespace=on_set.namespace, model="m")["reason"] == "NotDeployed"
