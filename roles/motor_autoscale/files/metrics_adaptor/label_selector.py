# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The label selectors of requests, as Kubernetes writes and reads them: `a=b,c!=d,e in (f,g),h notin (i),j,!k`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

EQUAL, UNEQUAL, PRESENT, ABSENT = "in", "notin", "exists", "!"
# Longer than any selector of an autoscaler is.
LONGEST = 4096

_TOKEN = re.compile(r"\s*(?:(?P<mark>==|!=|=|!|\(|\)|,)|(?P<word>[A-Za-z0-9][A-Za-z0-9._/-]*))")
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


class BadSelector(ValueError):
    """What is no label selector; the text says why."""


@dataclass(frozen=True)
class Requirement:
    """What one label has to be."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels fulfil it. As in Kubernetes, what is not there is not equal to anything."""
        if self.operator in (PRESENT, ABSENT):
            return (self.key in labels) == (self.operator == PRESENT)
        return (labels.get(self.key) in self.values) == (self.operator == EQUAL)


def matches(selector: tuple[Requirement, ...], labels: Mapping[str, str]) -> bool:
    """Whether labels fulfil all requirements."""
    return all(requirement.matches(labels) for requirement in selector)


def read(text: str) -> tuple[Requirement, ...]:
    """The requirements of a selector; none for an empty text, which all labels fulfil. Raises BadSelector."""
    if len(text) > LONGEST:
        raise BadSelector(f"it has {len(text)} characters, more than {LONGEST}")
    tokens = _Tokens(text)
    if not tokens.left:
        return ()
    found = [_requirement(tokens)]
    while tokens.left:
        tokens.take(",")
        found.append(_requirement(tokens))
    return tuple(found)


class _Tokens:
    def __init__(self, text: str) -> None:
        self.left = list(_split(text))

    @property
    def next(self) -> str:
        return self.left[0] if self.left else ""

    def take(self, wanted: str = "") -> str:
        if not self.left or (wanted and self.left[0] != wanted):
            raise BadSelector(f"{wanted or 'a word'} is missing before {self.next or 'the end'}")
        return self.left.pop(0)


def _split(text: str) -> Iterator[str]:
    place = 0
    while text[place:].strip():
        found = _TOKEN.match(text, place)
        if not found:
            raise BadSelector(f"{text[place:].strip()[:40]!r} is not understood")
        place = found.end()
        yield found["mark"] or found["word"]


def _requirement(tokens: _Tokens) -> Requirement:
    if tokens.next == "!":
        tokens.take()
        return Requirement(_key(tokens.take()), ABSENT)
    key = _key(tokens.take())
    if tokens.next in ("=", "==", "!="):
        operator = UNEQUAL if tokens.take() == "!=" else EQUAL
        return Requirement(key, operator, frozenset({_value(tokens)}))
    if tokens.next in ("in", "notin"):
        return Requirement(key, tokens.take(), frozenset(_values(tokens)))
    return Requirement(key, PRESENT)


def _values(tokens: _Tokens) -> Iterator[str]:
    tokens.take("(")
    yield _value(tokens)
    while tokens.next == ",":
        tokens.take()
        yield _value(tokens)
    tokens.take(")")


def _value(tokens: _Tokens) -> str:
    """One value, which may be empty."""
    if tokens.next in ("", ",", ")"):
        return ""
    value = tokens.take()
    if not _NAME.fullmatch(value):
        raise BadSelector(f"{value!r} cannot be the value of a label")
    return value


def _key(word: str) -> str:
    prefix, slash, name = word.rpartition("/")
    if not _NAME.fullmatch(name) or (slash and not _PREFIX.fullmatch(prefix + slash)):
        raise BadSelector(f"{word!r} cannot be the name of a label")
    return word
