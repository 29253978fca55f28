# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A proxy between client and API server that counts requests and makes things go wrong.

It speaks TLS on both sides: the client trusts an authority of the proxy, and the proxy verifies the API server. What the client says
(its token included) is passed on as it is; answers are passed on as they come, so watches stream. HTTP/1.1 without upgrades, so
`exec` and `port-forward` do not work through it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import yaml

from . import certificates, http_stream
from .cluster import Cluster
from .http_stream import Request

BEFORE, AFTER = "before", "after"

__all__ = ["AFTER", "BEFORE", "Fault", "FaultProxy", "Request"]


@dataclass
class Fault:
    """What goes wrong with requests that match, and which requests these are.

    `method` and `path` are regular expressions (the first for the whole method, the second for any part of the path); `watch` and
    `mutating`, unless None, ask for requests that are or are not so. `nth` counts the matching requests from 1 (0: all of them);
    `since` is the number of the first one from which on all of them go wrong.

    One of: `status` answers with that status in the server's place (`retry_after` in seconds; 1 for 429; a watch's 410 comes as an
    event, unless `plain`); `drop` closes the connection
    `before` the request is passed on, or `after` the server has done it; `delay` holds it back that many seconds; `cut` ends an answer
    after that many bytes of its body; `silence` passes on that many bytes and then nothing more; `lose` keeps back the parts of a streamed
    answer that contain this text, such as the events of a watch that say `"type":"DELETED"`; `call` is called with the request
    `before` it is passed on or (`when`) `after` the server has answered, and the client learns nothing until it returns.
    `call` goes with `drop`: to end a client at a request, kill it in the call and drop what it sent.
    """

    method: str = ""
    path: str = ""
    watch: bool | None = None
    mutating: bool | None = None
    nth: int = 0
    since: int = 0
    status: int = 0
    retry_after: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    plain: bool = False
    drop: str = ""
    delay: float = 0.0
    cut: int | None = None
    silence: int | None = None
    lose: str = ""
    call: Callable[[Request], None] | None = None
    when: str = BEFORE
    seen: int = 0

    def __post_init__(self) -> None:
        if self.drop not in ("", BEFORE, AFTER) or self.when not in (BEFORE, AFTER):
            raise ValueError(f"neither {BEFORE!r} nor {AFTER!r}: {self.drop!r}, {self.when!r}")

    def applies(self, request: Request) -> bool:
        """Whether this request is to go wrong; counts the matching ones."""
        if not request.fits(self.method, self.path):
            return False
        if self.watch not in (None, request.watch) or self.mutating not in (None, request.mutating):
            return False
        self.seen += 1
        return self.seen >= self.since and self.nth in (0, self.seen)


class FaultProxy:
    """Use as a context manager: `kubeconfig` leads through the proxy, `requests` is what came by since `clear`.

    The user is the administrator, or that of another kubeconfig. A token goes through the proxy; a client certificate cannot, so the
    proxy itself shows it to the server. `latency` (seconds) is added to each request. What a fault's `call` raises is raised at the end.
    """

    def __init__(self, cluster: Cluster, *, kubeconfig: str | Path | None = None) -> None:
        self._cluster = cluster
        self._user = _user(kubeconfig or cluster.kubeconfig)
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._requests: list[Request] = []
        self._watches: set[asyncio.Future[bool]] = set()
        self._failures: list[BaseException] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)
        self._server: asyncio.Server | None = None
        self.latency = 0.0
        self.kubeconfig = ""
        target = urlsplit(cluster.url)
        self._target = (str(target.hostname), int(target.port or 443))
        self._to_server = ssl.create_default_context(cafile=str(cluster.ca_file))

    def __enter__(self) -> Self:
        authority = certificates.Authority.new("authority-of-the-proxy")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._load(context, *authority.issue("fault-proxy", server=True))
        token = self._show_certificate()
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(context), self._loop).result(10)
        port = self._server.sockets[0].getsockname()[1]
        url, ca = f"https://127.0.0.1:{port}", certificates.pem(authority.certificate)
        self.kubeconfig = self._cluster.write_kubeconfig(f"kubeconfig-proxy-{port}", server=url, ca=ca, user=token)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
        Path(self.kubeconfig).unlink(missing_ok=True)
        if self._failures and kind is None:
            raise self._failures[0]

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

    def cut_watches(self) -> int:
        """Close the connections of all watches that are open now; returns how many there were."""
        return asyncio.run_coroutine_threadsafe(self._cut_watches(), self._loop).result(10)

    def _load(self, context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
        file = self._cluster.directory / f"fault-proxy-{id(self)}.pem"
        file.touch(mode=0o600)
        file.write_bytes(certificate + key)
        context.load_cert_chain(file)
        file.unlink()

    def _show_certificate(self) -> dict[str, str]:
        """Take the user's client certificate, if there is one, for the side of the server; returns what is left for the client's."""
        if "client-certificate-data" not in self._user:
            return dict(self._user)
        certificate, key = (base64.b64decode(self._user[f"client-{part}-data"]) for part in ("certificate", "key"))
        self._load(self._to_server, certificate, key)
        return {name: value for name, value in self._user.items() if not name.startswith("client-")}

    async def _listen(self, context: ssl.SSLContext) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context, limit=http_stream.LONGEST_HEAD)

    async def _close(self) -> None:
        if self._server:
            self._server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _cut_watches(self) -> int:
        watches = list(self._watches)
        for watch in watches:
            watch.cancel()
        return len(watches)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a client, with one connection to the server behind it."""
        upstream = http_stream.Upstream(*self._target, self._to_server)
        gone = asyncio.ensure_future(_gone(writer))
        try:
            while received := await http_stream.read_request(reader, writer):
                request, raw = received
                with self._lock:
                    self._requests.append(request)
                if not await self._exchange(request, raw, upstream, writer, gone):
                    return
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, asyncio.CancelledError):
            pass  # one side (or the proxy) goes away: so does the other
        finally:
            gone.cancel()
            upstream.close()
            writer.close()

    async def _exchange(
        self, request: Request, raw: bytes, upstream: http_stream.Upstream, writer: asyncio.StreamWriter, gone: asyncio.Future[None]
    ) -> bool:
        """Pass one request on and its answer back; False when the connection has to end."""
        faults = [fault for fault in list(self._faults) if fault.applies(request)]
        try:
            await asyncio.sleep(self.latency + sum(fault.delay for fault in faults))
            await self._call(faults, request, BEFORE)
            if any(fault.drop == BEFORE for fault in faults):
                return False
            for fault in faults:
                if fault.status:
                    await http_stream.answer(request, writer, fault.status, fault.retry_after, fault.headers, plain=fault.plain)
                    return True
            head = await upstream.send(request, raw)
            await self._call(faults, request, AFTER)
            if any(fault.drop == AFTER for fault in faults):
                return False
            return await self._until_gone(request, self._relay(request, head, faults, upstream, writer), gone)
        finally:
            request.mark(end=True)

    async def _until_gone(self, request: Request, relay: Any, gone: asyncio.Future[None]) -> bool:
        """Pass an answer on while the client is there: a watch whose client has gone would stay open for minutes."""
        task: asyncio.Future[bool] = asyncio.ensure_future(relay)
        if request.watch:
            self._watches.add(task)
        try:
            both: set[asyncio.Future[Any]] = {task, gone}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if task.done() and not task.cancelled():
                return task.result()
            task.cancel()
            return False
        finally:
            self._watches.discard(task)

    async def _relay(
        self, request: Request, head: bytes, faults: list[Fault], upstream: http_stream.Upstream, writer: asyncio.StreamWriter
    ) -> bool:
        """Pass an answer on as it comes; False when it is not passed on whole."""
        limits = [limit for fault in faults for limit in (fault.cut, fault.silence) if limit is not None]
        left = min(limits, default=None)
        lost = [fault.lose.encode() for fault in faults if fault.lose]
        request.mark()
        writer.write(head)
        await writer.drain()
        if left != 0:
            async for part in upstream.body(request, head):
                if any(text in part for text in lost):
                    continue
                part = part[:left]
                request.mark()
                writer.write(part)
                await writer.drain()
                if left is not None:
                    left -= len(part)
                    if not left:
                        break
        if left == 0 and any(fault.silence is not None for fault in faults):
            await asyncio.Event().wait()
        return left != 0

    async def _call(self, faults: list[Fault], request: Request, when: str) -> None:
        for fault in faults:
            if fault.call and fault.when == when:
                try:
                    await asyncio.get_running_loop().run_in_executor(None, fault.call, request)
                except Exception as error:
                    self._failures.append(error)


async def _gone(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def _user(kubeconfig: str | Path) -> Mapping[str, str]:
    """The user of a kubeconfig's current context."""
    config = yaml.safe_load(Path(kubeconfig).read_text(encoding="utf-8"))
    context = next(row["context"] for row in config["contexts"] if row["name"] == config["current-context"])
    user: Mapping[str, str] = next(row["user"] for row in config["users"] if row["name"] == context["user"])
    return user
