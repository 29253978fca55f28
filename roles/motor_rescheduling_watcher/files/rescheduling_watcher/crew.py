# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Has repairs done: each once at a time, within budgets, on record before it is begun, and told when it has ended."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._cluster.api import Conflict
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.election import Election
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.lock import LockHeld, LockLost
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.program_shell import rfc3339
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.signals import Interrupted
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import MotorError
from ansible_collections.ascend.mindie.plugins.module_utils._motor.events import News
from ansible_collections.ascend.mindie.plugins.module_utils._motor.hands_off import HANDS_OFF

from .acts import Acts
from .board import Board
from .budget import Bucket
from .metrics import Counters
from .repairs import Repair
from .settings import NUDGE, RECREATE_FAILED, RELEASE_STUCK, RESTORE_MISSING
from .tell import Teller
from .tries import Tries

LOG = logging.getLogger(__name__)
# Transactions wait for pods to go, up to minutes: what takes one request does not wait for them.
WORKERS, QUICK_WORKERS = 8, 4
# The operator looks at 10 jobs per second, whoever asks: a nudge must not be what keeps others from being looked at.
NUDGES_PER_SECOND, NUDGES_AT_ONCE = 4.0, 10
OTHERS_PER_SECOND, OTHERS_AT_ONCE = 1.0, 4
# What was just done is not looked for again before the watches have shown it; what failed is left alone for longer.
REST_SECONDS, REST_FAILED_SECONDS = 5.0, 20.0
GIVEN_UP_SECONDS = 3600.0
_REASONS = {NUDGE: "Nudged", RELEASE_STUCK: "PodReleased", RECREATE_FAILED: "JobRecreated", RESTORE_MISSING: "InstanceRestored"}
_TRANSACTIONS = frozenset({RECREATE_FAILED, RESTORE_MISSING})
DONE, GIVEN_UP = "done", "given up"

Find = Callable[[Repair], "Mapping[str, Any] | None"]


class Crew:
    """`find` gives the object that a repair is about, for its Event; `look_again` is told of namespaces to be looked at anew."""

    def __init__(
        self,
        acts: Acts,
        election: Election,
        teller: Teller,
        board: Board,
        counters: Counters,
        tries_per_hour: int,
        find: Find,
        look_again: Callable[[str, float], None],
    ) -> None:
        self._acts, self._election, self._teller, self._board, self._counters = acts, election, teller, board, counters
        self._most, self._find, self._look_again = tries_per_hour, find, look_again
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="repair")
        self._quick = ThreadPoolExecutor(QUICK_WORKERS, thread_name_prefix="quick")
        self._lock = threading.Lock()
        self._noting = threading.Lock()
        self._busy: set[str] = set()
        self._resting: dict[str, float] = {}
        self._tries: Tries | None = None
        self._buckets = {act: Bucket(OTHERS_PER_SECOND, OTHERS_AT_ONCE) for act in _REASONS}
        self._buckets[NUDGE] = Bucket(NUDGES_PER_SECOND, NUDGES_AT_ONCE)

    def offer(self, repair: Repair, fence: Callable[[], None]) -> None:
        """Have it done, unless it is being done, was just done, was tried too often, or the budget is used up for now.

        `fence` raises when those who decided it do not lead any more.
        """
        key, now = _busy_key(repair), time.monotonic()
        with self._lock:
            rest = self._resting.get(repair.key, 0.0) - now
            if key in self._busy or rest > 0:
                self._look_again(repair.namespace, max(rest, 0.2))
                return
            if self._tried_enough(repair):
                return
            wait = self._buckets[repair.act].take(now)
            if wait > 0:
                self._look_again(repair.namespace, wait)
                return
            self._busy.add(key)
        pool = self._pool if repair.act in _TRANSACTIONS else self._quick
        pool.submit(self._do, repair, key, fence)

    def begin_term(self) -> None:
        """What was tried is read anew: another one may have led, and tried, since."""
        with self._lock:
            self._tries = None

    def aside(self, work: Callable[[], None]) -> None:
        """Something short that nobody waits for."""
        self._quick.submit(work)

    def stop(self) -> None:
        """Begin nothing more, and wait for what is going on."""
        for pool in (self._pool, self._quick):
            pool.shutdown(wait=True, cancel_futures=True)

    def _tried_enough(self, repair: Repair) -> bool:
        """A nudge is remembered on the job itself."""
        if repair.act == NUDGE:
            return False
        if self._tries is None:
            self._tries = Tries(self._election.noted())
        if self._tries.count(repair.key, time.time()) < self._most:
            return False
        self._resting[repair.key] = time.monotonic() + GIVEN_UP_SECONDS / self._most
        said = f"{self._most} times within an hour were for nothing; find out why, or wait"
        self._quick.submit(self._end, repair, GIVEN_UP, said, self._find(repair))
        return True

    def _do(self, repair: Repair, key: str, fence: Callable[[], None]) -> None:
        rest, at = REST_SECONDS, time.time()
        try:
            about = self._find(repair)
            at = self._put_on_record(repair)
            outcome = self._acts.carry_out(repair, fence)
            if outcome.done:
                self._end(repair, DONE, outcome.said, outcome.about or about)
            else:
                LOG.info("not needed any more: %s: %s", repair.key, outcome.said)
        except (Conflict, LockLost, LockHeld, Interrupted) as error:  # it is not as it was when this was decided, or no longer ours to do
            LOG.info("not done: %s: %s", repair.key, error)
            rest = 0.5
            if isinstance(error, LockHeld):
                self._take_back(repair, at)
        except MotorError as error:
            rest = REST_FAILED_SECONDS
            if error.reason == HANDS_OFF:
                LOG.info("not done: %s: %s", repair.key, error)
                if not error.details.get("changed"):
                    self._take_back(repair, at)
                return
            self._end(repair, f"failed: {error}", str(error), about)
        except Exception:
            rest = REST_FAILED_SECONDS
            LOG.exception("repair failed: %s", repair.key)
        finally:
            with self._lock:
                now = time.monotonic()
                self._busy.discard(key)
                self._resting = {**{name: until for name, until in self._resting.items() if until > now}, repair.key: now + rest}
            self._look_again(repair.namespace, rest)

    def _put_on_record(self, repair: Repair) -> float:
        """Before it is begun: a leader that is killed in between has tried. Returns when that was."""
        at = time.time()
        if repair.act == NUDGE:
            return at
        with self._noting:  # what is stored last has to be what was counted last
            with self._lock:
                self._tries = self._tries or Tries(self._election.noted())
                self._tries.add(repair.key, at)
                text = self._tries.text(at)
            self._election.note(text)
        return at

    def _take_back(self, repair: Repair, at: float) -> None:
        """Somebody else was at it, and nothing was tried. The Lease is told with the next try."""
        with self._lock:
            if self._tries:
                self._tries.remove(repair.key, at)

    def _end(self, repair: Repair, outcome: str, said: str, about: Mapping[str, Any] | None) -> None:
        """Count it, show it, log it, and tell it at the object that it is about."""
        entry = {key: getattr(repair, key) for key in ("act", "namespace", "kind", "name", "why")}
        level, word = (logging.INFO if outcome == DONE else logging.WARNING), outcome.partition(":")[0]
        LOG.log(level, "repair %s: %s: %s", word, repair.key, said, extra={"repair": entry})
        self._counters.repair(repair.act, outcome)
        self._board.repaired({"at": rfc3339(time.time()), **entry, "outcome": outcome})
        reason = {DONE: _REASONS[repair.act], GIVEN_UP: "RepairGivenUp"}.get(outcome, "RepairFailed")
        if about:
            self._teller.tell(about, News(reason, f"{repair.act}: {said}: {repair.why}", outcome != DONE))


def _busy_key(repair: Repair) -> str:
    """Transactions of one service one after the other; single requests as they come."""
    return f"service {repair.namespace}" if repair.act in _TRANSACTIONS else repair.key
