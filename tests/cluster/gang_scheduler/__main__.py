# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the stand-in for Volcano's scheduler until it is told to end (SIGTERM, SIGINT)."""

from __future__ import annotations

import argparse
import logging
import signal
import threading

from ..kube_client import KubeClient
from .scheduler import Scheduler


def main() -> None:
    """Parse the command line and work."""
    parser = argparse.ArgumentParser(prog="gang_scheduler", description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--period", type=float, default=1.0, help="seconds between sessions (default %(default)s)")
    parser.add_argument("--enqueue", choices=["fitting", "always"], default="fitting", help="which PodGroups are let in")
    parser.add_argument("--reschedule", action="store_true", help="delete the pods of instances that a fault has hit")
    options = parser.parse_args()
    line = "%(asctime)s.%(msecs)03d %(levelname)s %(message)s"
    logging.basicConfig(level=logging.INFO, format=line, datefmt="%Y-%m-%dT%H:%M:%S")
    end = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: end.set())
    client = KubeClient.from_kubeconfig(options.kubeconfig)
    scheduler = Scheduler(client, options.period, options.enqueue == "always", options.reschedule)
    scheduler.start()
    logging.info("sessions every %g s", options.period)
    end.wait()
    scheduler.stop()


if __name__ == "__main__":
    main()
