#!/usr/bin/env bash
# Copyright (c) ascend.mindie contributors
# SPDX-License-Identifier: GPL-3.0-or-later
set_mf_store_env
exec python3 -m memfabric_hybrid.launch_ascend_mf_store
