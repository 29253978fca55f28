# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits until instances that go are idle, as far as the coordinator's metrics tell."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from .._motor import idle
from .._motor.errors import MotorError
from .api import Api, ApiError

POLL_SECONDS = 1.0
# A signal or a lost lock ends the wait after this long at most.
LONGEST_NAP = 0.5


class NotIdle(MotorError):
    """Instances that were to go were not found idle in time, and the user does not want them to be deleted all the same."""


def until_idle(
    api: Api, namespace: str, wish: idle.IdleWait, check: Callable[[], None], tell: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Return as soon as all victims are idle, or (on_timeout: continue) when time is up, with what was last seen of each.

    `check` raises when the run has to stop; `tell` is told after each look what is still waited for. Raises NotIdle when time
    is up with on_timeout: fail, and ApiError when the user may not read the metrics at all. A coordinator that does not answer
    leaves the load unknown; without its Service there is nothing to wait for, so that time is up at once.
    """
    started, watched = time.monotonic(), idle.begin(wish.victims)
    while busy := _busy(watched):
        reading, possible = _read(api, namespace, wish.service, started)
        watched = idle.look(watched, reading, wish.collection)
        busy, left = _busy(watched), wish.timeout - (time.monotonic() - started)
        if not busy or left <= 0 or not possible:
            break
        tell(f"not idle yet: {busy}")
        _nap(min(POLL_SECONDS, left), check)
    waited = time.monotonic() - started
    if busy and wish.on_timeout == idle.FAIL:
        raise NotIdle(
            f"Cannot remove instances of {namespace} while they are not idle: {busy} after {waited:.0f} s. Nothing was deleted in this step. "
            "Run the task again later, raise wait_idle.timeout, or set wait_idle.on_timeout: continue.",
            reason="NotIdle",
            drained=[item.to_dict() for item in watched],
        )
    return [{**item.to_dict(), "seconds": round(waited, 1)} for item in watched]


def _busy(watched: Iterable[idle.Watched]) -> str:
    """Who is not known to be idle, in words."""
    return "; ".join(item.in_words() for item in watched if not item.idle)


def _read(api: Api, namespace: str, service: str, started: float) -> tuple[idle.Reading, bool]:
    """One look, and whether another one could tell more."""
    try:
        answer = api.through_service(namespace, service, "metrics", [("type", "dp")])
    except ApiError as error:
        if error.status in (401, 403):
            raise
        return idle.Reading(time.monotonic() - started, None, error.message), error.status != 404
    at = time.monotonic() - started
    if answer.status != 200:
        said = answer.body[:200].decode("utf-8", "replace").strip()
        return idle.Reading(at, None, f"the coordinator's metrics: HTTP {answer.status} {said}".rstrip()), True
    return idle.Reading(at, answer.body.decode("utf-8", "replace")), True


def _nap(seconds: float, check: Callable[[], None]) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, LONGEST_NAP))
        check()
