#!/usr/bin/env bash
# Copyright (c) ascend.mindie contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Everything in one pod: control programs in the background, the engines in front.
set_controller_env
python3 -m motor.controller.main --config "$USER_CONFIG_PATH" &
set_coordinator_env
python3 -m motor.coordinator.main &
set_prefill_env
exec python3 -m motor.node_manager.main
