#!/usr/bin/env bash
# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
options=(
    --port "$KV_CACHE_STORE_PORT"
    --eviction_high_watermark_ratio "$KV_STORE_EVICTION_HIGH_WATERMARK_RATIO"
    --eviction_ratio "$KV_STORE_EVICTION_RATIO"
    --default_kv_lease_ttl "$DEFAULT_KV_LEASE_TTL"
)
exec mooncake_master "${options[@]}"
