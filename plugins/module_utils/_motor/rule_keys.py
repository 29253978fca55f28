# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks how a scaling rule is written: the keys of its objects, which the operator takes with much patience and without a word."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from .findings import Finding
from .rule_codes import finding
from .rule_reader import GROUPS, LIST, NAME, NUMBER, SERVERS, Node, Places, entry_path, known_key, tier_path
from .scaling_rule import VERSION

_VERSION = "version"
# The objects of a rule, from the outside in, and the keys that each of them has.
_LEVELS = {"the rule": (_VERSION, LIST), "a tier": (GROUPS,), "a group": (NAME, NUMBER, SERVERS)}
_RULE, _TIER, _GROUP = _LEVELS
# How alike an unknown key and a key that the object lacks have to be.
_ALIKE = 0.6
# Longer keys are not compared.
_LONGEST = 60


def check(top: Node, places: Places, source: str) -> list[Finding]:
    """What there is to say about the keys of a document."""
    keys = _Keys(places, source)
    keys.rule(top)
    return keys.findings


class _Keys:
    """Goes through a document and collects findings."""

    def __init__(self, places: Places, source: str) -> None:
        self._places, self._source = places, source
        self._meant: dict[tuple[str, tuple[str, ...]], str] = {}
        self._unknown: set[tuple[str, str]] = set()
        self.findings: list[Finding] = []

    def rule(self, top: Node) -> None:
        """The document."""
        for key, value in self._object(top, _RULE, "", None):
            if key == LIST:
                for index, node in enumerate(_elements(value)):
                    self._tier(node, index)
            elif key == _VERSION and value.kind == "string" and value.value != VERSION:
                self._tell("R406", value.offset, f'version is "{value.value[:40]}", not "{VERSION}"', _VERSION, None)

    def _tier(self, node: Node, index: int) -> None:
        for key, value in self._object(node, _TIER, tier_path(index), index):
            if key == GROUPS:
                for position, group in enumerate(_elements(value)):
                    list(self._object(group, _GROUP, entry_path(index, position), index))

    def _object(self, node: Node, level: str, path: str, tier: int | None) -> Iterator[tuple[str, Node]]:
        """The known keys of an object with their values."""
        if node.kind != "object":
            return
        there = [known_key(key) for key, dummy, value in node.value]
        lacking = tuple(key for key in _LEVELS[level] if key not in there)
        seen: set[str] = set()
        for known, (key, offset, value) in zip(there, node.value, strict=True):
            where = f"{path}.{known}".lstrip(".")
            if known not in _LEVELS[level]:
                self._stranger(key, offset, level, lacking, (path, tier))
                continue
            if key != known:
                self._tell("R402", offset, f'the key "{key}" is read as "{known}"', where, tier)
            if known in seen:
                code, what = ("R404", "list") if known in (LIST, GROUPS) else ("R403", "key")
                self._tell(code, offset, f'the {what} "{known}" stands in this object already', where, tier)
            seen.add(known)
            yield known, value

    def _stranger(self, key: str, offset: int, level: str, lacking: tuple[str, ...], where: tuple[str, int | None]) -> None:
        """A key of an object that the operator does not know at this place."""
        path, tier = where
        meant = self._nearest(known_key(key), lacking)
        shown = key[:_LONGEST]
        home = next((name for name, keys in _LEVELS.items() if known_key(key) in keys), None)
        if home:
            wrong = f'the key "{shown}" is not read here, it belongs in {home}'
            self._tell("R401", offset, wrong, path, tier, remedy=f'Move "{known_key(key)}" to {home}.')
        elif meant:
            wrong = f'nothing reads the key "{shown}"; "{meant}" is missing here'
            self._tell("R401", offset, wrong, path, tier, remedy=f'Write "{meant}".')
        elif (level, key) not in self._unknown:
            self._unknown.add((level, key))
            self._tell("R405", offset, f'nothing reads the key "{shown}" of {level}', path, tier)

    def _nearest(self, key: str, lacking: tuple[str, ...]) -> str:
        """The key that the object lacks and this one resembles."""
        if len(key) > _LONGEST:
            return ""
        question = (key, lacking)
        if question not in self._meant:
            self._meant[question] = next(iter(difflib.get_close_matches(key, lacking, n=1, cutoff=_ALIKE)), "")
        return self._meant[question]

    def _tell(self, code: str, offset: int, wrong: str, path: str, tier: int | None, *, remedy: str = "") -> None:
        line, column = self._places.at(offset)
        where = f"{self._source}, line {line}, column {column}"
        message = ": ".join(part for part in (where, path, wrong) if part)
        self.findings.append(finding(code, message, remedy=remedy, line=line, column=column, path=path, tier=tier))


def _elements(node: Node) -> list[Node]:
    return list(node.value) if node.kind == "array" else []
