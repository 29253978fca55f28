#!/usr/bin/env python3
# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints the configuration of Mooncake, which is a section of the user config."""

import json
import os
import sys

with open(os.environ["USER_CONFIG_PATH"], encoding="utf-8") as file:
    json.dump(json.load(file).get("kv_cache_store_config") or {}, sys.stdout)
