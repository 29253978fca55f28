# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the stand-in for the Infer Operator until it is told to end (SIGTERM, SIGINT)."""

from __future__ import annotations

import argparse
import logging
import signal
import threading

from ..kube_client import KubeClient
from .operator import Operator
from .view import Pace


def main() -> None:
    """Parse the command line and work."""
    parser = argparse.ArgumentParser(prog="infer_operator", description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--log", help="file for the log, instead of standard error")
    parser.add_argument("--flap", action="store_true", help="tear down gang-scheduled instances that come back")
    parser.add_argument("--status-delay", type=float, default=Pace.status, help="seconds (default %(default)s)")
    parser.add_argument("--start-delay", type=float, default=Pace.start, help="seconds (default %(default)s)")
    options = parser.parse_args()
    line = "%(asctime)s.%(msecs)03d %(levelname)s %(message)s"
    logging.basicConfig(filename=options.log, level=logging.INFO, format=line, datefmt="%Y-%m-%dT%H:%M:%S")
    end = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: end.set())
    operator = Operator(KubeClient.from_kubeconfig(options.kubeconfig), Pace(options.status_delay, options.start_delay), options.flap)
    logging.info("starting manager")
    operator.start()
    logging.info("workers run")
    end.wait()
    operator.stop()


if __name__ == "__main__":
    main()
