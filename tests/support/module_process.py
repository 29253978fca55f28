# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module in a process of its own, which can be stopped, thawed and ended.

`python -m tests.support.module_process MODULE` says `ready` once everything is imported, reads the options as one line of JSON, runs
the module and writes its result.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from typing import Any, Self

from tests.tools.environment import COLLECTIONS, ROOT, environment

READY = "ready"


class ModuleProcess:
    """Use as a context manager: `start` lets the module begin, `result` waits for its end."""

    def __init__(self, module: str) -> None:
        command = [sys.executable, "-m", "tests.support.module_process", module]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, cwd=ROOT, env=environment(), stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        assert self._process.stdout
        said = self._process.stdout.readline().strip()
        if said != READY:
            raise RuntimeError(self._process.communicate()[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def start(self, **options: Any) -> Self:
        """Let the module begin with these options."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(options) + "\n")
        self._process.stdin.flush()
        return self

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        self._process.send_signal(number)

    def result(self, timeout: float = 90.0) -> dict[str, Any]:
        """What the module says at its end; it must have come that far."""
        out, error = self._process.communicate(timeout=timeout)
        if self._process.returncode:
            raise RuntimeError(f"ended with {self._process.returncode}: {error}")
        result: dict[str, Any] = json.loads(out)
        return result


def main() -> None:
    """Import, say so, read the options, run, write the result."""
    sys.path.insert(0, str(COLLECTIONS))
    from tests.support.modules import run_module, warm

    name = sys.argv[1]
    warm(name)
    print(READY, flush=True)
    options = json.loads(sys.stdin.readline())
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(run_module(name, **options)), flush=True)


if __name__ == "__main__":
    main()
