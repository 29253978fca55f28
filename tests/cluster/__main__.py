# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m tests.cluster build` builds the control plane; `python -m tests.cluster up` runs a cluster until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import threading

from . import build
from .cluster import Cluster


def main() -> None:
    """Parse the command line and work."""
    parser = argparse.ArgumentParser(prog="tests.cluster", description=__doc__)
    parser.add_argument("command", choices=["build", "up"])
    parser.add_argument("--a2-nodes", type=int, default=4)
    parser.add_argument("--a3-nodes", type=int, default=40)
    parser.add_argument("--cpu-nodes", type=int, default=2)
    options = parser.parse_args()
    programs = build.control_plane()
    if options.command == "build":
        return
    end = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: end.set())
    with Cluster(
        a2_nodes=options.a2_nodes, a3_nodes=options.a3_nodes, cpu_nodes=options.cpu_nodes, infer_operator=True, egress=True
    ) as cluster:
        print(f"export KUBECONFIG={cluster.kubeconfig} K8S_AUTH_KUBECONFIG={cluster.kubeconfig}")
        print(f"{programs / 'kubectl'} get nodes    # Ctrl-C stops the cluster", flush=True)
        end.wait()


if __name__ == "__main__":
    main()
