# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interrupted at any write, the same task run again finishes the job."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._cluster import retry
from tests.functional.conftest import Driver
from tests.functional.test_modules import applied, recorded_counts, succeeded


@pytest.fixture(autouse=True)
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "SECONDS", 0.5)


def fail_at_each_write(driver: Driver, task: Callable[[], dict[str, Any]], undo: Callable[[], Any]) -> None:
    """Let the task fail at its first write, then (undone) at its second, and so on; each time the next run has to succeed."""
    number = 0
    while True:
        number += 1
        fault = driver.proxy.fault(mutating=True, since=number, status=500)
        interrupted = task()
        driver.proxy.heal()
        if fault.seen < number:
            succeeded(interrupted)
            return
        # A renewal of the lock that fails is tried again, so the run may have succeeded all the same.
        assert not interrupted.get("failed") or "Cannot " in interrupted["msg"] or interrupted["reason"] == "LockLost"
        finished = succeeded(task())
        assert finished["service"]["standing"] == "applied"
        again = succeeded(task())
        assert not again["changed"] and driver.proxy.mutating() == []
        undo()


def test_scaling_out_and_in_is_finished_by_the_next_run(driver: Driver) -> None:
    succeeded(driver.deploy())
    # One engine role grows while the other shrinks, so that every kind of step is in the plan.
    fail_at_each_write(driver, lambda: driver.scale(prefill=1, decode=2), lambda: succeeded(driver.scale(prefill=2, decode=1)))
    assert recorded_counts(driver) == (1, 2) and applied(driver)["counts"] == {"prefill": 1, "decode": 2}


def test_a_deployment_is_finished_by_the_next_run(on_deployments: Driver) -> None:
    fail_at_each_write(on_deployments, on_deployments.deploy, lambda: succeeded(on_deployments.remove()))


def test_storing_a_config_is_finished_by_the_next_run(on_deployments: Driver) -> None:
    driver = on_deployments
    succeeded(driver.deploy())
    before, levels = driver.config, iter(["DEBUG", "ERROR", "WARNING"] * 4)
    config = {"now": driver.with_config("motor_controller_config", "logging_config", "log_level", value=next(levels))}

    def undo() -> None:
        level = next(levels)
        config["now"] = driver.with_config("motor_controller_config", "logging_config", "log_level", value=level)

    fail_at_each_write(driver, lambda: driver.run("motor_config_baseline", user_config_content=config["now"], lock_duration=2), undo)
    assert json.loads(driver.motor_config()["data"]["user_config.json"]) != before


def test_a_removal_is_finished_by_the_next_run(on_deployments: Driver) -> None:
    driver = on_deployments
    succeeded(driver.deploy())
    for number in range(1, 20):
        fault = driver.proxy.fault(mutating=True, since=number, status=500)
        driver.remove()
        driver.proxy.heal()
        if fault.seen < number:
            break
        succeeded(driver.remove())
        assert not succeeded(driver.remove())["changed"] and driver.proxy.mutating() == []
        assert driver.get("deployments") == {} and driver.get("leases", "coordination.k8s.io/v1") == {}
        succeeded(driver.deploy())
