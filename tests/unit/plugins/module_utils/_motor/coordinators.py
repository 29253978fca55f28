# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts as a coordinator writes them for `type=dp`, and scrapes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ansible_collections.ascend.mindie.plugins.module_utils._motor.load import NoValue, Scrape
from ansible_collections.ascend.mindie.plugins.module_utils._motor.load_window import Sheets

BOUNDS = (0.1, 0.5, 1.0)
TTFT = "vllm:time_to_first_token_seconds"


@dataclass(frozen=True)
class Engine:
    """What one engine endpoint tells. `took` are the times to the first token of all requests so far."""

    role: str = "prefill"
    instance: str = "1"
    rank: str = "0"
    pod_ip: str = "10.0.0.1"
    numbers: Mapping[str, float | str] = field(default_factory=dict)
    took: tuple[float, ...] | None = None

    def lines(self) -> Iterable[str]:
        labels = f'dp_rank="{self.rank}",role="{self.role}",instance_id="{self.instance}",pod_ip="{self.pod_ip}"'
        for name, value in self.numbers.items():
            yield f'{name}{{{labels},model_name="m"}} {value}'
        if self.took is not None:
            for bound in BOUNDS:
                yield f'{TTFT}_bucket{{{labels},le="{bound}",model_name="m"}} {sum(one <= bound for one in self.took)}.0'
            yield f'{TTFT}_bucket{{{labels},le="+Inf",model_name="m"}} {len(self.took)}.0'
            yield f'{TTFT}_sum{{{labels},model_name="m"}} {sum(self.took)}'
            yield f'{TTFT}_count{{{labels},model_name="m"}} {len(self.took)}.0'


def text(*engines: Engine) -> str:
    """The answer of a coordinator."""
    return "\n".join(line for engine in engines for line in engine.lines())


def busy(
    instance: str, *, waiting: float | str = 0, running: float | str = 1, tokens: float = 0, role: str = "prefill", **rest: float
) -> Engine:
    """An engine that is named after its number, with the usual numbers. Two ranks are two engines of the same instance: "1.1" """
    number, dummy, rank = instance.partition(".")
    numbers = {"vllm:num_requests_waiting": waiting, "vllm:num_requests_running": running, "vllm:prompt_tokens_total": tokens}
    return Engine(role, number, rank or "0", f"10.0.0.{number}", {**numbers, **{f"vllm:{name}": value for name, value in rest.items()}})


def scrape(at: float, *engines: Engine, routable: Mapping[str, int] | None = None) -> Scrape:
    """A look at a coordinator."""
    return Scrape(at, Sheets().make(text(*engines)), routable=routable)


def failed(at: float, reason: str = "Unreachable") -> Scrape:
    """A look without an answer."""
    return Scrape(at, None, NoValue(reason, "no answer"))
