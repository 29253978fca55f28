# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ansible-test sanity, all of its tests, in a copy of the project."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.tools import copy
from tests.tools.environment import CACHE, HOME, VENV, environment

FOLDER = CACHE / "sanity"
# ansible-test makes its own venvs and downloads an installer of pip for them. These files have the names under which it looks
# for a download of before; they use the pip that Python itself brings, so that packages come from the configured index alone.
INSTALLERS = ("get_pip_24_2.py", "get_pip_25_2.py")
INSTALLER = """\
import ensurepip, glob, os, sys
sys.path.insert(0, glob.glob(os.path.join(os.path.dirname(ensurepip.__file__), "_bundled", "pip-*.whl"))[0])
from pip._internal.cli.main import main
sys.exit(main(["install"] + [word for word in sys.argv[1:] if word not in ("--no-setuptools", "--no-wheel")]))
"""


def main() -> int:
    """Run ansible-test; its exit code."""
    downloads = HOME / ".ansible" / "test" / "cache"
    downloads.mkdir(parents=True, exist_ok=True)
    for name in INSTALLERS:
        (downloads / name).write_text(INSTALLER)
    target = copy.make(FOLDER, without=("examples/",))  # data as Motor's releases have it, several YAML documents in a file
    ignored = sorted(target.glob("tests/sanity/ignore-*.txt"))
    if ignored:
        print(f"no test of ansible-test is ignored here: remove {', '.join(path.name for path in ignored)}")
        return 1
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    command = (str(VENV / "bin" / "ansible-test"), "sanity", "--color", "no", "--python", python, *sys.argv[1:])
    return subprocess.run(
        command, cwd=target, env=environment() | {"ANSIBLE_COLLECTIONS_PATH": str(FOLDER)}, stdin=subprocess.DEVNULL, check=False
    ).returncode


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
