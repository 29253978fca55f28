#!/usr/bin/env bash
# Copyright (c) ascend.mindie contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# One environment per engine role.
case "$ROLE" in
    prefill) set_prefill_env ;;
    decode) set_decode_env ;;
    encode) set_encode_env ;;
    union) set_union_env ;;
esac
exec python3 -m motor.node_manager.main
