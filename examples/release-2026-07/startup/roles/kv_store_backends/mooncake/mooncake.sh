#!/usr/bin/env bash
# Copyright (c) ascend.mindie contributors
# SPDX-License-Identifier: GPL-3.0-or-later
exec mooncake_master --port "$KV_CACHE_STORE_PORT"
