# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Style, types, YAML, Ansible content, licences and changelog fragments."""

from __future__ import annotations

import sys

from tests.tools.checks import Check, run, tool
from tests.tools.environment import VENV

# The slowest first: they decide how long all of it takes.
CHECKS = (
    tool("ansible-lint", "ansiblelint", "--offline", "--profile", "production", "--strict"),
    tool("mypy", "mypy"),
    tool("reuse", "reuse", "lint", "--quiet"),
    tool("yamllint", "yamllint", "--strict", "."),
    Check("antsibull-changelog", (str(VENV / "bin" / "antsibull-changelog"), "lint")),
    tool("ruff check", "ruff", "check", "--output-format", "concise"),
    tool("ruff format", "ruff", "format", "--check"),
)

if __name__ == "__main__":
    sys.exit(0 if run(CHECKS) else 1)
