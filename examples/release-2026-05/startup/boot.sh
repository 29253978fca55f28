#!/usr/bin/env bash
# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Starts what the role of this pod needs. Sourced by its container, so it must not leave the shell but through exec or exit.
set -eu
# shellcheck source=/dev/null
source "$CONFIGMAP_PATH/common.sh"
case "${ROLE:-}" in
    prefill | decode) script=engine.sh ;;
    controller | coordinator | kv_pool | kv_conductor | mf_store) script=$ROLE.sh ;;
    SINGLE_CONTAINER) script=all_combine_in_single_container.sh ;;
    *)
        echo "no script for role '${ROLE:-}'" >&2
        exit 1
        ;;
esac
# shellcheck source=/dev/null
source "$CONFIGMAP_PATH/$script"
