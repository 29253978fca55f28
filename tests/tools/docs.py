# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the documentation of the collection, then write its pages as reStructuredText to ``.cache/docs``."""

from __future__ import annotations

import shutil
import subprocess
import sys

from tests.tools import copy
from tests.tools.environment import CACHE, VENV, environment

FOLDER = CACHE / "docs-source"
OUTPUT = CACHE / "docs"


def main() -> int:
    """0 when the documentation is sound and the pages are written."""
    target = copy.make(FOLDER)
    tool = str(VENV / "bin" / "antsibull-docs")
    settings = environment() | {"ANSIBLE_COLLECTIONS_PATH": str(FOLDER)}
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir(parents=True)
    for command in (
        (tool, "lint-collection-docs", str(target), "--plugin-docs", "--skip-rstcheck"),
        (tool, "collection", "--use-current", "--dest-dir", str(OUTPUT), "--no-indexes", "ascend.mindie"),
    ):
        code = subprocess.run(command, cwd=FOLDER, env=settings, check=False).returncode
        if code:
            return code
    print(OUTPUT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
