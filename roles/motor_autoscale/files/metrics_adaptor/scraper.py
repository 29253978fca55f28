# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks at every coordinator again and again: a thread per service, so that none waits for another."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from ansible_collections.ascend.mindie.plugins.module_utils._motor import coordinator
from ansible_collections.ascend.mindie.plugins.module_utils._motor.exposition import BadExposition
from ansible_collections.ascend.mindie.plugins.module_utils._motor.load import NoValue, Scrape
from ansible_collections.ascend.mindie.plugins.module_utils._motor.load_window import Sheets

from .book import Book
from .fetch import Fetcher, Unanswered
from .finder import Finder, Service

LOG = logging.getLogger(__name__)

# A service that fails is asked more seldom, up to so many intervals.
SELDOM = 3
# No row of a coordinator has fewer bytes, as each names its endpoint: what the size allows, the rows do, too.
LEAST_ROW = 64
# Services are looked for as soon as something changes, and so often anyway (seconds).
LOOK_SECONDS = 5.0


@dataclass(frozen=True)
class Look:
    """One scrape, and what it took: seconds, and bytes of the metrics."""

    scrape: Scrape
    seconds: float
    size: int


class Coordinator:
    """Reads one coordinator. What stays the same from text to text is kept; of the text itself nothing is."""

    def __init__(self, service: Service, fetcher: Fetcher) -> None:
        self._service, self._fetcher = service, fetcher
        self._sheets = Sheets(fetcher.largest // LEAST_ROW)

    def look(self) -> Look:
        """One look. Nothing is raised: what went wrong is in the scrape."""
        began, size = time.monotonic(), 0
        try:
            body = self._fetcher.fetch(self._service.metrics_url)
            at, size = time.monotonic(), len(body)
            sheet = self._sheets.make(body.decode("utf-8"))
            scrape = Scrape(at, sheet, routable=self._routable())
        except BadExposition as error:
            scrape = _failed(NoValue("Unreadable", f"the coordinator's metrics cannot be read: {error}"))
        except UnicodeDecodeError:
            scrape = _failed(NoValue("Unreadable", "the coordinator's metrics are no text"))
        except NoValue as error:
            scrape = _failed(error)
        return Look(scrape, time.monotonic() - began, size)

    def _routable(self) -> dict[str, int] | None:
        """Instances that get requests; None where the coordinator does not tell."""
        try:
            return coordinator.routable(self._fetcher.fetch(self._service.models_url))
        except Unanswered:
            return None


def _failed(problem: NoValue) -> Scrape:
    return Scrape(time.monotonic(), None, problem)


class Scraper:
    """Looks at one service every `interval` seconds, give or take a tenth, in a thread of its own."""

    def __init__(self, service: Service, fetcher: Fetcher, interval: float, tell: Callable[[Service, Look], None]) -> None:
        self.service = service
        self._coordinator, self._interval, self._tell = Coordinator(service, fetcher), interval, tell
        self._stop = threading.Event()
        threading.Thread(target=self._run, name=f"scrape {service.namespace}/{service.name}", daemon=True).start()

    def stop(self) -> None:
        """End it; a look that is under way is not told any more."""
        self._stop.set()

    def _run(self) -> None:
        failures, pause = 0, random.uniform(0, 0.2) * self._interval
        said = ""
        while not self._stop.wait(pause):
            look = self._looked()
            if self._stop.is_set():
                return
            self._tell(self.service, look)
            problem = look.scrape.problem.message if look.scrape.problem else ""
            if problem != said:
                said = problem
                LOG.log(logging.WARNING if problem else logging.INFO, "%s/%s: %s", *self.service.key, problem or "answers")
            failures = failures + 1 if look.scrape.problem else 0
            pause = max(0.1, self._interval * max(1, min(failures, SELDOM)) * random.uniform(0.9, 1.1) - look.seconds)

    def _looked(self) -> Look:
        """One look, whatever comes of it: the next one may do better."""
        try:
            return self._coordinator.look()
        except Exception:
            LOG.exception("cannot make anything of what %s/%s answers", *self.service.key)
            return Look(_failed(NoValue("Unreadable", "nothing could be made of what the coordinator answers; the log says why")), 0.0, 0)


class Crew:
    """A scraper for each service that the finder knows. `start` returns at once."""

    def __init__(self, finder: Finder, book: Book, fetcher: Fetcher, interval: float) -> None:
        self._finder, self._book, self._fetcher, self._interval = finder, book, fetcher, interval
        self._scrapers: dict[tuple[str, str], Scraper] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="find services", daemon=True)

    def start(self) -> None:
        """Begin to look for services, and at them."""
        self._thread.start()

    def stop(self) -> None:
        """End all threads; they are not waited for."""
        self._stop.set()
        self._finder.changed.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            if self._finder.synced:
                self._try_to_sync()
            self._finder.changed.wait(LOOK_SECONDS if self._finder.synced else 0.2)
            self._finder.changed.clear()
        for scraper in self._scrapers.values():
            scraper.stop()

    def _try_to_sync(self) -> None:
        """Whatever is wrong with one object, services that are known are looked at, and the next change is another try."""
        try:
            self._sync()
        except Exception:
            LOG.exception("cannot tell which services there are")

    def _sync(self) -> None:
        wanted = {service.key: service for service in self._finder.services()}
        for key, scraper in list(self._scrapers.items()):
            if wanted.get(key) != scraper.service:
                scraper.stop()
                del self._scrapers[key]
        self._book.sync(wanted.values())
        for key in wanted.keys() - self._scrapers.keys():
            self._scrapers[key] = Scraper(wanted[key], self._fetcher, self._interval, self._told)

    def _told(self, service: Service, look: Look) -> None:
        self._book.record(service, look.scrape, self._finder.pods(service.namespace), seconds=look.seconds, size=look.size)
