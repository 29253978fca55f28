#!/usr/bin/env bash
# Copyright (c) ascend.mindie contributors
# SPDX-License-Identifier: GPL-3.0-or-later
exec python3 "$CONFIGMAP_PATH/kv_store_backends.memcache.memcache_meta_service.py"
