#!/usr/bin/env bash
# Copyright (c) ascend.mindie contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# One environment per engine role.
case "$ROLE" in
    prefill) set_prefill_env ;;
    decode) set_decode_env ;;
esac
exec python3 -m motor.node_manager.main
