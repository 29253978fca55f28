# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make ``.cache/venv`` and ``.cache/collections`` once; all of it stays in the project folder.

Run by the Python >= 3.11 that the Makefile finds; needs the standard library only. When nothing changed it returns at once.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

if not __package__:  # started by its path
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.tools.environment import CACHE, COLLECTIONS, HOME, PYTHON, ROOT, VENV, environment

REQUIREMENTS = ROOT / "tests" / "requirements.txt"
KUBERNETES_CORE = "kubernetes.core:>=6.3.0,<8.0.0"
# A release of the community package that has such a kubernetes.core inside; only that part of it is unpacked.
COMMUNITY_PACKAGE = "ansible==14.5.0"
STAMP = VENV / "bootstrap.stamp"


def _key() -> str:
    """Changes when the venv has to change: the requirements, this file, the Python."""
    parts = (REQUIREMENTS.read_bytes(), Path(__file__).read_bytes(), sys.version.encode(), str(ROOT).encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _run(*command: str | Path) -> None:
    """Run one command, silent unless it fails."""
    done = subprocess.run(
        [str(word) for word in command], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(str(word) for word in command)}\n{done.stdout}\nfailed with exit code {done.returncode}")


def _make_venv() -> None:
    """Install the requirements, into a new venv when the Python is another one."""
    version = VENV / "python.version"
    if not version.is_file() or version.read_text() != sys.version:
        shutil.rmtree(VENV, ignore_errors=True)
        venv.create(VENV, with_pip=True, symlinks=True)
        version.write_text(sys.version)
    _run(PYTHON, "-m", "pip", "install", "-q", "-r", REQUIREMENTS)


def _unpack_from_wheel(target: Path) -> None:
    """Take kubernetes.core out of the wheel of the community package (plain Python, so any Python may unpack it)."""
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        options = ("--no-deps", "--python-version", "3.13", "--only-binary=:all:", "-d", folder)
        _run(PYTHON, "-m", "pip", "download", "-q", *options, COMMUNITY_PACKAGE)
        with zipfile.ZipFile(next(Path(folder).glob("ansible-*.whl"))) as wheel:
            wheel.extractall(folder, [name for name in wheel.namelist() if name.startswith("ansible_collections/kubernetes/core/")])
        os.replace(Path(folder) / "ansible_collections" / "kubernetes" / "core", target)


def _install_from_galaxy() -> bool:
    """Whether Galaxy gave kubernetes.core within a minute."""
    command = (PYTHON, "-m", "ansible", "galaxy", "collection", "install", "--timeout", "10", "-p", COLLECTIONS, KUBERNETES_CORE)
    try:
        return (
            subprocess.run([str(word) for word in command], env=environment(), capture_output=True, timeout=60, check=False).returncode == 0
        )
    except subprocess.TimeoutExpired:
        return False


def _make_collections() -> None:
    """The tree that Ansible finds collections in: this one as a link, and kubernetes.core."""
    tree = COLLECTIONS / "ansible_collections"
    link = tree / "ascend" / "mindie"
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(os.path.relpath(ROOT, link.parent))
    target = tree / "kubernetes" / "core"
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.is_dir() and not _install_from_galaxy():
        _unpack_from_wheel(target)


def bootstrap() -> None:
    """Make or update everything; a second process waits for the first."""
    for folder in (CACHE, HOME):
        folder.mkdir(parents=True, exist_ok=True)
    with open(CACHE / "bootstrap.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        key = _key()
        if STAMP.is_file() and STAMP.read_text() == key:
            return
        print("installing the Python packages of tests/requirements.txt and kubernetes.core into .cache", file=sys.stderr, flush=True)
        _make_venv()
        _make_collections()
        STAMP.write_text(key)


if __name__ == "__main__":
    bootstrap()
