#!/usr/bin/env bash
# Copyright (c) ascend.mindie contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Asks the program of this pod how it is: probe.sh startup|readiness|liveness [role].
exec python3 "$CONFIGMAP_PATH/probe.py" "${2:-$ROLE}" "$1"
