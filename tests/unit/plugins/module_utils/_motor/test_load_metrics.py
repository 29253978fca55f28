# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of metrics: names, and what HPA may compare each with."""

from __future__ import annotations

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import load_metrics
from ansible_collections.ascend.mindie.plugins.module_utils._motor.load_metrics import METRICS, find, suggestions


@pytest.mark.parametrize("prefix", ["", "vllm:", "motor:", "sglang:", "vllm_", "motor_", "sglang_"])
def test_every_metric_is_found_with_and_without_the_prefix(prefix: str) -> None:
    assert all(find(f"{prefix}{name}") is metric for name, metric in METRICS.items())


@pytest.mark.parametrize("name", ["", "vllm:", "num_requests", "other:num_requests_waiting", "vllm:vllm:num_requests_waiting", "TIME"])
def test_what_is_no_metric_is_not_found(name: str) -> None:
    assert find(name) is None


@pytest.mark.parametrize(
    ("name", "target_type"),
    [
        ("num_requests_waiting", "AverageValue"),
        ("num_requests_running", "AverageValue"),
        ("kv_cache_usage_perc", "Value"),
        ("kv_cache_usage_perc_max", "Value"),
        ("kv_cache_usage_perc_sum", "AverageValue"),
        ("prompt_tokens_per_second", "AverageValue"),
        ("generation_tokens_per_second", "AverageValue"),
        ("request_success_total", "AverageValue"),
        ("time_to_first_token_seconds_p95", "Value"),
        ("e2e_request_latency_seconds_mean", "Value"),
    ],
)
def test_totals_are_divided_by_the_replicas_and_means_are_not(name: str, target_type: str) -> None:
    assert METRICS[name].target_type == target_type


def test_every_latency_is_a_mean_and_every_rate_a_total() -> None:
    for name, metric in METRICS.items():
        assert (metric.unit == "seconds") == (metric.how in (load_metrics.QUANTILE, load_metrics.MEAN_OF_HISTOGRAM)), name
        assert metric.unit != "seconds" or metric.kind == load_metrics.MEAN, name
        assert not metric.unit.endswith("/s") or metric.kind == load_metrics.TOTAL, name
        assert (metric.quantile is not None) == (metric.how == load_metrics.QUANTILE), name


def test_who_names_a_histogram_is_told_its_quantiles() -> None:
    found = suggestions("vllm:time_to_first_token_seconds")
    assert found == tuple(f"time_to_first_token_seconds_{end}" for end in ("p50", "p90", "p95", "p99", "mean"))
    assert suggestions("nothing") == ()


def test_who_misspells_a_metric_is_told_the_one_that_is_meant() -> None:
    assert suggestions("vllm:num_request_waiting")[0] == "num_requests_waiting"
    assert suggestions("time_to_first_token_p95")[0] == "time_to_first_token_seconds_p95"
    assert suggestions("n" * 100_000) == ()
