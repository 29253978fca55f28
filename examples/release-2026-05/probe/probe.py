#!/usr/bin/env python3
# Copyright (c) ascend.mindie contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks a control program how it is; ends with 0 when it answers 200."""

import os
import sys
import urllib.request

with urllib.request.urlopen(f"http://{os.environ['POD_IP']}:1026/{sys.argv[2]}", timeout=3) as answer:
    sys.exit(answer.status != 200)
