#!/usr/bin/env bash
# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# What all roles need: their environment, and a user config that is a regular file and follows the ConfigMap.
set_common_env
export USER_CONFIG_PATH="$CONFIG_PATH/user_config.json"

copy_user_config() {
    local given="$CONFIGMAP_PATH/user_config.json"
    if ! cmp -s "$given" "$USER_CONFIG_PATH"; then
        install -m 640 "$given" "$USER_CONFIG_PATH.new"
        mv "$USER_CONFIG_PATH.new" "$USER_CONFIG_PATH"
    fi
}

mkdir -p "$CONFIG_PATH"
copy_user_config
# Ends with the program of the pod, which takes the place of this shell.
while kill -0 "$$"; do
    sleep "${CONFIG_SYNC_INTERVAL:-10}"
    copy_user_config || true
done >/dev/null 2>&1 &
