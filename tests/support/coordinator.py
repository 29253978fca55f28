# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server in the place of the coordinator of a service: metrics, models, readiness, and completions that take their time.

It is reached at the live coordinator pod, by the pod's annotation, as in a cluster. One `Stage` plays any number of services in one
thread. The engines that it tells of are the live engine pods; tests set what these are doing, and how the coordinator behaves.

As the real one it collects once in a while and serves what the last collection has found (here a collection takes place when somebody
asks and it is time), one endpoint that does not answer hides its whole instance, and "nothing" is an empty answer with status 200.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from tests.cluster.infer_operator.objects import INSTANCE_INDEX, ROLE_NAME, SERVICE_NAME
from tests.cluster.kube_client import Obj

from .engines import ENGINE_ROLES, MODEL, VIEWS, Endpoint, Engine, Load, Shown, shown, write

INFERENCE, MANAGEMENT, METRICS = 1025, 1026, 1027
PORTS = (INFERENCE, MANAGEMENT, METRICS)
# How a coordinator may answer when asked for metrics.
FINE, FROZEN, EMPTY, GARBAGE, TRUNCATED, CUT, HUGE, ENDLESS, SILENT, FAILING, MOVED, SLOW = (
    "fine",
    "frozen",  # what was collected last, for ever
    "empty",
    "garbage",
    "truncated",  # the text ends within a line
    "cut",  # the connection ends before the answer does
    "huge",  # more than anybody should read, told beforehand
    "endless",  # more than anybody should read, never told
    "silent",  # no answer
    "failing",  # status 500
    "moved",  # somewhere else, which must not be followed
    "slow",  # byte by byte
)
_MUCH = 1 << 34
_DEPLOYMENT = re.compile(r"[a-z]+-([pdu])\d+")

Answer = tuple[int, str, bytes]


class Coordinator:
    """The coordinator of one service. Fields are set by tests at any time, from any thread.

    `loads` is what an engine role does as a whole, `pods` what one pod does instead; `failing` are pods (or pairs of pod and
    rank) whose endpoints do not answer; `mood` is how it answers; `delay` (seconds) comes before each answer; `routable` tells which
    instances it counts in models (all, when None), `models` whether it does. `slots` (per engine instance of decode or union) and `seconds`
    are how many completions run at once, and for how long; what does not run waits.
    """

    def __init__(self, endpoints: Callable[[], Iterable[Endpoint]], *, reuse: float = 1.0) -> None:
        self._endpoints, self.reuse = endpoints, reuse
        self.loads: dict[str, Load] = {}
        self.pods: dict[str, Load] = {}
        self.failing: set[str | tuple[str, int]] = set()
        self.mood = FINE
        self.delay = 0.0
        self.models = True
        self.routable: Callable[[Endpoint], bool] | None = None
        self.slots, self.seconds = 4, 1.0
        self.asked: list[str] = []
        self.collections = 0
        self.running = 0
        self._line: list[object] = []
        self._engines: dict[Endpoint, Engine] = {}
        self._ids: dict[tuple[str, str], int] = {}
        self._rows: list[Shown] = []
        self._texts: dict[tuple[str, str], str] = {}
        self._collected = -1e9
        self._known: tuple[Endpoint, ...] = ()
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """Completions that wait for a slot."""
        return len(self._line)

    def engines(self) -> list[Engine]:
        """Those of the last collection."""
        return [self._engines[endpoint] for endpoint in self._known]

    def collect(self) -> None:
        """Collect, if it is time and nothing hinders it."""
        with self._lock:
            now = time.monotonic()
            if self.mood == FROZEN or now - self._collected < self.reuse:
                return
            since, self._collected = now - self._collected, now
            self._known = tuple(self._endpoints())
            self._advance(since if since < 1e6 else 0.0)
            hidden = {endpoint.instance for endpoint in self._known if {endpoint.pod, (endpoint.pod, endpoint.rank)} & self.failing}
            self._rows = [
                shown(self._engines[endpoint], self._number(endpoint)) for endpoint in self._known if endpoint.instance not in hidden
            ]
            self.collections += 1
            self._texts.clear()

    def _advance(self, seconds: float) -> None:
        for endpoint in self._engines.keys() - set(self._known):
            del self._engines[endpoint]
        by_role = {role: [endpoint for endpoint in self._known if endpoint.engine_role == role] for role in ENGINE_ROLES}
        for role, members in by_role.items():
            whole = self.loads.get(role) or self._of_requests(role, len(members))
            for index, endpoint in enumerate(members):
                engine = self._engines.setdefault(endpoint, Engine(endpoint))
                engine.advance(seconds, self.pods.get(endpoint.pod) or whole.part(index, len(members)))

    def _of_requests(self, role: str, members: int) -> Load:
        """What completions that are being made mean for an engine role."""
        if role not in ("decode", "union") or not members:
            return Load()
        share = min(1.0, self.running / (self.slots * members))
        return Load(self.waiting, self.running, share, self.running / self.seconds)

    def _number(self, endpoint: Endpoint) -> int:
        return self._ids.setdefault((endpoint.engine_role, endpoint.instance), len(self._ids) + 1)

    def metrics(self, view: str = "dp", engine_role: str = "") -> str:
        """The text of a view of the last collection, whatever the mood."""
        self.collect()
        view = view if view in VIEWS else "full"
        if (view, engine_role) not in self._texts:
            departed = len(self._ids) - len({endpoint.instance for endpoint in self._known})
            self._texts[view, engine_role] = write(self._rows, view, engine_role, departed)
        return self._texts[view, engine_role]

    def counts(self) -> dict[str, int]:
        """The instances of each engine role that it routes to."""
        self.collect()
        found = {(endpoint.engine_role, endpoint.instance) for endpoint in self._known if self.routable is None or self.routable(endpoint)}
        return {role: sum(engine_role == role for engine_role, dummy in found) for role in ENGINE_ROLES}

    def answer(self, port: int, target: str) -> Answer:
        """Status, type and body of a GET."""
        url = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        if (port, url.path) == (METRICS, "/metrics"):
            return 200, "text/plain; charset=utf-8", self.metrics(query.get("type", "full"), query.get("role", "")).encode()
        if (port, url.path) == (METRICS, "/health"):
            return _json(200, {"status": "ok", "timestamp": time.time()})
        if (port, url.path) == (METRICS, "/instance/metrics"):
            return _json(410, {"detail": "Gone"})
        if (port, url.path) == (INFERENCE, "/v1/models"):
            return self._models()
        if (port, url.path) == (MANAGEMENT, "/readiness"):
            counts = self.counts()
            return _json(200, {"status": "ok", "message": "Coordinator is ok", "ready": bool(counts["prefill"] or counts["union"])})
        return _json(404, {"detail": "Not Found"})

    def _models(self) -> Answer:
        counts = self.counts()
        if not self.models or counts["union"]:
            return _json(503, {"detail": "AIGW model configuration is not available. Please configure aigw in user_config.json."})
        model = {"id": MODEL, "object": "model", "p_instances_num": counts["prefill"], "d_instances_num": counts["decode"]}
        return _json(200, {"object": "list", "data": [model]})

    async def complete(self, body: bytes) -> Answer:
        """One completion: it waits for a free slot, first come, first served, and runs for its seconds."""
        counts = self.counts()
        if not counts["prefill"] + counts["union"]:
            return _json(503, {"detail": "Service is not available"})
        asked = json.loads(body or b"{}")
        place = object()
        self._line.append(place)
        try:
            while self._line[0] is not place or self.running >= self.slots * (counts["decode"] + counts["union"]):
                await asyncio.sleep(0.02)
                counts = self.counts()
        finally:
            self._line.remove(place)
        self.running += 1
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.running -= 1
        message = {"role": "assistant", "content": "done"}
        choice = {"index": 0, "message": message, "text": "done", "finish_reason": "stop"}
        usage = {"prompt_tokens": 1000, "completion_tokens": 200, "total_tokens": 1200}
        return _json(200, {"id": "cmpl-1", "model": asked.get("model"), "choices": [choice], "usage": usage})


def endpoints_of(pods: Iterable[Obj], ranks: int = 1) -> list[Endpoint]:
    """The endpoints of engine pods, so many for each; a pod that is not ready is loading, and has none yet."""
    found = []
    for pod in pods:
        where, name = _instance(pod)
        conditions = {row["type"]: row["status"] for row in pod.get("status", {}).get("conditions") or ()}
        if where and conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]:
            address = pod["status"]["podIP"]
            found += [Endpoint(where, name, pod["metadata"]["name"], address, rank) for rank in range(ranks)]
    return sorted(found, key=lambda endpoint: (endpoint.engine_role, endpoint.instance, endpoint.pod, endpoint.rank))


def _instance(pod: Obj) -> tuple[str, str]:
    """Engine role and name of the instance that a pod is of; empty for pods of other kinds."""
    labels = pod["metadata"].get("labels") or {}
    role = labels.get(ROLE_NAME, "")
    if role in ENGINE_ROLES:
        return role, f"{labels[SERVICE_NAME]}-{role}-{labels[INSTANCE_INDEX]}"
    found = _DEPLOYMENT.fullmatch(labels.get("app", ""))
    return (next(role for role in ENGINE_ROLES if role[0] == found[1]), found[0]) if found and not role else ("", "")


def _json(status: int, content: Any) -> Answer:
    return status, "application/json", json.dumps(content).encode()


class Stage:
    """Plays coordinators, each at ports of its own on 127.0.0.1, in a thread of its own. Use as a context manager."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="coordinators", daemon=True)
        self._servers: dict[Coordinator, list[asyncio.Server]] = {}
        self._ports: dict[Coordinator, dict[int, int]] = {}
        self._contexts: dict[Coordinator, ssl.SSLContext | None] = {}
        self._open: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for coordinator in list(self._servers):
            self.stop(coordinator)
        self._wait(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def play(self, coordinator: Coordinator, certificate: Path | None = None) -> str:
        """Serve a coordinator, by TLS with a certificate; returns what the annotation of its pod has to say."""
        context = None
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
        self._contexts[coordinator] = context
        self._ports[coordinator] = dict.fromkeys(PORTS, 0)
        self.start(coordinator)
        return ",".join(f"{port}=127.0.0.1:{found}" for port, found in self._ports[coordinator].items())

    def stop(self, coordinator: Coordinator) -> None:
        """Its process has ended: nothing listens at its ports."""
        for server in self._servers.pop(coordinator, []):
            self._loop.call_soon_threadsafe(server.close)
        self._wait(self._hang_up(coordinator))

    def start(self, coordinator: Coordinator) -> None:
        """It listens again, at the same ports."""
        self._servers[coordinator] = [self._wait(self._listen(coordinator, port)) for port in PORTS]

    def _wait(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _listen(self, coordinator: Coordinator, port: int) -> asyncio.Server:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task
            task.set_name(str(id(coordinator)))
            self._open.add(task)
            try:
                with contextlib.suppress(asyncio.CancelledError):
                    await _serve(coordinator, port, reader, writer)
            finally:
                self._open.discard(task)
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", self._ports[coordinator][port], ssl=self._contexts[coordinator])
        self._ports[coordinator][port] = server.sockets[0].getsockname()[1]
        return server

    async def _hang_up(self, coordinator: Coordinator) -> None:
        for task in [task for task in self._open if task.get_name() == str(id(coordinator))]:
            task.cancel()

    async def _end(self) -> None:
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)


async def _serve(coordinator: Coordinator, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ssl.SSLError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, target, dummy = head[0].split(" ")
            headers = {name.lower(): value.strip() for name, dummy, value in (line.partition(":") for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            if coordinator.delay:
                await asyncio.sleep(coordinator.delay)
            if (port, method) == (METRICS, "GET") and target.startswith("/metrics"):
                coordinator.asked.append(target)
                await _MOODS[coordinator.mood](coordinator, target, writer)
            elif (port, method) == (INFERENCE, "POST"):
                _send(writer, *await coordinator.complete(body))
            elif method == "GET":
                _send(writer, *coordinator.answer(port, target))
            else:
                _send(writer, *_json(405, {"detail": "Method Not Allowed"}))
            await writer.drain()
            if headers.get("connection", "").lower() == "close":
                return


def _send(writer: asyncio.StreamWriter, status: int, kind: str, body: bytes, length: int | None = None, more: str = "") -> None:
    head = f"HTTP/1.1 {status} Answer\r\nContent-Type: {kind}\r\nContent-Length: {len(body) if length is None else length}\r\n{more}\r\n"
    writer.write(head.encode() + body)


async def _fine(coordinator: Coordinator, target: str, writer: asyncio.StreamWriter) -> None:
    _send(writer, *coordinator.answer(METRICS, target))


def _instead(change: Callable[[bytes], Answer]) -> Callable[..., Awaitable[None]]:
    async def answer(coordinator: Coordinator, target: str, writer: asyncio.StreamWriter) -> None:
        _send(writer, *change(coordinator.answer(METRICS, target)[2]))

    return answer


async def _cut(coordinator: Coordinator, target: str, writer: asyncio.StreamWriter) -> None:
    status, kind, body = coordinator.answer(METRICS, target)
    _send(writer, status, kind, body[: len(body) // 2], len(body))
    await writer.drain()
    raise ConnectionResetError


async def _much(writer: asyncio.StreamWriter, length: int | None) -> None:
    told = f"Content-Length: {length}" if length else "Connection: close"
    writer.write(f"HTTP/1.1 200 Answer\r\nContent-Type: text/plain\r\n{told}\r\n\r\n".encode())
    for number in range(_MUCH):
        writer.write(
            f'vllm:num_requests_waiting{{dp_rank="0",role="decode",instance_id="{number}",pod_ip="10.0.0.1"}} 0.0\n'.encode() * 500
        )
        await writer.drain()


async def _huge(coordinator: Coordinator, target: str, writer: asyncio.StreamWriter) -> None:
    await _much(writer, _MUCH)


async def _endless(coordinator: Coordinator, target: str, writer: asyncio.StreamWriter) -> None:
    await _much(writer, None)


async def _silent(coordinator: Coordinator, target: str, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(3600)


async def _slow(coordinator: Coordinator, target: str, writer: asyncio.StreamWriter) -> None:
    status, kind, body = coordinator.answer(METRICS, target)
    _send(writer, status, kind, b"", len(body))
    for byte in body:
        writer.write(bytes((byte,)))
        await writer.drain()
        await asyncio.sleep(0.2)


async def _moved(coordinator: Coordinator, target: str, writer: asyncio.StreamWriter) -> None:
    _send(writer, 302, "text/plain", b"", more="Location: http://127.0.0.1:1/metrics\r\n")


_MOODS: dict[str, Callable[[Coordinator, str, asyncio.StreamWriter], Awaitable[None]]] = {
    FINE: _fine,
    FROZEN: _fine,
    EMPTY: _instead(lambda dummy: (200, "text/plain", b"")),
    GARBAGE: _instead(lambda dummy: (200, "text/plain", b"\x00\xff<html>" + bytes(range(256)) * 64)),
    TRUNCATED: _instead(lambda body: (200, "text/plain", body[: len(body) * 2 // 3])),
    CUT: _cut,
    HUGE: _huge,
    ENDLESS: _endless,
    SILENT: _silent,
    FAILING: _instead(lambda dummy: (500, "application/json", b'{"detail":"Internal Server Error"}')),
    MOVED: _moved,
    SLOW: _slow,
}
