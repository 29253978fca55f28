#!/usr/bin/env python3
# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints the rank table of this pod's NPUs. A sample has no NPUs, so the table is empty."""

import json
import sys

json.dump({"status": "completed", "version": "1.0", "server_count": "0", "server_list": []}, sys.stdout)
