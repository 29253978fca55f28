# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m tests.cluster build` builds the control plane; `python -m tests.cluster up` runs a cluster until Ctrl-C.

`python -m tests.cluster up --detach --state FILE` runs it in the background until `python -m tests.cluster down --state FILE`.
"""

from __future__ import annotations

import argparse
import signal
import threading
from pathlib import Path

from . import build, detached
from .cluster import Cluster


def main() -> None:
    """Parse the command line and work."""
    parser = argparse.ArgumentParser(prog="tests.cluster", description=__doc__)
    parser.add_argument("command", choices=["build", "up", "down"])
    parser.add_argument("--detach", action="store_true", help="run the cluster in the background")
    parser.add_argument("--state", type=Path, help="file that says which process runs the cluster")
    parser.add_argument("--a2-nodes", type=int, default=4)
    parser.add_argument("--a3-nodes", type=int, default=40)
    parser.add_argument("--cpu-nodes", type=int, default=2)
    parser.add_argument(
        "--ascend-operator", action=argparse.BooleanOptionalAction, default=True, help="AscendJobs and gang scheduling, too"
    )
    options = parser.parse_args()
    if options.state is None and (options.detach or options.command == "down"):
        parser.error("--state FILE is needed")
    if options.command == "down":
        detached.down(options.state.resolve())
        return
    programs = build.control_plane()
    if options.command == "build":
        return
    if options.detach:
        numbers = [f"--{name}-nodes={getattr(options, f'{name}_nodes')}" for name in ("a2", "a3", "cpu")]
        operator = "--ascend-operator" if options.ascend_operator else "--no-ascend-operator"
        print(detached.up(options.state.resolve(), [*numbers, operator]))
        return
    _run(options, programs)


def _run(options: argparse.Namespace, programs: Path) -> None:
    """Run a cluster until a signal comes."""
    end = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: end.set())
    counts = {"a2_nodes": options.a2_nodes, "a3_nodes": options.a3_nodes, "cpu_nodes": options.cpu_nodes}
    with Cluster(**counts, infer_operator=True, ascend_operator=options.ascend_operator, restart_after=10, egress=True) as cluster:
        print(f"export KUBECONFIG={cluster.kubeconfig} K8S_AUTH_KUBECONFIG={cluster.kubeconfig}")
        print(f"{programs / 'kubectl'} get nodes    # Ctrl-C stops the cluster", flush=True)
        if options.state:
            detached.record(options.state, cluster.kubeconfig)
        end.wait()


if __name__ == "__main__":
    main()
