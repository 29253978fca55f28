# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events on `motor-config` that tell how a run gets on: what they say, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .ownership import MANAGER, metadata_labels
from .timeline import Change

# Short runs write no Events.
FIRST_SECONDS = 10.0
# Changes within this time are told together.
INTERVAL_SECONDS = 5.0
LONGEST_MESSAGE = 1000
WAITING, RUNNING, FAILED, CHANGED, SETTLED = "Waiting", "InstanceRunning", "InstanceFailed", "InstanceChanged", "Settled"


@dataclass(frozen=True)
class News:
    """What one Event says. `reason` is a CamelCase word."""

    reason: str
    message: str
    warning: bool = False


class Reporter:
    """Says when there is something to tell. Times are seconds that were waited so far; the caller has the clock."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._pending: list[Change] = []
        self._last: float | None = None

    def look(self, waited: float, changes: Sequence[Change], missing: str) -> News | None:
        """The next Event, or None for now. `missing` says what is still waited for."""
        if waited < FIRST_SECONDS or (self._last is None and not missing):
            return None
        self._pending.extend(changes)
        if self._last is None:
            return self._tell(waited, WAITING, missing)
        if not self._pending or waited - self._last < INTERVAL_SECONDS:
            return None
        told = _in_words(self._pending)
        return self._tell(waited, _reason(self._pending), f"{told}. Still missing: {missing}" if missing else told)

    def end(self, news: News, *, always: bool) -> News | None:
        """The last Event; unless `always`, only after others."""
        return News(news.reason, self._said(news.message), news.warning) if always or self._last is not None else None

    def _tell(self, waited: float, reason: str, message: str) -> News:
        self._last = waited
        self._pending.clear()
        return News(reason, self._said(message), reason == FAILED)

    def _said(self, message: str) -> str:
        return f"{self._verb}: {message}"[:LONGEST_MESSAGE]


def event(about: Mapping[str, Any], news: News, *, name: str, at: str, by: str) -> dict[str, Any]:
    """The Event object about `about`. `at` is RFC 3339, `name` must be free."""
    metadata = about["metadata"]
    kind = {key: about[key] for key in ("apiVersion", "kind")}
    involved = {**kind, **{key: metadata[key] for key in ("name", "namespace", "uid")}}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": metadata["namespace"], "labels": metadata_labels("progress")},
        "involvedObject": involved,
        "reason": news.reason,
        "message": news.message,
        "type": "Warning" if news.warning else "Normal",
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
        "source": {"component": MANAGER},
        "reportingComponent": MANAGER,
        "reportingInstance": by[:128],
    }


def _reason(changes: Sequence[Change]) -> str:
    states = {change.state for change in changes}
    return FAILED if "failed" in states else RUNNING if "running" in states else CHANGED


def _in_words(changes: Sequence[Change]) -> str:
    latest = {change.name: change for change in changes}
    return ", ".join(f"{change.name} {change.state}" for change in latest.values())
