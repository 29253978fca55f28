# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server fails, is overloaded, answers late or not at all, or somebody else writes: the run gets through or says why not."""

from __future__ import annotations

import copy
import json
import threading
import time
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._cluster import retry
from tests.cluster.fault_proxy import AFTER, BEFORE, Request
from tests.functional.conftest import Driver
from tests.functional.test_modules import applied, recorded_counts, succeeded

# What passes by itself, each as settings of a fault.
PASSING: dict[str, dict[str, Any]] = {
    "500": {"status": 500},
    "503": {"status": 503},
    "429 with Retry-After": {"status": 429, "retry_after": 1},
    "connection closed before": {"drop": BEFORE},
    "answer lost": {"drop": AFTER},
}


def scaled(driver: Driver, prefill: int, decode: int) -> dict[str, Any]:
    """Scale and look at everything that has to be right afterwards."""
    result = succeeded(driver.scale(prefill=prefill, decode=decode))
    assert recorded_counts(driver) == (prefill, decode) and applied(driver)["counts"] == {"prefill": prefill, "decode": decode}
    wanted = {driver.name("prefill", index) for index in range(prefill)} | {driver.name("decode", index) for index in range(decode)}
    assert set(driver.workloads()) == wanted
    return result


@pytest.mark.parametrize("fault", PASSING)
def test_what_passes_at_any_write_is_overcome(driver: Driver, fault: str) -> None:
    succeeded(driver.deploy())
    number, counts = 0, (2, 1)
    while True:
        number += 1
        expected = driver.scale(prefill=counts[1], decode=counts[0], check_mode=True)["actions"]
        planted = driver.proxy.fault(mutating=True, nth=number, **PASSING[fault])
        result = scaled(driver, *(counts := counts[::-1]))
        driver.proxy.heal()
        assert sorted(map(str, result["actions"])) == sorted(map(str, expected))
        if planted.seen < number:
            return
        assert not succeeded(driver.scale(prefill=counts[0], decode=counts[1]))["changed"] and driver.proxy.mutating() == []


@pytest.mark.parametrize("fault", PASSING)
def test_what_passes_at_any_read_is_overcome(on_deployments: Driver, fault: str) -> None:
    driver = on_deployments
    succeeded(driver.deploy())
    number = 0
    while True:
        number += 1
        planted = driver.proxy.fault(mutating=False, watch=False, nth=number, **PASSING[fault])
        succeeded(driver.scale(prefill=2, decode=1))
        driver.proxy.heal()
        if planted.seen < number:
            return


@pytest.mark.parametrize("status", [500, 503, 429])
def test_what_does_not_pass_is_a_clear_error_and_no_other_object_is_written(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(retry, "SECONDS", 3.0)
    succeeded(driver.deploy())
    target = "/deployments$" if driver.backend == "deployments" else "/inferservicesets/"
    driver.proxy.fault(mutating=True, path=target, status=status)
    failed = driver.scale(prefill=4, decode=1)
    assert failed["status"] == status and "attempts within" in failed["msg"] and driver.namespace in failed["msg"]
    written = {path for dummy, path in driver.mutating()}
    assert written <= {"deployments", "vllm"}
    driver.proxy.heal()
    scaled(driver, 4, 1)


def test_a_conflict_is_observed_and_planned_again(driver: Driver) -> None:
    succeeded(driver.deploy())
    target = "/deployments$" if driver.backend == "deployments" else "/inferservicesets/"
    driver.proxy.fault(mutating=True, path=target, nth=1, status=409)
    scaled(driver, 4, 1)
    driver.proxy.fault(mutating=True, path="/configmaps/motor-config", nth=1, status=409)
    scaled(driver, 4, 2)


def test_a_lasting_conflict_is_a_clear_error(driver: Driver) -> None:
    succeeded(driver.deploy())
    before = applied(driver)
    driver.proxy.fault(mutating=True, path="/configmaps/motor-config", status=409)
    failed = driver.scale(prefill=3, decode=1)
    assert failed["status"] == 409 and "Somebody else changed" in failed["msg"] and failed["changed"]
    assert applied(driver) == before
    driver.proxy.heal()
    scaled(driver, 3, 1)


def test_a_config_written_meanwhile_is_not_overwritten(on_deployments: Driver) -> None:
    driver = on_deployments
    succeeded(driver.deploy())

    def somebody_else(request: Request) -> None:
        live = copy.deepcopy(driver.motor_config())
        config = json.loads(live["data"]["user_config.json"])
        config["motor_deploy_config"]["image_name"] = "somebody/else:1"
        live["data"]["user_config.json"] = json.dumps(config)
        driver.cluster.request("PUT", f"/api/v1/namespaces/{driver.namespace}/configmaps/motor-config", live)

    driver.proxy.fault(method="PUT", path="/configmaps/motor-config", nth=1, call=somebody_else)
    driver.scale(prefill=3, decode=1)
    config = json.loads(driver.motor_config()["data"]["user_config.json"])
    assert config["motor_deploy_config"]["image_name"] == "somebody/else:1"


def test_loss_of_the_lock_stops_writing(on_deployments: Driver) -> None:
    driver = on_deployments
    succeeded(driver.deploy())
    # No renewal gets through, and each creation takes longer than the lock lasts.
    driver.proxy.fault(method="PUT", path="/leases/ascend-mindie", since=2, drop=BEFORE)
    driver.proxy.fault(method="POST", path="/deployments$", delay=3.0)
    failed = driver.scale(prefill=16, decode=1)
    assert failed["reason"] == "LockLost" and "run the task again" in failed["msg"]
    # Eight were under way when the lock ran out; none of the other seven was sent, and no record was written.
    assert len([path for method, path in driver.mutating() if method == "POST"]) == 8
    assert ("PUT", "motor-config") not in driver.mutating()
    driver.proxy.heal()
    scaled(driver, 16, 1)


def test_a_second_run_says_who_holds_the_lock_since_when_and_for_what(on_deployments: Driver) -> None:
    driver = on_deployments
    succeeded(driver.deploy())
    driver.proxy.fault(method="POST", path="/deployments$", nth=1, delay=3.0)
    first = threading.Thread(target=lambda: driver.scale(prefill=3, decode=1))
    first.start()
    while not (driver.get("leases", "coordination.k8s.io/v1")["ascend-mindie"]["spec"].get("holderIdentity")):
        time.sleep(0.05)
    second = driver.scale(prefill=1, decode=1, lock_timeout=0)
    first.join()
    assert second["reason"] == "LockHeld" and "locked by" in second["msg"] and "scale since 20" in second["msg"]
    assert recorded_counts(driver) == (3, 1)
