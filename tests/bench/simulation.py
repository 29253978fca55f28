# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long it takes to simulate every failure of up to 3 of 200 servers, and how much memory; each in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from ansible_collections.ascend.mindie.plugins.module_utils._motor.capacity import Instance, Server, Shape, simulate
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_reader import Size

SERVERS, FAILURES, ROUNDS = 200, 3, 5
SECONDS, MEGABYTES = 10.0, 300.0
HEAD = """
## Simulation of failures

Every failure of 0 to 3 of 200 servers, 1,333,501 combinations, each round in a new process. All services fill their servers, so that
prefill has to give way for decode; the rule has one tier for each number of prefill instances. Memory is the peak of the process.
The load average before the first round was {load}.

| service | budget | median | fastest to slowest | memory | rounds | |
|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Case:
    """What is simulated. `running`: None lays it out by the rule."""

    servers: Sequence[Server]
    shapes: Sequence[Shape]
    running: Sequence[Instance] | None = None

    def tiers(self) -> list[Mapping[str, Size]]:
        prefill, decode = self.shapes
        return [
            {prefill.group: Size(number, prefill.pods), decode.group: Size(decode.count, decode.pods)}
            for number in range(prefill.count, 0, -1)
        ]


def _a2() -> list[Server]:
    return [Server(f"node-{index:03}", 8) for index in range(SERVERS)]


def _a3() -> list[Server]:
    return [Server(f"node-{index:03}", 16, f"super-pod-{index // 48}") for index in range(SERVERS)]


def usual() -> Case:
    """Instances of several whole A2 servers."""
    return Case(_a2(), [Shape("prefill", 52, 2, 8), Shape("decode", 24, 4, 8)])


def no_two_alike() -> Case:
    """One instance per server: no two servers are alike."""
    return Case(_a2(), [Shape("prefill", 105, 1, 8), Shape("decode", 95, 1, 8)])


def super_pods() -> Case:
    """Decode within a super pod."""
    return Case(_a3(), [Shape("prefill", 100, 1, 16, 16), Shape("decode", 25, 4, 16, 64)])


def half_servers() -> Case:
    """Prefill on halves of A3 servers, decode on whole ones within a super pod."""
    return Case(_a3(), [Shape("prefill", 66, 3, 8), Shape("decode", 25, 4, 16, 64)])


def scattered() -> Case:
    """Pods of all instances at random on the servers of five super pods; decode has to be within one when it is built anew."""
    order = random.Random(1).sample([server.name for server in _a3()], SERVERS)
    prefill, decode = Shape("prefill", 24, 3, 16), Shape("decode", 32, 4, 16, 64)
    running = []
    for shape in (decode, prefill):
        for index in range(shape.count):
            pods, order = order[: shape.pods], order[shape.pods :]
            running.append(Instance(shape.group, f"{shape.group}-{index}", tuple(pods), shape.npus_per_pod))
    return Case(_a3(), [prefill, decode], running)


CASES: Mapping[str, Callable[[], Case]] = {
    "A2: 52 prefill on 2 servers each, 24 decode on 4": usual,
    "A2: 105 prefill and 95 decode on one server each, so no two servers are alike": no_two_alike,
    "A3: 100 prefill on one server, 25 decode on 4 of one super pod": super_pods,
    "A3: 66 prefill on 3 halves of servers, 25 decode on 4 of one super pod": half_servers,
    "A3: 24 prefill on 3 servers, 32 decode on 4, all scattered at random": scattered,
}


def sample(name: str) -> tuple[float, float]:
    """Seconds and peak memory in MB of this process."""
    case = CASES[name]()
    started = time.perf_counter()
    found = simulate(case.servers, case.shapes, case.tiers(), FAILURES, running=case.running)
    seconds = time.perf_counter() - started
    if sum(level.combinations for level in found.levels) != 1_333_501 or len(found.instances) != sum(shape.count for shape in case.shapes):
        raise ValueError(f"{name}: this is not what was to be measured")
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def rows() -> Iterator[str]:
    """The section of the page, line by line."""
    yield HEAD.format(load=round(os.getloadavg()[0], 1)).rstrip("\n")
    fresh = multiprocessing.get_context("spawn")
    for name in CASES:
        with ProcessPoolExecutor(1, mp_context=fresh, max_tasks_per_child=1) as pool:
            samples = list(pool.map(sample, [name] * ROUNDS))
        seconds, memory = [second for second, dummy in samples], max(size for dummy, size in samples)
        median = statistics.median(seconds)
        kept = "ok" if median <= SECONDS and memory <= MEGABYTES else "**missed**"
        spread = f"{min(seconds):.2f} to {max(seconds):.2f} s"
        yield f"| {name} | {SECONDS:g} s, {MEGABYTES:g} MB | {median:.2f} s | {spread} | {memory:.0f} MB | {ROUNDS} | {kept} |"
