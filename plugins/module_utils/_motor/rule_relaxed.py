# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a scaling rule with comments: an option that people have to choose, since the operator reads none.

Comments begin with `#` or `//` outside of strings and end with the line. They become blanks, so that every other character keeps
its line and column; a text without comments stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .findings import Finding
from .rule_codes import finding
from .rule_reader import Places, attempt

# A string ends with its line at the latest; what is wrong with it then is told by the reader.
_STRING_OR_COMMENT = re.compile(r'"[^"\\\r\n]*(?:\\[^\r\n][^"\\\r\n]*)*"?|(?P<comment>(?:#|//)[^\r\n]*)')
_BRACKETS = "{}[]"
# More brackets in comments than this are no slips of the pen.
_MAX_BRACKETS = 16


@dataclass(frozen=True)
class Relaxed:
    """The text without comments, and what there is to tell about the way there."""

    text: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Comment:
    """A comment with its offsets in the text. `bracket` is the offset of the bracket that it ends with, or None."""

    start: int
    end: int
    bracket: int | None


def comments(text: str) -> Iterator[Comment]:
    """The comments of a text, in its order."""
    for match in _STRING_OR_COMMENT.finditer(text):
        if match["comment"]:
            last = match.start() + len(match[0].rstrip()) - 1
            yield Comment(match.start(), match.end(), last if text[last] in _BRACKETS else None)


def relaxed(text: str, *, source: str) -> Relaxed:
    """The text with blanks for comments.

    A bracket at the end of a comment counts as code only when the text is no JSON without it, and is JSON with it.
    """
    found = list(comments(text))
    if not found:
        return Relaxed(text, ())
    blanked = _without(text, found)
    brackets = _needed(blanked, text, [comment.bracket for comment in found if comment.bracket is not None])
    places = Places(text)
    line, column = places.at(found[0].start)
    number = f"{len(found)} comment{'s' if len(found) > 1 else ''}"
    told = [finding("R501", f"{source}, line {line}, column {column}: {number} from here on removed", line=line, column=column)]
    for bracket in brackets:
        line, column = places.at(bracket)
        message = f'{source}, line {line}, column {column}: the "{text[bracket]}" at the end of a comment is taken as code'
        told.append(finding("R502", message, line=line, column=column))
    return Relaxed(_with(blanked, text, brackets), tuple(told))


def _without(text: str, found: Sequence[Comment]) -> str:
    parts, before = [], 0
    for comment in found:
        parts += [text[before : comment.start], " " * (comment.end - comment.start)]
        before = comment.end
    return "".join([*parts, text[before:]])


def _with(blanked: str, text: str, brackets: Sequence[int]) -> str:
    parts, before = [], 0
    for bracket in brackets:
        parts += [blanked[before:bracket], text[bracket]]
        before = bracket + 1
    return "".join([*parts, blanked[before:]])


def _needed(blanked: str, text: str, candidates: Sequence[int]) -> list[int]:
    """The brackets without which the text is no JSON, in its order; none when it is JSON as it is, or none help.

    Again and again that one is added which lets the reader get furthest, the last one of equals. In the end each has to be needed.
    """
    chosen: list[int] = []
    reached = _reach(blanked)
    if len(candidates) > _MAX_BRACKETS:
        return []
    while reached is not None:
        trials = [(_reach(_with(blanked, text, sorted([*chosen, bracket]))), bracket) for bracket in candidates if bracket not in chosen]
        complete = [bracket for offset, bracket in trials if offset is None]
        further = [(offset, bracket) for offset, bracket in trials if offset is not None and offset > reached]
        if complete:
            chosen, reached = [*chosen, complete[-1]], None
        elif further:
            reached, bracket = max(further)
            chosen = [*chosen, bracket]
        else:
            return []
    return sorted(bracket for bracket in chosen if _reach(_with(blanked, text, sorted(set(chosen) - {bracket}))) is not None)


def _reach(text: str) -> int | None:
    """How far the reader gets, None when the text is JSON."""
    tried = attempt(text, source="")
    if tried.top is not None:
        return None
    line, column = tried.errors[0].line or 1, tried.errors[0].column or 1
    return Places(text).offset(line, column)
