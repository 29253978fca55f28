#!/usr/bin/env bash
# Copyright (c) ascend.mindie contributors
# SPDX-License-Identifier: GPL-3.0-or-later
set_controller_env
exec python3 -m motor.controller.main --config "$USER_CONFIG_PATH"
