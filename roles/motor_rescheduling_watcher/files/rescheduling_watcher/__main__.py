# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python program.pyz --settings FILE [--kubeconfig FILE]`: the watcher in a pod, or on a desk against a kubeconfig."""

from __future__ import annotations

import argparse
import gc
import hashlib
import io
import json
import logging
import os
import signal
import socket
import sys
import threading
import zipfile
from pathlib import Path
from types import FrameType

from ansible_collections.ascend.mindie.plugins.module_utils._cluster.api import Api
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.client import connect_program
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.signals import ORDERLY, Signals
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import MotorError

from . import metrics, server, settings
from .clock import rfc3339
from .loop import Controller, Identity

LOG = logging.getLogger(__name__)
PAUSE_SECONDS = 5.0
# What is cached makes few cycles and many objects: to look for cycles as often as Python does doubles the cost of reading lists.
COLLECT_AFTER = (100_000, 50, 100)


class JsonLines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """`at`, `level`, `message`, and what is special about this one."""
        line = {"at": rfc3339(record.created), "level": record.levelname.lower(), "message": record.getMessage()}
        repair = getattr(record, "repair", None)
        if repair:
            line["repair"] = repair
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def main(arguments: list[str] | None = None) -> int:
    """Run until told to stop. Returns the exit code: 0 after SIGTERM, SIGINT or SIGHUP, 2 without readable settings or a library."""
    options = _options(arguments)
    _log_to_stdout()
    gc.set_threshold(*COLLECT_AFTER)
    try:
        wanted = settings.read(Path(options.settings).read_text(encoding="utf-8"), source=options.settings)
    except (OSError, UnicodeDecodeError, MotorError) as error:
        LOG.error("cannot read the settings: %s", error)
        return 2
    signals, told = Signals(), threading.Event()

    def receive(number: int, dummy: FrameType | None) -> None:
        signals.receive(number)
        told.set()

    for number in ORDERLY:
        signal.signal(number, receive)
    identity = Identity(options.name, options.namespace, options.pod, options.version)
    try:
        api = _connect(options, told)
    except ImportError as error:
        LOG.error("cannot run: %s; this Python (that of the image, in a pod) needs the library kubernetes >= 26.1", error)
        return 2
    if api is None:
        return 0
    controller = Controller(api, wanted, identity, signals)
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


def _connect(options: argparse.Namespace, told: threading.Event) -> Api | None:
    """The verbs of the API server, however long it takes to reach it; None when told to stop before."""
    while not told.is_set():
        try:
            return connect_program(options.kubeconfig, f"{options.name}/{options.pod}")
        except MotorError as error:
            LOG.warning("cannot connect yet: %s", error)
            told.wait(PAUSE_SECONDS)
    return None


def _stop_when_told(told: threading.Event, controller: Controller) -> None:
    told.wait()
    controller.stop()


def _switched_on(wanted: settings.Settings) -> str:
    return ", ".join(act for act, on in wanted.acts.items() if on) or "none, it only observes"


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="rescheduling_watcher", description=__doc__)
    parser.add_argument("--settings", required=True, help="JSON file with the settings")
    parser.add_argument("--kubeconfig", help="connect with this file; in a pod its service account is used")
    parser.add_argument(
        "--address", default=os.environ.get("POD_IP", "127.0.0.1"), help="address to listen on (default: POD_IP, else 127.0.0.1)"
    )
    parser.add_argument("--name", default=os.environ.get("PROGRAM_NAME", "mindie-watcher"), help="name of the program and of its Lease")
    parser.add_argument("--namespace", default=os.environ.get("POD_NAMESPACE", "default"), help="namespace of the Lease")
    parser.add_argument("--pod", default=os.environ.get("POD_NAME", socket.gethostname()), help="name of this replica")
    parser.add_argument("--version", default=os.environ.get("PROGRAM_VERSION") or _version(), help="version to show")
    return parser.parse_args(arguments)


def _version() -> str:
    """As who installs it says it: how the checksum of the archive begins. Empty for a program that runs from a folder."""
    archive = Path(sys.argv[0])
    return hashlib.sha256(archive.read_bytes()).hexdigest()[:12] if zipfile.is_zipfile(archive) else ""


def _log_to_stdout() -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what is logged may hold what is no text
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)


if __name__ == "__main__":
    sys.exit(main())
