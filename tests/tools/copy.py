# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A copy of the project as a collection, for tools that must not see the work tree: its tracked and its new files, and kubernetes.core beside it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.tools.environment import COLLECTIONS, ROOT


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(("git", "-C", str(folder), *arguments), capture_output=True, text=True, check=True).stdout


def make(folder: Path, without: tuple[str, ...] = ()) -> Path:
    """Copy the project to ``folder/ansible_collections/ascend/mindie``, make that a git repository, and return its path.

    Names that start with one of `without` stay out.
    """
    tree = folder / "ansible_collections"
    target = tree / "ascend" / "mindie"
    shutil.rmtree(target, ignore_errors=True)
    for name in _git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0"):
        source = ROOT / name
        if name and not name.startswith(without) and source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    beside = tree / "kubernetes" / "core"
    if not beside.is_dir():
        shutil.copytree(COLLECTIONS / "ansible_collections" / "kubernetes" / "core", beside)
    _git(target, "init", "-q")
    _git(target, "add", "-A")
    return target
