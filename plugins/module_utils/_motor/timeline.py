# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happened while a run waited: one entry per change of state of an instance or control role, and per step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .state import ServiceState

MOST_ENTRIES = 200
# A change of state that is told in one line.
LONGEST_REASON = 200
GONE = "gone"
STARTED, ENDED, CUT = "started", "ended", "cut"


@dataclass(frozen=True)
class Seen:
    """State of an instance or control role, and why it is not running."""

    state: str
    reason: str = ""


@dataclass(frozen=True)
class Change:
    """One entry: at `at` seconds since the start, in `step`, `name` came into `state`. Without a name the step itself did."""

    at: float
    step: str
    name: str
    state: str
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for results."""
        return {**self.__dict__, "at": round(self.at, 1), "reason": self.reason[:LONGEST_REASON]}


def states(state: ServiceState) -> dict[str, Seen]:
    """Every instance and control role by name."""
    found = {item.name: Seen(item.state, item.reason) for item in state.instances}
    for role in state.control:
        found[role.name] = Seen("running") if role.pods_ready else Seen("starting", role.reason)
    return found


class Timeline:
    """Collects changes. The first look only says where things start from. Its clock is the caller's: seconds since the start."""

    def __init__(self) -> None:
        self._entries: list[Change] = []
        self._left_out = 0
        self._last_at = 0.0
        self._states: dict[str, Seen] | None = None
        self._step = ""

    def step(self, at: float, title: str) -> None:
        """A step starts (and the one before it has ended); an empty title ends the last one."""
        if self._step and title != self._step:
            self._add(Change(at, self._step, "", ENDED))
        if title and title != self._step:
            self._add(Change(at, title, "", STARTED))
        self._step = title

    def note(self, at: float, seen: Mapping[str, Seen]) -> list[Change]:
        """What is seen now; returns what has changed since the last look."""
        before, self._states = self._states, dict(seen)
        if before is None:
            return []
        changes = [Change(at, self._step, name, now.state, now.reason) for name, now in seen.items() if _state(before, name) != now.state]
        changes.extend(Change(at, self._step, name, GONE) for name in before if name not in seen)
        for change in changes:
            self._add(change)
        return changes

    def to_list(self) -> list[dict[str, Any]]:
        """Plain data for results. Beyond the limit the last entry says how many changes are left out."""
        found = [entry.to_dict() for entry in self._entries]
        if self._left_out:
            found.append(Change(self._last_at, self._step, "", CUT, f"{self._left_out} further changes are left out").to_dict())
        return found

    def _add(self, change: Change) -> None:
        if len(self._entries) < MOST_ENTRIES:
            self._entries.append(change)
        else:
            self._left_out += 1
            self._last_at = change.at


def _state(seen: Mapping[str, Seen], name: str) -> str | None:
    found = seen.get(name)
    return found.state if found else None
