#!/usr/bin/env bash
# Copyright (c) ascend.mindie contributors
# SPDX-License-Identifier: GPL-3.0-or-later
set_coordinator_env
exec python3 -m motor.coordinator.main
