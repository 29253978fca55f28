# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the adaptor counts, and tells of itself, for Prometheus."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
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

    def counted(self) -> tuple[list[Sample], list[Sample], list[Sample]]:
        """Requests, values that there were not, and who was not let in."""
        with self._lock:
            return list(self._requests.items()), list(self._missing.items()), list(self._refused.items())


@dataclass(frozen=True)
class Itself:
    """What there is to tell of the process. `expires`: when its certificate ends (seconds since the epoch, 0: there is none)."""

    version: str
    ready: bool
    expires: float
    reloads: int
    problems: Iterable[str]


@dataclass(frozen=True)
class Facts:
    """Everything that is told. `now` is the clock of the watches, which does not jump."""

    counters: Counters
    itself: Itself
    services: Sequence[Report]
    watches: Sequence[Health]
    now: float


@dataclass(frozen=True)
class Family:
    """One metric: everything that is written of it, and where its samples come from."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...]
    samples: Callable[[Facts], Iterable[Sample]]


def render(facts: Facts) -> str:
    """All metrics as text."""
    lines: list[str] = []
    for family in FAMILIES:
        lines += prometheus.family(f"{PREFIX}_{family.name}", family.kind, family.help, family.labels, family.samples(facts))
    lines += prometheus.histogram(f"{PREFIX}_{ANSWERS}", ANSWERS_HELP, facts.counters.answers)
    return "\n".join(lines) + "\n"


def _build(facts: Facts) -> Iterator[Sample]:
    if facts.itself.version:
        yield (facts.itself.version,), 1


def _expiry(facts: Facts) -> Iterator[Sample]:
    if facts.itself.expires:
        yield (), facts.itself.expires


def _troubles(facts: Facts) -> Iterator[Sample]:
    for what in ("rules", "certificate"):
        yield (what,), what in facts.itself.problems


def _counted(which: int) -> Callable[[Facts], Iterable[Sample]]:
    return lambda facts: facts.counters.counted()[which]


def _of_service(value: Callable[[Report], float | None]) -> Callable[[Facts], Iterator[Sample]]:
    """One number for each service, where there is one."""

    def samples(facts: Facts) -> Iterator[Sample]:
        for report in facts.services:
            found = value(report)
            if found is not None:
                yield (report.namespace, report.name), found

    return samples


def _failures(facts: Facts) -> Iterator[Sample]:
    for report in facts.services:
        for reason, count in report.failures.items():
            yield (report.namespace, report.name, reason), count


def _shown(which: int) -> Callable[[Facts], Iterator[Sample]]:
    def samples(facts: Facts) -> Iterator[Sample]:
        for report in facts.services:
            for role, counts in report.shown.items():
                yield (report.namespace, report.name, role), counts[which]

    return samples


def _problems(facts: Facts) -> Iterator[Sample]:
    for report in facts.services:
        for role, found in report.problems.items():
            yield (report.namespace, report.name, role, found.reason), 1


def _of_watch(value: Callable[[Health, float], float | None]) -> Callable[[Facts], Iterator[Sample]]:
    """One number for each watch of a kind that the server knows, where there is one."""

    def samples(facts: Facts) -> Iterator[Sample]:
        for watch in facts.watches:
            found = None if watch.unknown else value(watch, facts.now)
            if found is not None:
                yield (watch.kind, watch.namespace or ""), found

    return samples


def _silence(watch: Health, now: float) -> float | None:
    return now - watch.heard if watch.heard else None


_SERVICE, _WATCH = ("namespace", "service"), ("kind", "namespace")
_ROLE = (*_SERVICE, "engine_role")
ANSWERS, ANSWERS_HELP = "answer_seconds", "How long an answer took."
FAMILIES = (
    Family("build_info", "gauge", "The version of the code.", ("version",), _build),
    Family("ready", "gauge", "Whether the API server can be answered.", (), lambda facts: [((), facts.itself.ready)]),
    Family("certificate_expiry_seconds", "gauge", "When the serving certificate ends, since the epoch.", (), _expiry),
    Family("certificate_loads_total", "counter", "How often it was loaded.", (), lambda facts: [((), facts.itself.reloads)]),
    Family("trouble", "gauge", "Whether the certificate, or the rules who may come in, cannot be read.", ("what",), _troubles),
    Family("requests_total", "counter", "Requests of the API server, by what was asked.", ("asked", "code"), _counted(0)),
    Family("values_missing_total", "counter", "Requests for a value that there was not, by the reason.", ("reason",), _counted(1)),
    Family("refused_total", "counter", "Connections and requests that were not let in.", ("why",), _counted(2)),
    Family("services", "gauge", "Services that are looked at.", (), lambda facts: [((), len(facts.services))]),
    Family("scrapes_total", "counter", "Looks at the coordinator.", _SERVICE, _of_service(lambda report: report.scrapes)),
    Family("scrape_failures_total", "counter", "Looks that told nothing, by the reason.", (*_SERVICE, "reason"), _failures),
    Family("scrape_seconds", "gauge", "How long the last look took.", _SERVICE, _of_service(lambda report: report.seconds)),
    Family("scrape_bytes", "gauge", "How large the last answer was.", _SERVICE, _of_service(lambda report: report.size)),
    Family("scrape_age_seconds", "gauge", "How old the last good look is.", _SERVICE, _of_service(lambda report: report.age)),
    Family("instances", "gauge", "Instances that the coordinator shows.", _ROLE, _shown(0)),
    Family("endpoints", "gauge", "Endpoints that it shows.", _ROLE, _shown(1)),
    Family("no_value", "gauge", "Engine roles that nothing can be said of now, and why.", (*_ROLE, "reason"), _problems),
    Family("watch_synced", "gauge", "Whether the watch has its first list.", _WATCH, _of_watch(lambda watch, now: watch.synced)),
    Family("watch_failing", "gauge", "Whether its last request failed.", _WATCH, _of_watch(lambda watch, now: bool(watch.errors))),
    Family("watch_restarts_total", "counter", "How often it began anew.", _WATCH, _of_watch(lambda watch, now: watch.restarts)),
    Family("watch_silent_seconds", "gauge", "How long nothing was heard.", _WATCH, _of_watch(_silence)),
)
