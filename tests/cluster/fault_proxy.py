# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A proxy between client and API server that counts requests and makes things go wrong.

It speaks TLS on both sides: the client trusts an authority of the proxy, and the proxy verifies the API server. What the client says
(its token included) is passed on as it is; answers are passed on as they come, so watches stream.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from . import certificates
from .cluster import Cluster

BEFORE, AFTER = "before", "after"
LONGEST_HEAD = 1 << 20
REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}


@dataclass
class Request:
    """One request as the proxy saw it. Times are of the monotonic clock, in seconds; `status` 0 means that no answer came."""

    method: str
    path: str
    query: dict[str, list[str]]
    user_agent: str = ""
    started: float = 0.0
    seconds: float = 0.0
    status: int = 0

    @property
    def mutating(self) -> bool:
        """True when the request changes something: no dry run, and no question about one's own rights."""
        if self.method not in ("POST", "PUT", "PATCH", "DELETE") or "dryRun" in self.query:
            return False
        return not self.path.endswith("/selfsubjectaccessreviews")


@dataclass
class Fault:
    """What goes wrong with requests that match.

    `nth` counts the matching requests from 1 (0: all of them). One of: `status` answers with that status; `drop` closes the connection
    before the request is passed on, or after the server has done it; `delay` holds it back that many seconds; `cut` ends an answer after
    that many bytes; `silence` passes on that many bytes and then nothing more; `call` is called `before` or `after` the request.
    """

    method: str = ""
    path: str = ""
    nth: int = 0
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    drop: str = ""
    delay: float = 0.0
    cut: int | None = None
    silence: int | None = None
    call: Callable[[Request], None] | None = None
    when: str = BEFORE
    seen: int = 0

    def applies(self, request: Request) -> bool:
        """Whether this request is to go wrong; counts the matching ones."""
        if self.method and self.method != request.method:
            return False
        if not re.search(self.path, request.path):
            return False
        self.seen += 1
        return self.nth in (0, self.seen)


class FaultProxy:
    """Use as a context manager: `kubeconfig` leads through the proxy, `requests` is what came by since `clear`."""

    def __init__(self, cluster: Cluster, *, user: dict[str, str] | None = None) -> None:
        self._cluster = cluster
        self._user = user
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._requests: list[Request] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        self.latency = 0.0
        self.kubeconfig = ""
        target = urlsplit(cluster.url)
        self._target = (str(target.hostname), int(target.port or 443))
        self._to_server = ssl.create_default_context(cafile=str(cluster.ca_file))

    def __enter__(self) -> Self:
        authority = certificates.Authority.new("authority-of-the-proxy")
        context = self._own_certificate(authority)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(context), self._loop).result(10)
        port = self._server.sockets[0].getsockname()[1]
        url, ca = f"https://127.0.0.1:{port}", certificates.pem(authority.certificate)
        self.kubeconfig = self._cluster.write_kubeconfig(f"kubeconfig-proxy-{port}", server=url, ca=ca, user=self._user)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
        Path(self.kubeconfig).unlink(missing_ok=True)

    @property
    def requests(self) -> list[Request]:
        """All requests since `clear`, in the order in which they arrived."""
        with self._lock:
            return list(self._requests)

    def mutating(self) -> list[Request]:
        """Those requests that change something."""
        return [request for request in self.requests if request.mutating]

    def clear(self) -> None:
        """Forget the requests (faults stay)."""
        with self._lock:
            self._requests.clear()

    def fault(self, **settings: Any) -> Fault:
        """Add a fault; see `Fault` for what it can be. Returns it, so that `seen` can be looked at."""
        fault = Fault(**settings)
        self._faults.append(fault)
        return fault

    def heal(self) -> None:
        """Take all faults away."""
        self._faults.clear()

    def _own_certificate(self, authority: certificates.Authority) -> ssl.SSLContext:
        certificate, key = authority.issue("fault-proxy", server=True)
        file = self._cluster.directory / f"fault-proxy-{id(self)}.pem"
        file.touch(mode=0o600)
        file.write_bytes(certificate + key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        file.unlink()
        return context

    async def _listen(self, context: ssl.SSLContext) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context, limit=LONGEST_HEAD)

    async def _close(self) -> None:
        if self._server:
            self._server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a client, with one connection to the server behind it."""
        upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        try:
            while head := await _head(reader):
                request, raw = _parse(head)
                body = await reader.readexactly(_length(head))
                with self._lock:
                    self._requests.append(request)
                if upstream is None or upstream[1].is_closing():
                    upstream = await asyncio.open_connection(*self._target, ssl=self._to_server, limit=LONGEST_HEAD)
                if not await self._exchange(request, raw + body, upstream, writer):
                    return
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, asyncio.CancelledError):
            pass  # one side (or the proxy) goes away: so does the other
        finally:
            for side in (writer, upstream[1] if upstream else None):
                if side:
                    side.close()

    async def _exchange(
        self, request: Request, raw: bytes, upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter], writer: asyncio.StreamWriter
    ) -> bool:
        """Pass one request on and its answer back; False when the connection has to end."""
        faults = [fault for fault in self._faults if fault.applies(request)]
        await asyncio.sleep(self.latency + sum(fault.delay for fault in faults))
        await self._call(faults, request, BEFORE)
        if any(fault.drop == BEFORE for fault in faults):
            return False
        for fault in faults:
            if fault.status:
                return await _answer(request, fault, writer)
        upstream[1].write(raw)
        await upstream[1].drain()
        if any(fault.drop == AFTER for fault in faults):
            await _Answer(request, upstream[0]).read_all()
            return False
        limits = [limit for fault in faults for limit in (fault.cut, fault.silence) if limit is not None]
        alive = await _Answer(request, upstream[0]).relay(writer, min(limits, default=None))
        if any(fault.silence is not None for fault in faults):
            await asyncio.Event().wait()
        await self._call(faults, request, AFTER)
        return alive

    async def _call(self, faults: list[Fault], request: Request, when: str) -> None:
        for fault in faults:
            if fault.call and fault.when == when:
                await asyncio.get_running_loop().run_in_executor(None, fault.call, request)


class _Answer:
    """The server's answer, passed on as it comes: with a length, in chunks, or without a body."""

    def __init__(self, request: Request, reader: asyncio.StreamReader) -> None:
        self._request, self._reader = request, reader

    async def relay(self, writer: asyncio.StreamWriter, limit: int | None) -> bool:
        """Pass the answer on, `limit` bytes of the body at most; False when it was not passed on whole."""
        left = limit
        async for part, counts in self._parts():
            if left is not None and counts:
                part = part[:left]
                left -= len(part)
            writer.write(part)
            await writer.drain()
            if left == 0:
                return False
        return True

    async def read_all(self) -> None:
        """Read the answer and throw it away."""
        async for _part in self._parts():
            pass

    async def _parts(self) -> Any:
        head = await _head(self._reader)
        self._request.status = int(head.split(b" ", 2)[1])
        yield head, False
        if re.search(rb"(?im)^transfer-encoding:.*chunked", head):
            while True:
                line = await self._reader.readuntil(b"\r\n")
                size = int(line.split(b";")[0], 16)
                yield line + await self._reader.readexactly(size + 2), True
                if size == 0:
                    break
        elif length := _length(head):
            yield await self._reader.readexactly(length), True
        self._request.seconds = time.monotonic() - self._request.started


async def _head(reader: asyncio.StreamReader) -> bytes:
    """Everything up to the blank line, or nothing at the end of the connection."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return b""


def _parse(head: bytes) -> tuple[Request, bytes]:
    method, target, _version = head.split(b"\r\n", 1)[0].decode().split(" ")
    parts = urlsplit(target)
    agent = re.search(rb"(?im)^user-agent:\s*(.*?)\r$", head)
    query = parse_qs(parts.query, keep_blank_values=True)
    return Request(method, parts.path, query, agent[1].decode() if agent else "", time.monotonic()), head


def _length(head: bytes) -> int:
    found = re.search(rb"(?im)^content-length:\s*(\d+)", head)
    return int(found[1]) if found else 0


async def _answer(request: Request, fault: Fault, writer: asyncio.StreamWriter) -> bool:
    """Answer in the server's place with a Status object."""
    request.status, reason = fault.status, REASONS.get(fault.status, "Unknown")
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"made so by a test: {reason}",
        "reason": reason,
        "details": {"name": request.path.rsplit("/", 1)[-1]},
        "code": fault.status,
    }
    body = json.dumps(status).encode()
    lines = [f"HTTP/1.1 {fault.status} {reason}", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in fault.headers.items()]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    await writer.drain()
    return True
