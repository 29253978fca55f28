#!/usr/bin/env bash
# Copyright (c) ascend.mindie contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Lets running requests end before the pod does.
exec python3 "$CONFIGMAP_PATH/prestop.py"
