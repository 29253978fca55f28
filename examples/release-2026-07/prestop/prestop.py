#!/usr/bin/env python3
# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks the node manager of this pod to take no more requests, and gives those that run a moment to end."""

import http.client
import os
import sys
import time

PORT = 1026
SECONDS = 10  # less than the pod's grace period

connection = http.client.HTTPConnection(os.environ["POD_IP"], PORT, timeout=3)
try:
    connection.request("POST", "/node-manager/pause")
    connection.getresponse().read()
except (OSError, http.client.HTTPException) as error:
    sys.exit(f"the node manager does not answer: {error}")
time.sleep(SECONDS)
