# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How requests are sent: over urllib3's connections, with the address, certificates, token and headers of whoever sends."""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from . import fence as fences
from .api import Response, TransportError

try:
    from urllib3 import Timeout
    from urllib3.exceptions import ClosedPoolError, HTTPError, MaxRetryError, ReadTimeoutError, SSLError
except ImportError:
    pass  # AnsibleK8SModule reports the missing library kubernetes, which brings urllib3, before any of these is used

CHUNK_BYTES = 65536


class Sender:
    """Sends requests as `api.Transport` wants it.

    `headers` is asked for each request, so that a token may change. Nothing is sent twice here, and each write passes its fence
    once more when its bytes go to the socket.
    """

    def __init__(self, pools: Any, host: str, headers: Callable[[], Mapping[str, str]]) -> None:
        self._pools, self._host, self._headers = pools, host, headers
        fences.install(pools)

    @classmethod
    def of(cls, api_client: Any) -> Sender:
        """Sends as a kubernetes.client.ApiClient does.

        Its `call_api` is not the same in all supported versions; its Configuration and its urllib3 PoolManager are.
        """
        configuration = api_client.configuration

        def headers() -> dict[str, str]:
            found = dict(api_client.default_headers)
            for setting in configuration.auth_settings().values():  # asked, the client reads a token again that is about to end
                if setting["in"] == "header" and setting["value"]:
                    found[setting["key"]] = setting["value"]
            return found

        return cls(api_client.rest_client.pool_manager, configuration.host, headers)

    def __call__(
        self,
        method: str,
        path: str,
        query: list[tuple[str, str]],
        body: Any,
        content_type: str,
        timeout: tuple[float, float],
        stream: bool = False,
        fence: Callable[[], None] | None = None,
        accept: str = "application/json",
    ) -> Response:
        """Send one request; TransportError when no answer came."""
        url = f"{self._host}{path}" + (f"?{urlencode(query)}" if query else "")
        sent = None if body is None else json.dumps(body)
        with self._broken():
            headers = {"Accept": accept, "Content-Type": content_type, **self._headers()}
            limits = Timeout(connect=timeout[0], read=timeout[1])
            with fences.fenced(fence):
                answer = self._open(method, url, body=sent, headers=headers, timeout=limits, preload_content=False)
            if stream and 200 <= answer.status <= 299:
                return Response(answer.status, b"", self._lines(answer))
            return Response(answer.status, answer.data, retry_after=retry_after(answer.headers))

    def _open(self, method: str, url: str, **options: Any) -> Any:
        while True:
            with contextlib.suppress(ClosedPoolError):  # another thread has just dropped the connections; nothing was sent
                return self._pools.request(method, url, **options)

    def _lines(self, answer: Any) -> Iterator[bytes]:
        """Complete lines of a streaming answer."""
        rest = b""
        with self._broken():
            for chunk in answer.stream(amt=CHUNK_BYTES, decode_content=True):
                *complete, rest = (rest + chunk).split(b"\n")
                yield from (line for line in complete if line.strip())

    @contextlib.contextmanager
    def _broken(self) -> Iterator[None]:
        """What breaks is a TransportError. Where no word came in time, connections that are idle may be as dead, and are dropped."""
        try:
            yield
        except (HTTPError, OSError) as error:
            if isinstance(error, ReadTimeoutError):
                self._pools.clear()
            raise TransportError(str(error), tls=is_tls(error)) from error


def retry_after(headers: Any) -> float | None:
    """The seconds of a Retry-After header; API servers send whole numbers."""
    value = str((headers or {}).get("Retry-After") or "")
    return float(value) if value.isdecimal() else None


def is_tls(error: BaseException) -> bool:
    """True when the chain of causes ends in a TLS failure."""
    if isinstance(error, MaxRetryError) and error.reason is not None:
        error = error.reason
    return isinstance(error, (SSLError, ssl.SSLError))
