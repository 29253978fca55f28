# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of the watcher: one JSON document, read strictly, so that a misspelt switch is an error and not a switch that is off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._motor import json_reader
from ansible_collections.ascend.mindie.plugins.module_utils._motor.fields import Fields
from ansible_collections.ascend.mindie.plugins.module_utils._motor.json_reader import Document

NUDGE, RELEASE_STUCK, RECREATE_FAILED, RESTORE_MISSING = ACTS = ("nudge", "release_stuck", "recreate_failed", "restore_missing")
EVERYWHERE = "*"
LANGUAGES = ("en", "zh")

# Each with its default, its least and its greatest value; seconds but for `tries_per_hour` and `port`.
_NUMBERS: Mapping[str, tuple[int, int, int]] = {
    "stuck_after": (300, 1, 86400),
    "missing_after": (60, 1, 86400),
    "tries_per_hour": (3, 1, 60),
    "port": (8080, 1, 65535),
    "lease_duration": (15, 3, 300),
    "relist_every": (300, 1, 86400),
}


@dataclass(frozen=True)
class Settings:
    """What the watcher is to do. `namespaces` is empty when it watches all of them.

    `stuck_after`: a pod is released when its node was not Ready for so many seconds. `missing_after`: an instance is restored when it
    was missing for so long. `tries_per_hour`: of one repair of one object.
    """

    namespaces: tuple[str, ...]
    acts: Mapping[str, bool] = field(default_factory=lambda: dict.fromkeys(ACTS, False))
    stuck_after: int = 300
    missing_after: int = 60
    tries_per_hour: int = 3
    port: int = 8080
    lease_duration: int = 15
    relist_every: int = 300
    language: str = "en"


def read(text: str, *, source: str) -> Settings:
    """The settings of a JSON text. Raises InputError with line and column for what is unknown, missing or out of range."""
    document = json_reader.read(text, source=source)
    _refuse_unknown(document, (), document.data, {"namespaces", "acts", "language", *_NUMBERS})
    fields = Fields(document)
    numbers = {name: fields.integer((name,), low, high) for name, (dummy, low, high) in _NUMBERS.items()}
    return Settings(
        namespaces=_namespaces(document),
        acts=_acts(document, fields),
        language=fields.choice(("language",), "a language", LANGUAGES) or LANGUAGES[0],
        **{name: _NUMBERS[name][0] if number is None else number for name, number in numbers.items()},
    )


def _namespaces(document: Document) -> tuple[str, ...]:
    found = document.value(("namespaces",))
    if not isinstance(found, list) or not found or not all(isinstance(name, str) and name for name in found):
        raise document.error(("namespaces",), f'write a list of namespaces, or ["{EVERYWHERE}"] for all of them')
    if EVERYWHERE in found:
        if len(found) > 1:
            raise document.error(("namespaces",), f'"{EVERYWHERE}" means all namespaces: name no others beside it')
        return ()
    return tuple(dict.fromkeys(found))


def _acts(document: Document, fields: Fields) -> dict[str, bool]:
    if fields.section(("acts",)):
        _refuse_unknown(document, ("acts",), document.value(("acts",)), set(ACTS))
    return {act: fields.boolean(("acts", act), False) for act in ACTS}


def _refuse_unknown(document: Document, path: tuple[str, ...], found: Any, known: set[str]) -> None:
    if not isinstance(found, dict):
        raise document.error(path, "this is no object: write {...}")
    for key in found:
        if key not in known:
            raise document.error((*path, key), f"this is unknown: write one of {', '.join(sorted(known))}")
