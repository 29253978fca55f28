#!/usr/bin/env python3
# Copyright (c) ascend.mindie contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints the configuration of mooncake (defaults in this sample)."""

print("{}")
