# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make bench`: seconds and requests of the main verbs, with 20 ms latency in front of the API server, beside a bare ping."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.cluster import Cluster
from tests.cluster.fault_proxy import FaultProxy
from tests.tools.environment import COLLECTIONS, VENV, environment

EXAMPLES = Path(__file__).parents[2] / "examples"
LATENCY = 0.02
ROUNDS = 3


@dataclass
class Row:
    """One line of the result: seconds of each round, and the requests of the last one."""

    what: str
    seconds: list[float] = field(default_factory=list)
    requests: int = 0


class Bench:
    """Runs things with cold discovery caches through the proxy."""

    def __init__(self, proxy: FaultProxy) -> None:
        self._proxy = proxy
        self.rows: list[Row] = []

    def measure(self, what: str, prepare: Callable[[], Any], work: Callable[[], Any]) -> None:
        """Time `work` some rounds, each after `prepare` (which is not timed)."""
        row = Row(what)
        for _round in range(ROUNDS):
            prepare()
            self._proxy.clear()
            started = time.monotonic()
            work()
            row.seconds.append(time.monotonic() - started)
            row.requests = len(self._proxy.requests)
        self.rows.append(row)

    def playbook(self, task: dict[str, Any]) -> None:
        """A playbook with one task, as a process of its own."""
        with self._environment() as settings, tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": [task]}
            play["vars"] = {"ansible_python_interpreter": "{{ ansible_playbook_python }}"}
            file.write(json.dumps([play]))
            file.flush()
            _call([str(VENV / "bin" / "ansible-playbook"), "-i", "localhost,", file.name], settings)

    def module(self, name: str, options: dict[str, Any]) -> None:
        """A module as a process of its own, as Ansible would start it."""
        with self._environment() as settings, tempfile.NamedTemporaryFile("w", suffix=".json") as arguments:
            json.dump({"ANSIBLE_MODULE_ARGS": options}, arguments)
            arguments.flush()
            _call([sys.executable, "-m", f"ansible_collections.ascend.mindie.plugins.modules.{name}", arguments.name], settings)

    @contextmanager
    def _environment(self) -> Iterator[dict[str, str]]:
        with tempfile.TemporaryDirectory() as folder:
            yield {**environment(), "K8S_AUTH_KUBECONFIG": self._proxy.kubeconfig, "TMPDIR": folder, "PYTHONPATH": str(COLLECTIONS)}


def _call(command: list[str], settings: dict[str, str]) -> None:
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)


def _scale(namespace: str, prefill: int) -> dict[str, Any]:
    return {"namespace": namespace, "instances": {"prefill": prefill, "decode": 1}, "wait": False}


def _backend(bench: Bench, mode: str) -> None:
    namespace = f"bench-{mode.replace('_', '-')}"
    config = json.loads((EXAMPLES / "configs" / mode / "user_config.json").read_text())
    config["motor_deploy_config"].update(job_id=namespace, p_instances_num=1)
    release = {"release": str(EXAMPLES / "release-2026-05"), "env": str(EXAMPLES / "configs" / mode / "env.json")}
    deploy = {"user_config_content": config, **release, "node_ports": "auto", "create_namespace": True, "wait_timeout": 120}
    bench.module("motor_service", deploy)
    one, sixteen = _scale(namespace, 1), _scale(namespace, 16)
    to_one = {**one, "wait": True, "wait_timeout": 60}
    name = "motor_instance_scale"
    bench.measure(f"{mode}: scale 1 -> 16, module", lambda: bench.module(name, to_one), lambda: bench.module(name, sixteen))
    as_task = {f"ascend.mindie.{name}": sixteen}
    bench.measure(f"{mode}: scale 1 -> 16, playbook", lambda: bench.module(name, to_one), lambda: bench.playbook(as_task))
    bench.measure(f"{mode}: unchanged, playbook", lambda: None, lambda: bench.playbook(as_task))
    bench.module(name, to_one)
    bench.measure(f"{mode}: unchanged deploy, module", lambda: None, lambda: bench.module("motor_service", deploy))


def main() -> None:
    """Measure and print."""
    with Cluster(a2_nodes=0, a3_nodes=40, cpu_nodes=1, infer_operator=True) as cluster, FaultProxy(cluster) as proxy:
        proxy.latency = LATENCY
        bench = Bench(proxy)
        bench.measure("ansible.builtin.ping, playbook", lambda: None, lambda: bench.playbook({"ansible.builtin.ping": None}))
        for mode in ("multi_deployment", "infer_service_set"):
            _backend(bench, mode)
    table = Table(title=f"{LATENCY * 1000:.0f} ms latency, cold caches, {ROUNDS} rounds, {os.cpu_count()} cores", title_justify="left")
    table.add_column("what")
    for column in ("median s", "min s", "max s", "requests"):
        table.add_column(column, justify="right")
    for row in bench.rows:
        numbers = (statistics.median(row.seconds), min(row.seconds), max(row.seconds))
        table.add_row(row.what, *(f"{number:.2f}" for number in numbers), str(row.requests))
    Console().print(table)


if __name__ == "__main__":
    main()
