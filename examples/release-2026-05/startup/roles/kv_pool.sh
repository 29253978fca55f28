#!/usr/bin/env bash
# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
set_kv_pool_env
options=(
    --port "$KV_POOL_PORT"
    --eviction_high_watermark_ratio "$KV_POOL_EVICTION_HIGH_WATERMARK_RATIO"
    --eviction_ratio "$KV_POOL_EVICTION_RATIO"
)
exec mooncake_master "${options[@]}"
