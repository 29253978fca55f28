# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster in the background: a state file says which process runs it, so that exactly that one is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from .cluster import ROOT

PATIENCE = 120.0


def record(state: Path, kubeconfig: str) -> None:
    """Say in the state file that this process runs the cluster."""
    pid = os.getpid()
    state.parent.mkdir(parents=True, exist_ok=True)
    partial = state.with_suffix(".partial")
    partial.write_text(json.dumps({"pid": pid, "started": _start_time(pid), "kubeconfig": kubeconfig}))
    partial.replace(state)


def up(state: Path, arguments: Sequence[str]) -> str:
    """Start a cluster in the background and return its kubeconfig; one that runs already is kept."""
    if _running(state):
        return str(json.loads(state.read_text())["kubeconfig"])
    state.unlink(missing_ok=True)
    state.parent.mkdir(parents=True, exist_ok=True)
    log = state.with_suffix(".log")
    with open(log, "wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.cluster", "up", "--state", str(state), *arguments],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    deadline = time.monotonic() + PATIENCE
    while not state.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.terminate()
            sys.exit(f"the cluster did not start:\n{log.read_text(errors='replace')}")
        time.sleep(0.1)
    return str(json.loads(state.read_text())["kubeconfig"])


def down(state: Path) -> bool:
    """Stop the cluster of a state file and wait until it is gone; False when it did not run."""
    pid = _running(state)
    if pid:
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE
        while _running(state) == pid:
            if time.monotonic() > deadline:
                sys.exit(f"process {pid} does not end; see {state.with_suffix('.log')}")
            time.sleep(0.1)
    for file in (state, state.with_suffix(".log")):
        file.unlink(missing_ok=True)
    return bool(pid)


def _running(state: Path) -> int:
    """The process that runs the cluster, 0 when it has ended (its number may belong to another one by now)."""
    if not state.exists():
        return 0
    known = json.loads(state.read_text())
    return int(known["pid"]) if _start_time(known["pid"]) == known["started"] else 0


def _start_time(pid: int) -> str:
    """When a process started (ticks since boot), empty when there is none or it only waits to be reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]
