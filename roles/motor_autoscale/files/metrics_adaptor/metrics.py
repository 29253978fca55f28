# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the adaptor counts, and tells of itself, for Prometheus."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ansible_collections.ascend.mindie.plugins.module_utils._cluster import prometheus
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.prometheus import Histogram, Sample
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.watch import Health

from .book import Report

PREFIX = "motor_adaptor"
# Upper bounds in seconds; an answer takes no longer than 50 ms.
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


@dataclass
class Counters:
    """What this process has counted since it started: requests by what was asked and by status, values that there were not by reason,
    connections that were not let in by why, and how long answers took (seconds). May be used by several threads.
    """

    answers: Histogram = field(default_factory=lambda: Histogram(BOUNDS))
    _requests: Counter[tuple[str, ...]] = field(default_factory=Counter)
    _missing: Counter[tuple[str, ...]] = field(default_factory=Counter)
    _refused: Counter[tuple[str, ...]] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def request(self, asked: str, status: int, reason: str) -> None:
        """Count an answer."""
        with self._lock:
            self._requests[asked, str(int(status))] += 1
            if reason:
                self._missing[(reason,)] += 1

    def refused(self, why: str) -> None:
        """Count somebody who was not let in."""
        with self._lock:
            self._refused[(why,)] += 1

    def families(self) -> Iterator[str]:
        """Their lines."""
        with self._lock:
            requests, missing, refused = list(self._requests.items()), list(self._missing.items()), list(self._refused.items())
        yield from _counter("requests_total", "Requests that were answered, by what was asked.", ("asked", "code"), requests)
        yield from _counter("values_missing_total", "Values that there were not, by the reason.", ("reason",), missing)
        yield from _counter("refused_total", "Connections and requests that were not let in.", ("why",), refused)
        yield from prometheus.histogram(f"{PREFIX}_answer_seconds", "How long an answer took.", self.answers)


def _counter(name: str, text: str, labels: tuple[str, ...], counted: Iterable[Sample]) -> Iterator[str]:
    return prometheus.family(f"{PREFIX}_{name}", "counter", text, labels, counted)


@dataclass(frozen=True)
class Itself:
    """What there is to tell of the process. `expires`: when its certificate ends (seconds since the epoch, 0: there is none)."""

    version: str
    ready: bool
    expires: float
    reloads: int
    problems: Iterable[str]


def render(counters: Counters, itself: Itself, services: Iterable[Report], watches: Iterable[Health], now: float) -> str:
    """All metrics as text. `now` is the clock of the watches, which does not jump."""
    return "\n".join([*_itself(itself), *counters.families(), *_services(tuple(services)), *_watches(tuple(watches), now)]) + "\n"


def _itself(itself: Itself) -> Iterator[str]:
    yield from _gauge("build_info", "The version of the code.", ("version",), [((itself.version,), 1)] if itself.version else ())
    yield from _gauge("ready", "Whether the API server can be answered.", (), [((), itself.ready)])
    ends = [((), itself.expires)] if itself.expires else ()
    yield from _gauge("certificate_expiry_seconds", "When the serving certificate ends, since the epoch.", (), ends)
    yield from _counter("certificate_loads_total", "How often certificate and rules were loaded.", (), [((), itself.reloads)])
    troubles = [((what,), what in itself.problems) for what in ("rules", "certificate")]
    yield from _gauge("trouble", "Whether who may come in, or the certificate, cannot be read.", ("what",), troubles)


_SERVICE = ("namespace", "service")
_ROLE = (*_SERVICE, "engine_role")


def _services(reports: Sequence[Report]) -> Iterator[str]:
    names = [(report, (report.namespace, report.name)) for report in reports]
    yield from _gauge("services", "Services that are looked at.", (), [((), len(reports))])
    yield from _counter("scrapes_total", "Looks at the coordinator.", _SERVICE, [(name, report.scrapes) for report, name in names])
    failures = [((*name, reason), count) for report, name in names for reason, count in report.failures.items()]
    yield from _counter("scrape_failures_total", "Looks that told nothing, by the reason.", (*_SERVICE, "reason"), failures)
    yield from _gauge("scrape_seconds", "How long the last look took.", _SERVICE, [(name, report.seconds) for report, name in names])
    yield from _gauge("scrape_bytes", "How large the last answer was.", _SERVICE, [(name, report.size) for report, name in names])
    ages = [(name, report.age) for report, name in names if report.age is not None]
    yield from _gauge("scrape_age_seconds", "How old the last good look is.", _SERVICE, ages)
    shown = [((*name, role), counts) for report, name in names for role, counts in report.shown.items()]
    yield from _gauge("instances", "Instances that the coordinator shows.", _ROLE, [(labels, counts[0]) for labels, counts in shown])
    yield from _gauge("endpoints", "Endpoints that it shows.", _ROLE, [(labels, counts[1]) for labels, counts in shown])
    problems = [((*name, role, found.reason), 1) for report, name in names for role, found in report.problems.items()]
    yield from _gauge("no_value", "Engine roles that nothing can be said of now, and why.", (*_ROLE, "reason"), problems)


def _watches(watches: Sequence[Health], now: float) -> Iterator[str]:
    named = [(watch, (watch.kind, watch.namespace or "")) for watch in watches if not watch.unknown]
    labels = ("kind", "namespace")
    yield from _gauge("watch_synced", "Whether the watch has its first list.", labels, [(name, watch.synced) for watch, name in named])
    yield from _gauge("watch_failing", "Whether its last request failed.", labels, [(name, bool(watch.errors)) for watch, name in named])
    yield from _counter("watch_restarts_total", "How often it began anew.", labels, [(name, watch.restarts) for watch, name in named])
    silent = [(name, now - watch.heard) for watch, name in named if watch.heard]
    yield from _gauge("watch_silent_seconds", "How long nothing was heard.", labels, silent)


def _gauge(name: str, text: str, labels: tuple[str, ...], samples: Iterable[Sample]) -> Iterator[str]:
    return prometheus.family(f"{PREFIX}_{name}", "gauge", text, labels, samples)
