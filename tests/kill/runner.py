# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lanes in processes of their own, forked off while there is one thread, work through the points of all verbs."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.pool import Pool
from pathlib import Path

from urllib3.exceptions import HTTPError

from tests.cluster.kube_client import KubeClient, KubeError
from tests.support.modules import warm

from .child import AFTER, BEFORE, Moment, Trap
from .lane import LABEL, NAMESPACES, Lane, Outcome
from .picture import Picture
from .verbs import MODULES, VERBS, Verb, Wish

BY_NAME = {verb.name: verb for verb in VERBS}
# Most of a point is waiting for a dead lock, so there are more lanes than processors.
LANES = 4 * (os.cpu_count() or 2)
# How many renewals of the lock there are depends on the machine's speed.
MOST_RENEWALS = 3
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)
POINTS_PER_SIGNAL = 10
Pictures = dict[Wish, Picture]


@dataclass(frozen=True)
class Point:
    """One verb on one backend, ended at one moment. `nth`: by a signal to ansible-playbook at this write of it."""

    backend: str
    verb: str
    trap: Trap
    row: str = ""
    nth: int = 0

    @property
    def key(self) -> tuple[str, str]:
        """The row of the table that it belongs to."""
        return (self.row, "all") if self.row else (self.verb, self.backend)

    def __str__(self) -> str:
        return f"{self.verb}, {self.backend}, {f'{self.row}: ' if self.row else ''}{self.trap}"


@dataclass
class Row:
    """What came of some points. `seconds` is the sum over lanes that work side by side."""

    points: int = 0
    not_reached: int = 0
    repeated: int = 0
    seconds: float = 0.0
    linted: int = 0
    smaller: int = 0
    failed: list[str] = field(default_factory=list)

    def add(self, point: Point, outcome: Outcome) -> None:
        """Count one point."""
        self.points += 1
        self.not_reached += not outcome.reached
        self.repeated += outcome.repeated
        self.seconds += outcome.seconds
        self.linted += outcome.linted
        self.smaller += outcome.smaller
        problems = list(outcome.problems)
        if not outcome.reached and point.trap.moment.mutating and not point.trap.moment.timed:
            problems.append("the request never came")
        if problems:
            self.failed.append(f"{point}: {'; '.join(problems)}")


@dataclass(frozen=True)
class Rehearsed:
    """The requests of an undisturbed run of a verb, and what there was before and after it."""

    backend: str
    verb: Verb
    moments: tuple[Moment, ...]
    pictures: Pictures


def points_of(backend: str, verb: Verb, moments: Sequence[Moment]) -> list[Point]:
    """Before and after each request that changes something, before each read but the last."""
    last = max((number for number, moment in enumerate(moments) if not moment.mutating), default=-1)
    found = []
    for number, moment in enumerate(moments):
        if moment.timed and moment.number > MOST_RENEWALS:
            continue
        times = (BEFORE, AFTER) if moment.mutating else (BEFORE,) if number != last else ()
        found += [Point(backend, verb.name, Trap(moment, when)) for when in times]
    return found


def signal_points(rehearsed: Sequence[Rehearsed]) -> list[Point]:
    """Ten for each signal, to the module and to ansible-playbook; spread over verbs, backends and writes."""
    found = []
    for number, (sign, playbook) in enumerate(itertools.product(SIGNALS, (False, True))):
        row = f"{sign.name} of {'ansible-playbook' if playbook else 'the module'}"
        for turn in range(POINTS_PER_SIGNAL):
            one = rehearsed[(POINTS_PER_SIGNAL * number + turn) % len(rehearsed)]
            writes = [moment for moment in one.moments if moment.mutating and not (moment.of_lease if playbook else moment.timed)]
            nth = (7 * turn + number) % len(writes)
            trap = Trap(writes[nth], (BEFORE, AFTER)[(turn // 2) % 2], sign)
            found.append(Point(one.backend, one.verb.name, trap, row, nth + 1 if playbook else 0))
    return found


class Lanes:
    """The processes; use as a context manager. `kubeconfig` is that of an administrator with a token."""

    def __init__(self, kubeconfig: str) -> None:
        self._kubeconfig = kubeconfig
        self._folder = tempfile.TemporaryDirectory(prefix="mindie-kill-")
        self._pool: Pool | None = None

    def __enter__(self) -> Lanes:
        for module in MODULES:
            warm(module)
        context = multiprocessing.get_context("fork")
        number = context.Value("i", 0)
        self._pool = context.Pool(LANES, _be_lane, (self._kubeconfig, number, self._folder.name))
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool:
            self._pool.terminate()
            self._pool.join()
        self._folder.cleanup()
        client = KubeClient.from_kubeconfig(self._kubeconfig)
        for item in client.list(NAMESPACES, labelSelector=LABEL)["items"]:
            client.delete(NAMESPACES, "", item["metadata"]["name"])

    @property
    def pool(self) -> Pool:
        """The pool of lanes."""
        assert self._pool
        return self._pool

    def rehearse(self, pairs: Iterable[tuple[str, Verb]]) -> Iterator[Rehearsed]:
        """Run each verb once undisturbed."""
        wanted = [(backend, verb.name) for backend, verb in pairs]
        for (backend, name), (moments, pictures) in zip(wanted, self.pool.imap(_rehearse, wanted), strict=True):
            yield Rehearsed(backend, BY_NAME[name], moments, pictures)

    def work(self, points: Sequence[Point], pictures: dict[str, Pictures]) -> Iterator[tuple[Point, Outcome]]:
        """Do all points, in no particular order."""
        jobs = [(chunk, pictures[chunk[0].backend]) for chunk in chunks(points)]
        for done in self.pool.imap_unordered(_work, jobs):
            yield from done


def chunks(points: Iterable[Point]) -> list[list[Point]]:
    """Points that one lane does in a row: one of each verb of a chain, so that a verb mostly starts where another ended."""
    columns: dict[tuple[str, str], dict[str, list[Point]]] = {}
    for point in points:
        columns.setdefault((point.backend, BY_NAME[point.verb].chain), {}).setdefault(point.verb, []).append(point)
    found = []
    for chain in columns.values():
        found += [[point for point in row if point] for row in itertools.zip_longest(*chain.values())]
    return found


_LANES: dict[str, Lane] = {}
_SETTINGS: list[tuple[str, int, Path]] = []


def _be_lane(kubeconfig: str, number: multiprocessing.sharedctypes.Synchronized[int], folder: str) -> None:
    with number.get_lock():
        number.value += 1
        mine = number.value
    _SETTINGS.append((kubeconfig, mine, Path(folder)))


def _lane(backend: str) -> Lane:
    if backend not in _LANES:
        kubeconfig, number, folder = _SETTINGS[0]
        own = folder / f"{backend}-{number}"
        own.mkdir()
        _LANES[backend] = Lane(kubeconfig, number, backend, own)
    return _LANES[backend]


def _rehearse(wanted: tuple[str, str]) -> tuple[tuple[Moment, ...], Pictures]:
    backend, name = wanted
    return _lane(backend).rehearse(BY_NAME[name])


def _work(job: tuple[list[Point], Pictures]) -> list[tuple[Point, Outcome]]:
    points, pictures = job
    done = []
    for point in points:
        lane = _lane(point.backend)
        try:
            outcome = lane.point(BY_NAME[point.verb], point.trap, pictures, point.nth)
        except (KubeError, HTTPError) as error:  # the control plane could not be asked: one point less, not the end of all
            outcome = Outcome((f"could not be checked: {error}",), True, 0, 0.0)
            lane.forget()
        done.append((point, outcome))
    return done
