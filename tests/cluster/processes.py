# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Child processes that end with us, whatever happens."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


def free_port() -> int:
    """A free TCP port on loopback."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def start(name: str, command: list[str], directory: Path, environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own (Ctrl-C does not reach it), with its output in `<name>.log`.

    The kernel kills it when the thread that started it dies, so that nothing is left even after kill -9 of the tests.
    """
    parent = os.getpid()
    with open(directory / f"{name}.log", "ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=directory,
            env=environment,
            start_new_session=True,
            # Safe: the library is loaded already, and the call takes no lock.
            preexec_fn=lambda: die_with_parent(parent),
        )


def stop(process: subprocess.Popen[bytes], patience: float = 5.0) -> None:
    """End a process we started: SIGTERM, and SIGKILL when it does not listen."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the one that started it is gone."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the kernel was told
        os._exit(1)
