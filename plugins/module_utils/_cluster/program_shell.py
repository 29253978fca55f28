# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every program is around its work: arguments, a log of JSON lines, the way to the API server, and an end in order."""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from .._motor.errors import MotorError
from .api import Api
from .client import connect_program
from .signals import ORDERLY, Signals

LOG = logging.getLogger(__name__)
PAUSE_SECONDS = 5.0
# Exit code without readable settings or a library.
UNUSABLE = 2


def rfc3339(seconds: float) -> str:
    """Seconds since the epoch as `2026-11-30T15:00:00Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


class JsonLines(logging.Formatter):
    """One JSON object per line: `at`, `level`, `message`, and what a record has of the attributes in `special`."""

    def __init__(self, special: tuple[str, ...] = ()) -> None:
        super().__init__()
        self._special = special

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {"at": rfc3339(record.created), "level": record.levelname.lower(), "message": record.getMessage()}
        line.update({name: found for name in self._special if (found := getattr(record, name, None))})
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


@dataclass(frozen=True)
class Shell:
    """A program as it was started. `signals` remembers a signal that ends it; `told` is set then."""

    options: argparse.Namespace
    signals: Signals
    told: threading.Event

    @classmethod
    def start(cls, parser: argparse.ArgumentParser, arguments: list[str] | None, *, special: tuple[str, ...] = ()) -> Shell:
        """Read the arguments, log to standard output, and heed the signals that end programs."""
        shell = cls(parser.parse_args(arguments), Signals(), threading.Event())
        _log_to_stdout(special)

        def receive(number: int, dummy: FrameType | None) -> None:
            shell.signals.receive(number)
            shell.told.set()

        for number in ORDERLY:
            signal.signal(number, receive)
        return shell

    def settings(self, read: Callable[..., Any]) -> Any:
        """The settings as `read(text, source=...)` makes them; None when they cannot be read, which the log says."""
        source = self.options.settings
        try:
            return read(Path(source).read_text(encoding="utf-8"), source=source)
        except (OSError, UnicodeDecodeError, MotorError) as error:
            LOG.error("cannot read the settings: %s", error)
            return None

    def connect(self) -> Api | int:
        """The verbs of the API server, however long it takes to reach it; an exit code when told to stop before, or without the library."""
        options = self.options
        while not self.told.is_set():
            try:
                return connect_program(options.kubeconfig, f"{options.name}/{options.pod}")
            except MotorError as error:
                LOG.warning("cannot connect yet: %s", error)
                self.told.wait(PAUSE_SECONDS)
            except ImportError as error:
                LOG.error("cannot run: %s; this Python (that of the image, in a pod) needs the library kubernetes >= 26.1", error)
                return UNUSABLE
        return 0


def parser(program: str, description: str | None, usual_name: str) -> argparse.ArgumentParser:
    """The arguments of all programs. In a pod the environment has what they are."""
    found = argparse.ArgumentParser(prog=program, description=description)
    found.add_argument("--settings", required=True, help="JSON file with the settings")
    found.add_argument("--kubeconfig", help="connect with this file; in a pod its service account is used")
    environment: Mapping[str, str] = os.environ
    address = environment.get("POD_IP", "127.0.0.1")
    found.add_argument("--address", default=address, help="address to listen on (default: POD_IP, else 127.0.0.1)")
    found.add_argument("--name", default=environment.get("PROGRAM_NAME", usual_name), help="name of the program and of its Lease")
    found.add_argument("--namespace", default=environment.get("POD_NAMESPACE", "default"), help="namespace that it lives in")
    found.add_argument("--pod", default=environment.get("POD_NAME", socket.gethostname()), help="name of this replica")
    found.add_argument("--version", default=environment.get("PROGRAM_VERSION") or _version(), help="version to show")
    return found


def _version() -> str:
    """As who installs it says it: how the checksum of the archive begins. Empty for a program that runs from a folder."""
    archive = Path(sys.argv[0])
    return hashlib.sha256(archive.read_bytes()).hexdigest()[:12] if zipfile.is_zipfile(archive) else ""


def _log_to_stdout(special: tuple[str, ...]) -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what is logged may hold what is no text
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonLines(special))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
