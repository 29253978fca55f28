#!/usr/bin/env python3
# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks a control program how it is: probe.py ROLE startup|readiness|liveness. Ends with 0 when it answers 200."""

import http.client
import json
import os
import sys

DEFAULT_PORT = 1026


def port(role: str) -> int:
    """The management port of a control role; the user config may say another."""
    with open(os.path.join(os.environ["CONFIG_PATH"], "user_config.json"), encoding="utf-8") as file:
        section = json.load(file).get(f"motor_{role}_config") or {}
    found = (section.get("api_config") or {}).get(f"{role}_api_port")
    return found if isinstance(found, int) and 1024 <= found <= 65535 else DEFAULT_PORT


def main() -> int:
    """0 when the program answers 200."""
    role, question = sys.argv[1:]
    connection = http.client.HTTPConnection(os.environ["POD_IP"], port(role), timeout=3)
    try:
        connection.request("GET", f"/{question}")
        return int(connection.getresponse().status != 200)
    except (OSError, http.client.HTTPException) as error:
        print(f"{role} does not answer: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
