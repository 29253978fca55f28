# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Typed access to the values of a document: each getter checks what it hands out and says what to write instead."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from .json_reader import Document, Path

MIN_COUNT = 1
MAX_COUNT = 16
MAX_PORT = 65535

_WORDS = {True: "true", False: "false", None: "null"}
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?([kKMGTPE]|[KMGTPE]i)")


def shown(value: Any, raw: str | None = None) -> str:
    """A value for messages, shortened; `raw` is the token as written."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    token = raw if raw is not None else _WORDS[value] if value is None or isinstance(value, bool) else repr(value)
    return token if len(token) <= 60 else f"{token[:57]}..."


def wrong_count(value: Any, raw: str | None = None, *, minimum: int = MIN_COUNT, maximum: int = MAX_COUNT) -> str | None:
    """What is wrong with a count, or None. Counts are integers: no string, no boolean and no 1.0 stands for one."""
    wanted = f"write a whole number from {minimum} to {maximum}"
    if isinstance(value, bool) or value is None or isinstance(value, (dict, list)):
        return f"{shown(value, raw)} is no number: {wanted}"
    if isinstance(value, str):
        return f"{shown(value, raw)} is a string: {wanted}, without quotes"
    if isinstance(value, float):
        hint = f"write {int(value)}" if value.is_integer() and minimum <= value <= maximum else wanted
        return f"{shown(value, raw)} is no integer: {hint}"
    if not isinstance(value, int):
        return f"{value} is no number: {wanted}"
    if not minimum <= value <= maximum:
        return f"{shown(value, raw)} is out of range: {wanted}"
    return None


class Fields:
    """The values of one document. All getters raise InputError with path, line and column; null counts as absent unless said otherwise."""

    def __init__(self, document: Document) -> None:
        self.document = document

    def present(self, path: Path) -> bool:
        """Whether there is a value other than null."""
        return self.document.value(path) is not None

    def section(self, path: Path) -> bool:
        """Whether the object at `path` is there."""
        value = self.document.value(path)
        if value is not None and not isinstance(value, dict):
            raise self.document.error(path, f"{self.shown(path)} is no object: write {{...}}, or leave {path[-1]} out")
        return value is not None

    def string(self, path: Path, what: str) -> str | None:
        """A string that is not empty."""
        value = self.document.value(path)
        if value is None:
            return None
        if not isinstance(value, str):
            raise self.document.error(path, f"{self.shown(path)} is no string: write {what} in double quotes")
        if not value:
            raise self.document.error(path, f"this is empty: write {what}")
        return value

    def required_string(self, path: Path, what: str) -> str:
        """A string that has to be there."""
        value = self.string(path, what)
        if value is None:
            raise self.document.error(path, f"this key is missing: write {what}")
        return value

    def choice(self, path: Path, what: str, choices: Collection[str]) -> str | None:
        """One of some strings."""
        value = self.string(path, what)
        if value is not None and value not in choices:
            raise self.document.error(path, f"{self.shown(path)} is unknown: write one of {', '.join(choices)}")
        return value

    def boolean(self, path: Path, default: bool) -> bool:
        """true or false."""
        value = self.document.value(path)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.document.error(path, f"{self.shown(path)} is neither true nor false: write one of them, without quotes")
        return value

    def absolute_path(self, path: Path, what: str) -> str | None:
        """A path of a file system, from its root."""
        value = self.string(path, what)
        if value is not None and not value.startswith("/"):
            raise self.document.error(path, f"{self.shown(path)} is no absolute path: write {what}, beginning with /")
        return value

    def quantity(self, path: Path, what: str) -> str | None:
        """A size with its unit, as Kubernetes reads it."""
        value = self.string(path, what)
        if value is not None and not _QUANTITY.fullmatch(value):
            raise self.document.error(path, f'{self.shown(path)} is no size with a unit: write {what} such as "128Gi"')
        return value

    def integer(self, path: Path, minimum: int, maximum: int) -> int | None:
        """An integer in a range; null is wrong, as leaving it out is what null would mean."""
        if not self.document.has(path):
            return None
        value = self.document.value(path)
        wrong = wrong_count(value, self.document.raw(path), minimum=minimum, maximum=maximum)
        if wrong:
            raise self.document.error(path, wrong)
        return int(value)

    def shown(self, path: Path) -> str:
        """The value at a path for messages."""
        return shown(self.document.value(path), self.document.raw(path))
