# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Of several replicas of a program one leads: the one that has the program's Lease."""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from .api import Api
from .lock import RENEWALS_PER_DURATION, Contender, LockLost, Tenure

ATTEMPTS_ANNOTATION = "ascend.mindie/attempts"
# A leader stops to lead this part of the duration before others may begin.
MARGIN = 0.2
SOON = 0.05


class Term(Tenure):
    """The time for which one replica leads without a break."""

    what = "lead, that is the"
    advice = "Nothing more was written."


class Election:
    """A candidate. `start` has it contend for ever, in a thread, until `stop`; whoever leads renews, the others look whether they may.

    After a clean stop another one leads within a third of the duration, after the death of a leader within four thirds.
    """

    def __init__(self, api: Api, namespace: str, name: str, holder: str, duration: float = 15.0) -> None:
        self._api, self._namespace, self._name = api, namespace, name
        self._interval = duration / RENEWALS_PER_DURATION
        self._looking = api.pausing(None).within(max(1.0, self._interval))
        # A container that starts again in its pod is another candidate: what it was before may still be at work.
        self._holder, self._identity = holder, f"{holder}_{secrets.token_hex(4)}"
        self._duration = duration
        self._contender = Contender(float("inf"), self._identity)
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._seen: Mapping[str, Any] | None = None
        self._term: Term | None = None
        self.error = ""

    @property
    def leading(self) -> bool:
        """True while this one surely leads, by its own clock; false a fifth of the duration before anybody else can."""
        term = self._term
        return term is not None and term.holds and not self._ending.is_set()

    @property
    def leader(self) -> str:
        """The name of the holder that was seen last, "" for nobody."""
        if self.leading:
            return self._holder
        held = ((self._seen or {}).get("spec") or {}).get("holderIdentity") or ""
        return str(held).rpartition("_")[0] or str(held)

    def check(self) -> None:
        """Raise LockLost unless this one leads."""
        self._check(self._term)

    def fence(self) -> Callable[[], None]:
        """As `check`, for the present term only: what was decided in one term is not to be done in the next one."""
        term = self._term

        def check() -> None:
            self._check(term)

        return check

    def note(self, text: str) -> None:
        """Store a text on the Lease, for this leader and those after it; returns when it is stored. LockLost when this one leads no longer."""
        self._check(self._term).annotate({ATTEMPTS_ANNOTATION: text})

    def noted(self) -> str:
        """The text on the Lease."""
        annotations = self._term.annotations if self._term else ((self._seen or {}).get("metadata") or {}).get("annotations") or {}
        return str(annotations.get(ATTEMPTS_ANNOTATION) or "")

    def start(self) -> None:
        """Contend in a thread."""
        self._thread = threading.Thread(target=self.run, name=f"election {self._name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Lead no longer, and give the Lease back."""
        self._ending.set()
        if self._thread:
            self._thread.join(self._duration)

    def run(self) -> None:
        """Contend until `stop`."""
        while not self._ending.is_set():
            term = self._contend()
            if term:
                self._lead(term)
            else:
                self._ending.wait(self._pause())

    def _pause(self) -> float:
        """Until the next look: not all candidates at once, and as soon as a leader may be dead."""
        left = self._contender.dead_at - time.monotonic()
        pause = self._interval * random.uniform(0.8, 1.0)
        return min(pause, left + SOON) if left > 0 else pause

    def _contend(self) -> Term | None:
        """Take the Lease where that may be. Trouble is told in `error`, and passes or not."""
        term = Term(
            self._api, self._namespace, self._name, self._identity, self._duration, margin=MARGIN * self._duration, stop=self._ending
        )
        try:
            self._seen = self._looking.get("Lease", self._namespace, self._name)
            self.error = ""
            return term if self._contender.free(self._seen) and term.take(self._seen, {}, {}) else None
        except Exception as error:  # whatever it is, a candidate must not fall silent
            self.error = str(error)
            return None

    def _lead(self, term: Term) -> None:
        self._term = term
        try:
            term.keep()
            if self._ending.is_set():
                term.give_back()
        except Exception as error:  # the Lease runs out by itself
            self.error = str(error)
        finally:
            self._seen, self._term = None, None

    def _check(self, term: Term | None) -> Term:
        """The term itself, while it lasts."""
        if term is None or term is not self._term or self._ending.is_set():
            raise LockLost(f"This replica does not lead (Lease {self._namespace}/{self._name}). Nothing was written.", reason="LockLost")
        term.check()
        return term
