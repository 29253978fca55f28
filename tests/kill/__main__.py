# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make kill`: every verb on every backend, ended at every request; prints how many points there were and what they cost."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from tests.tools.environment import COLLECTIONS

if str(COLLECTIONS) not in sys.path:
    sys.path.insert(0, str(COLLECTIONS))

from tests.cluster import Cluster
from tests.kill import runner
from tests.kill.runner import Lanes, Point, Row
from tests.kill.verbs import BACKENDS, VERBS, Verb

SECONDS_PER_DAY = 86400
THIRD = "MINDIE_KILL_THIRD"
ALL = -1


def third_of_today() -> int:
    """Which third of the rest is due: the variable MINDIE_KILL_THIRD (0, 1, 2), else another one each day."""
    return int(os.environ.get(THIRD) or time.time() // SECONDS_PER_DAY) % 3


def chosen(points: list[Point], third: int, *, always: bool = False) -> list[Point]:
    """All points, or one third of them."""
    return points if third == ALL or always else points[third::3]


def run(kubeconfig: str, verbs: list[Verb], backends: list[str], third: int, signals: bool) -> dict[tuple[str, str], Row]:
    """Do the points of these verbs on these backends. Rows by what is ended, and backend."""
    rows: dict[tuple[str, str], Row] = {}
    with Lanes(kubeconfig) as lanes:
        rehearsed = list(lanes.rehearse((backend, verb) for verb in verbs for backend in backends if backend in verb.backends))
        pictures: dict[str, runner.Pictures] = {backend: {} for backend in backends}
        points: list[Point] = []
        for one in rehearsed:
            pictures[one.backend].update(one.pictures)
            points += chosen(runner.points_of(one.backend, one.verb, one.moments), third, always=one.backend in one.verb.always)
        points += chosen(runner.signal_points(rehearsed), third) if signals else []
        rows = {point.key: Row() for point in points}
        for point, outcome in lanes.work(points, pictures):
            row = rows[point.key]
            failed = len(row.failed)
            row.add(point, outcome)
            for line in row.failed[failed:]:
                print(f"FAILED {line}", flush=True)
    return rows


def show(rows: dict[tuple[str, str], Row], third: int, seconds: float) -> None:
    """Print the table."""
    part = (
        "all points"
        if third == ALL
        else f"all points of deploy and scale (AscendJobs: of scaling as documented), third {third} of 0, 1, 2 of the rest ({THIRD})"
    )
    table = Table(title=f"Ended at every request: {part}; {seconds:.0f} s, {os.cpu_count()} cores", title_justify="left")
    for column in ("ended", "backend"):
        table.add_column(column)
    for column in ("points", "not reached", "repeated", "failed", "rules linted", "smaller than runs", "seconds per point"):
        table.add_column(column, justify="right")
    for (what, backend), row in rows.items():
        counted = (row.points, row.not_reached, row.repeated, len(row.failed), row.linted, row.smaller)
        numbers = (*counted, f"{row.seconds / max(1, row.points):.1f}")
        table.add_row(what, backend, *map(str, numbers))
    before, after = (
        [sum(getattr(row, field) for row in rows.values()) for field in fields]
        for fields in (("points", "not_reached", "repeated"), ("linted", "smaller"))
    )
    table.add_row("sum", "", *map(str, (*before, sum(len(row.failed) for row in rows.values()), *after)))
    Console(width=120).print(table)


@contextlib.contextmanager
def cluster(kubeconfig: str | None) -> Iterator[str]:
    """The kubeconfig that was given, or that of a cluster made for the purpose."""
    if kubeconfig:
        yield kubeconfig
        return
    with Cluster(a2_nodes=0, a3_nodes=40, cpu_nodes=2, infer_operator=True, ascend_operator=True, sessions=0.1) as made:
        yield made.kubeconfig


def main() -> int:
    """0 when every point kept the promise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", help="a running test cluster (default: one of its own)")
    parser.add_argument("--part", action="store_true", help=f"of most verbs only a third: {THIRD}, or another one each day")
    parser.add_argument("--verb", action="append", choices=[verb.name for verb in VERBS])
    parser.add_argument("--backend", action="append", choices=BACKENDS)
    parser.add_argument("--without-signals", action="store_true", help="no SIGTERM, SIGINT and SIGKILL to modules and ansible-playbook")
    given = parser.parse_args()
    verbs = [verb for verb in VERBS if not given.verb or verb.name in given.verb]
    third = third_of_today() if given.part else ALL
    with cluster(given.kubeconfig) as kubeconfig:
        started = time.monotonic()
        rows = run(kubeconfig, verbs, given.backend or list(BACKENDS), third, not given.without_signals)
    show(rows, third, time.monotonic() - started)
    return 1 if any(row.failed or not row.points for row in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
