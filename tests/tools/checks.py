# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs checks side by side: one line for a check that passed, the whole output of one that failed."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from tests.tools.environment import PYTHON, ROOT, environment


@dataclass(frozen=True)
class Check:
    """A command with a name; it passes when its exit code is 0."""

    name: str
    command: tuple[str, ...]
    folder: Path = ROOT


def tool(name: str, *arguments: str) -> Check:
    """A check that is a Python module of this project or of an installed package."""
    return Check(name, (str(PYTHON), "-m", *arguments))


def _run(check: Check) -> tuple[float, int, str]:
    start = time.monotonic()
    done = subprocess.run(
        check.command, cwd=check.folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return time.monotonic() - start, done.returncode, done.stdout


def run(checks: Sequence[Check]) -> bool:
    """Run all checks, as many at once as there are processors, in the given order; True when all passed."""
    passed = True
    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        running = {pool.submit(_run, check): check for check in checks}
        for future in as_completed(running):
            check = running[future]
            seconds, code, output = future.result()
            if code:
                passed = False
                print(
                    f"{check.name:<24} failed with exit code {code} after {seconds:.1f} s\n{' '.join(check.command)}\n{output}", flush=True
                )
            else:
                print(f"{check.name:<24} passed {seconds:6.1f} s", flush=True)
    return passed
