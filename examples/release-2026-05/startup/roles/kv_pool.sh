#!/usr/bin/env bash
# Copyright (c) ascend.mindie contributors
# SPDX-License-Identifier: GPL-3.0-or-later
set_kv_pool_env
exec mooncake_master --port "$KV_POOL_PORT"
