# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A play of one task that gets a signal at one of the task's writes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster import Cluster
from tests.cluster.fault_proxy import FaultProxy, Request
from tests.support.modules import run_module
from tests.tools.environment import VENV, environment

from .child import LONGEST_SECONDS, Task

ANSIBLE_PLAYBOOK = VENV / "bin" / "ansible-playbook"
OTHER_THAN_LEASES = "^(?!.*/leases)"
# The request is held back for as long, so that the signal has reached the module when it goes on.
HELD_SECONDS = 0.3


@dataclass(frozen=True)
class Strike:
    """A signal `before` or `after` the nth write (the lock's left out)."""

    signal: signal.Signals
    nth: int
    when: str


def interrupted(kubeconfig: str, folder: Path, task: Task, strike: Strike, between: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run the task by ansible-playbook, strike at one of its writes, and as soon as ansible-playbook has ended run the task again.

    Returns whether the write came (`sprung`), how ansible-playbook ended (`code`, `said`), and the result of the task run `again`. The
    module of the first run may still work when the second one begins.
    """
    module, options = task
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars": {"ansible_python_interpreter": sys.executable},
        "tasks": [{"name": "Change the service", f"ascend.mindie.{module}": options}],
    }
    (folder / "play.yml").write_text(json.dumps([play]))
    with FaultProxy(Cluster.attached(kubeconfig, folder)) as proxy, (folder / "said").open("w") as said:
        settings = {**environment(), "K8S_AUTH_KUBECONFIG": proxy.kubeconfig, "ANSIBLE_LOCALHOST_WARNING": "false"}
        command = [str(ANSIBLE_PLAYBOOK), "-i", "localhost,", "play.yml"]
        process = subprocess.Popen(
            command, cwd=folder, env=settings, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
        )

        def hit(request: Request) -> None:
            # A terminal sends SIGINT to all processes of the foreground; AWX ends the one that it started.
            (os.killpg if strike.signal == signal.SIGINT else os.kill)(process.pid, strike.signal)
            time.sleep(HELD_SECONDS)

        planted = proxy.fault(mutating=True, path=OTHER_THAN_LEASES, nth=strike.nth, when=strike.when, call=hit)
        code = process.wait(LONGEST_SECONDS)
        seen = between()
        again = run_module(module, kubeconfig=kubeconfig, **options)
        _wait_for_silence(proxy)
        return {
            "sprung": planted.seen >= strike.nth,
            "code": code,
            "said": (folder / "said").read_text()[-2000:],
            "between": seen,
            "again": again,
        }


def _wait_for_silence(proxy: FaultProxy) -> None:
    """A module that outlives its ansible-playbook may still use the proxy: until no request has come for two seconds."""
    while proxy.requests and time.monotonic() - max(request.started for request in proxy.requests) < 2.0:
        time.sleep(0.1)
