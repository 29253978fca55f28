# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All that has to hold: checks side by side, then the tests, whose summary is the last output."""

from __future__ import annotations

import subprocess
import sys

from tests.tools.checks import Check, run, tool
from tests.tools.environment import PYTHON, ROOT, VENV, environment
from tests.tools.lint import CHECKS


def _checks() -> tuple[Check, ...]:
    """The slow ones first; the control plane of the tests is built meanwhile."""
    return (
        tool("control plane", "tests.cluster", "build"),
        tool("ansible-test sanity", "tests.tools.sanity"),
        tool("galaxy-importer", "tests.tools.importer"),
        *CHECKS,
    )


def main() -> int:
    """0 when everything passed."""
    passed = run(_checks())
    passed = run((Check("molecule", (str(VENV / "bin" / "molecule"), "test", "--all")),)) and passed
    # Two at a time, each with a cluster of its own: tests mostly wait. Files stay whole, as their tests share what is dear to make.
    command = (
        str(PYTHON),
        "-m",
        "pytest",
        "-q",
        "-n",
        "2",
        "--dist",
        "loadfile",
        "--no-loadscope-reorder",
        "--cov",
        "--cov-report=term",
        *sys.argv[1:],
    )
    tests = subprocess.run(command, cwd=ROOT, env=environment(), check=False).returncode
    return 0 if passed and tests == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
