# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The load of one service by engine role, from what its coordinator told over the last minute. What is not known is an error, never a number.

The coordinator answers 200 whatever happens: with nothing when it has no data, without an instance of which one endpoint did not
answer, and with the same text for ever when it cannot read an engine. So a number is given only of a scrape that shows every
instance that there has to be:

* as many as are routable (`/v1/models`), which is not the number wanted, as engines load weights for minutes;
* where that is not known (hybrid services, configurations without a maximal length), and for one window after the coordinator was
  away, those that the last complete scrape showed, except for instances whose pods are gone;
* and each endpoint of them with the metric in question.

The newest complete scrape counts until it is `stale_after` old, so that one failed request is nothing to hold still for.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from . import load_window
from .coordinator import RUNNING, WAITING
from .load_metrics import MAX, MEAN_OF_HISTOGRAM, MEAN_OF_ROWS, QUANTILE, RATE, SPEED, SUM_OF_MEANS, Metric
from .load_window import Endpoint, Sheet
from .quantiles import histogram_quantile


class NoValue(Exception):
    """There is no number that could be given. `reason` is one CamelCase word, `message` says it in plain words."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


@dataclass(frozen=True)
class Limits:
    """Seconds throughout. `window`: over which rates and quantiles are made. `stale_after`: how old a number may be. `frozen_after`: for
    how long a busy service may tell the same. `joining`: how long the coordinator needs for the first rates of an endpoint.
    """

    window: float = 60.0
    stale_after: float = 30.0
    frozen_after: float = 60.0
    joining: float = 8.0


@dataclass(frozen=True)
class Scrape:
    """One look at a coordinator, `at` a time of a clock that does not jump. Without a sheet, `problem` says why there is none.

    `routable` are the instances that get requests, by engine role, as far as the coordinator tells.
    """

    at: float
    sheet: Sheet | None
    problem: NoValue | None = None
    routable: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Found:
    """A value, the time `at` of the scrape that it is of, and of how many instances and endpoints it is made."""

    value: float
    at: float
    instances: int
    endpoints: int


@dataclass(frozen=True)
class _Taken:
    """A scrape that has been judged: whose instances are not all there (`problems`, by engine role), and who has no rates yet.

    `begun`: since when the counters of an engine role can be compared, where they were numbered anew.
    """

    at: float
    sheet: Sheet | None
    problem: NoValue | None
    problems: Mapping[str, NoValue]
    young: frozenset[tuple[str, Endpoint]]
    gaps: frozenset[str]
    begun: Mapping[str, float] = field(default_factory=dict)
    answers: dict[tuple[str, str], Found | NoValue] = field(default_factory=dict)

    def refused(self, role: str) -> NoValue | None:
        """Why there is nothing to say of an engine role."""
        if self.problem or self.sheet is None:
            return self.problem or NoValue("NotYet", "nothing was read from the coordinator yet")
        if role in self.problems:
            return self.problems[role]
        if not self.sheet.table.endpoints(role):
            there = ", ".join(sorted(self.sheet.table.roles))
            return NoValue("NoInstances", f"the coordinator shows no {role} instance; it shows {there}")
        return None


class History:
    """What one coordinator told of late, and what follows from it."""

    def __init__(self, limits: Limits = Limits()) -> None:
        self.limits = limits
        self._taken: deque[_Taken] = deque()
        self._complete: dict[str, dict[str, frozenset[Endpoint]]] = {}
        self._complete_at: dict[str, float] = {}
        self._since: dict[tuple[str, Endpoint], float] = {}
        self._gap: dict[str, float] = {}
        self._numbers: dict[tuple[str, str, str], tuple[float, frozenset[str]]] = {}
        self._begun: dict[str, float] = {}
        self._away = -math.inf
        self._last: Sheet | None = None
        self._last_at = self._same_since = 0.0

    def add(self, scrape: Scrape, pods: Collection[str] | None = None) -> None:
        """Take one more scrape. `pods` are the addresses of the pods that live now, None when that is not known; a mapping says since when
        (by the clock of `Scrape.at`): the address of a pod that went may be another one's by now.
        """
        problem = scrape.problem or _empty(scrape.sheet)
        if problem or scrape.sheet is None:
            self._away = scrape.at
            self._since.clear()
            self._keep(_Taken(scrape.at, None, problem, {}, frozenset(), frozenset()))
            return
        if self._last is None or not scrape.sheet.same(self._last):
            self._last, self._same_since = scrape.sheet, scrape.at
        self._last_at = scrape.at
        roles = {*scrape.sheet.table.roles, *self._complete, *(scrape.routable or {})}
        problems = {role: found for role in roles if (found := self._judge(role, scrape, pods))}
        anew = self._numbered_anew(scrape.at, scrape.sheet)
        self._begun.update(dict.fromkeys(anew, scrape.at))
        self._gap.update(dict.fromkeys((*problems, *anew), scrape.at))
        now = {(role, endpoint) for role, endpoints in scrape.sheet.table.roles.items() for endpoint in endpoints}
        self._since = {key: self._since.get(key, scrape.at) for key in now}
        young = frozenset(key for key, since in self._since.items() if scrape.at - since < self.limits.joining)
        recent = scrape.at - self.limits.window
        gaps = frozenset(role for role in roles if max(self._away, self._gap.get(role, -math.inf)) > recent)
        self._keep(_Taken(scrape.at, scrape.sheet, None, problems, young, gaps, dict(self._begun)))

    def value(self, metric: Metric, role: str, now: float) -> Found:
        """The newest value of a metric of an engine role. Raises NoValue."""
        if not self._taken:
            raise NoValue("NotYet", "nothing was read from the coordinator yet")
        frozen = self._frozen()
        if frozen:
            raise frozen
        first: NoValue | None = None
        for index in range(len(self._taken) - 1, -1, -1):
            taken = self._taken[index]
            if now - taken.at > self.limits.stale_after:
                break
            found = self._answer(index, metric, role)
            if isinstance(found, Found):
                return found
            first = first or found
        age = now - self._taken[-1].at
        raise first or NoValue("Stale", f"the newest answer of the coordinator is {age:.0f} s old, and none came since")

    def problem(self, role: str, now: float) -> NoValue | None:
        """What is wrong with the newest scrape, as far as an engine role is concerned."""
        if not self._taken:
            return NoValue("NotYet", "nothing was read from the coordinator yet")
        taken = self._taken[-1]
        if now - taken.at > self.limits.stale_after:
            return NoValue("Stale", f"the newest answer of the coordinator is {now - taken.at:.0f} s old, and none came since")
        return self.trouble() or taken.refused(role)

    def trouble(self) -> NoValue | None:
        """What is wrong with the newest scrape, whoever is concerned."""
        return self._taken[-1].problem or self._frozen() if self._taken else None

    def shown(self) -> Mapping[str, tuple[int, int]]:
        """Instances and endpoints of each engine role in the newest scrape."""
        sheet = self._taken[-1].sheet if self._taken else None
        roles = sheet.table.roles if sheet else {}
        return {role: (len({one.instance for one in endpoints}), len(endpoints)) for role, endpoints in roles.items()}

    def _keep(self, taken: _Taken) -> None:
        self._taken.append(taken)
        oldest = taken.at - self.limits.window - self.limits.stale_after
        while self._taken[0].at < oldest:
            self._taken.popleft()

    def _judge(self, role: str, scrape: Scrape, pods: Collection[str] | None) -> NoValue | None:
        """Whether all instances of an engine role are there; then they are what the next scrapes have to show."""
        endpoints = scrape.sheet.table.endpoints(role) if scrape.sheet else frozenset()
        instances = {one.instance for one in endpoints}
        routable = None if scrape.routable is None else scrape.routable.get(role)
        if routable is not None and len(instances) < routable:
            return NoValue("Partial", f"the coordinator shows {len(instances)} of {routable} routable {role} instances")
        if routable is None or scrape.at - self._away <= self.limits.window:
            lost = self._lost(role, endpoints, pods)
            if lost:
                return NoValue("Partial", f"the coordinator does not show the {role} instance of {', '.join(lost)}, whose pods live")
        self._complete_at[role] = scrape.at
        self._complete[role] = {name: frozenset(one for one in endpoints if one.instance == name) for name in instances}
        return None

    def _lost(self, role: str, now: Collection[Endpoint], pods: Collection[str] | None) -> list[str]:
        """Addresses of instances that were there, whose pods all live, and that are not whole now. Their numbers may be new ones."""
        here = {(one.pod_ip, one.rank) for one in now}
        there = self._complete.get(role, {}).values()
        since, at = pods if isinstance(pods, Mapping) else dict[str, float](), self._complete_at.get(role, 0.0)
        alive = (known for known in there if pods is None or all(one.pod_ip in pods and since.get(one.pod_ip, at) <= at for one in known))
        return sorted({one.pod_ip for known in alive for one in known if (one.pod_ip, one.rank) not in here})

    def _numbered_anew(self, at: float, sheet: Sheet) -> set[str]:
        """The engine roles with instances that have other numbers than before: what they did in between is in no counter of either."""
        places: dict[tuple[str, str, str], set[str]] = {}
        for role, endpoints in sheet.table.roles.items():
            for one in endpoints:
                places.setdefault((role, one.pod_ip, one.rank), set()).add(one.instance)
        before = {place: known for place, known in self._numbers.items() if known[0] >= at - self.limits.window}
        self._numbers = {**before, **{place: (at, frozenset(numbers)) for place, numbers in places.items()}}
        return {place[0] for place, numbers in places.items() if place in before and not before[place][1] & numbers}

    def _frozen(self) -> NoValue | None:
        same = self._last_at - self._same_since
        if self._last is None or same < self.limits.frozen_after or not _busy(self._last):
            return None
        words = f"the coordinator has told the same numbers for {same:.0f} s although requests are running or waiting"
        return NoValue("Frozen", f"{words}: it does not collect any more, or the engines do nothing")

    def _answer(self, index: int, metric: Metric, role: str) -> Found | NoValue:
        taken = self._taken[index]
        key = (metric.name, role)
        if key not in taken.answers:
            try:
                taken.answers[key] = self._compute(index, metric, role)
            except NoValue as error:
                taken.answers[key] = error
        return taken.answers[key]

    def _compute(self, index: int, metric: Metric, role: str) -> Found:
        taken = self._taken[index]
        refused = taken.refused(role)
        if refused or taken.sheet is None:
            raise refused or NoValue("NotYet", "nothing was read from the coordinator yet")
        endpoints = taken.sheet.table.endpoints(role)
        family = _family(metric, role, taken.sheet, endpoints)
        if metric.how == SPEED and family != metric.counter:
            value = _speed(taken, role, family)
        elif metric.how in (RATE, SPEED, QUANTILE, MEAN_OF_HISTOGRAM):
            value = self._over_window(index, metric, role, family)
        else:
            value = _now(metric.how, taken.sheet.numbers(role, family))
        if not math.isfinite(value) or value < 0:
            raise NoValue("NotANumber", f"{family} of {role} is {value}, which is no measurement")
        return Found(value, taken.at, len({one.instance for one in endpoints}), len(endpoints))

    def _over_window(self, index: int, metric: Metric, role: str, family: str) -> float:
        """Of what happened in the window that ends with a scrape."""
        end = self._taken[index]
        begin = max(end.at - self.limits.window, end.begun.get(role, -math.inf))
        inside = [taken for taken in list(self._taken)[: index + 1] if taken.at >= begin and taken.sheet]
        while inside and inside[0].refused(role):
            inside.pop(0)
        seconds = end.at - inside[0].at
        if seconds < self.limits.window / 2:
            words = f"{metric.name} is made over {self.limits.window:.0f} s, of which {seconds:.0f} s are known"
            raise NoValue("TooShort", f"{words}; there is a value as soon as half of it is")
        sheets = [taken.sheet for taken in inside if taken.sheet]
        grown = list(load_window.growth(sheets, role, family))
        if metric.how in (RATE, SPEED):
            return load_window.total(grown) / seconds
        count = load_window.total(grown, load_window.COUNT)
        if count == 0:
            return _of_nothing(metric, role, sheets, seconds)
        if metric.quantile is None:
            return load_window.total(grown, load_window.SUM) / count
        return histogram_quantile(metric.quantile, load_window.buckets(grown))


def value(
    metric: Metric,
    engine_role: str,
    scrapes: Sequence[Scrape],
    pods: Collection[str] | None = None,
    limits: Limits = Limits(),
    now: float | None = None,
) -> Found:
    """The value after these scrapes, oldest first, with the pods that live now. Raises NoValue. `now` is the time of the last scrape else."""
    history = History(limits)
    for scrape in scrapes:
        history.add(scrape, pods)
    return history.value(metric, engine_role, scrapes[-1].at if now is None and scrapes else now or 0.0)


def _empty(sheet: Sheet | None) -> NoValue | None:
    """Why an answer that could be read says nothing."""
    if sheet is None:
        return None
    if sheet.table.roles:
        return None
    if sheet.table.series:
        words = "the coordinator does not tell which endpoint its numbers are of: it is of a release without `type=dp` (before July 2026)"
        return NoValue("NotPerEndpoint", f"{words}, or something else answers in its place")
    words = "the coordinator's metrics are empty: it has no instances, has just started, or is not the active one of two"
    return NoValue("Empty", words)


def _family(metric: Metric, role: str, sheet: Sheet, endpoints: Collection[Endpoint]) -> str:
    """What the metric is made of. Raises NoValue unless every endpoint has it."""
    for family in metric.families:
        there = sheet.table.places(role, family)
        if there:
            missing = sorted({one.pod_ip for one in endpoints if one not in there})
            if missing:
                raise NoValue("Partial", f"the {role} endpoints of {', '.join(missing)} do not publish {family}, and others do")
            return family
    raise NoValue("NotPublished", f"the {role} engines do not publish {' or '.join(metric.families)}")


def _now(how: str, numbers: Mapping[Endpoint, Sequence[float]]) -> float:
    rows = [number for found in numbers.values() for number in found]
    if any(math.isnan(number) for number in rows):
        return math.nan
    if how == MAX:
        return max(rows)
    if how == MEAN_OF_ROWS:
        return sum(rows) / len(rows)
    if how == SUM_OF_MEANS:
        instances: dict[str, list[float]] = {}
        for endpoint, found in numbers.items():
            instances.setdefault(endpoint.instance, []).extend(found)
        return sum(sum(found) / len(found) for found in instances.values())
    return sum(rows)


def _speed(taken: _Taken, role: str, family: str) -> float:
    """The sum of rates. The first rate of an endpoint is 0 whatever it does: of one that is new that is no error, of one that is back it is."""
    numbers = taken.sheet.numbers(role, family) if taken.sheet else {}
    old = {endpoint: found for endpoint, found in numbers.items() if (role, endpoint) not in taken.young}
    if not old or (len(old) < len(numbers) and role in taken.gaps):
        raise NoValue("Joining", f"{len(numbers) - len(old)} of {len(numbers)} {role} endpoints are back too recently for their first rate")
    return _now("sum", old)


def _of_nothing(metric: Metric, role: str, sheets: Iterable[Sheet], seconds: float) -> float:
    """A latency without a request: 0 when there was nothing to do at all, so that an idle service can be scaled in."""
    if any(_busy(sheet, role) for sheet in sheets):
        words = f"{metric.name} is not known: nothing was measured in {seconds:.0f} s although requests are running or waiting"
        raise NoValue("NotMeasured", words)
    return 0.0


def _busy(sheet: Sheet, role: str = "") -> bool:
    """Whether requests are running or waiting, or it is not known that none are."""
    for one in [role] if role else sheet.table.roles:
        for families in (RUNNING, WAITING):
            found = [numbers for family in families for numbers in sheet.numbers(one, family).values()]
            if not found and role:
                return True
            if not all(number == 0 for numbers in found for number in numbers):
                return True
    return False
