#!/usr/bin/env python3
# Copyright (c) ascend.mindie contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits a moment, so that requests that run can end."""

import time

time.sleep(5)
