# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python program.pyz --settings FILE [--kubeconfig FILE]`: the adaptor in a pod, or on a desk against a kubeconfig."""

from __future__ import annotations

import gc
import logging
import sys
import time
from pathlib import Path
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._cluster import program_shell
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.api import Api
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.program_shell import UNUSABLE, Shell
from ansible_collections.ascend.mindie.plugins.module_utils._motor.load import Limits

from . import metrics, server, settings
from .book import Book
from .fetch import Fetcher
from .finder import Finder
from .front import Front
from .metrics import Counters, Facts, Itself
from .scraper import Crew
from .server import Desk, Doors
from .settings import EVERYWHERE, Settings

LOG = logging.getLogger(__name__)
# Expositions make many objects and few cycles.
COLLECT_AFTER = (100_000, 50, 100)
# For so long a pod that ends is still asked: the API server hears of it a moment later.
LEAVING_SECONDS = 2.0
# For so long the API server may take to tell who may come in.
RULES_SECONDS = 5.0


def main(arguments: list[str] | None = None) -> int:
    """Run until told to stop. Returns the exit code: 0 after SIGTERM, SIGINT or SIGHUP, 2 without readable settings or a library."""
    shell = Shell.start(program_shell.parser("metrics_adaptor", __doc__, "mindie-metrics-adaptor"), arguments)
    gc.set_threshold(*COLLECT_AFTER)
    wanted = shell.settings(settings.read)
    if wanted is None:
        return UNUSABLE
    api = shell.connect()
    if isinstance(api, int):
        return api
    adaptor = Adaptor(api, wanted, shell.options.version)
    doors = adaptor.open(shell.options.address)
    LOG.info("serving the load of services in %s as %s", ", ".join(wanted.namespaces) or "all namespaces", shell.options.pod)
    try:
        shell.told.wait()
        doors.leave()
        time.sleep(LEAVING_SECONDS)
    finally:
        doors.stop()
        adaptor.stop()
    LOG.info("stopped in order")
    return 0


class Adaptor:
    """All parts of the program. Both of its pods look at every coordinator and answer: neither leads."""

    def __init__(self, api: Api, wanted: Settings, version: str) -> None:
        self._wanted, self._version = wanted, version
        self._counters = Counters()
        # What does not work is tried again soon anyway.
        self._front = Front(api.within(RULES_SECONDS).pausing(None), Path(wanted.certificate))
        self._book = Book(Limits(wanted.window, wanted.stale_after, wanted.frozen_after))
        self._finder = Finder(api, wanted.namespaces or (EVERYWHERE,))
        fetcher = Fetcher(timeout=wanted.timeout, largest=wanted.largest, verify=wanted.tls.verify, ca=wanted.tls.ca)
        self._crew = Crew(self._finder, self._book, fetcher, wanted.interval)

    def open(self, address: str) -> Doors:
        """Begin to look, and to answer. Raises OSError when the address cannot be listened on."""
        plain = server.serve_plain(address, self._wanted.http_port, metrics=self._metrics, health=self._health)
        self._crew.start()
        self._front.start()
        served = server.serve_api(address, self._wanted.port, Desk(self._front, self._book, self._counters))
        self._front.changed = served.end_connections
        return Doors(served, plain)

    def stop(self) -> None:
        """Look no more."""
        self._front.stop()
        self._crew.stop()
        self._finder.stop()

    def _health(self) -> tuple[bool, dict[str, Any]]:
        """Ready when the API server can be answered. What coordinators do is no matter of ours: HPA is told."""
        ready = self._front.ready and self._front.alive
        return ready, {"problems": sorted(self._front.problems.values()), "services_known": self._book.known}

    def _metrics(self) -> str:
        front = self._front
        itself = Itself(self._version, front.ready, front.expires, front.reloads, tuple(front.problems))
        return metrics.render(Facts(self._counters, itself, self._book.services(), self._finder.health(), time.monotonic()))


if __name__ == "__main__":
    sys.exit(main())
