# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two runs at once, and runs that sleep while another one works: real processes, each behind a proxy of its own."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.cluster.fault_proxy import AFTER, FaultProxy, Request
from tests.functional.conftest import QUICK, Driver
from tests.functional.test_modules import applied, recorded_counts, succeeded
from tests.support.module_process import ModuleProcess

LOCK_SECONDS = 2
LEASE = "/leases/ascend-mindie"
BOTH_THERE_SECONDS = 30.0
SCALE = "motor_instance_scale"


@pytest.fixture
def second_proxy(cluster: Cluster) -> Iterator[FaultProxy]:
    """The other process's way to the server."""
    with FaultProxy(cluster) as running:
        yield running


def options(driver: Driver, proxy: FaultProxy, prefill: int, decode: int = 1, **more: Any) -> dict[str, Any]:
    counts = {"prefill": prefill, "decode": decode}
    return {"namespace": driver.namespace, "kubeconfig": proxy.kubeconfig, "instances": counts, **QUICK, **more}


def writes(proxy: FaultProxy) -> list[Request]:
    """What changed the service; not the Lease, which each run tries to take."""
    return [request for request in proxy.mutating() if not request.path.endswith((LEASE, "/leases"))]


def is_wholly(driver: Driver, prefill: int, decode: int = 1, *, names: set[str] | None = None) -> None:
    """The service, its config and its record say one and the same. `names`: which prefill instances, if not those from 0 on."""
    prefills = names or {driver.name("prefill", index) for index in range(prefill)}
    assert set(driver.workloads()) == prefills | {driver.name("decode", index) for index in range(decode)}
    assert recorded_counts(driver) == (prefill, decode) and applied(driver)["counts"] == {"prefill": prefill, "decode": decode}
    lease = driver.get("leases", "coordination.k8s.io/v1")["ascend-mindie"]
    assert not lease["spec"].get("holderIdentity") and "ascend.mindie/intent" not in lease["metadata"].get("annotations", {})


def race(driver: Driver, second: FaultProxy, **more: Any) -> dict[int, dict[str, Any]]:
    """4 -> 8 and 4 -> 2 in two processes whose first attempts to take the lock reach the server together. Results by wish."""
    driver.config = driver.with_config("motor_deploy_config", "p_instances_num", value=4)
    succeeded(driver.deploy())
    together = threading.Barrier(2)
    for proxy in (driver.proxy, second):
        proxy.clear()
        proxy.fault(method="PUT", path=LEASE, nth=1, call=lambda request: together.wait(BOTH_THERE_SECONDS) and None)
        # The winner is still at work when the loser looks again.
        proxy.fault(method="PUT", path="/configmaps/motor-config", delay=1.5)
    with ModuleProcess(SCALE) as first, ModuleProcess(SCALE) as other:
        first.start(**options(driver, driver.proxy, 8, **more))
        other.start(**options(driver, second, 2, **more))
        return {8: first.result(), 2: other.result()}


def test_of_two_runs_started_together_one_wins_and_the_other_says_locked_by_whom(driver: Driver, second_proxy: FaultProxy) -> None:
    results = race(driver, second_proxy, lock_timeout=0)
    (winner,) = (wish for wish, result in results.items() if not result.get("failed"))
    (loser,) = (wish for wish in results if wish != winner)
    assert results[loser]["reason"] == "LockHeld" and "locked by" in results[loser]["msg"]
    assert writes({8: driver.proxy, 2: second_proxy}[loser]) == []
    is_wholly(driver, winner)


def test_two_runs_started_together_that_may_wait_work_one_after_the_other(driver: Driver, second_proxy: FaultProxy) -> None:
    results = race(driver, second_proxy)
    for result in results.values():
        succeeded(result)
    done = {8: writes(driver.proxy), 2: writes(second_proxy)}
    earlier, later = sorted(done, key=lambda wish: done[wish][0].started)
    assert done[earlier][-1].started < done[later][0].started, "the writes of the two do not mingle"
    is_wholly(driver, later)


class Sleeper:
    """Stops a process at a request, and counts what it sends after it was thawed."""

    def __init__(self, process: ModuleProcess, proxy: FaultProxy) -> None:
        self._process, self._proxy = process, proxy
        self._asleep = threading.Event()
        self._thawed = 0.0

    def stop(self, request: Request) -> None:
        """For a fault's `call`."""
        self._process.send(signal.SIGSTOP)
        self._asleep.set()

    def oversleep(self) -> None:
        """Wait until it is stopped and its lock has run out."""
        assert self._asleep.wait(BOTH_THERE_SECONDS)
        time.sleep(LOCK_SECONDS + 1)

    def thaw(self) -> dict[str, Any]:
        """Let it go on to its end; returns its result."""
        self._thawed = time.monotonic()
        self._process.send(signal.SIGCONT)
        return self._process.result()

    def written_after(self) -> list[Request]:
        """What it changed, the Lease included, since it was thawed."""
        return [request for request in self._proxy.mutating() if request.started > self._thawed]


@contextlib.contextmanager
def asleep(driver: Driver, wish: dict[str, Any], **at: Any) -> Iterator[Sleeper]:
    """A run that is stopped at a request for longer than its lock holds."""
    driver.proxy.clear()
    with ModuleProcess(SCALE) as process:
        sleeper = Sleeper(process, driver.proxy)
        driver.proxy.fault(mutating=True, call=sleeper.stop, **at)
        process.start(**wish)
        sleeper.oversleep()
        yield sleeper


def rival(driver: Driver, proxy: FaultProxy, prefill: int) -> None:
    """Another run takes over and does all of its own wish."""
    with ModuleProcess(SCALE) as process:
        succeeded(process.start(**options(driver, proxy, prefill)).result())


@pytest.mark.parametrize("taken_over", [True, False], ids=["another run took over", "nobody took over"])
def test_a_run_that_slept_between_two_writes_sends_no_further_one(driver: Driver, second_proxy: FaultProxy, taken_over: bool) -> None:
    succeeded(driver.deploy())
    first = {"method": "DELETE|PATCH", "nth": 1, "when": AFTER}
    with asleep(driver, options(driver, driver.proxy, 1, decode=2), **first) as sleeper:
        if taken_over:
            rival(driver, second_proxy, prefill=3)
        result = sleeper.thaw()
    assert sleeper.written_after() == []
    assert result["reason"] == "LockLost" and "Nothing more was written" in result["msg"]
    if taken_over:
        is_wholly(driver, 3)
    succeeded(driver.scale(prefill=1, decode=2))
    is_wholly(driver, 1, 2)


@pytest.mark.parametrize("taken_over", [True, False], ids=["another run took over", "nobody took over"])
def test_a_run_that_slept_among_eight_writes_sends_no_further_one(
    on_deployments: Driver, second_proxy: FaultProxy, taken_over: bool
) -> None:
    driver = on_deployments
    succeeded(driver.deploy())
    fourth = {"method": "POST", "path": "/deployments$", "nth": 4}
    with asleep(driver, options(driver, driver.proxy, 14), **fourth) as sleeper:
        if taken_over:
            rival(driver, second_proxy, prefill=3)
        result = sleeper.thaw()
    assert sleeper.written_after() == []
    assert 4 <= len(writes(driver.proxy)) <= 8, "what was on the wire already is excepted"
    assert result["reason"] == "LockLost"
    if taken_over:
        is_wholly(driver, 3)
    # Any of the eight may have come through, and those are kept: lower indexes first, and the lowest free ones besides.
    every = [driver.name("prefill", index) for index in range(14)]
    there = [name for name in every if name in driver.workloads()]
    free = [name for name in every if name not in there]
    succeeded(driver.scale(prefill=5, decode=1))
    is_wholly(driver, 5, names=set([*there, *free][:5]))
