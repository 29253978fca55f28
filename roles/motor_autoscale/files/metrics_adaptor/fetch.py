# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One HTTP answer, within a time-out that holds for all of it and a size that it may not exceed."""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import time
import urllib.error
import urllib.request
from email.message import Message
from typing import IO, Any

from ansible_collections.ascend.mindie.plugins.module_utils._motor.load import NoValue

_BLOCK = 65536
# What a TLS client says when somebody answers in plain text.
_PLAIN = "WRONG_VERSION_NUMBER"
_QUOTED = 120


class Unanswered(NoValue):
    """No answer that could be used; `status` is that of HTTP, 0 without one."""

    def __init__(self, reason: str, message: str, status: int = 0) -> None:
        super().__init__(reason, message)
        self.status = status


class Fetcher:
    """Fetches through the proxies of the environment. Thread-safe. `ca` (PEM) is trusted instead of the system's; without `verify` anybody."""

    def __init__(self, timeout: float, largest: int, *, verify: bool = True, ca: str = "") -> None:
        self._timeout, self.largest = timeout, largest
        context = ssl.create_default_context(cadata=ca or None)
        if not verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        self._opener = urllib.request.build_opener(_NoRedirects(), _Handler(), _TlsHandler(context))

    def fetch(self, url: str) -> bytes:
        """The body of the answer 200 to a GET. Raises Unanswered."""
        request = urllib.request.Request(url, headers={"Accept": "*/*", "User-Agent": "mindie-metrics-adaptor"})
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                return self._body(url, answer)
        except urllib.error.HTTPError as error:
            with error:
                said = _start(error)
            raise Unanswered("HttpError", f"{url} answers HTTP {error.code} {said}".rstrip(), error.code) from None
        except TimeoutError:
            raise self._slow(url) from None
        except urllib.error.URLError as error:
            if isinstance(error.reason, TimeoutError):
                raise self._slow(url) from None
            raise _unreachable(url, error.reason) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _unreachable(url, error) from None

    def _body(self, url: str, answer: Any) -> bytes:
        blocks, size = [], 0
        while size + (answer.length or 0) <= self.largest and (block := answer.read(_BLOCK)):
            blocks.append(block)
            size += len(block)
        if size + (answer.length or 0) > self.largest:
            raise Unanswered("TooLarge", f"{url} answers with more than {self.largest} bytes")
        if answer.length:
            raise Unanswered("Truncated", f"the answer of {url} ended {answer.length} bytes early")
        return b"".join(blocks)

    def _slow(self, url: str) -> Unanswered:
        return Unanswered("TooSlow", f"{url} did not answer in full within {self._timeout:g} s")


def _start(answer: IO[bytes]) -> str:
    """How an error goes on, as far as it says anything."""
    try:
        return " ".join(answer.read(_QUOTED).decode("utf-8", "replace").split())
    except (OSError, http.client.HTTPException):
        return ""


def _unreachable(url: str, error: object) -> Unanswered:
    if isinstance(error, ssl.SSLError) and _PLAIN in str(error):
        words = "does not speak TLS, which the user config switches on: without good certificates the coordinator falls back to plain HTTP"
        return Unanswered("NoTls", f"{url} {words}")
    if isinstance(error, ssl.SSLCertVerificationError):
        return Unanswered("NotTrusted", f"{url} shows a certificate that is not trusted: {error.verify_message}")
    return Unanswered("Unreachable", f"{url} cannot be read: {error or type(error).__name__}")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A coordinator sends nobody elsewhere; whoever does so is none."""

    def redirect_request(self, req: Any, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str) -> None:
        """Never."""


class _UntilDeadline(io.RawIOBase):
    """Reads a socket until a deadline, however little each read brings."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, deadline: float) -> None:
        self._raw, self._sock, self._deadline = raw, sock, deadline

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """What there is; TimeoutError at the deadline."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        """Close the socket, too."""
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, deadline: float, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp = io.BufferedReader(_UntilDeadline(self.fp.detach(), sock, deadline))


class _Connection(http.client.HTTPConnection):
    """Its time-out is that of everything from the connection to the last byte of the answer."""

    def __init__(self, host: str, port: int | None = None, **options: Any) -> None:
        super().__init__(host, port, **options)
        deadline = time.monotonic() + (self.timeout or 0)

        def response(sock: socket.socket, *args: Any, **options: Any) -> _Response:
            return _Response(sock, *args, deadline=deadline, **options)

        self.response_class = response  # type: ignore[assignment]  # called in one way only, and not made a subclass of


class _TlsConnection(_Connection, http.client.HTTPSConnection):
    pass


class _Handler(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_Connection, req)


class _TlsHandler(urllib.request.HTTPSHandler):
    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._trust = context

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_TlsConnection, req, context=self._trust)
