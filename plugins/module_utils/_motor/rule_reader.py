# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a scaling rule exactly as the Ascend Operator does, which decodes it with Go's `encoding/json` into structures.

The operator finds errors in this order, whatever their place: broken JSON, a wrong JSON type, integers, tier against tier. Keys match
without regard to case; a text that is null is left as it was; a list that is given twice is decoded over the first one, element by
element. Recorded from the operator's own package (August 2026).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

from .errors import InputError
from .json_reader import Scanner

DATA_KEY = "elastic_scaling.json"
MISSING_KEY, JSON_ERROR, TYPE_ERROR, INT_ERROR, TIER_ERROR = "missing_key", "json_error", "type_error", "int_error", "tier_error"

# Go refuses deeper documents, wherever the depth is.
MAX_DEPTH = 10_000
_REPLACEMENT = "\ufffd"
_SURROGATES = re.compile("[\ud800-\udfff]")
_INTEGER = re.compile(r"([+-]?)0*([0-9]+)")
_MIN, _MAX = -(2**63), 2**63 - 1
# Upper case, and the one other letter of Unicode that folds to a letter of our keys.
_FOLD = str.maketrans({**{chr(code): chr(code + 32) for code in range(ord("A"), ord("Z") + 1)}, "\u017f": "s"})

LIST, GROUPS, NAME, NUMBER, SERVERS = "elastic_scaling_list", "group_list", "group_name", "group_num", "server_num_per_group"
_EXACT = frozenset({LIST, GROUPS, NAME, NUMBER, SERVERS})


class RuleError(InputError):
    """A rule that the operator refuses, so that it holds every job. `kind` is one of the five above, `key` the key whose value is wrong."""

    def __init__(self, message: str, *, kind: str, source: str, path: str = "", line: int | None = None, column: int | None = None) -> None:
        super().__init__(message, reason="RuleRefused", source=source, path=path, line=line, column=column)
        self.kind = kind
        self.key = path.rpartition(".")[2]
        self.tier: int | None = None
        self.group: str | None = None


@dataclass(frozen=True)
class Node:
    """One JSON value and where it starts. `value` is a list of nodes, a list of (key, key offset, node), a text, or a literal's word."""

    kind: str
    offset: int
    value: Any


@dataclass
class Group:
    """One entry of a `group_list` as decoded: texts, None where none was given; offsets of what was read last."""

    texts: dict[str, str] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)
    offset: int = 0


@dataclass
class Tier:
    """One tier as decoded. `groups` has the entries of the list; those that a shorter list cut off are remembered behind `length`."""

    groups: list[Group] = field(default_factory=list)
    length: int = 0
    offset: int = 0

    def entries(self) -> list[Group]:
        """The entries that count."""
        return self.groups[: self.length]


@dataclass(frozen=True)
class Size:
    """What a tier asks of one group: `number` instances (jobs), of `servers` servers each as the rule says it."""

    number: int
    servers: int


Sizes: TypeAlias = "dict[str, Size]"


@dataclass(frozen=True)
class Reading:
    """A rule that the operator accepts: per tier the sizes by group (the last entry of a group wins), and the entries as decoded."""

    text: str
    tiers: tuple[Sizes, ...]
    decoded: tuple[Tier, ...]


@dataclass(frozen=True)
class Attempt:
    """What there is to say of a text: the reading, or all errors of the first kind that the operator finds, the one that it tells in front.

    `top` is the document, None when it is no JSON.
    """

    reading: Reading | None
    errors: tuple[RuleError, ...]
    top: Node | None


class Places:
    """Lines and columns of a text, both from 1."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def at(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def offset(self, line: int, column: int) -> int:
        """The way back."""
        return self._starts[line - 1] + column - 1


def text_of(data: bytes) -> str:
    """Bytes as Go reads them in a JSON text: each invalid byte is one U+FFFD."""
    return _SURROGATES.sub(_REPLACEMENT, data.decode("utf-8", "surrogateescape"))


def read(text: str, *, source: str) -> Reading:
    """Read the value of the data key. Raises RuleError for what the operator refuses, with line and column."""
    found = attempt(text, source=source)
    if found.reading is None:
        raise found.errors[0]
    return found.reading


def attempt(text: str, *, source: str) -> Attempt:
    """Read the value of the data key, and tell all that is wrong rather than raise."""
    reader = _Reader(text, source)
    try:
        top = reader.document()
    except RuleError as error:
        return Attempt(None, (error,), None)
    decoded = reader.tiers(top)
    sizes = () if reader.errors else tuple(reader.sizes(index, tier) for index, tier in enumerate(decoded))
    reading = Reading(text, sizes, tuple(decoded))
    if not reader.errors:
        for index in range(1, len(decoded)):
            reader.check_descent(reading, index)
    return Attempt(None if reader.errors else reading, tuple(reader.errors), top)


def known_key(key: str) -> str:
    """A key as the operator compares it."""
    return key if key in _EXACT else key.translate(_FOLD)


def integer(text: str) -> int | None:
    """The number of a text as the operator reads it, None when it is none for it."""
    match = _INTEGER.fullmatch(text) if text.isascii() else None
    digits = match[2] if match else ""
    number = int(match[1] + digits) if match and len(digits) <= 19 else None
    return number if number is not None and _MIN <= number <= _MAX else None


def read_data(data: Mapping[str, str], *, source: str) -> Reading:
    """Read the data of a rule ConfigMap. Its key is compared exactly."""
    if DATA_KEY not in data:
        raise refusal(MISSING_KEY, f"it has no key {DATA_KEY}", source)
    return read(data[DATA_KEY], source=f"{source} {DATA_KEY}")


class _RuleScanner(Scanner):
    """Go's grammar: as strict as ours, but half a surrogate pair is U+FFFD, numbers may be of any size, keys may be repeated."""

    def value(self) -> Node:
        """The value that starts at the next character, read without recursion: documents may be 10,000 levels deep."""
        stack: list[Node] = []
        done = self._start(stack)
        while True:
            if done is not None and not stack:
                return done
            if done is not None:
                self._add(stack[-1], done)
            top = stack[-1]
            closing = "}" if top.kind == "object" else "]"
            if not self.more(closing, first=not top.value):
                done = stack.pop()
                continue
            if top.kind == "object":
                self._key(top)
            done = self._start(stack)

    def _start(self, stack: list[Node]) -> Node | None:
        """Begin a value: an object or list is put on the stack, anything else is returned complete."""
        self.blanks()
        start = self.offset
        char = self.text[start : start + 1]
        if char in ("{", "["):
            if len(stack) >= MAX_DEPTH:
                self.fail(f"objects and lists are nested deeper than {MAX_DEPTH} levels", start)
            self.offset += 1
            stack.append(Node("object" if char == "{" else "array", start, []))
            return None
        if char == '"':
            return Node("string", start, self.string())
        word = self.scalar()
        return Node(word if word in ("true", "false", "null") else "number", start, word)

    def _key(self, top: Node) -> None:
        start = self.offset
        if self.text[start : start + 1] != '"':
            self.unexpected("a key in double quotes")
        key = self.string()
        self.blanks()
        self.expect(":")
        top.value.append((key, start, None))

    @staticmethod
    def _add(top: Node, done: Node) -> None:
        if top.kind == "array":
            top.value.append(done)
        else:
            key, start, dummy = top.value[-1]
            top.value[-1] = (key, start, done)

    def scalar(self) -> str:
        """The word of a number or literal."""
        start = self.offset
        super().scalar()
        return self.text[start : self.offset]

    def number(self, word: str, *, whole: bool) -> int:
        """Numbers are never what is wanted, so their size does not matter."""
        return 0

    def escape(self) -> str:
        r"""As Go: a \u that is half a surrogate pair stands for U+FFFD."""
        first = self.unicode_escape()
        if first is None:
            return super().escape()
        if 0xD800 <= first < 0xDC00:
            after = self.offset
            second = self.unicode_escape()
            if second is not None and 0xDC00 <= second < 0xE000:
                return chr(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00))
            self.offset = after
        return _REPLACEMENT if 0xD800 <= first < 0xE000 else chr(first)

    def fail(self, wrong: str, offset: int) -> NoReturn:
        """Broken JSON."""
        raise refusal(JSON_ERROR, wrong, self.source, Places(self.text).at(offset))


def tier_path(index: int) -> str:
    """Where a tier stands in the document."""
    return f"{LIST}[{index}]"


def entry_path(index: int, position: int) -> str:
    """Where the entry of a group stands in the document."""
    return f"{tier_path(index)}.{GROUPS}[{position}]"


def refusal(kind: str, wrong: str, source: str, place: tuple[int, int] | None = None, path: str = "") -> RuleError:
    """The error with its place in front of what is wrong."""
    where = f"{source}, line {place[0]}, column {place[1]}" if place else source
    message = ": ".join(part for part in (where, path, wrong) if part)
    line, column = place or (None, None)
    return RuleError(message, kind=kind, source=source, path=path, line=line, column=column)


class _Reader:
    """Decodes the nodes into tiers and groups. Errors are collected, as decoding goes on behind them."""

    def __init__(self, text: str, source: str) -> None:
        self._source = source
        self._scanner = _RuleScanner(text, source)
        self._places = Places(text)
        self.errors: list[RuleError] = []

    def document(self) -> Node:
        """The whole text. Raises RuleError when it is no JSON document."""
        top = self._scanner.value()
        self._scanner.after_document()
        return top

    def tiers(self, top: Node) -> list[Tier]:
        """The tiers of the document."""
        tiers: list[Tier] = []
        length = 0
        if self._is(top, "object", "the rule"):
            for key, node in self._members(top):
                if key == LIST:
                    length = self._list(node, tiers, length, Tier, self._tier, LIST)
                elif key == "version":
                    self._text(node, "version")
        return tiers[:length]

    def sizes(self, index: int, tier: Tier) -> Sizes:
        """The integers of a tier; those of an entry that another one of the same group replaces have to be right, too."""
        found = {}
        for position, group in enumerate(tier.entries()):
            numbers = [self._integer(group, key, (index, position)) for key in (NUMBER, SERVERS)]
            found[group.texts.get(NAME, "")] = Size(*numbers)
        return found

    def check_descent(self, reading: Reading, index: int) -> None:
        """A tier may ask for no group that the tier before it lacks, and for no more of any."""
        before, tier = reading.tiers[index - 1], reading.tiers[index]
        for position, group in enumerate(reading.decoded[index].entries()):
            name = group.texts.get(NAME, "")
            size, larger = tier[name], before.get(name)
            if larger is None:
                key, wrong = NAME, f'group "{name}" is not in the tier before'
            elif size.servers > larger.servers:
                key, wrong = SERVERS, f'group "{name}" has {size.servers} servers, more than the {larger.servers} of the tier before'
            elif size.number > larger.number:
                key, wrong = NUMBER, f'group "{name}" has {size.number} instances, more than the {larger.number} of the tier before'
            else:
                continue
            self._wrong(TIER_ERROR, wrong, group, key, (index, position))

    def _wrong(self, kind: str, wrong: str, group: Group, key: str, where: tuple[int, int]) -> None:
        """Something is wrong with a key of a group: `where` are the numbers of tier and entry."""
        path = f"{entry_path(*where)}.{key}"
        error = refusal(kind, wrong, self._source, self._places.at(group.offsets.get(key, group.offset)), path)
        error.tier, error.group = where[0], group.texts.get(NAME)
        self.errors.append(error)

    def _tier(self, node: Node, tier: Tier) -> None:
        tier.offset = node.offset
        if not self._is(node, "object", "a tier"):
            return
        for key, value in self._members(node):
            if key == GROUPS:
                tier.length = self._list(value, tier.groups, tier.length, Group, self._group, GROUPS)

    def _group(self, node: Node, group: Group) -> None:
        group.offset = node.offset
        if not self._is(node, "object", "a group"):
            return
        for key, value in self._members(node):
            if key in (NAME, NUMBER, SERVERS):
                text = self._text(value, key)
                if text is not None:
                    group.texts[key] = text
                    group.offsets[key] = value.offset

    def _list(self, node: Node, items: list[Any], length: int, make: Any, decode: Any, what: str) -> int:
        """Decode a list over what an earlier one has left; returns how many elements count."""
        if node.kind != "array":
            if node.kind == "null":
                items.clear()
                return 0
            self._mistyped(node, f"{what} has to be a list")
            return length
        if not node.value:
            items.clear()
        for index, element in enumerate(node.value):
            if index == len(items):
                items.append(make())
            decode(element, items[index])
        return len(node.value)

    def _text(self, node: Node, what: str) -> str | None:
        if node.kind == "string":
            return str(node.value)
        if node.kind != "null":
            self._mistyped(node, f'{what} has to be a text: put it in double quotes ("{what}": "...")')
        return None

    def _is(self, node: Node, kind: str, what: str) -> bool:
        if node.kind == kind:
            return True
        if node.kind != "null":
            self._mistyped(node, f"{what} has to be an object")
        return False

    def _mistyped(self, node: Node, wrong: str) -> None:
        self.errors.append(refusal(TYPE_ERROR, f"{wrong}; it is of type {node.kind}", self._source, self._places.at(node.offset)))

    @staticmethod
    def _members(node: Node) -> Sequence[tuple[str, Node]]:
        """Keys as the operator knows them, and their values."""
        return [(known_key(key), value) for key, dummy, value in node.value]

    def _integer(self, group: Group, key: str, where: tuple[int, int]) -> int:
        text = group.texts.get(key, "")
        number = integer(text)
        if number is None:
            wrong = f'"{text[:40]}" is no integer' if key in group.texts else "it is missing"
            self._wrong(INT_ERROR, f'{wrong}: write digits in double quotes, such as "2"', group, key, where)
            return 0
        return number
