# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two things that listen: the API on TLS for the API server, and metrics and health in plain HTTP."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._cluster.http_limits import (
    JSON,
    Answer,
    Asked,
    Limits,
    Running,
    Site,
    pages,
    told,
)
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.prometheus import CONTENT_TYPE

from . import api
from .front import Front
from .metrics import Counters

# The aggregation layer keeps its connections for 90 s without a request; ours end later, so that it never asks on one that just ends.
API_LIMITS = Limits(connections=128, idle=120, first=10, kept=120)
PLAIN_LIMITS = Limits(connections=32, idle=15, first=30, kept=30)
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
NAME = "motor-metrics-adaptor"

Health = Callable[[], tuple[bool, dict[str, Any]]]


@dataclass(frozen=True)
class Doors:
    """What listens."""

    served: Running
    plain: Running

    def leave(self) -> None:
        """Whoever asks is still answered, and sent elsewhere."""
        self.served.leave()

    def stop(self) -> None:
        """Take no more connections, and end those there are."""
        self.served.stop()
        self.plain.stop()


@dataclass(frozen=True)
class Desk:
    """Answers who is let in."""

    front: Front
    loads: api.Loads
    counters: Counters

    def respond(self, asked: Asked) -> Answer:
        """The answer to a request, or the refusal of one who has no business here."""
        begun = time.perf_counter()
        refused = self.front.refusal(asked)
        if refused:
            self.counters.refused("no certificate" if refused[0] == HTTPStatus.UNAUTHORIZED else "wrong name")
            return _answer(refused[0], api.status(*refused), close=True)
        reply = api.reply(asked.target, self.loads)
        answer = _answer(reply.status, reply.body)
        self.counters.request(reply.asked, reply.status, reply.reason)
        self.counters.answers.observe(time.perf_counter() - begun)
        return answer

    def broken(self, error: Exception) -> None:
        """A handshake failed: a certificate of another authority, another language than TLS, or silence."""
        why = "wrong authority" if isinstance(error, ssl.SSLCertVerificationError) or "CERTIFICATE" in str(error) else "no handshake"
        self.counters.refused(why)


def serve_api(address: str, port: int, desk: Desk) -> Running:
    """Serve the API over TLS. Raises OSError when the address cannot be listened on."""
    site = Site(NAME, desk.respond, lambda: API_LIMITS, HEADERS, desk.front.secured, _error, desk.broken)
    return Running(address, port, site)


def serve_plain(address: str, port: int, *, metrics: Callable[[], str], health: Health) -> Running:
    """Serve metrics and health. Raises OSError when the address cannot be listened on."""
    answers = {
        "/metrics": lambda: Answer(HTTPStatus.OK, metrics().encode(errors="replace"), CONTENT_TYPE),
        "/healthz": lambda: _health(health),
    }
    return Running(address, port, Site(NAME, pages(answers), lambda: PLAIN_LIMITS, HEADERS))


def _health(health: Health) -> Answer:
    alive, why = health()
    return told(HTTPStatus.OK if alive else HTTPStatus.SERVICE_UNAVAILABLE, {"alive": alive, **why})


def _error(code: int, said: Any) -> Answer:
    return _answer(code, api.status(code, str(said["error"])))


def _answer(code: int, body: Any, *, close: bool = False) -> Answer:
    return Answer(code, json.dumps(body, separators=(",", ":")).encode(errors="replace"), JSON, close=close)
