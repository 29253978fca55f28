# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Are the instances that go idle? Reads the coordinator's metrics per endpoint (`type=dp`) and judges what they show.

Best effort by nature: nothing makes the coordinator stop giving requests to an instance and let the running ones end, so
requests may arrive between the last look and the deletion. The coordinator serves what it collected last (every 3 s
unless configured otherwise), and goes on serving it when a collection fails; so only what two collections say counts.
An instance of which one endpoint did not answer is missing in the whole view: that is unknown, and never idle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from . import exposition
from .coordinator import RUNNING, WAITING

CONTINUE, FAIL = "continue", "fail"
ON_TIMEOUT = (CONTINUE, FAIL)

# An idle service may look exactly the same in every collection, so the same text counts after this many collections.
_SAME_TEXT = 3


@dataclass(frozen=True)
class Victim:
    """An instance that goes, and the addresses of its pods that may be serving requests."""

    engine_role: str
    index: int
    name: str
    pod_ips: tuple[str, ...]


@dataclass(frozen=True)
class IdleWait:
    """What to wait for before instances are deleted, and where to look: `service` is `SCHEME:NAME:PORT` as the API server's
    proxy wants it. Seconds throughout; `collection` is how far apart two looks have to be to see two collections.
    """

    victims: tuple[Victim, ...]
    service: str
    timeout: float
    on_timeout: str
    collection: float


@dataclass(frozen=True)
class Load:
    """Requests that an instance is working on, and that wait there."""

    running: float
    waiting: float

    @property
    def idle(self) -> bool:
        """Nothing to do."""
        return self.running + self.waiting == 0


@dataclass(frozen=True)
class Reading:
    """One look at the metrics, `at` seconds after the first. `text` is None when there was no answer; `problem` says why."""

    at: float
    text: str | None
    problem: str = ""


@dataclass(frozen=True)
class Watched:
    """What is known of one victim. `since` is the first of the looks that have found it idle ever since, `text` what that look saw."""

    victim: Victim
    idle: bool = False
    load: Load | None = None
    problem: str = ""
    since: float | None = None
    text: str = ""

    def in_words(self) -> str:
        """`vllm-d1: 3 running, 1 waiting`."""
        if self.load is None:
            return f"{self.victim.name}: unknown ({self.problem})"
        return f"{self.victim.name}: {self.load.running:g} running, {self.load.waiting:g} waiting"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for results; `running` and `waiting` are None when they are not known."""
        victim, load = self.victim, self.load
        return {
            "engine_role": victim.engine_role,
            "index": victim.index,
            "name": victim.name,
            "idle": self.idle,
            "running": None if load is None else int(load.running),
            "waiting": None if load is None else int(load.waiting),
            "problem": self.problem,
        }


def begin(victims: Iterable[Victim]) -> tuple[Watched, ...]:
    """Before the first look. An instance without a pod that has an address serves nobody."""
    return tuple(Watched(victim, idle=not victim.pod_ips, load=None if victim.pod_ips else Load(0, 0)) for victim in victims)


def look(watched: Iterable[Watched], reading: Reading, collection: float) -> tuple[Watched, ...]:
    """What is known after one more look."""
    samples = None
    if reading.text is not None:
        try:
            samples = _Samples(reading.text)
        except exposition.BadExposition as error:
            reading = replace(reading, text=None, problem=f"the coordinator's metrics cannot be read: {error}")
    return tuple(_look(item, reading, samples, collection) if item.victim.pod_ips else item for item in watched)


def _look(item: Watched, reading: Reading, samples: _Samples | None, collection: float) -> Watched:
    if samples is None or reading.text is None:
        return Watched(item.victim, problem=reading.problem)
    load = samples.load(item.victim.pod_ips)
    if load is None:
        return Watched(item.victim, problem="the coordinator does not show it")
    if not load.idle:
        return Watched(item.victim, load=load)
    if item.since is None:
        return Watched(item.victim, load=load, since=reading.at, text=reading.text)
    apart = collection if reading.text != item.text else _SAME_TEXT * collection
    return replace(item, load=load, idle=reading.at - item.since >= apart)


class _Samples:
    """The samples of running and waiting requests in a text, by the labels of their endpoint. Raises BadExposition."""

    def __init__(self, text: str) -> None:
        self._found: dict[tuple[str, str, str], dict[str, float]] = {}
        for series, value in exposition.read(text, (*RUNNING, *WAITING)):
            what = "running" if series.bare in RUNNING else "waiting" if series.bare in WAITING else ""
            if what:
                labels = series.labels
                key = (labels.get("pod_ip", ""), labels.get("instance_id", ""), labels.get("dp_rank", ""))
                counts = self._found.setdefault(key, {})
                counts[what] = counts.get(what, 0.0) + value

    def load(self, pod_ips: Iterable[str]) -> Load | None:
        """The load of the instance that these pods are of; None when it is not known of each of its endpoints."""
        addresses = set(pod_ips)
        instances = {key[1] for key in self._found if key[0] in addresses and key[1]}
        endpoints = [counts for key, counts in self._found.items() if key[0] in addresses or key[1] in instances]
        if not endpoints or not all(_whole(counts) for counts in endpoints):
            return None
        return Load(sum(counts["running"] for counts in endpoints), sum(counts["waiting"] for counts in endpoints))


def _whole(counts: Mapping[str, float]) -> bool:
    """Both numbers are there, and are numbers."""
    return all(counts.get(what, -1.0) >= 0 and counts[what] != float("inf") for what in ("running", "waiting"))
