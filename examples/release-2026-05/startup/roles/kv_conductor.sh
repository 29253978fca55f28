#!/usr/bin/env bash
# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
set_kv_conductor_env
export MOONCAKE_CONFIG_PATH="$CONFIG_PATH/mooncake.json"
python3 "$CONFIGMAP_PATH/mooncake_config.py" >"$MOONCAKE_CONFIG_PATH"
exec mooncake_conductor
