# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks a scaling rule by its text alone.

There is an error exactly when the operator refuses the rule, when the rule starts nothing, or when the operator can crash by it. What
the codes mean is in `rule_codes.py`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from . import rule_keys
from .findings import SEVERITIES, Finding
from .json_reader import BYTE_ORDER_MARK
from .rule_codes import finding
from .rule_reader import (
    DATA_KEY,
    INT_ERROR,
    JSON_ERROR,
    NAME,
    NUMBER,
    SERVERS,
    TYPE_ERROR,
    Group,
    Places,
    Reading,
    RuleError,
    Tier,
    attempt,
    entry_path,
    integer,
    tier_path,
)
from .rule_relaxed import comments
from .scaling_rule import may_count

_LABEL_VALUE = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PLAIN = re.compile(r"0|-?[1-9][0-9]*")
_CUT_OFF = re.compile(r",[ \t\r\n]*[\]}]")
_OF_TIERS = {NAME: "R108", NUMBER: "R109", SERVERS: "R110"}
# Names that tell the engine role: those that Motor's own generator writes, and words.
_PREFILL = re.compile(r"^group0$|(?:^|[-_.])(?:p|prefill)[0-9]*(?:[-_.]|$)", re.IGNORECASE)
_DECODE = re.compile(r"^group1$|(?:^|[-_.])(?:d|decode)[0-9]*(?:[-_.]|$)", re.IGNORECASE)


@dataclass(frozen=True)
class Lint:
    """The findings, the worst first and then by place; and the rule, None when the operator refuses it."""

    findings: tuple[Finding, ...]
    reading: Reading | None


def lint(text: str, *, source: str) -> Lint:
    """Check the value of the data key. `source` names it in messages."""
    tried = attempt(text, source=source)
    places = Places(text)
    found = [_refused(error, text, places, source) for error in tried.errors]
    if tried.top is not None:
        found += rule_keys.check(tried.top, places, source)
    if tried.reading is not None:
        found += _Tiers(tried.reading, places, source).findings()
    found.sort(key=lambda one: (SEVERITIES.index(one.severity), one.line or 0, one.column or 0, one.code))
    return Lint(tuple(found), tried.reading)


def lint_data(data: Mapping[str, str], *, source: str) -> Lint:
    """Check the data of a rule ConfigMap."""
    if DATA_KEY in data:
        return lint(data[DATA_KEY], source=f"{source} {DATA_KEY}")
    near = difflib.get_close_matches(DATA_KEY, data, n=1)
    remedy = f'Rename the data key "{near[0]}" to {DATA_KEY}.' if near else ""
    return Lint((finding("R101", f"{source}: it has no key {DATA_KEY}", remedy=remedy),), None)


def _refused(error: RuleError, text: str, places: Places, source: str) -> Finding:
    """The finding for an error of the reader."""
    code, message = _OF_TIERS.get(error.key, ""), error.message
    if error.kind == JSON_ERROR:
        code = _json_code(text, places.offset(error.line or 1, error.column or 1))
        if code == "R104":
            message += f" ({sum(1 for dummy in comments(text))} in all)"
    elif error.kind in (TYPE_ERROR, INT_ERROR):
        code = "R106" if error.kind == TYPE_ERROR else "R107"
    return finding(code, message, line=error.line, column=error.column, path=error.path, tier=error.tier, group=error.group)


def _json_code(text: str, offset: int) -> str:
    if text.startswith(BYTE_ORDER_MARK):
        return "R103"
    if text.startswith(("#", "//", "/*"), offset):
        return "R104"
    return "R105" if _CUT_OFF.match(text, offset) else "R102"


class _Tiers:
    """Checks what the tiers of an accepted rule say."""

    def __init__(self, reading: Reading, places: Places, source: str) -> None:
        self._tiers, self._decoded = reading.tiers, reading.decoded
        self._places, self._source = places, source
        self._counts = may_count(self._tiers)
        self._largest = self._tiers[0] if self._tiers else {}

    def findings(self) -> Iterator[Finding]:
        """All of them, in no order that matters."""
        if not self._tiers or not any(self._counts):
            yield self._nothing()
            return
        smallest = max(index for index, counts in enumerate(self._counts) if counts)
        for index, tier in enumerate(self._decoded):
            yield from self._tier(index, tier, smallest)
            last = {group.texts.get(NAME, ""): position for position, group in enumerate(tier.entries())}
            for position, group in enumerate(tier.entries()):
                name = group.texts.get(NAME, "")
                yield from self._name(index, position, group)
                if last[name] != position:
                    wrong = f'group "{name}" stands in this tier again, further down'
                    yield self._tell("R308", entry_path(index, position), group.offset, wrong, tier=index, group=name)
                yield from self._numbers(index, position, group)
        yield from self._unasked()
        yield from self._positions()

    def _nothing(self) -> Finding:
        if not self._tiers:
            return self._tell("R111", "", 0, "the rule has no tiers")
        return self._tell("R112", "", 0, "no tier asks for any instance")

    def _tier(self, index: int, tier: Tier, smallest: int) -> Iterator[Finding]:
        sizes, counts, path = self._tiers[index], self._counts[index], tier_path(index)
        if not counts:
            asks = any(size.number > 0 for size in sizes.values())
            wrong = "the tiers below ask for as much, so it never counts" if asks else "it asks for no instance, so it never counts"
            yield self._tell("R301", path, tier.offset, wrong, tier=index)
        for group, size in self._largest.items():
            if group not in sizes:
                wrong = f'group "{group}" is left out, tier 0 has it'
                yield self._tell("R201" if counts else "R312", path, tier.offset, wrong, tier=index, group=group)
            elif index == smallest and sizes[group].number <= 0 < size.number:
                yield self._tell(
                    "R302", path, tier.offset, f'the smallest tier asks for no instance of group "{group}"', tier=index, group=group
                )

    def _name(self, index: int, position: int, group: Group) -> Iterator[Finding]:
        name, path = group.texts.get(NAME), entry_path(index, position)
        if name is None:
            yield self._tell("R202", path, group.offset, "the entry has no group_name", tier=index, group="")
        elif not name:
            yield self._tell("R314", f"{path}.{NAME}", group.offsets[NAME], "the name is empty", tier=index, group="")
        elif not _LABEL_VALUE.fullmatch(name):
            yield self._tell("R309", f"{path}.{NAME}", group.offsets[NAME], f'no label can be "{name[:80]}"', tier=index, group=name)

    def _numbers(self, index: int, position: int, group: Group) -> Iterator[Finding]:
        name = group.texts.get(NAME, "")
        number, servers = (integer(group.texts[key]) or 0 for key in (NUMBER, SERVERS))
        wrong = [
            ("R307", key, f'"{group.texts[key][:40]}" is read as {value}')
            for key, value in ((NUMBER, number), (SERVERS, servers))
            if not _PLAIN.fullmatch(group.texts[key])
        ]
        if number < 0:
            wrong.append(("R306", NUMBER, f"{number} instances"))
        if servers < 1:
            wrong.append(("R305", SERVERS, f"{servers} servers per instance"))
        before = self._tiers[index - 1].get(name) if index else None
        if before is not None and before.servers != servers:
            wrong.append(("R304", SERVERS, f"{servers} servers per instance, {before.servers} in the tier before"))
        for code, key, message in wrong:
            yield self._tell(code, f"{entry_path(index, position)}.{key}", group.offsets[key], message, tier=index, group=name)

    def _unasked(self) -> Iterator[Finding]:
        for group, size in self._largest.items():
            if size.number <= 0:
                offset = self._decoded[0].offset
                yield self._tell("R303", tier_path(0), offset, f'no tier asks for an instance of group "{group}"', tier=0, group=group)

    def _positions(self) -> Iterator[Finding]:
        """What Motor's controller makes of the first tier."""
        entries, offset = self._decoded[0].entries(), self._decoded[0].offset
        names = [entry.texts.get(NAME, "") for entry in entries]
        if len(names) < 2:
            yield self._tell("R310", tier_path(0), offset, f"the first tier has {len(names)} groups", tier=0)
        elif _DECODE.search(names[0]) and _PREFILL.search(names[1]):
            wrong = f'"{names[0]}" stands first and "{names[1]}" second'
            yield self._tell("R311", entry_path(0, 0), entries[0].offset, wrong, tier=0, group=names[0])
        if len(names) > 2:
            yield self._tell("R313", tier_path(0), offset, f"the first tier has {len(names)} groups", tier=0)

    def _tell(self, code: str, path: str, offset: int, wrong: str, *, tier: int | None = None, group: str | None = None) -> Finding:
        line, column = self._places.at(offset)
        where = f"{self._source}, line {line}, column {column}"
        message = ": ".join(part for part in (where, path, wrong) if part)
        return finding(code, message, line=line, column=column, path=path, tier=tier, group=group)
