# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What load has done to a service: how its instances came and went, and what became of the requests."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

OK = "ok"
# Changes that are told at most, the first ones.
LONGEST_TIMELINE = 200


@dataclass(frozen=True)
class Seen:
    """Instances of an engine role that are wanted, and those that are ready."""

    wanted: int
    ready: int


@dataclass(frozen=True)
class Course:
    """How the count of one engine role went. Times are seconds since the first request."""

    before: int
    now: Seen
    most: int
    first: float | None = None
    all_ready: float | None = None
    back: float | None = None

    def saw(self, at: float, seen: Seen) -> Course:
        """With one more look."""
        course = replace(self, now=seen)
        if seen.wanted > self.most:
            course = replace(course, most=seen.wanted, first=at if self.first is None else self.first, all_ready=None, back=None)
        if course.first is None:
            return course
        if course.all_ready is None and seen.wanted == course.most and seen.ready >= course.most:
            course = replace(course, all_ready=at)
        if seen.wanted > self.before:
            return replace(course, back=None)
        return replace(course, back=at) if course.back is None and seen.ready <= self.before else course

    @property
    def out(self) -> bool:
        """Whether there are still more instances than before."""
        return self.first is not None and self.back is None


@dataclass(frozen=True)
class Courses:
    """All engine roles, and what has changed when."""

    roles: Mapping[str, Course]
    timeline: tuple[Mapping[str, Any], ...] = ()

    def saw(self, at: float, seen: Mapping[str, Seen]) -> Courses:
        """With one more look. An engine role that is not seen just now stays as it was."""
        roles, told = dict(self.roles), list(self.timeline)
        for role, look in seen.items():
            course = roles.get(role) or Course(look.wanted, Seen(-1, -1), look.wanted)
            if look != course.now and len(told) < LONGEST_TIMELINE:
                told.append({"seconds": round(at, 1), "engine_role": role, "wanted": look.wanted, "ready": look.ready})
            roles[role] = course.saw(at, look)
        return Courses(roles, tuple(told))

    @property
    def out(self) -> bool:
        """Whether any engine role has still more instances than before."""
        return any(course.out for course in self.roles.values())

    @property
    def grew(self) -> bool:
        """Whether any engine role was scaled out."""
        return any(course.first is not None for course in self.roles.values())

    def to_list(self) -> list[dict[str, Any]]:
        """Plain data for results."""
        return [
            {
                "engine_role": role,
                "before": course.before,
                "most": course.most,
                "after": course.now.wanted,
                "first_scale_out": _rounded(course.first),
                "all_ready": _rounded(course.all_ready),
                "back_in": _rounded(course.back),
            }
            for role, course in sorted(self.roles.items(), key=lambda item: item[0])
            if course.most
        ]


@dataclass
class Tally:
    """What became of requests: how often which outcome, how long those took that were answered, and one message for each outcome."""

    outcomes: dict[str, int] = field(default_factory=dict)
    latencies: list[float] = field(default_factory=list)
    messages: dict[str, str] = field(default_factory=dict)

    def add(self, outcome: str, seconds: float, message: str = "") -> None:
        """One request more."""
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        if outcome == OK:
            self.latencies.append(seconds)
        elif outcome not in self.messages:
            self.messages[outcome] = message

    def to_dict(self, seconds: float) -> dict[str, Any]:
        """Plain data for results; `seconds` is how long requests were sent."""
        sent = sum(self.outcomes.values())
        return {
            "sent": sent,
            "failed": sent - self.outcomes.get(OK, 0),
            "outcomes": dict(sorted(self.outcomes.items())),
            "messages": dict(sorted(self.messages.items())),
            "seconds": round(seconds, 1),
            "per_second": round(sent / seconds, 2) if seconds > 0 else 0.0,
            "latency": _latency(self.latencies),
        }


def outcome_of(status: int, body: bytes) -> tuple[str, str]:
    """What became of a request that was answered, and the message when it is not well. An error may come with status 200."""
    text = body[:300].decode("utf-8", "replace").strip()
    if not 200 <= status < 300:
        return f"HTTP {status}", text
    if body.lstrip()[:5] == b"data:":
        return ("error in the answer", text) if b'"error"' in body else (OK, "")
    try:
        answer = json.loads(body)
    except ValueError:
        return "no JSON", text
    wrong = not isinstance(answer, dict) or answer.get("error") or ("choices" in answer and not answer["choices"])
    return ("error in the answer", text) if wrong else (OK, "")


def table(load: Mapping[str, Any]) -> list[str]:
    """The result as lines of text."""
    latency = load["latency"]
    lines = [
        f"{load['sent']} requests in {load['seconds']} s, {load['concurrency']} at a time, {load['failed']} failed"
        + "".join(f"; {outcome}: {count}" for outcome, count in load["outcomes"].items() if outcome != OK)
    ]
    if latency:
        lines.append(f"latency: p50 {latency['p50']} s, p95 {latency['p95']} s, p99 {latency['p99']} s, longest {latency['longest']} s")
    lines.extend(f"{outcome}: {message}" for outcome, message in load["messages"].items())
    for course in load["scaling"]:
        lines.append("")
        lines.extend(_course(course))
    if load["scaling"] and not load["settled"]:
        lines.extend(("", f"After {load['watched']} s the service was not back at its counts yet: look again with verify_autoscale."))
    return lines


def _course(course: Mapping[str, Any]) -> Iterable[str]:
    role, before = course["engine_role"], course["before"]
    if course["first_scale_out"] is None:
        return [f"{role}: stayed at {before}" if course["after"] == before else f"{role}: from {before} to {course['after']}"]
    return [
        f"{role}: from {before} to {course['most']}, now {course['after']}",
        f"  first scale-out after {course['first_scale_out']} s",
        f"  all {course['most']} ready after {_after(course['all_ready'])}",
        f"  back at {before} after {_after(course['back_in'])}",
    ]


def _after(seconds: float | None) -> str:
    return "... not within the time watched" if seconds is None else f"{seconds} s"


def _latency(latencies: Sequence[float]) -> dict[str, float]:
    if not latencies:
        return {}
    ordered = sorted(latencies)
    shown = {f"p{per_cent}": ordered[max(0, math.ceil(len(ordered) * per_cent / 100) - 1)] for per_cent in (50, 95, 99)}
    found = {**shown, "mean": sum(ordered) / len(ordered), "longest": ordered[-1]}
    return {name: round(value, 3) for name, value in found.items()}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
