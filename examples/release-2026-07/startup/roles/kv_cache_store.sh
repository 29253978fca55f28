#!/usr/bin/env bash
# Copyright (c) ascend.mindie contributors
# SPDX-License-Identifier: GPL-3.0-or-later
set_kv_store_env
exec "$CONFIGMAP_PATH/kv_store_backends.$KV_STORE_BACKEND.$KV_STORE_BACKEND.sh"
