# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the watcher tells over HTTP: its page, the same as JSON, metrics, and whether it is alive. It only ever reads."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any
from zlib import crc32

from ansible_collections.ascend.mindie.plugins.module_utils._cluster.http_limits import (
    JSON,
    Answer,
    Limits,
    Running,
    Site,
    packed,
    pages,
    told,
)
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.prometheus import CONTENT_TYPE

from . import page

HTML = "text/html; charset=utf-8"
# Seconds: a connection may be silent for so long, and go for so long without a request that arrives and is answered.
IDLE, SLOWEST = 15, 30
# Beyond so many connections the next one gets 503; beyond half of it they are not kept, so that probes always find a place.
MOST_CONNECTIONS = 32

Report = Callable[[], dict[str, Any]]
Health = Callable[[], tuple[bool, dict[str, Any]]]


class _State:
    """The report as JSON. One revision is encoded once, whoever asks for it."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._lock = threading.Lock()
        # Revisions count from the start of the process: what another one has said is something else.
        self._process = secrets.token_hex(6)
        self._latest: Answer | None = None

    def answer(self) -> Answer:
        report = self._report()
        tag = f'"{self._process}-{report["program"]["revision"]}-{_beside(report)}"'
        with self._lock:
            if self._latest is None or self._latest.headers["ETag"] != tag:
                body = json.dumps(report, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
                self._latest = Answer(HTTPStatus.OK, body, JSON, {"ETag": tag}, packed(body))
            return self._latest


def _beside(report: Mapping[str, Any]) -> str:
    """What the revision does not count: the program itself and its watches, without what changes by itself."""
    program = {name: value for name, value in report["program"].items() if name != "at"}
    watches = [{name: value for name, value in watch.items() if not name.endswith("_seconds")} for watch in report["watches"]]
    return f"{crc32(json.dumps([program, watches]).encode()):08x}"


_HEADERS = {
    "Cache-Control": "no-store",
    "Vary": "Accept-Encoding",
    "Content-Security-Policy": page.POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def _limits() -> Limits:
    return Limits(MOST_CONNECTIONS, IDLE, SLOWEST, SLOWEST)


def serve(address: str, port: int, *, report: Report, metrics: Callable[[], str], health: Health, language: str = "en") -> Running:
    """Answer on this address until stopped.

    `report` is what /state.json tells; its program.revision has to change with whatever is worth telling. `health` says whether the
    program is alive, and why; `ready` in what it says decides about /readyz. All three are called by several threads at once.
    Raises OSError when the address cannot be listened on, InputError for a language that the page is not in.
    """
    state = _State(report)
    shown = page.page(language=language).encode()
    answers: dict[str, Callable[[], Answer]] = {
        "/": lambda: Answer(HTTPStatus.OK, shown, HTML),
        "/state.json": state.answer,
        "/metrics": lambda: Answer(HTTPStatus.OK, metrics().encode(errors="replace"), CONTENT_TYPE),
        "/healthz": lambda: _alive(health),
        "/readyz": lambda: _ready(health),
    }
    return Running(address, port, Site("motor-watcher", pages(answers), _limits, _HEADERS))


def _alive(health: Health) -> Answer:
    alive, why = health()
    return told(HTTPStatus.OK if alive else HTTPStatus.SERVICE_UNAVAILABLE, {"alive": alive, **why})


def _ready(health: Health) -> Answer:
    alive, why = health()
    ready = alive and bool(why.get("ready"))
    return told(HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE, {"alive": alive, **why, "ready": ready})
