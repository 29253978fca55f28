# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A candidate of an election in a process of its own, which can be stopped, thawed and killed.

`python -m tests.support.candidate` reads its options as one line of JSON, contends, and then answers questions: one line of JSON each.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Self

from tests.tools.environment import COLLECTIONS, ROOT, environment

SAMPLE_SECONDS = 0.002


class Candidate:
    """Use as a context manager: it contends from the start."""

    def __init__(self, **options: Any) -> None:
        pipe = subprocess.PIPE
        command = [sys.executable, "-m", "tests.support.candidate"]
        self._process = subprocess.Popen(command, cwd=ROOT, env=environment(), stdin=pipe, stdout=pipe, text=True)
        self._say(options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._process.communicate()

    def ask(self, command: str, *arguments: str) -> Any:
        """What it answers; it may be stopped meanwhile."""
        self._say([command, *arguments])
        return self.answer()

    def answer(self) -> Any:
        """The next answer."""
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())

    def order(self, command: str, *arguments: str) -> None:
        """Say something whose answer is read later."""
        self._say([command, *arguments])

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        self._process.send_signal(number)

    def stopped(self) -> bool:
        """Whether the process stands still."""
        with open(f"/proc/{self._process.pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "T"

    def kill(self) -> None:
        """End the process without a word."""
        self._process.kill()
        self._process.wait()

    def _say(self, said: Any) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(said) + "\n")
        self._process.stdin.flush()


class _Sampler(threading.Thread):
    """Notes the times (of a clock that all processes have in common) between which the candidate says that it leads."""

    def __init__(self, leading: Callable[[], bool]) -> None:
        super().__init__(daemon=True)
        self._leading = leading
        self.terms: list[list[float]] = []

    def run(self) -> None:
        before = False
        while True:
            now = time.monotonic()
            leads = self._leading()
            if leads and not before:
                self.terms.append([now, now])
            elif leads:
                self.terms[-1][1] = now
            before = leads
            time.sleep(SAMPLE_SECONDS)


def main() -> None:
    """Contend, and answer."""
    sys.path.insert(0, str(COLLECTIONS))
    from ansible_collections.ascend.mindie.plugins.module_utils._cluster.client import connect_program
    from ansible_collections.ascend.mindie.plugins.module_utils._cluster.election import Election
    from ansible_collections.ascend.mindie.plugins.module_utils._cluster.lock import LockLost

    options = json.loads(sys.stdin.readline())
    api = connect_program(options.pop("kubeconfig"))
    election = Election(api, **options)
    sampler = _Sampler(lambda: election.leading)

    def write(name: str, check: Callable[[], None]) -> str:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": options["namespace"]}}
        try:
            api.fenced(check).create(body)
        except LockLost as error:
            return str(error)
        return "written"

    def freezing() -> Callable[[], None]:
        """A check after whose first success the process stands still until somebody thaws it."""
        stopped: list[bool] = []

        def check() -> None:
            election.check()
            if not stopped:
                stopped.append(True)
                os.kill(os.getpid(), signal.SIGSTOP)

        return check

    def note(text: str) -> str:
        try:
            election.note(text)
        except LockLost as error:
            return str(error)
        return "noted"

    fences: list[Callable[[], None]] = []
    answers: dict[str, Callable[..., Any]] = {
        "leading": lambda: election.leading,
        "leader": lambda: election.leader,
        "terms": lambda: sampler.terms,
        "write": lambda name: write(name, election.check),
        "freeze": lambda name: write(name, freezing()),
        "decide": lambda: fences.append(election.fence()),
        "act": lambda name: write(name, fences.pop()),
        "note": note,
        "noted": election.noted,
        "stop": election.stop,
    }
    election.start()
    sampler.start()
    for line in sys.stdin:
        command, *arguments = json.loads(line)
        print(json.dumps(answers[command](*arguments)), flush=True)


if __name__ == "__main__":
    main()
