# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A strict JSON reader that knows where every value stands.

One scanner for all JSON that people write. It refuses what other readers let pass and silently read otherwise: duplicate keys, NaN,
Infinity, comments, trailing commas, control characters, lone surrogates, text after the document. What a dialect may decide
otherwise (numbers, strings, equal keys, text after the document) is a method of its own in `Scanner`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

from .errors import InputError

Path: TypeAlias = "tuple[str | int, ...]"

BYTE_ORDER_MARK = "\ufeff"
MAX_DEPTH = 200
# Python itself refuses to write or read longer integers as text.
MAX_DIGITS = 4300

# Deeper paths are cut in messages; line and column say where.
MAX_SHOWN = 20

_TOO_DEEP = f"objects and lists are nested deeper than {MAX_DEPTH} levels: make the document flatter"
_BLANKS = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORD = re.compile(r"[-+.\w]+")
_PLAIN = re.compile(r'[^"\\\x00-\x1f\ud800-\udfff]*')
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_UNICODE = re.compile(r"\\u([0-9a-fA-F]{4})")
_LITERALS = {"true": True, "false": False, "null": None}
_HINTS = {
    "True": "write true",
    "False": "write false",
    "None": "write null",
    "NaN": "JSON has no such number",
    "Infinity": "JSON has no such number",
    "-Infinity": "JSON has no such number",
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def dotted(path: Path) -> str:
    """A path in words: `("storage", 0, "type")` is `storage[0].type`; keys that are no plain names are quoted: `a["b.c"]`."""
    written = ""
    for token in path:
        if isinstance(token, int):
            written += f"[{token}]"
        elif _NAME.fullmatch(token):
            written += f".{token}" if written else token
        else:
            written += f"[{json.dumps(token, ensure_ascii=False)}]"
    return written


@dataclass(frozen=True)
class Document:
    """A JSON text with its values and their places.

    `data` is the decoded value, `text` the text without a byte order mark, `source` the option or file it came from.
    `spans` maps a path to the first offset and the offset after the last character of its value. `typed` is False when the
    user gave a mapping and nobody has seen this text: its lines and columns then stay out of messages.
    """

    source: str
    text: str
    data: Any
    spans: Mapping[Path, tuple[int, int]] = field(repr=False)
    typed: bool = True

    def position(self, path: Path) -> tuple[int, int]:
        """Line and column (both from 1; a column is a character) of the value's first character.

        A path that is not there has the place of the innermost object or list around it: where the missing key belongs.
        """
        while path not in self.spans:
            path = path[:-1]
        return _place(self.text, self.spans[path][0])

    def has(self, path: Path) -> bool:
        """Whether the path is there, be its value null."""
        return path in self.spans

    def value(self, path: Path, default: Any = None) -> Any:
        """The value at a path, or `default` when it is not there."""
        if path not in self.spans:
            return default
        found = self.data
        for token in path:
            found = found[token]
        return found

    def raw(self, path: Path) -> str:
        """The value at a path exactly as written: `1e1` for 10.0. Raises KeyError when it is not there."""
        start, end = self.spans[path]
        return self.text[start:end]

    def replace(self, values: Mapping[Path, str]) -> str:
        """The text with these values replaced by JSON tokens, and no other character changed. Raises KeyError for an absent path."""
        text = self.text
        for (start, end), token in sorted(((self.spans[path], token) for path, token in values.items()), reverse=True):
            text = text[:start] + token + text[end:]
        return text

    def insert(self, parent: Path, key: str, token: str) -> str:
        """The text with `"key": token` put in front of the first member of the object at `parent`, indented as that one is."""
        start, end = self.spans[parent]
        gap = _BLANKS.match(self.text, start + 1)
        blanks = gap[0] if gap else ""
        first = start + 1 + len(blanks)
        written = f"{json.dumps(key, ensure_ascii=False)}: {token}"
        if first == end - 1:
            return f"{self.text[: start + 1]}{written}{self.text[end - 1 :]}"
        return f"{self.text[:first]}{written},{blanks or ' '}{self.text[first:]}"

    def error(self, path: Path, wrong: str) -> InputError:
        """The error that says what is wrong with the value at a path, or with its absence."""
        line, column = self.position(path) if self.typed else (None, None)
        return InputError.at(wrong, source=self.source, path=dotted(path), line=line, column=column)


def read(text: str, *, source: str, typed: bool = True) -> Document:
    """Read one JSON document. `source` names the option or file in errors. Raises InputError with line and column."""
    text = text.removeprefix(BYTE_ORDER_MARK)
    scanner = Scanner(text, source)
    return Document(source, text, scanner.document(), scanner.spans, typed)


def from_mapping(data: Mapping[str, Any], source: str) -> Document:
    """The document of a mapping given as plain data (from YAML), written with an indent of 2.

    Raises InputError when it holds what JSON cannot: keys that are not strings, dates, NaN.
    """
    plain = _plain(data, (), source)
    return read(json.dumps(plain, ensure_ascii=False, indent=2) + "\n", source=source, typed=False)


def _plain(value: Any, path: Path, source: str) -> Any:
    """The same value of JSON's own types only: subclasses of str and the like become plain."""
    if value is None or isinstance(value, bool):
        return value
    if len(path) > MAX_DEPTH:
        raise InputError.at(_TOO_DEEP, source=source, path=dotted(path[:MAX_SHOWN]))
    if isinstance(value, Mapping):
        return {_plain_key(key, path, source): _plain(item, (*path, str(key)), source) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, (*path, index), source) for index, item in enumerate(value)]
    for kind in (str, int, float):
        if isinstance(value, kind):
            if isinstance(value, float) and not math.isfinite(value):
                raise InputError.at(f"{value} cannot be written as JSON: give a finite number", source=source, path=dotted(path))
            return kind(value)
    wrong = f"a {type(value).__name__} cannot be written as JSON: put {value} in quotes"
    raise InputError.at(wrong, source=source, path=dotted(path))


def _plain_key(key: Any, path: Path, source: str) -> str:
    if not isinstance(key, str):
        raise InputError.at(f"the key {key} is no string: put it in quotes", source=source, path=dotted(path))
    return str(key)


def _place(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


class Scanner:
    """Reads one text from its beginning to its end. `spans` collects the places of all values."""

    def __init__(self, text: str, source: str) -> None:
        self.text = text
        self.source = source
        self.offset = 0
        self.path: list[str | int] = []
        self.spans: dict[Path, tuple[int, int]] = {}

    def document(self) -> Any:
        """The value of the whole text."""
        value = self.value()
        self.after_document()
        return value

    def after_document(self) -> None:
        """Only blanks may follow the document."""
        self.blanks()
        if self.offset < len(self.text):
            self.unexpected("the end of the text: the document is complete before this place")

    def value(self) -> Any:
        """The value that starts at the next character that is no blank."""
        self.blanks()
        start = self.offset
        if len(self.path) > MAX_DEPTH:
            self.fail(_TOO_DEEP, start)
        char = self.text[start : start + 1]
        if char == "{":
            found: Any = self.object()
        elif char == "[":
            found = self.list()
        elif char == '"':
            found = self.string()
        else:
            found = self.scalar()
        self.spans[tuple(self.path)] = (start, self.offset)
        return found

    def object(self) -> dict[str, Any]:
        """The object that starts here."""
        found: dict[str, Any] = {}
        places: dict[str, int] = {}
        self.offset += 1
        while self.more("}", first=not places):
            start = self.offset
            if self.text[start : start + 1] != '"':
                self.unexpected("a key in double quotes")
            key = self.string()
            self.path.append(key)
            if key in places:
                self.duplicate(key, places[key], start)
            places[key] = start
            self.blanks()
            self.expect(":")
            found[key] = self.value()
            self.path.pop()
        return found

    def list(self) -> list[Any]:
        """The list that starts here."""
        found: list[Any] = []
        self.offset += 1
        while self.more("]", first=not found):
            self.path.append(len(found))
            found.append(self.value())
            self.path.pop()
        return found

    def more(self, closing: str, *, first: bool) -> bool:
        """Whether another member follows; the offset is then at its first character, else after the closing bracket."""
        self.blanks()
        if self.text[self.offset : self.offset + 1] == closing:
            self.offset += 1
            return False
        if not first:
            comma = self.offset
            self.expect(",", closing)
            self.blanks()
            if self.text[self.offset : self.offset + 1] == closing:
                self.fail(f"a comma before {closing}: remove it", comma)
        return True

    def duplicate(self, key: str, earlier: int, offset: int) -> None:
        """Two equal keys in one object: readers disagree about which one counts."""
        line, column = _place(self.text, earlier)
        self.fail(f"the key stands in this object already, at line {line}, column {column}: remove one of the two", offset)

    def string(self) -> str:
        """The string that starts here."""
        start = self.offset
        parts = []
        self.offset += 1
        while True:
            plain = _PLAIN.match(self.text, self.offset)
            parts.append(plain[0] if plain else "")
            self.offset += len(parts[-1])
            char = self.text[self.offset : self.offset + 1]
            if char == '"':
                self.offset += 1
                return "".join(parts)
            if char != "\\":
                self.bad_character(char, start)
            parts.append(self.escape())

    def bad_character(self, char: str, start: int) -> NoReturn:
        """A character that may not stand in a string as it is."""
        if char in ("", "\n", "\r"):
            self.fail('the string that starts here does not end in this line: close it with " (a line break is written \\n)', start)
        if char >= "\ud800":
            self.fail("half of a surrogate pair: this text is not valid UTF-8", self.offset)
        self.fail(f"the control character U+{ord(char):04X} in a string: write it as {json.dumps(char)[1:-1]}", self.offset)

    def escape(self) -> str:
        """What the escape sequence that starts here stands for."""
        start = self.offset
        char = self.text[start + 1 : start + 2]
        if char in _ESCAPES and char:
            self.offset += 2
            return _ESCAPES[char]
        first = self.unicode_escape()
        if first is None:
            self.fail(f"\\{char} is no escape sequence of JSON: a backslash itself is written \\\\", start)
        if 0xD800 <= first < 0xDC00:
            second = self.unicode_escape()
            if second is not None and 0xDC00 <= second < 0xE000:
                return chr(0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00))
        if 0xD800 <= first < 0xE000:
            self.fail("half of a surrogate pair: write the character itself", start)
        return chr(first)

    def unicode_escape(self) -> int | None:
        r"""The number of the \uXXXX that starts here, or None when there is none."""
        match = _UNICODE.match(self.text, self.offset)
        if match is None:
            return None
        self.offset = match.end()
        return int(match[1], 16)

    def scalar(self) -> Any:
        """A number, true, false or null."""
        match = _WORD.match(self.text, self.offset)
        word = match[0] if match else ""
        if word in _LITERALS:
            self.offset += len(word)
            return _LITERALS[word]
        number = _NUMBER.fullmatch(word)
        if number is None:
            self.unexpected("a value", word)
        found = self.number(word, whole=number[1] is None and number[2] is None)
        self.offset += len(word)
        return found

    def number(self, word: str, *, whole: bool) -> int | float:
        """The number of a token: whole ones are integers of any size, all others floating point."""
        if whole:
            if len(word) > MAX_DIGITS:
                self.fail(f"an integer of more than {MAX_DIGITS} digits", self.offset)
            return int(word)
        found = float(word)
        if math.isinf(found):
            self.fail(f"the number {word} is too large", self.offset)
        return found

    def blanks(self) -> None:
        """Skip blanks."""
        match = _BLANKS.match(self.text, self.offset)
        self.offset = match.end() if match else self.offset

    def expect(self, char: str, closing: str = "") -> None:
        """Step over one character that must be here."""
        if self.text[self.offset : self.offset + 1] != char:
            self.unexpected(f"{char} or {closing}" if closing else char)
        self.offset += 1

    def unexpected(self, wanted: str, word: str = "") -> NoReturn:
        """Fail because something else is needed here."""
        char = self.text[self.offset : self.offset + 1]
        if not char:
            self.fail(f"the text ends here, but {wanted} is missing", self.offset)
        if self.text.startswith(("//", "/*", "#"), self.offset):
            self.fail("a comment: JSON has none, remove it", self.offset)
        if char == "'":
            self.fail("a single quote: JSON strings stand in double quotes", self.offset)
        shown = word or char
        hint = f" ({_HINTS[shown]})" if shown in _HINTS else ""
        described = json.dumps(shown[:40], ensure_ascii=not shown.isprintable())
        self.fail(f"found {described}{hint} instead of {wanted}", self.offset)

    def fail(self, wrong: str, offset: int) -> NoReturn:
        """Raise the error with its place."""
        line, column = _place(self.text, offset)
        raise InputError.at(wrong, source=self.source, path=dotted(tuple(self.path[:MAX_SHOWN])), line=line, column=column)
