# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads Prometheus' text format (version 0.0.4) as Motor's coordinator writes it.

The coordinator writes `Nan`, ends without a line feed and repeats HELP and TYPE; comments say nothing that is used here. A line
that is neither empty nor a comment nor a sample makes the whole text worthless: something is wrong with whoever wrote it, and a
part of the rows may look like low load.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from sys import intern

from .errors import MotorError

LARGEST_ROWS = 500_000
# Characters of a line: matching a longer one would keep everything else in the process waiting.
LONGEST_LINE = 65_536

_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_OPEN = re.compile(r"[ \t]*\{[ \t]*")
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(?:,[ \t]*|(?=\}))')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "\\": "\\", '"': '"'}
# Of a line that is quoted in an error.
_QUOTED = 60


class BadExposition(MotorError):
    """A text that is no exposition. `line` counts from 1."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}", reason="BadExposition", line=line)
        self.line = line


@dataclass(frozen=True, slots=True)
class Series:
    """What a row is of: the name as written (`vllm:num_requests_waiting`) and the labels. Of a label that is there twice the first counts.

    There are many of them, so the labels are kept in what takes the least room: names and texts in turn.
    """

    name: str
    written: tuple[str, ...]

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels by name."""
        return dict(zip(self.written[::2], self.written[1::2], strict=True))

    @property
    def bare(self) -> str:
        """The name without what stands before its last colon."""
        return self.name.rpartition(":")[2]


@dataclass(frozen=True, slots=True)
class Rows:
    """Series and, in the same order, their values. A series may be there twice."""

    series: tuple[Series, ...]
    values: array[float]

    def __iter__(self) -> Iterator[tuple[Series, float]]:
        return zip(self.series, self.values, strict=True)

    def __len__(self) -> int:
        return len(self.series)


def read(text: str, families: Collection[str] | None = None, largest_rows: int = LARGEST_ROWS) -> Rows:
    """The rows of a text. `families` are those wanted, without prefix; None for all. Raises BadExposition."""
    return Reader(families, largest_rows).read(text)


class Reader:
    """Reads one text after another, and what is in each text as it was in the one before it reads only once.

    As long as the series stay the same, `Rows.series` is the same tuple.
    """

    def __init__(self, families: Collection[str] | None = None, largest_rows: int = LARGEST_ROWS) -> None:
        self._wanted = None if families is None else {name + end for name in families for end in ("", "_bucket", "_sum", "_count")}
        self._largest = largest_rows
        self._known: dict[str, Series | None] = {}
        self._series: tuple[Series, ...] = ()

    def read(self, text: str) -> Rows:
        """The wanted rows of a text, in its order. Raises BadExposition."""
        known, seen = self._known, dict[str, Series | None]()
        series, values, rows = list[Series](), array("d"), 0
        for number, line in enumerate(text.split("\n"), 1):
            if not line or line[0] == "#":
                continue
            head, dummy, value = line.rpartition(" ")
            if head in known:
                seen[head] = found = known[head]
            elif head in seen:
                found = seen[head]
            else:
                line = line.strip(" \t\r")
                if not line or line[0] == "#":
                    continue
                found, value, end = self._row(line, number)
                if line[:end] == head:
                    seen[head] = found
            rows += 1
            if rows > self._largest:
                raise BadExposition(number, f"more than {self._largest} rows")
            if found is not None:
                series.append(found)
                values.append(_number(value, number))
        self._known = seen
        if len(series) != len(self._series) or any(one is not other for one, other in zip(series, self._series, strict=True)):
            self._series = tuple(series)
        return Rows(self._series, values)

    def _row(self, line: str, number: int) -> tuple[Series | None, str, int]:
        """What a line is of (None when nobody wants it), its value as written, and where the labels end."""
        if len(line) > LONGEST_LINE:
            raise BadExposition(number, f"longer than {LONGEST_LINE} characters: {_short(line)}")
        name = _NAME.match(line)
        if not name:
            raise BadExposition(number, f"no sample: {_short(line)}")
        labels, end = _labels(line, name.end(), number)
        words = line[end:].split()
        if len(words) not in (1, 2) or line[end] not in " \t" or (len(words) == 2 and not words[1].lstrip("-").isdigit()):
            raise BadExposition(number, f"no value where one should be: {_short(line)}")
        found = Series(intern(name[0]), tuple(text for item in labels.items() for text in item))
        return found if self._wanted is None or found.bare in self._wanted else None, words[0], end


def _labels(line: str, at: int, number: int) -> tuple[dict[str, str], int]:
    """The labels that begin at a place in a line, and where they end."""
    labels: dict[str, str] = {}
    opened = _OPEN.match(line, at)
    if not opened:
        return labels, at
    at = opened.end()
    while label := _LABEL.match(line, at):
        labels.setdefault(intern(label[1]), intern(_plain(label[2])))
        at = label.end()
    if line[at : at + 1] != "}":
        raise BadExposition(number, f"labels that do not end: {_short(line)}")
    return labels, at + 1


def _plain(text: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[0]), text) if "\\" in text else text


def _number(text: str, number: int) -> float:
    """A value. Python's `float` takes a few forms more than Prometheus does, of which `1_0` is one that is not meant."""
    try:
        if "_" in text:
            raise ValueError
        return float(text)
    except ValueError:
        raise BadExposition(number, f"no number: {_short(text)}") from None


def _short(text: str) -> str:
    return repr(text if len(text) <= _QUOTED else text[:_QUOTED] + "...")
