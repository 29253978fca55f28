# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make mutation`: change plan, baseline and lock code in every small way, and count how many changes no test notices.

Survivors are listed in survivors.md with the reason why each may live; the reasons are written by hand and kept.
`python -m tests.mutation _motor/counts.py ...` runs these modules alone; the others are taken from the list.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import re
import sys
import time
from multiprocessing.pool import Pool
from pathlib import Path

from tests.mutation import runs
from tests.mutation.mutants import Mutant, mutants

UNIT = "tests/unit/plugins/module_utils"
MOTOR = f"{UNIT}/_motor"
PLANS = tuple(
    f"{MOTOR}/test_{name}.py" for name in ("plans", "plan_deploy", "choice", "counts", "drift", "faults", "plan_adopt", "replace")
)
PROPERTY = "tests/property/test_property_plans.py"
RULES_PROPERTY = "tests/property/test_scaling_rule_writer.py"
SLOW = (PROPERTY, RULES_PROPERTY)
# Which tests are about which module: quick ones first, then (for what is still alive) the property test.
TARGETS: dict[str, tuple[str, ...]] = {
    "_motor/plan.py": (f"{MOTOR}/test_plan.py", *PLANS, PROPERTY),
    "_motor/plan_scale.py": (*PLANS, PROPERTY),
    "_motor/plan_deploy.py": (f"{MOTOR}/test_plan_deploy.py", *PLANS, PROPERTY),
    "_motor/plan_config.py": (*PLANS, PROPERTY),
    "_motor/plan_remove.py": (*PLANS, PROPERTY),
    "_motor/counts.py": (f"{MOTOR}/test_counts.py", *PLANS, PROPERTY),
    "_motor/deployments.py": (*PLANS, PROPERTY),
    "_motor/infer_service_set.py": (*PLANS, f"{MOTOR}/test_state.py", PROPERTY),
    "_motor/guard.py": (f"{MOTOR}/test_guard.py", *PLANS, PROPERTY),
    "_motor/baseline.py": (f"{MOTOR}/test_baseline.py", *PLANS),
    "_motor/record.py": (f"{MOTOR}/test_record.py", *PLANS, PROPERTY),
    "_motor/scaling_rule.py": (f"{MOTOR}/test_rule_decisions.py", f"{MOTOR}/test_rule_lint.py", RULES_PROPERTY),
    "_motor/rule_reader.py": (f"{MOTOR}/test_rule_reader.py", f"{MOTOR}/test_rule_lint.py"),
    "_motor/rule_lint.py": (f"{MOTOR}/test_rule_lint.py", f"{MOTOR}/test_rule_relaxed.py"),
    "_motor/rule_resize.py": (f"{MOTOR}/test_rule_resize.py",),
    "_cluster/lock.py": (f"{UNIT}/_cluster/test_lock.py", f"{UNIT}/_cluster/test_contender.py"),
}
PAGE = Path(__file__).with_name("survivors.md")
NEEDED = 90.0
UNEXPLAINED = "not explained yet"
_ROW = re.compile(r"^- `(?P<name>.*)`: (?P<why>.*)$")
_COUNT = re.compile(r"^## (?P<module>\S+): (?P<killed>\d+) of (?P<total>\d+) killed$")
HEADER = """# What mutation testing leaves alive

`make mutation` changes the code of plans, baselines, scaling rules and the lock in every small way (`tests/mutation/mutants.py` says which) and runs the tests
of the changed module. This page lists each change that no test notices, with the reason why it may live.
The list is written by the program; the reasons are written by hand and kept as long as the change survives.
"""


def existing(tests: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Quick tests and slow ones."""
    found = [test for test in tests if (runs.ROOT / test).exists()]
    return [test for test in found if test not in SLOW], [test for test in found if test in SLOW]


def warm_up(modules: list[str]) -> None:
    """Make a worker ready for changes of functions: it has loaded all that any of these modules needs."""
    tests = {test: None for module in modules for part in existing(TARGETS[module]) for test in part}
    runs.warm(list(tests))


def judge(task: tuple[str, Mutant]) -> tuple[str, bool]:
    """The name of a mutant, and whether it survives."""
    module, mutant = task
    alive = all(runs.survives(module, mutant.source, tests, in_place=mutant.in_function) for tests in existing(TARGETS[module]) if tests)
    return mutant.name, alive


def examine(module: str, clean: Pool, warm: Pool) -> tuple[int, list[str]]:
    """How many mutants there are, and the names of those that survive."""
    found = mutants((runs.FOLDER / module).read_text())
    started, alive = time.monotonic(), set()
    tasks = [(module, mutant) for mutant in found]
    judged = itertools.chain(
        clean.imap_unordered(judge, [task for task in tasks if not task[1].in_function]),
        warm.imap_unordered(judge, [task for task in tasks if task[1].in_function]),
    )
    for number, (name, survived) in enumerate(judged, start=1):
        if survived:
            alive.add(name)
            print(f"  {module} survives: {name}", flush=True)
        if number % 50 == 0:
            print(f"  {module}: {number} of {len(found)}, {time.monotonic() - started:.0f} s", flush=True)
    print(f"{module}: {len(found) - len(alive)} of {len(found)} killed, {time.monotonic() - started:.0f} s", flush=True)
    return len(found), [mutant.name for mutant in found if mutant.name in alive]


def known() -> dict[str, tuple[int, dict[str, str]]]:
    """The page as it is: number of mutants and survivors with their reasons, by module."""
    found: dict[str, tuple[int, dict[str, str]]] = {}
    rows: dict[str, str] = {}
    for line in PAGE.read_text().splitlines() if PAGE.exists() else ():
        if count := _COUNT.match(line):
            rows = {}
            found[count["module"]] = (int(count["total"]), rows)
        elif row := _ROW.match(line):
            rows[row["name"]] = row["why"]
    return found


def page(results: dict[str, tuple[int, dict[str, str]]]) -> str:
    """The page for these results."""
    total, alive = sum(count for count, _rows in results.values()), sum(len(rows) for _count, rows in results.values())
    lines = [HEADER, f"In all, {total - alive} of {total} are killed: {share(total, alive):.1f} %.", ""]
    for module, (count, rows) in results.items():
        lines += [f"## {module}: {count - len(rows)} of {count} killed", ""]
        lines += [*(f"- `{name}`: {why}" for name, why in rows.items()), *([""] if rows else [])]
    return "\n".join(lines).rstrip() + "\n"


def share(total: int, alive: int) -> float:
    """Per cent of mutants that are killed."""
    return 100.0 * (total - alive) / total if total else 0.0


def main() -> int:
    """0 when enough are killed and every survivor is explained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", choices=[*TARGETS, []], help="modules to examine (all of them unless given)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    options = parser.parse_args()
    os.chdir(runs.ROOT)
    runs.prepare()
    before = known()
    results = {module: before[module] for module in TARGETS if module in before}
    context = multiprocessing.get_context("fork")
    modules = options.modules or list(TARGETS)
    with context.Pool(options.jobs) as clean, context.Pool(options.jobs, warm_up, (modules,)) as warm:
        for module in modules:
            reasons = before.get(module, (0, {}))[1]
            count, alive = examine(module, clean, warm)
            results[module] = (count, {name: reasons.get(name, UNEXPLAINED) for name in alive})
            PAGE.write_text(page({name: results[name] for name in TARGETS if name in results}))
    total, alive = sum(count for count, _rows in results.values()), sum(len(rows) for _count, rows in results.values())
    unexplained = sum(why == UNEXPLAINED for _count, rows in results.values() for why in rows.values())
    print(json.dumps({"mutants": total, "killed": total - alive, "per cent": round(share(total, alive), 1), "unexplained": unexplained}))
    return int(share(total, alive) < NEEDED or unexplained > 0)


if __name__ == "__main__":
    sys.exit(main())
