# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Speed is designed in: requests are counted at the API server."""

from __future__ import annotations

import pytest

from tests.functional.conftest import Driver
from tests.functional.test_modules import succeeded


def spent(driver: Driver) -> int:
    """Requests without those that come only with time: renewals of the lock (it is taken and given back once), and Events."""
    leases = sum(request.mutating and "/leases" in request.path for request in driver.proxy.requests)
    events = sum(request.mutating and "/events" in request.path for request in driver.proxy.requests)
    return len(driver.proxy.requests) - max(0, leases - 2) - events


def for_a_long_wait(driver: Driver) -> int:
    """Requests that come only after ten seconds of waiting, as on a slow machine: Events, and reading why pods are not made."""
    first = next(request.started for request in driver.proxy.requests if request.watch)
    reads = ("/events", "/deployments", "/statefulsets", "/pods", "/instancesets")
    late = (request for request in driver.proxy.requests if request.started > first + 10 and not request.watch)
    return sum(request.path.endswith(reads) for request in late)


def test_scaling_deployments_from_1_to_16(on_deployments: Driver) -> None:
    driver = on_deployments
    driver.config = driver.with_config("motor_deploy_config", "p_instances_num", value=1)
    succeeded(driver.deploy())
    succeeded(driver.scale(prefill=16, decode=1, wait=False))
    assert spent(driver) <= 15 + 12
    succeeded(driver.scale(prefill=16, decode=1))
    assert len(driver.proxy.requests) <= 9 and driver.proxy.mutating() == []


@pytest.mark.parametrize(("prefill", "decode"), [(4, 2), (1, 1), (1, 2), (16, 16)])
def test_any_change_of_counts_of_an_infer_service_set(on_set: Driver, prefill: int, decode: int) -> None:
    driver = on_set
    succeeded(driver.deploy())
    succeeded(driver.scale(prefill=prefill, decode=decode, wait=False))
    assert spent(driver) <= 14
    succeeded(driver.scale(prefill=prefill, decode=decode))
    assert len(driver.proxy.requests) <= 9 and driver.proxy.mutating() == []


def test_deploying_16_prefill_and_16_decode_instances(driver: Driver) -> None:
    driver.config["motor_deploy_config"].update(p_instances_num=16, d_instances_num=16)
    result = succeeded(driver.deploy(wait_timeout=120))
    objects = sum(action["verb"] == "create" for action in result["actions"])
    assert spent(driver) <= objects + 20 + 4
    assert not succeeded(driver.deploy())["changed"]
    assert len(driver.proxy.requests) <= 14 and driver.proxy.mutating() == []
