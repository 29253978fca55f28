# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the stand-in for the Ascend Operator until it is told to end (SIGTERM, SIGINT) or a scaling rule kills it (status 2).

With ``--restart-after`` it is started again like a container, after a pause.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import threading
import time

from .. import processes
from ..kube_client import KubeClient
from .operator import PANIC, Operator


def main() -> None:
    """Parse the command line and work."""
    parser = argparse.ArgumentParser(prog="ascend_operator", description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--restart-after", type=float, help="seconds from a crash to the next start; without it there is none")
    options = parser.parse_args()
    line = "%(asctime)s.%(msecs)03d %(levelname)s %(message)s"
    logging.basicConfig(level=logging.INFO, format=line, datefmt="%Y-%m-%dT%H:%M:%S")
    if options.restart_after is not None:
        _watch_over(options.restart_after)
    end = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: end.set())
    operator = Operator(KubeClient.from_kubeconfig(options.kubeconfig))
    logging.info("starting manager")
    operator.start()
    end.wait()
    operator.stop()


def _watch_over(pause: float) -> None:
    """Go on in a child, and in another one whenever a child has crashed. Children die with the parent."""
    parent = os.getpid()
    while child := os.fork():
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code != PANIC:
            raise SystemExit(abs(code))
        logging.info("crashed; starts again in %g s", pause)
        time.sleep(pause)
    processes.die_with_parent(parent)


if __name__ == "__main__":
    main()
