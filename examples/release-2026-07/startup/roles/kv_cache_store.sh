#!/usr/bin/env bash
# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# The backend of the KV store, which the user config chooses.
set_kv_store_env
exec bash -eu "$CONFIGMAP_PATH/kv_store_backends.$KV_STORE_BACKEND.$KV_STORE_BACKEND.sh"
