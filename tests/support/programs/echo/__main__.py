# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The smallest program that can be installed: it tells over HTTP what it was given."""

from __future__ import annotations

import argparse
import json
import os
import pkgutil
import signal
import threading
from pathlib import Path

from ansible_collections.ascend.mindie.plugins.module_utils._motor.ownership import MANAGER

from . import server


def main() -> int:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--settings", required=True)
    settings = json.loads(Path(parser.parse_args().settings).read_text(encoding="utf-8"))
    words = (pkgutil.get_data(__package__, "words.txt") or b"").decode()
    named = {name: os.environ[name] for name in ("POD_NAME", "POD_NAMESPACE", "POD_IP", "PROGRAM_NAME")}
    answer = {"settings": settings, "words": words.strip(), "manager": MANAGER, **named}
    running = server.start(os.environ["POD_IP"], settings["port"], answer)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    ended.wait()
    running.shutdown()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
