# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs playbooks and modules as processes of their own: wall time, CPU of the whole process tree, requests at the API server."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from tests.cluster.fault_proxy import FaultProxy
from tests.tools.environment import COLLECTIONS, VENV, environment

# Below the folder for temporary files the client library keeps what it discovered, so a new folder is a cold cache.
_PLAYBOOK = str(VENV / "bin" / "ansible-playbook")


@dataclass(frozen=True)
class Run:
    """One process: seconds on the clock, seconds of CPU (user and system) with its children, requests that it sent."""

    wall: float
    cpu: float
    requests: int


@dataclass(frozen=True)
class Case:
    """What is measured. `who` is ours, list, loop or ping; `what` is the work; `latency` is in milliseconds."""

    backend: str
    who: str
    what: str
    latency: int
    wait: bool = False
    process: str = "playbook"


@dataclass
class Result:
    """All runs of one case."""

    case: Case
    runs: list[Run] = field(default_factory=list)

    @property
    def wall(self) -> float:
        """Median of the seconds."""
        return median(run.wall for run in self.runs)

    @property
    def cpu(self) -> float:
        """Median of the CPU seconds."""
        return median(run.cpu for run in self.runs)

    @property
    def requests(self) -> int:
        """Median of the requests."""
        return round(median(run.requests for run in self.runs))

    @property
    def spread(self) -> tuple[float, float]:
        """The fastest and the slowest run, in seconds."""
        return min(run.wall for run in self.runs), max(run.wall for run in self.runs)


class Results:
    """Results by case, in the order of their first run."""

    def __init__(self) -> None:
        self._found: dict[Case, Result] = {}

    def add(self, case: Case, run: Run) -> None:
        """Keep one more run."""
        self._found.setdefault(case, Result(case)).runs.append(run)

    def __iter__(self) -> Iterator[Result]:
        return iter(self._found.values())

    def get(self, **wanted: Any) -> Result:
        """The one result whose case has these fields; the default of a field is that of `Case`."""
        return self._found[Case(**wanted)]

    def dump(self) -> list[dict[str, Any]]:
        """Plain data that `load` reads."""
        return [asdict(result) for result in self]

    @classmethod
    def load(cls, data: list[dict[str, Any]]) -> Results:
        """The results that `dump` gave."""
        results = cls()
        for row in data:
            for run in row["runs"]:
                results.add(Case(**row["case"]), Run(**run))
        return results


class Runner:
    """Starts processes that reach the API server through the counting proxy, each with cold caches."""

    def __init__(self, proxy: FaultProxy) -> None:
        self._proxy = proxy

    def latency(self, milliseconds: int) -> None:
        """Add this to each request from now on."""
        self._proxy.latency = milliseconds / 1000

    def playbook(self, task: dict[str, Any], variables: dict[str, Any] | None = None) -> Run:
        """A playbook with one task."""
        play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": [task]}
        play["vars"] = {"ansible_python_interpreter": "{{ ansible_playbook_python }}", **(variables or {})}
        return self._run([_PLAYBOOK, "-i", "localhost,"], [play], ".yml")

    def module(self, name: str, options: dict[str, Any]) -> Run:
        """A module of ours, without Ansible in front of it."""
        command = [sys.executable, "-m", f"ansible_collections.ascend.mindie.plugins.modules.{name}"]
        return self._run(command, {"ANSIBLE_MODULE_ARGS": options}, ".json")

    def _run(self, command: list[str], content: Any, suffix: str) -> Run:
        with _settings(self._proxy.kubeconfig) as settings:
            file = Path(settings["TMPDIR"], f"work{suffix}")
            file.write_text(json.dumps(content))
            self._proxy.clear()
            cpu, started = _cpu_of_children(), time.monotonic()
            done = subprocess.run([*command, str(file)], env=settings, capture_output=True, text=True, check=False)
            wall, used = time.monotonic() - started, _cpu_of_children() - cpu
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
        return Run(wall, used, len(self._proxy.requests))


@contextmanager
def _settings(kubeconfig: str) -> Iterator[dict[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        yield {**environment(), "K8S_AUTH_KUBECONFIG": kubeconfig, "TMPDIR": folder, "PYTHONPATH": str(COLLECTIONS)}


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
