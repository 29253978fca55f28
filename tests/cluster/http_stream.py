# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The HTTP/1.1 that the fault proxy needs: requests, answers as streams, and refusals as an API server words them."""

from __future__ import annotations

import asyncio
import functools
import json
import re
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

LONGEST_HEAD = 1 << 20
_PATH = re.compile(
    r"^/(?:api/[^/]+|apis/(?P<group>[^/]+)/[^/]+)/(?:namespaces/(?P<namespace>[^/]+)/(?!(?:status|finalize)$))?(?P<rest>.+)$"
)
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass
class Request:
    """One request as the proxy saw it. Times are of the monotonic clock, in seconds; `status` 0 means that no answer came.

    `seconds` goes up to the newest part of the answer, or to the end of the exchange once it is no longer `open`.
    """

    method: str
    path: str
    query: dict[str, list[str]]
    user_agent: str = ""
    body: bytes = field(default=b"", repr=False)
    started: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    status: int = 0
    open: bool = True

    @property
    def kind_of_resource(self) -> str:
        """Plural and subresource, such as `pods` or `deployments/scale`; empty outside of resources (`/readyz`, `/apis`)."""
        plural, _name, subresource = self._parts
        return f"{plural}/{subresource}" if subresource else plural

    @property
    def name(self) -> str:
        """Name of the object; empty for lists and creations."""
        return self._parts[1]

    @property
    def namespace(self) -> str:
        """Namespace of the object, if it is in one."""
        found = _PATH.match(self.path)
        return (found["namespace"] or "") if found else ""

    @property
    def watch(self) -> bool:
        """Whether the answer is a stream of events."""
        return self.query.get("watch", ["false"])[0].lower() in ("1", "true")

    @property
    def dry_run(self) -> bool:
        """Whether the server is to try only: said in the query, or in the options that a DELETE carries."""
        if "dryRun" in self.query:
            return True
        try:
            options = json.loads(self.body) if self.method == "DELETE" and self.body else {}
        except ValueError:
            return False
        return bool(isinstance(options, dict) and options.get("dryRun"))

    @property
    def mutating(self) -> bool:
        """True when the request changes something: no dry run, and no question about rights or identity (kinds `...Review`)."""
        if self.method not in ("POST", "PUT", "PATCH", "DELETE") or self.dry_run:
            return False
        found = _PATH.match(self.path)
        return not (found and found["group"] in ("authorization.k8s.io", "authentication.k8s.io"))

    def fits(self, method: str, path: str) -> bool:
        """Whether regular expressions match: of the whole method (empty: any), and of a part of the path."""
        return bool((not method or re.fullmatch(method, self.method)) and re.search(path, self.path))

    def mark(self, *, end: bool = False) -> None:
        """A part of the answer is about to be passed on, or (`end`) the exchange is over."""
        self.seconds = time.monotonic() - self.started
        self.open = not end

    @property
    def _parts(self) -> tuple[str, str, str]:
        found = _PATH.match(self.path)
        plural, name, subresource = ([*found["rest"].split("/", 2), "", ""] if found else ["", "", ""])[:3]
        return plural, name, subresource


class Upstream:
    """The connection to the server, made when it is needed and made anew after the server closed it."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext) -> None:
        self._open = functools.partial(asyncio.open_connection, host, port, ssl=context, limit=LONGEST_HEAD)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, request: Request, raw: bytes) -> bytes:
        """Pass a request on; returns the head of the answer. The server sends it when it has done what it was asked."""
        if self._streams is None or self._streams[0].at_eof() or self._streams[1].is_closing():
            self.close()
            self._streams = await self._open()
        reader, writer = self._streams
        writer.write(raw)
        await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        request.status = int(head.split(b" ", 2)[1])
        return head

    async def body(self, request: Request, head: bytes) -> AsyncIterator[bytes]:
        """The rest of the answer in parts, as they stand on the wire."""
        assert self._streams
        reader = self._streams[0]
        if request.method == "HEAD" or request.status in (204, 304):
            return
        if _chunked(head):
            async for part in _chunks(reader):
                yield part
        elif _header(head, "content-length"):
            if length := int(_header(head, "content-length")):
                yield await reader.readexactly(length)
        else:
            while part := await reader.read(1 << 16):
                yield part
        if _header(head, "connection").lower() == "close":
            self.close()

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._streams:
            self._streams[1].close()
            self._streams = None


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[Request, bytes] | None:
    """The next request and its bytes; None when the client has closed the connection."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    if _header(head, "expect").lower() == "100-continue":
        head = re.sub(rb"(?im)^expect:.*\r\n", b"", head)
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    if _chunked(head):
        body = b"".join([part async for part in _chunks(reader)])
    else:
        body = await reader.readexactly(int(_header(head, "content-length") or 0))
    method, target, _version = head.split(b"\r\n", 1)[0].decode().split(" ")
    parts = urlsplit(target)
    query = parse_qs(parts.query, keep_blank_values=True)
    return Request(method, parts.path, query, _header(head, "user-agent"), body), head + body


async def answer(
    request: Request, writer: asyncio.StreamWriter, status: int, retry_after: int | None, headers: Mapping[str, str], *, plain: bool = False
) -> None:
    """Answer in the server's place with a Status.

    A watch from a version that is gone is answered as the API server does: 200, and one event that carries the Status; or `plain`,
    with the status itself, which it does, too.
    """
    retry_after = 1 if status == 429 and retry_after is None else retry_after
    body = json.dumps(_status(request, status, retry_after)).encode() + b"\n"
    if status == 410 and request.watch and not plain:
        status, body = 200, b'{"type":"ERROR","object":' + body.rstrip() + b"}\n"
    request.status = status
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    if retry_after is not None:
        lines.append(f"Retry-After: {retry_after}")
    lines += [f"{name}: {value}" for name, value in headers.items()]
    request.mark()
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    await writer.drain()


def _status(request: Request, status: int, retry_after: int | None) -> dict[str, Any]:
    reason = _REASONS.get(status, "Unknown")
    if status == 409 and request.method == "POST":
        reason = "AlreadyExists"
    details: dict[str, Any] = {"name": request.name, "kind": request.kind_of_resource}
    if retry_after is not None:
        details["retryAfterSeconds"] = retry_after
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f'{request.kind_of_resource} "{request.name}": {reason}, made so by a test',
        "reason": reason,
        "details": {key: value for key, value in details.items() if value},
        "code": status,
    }


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Chunks with their frames; trailers are not expected (neither Go's server nor urllib3 sends them)."""
    size = -1
    while size:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        yield line + await reader.readexactly(size + 2)


def _chunked(head: bytes) -> bool:
    return "chunked" in _header(head, "transfer-encoding").lower()


def _header(head: bytes, name: str) -> str:
    found = re.search(rb"(?im)^%s:[ \t]*(.*?)\r$" % name.encode(), head)
    return found[1].decode("latin-1") if found else ""
