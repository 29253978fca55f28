# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells how a run gets on: a timeline for its result, Events on `motor-config` for those who watch the cluster."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from .._motor import events, timeline
from .._motor.errors import MotorError
from .._motor.events import News
from .._motor.state import Snapshot, service_state
from .api import Api, ApiError
from .aside import Aside

# How long the end of a run waits for an Event that is on its way.
LAST_SECONDS = 2.0


class Progress:
    """`warnings` is what the user should know of Events that could not be written; they never fail a run."""

    def __init__(self, api: Api, verb: str, by: str, run: str, before: Snapshot) -> None:
        self._api, self._by, self._run = api.pausing(None), by, run
        self._reporter = events.Reporter(verb)
        self._timeline = timeline.Timeline()
        self._started = time.monotonic()
        self._waiting_since: float | None = None
        self._config_map: Mapping[str, Any] | None = None
        self._written = 0
        self._denied = False
        self.aside = Aside()
        self.warnings: list[str] = []
        self._note(before)

    def step(self, title: str) -> None:
        """A step of the plan starts; an empty title ends the last one."""
        self._timeline.step(self._elapsed(), title)

    def waiting(self, snapshot: Snapshot, missing: str) -> None:
        """What is seen while waiting; `missing` says in words what is still waited for."""
        changes = self._note(snapshot)
        now = time.monotonic()
        if self._waiting_since is None:
            self._waiting_since = now
        self._write(self._reporter.look(now - self._waiting_since, changes, missing))

    def failed(self, reason: str, message: str, *, always: bool) -> None:
        """The run ends in failure. Unless `always`, that is an Event only when there were others."""
        self._write(self._reporter.end(News(reason, message, warning=True), always=always))

    def ended(self, snapshot: Snapshot, verb: str) -> None:
        """A plan has reached what it was to reach."""
        self._note(snapshot)
        self.step("")
        self._write(self._reporter.end(News(events.SETTLED, f"{verb} has ended"), always=False))

    def close(self) -> None:
        """Write no more Events; the last one is given a moment."""
        self.aside.close(LAST_SECONDS)

    def entries(self) -> list[dict[str, Any]]:
        """The timeline as plain data."""
        return self._timeline.to_list()

    def _elapsed(self) -> float:
        return time.monotonic() - self._started

    def _note(self, snapshot: Snapshot) -> list[timeline.Change]:
        self._config_map = snapshot.config_map or self._config_map
        return self._timeline.note(self._elapsed(), timeline.states(service_state(snapshot)))

    def _write(self, news: News | None) -> None:
        about = self._config_map
        if news is None or self._denied or not about or "uid" not in about["metadata"]:
            return
        self._written += 1
        name = f"{about['metadata']['name']}.{self._run[:16]}.{self._written}"
        made = events.event(about, news, name=name, at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), by=self._by)
        self.aside.put(lambda: self._send(made))

    def _send(self, made: Mapping[str, Any]) -> None:
        if self._denied:
            return
        try:
            self._api.create(made)
        except ApiError as error:
            if error.status == 403:
                self._denied = True
                self.warnings.append(f"Progress is not written as Events: {error}")
        except MotorError:
            pass  # the run has to stop, and says so itself
