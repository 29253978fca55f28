# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one table of metrics that the adaptor serves: what each is called, what it is made of, and what HPA may compare it with.

HPA divides the value by the replicas for a target `AverageValue`, which is right for totals: ten requests that wait are five for
each of two instances. A mean or a latency does not grow with the instances, so it needs `Value`: with `AverageValue` HPA would
take the mean of all instances for that of one, and scale in for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType

from .coordinator import RUNNING, WAITING

TOTAL, MEAN = "total", "mean"
TARGET_TYPE: Mapping[str, str] = MappingProxyType({TOTAL: "AverageValue", MEAN: "Value"})

# How a metric is made of the rows of the endpoints of one engine role.
SUM, MEAN_OF_ROWS, MAX, RATE, SPEED, QUANTILE, MEAN_OF_HISTOGRAM = "sum", "mean", "max", "rate", "speed", "quantile", "average"
# How instances of a mean are added up, so that it can be compared like a total.
SUM_OF_MEANS = "sum_of_means"

PREFIXES = ("vllm:", "motor:", "sglang:", "vllm_", "motor_", "sglang_")
# What is no name of a metric is looked at no further, and how much alike names have to be, from 0 to 1.
_LONGEST, _ALIKE = 100, 0.75
QUANTILES: Mapping[str, float] = MappingProxyType({"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99})


@dataclass(frozen=True)
class Metric:
    """One metric, by its name without prefix.

    `family` is what it is made of, without the engine's prefix; `also` are other names of the same, of other engines and versions.
    `how`: `sum`, `mean`, `max` of the rows now; `sum_of_means`: of the instances; `rate`: of counters over the window; `speed`: the
    sum of rows that are rates already, and where there are none the rate of `counter`; `quantile` and `average` of a histogram over
    the window.
    """

    name: str
    family: str
    how: str
    quantile: float | None
    kind: str
    unit: str
    why: str
    also: tuple[str, ...] = ()
    counter: str = ""

    @property
    def target_type(self) -> str:
        """What HPA has to compare it with: `AverageValue` or `Value`."""
        return TARGET_TYPE[self.kind]

    @property
    def families(self) -> tuple[str, ...]:
        """All families that it may be made of, the best one first."""
        return tuple(name for name in (self.family, *self.also, self.counter) if name)


def find(name: str) -> Metric | None:
    """The metric of a name, with or without the prefix (`vllm:num_requests_waiting`, `vllm_num_requests_waiting`)."""
    return METRICS.get(bare(name))


def bare(name: str) -> str:
    """A name without its prefix."""
    return next((name[len(prefix) :] for prefix in PREFIXES if name.startswith(prefix)), name)


def suggestions(name: str) -> tuple[str, ...]:
    """The metrics that are made of what this name is called: those of a histogram for its name; else those that are written alike."""
    wanted = bare(name)[:_LONGEST]
    found = tuple(metric.name for metric in METRICS.values() if wanted in metric.families or metric.name.startswith(f"{wanted}_"))
    return found or tuple(get_close_matches(wanted, METRICS, cutoff=_ALIKE))


_KV = "each endpoint tells how full its KV cache is, from 0 to 1"
# Histograms in seconds: what they measure, and what the same is called elsewhere.
_HISTOGRAMS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "time_to_first_token_seconds": ("time from a request to its first token", ()),
    # Engines have renamed it, and some have both: what they measure is the same.
    "time_per_output_token_seconds": ("time between two tokens of a request", ("inter_token_latency_seconds",)),
    "inter_token_latency_seconds": ("time between two tokens of a request", ("time_per_output_token_seconds",)),
    "e2e_request_latency_seconds": ("time from a request to its last token", ()),
    "request_queue_time_seconds": ("time that a request waits in an engine", ("queue_time_seconds",)),
    "request_prefill_time_seconds": ("time that the prefill of a request takes", ()),
}
_COUNTERS: Mapping[str, tuple[str, str]] = {
    "prompt_tokens_total": ("tokens/s", "prompt tokens per second"),
    "generation_tokens_total": ("tokens/s", "generated tokens per second"),
    "request_success_total": ("requests/s", "requests finished per second"),
    "num_preemptions_total": ("preemptions/s", "requests per second that an engine had to put aside"),
    "prefix_cache_queries_total": ("tokens/s", "tokens looked up in the prefix cache per second"),
    "prefix_cache_hits_total": ("tokens/s", "tokens found in the prefix cache per second"),
}


def _all() -> Iterator[Metric]:
    for (name, *others), why in ((WAITING, "requests that wait in engines"), (RUNNING, "requests that engines work on")):
        yield Metric(name, name, SUM, None, TOTAL, "requests", why, tuple(others))
    usage = ("gpu_cache_usage_perc", "token_usage")
    for suffix, how, kind, why in (
        ("", MEAN_OF_ROWS, MEAN, f"mean over all endpoints; {_KV}"),
        ("_max", MAX, MEAN, f"the fullest endpoint; {_KV}"),
        ("_sum", SUM_OF_MEANS, TOTAL, f"instances added up, each with the mean of its endpoints; {_KV}"),
    ):
        yield Metric(f"kv_cache_usage_perc{suffix}", "kv_cache_usage_perc", how, None, kind, "ratio", why, usage)
    for what in ("prompt", "generation"):
        name, counter = f"{what}_tokens_per_second", f"{what}_tokens_total"
        why = f"{_COUNTERS[counter][1]}, as measured between the last two collections"
        yield Metric(name, name, SPEED, None, TOTAL, "tokens/s", why, counter=counter)
    for name, (unit, why) in _COUNTERS.items():
        yield Metric(name, name, RATE, None, TOTAL, unit, f"{why}, over the window")
    for name, (why, also) in _HISTOGRAMS.items():
        for suffix, quantile in QUANTILES.items():
            words = f"{why}: {quantile:.0%} of those in the window took no longer"
            yield Metric(f"{name}_{suffix}", name, QUANTILE, quantile, MEAN, "seconds", words, also)
        yield Metric(f"{name}_mean", name, MEAN_OF_HISTOGRAM, None, MEAN, "seconds", f"{why}: mean of those in the window", also)


METRICS: Mapping[str, Metric] = MappingProxyType({metric.name: metric for metric in _all()})
