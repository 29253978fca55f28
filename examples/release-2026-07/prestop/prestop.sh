#!/usr/bin/env bash
# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Before an engine pod ends: let the requests that it has run to their end.
exec python3 "$CONFIGMAP_PATH/prestop.py"
