# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python program.pyz --settings FILE [--kubeconfig FILE]`: the watcher in a pod, or on a desk against a kubeconfig."""

from __future__ import annotations

import gc
import logging
import sys
import threading

from ansible_collections.ascend.mindie.plugins.module_utils._cluster import program_shell
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.program_shell import UNUSABLE, Shell

from . import metrics, server, settings
from .loop import Controller, Identity

LOG = logging.getLogger(__name__)
# What is cached makes few cycles and many objects: to look for cycles as often as Python does doubles the cost of reading lists.
COLLECT_AFTER = (100_000, 50, 100)


def main(arguments: list[str] | None = None) -> int:
    """Run until told to stop. Returns the exit code: 0 after SIGTERM, SIGINT or SIGHUP, 2 without readable settings or a library."""
    shell = Shell.start(program_shell.parser("rescheduling_watcher", __doc__, "mindie-watcher"), arguments, special=("repair",))
    options, told = shell.options, shell.told
    gc.set_threshold(*COLLECT_AFTER)
    wanted = shell.settings(settings.read)
    if wanted is None:
        return UNUSABLE
    identity = Identity(options.name, options.namespace, options.pod, options.version)
    api = shell.connect()
    if isinstance(api, int):
        return api
    controller = Controller(api, wanted, identity, shell.signals)
    running = server.serve(
        options.address,
        wanted.port,
        report=controller.board.report,
        metrics=lambda: metrics.render(controller.board.report(), controller.counters),
        health=controller.health,
        language=wanted.language,
    )
    LOG.info("watching %s as %s; acts: %s", ", ".join(wanted.namespaces) or "all namespaces", identity.pod, _switched_on(wanted))
    threading.Thread(target=_stop_when_told, args=(told, controller), daemon=True).start()
    try:
        controller.run()
    finally:
        running.stop()
    LOG.info("stopped in order")
    return 0


def _stop_when_told(told: threading.Event, controller: Controller) -> None:
    told.wait()
    controller.stop()


def _switched_on(wanted: settings.Settings) -> str:
    return ", ".join(act for act, on in wanted.acts.items() if on) or "none, it only observes"


if __name__ == "__main__":
    sys.exit(main())
