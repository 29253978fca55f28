#!/usr/bin/env python3
# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands where the directory of cached blocks runs in a real release: says where it would listen, and waits to be ended."""

import os
import signal

print("config store", os.environ["MMC_CONFIG_STORE_URL"], "metrics", os.environ["MMC_METRICS_URL"], flush=True)
signal.sigwait({signal.SIGTERM, signal.SIGINT})
