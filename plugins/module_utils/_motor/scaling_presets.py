# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Presets: the metrics that fit an engine role, with targets where one fits most services.

HPA takes the largest count that any of the metrics asks for, so the requests that wait are in every preset: they tell of an overload
whatever else is measured. How many tokens per second an instance can do depends on model and NPUs, so that these have no target here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

# Metrics by name; None: the user has to say what one instance can do.
Targets: TypeAlias = "Mapping[str, str | None]"

QUEUE, CACHE, LATENCY, THROUGHPUT = "queue", "cache", "latency", "throughput"

_WAITING = {"num_requests_waiting": "5"}
# Added up over the instances, so that it fits instances of several pods, too.
_CACHE = {"kv_cache_usage_perc_sum": "0.8"}
_FIRST_TOKEN = {"time_to_first_token_seconds_p95": "0.5"}
_TOKENS = {"time_per_output_token_seconds_p95": "0.05", "e2e_request_latency_seconds_p95": "2"}

PRESETS: Mapping[str, Mapping[str, Targets]] = MappingProxyType(
    {
        QUEUE: {"prefill": _WAITING, "decode": _WAITING, "union": _WAITING},
        CACHE: {"prefill": {**_WAITING, **_CACHE}, "decode": {**_WAITING, **_CACHE}, "union": {**_WAITING, **_CACHE}},
        LATENCY: {
            "prefill": {**_WAITING, **_FIRST_TOKEN},
            "decode": {**_WAITING, **_TOKENS},
            "union": {**_WAITING, **_FIRST_TOKEN, **_TOKENS},
        },
        THROUGHPUT: {
            "prefill": {**_WAITING, "prompt_tokens_per_second": None},
            "decode": {**_WAITING, "generation_tokens_per_second": None},
            "union": {**_WAITING, "generation_tokens_per_second": None},
        },
    }
)
