#!/usr/bin/env bash
# Copyright (c) ascend.mindie contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Chooses the program of this pod by its role.
set -eu
source "$CONFIGMAP_PATH/common.sh"
case "${ROLE:-}" in
    prefill | decode | union | encode) script=engine.sh ;;
    SINGLE_CONTAINER) script=all_combine_in_single_container.sh ;;
    controller | coordinator | kv_pool | kv_conductor | mf_store) script=${ROLE}.sh ;;
    *)
        echo "no program for role ${ROLE:-}" >&2
        exit 1
        ;;
esac
source "$CONFIGMAP_PATH/$script"
