# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of the load of every service, and what is answered to who asks for a metric. Each number is made once per scrape."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from ansible_collections.ascend.mindie.plugins.module_utils._motor.load import Found, History, Limits, NoValue, Scrape
from ansible_collections.ascend.mindie.plugins.module_utils._motor.load_metrics import METRICS
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import INFER_LABEL

from .finder import Service

SET_LABEL, SERVICE_LABEL, ROLE_LABEL = (f"{INFER_LABEL}{name}" for name in ("inferserviceset-name", "inferservice-name", "role-name"))
# The coordinator has the first rate of an endpoint in the second collection that shows it.
_COLLECTIONS = 2
# Of two ends of a window each may be off by a collection, and a busy service may tell the same until the next one.
_IN_WINDOW, _UNTIL_FROZEN = 10, 3
# Who collects less often than this (seconds) is too slow for rates; looks are not kept for ever.
_SLOWEST = 60.0


@dataclass(frozen=True)
class Report:
    """How a service is doing.

    `failures` counts by reason; `seconds` and `size` are of the last scrape; `age` (seconds) is that of the last scrape without a problem,
    None before there was one; `problems` has an entry for each engine role that should have instances and of which nothing can be said;
    `shown` has instances and endpoints by engine role.
    """

    namespace: str
    name: str
    scrapes: int
    failures: Mapping[str, int]
    seconds: float
    size: int
    age: float | None
    shown: Mapping[str, tuple[int, int]]
    problems: Mapping[str, NoValue]


class _Page:
    """What is known of one service. Its lock is held while a number is made."""

    def __init__(self, service: Service, limits: Limits) -> None:
        self.service = service
        self.lock = threading.Lock()
        self.history = History(_limits(limits, service.collection))
        self.scrapes = self.size = 0
        self.failures: Counter[str] = Counter()
        self.seconds = 0.0
        self.good: float | None = None


class Book:
    """Thread-safe."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pages: Mapping[tuple[str, str], _Page] | None = None
        self._series: Mapping[str, Sequence[Mapping[str, str]]] = {}

    def sync(self, services: Iterable[Service]) -> None:
        """These are all services. What is known of one stays as long as it is the same one, wherever its coordinator answers."""
        old, new = self._pages or {}, dict[tuple[str, str], _Page]()
        for service in services:
            page = old.get(service.key)
            if page is None or page.service.uid != service.uid or page.service.collection != service.collection:
                page = _Page(service, self._limits)
            page.service = service
            new[service.key] = page
        self._pages = MappingProxyType(new)
        found: dict[str, list[Mapping[str, str]]] = {}
        for page in new.values():
            found.setdefault(page.service.namespace, []).extend(_labels(page.service))
        self._series = found

    def record(self, service: Service, scrape: Scrape, pods: Collection[str] | None, *, seconds: float = 0.0, size: int = 0) -> None:
        """Take a scrape, with the addresses of the pods that live (None when that is not known)."""
        page = (self._pages or {}).get(service.key)
        if page is None or page.service.uid != service.uid:
            return
        with page.lock:
            page.history.add(scrape, pods)
            page.scrapes += 1
            page.seconds, page.size = seconds, size
            trouble = page.history.trouble()
            if trouble:
                page.failures[trouble.reason] += 1
            else:
                page.good = scrape.at

    def series(self, namespace: str) -> Sequence[Mapping[str, str]]:
        """The labels of every engine role of every service in a namespace. Raises NoValue as long as that is not known."""
        if self._pages is None:
            raise NoValue("NotYet", "it is not known yet which services there are")
        return self._series.get(namespace, ())

    def value(self, namespace: str, labels: Mapping[str, str], metric: str) -> Found:
        """The value of a metric of one of them, `at` the time of day in seconds since the epoch. Raises NoValue."""
        page = (self._pages or {}).get((namespace, labels[SERVICE_LABEL]))
        if page is None:
            raise NoValue("Gone", f"service {labels[SERVICE_LABEL]} is gone")
        now = time.monotonic()
        with page.lock:
            found = page.history.value(METRICS[metric], labels[ROLE_LABEL], now)
        return replace(found, at=time.time() - (now - found.at))

    def services(self) -> list[Report]:
        """How all services are doing."""
        return [_report(page) for page in (self._pages or {}).values()]

    @property
    def known(self) -> bool:
        """Whether it is known which services there are."""
        return self._pages is not None


def _limits(limits: Limits, collection: float) -> Limits:
    """What is asked for, as far as a coordinator that collects so seldom can tell."""
    reckoned = min(collection, _SLOWEST)
    window, frozen_after = max(limits.window, _IN_WINDOW * reckoned), max(limits.frozen_after, _UNTIL_FROZEN * reckoned)
    return replace(limits, window=window, frozen_after=frozen_after, joining=_COLLECTIONS * collection)


def _labels(service: Service) -> Iterator[Mapping[str, str]]:
    for role in service.engine_roles:
        yield MappingProxyType({SERVICE_LABEL: service.name, SET_LABEL: service.set_name, ROLE_LABEL: role})


def _report(page: _Page) -> Report:
    now = time.monotonic()
    with page.lock:
        problems = {role: found for role in page.service.served if (found := page.history.problem(role, now))}
        return Report(
            namespace=page.service.namespace,
            name=page.service.name,
            scrapes=page.scrapes,
            failures=dict(page.failures),
            seconds=page.seconds,
            size=page.size,
            age=None if page.good is None else now - page.good,
            shown=page.history.shown(),
            problems=problems,
        )
