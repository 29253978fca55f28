#!/usr/bin/env python3
# Copyright (c) ascend.mindie contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps the directory of cached blocks (nothing in this sample)."""

import signal

signal.pause()
