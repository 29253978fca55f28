# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make bench`: 1 -> 16 prefill instances and back, beside kubernetes.core, at 0 and 20 ms of API latency; writes docs/benchmark.*.
Then scaling rules (`rules.py`), the rescheduling watcher (`watcher.py`) and the metrics adaptor (`adaptor.py`), which have pages of their own.

MINDIE_BENCH_ROUNDS makes it shorter (and then nothing is written to docs). `python -m tests.bench draw` draws the last run again.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.cluster import Cluster
from tests.cluster.fault_proxy import FaultProxy
from tests.tools.environment import CACHE, ROOT

from . import adaptor, chart, page, rules, watcher
from .measure import Case, Result, Results, Run, Runner
from .peers import FEW, MANY, MODES, Service

FULL_ROUNDS = 10
LATENCIES = (0, 20)
# Peers that wait mostly sleep: more rounds, or another latency, would take long and tell nothing more.
WAITING_PEERS_ROUNDS, WAITING_LATENCY = 3, 20
UP, DOWN, UNCHANGED = page.UP, page.DOWN, page.UNCHANGED
RAW = CACHE / "bench" / "results.json"


class Bench:
    """Measures everything, rounds interleaved: what slows the machine down for a while slows down all peers."""

    def __init__(self, runner: Runner, services: list[Service], rounds: int, console: Console) -> None:
        self._runner, self._services, self._rounds, self._console = runner, services, rounds, console
        self.results = Results()

    def run(self) -> None:
        """All rounds."""
        for number in range(self._rounds):
            for latency in LATENCIES:
                self._runner.latency(latency)
                self._console.print(f"round {number + 1} of {self._rounds}, {latency} ms", highlight=False)
                ping = Case("", "ping", "ping", latency)
                self.results.add(ping, self._runner.playbook({"ansible.builtin.ping": None}))
                for service in self._services:
                    self._round(service, latency, peers_wait=number < WAITING_PEERS_ROUNDS and latency == WAITING_LATENCY)

    def _round(self, service: Service, latency: int, *, peers_wait: bool) -> None:
        for wait in (False, True):
            self._both_ways(Case(service.backend, "ours", "", latency, wait), service, service.ours)
            for who in service.peers:
                # What an InferServiceSet says of itself does not tell whether its instances are there: no peer can wait for that.
                if wait and (who == "patch" or not peers_wait):
                    continue
                self._both_ways(Case(service.backend, who, "", latency, wait), service, _peer(service, who))
        alone = Case(service.backend, "ours", "", latency, process="module")
        self._both_ways(alone, service, service.ours_alone)
        unchanged = Case(service.backend, "ours", UNCHANGED, latency)
        self.results.add(unchanged, service.ours(FEW, wait=False))

    def _both_ways(self, case: Case, service: Service, work: Callable[..., Run]) -> None:
        for what, count in ((UP, MANY), (DOWN, FEW)):
            measured = work(count, wait=case.wait)
            service.settle()
            named = Case(case.backend, case.who, what, case.latency, case.wait, case.process)
            self.results.add(named, measured)
            waiting = ", wait" if case.wait else ""
            self._console.print(
                f"  {case.backend} {case.who} ({case.process}{waiting}) {what}: {measured.wall:.2f} s, {measured.requests} requests",
                highlight=False,
            )


def _peer(service: Service, who: str) -> Callable[..., Run]:
    return lambda count, *, wait: service.peer(who, count, wait=wait)


@contextmanager
def _prepared(rounds: int, console: Console) -> Iterator[Bench]:
    with Cluster(a2_nodes=0, a3_nodes=40, cpu_nodes=1, infer_operator=True) as cluster, FaultProxy(cluster) as proxy:
        runner = Runner(proxy)
        services = [Service(cluster, runner, backend) for backend in MODES]
        for service in services:
            service.deploy()
        yield Bench(runner, services, rounds, console)


def _show(results: Results, console: Console) -> None:
    table = Table(title="medians", title_justify="left")
    for column in ("backend", "who", "process", "what", "wait", "ms", "wall s", "min-max s", "CPU s", "requests", "rounds"):
        table.add_column(column)
    for result in results:
        table.add_row(*_cells(result))
    console.print(table)


def _cells(result: Result) -> list[str]:
    case, (low, high) = result.case, result.spread
    head = [case.backend, case.who, case.process, case.what, "yes" if case.wait else "no", str(case.latency)]
    return [*head, f"{result.wall:.2f}", f"{low:.2f}-{high:.2f}", f"{result.cpu:.2f}", str(result.requests), str(len(result.runs))]


def _draw(docs: Path) -> None:
    """Write the page and the picture of the last run."""
    stored = json.loads(RAW.read_text())
    results, machine = Results.load(stored["results"]), page.Machine(**stored["machine"])
    docs.joinpath("benchmark.md").write_text(page.write(results, machine))
    docs.joinpath("benchmark.svg").write_text(chart.draw(results))


def main() -> None:
    """Measure, print, and after a full run write the documentation."""
    console = Console(width=160)
    if sys.argv[1:] != ["draw"]:
        rounds = int(os.environ.get("MINDIE_BENCH_ROUNDS", FULL_ROUNDS))
        machine = page.Machine.this(rounds)
        with _prepared(rounds, console) as bench:
            bench.run()
        _show(bench.results, console)
        RAW.parent.mkdir(parents=True, exist_ok=True)
        RAW.write_text(json.dumps({"machine": machine.to_dict(), "results": bench.results.dump()}))
        if rounds < FULL_ROUNDS:
            console.print(f"docs/benchmark.* stay as they are: {rounds} rounds instead of {FULL_ROUNDS}")
            return
        rules.main()
        watcher.main()
        adaptor.main()
    _draw(ROOT / "docs")


if __name__ == "__main__":
    main()
