# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the collection as Galaxy would get it and run Galaxy's importer on it; warnings count as errors."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

from tests.tools import copy
from tests.tools.environment import CACHE, PYTHON, environment

FOLDER = CACHE / "importer"


def main() -> int:
    """0 when the importer accepts the collection without a complaint."""
    target = copy.make(FOLDER)
    output = FOLDER / "dist"
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir()
    settings = FOLDER / "importer.cfg"
    settings.write_text("[galaxy-importer]\nCHECK_REQUIRED_TAGS = True\n")
    command = (str(PYTHON), "-m", "galaxy_importer.main", "--git-clone-path", str(target), "--output-path", str(output))
    done = subprocess.run(
        command,
        cwd=FOLDER,
        env=environment() | {"GALAXY_IMPORTER_CONFIG": str(settings)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    complaints = re.findall(r"^(?:WARNING|ERROR|CRITICAL).*", done.stdout, flags=re.MULTILINE)
    built = sorted(output.glob("*.tar.gz"))
    if done.returncode or complaints or not built:
        print(done.stdout)
        return 1
    print(built[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
