# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What engines count, and the views of it that a coordinator of Motor gives. Plain data and arithmetic; `coordinator.py` serves it.

The view per endpoint (`dp`) is exact. The others are as misleading as those of the real coordinator: token rates are those of the first
endpoint, and in `full` an instance that has gone goes on counting in the means, as an idle one.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

MODEL = "sample-8b"
ENGINE_ROLES = ("encode", "prefill", "decode", "union")
_INF = float("inf")
_LONG = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0, _INF)
_SHORT = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, _INF)
_FIRST = (
    0.001,
    0.005,
    0.01,
    0.02,
    0.04,
    0.06,
    0.08,
    0.1,
    0.25,
    0.5,
    0.75,
    1.0,
    2.5,
    5.0,
    7.5,
    10.0,
    20.0,
    40.0,
    80.0,
    160.0,
    640.0,
    2560.0,
    _INF,
)
# Family of a histogram: the field of a load that tells its mean, its edges, and whether prefill engines fill it.
HISTOGRAMS = {
    "vllm:e2e_request_latency_seconds": ("e2e", _LONG, False),
    "vllm:inter_token_latency_seconds": ("tpot", _SHORT, False),
    "vllm:request_prefill_time_seconds": ("prefill", _LONG, True),
    "vllm:request_queue_time_seconds": ("queue", _LONG, True),
    "vllm:time_per_output_token_seconds": ("tpot", _SHORT, False),
    "vllm:time_to_first_token_seconds": ("ttft", _FIRST, True),
}
GAUGES = ("vllm:num_requests_running", "vllm:num_requests_waiting")
MEANS = ("vllm:kv_cache_usage_perc",)
COUNTERS = ("vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:request_success_total")
RATES = {
    "motor:prompt_tokens_per_second": "vllm:prompt_tokens_total",
    "motor:generation_tokens_per_second": "vllm:generation_tokens_total",
}
# Latencies of requests that finish one after the other, as shares of the mean.
_SPREAD = (0.6, 0.8, 1.0, 1.2, 1.4)
# Labels that each view keeps, in the order in which it writes them.
VIEWS = {
    "dp": ("dp_rank", "role", "instance_id", "pod_ip"),
    "instance": ("instance_id", "role"),
    "node": ("pod_ip", "role"),
    "role": ("role",),
    "full": (),
}

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Load:
    """What engines do. `waiting` and `running` are requests, `kv` is a share of the cache, `finished` are requests per second with so many
    tokens each, and the rest are mean latencies in seconds.
    """

    waiting: float = 0.0
    running: float = 0.0
    kv: float = 0.0
    finished: float = 0.0
    prompt_tokens: float = 1000.0
    generation_tokens: float = 200.0
    ttft: float = 0.4
    tpot: float = 0.04
    e2e: float = 8.0
    queue: float = 0.15
    prefill: float = 0.3

    def part(self, index: int, of: int) -> Load:
        """What one of so many endpoints has of it: whole requests, the first ones more when it does not divide evenly."""
        shares = {name: _share(getattr(self, name), index, of) for name in ("waiting", "running")}
        return Load(**{**self.__dict__, **shares, "finished": self.finished / of})


def _share(total: float, index: int, of: int) -> float:
    whole, rest = divmod(total, of)
    return whole + max(0.0, min(1.0, rest - index))


@dataclass(frozen=True)
class Endpoint:
    """One engine endpoint: an instance has one per data-parallel rank, on one pod or several."""

    engine_role: str
    instance: str
    pod: str
    pod_ip: str
    rank: int = 0


@dataclass
class Engine:
    """What one endpoint has counted since it started. `values` are those of the last collection in which it took part."""

    endpoint: Endpoint
    counters: dict[str, float] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0.0))
    buckets: dict[str, list[int]] = field(
        default_factory=lambda: {name: [0] * len(edges) for name, (*dummy, edges, of_prefill) in HISTOGRAMS.items()}
    )
    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(HISTOGRAMS, 0.0))
    values: dict[str, float] = field(default_factory=dict)
    _due: float = 0.0
    _count: int = 0
    _before: dict[str, float] | None = None

    def advance(self, seconds: float, load: Load) -> None:
        """Work for so long under a load, and be collected."""
        self._due += seconds * load.finished
        done, self._due = int(self._due), self._due % 1
        for dummy in range(done):
            self._finish(load)
        own = {"vllm:num_requests_running": load.running, "vllm:num_requests_waiting": load.waiting, "vllm:kv_cache_usage_perc": load.kv}
        rates = {}
        for rate, counter in RATES.items():
            known = self._before is not None and seconds > 0
            rates[rate] = (self.counters[counter] - (self._before or {})[counter]) / seconds if known else 0.0
        self._before = dict(self.counters)
        self.values = {**rates, **own, **self.counters}

    def _finish(self, load: Load) -> None:
        prefill = self.endpoint.engine_role == "prefill"
        self.counters["vllm:prompt_tokens_total"] += load.prompt_tokens
        self.counters["vllm:generation_tokens_total"] += 1.0 if prefill else load.generation_tokens
        self.counters["vllm:request_success_total"] += 1.0
        share = _SPREAD[self._count % len(_SPREAD)]
        self._count += 1
        for name, (source, edges, of_prefill) in HISTOGRAMS.items():
            if of_prefill or not prefill:
                seconds = getattr(load, source) * share
                self.buckets[name][bisect.bisect_left(edges, seconds)] += 1
                self.sums[name] += seconds

    def restart(self) -> None:
        """Its process has started again: everything counts from zero."""
        fresh = Engine(self.endpoint)
        self.counters, self.buckets, self.sums, self._before = fresh.counters, fresh.buckets, fresh.sums, None


@dataclass(frozen=True)
class Shown:
    """One endpoint as a collection has found it."""

    labels: Mapping[str, str]
    values: Mapping[str, float]
    buckets: Mapping[str, Sequence[int]]
    sums: Mapping[str, float]


def shown(engine: Engine, instance_id: int) -> Shown:
    """An engine, held fast."""
    endpoint = engine.endpoint
    labels = {
        "dp_rank": str(endpoint.rank),
        "role": endpoint.engine_role,
        "instance_id": str(instance_id),
        "pod_ip": endpoint.pod_ip,
    }
    buckets = {name: list(itertools.accumulate(counts)) for name, counts in engine.buckets.items()}
    return Shown(labels, dict(engine.values), buckets, dict(engine.sums))


def write(rows: Sequence[Shown], view: str, engine_role: str = "", departed: int = 0) -> str:
    """A view of a collection. Nothing collected is an empty text; `departed` instances dilute the means of `full`."""
    rows = [row for row in rows if view != "role" or engine_role in ("", row.labels["role"])]
    if not rows:
        return ""
    groups: dict[Labels, list[Shown]] = {}
    for row in rows:
        groups.setdefault(tuple((name, row.labels[name]) for name in VIEWS[view]), []).append(row)
    diluted = departed if view == "full" else 0
    lines = [line for family in (*RATES, *MEANS, *GAUGES, *COUNTERS) for line in _family(family, groups, diluted)]
    lines += [line for family in HISTOGRAMS for line in _histogram(family, groups)]
    if view == "full":
        lines += _workers(rows)
    return "\n".join(lines)


def _family(name: str, groups: Mapping[Labels, Sequence[Shown]], departed: int) -> Iterable[str]:
    yield from _head(name, "counter" if name in COUNTERS else "gauge")
    for labels, members in groups.items():
        values = [row.values[name] for row in members]
        if name in RATES:
            value = values[0]
        elif name in MEANS:
            value = sum(values) / (len(values) + departed)
        else:
            value = sum(values)
        more = () if name in RATES else (("model_name", MODEL),)
        yield _line(name, (*labels, *more), value)


def _histogram(name: str, groups: Mapping[Labels, Sequence[Shown]]) -> Iterable[str]:
    yield from _head(name, "histogram")
    edges = HISTOGRAMS[name][1]
    # The order of the labels' texts, not that of their numbers.
    order = sorted(range(len(edges)), key=lambda index: _edge(edges[index]))
    for labels, members in groups.items():
        counts = [sum(row.buckets[name][index] for row in members) for index in range(len(edges))]
        for index in order:
            yield _line(f"{name}_bucket", (*labels, ("le", _edge(edges[index])), ("model_name", MODEL)), counts[index])
        yield _line(f"{name}_count", (*labels, ("model_name", MODEL)), counts[-1])
        yield _line(f"{name}_sum", (*labels, ("model_name", MODEL)), sum(row.sums[name] for row in members))


def _workers(rows: Iterable[Shown]) -> Iterable[str]:
    seen = {(row.labels["role"], row.labels["instance_id"]) for row in rows}
    for engine_role in ("prefill", "decode"):
        name = f"motor:active_{engine_role}_workers"
        yield from _head(name, "gauge")
        yield f"{name} {sum(role == engine_role for role, dummy in seen)}"


def _head(name: str, kind: str) -> tuple[str, str]:
    return f"# HELP {name} What engines tell of {name}.", f"# TYPE {name} {kind}"


def _line(name: str, labels: Iterable[tuple[str, str]], value: float) -> str:
    found = ",".join(f'{label}="{text}"' for label, text in labels)
    return f"{name}{{{found}}} {float(value)!r}" if found else f"{name} {float(value)!r}"


def _edge(edge: float) -> str:
    return "+Inf" if edge == _INF else repr(edge)
