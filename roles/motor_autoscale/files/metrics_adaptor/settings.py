# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of the adaptor: one JSON document, read strictly, so that a misspelt limit is an error and not a limit that is not there."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._motor import json_reader
from ansible_collections.ascend.mindie.plugins.module_utils._motor.fields import Fields
from ansible_collections.ascend.mindie.plugins.module_utils._motor.json_reader import Document

EVERYWHERE = "*"

# Each with its default, its least and its greatest value.
_SECONDS: Mapping[str, tuple[float, float, float]] = {
    "interval": (5, 0.5, 300),
    "window": (60, 1, 3600),
    "stale_after": (30, 1, 3600),
    "frozen_after": (60, 1, 86400),
    "timeout": (3, 0.5, 60),
}
_NUMBERS: Mapping[str, tuple[int, int, int]] = {
    "largest": (16 << 20, 1 << 16, 1 << 30),
    "port": (8443, 1, 65535),
    "http_port": (8080, 1, 65535),
}


@dataclass(frozen=True)
class Tls:
    """How coordinators that speak TLS are met: whether their certificates are checked, and by which authorities (PEM, "": those of the system)."""

    verify: bool = True
    ca: str = ""


@dataclass(frozen=True)
class Settings:
    """What the adaptor does. `namespaces` is empty when it serves all of them.

    Seconds: a coordinator is asked every `interval`, for at most `timeout`; rates and quantiles are over `window`; what is older than
    `stale_after` is no data; what has not changed for `frozen_after` while requests were in work is none either. `largest`: bytes of an answer.
    """

    namespaces: tuple[str, ...]
    interval: float = 5
    window: float = 60
    stale_after: float = 30
    frozen_after: float = 60
    timeout: float = 3
    largest: int = 16 << 20
    port: int = 8443
    http_port: int = 8080
    tls: Tls = field(default_factory=Tls)
    certificate: str = "/certificate"


def read(text: str, *, source: str) -> Settings:
    """The settings of a JSON text. Raises InputError with line and column for what is unknown, missing or out of range."""
    document = json_reader.read(text, source=source)
    _refuse_unknown(document, (), document.data, {"namespaces", "tls", "certificate", *_SECONDS, *_NUMBERS})
    fields = Fields(document)
    given = {name: fields.integer((name,), low, high) for name, (dummy, low, high) in _NUMBERS.items()}
    numbers = {name: _NUMBERS[name][0] if value is None else value for name, value in given.items()}
    seconds = {name: _seconds(document, name) for name in _SECONDS}
    _require_order(document, seconds)
    if numbers["port"] == numbers["http_port"]:
        raise document.error(("http_port",), f"{numbers['port']} is the value of port, too")
    certificate = fields.absolute_path(("certificate",), "the folder of the certificate") or Settings.certificate
    return Settings(
        _namespaces(document),
        interval=seconds["interval"],
        window=seconds["window"],
        stale_after=seconds["stale_after"],
        frozen_after=seconds["frozen_after"],
        timeout=seconds["timeout"],
        largest=numbers["largest"],
        port=numbers["port"],
        http_port=numbers["http_port"],
        tls=_tls(document, fields),
        certificate=certificate,
    )


def _require_order(document: Document, numbers: Mapping[str, float]) -> None:
    """What has to be greater than what, for two looks to fit into a window and one into what is not stale."""
    if numbers["window"] < 2 * numbers["interval"]:
        raise document.error(("window",), f"{numbers['window']} is less than twice the interval ({numbers['interval']})")
    if numbers["stale_after"] < numbers["interval"] + numbers["timeout"]:
        wrong = f"{numbers['stale_after']} is less than interval and timeout together ({numbers['interval']} + {numbers['timeout']})"
        raise document.error(("stale_after",), wrong)


def _seconds(document: Document, name: str) -> float:
    default, least, most = _SECONDS[name]
    given = document.value((name,), default)
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not least <= given <= most:
        raise document.error((name,), f"write a number of seconds from {least:g} to {most:g}")
    return given


def _namespaces(document: Document) -> tuple[str, ...]:
    found = document.value(("namespaces",))
    if not isinstance(found, list) or not found or not all(isinstance(name, str) and name for name in found):
        raise document.error(("namespaces",), f'write a list of namespaces, or ["{EVERYWHERE}"] for all of them')
    if EVERYWHERE in found:
        if len(found) > 1:
            raise document.error(("namespaces",), f'"{EVERYWHERE}" means all namespaces: name no others beside it')
        return ()
    return tuple(dict.fromkeys(found))


def _tls(document: Document, fields: Fields) -> Tls:
    if not fields.section(("tls",)):
        return Tls()
    _refuse_unknown(document, ("tls",), document.value(("tls",)), {"verify", "ca"})
    authorities = document.value(("tls", "ca"), "")
    if not isinstance(authorities, str) or not _is_pem(authorities):
        raise document.error(("tls", "ca"), "write certificates as PEM text")
    return Tls(fields.boolean(("tls", "verify"), True), authorities)


def _is_pem(text: str) -> bool:
    """Whether these are certificates that can be trusted; none are as good as those of the system."""
    try:
        if text:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError):
        return False
    return True


def _refuse_unknown(document: Document, path: tuple[str, ...], found: Any, known: set[str]) -> None:
    if not isinstance(found, dict):
        raise document.error(path, "this is no object: write {...}")
    for key in found:
        if key not in known:
            raise document.error((*path, key), f"this is unknown: write one of {', '.join(sorted(known))}")
