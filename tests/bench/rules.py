# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m tests.bench.rules`: how long it takes to check scaling rules, to decide by them, and to simulate failures under them;
writes docs/benchmark_rules.md.

Everything runs without a cluster, all but simulations in this process. One `Measure` is one row of the page.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tests.tools.environment import COLLECTIONS, ROOT

if str(COLLECTIONS) not in sys.path:
    sys.path.insert(0, str(COLLECTIONS))

from ansible_collections.ascend.mindie.plugins.module_utils._motor import scaling_rule
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_lint import lint
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_reader import Size

from . import simulation

PAGE = ROOT / "docs" / "benchmark_rules.md"
HEAD = """\
# Benchmark: scaling rules

`python -m tests.bench.rules` wrote this page. Nothing needs a cluster. Numbers are wall-clock time, the median
of all rounds; before the first round the work is done once without being timed.

Measured with Python {python} on {cores} cores. The load average before the run was {load}.

| what | budget | median | fastest to slowest | rounds | |
|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Measure:
    """One row: what is done, in how many milliseconds it is to be done, how often it is measured, and the work itself."""

    what: str
    budget: float
    rounds: int
    work: Callable[[], object]

    def samples(self) -> list[float]:
        """Milliseconds of each round."""
        self.work()
        found = []
        for dummy in range(self.rounds):
            started = time.perf_counter()
            self.work()
            found.append((time.perf_counter() - started) * 1000)
        return found


def rule_of(tiers: int) -> str:
    """A rule with so many tiers of prefill, and four instances of decode in each."""
    return scaling_rule.write([{"group0": Size(tiers - index, 2), "group1": Size(4, 4)} for index in range(tiers)])


def lint_and_decide(text: str, running: dict[str, int]) -> None:
    """What is asked of a live rule: what is wrong with it, and what may each of its groups do now. Raises ValueError when it is refused."""
    found = lint(text, source="rule")
    if found.reading is None or found.findings:
        raise ValueError(f"the rule that is measured has findings: {found.findings}")
    for group in found.reading.tiers[0]:
        scaling_rule.decide(found.reading.tiers, running, group)


def measures() -> Iterator[Measure]:
    """All rows of the page."""
    sixteen, many = rule_of(16), rule_of(256)
    yield Measure(
        "lint a rule with 16 tiers and decide for both groups", 5, 1000, lambda: lint_and_decide(sixteen, {"group0": 15, "group1": 4})
    )
    yield Measure("the same with 256 tiers (16 times as many)", 80, 100, lambda: lint_and_decide(many, {"group0": 255, "group1": 4}))


def row(measure: Measure, samples: Sequence[float]) -> str:
    """One line of the table."""
    median = statistics.median(samples)
    kept = "ok" if median <= measure.budget else "**missed**"
    spread = f"{min(samples):.2f} to {max(samples):.2f} ms"
    return f"| {measure.what} | {measure.budget:g} ms | {median:.2f} ms | {spread} | {len(samples)} | {kept} |"


def main() -> None:
    """Measure, print, and write the page."""
    head = HEAD.format(python=platform.python_version(), cores=os.cpu_count() or 1, load=round(os.getloadavg()[0], 1))
    rows = [row(measure, measure.samples()) for measure in measures()]
    simulated = list(simulation.rows())
    print("\n".join([*rows, *simulated]))
    PAGE.write_text(head + "\n".join([*rows, *simulated, ""]))


if __name__ == "__main__":
    main()
