#!/usr/bin/env bash
# Copyright (c) ascend.mindie contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Sets what all roles need: the environment, and a copy of the user config that is a plain file.
set_common_env
mkdir -p "$CONFIG_PATH"
cp "$CONFIGMAP_PATH/user_config.json" "$CONFIG_PATH/user_config.json"
export USER_CONFIG_PATH="$CONFIG_PATH/user_config.json"
