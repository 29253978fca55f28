# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the adaptor reads coordinators, over real connections: whatever one of them does, it is an error of that one, and in time."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from metrics_adaptor import scraper
from metrics_adaptor.book import ROLE_LABEL, SERVICE_LABEL, SET_LABEL, Book
from metrics_adaptor.fetch import Fetcher, Unanswered
from metrics_adaptor.finder import Service
from metrics_adaptor.scraper import Coordinator as Reader
from metrics_adaptor.scraper import Crew, Look

from ansible_collections.ascend.mindie.plugins.module_utils._motor.exposition import BadExposition
from ansible_collections.ascend.mindie.plugins.module_utils._motor.load import Limits, NoValue, Scrape
from tests.cluster.certificates import Authority, pem
from tests.cluster.kube_client import wait_for
from tests.support import coordinator as moods
from tests.support.coordinator import INFERENCE, METRICS, Coordinator, Stage
from tests.support.engines import Endpoint, Load

TIMEOUT, LARGEST = 1.0, 1 << 20
PODS = frozenset({"10.0.0.1", "10.0.0.2", "10.0.0.3"})
ENDPOINTS = [
    Endpoint("prefill", "vllm-0-prefill-0", "p0", "10.0.0.1"),
    Endpoint("prefill", "vllm-0-prefill-1", "p1", "10.0.0.2"),
    Endpoint("decode", "vllm-0-decode-0", "d0", "10.0.0.3"),
]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as running:
        yield running


@pytest.fixture
def played(stage: Stage) -> Iterator[Coordinator]:
    """A coordinator of two prefill instances and a decode instance."""
    coordinator = Coordinator(lambda: ENDPOINTS, reuse=0.05)
    coordinator.loads = {"prefill": Load(waiting=7, running=3, finished=5), "decode": Load(running=4, finished=5)}
    yield coordinator
    stage.stop(coordinator)


def served(
    stage: Stage, coordinator: Coordinator, certificate: Path | None = None, *, name: str = "vllm-0", host: str = "127.0.0.1"
) -> Service:
    """A service whose coordinator is played."""
    ports = dict(pair.split("=127.0.0.1:") for pair in stage.play(coordinator, certificate).split(","))
    scheme = "https" if certificate else "http"
    return service(f"{scheme}://{host}:{ports[str(METRICS)]}/metrics?type=dp", f"{scheme}://{host}:{ports[str(INFERENCE)]}/v1/models", name)


def service(metrics_url: str, models_url: str = "http://127.0.0.1:1/v1/models", name: str = "vllm-0", uid: str = "1") -> Service:
    return Service("chat", name, "vllm", uid, ("prefill", "decode"), ("prefill", "decode"), metrics_url, models_url, 0.1)


def look(wanted: Service, fetcher: Fetcher | None = None) -> Scrape:
    return Reader(wanted, fetcher or Fetcher(TIMEOUT, LARGEST)).look().scrape


def problem(scrape: Scrape) -> str:
    assert scrape.sheet is None and scrape.problem
    return scrape.problem.reason


# --- one answer ---


def test_what_a_coordinator_tells_is_read(stage: Stage, played: Coordinator) -> None:
    found = look(served(stage, played))
    assert found.problem is None and found.sheet and found.routable == {"prefill": 2, "decode": 1}
    assert sorted(map(sum, found.sheet.numbers("prefill", "num_requests_waiting").values())) == [3, 4]
    assert played.asked == ["/metrics?type=dp"]


@pytest.mark.parametrize(
    ("mood", "reason"),
    [
        (moods.GARBAGE, "Unreadable"),
        (moods.CUT, "Truncated"),
        (moods.HUGE, "TooLarge"),
        (moods.ENDLESS, "TooLarge"),
        (moods.SILENT, "TooSlow"),
        (moods.SLOW, "TooSlow"),
        (moods.FAILING, "HttpError"),
        (moods.MOVED, "HttpError"),
    ],
)
def test_an_answer_that_is_none_is_an_error_in_time(stage: Stage, played: Coordinator, mood: str, reason: str) -> None:
    played.mood = mood
    wanted = served(stage, played)
    began = time.monotonic()
    found = look(wanted)
    assert problem(found) == reason and time.monotonic() - began < TIMEOUT + 1.0
    assert found.problem and len(found.problem.message) < 400
    played.mood = moods.FINE
    assert look(wanted).problem is None


def test_a_text_that_ends_within_a_line_is_unreadable(stage: Stage, played: Coordinator) -> None:
    played.mood = moods.TRUNCATED
    assert problem(look(served(stage, played))) == "Unreadable"


def test_the_size_is_limited_to_the_byte(stage: Stage, played: Coordinator) -> None:
    wanted = served(stage, played)
    played.mood = moods.FROZEN
    size = len(Fetcher(TIMEOUT, LARGEST).fetch(wanted.metrics_url))
    assert look(wanted, Fetcher(TIMEOUT, size)).problem is None
    assert problem(look(wanted, Fetcher(TIMEOUT, size - 1))) == "TooLarge"


def test_rows_are_limited_but_never_those_of_a_coordinator_whose_size_is_allowed(stage: Stage, played: Coordinator) -> None:
    wanted = served(stage, played)
    wait_for(lambda: look(wanted).problem is None, 10, "it has collected")
    body = Fetcher(TIMEOUT, LARGEST).fetch(wanted.metrics_url)
    rows = [line for line in body.decode().splitlines() if not line.startswith("#")]
    assert min(len(row) for row in rows) > scraper.LEAST_ROW
    endless = "\n".join("a 1" for dummy in range(len(body) // 4))
    sheets = Reader(wanted, Fetcher(TIMEOUT, len(body)))._sheets
    with pytest.raises(BadExposition, match="rows"):
        sheets.make(endless)
    assert sheets.make(body.decode()).table.roles


def test_a_service_with_very_many_endpoints_is_read_when_its_size_is_allowed() -> None:
    """Sixteen decode instances of 64 ranks each, with as many rows as engines have."""
    endpoints = (
        f'dp_rank="{rank}",role="decode",instance_id="{instance}",pod_ip="10.0.{instance}.1"'
        for instance in range(16)
        for rank in range(64)
    )
    text = "\n".join(f"vllm:a_family_of_an_engine_{row}{{{labels}}} 1.0" for labels in endpoints for row in range(350))
    sheet = Reader(service("http://127.0.0.1:1/metrics"), Fetcher(TIMEOUT, len(text)))._sheets.make(text)
    assert len(sheet.values) == 0, "none of the families is served, and all were counted"


def test_where_nobody_listens_is_unreachable(stage: Stage, played: Coordinator) -> None:
    wanted = served(stage, played)
    stage.stop(played)
    assert problem(look(wanted)) == "Unreachable"
    stage.start(played)
    assert look(wanted).problem is None


@contextlib.contextmanager
def talking(talk: Callable[[socket.socket], None]) -> Iterator[Service]:
    """A server that talks in its own way to each who comes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    peer = listener.accept()[0]
                    with peer, contextlib.suppress(OSError):
                        talk(peer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield service(f"http://127.0.0.1:{listener.getsockname()[1]}/metrics")
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def trickle(text: bytes) -> Callable[[socket.socket], None]:
    def talk(peer: socket.socket) -> None:
        for byte in text:
            peer.sendall(bytes((byte,)))
            time.sleep(0.1)

    return talk


@pytest.mark.parametrize(
    ("talk", "reasons"),
    [
        (trickle(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-Long: " + b"x" * 200), {"TooSlow"}),
        (trickle(b"HTTP/1.1 200 " + b"x" * 200), {"TooSlow"}),
        (lambda peer: peer.sendall(b"SSH-2.0-x\r\n"), {"Unreachable"}),
        (lambda peer: peer.sendall(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000), {"Unreachable"}),
        (lambda peer: peer.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), {"Unreachable"}),
        (lambda peer: None, {"Unreachable"}),
    ],
)
def test_what_is_no_http_is_an_error_in_time(talk: Callable[[socket.socket], None], reasons: set[str]) -> None:
    with talking(talk) as wanted:
        began = time.monotonic()
        assert problem(look(wanted)) in reasons and time.monotonic() - began < TIMEOUT + 1.0


@pytest.mark.parametrize("models", [True, False])
def test_what_is_routable_is_known_only_when_the_coordinator_tells(stage: Stage, played: Coordinator, models: bool) -> None:
    played.models = models
    assert look(served(stage, played)).routable == ({"prefill": 2, "decode": 1} if models else None)


def test_proxies_of_the_environment_are_used(stage: Stage, played: Coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    near = served(stage, played)
    proxy = near.metrics_url.removesuffix("/metrics?type=dp")
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    far = service("http://mindie-motor-coordinator-obs-vllm-0-coordinator.chat.svc:1027/metrics?type=dp")
    assert look(far).problem is None and look(near).problem is None
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert problem(look(far)) == "Unreachable" and look(near).problem is None


def test_tls_goes_through_a_proxy_and_is_still_ended_in_time(
    stage: Stage, played: Coordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority.new("authority")
    certificate = tmp_path / "server.pem"
    certificate.write_bytes(b"".join(authority.issue("coordinator", server=True)))
    wanted = served(stage, played, certificate)
    far = replace(wanted, metrics_url=wanted.metrics_url.replace("127.0.0.1", "kubernetes.default.svc"))
    port = urlsplit(wanted.metrics_url).port
    asked: list[bytes] = []

    def relay(peer: socket.socket) -> None:
        asked.append(peer.recv(10_000).split(b"\r\n")[0])
        peer.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        with socket.create_connection(("127.0.0.1", port)) as there:
            for one, other in ((peer, there), (there, peer)):
                threading.Thread(target=copy, args=(one, other), daemon=True).start()
            time.sleep(TIMEOUT + 0.5)

    ca = pem(authority.certificate).decode()
    with talking(relay) as proxy:
        monkeypatch.setenv("https_proxy", proxy.metrics_url.removesuffix("/metrics"))
        assert look(far, Fetcher(TIMEOUT, LARGEST, ca=ca)).problem is None
        played.mood = moods.SLOW
        assert problem(look(far, Fetcher(TIMEOUT, LARGEST, ca=ca))) == "TooSlow"
    assert len(asked) == 2 and asked[0].startswith(f"CONNECT kubernetes.default.svc:{port} ".encode())


def copy(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := one.recv(65536):
            other.sendall(data)


def test_who_is_trusted_is_said_by_the_settings(stage: Stage, played: Coordinator, tmp_path: Path) -> None:
    authority = Authority.new("authority")
    certificate = tmp_path / "server.pem"
    certificate.write_bytes(b"".join(authority.issue("coordinator", server=True)))
    ca = pem(authority.certificate).decode()
    wanted = served(stage, played, certificate, host="localhost")
    assert look(wanted, Fetcher(TIMEOUT, LARGEST, ca=ca)).problem is None
    assert problem(look(wanted, Fetcher(TIMEOUT, LARGEST))) == "NotTrusted"
    assert problem(look(wanted, Fetcher(TIMEOUT, LARGEST, ca=pem(Authority.new("other").certificate).decode()))) == "NotTrusted"
    assert look(wanted, Fetcher(TIMEOUT, LARGEST, verify=False)).problem is None
    other = replace(wanted, metrics_url=wanted.metrics_url.replace("localhost", "127.1"))
    assert problem(look(other, Fetcher(TIMEOUT, LARGEST, ca=ca))) == "NotTrusted", "the name has to fit, too"


def test_a_coordinator_that_fell_back_to_plain_http_is_named() -> None:
    def plain(peer: socket.socket) -> None:
        peer.recv(10_000)
        peer.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\nInvalid HTTP request received.")

    with talking(plain) as wanted:
        assert problem(look(replace(wanted, metrics_url=wanted.metrics_url.replace("http:", "https:")))) == "NoTls"


def test_an_http_error_tells_its_status_and_what_was_said(stage: Stage, played: Coordinator) -> None:
    played.models = False
    with pytest.raises(Unanswered, match=r"HTTP 503.*AIGW") as refused:
        Fetcher(TIMEOUT, LARGEST).fetch(served(stage, played).models_url)
    assert refused.value.status == 503


# --- many services ---


class There:
    """Services that a finder has found."""

    def __init__(self, *services: Service) -> None:
        self.found = list(services)
        self.changed = threading.Event()
        self.synced = True

    def services(self) -> list[Service]:
        return list(self.found)

    def pods(self, namespace: str) -> frozenset[str]:
        return PODS


@contextlib.contextmanager
def scraping(there: There, interval: float = 0.2) -> Iterator[Book]:
    book = Book(Limits(stale_after=60.0))
    crew = Crew(there, book, Fetcher(TIMEOUT, LARGEST), interval)  # type: ignore[arg-type]  # it is all that it asks of one
    crew.start()
    try:
        yield book
    finally:
        crew.stop()


def labels(role: str, name: str = "vllm-0") -> dict[str, str]:
    return {SERVICE_LABEL: name, SET_LABEL: "vllm", ROLE_LABEL: role}


def answer(book: Book, role: str = "prefill", name: str = "vllm-0") -> float | str:
    """The requests that wait, or why that is not known."""
    try:
        return book.value("chat", labels(role, name), "num_requests_waiting").value
    except NoValue as error:
        return error.reason


def test_a_service_that_does_not_answer_keeps_no_other_waiting(stage: Stage) -> None:
    coordinators = [Coordinator(lambda: ENDPOINTS, reuse=0.05) for dummy in range(12)]
    coordinators[0].loads = {"prefill": Load(waiting=7)}
    for silent in coordinators[1:]:
        silent.mood = moods.SILENT
    there = There(*(served(stage, one, name=f"vllm-{number}") for number, one in enumerate(coordinators)))
    with scraping(there) as book:
        wait_for(lambda: answer(book) == 7, 10, "the one that answers is read")
        before = {report.name: report.scrapes for report in book.services()}
        wait_for(lambda: all(answer(book, name=f"vllm-{number}") == "TooSlow" for number in range(1, 12)), 10, "the others are too slow")
        after = {report.name: report for report in book.services()}
        assert after["vllm-0"].scrapes >= before["vllm-0"] + 2 and not after["vllm-0"].failures
    for one in coordinators:
        stage.stop(one)


def test_services_come_change_and_go(stage: Stage, played: Coordinator) -> None:
    there = There()
    wanted = served(stage, played)
    with scraping(there) as book:
        wait_for(lambda: book.known, 10, "it is known that there are none")
        assert list(book.series("chat")) == []
        there.found = [wanted]
        there.changed.set()
        wait_for(lambda: answer(book) == 7, 10, "it is read")
        assert [dict(found) for found in book.series("chat")] == [labels("prefill"), labels("decode")] and not book.series("other")
        there.found = [replace(wanted, metrics_url="http://127.0.0.1:1/metrics")]
        there.changed.set()
        wait_for(lambda: book.services()[0].failures.get("Unreachable"), 10, "it is looked for where it is said to be now")
        assert answer(book) == 7, "it is the same service, and not stale yet"
        there.found = [replace(wanted, uid="2", metrics_url="http://127.0.0.1:1/metrics")]
        there.changed.set()
        wait_for(lambda: answer(book) in ("NotYet", "Unreachable"), 10, "another one of that name has no past")
        there.found = []
        there.changed.set()
        wait_for(lambda: answer(book) == "Gone", 10, "it is gone")
        assert list(book.series("chat")) == [] and book.services() == []


def test_before_services_are_known_there_is_an_error_and_not_nothing() -> None:
    book = Book(Limits())
    with pytest.raises(NoValue):
        book.series("chat")
    there = There()
    there.synced = False
    with scraping(there) as book:
        time.sleep(0.5)
        assert not book.known


def test_who_fails_is_asked_more_seldom(stage: Stage, played: Coordinator) -> None:
    failing = Coordinator(lambda: ENDPOINTS)
    failing.mood = moods.FAILING
    there = There(served(stage, played), served(stage, failing, name="vllm-1"))
    with scraping(there, interval=0.2):
        wait_for(lambda: len(played.asked) >= 16, 20, "the one is asked")
        assert 3 <= len(failing.asked) <= 10
    stage.stop(failing)


def test_values_have_the_time_of_day_and_reports_tell_how_it_goes(stage: Stage, played: Coordinator) -> None:
    with scraping(There(served(stage, played))) as book:
        wait_for(lambda: answer(book) == 7, 10, "it is read")
        found = book.value("chat", labels("prefill"), "kv_cache_usage_perc")
        assert abs(found.at - time.time()) < 5 and (found.instances, found.endpoints) == (2, 2)
        (report,) = book.services()
        assert report.namespace == "chat" and report.shown == {"prefill": (2, 2), "decode": (1, 1)} and not report.problems
        assert report.age is not None and 0 <= report.age < 5 and report.size > 10_000 and report.seconds < TIMEOUT
        played.failing = {"p0"}
        wait_for(lambda: "prefill" in book.services()[0].problems, 10, "an instance is missing")
        (report,) = book.services()
        assert report.problems["prefill"].reason == "Partial" and "decode" not in report.problems
        played.mood = moods.EMPTY
        wait_for(lambda: book.services()[0].failures.get("Empty"), 10, "the answer is empty")


def test_what_nobody_has_thought_of_ends_neither_the_looks_nor_the_search(
    stage: Stage, played: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = {"look": True, "search": True}
    look, services = Reader.look, There.services

    def may_look(self: Reader) -> Look:
        if broken["look"]:
            raise RuntimeError("nobody has thought of this")
        return look(self)

    def may_search(self: There) -> list[Service]:
        if broken["search"]:
            raise KeyError("name")
        return services(self)

    monkeypatch.setattr(Reader, "look", may_look)
    monkeypatch.setattr(There, "services", may_search)
    there = There(served(stage, played))
    with scraping(there) as book:
        time.sleep(0.3)
        assert not book.known
        broken["search"] = False
        there.changed.set()
        wait_for(lambda: book.known and answer(book) == "Unreadable", 10, "the look has failed")
        broken["look"] = False
        wait_for(lambda: answer(book) == 7.0, 10, "the looks go on")
