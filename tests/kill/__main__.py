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
from tests.kill.verbs import VERBS, Verb

SECONDS_PER_DAY = 86400
THIRD = "MINDIE_KILL_THIRD"
ALL = -1


def third_of_today() -> int:
    """Which third of the rest is due: the variable MINDIE_KILL_THIRD (0, 1, 2), else another one each day."""
    return int(os.environ.get(THIRD) or time.time() // SECONDS_PER_DAY) % 3


def chosen(points: list[Point], verb: Verb, third: int) -> list[Point]:
    """All points, or of most verbs one third."""
    return points if third == ALL or verb.always else points[third::3]


def run(kubeconfig: str, verbs: list[Verb], backends: list[str], third: int) -> list[Row]:
    """Do the points of these verbs on these backends."""
    rows = {(verb.name, backend): Row(verb.name, backend) for backend in backends for verb in verbs}
    pictures: dict[str, runner.Pictures] = {backend: {} for backend in backends}
    points: list[Point] = []
    with Lanes(kubeconfig) as lanes:
        for backend, verb, moments, seen in lanes.rehearse((backend, verb) for verb in verbs for backend in backends):
            pictures[backend].update(seen)
            points += chosen(runner.points_of(backend, verb, moments), verb, third)
        for point, outcome in lanes.work(points, pictures):
            row = rows[point.verb, point.backend]
            failed = len(row.failed)
            row.add(point, outcome)
            for line in row.failed[failed:]:
                print(f"FAILED {line}", flush=True)
    return list(rows.values())


def show(rows: list[Row], third: int, seconds: float) -> None:
    """Print the table."""
    part = "all points" if third == ALL else f"all points of deploy and scale, third {third} of 0, 1, 2 of the rest"
    table = Table(title=f"Ended at every request: {part}, {seconds:.0f} s, {os.cpu_count()} cores", title_justify="left")
    for column in ("verb", "backend"):
        table.add_column(column)
    for column in ("points", "not reached", "failed", "seconds per point"):
        table.add_column(column, justify="right")
    for row in rows:
        numbers = (row.points, row.not_reached, len(row.failed), f"{row.seconds / max(1, row.points):.1f}")
        table.add_row(row.verb, row.backend, *map(str, numbers))
    table.add_row("sum", "", str(sum(row.points for row in rows)))
    Console(width=100).print(table)


@contextlib.contextmanager
def cluster(kubeconfig: str | None) -> Iterator[str]:
    """The kubeconfig that was given, or that of a cluster made for the purpose."""
    if kubeconfig:
        yield kubeconfig
        return
    with Cluster(a2_nodes=0, a3_nodes=40, cpu_nodes=2, infer_operator=True) as made:
        yield made.kubeconfig


def main() -> int:
    """0 when every point kept the promise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", help="a running test cluster (default: one of its own)")
    parser.add_argument("--part", action="store_true", help=f"of most verbs only a third: {THIRD}, or another one each day")
    parser.add_argument("--verb", action="append", choices=[verb.name for verb in VERBS])
    parser.add_argument("--backend", action="append", choices=runner.backends())
    given = parser.parse_args()
    verbs = [verb for verb in VERBS if not given.verb or verb.name in given.verb]
    third = third_of_today() if given.part else ALL
    with cluster(given.kubeconfig) as kubeconfig:
        started = time.monotonic()
        rows = run(kubeconfig, verbs, given.backend or list(runner.backends()), third)
    show(rows, third, time.monotonic() - started)
    return 1 if any(row.failed or not row.points for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
