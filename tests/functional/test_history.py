# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The history of a service in the cluster: kept, bounded, free of secrets, never in the way."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.functional.conftest import Driver
from tests.functional.test_drift import pods_are
from tests.functional.test_modules import applied, succeeded

SECRET = "correct horse"


def kept(driver: Driver) -> dict[int, dict[str, Any]]:
    """Our ControllerRevisions by number; a StatefulSet has some of its own."""
    found = driver.get("controllerrevisions").values()
    return {item["revision"]: item for item in found if item["metadata"].get("labels", {}).get("app.kubernetes.io/component") == "history"}


def level(driver: Driver, value: str) -> dict[str, Any]:
    return driver.with_config("motor_controller_config", "logging_config", "log_level", value=value)


def with_secrets(driver: Driver) -> None:
    driver.config = driver.with_config("api_key_config", "valid_keys", value=[SECRET])
    driver.env["motor_common_env"]["HF_TOKEN"] = SECRET


def test_each_record_of_success_is_kept_with_who_when_and_why(driver: Driver) -> None:
    with_secrets(driver)
    succeeded(driver.deploy())
    succeeded(driver.scale(prefill=3, decode=1))
    driver.config = driver.with_config("motor_deploy_config", "p_instances_num", value=3)
    succeeded(driver.run("motor_config_baseline", user_config_content=level(driver, "DEBUG")))
    assert not succeeded(driver.scale(prefill=3, decode=1))["changed"]
    assert sorted(kept(driver)) == [1, 2, 3] and applied(driver)["revision"] == 3
    baseline = succeeded(driver.run("motor_config_baseline_info", namespace=driver.namespace))["baseline"]
    history = baseline["history"]
    assert [entry["revision"] for entry in history] == [3, 2, 1]
    assert [entry["counts"] for entry in history] == [{"prefill": count, "decode": 1} for count in (3, 3, 2)]
    assert [entry["why"].split(":")[0] for entry in history] == ["update_config", "scale", "deploy"]
    assert all("@" in entry["by"] and entry["at"].endswith("Z") for entry in history)
    assert SECRET not in json.dumps(kept(driver)) + json.dumps(baseline)


def test_the_last_ten_are_kept(on_deployments: Driver) -> None:
    driver = on_deployments
    succeeded(driver.deploy())
    for number in range(11):
        config = level(driver, "DEBUG" if number % 2 else "ERROR")
        succeeded(driver.run("motor_config_baseline", user_config_content=config))
    assert sorted(kept(driver)) == list(range(3, 13))


def test_the_history_goes_with_the_service_and_starts_anew(on_deployments: Driver) -> None:
    driver = on_deployments
    succeeded(driver.deploy())
    first = kept(driver)[1]
    succeeded(driver.remove())
    # As if the garbage collector had not come yet.
    copied = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": {**first["data"], "counts": {"prefill": 9}}}
    metadata = {"name": "motor-1", "labels": first["metadata"]["labels"]}
    path = f"/apis/apps/v1/namespaces/{driver.namespace}/controllerrevisions"
    deadline = time.monotonic() + 20
    while kept(driver):
        assert time.monotonic() < deadline, "the history goes with motor-config"
        time.sleep(0.2)
    driver.cluster.request("POST", path, {**copied, "metadata": metadata})
    driver.config = driver.with_config("motor_deploy_config", "p_instances_num", value=1)
    succeeded(driver.deploy())
    assert kept(driver)[1]["data"]["counts"] == {"prefill": 1, "decode": 1}


def test_a_history_that_cannot_be_written_is_a_warning(driver: Driver) -> None:
    succeeded(driver.deploy())
    driver.proxy.fault(path="/controllerrevisions", mutating=True, status=403)
    scaled = succeeded(driver.scale(prefill=1, decode=1))
    driver.proxy.heal()
    assert any("history" in warning and "controllerrevisions" in warning.lower() for warning in scaled["warnings"])
    assert applied(driver)["counts"] == {"prefill": 1, "decode": 1} and sorted(kept(driver)) == [1]
    assert not succeeded(driver.scale(prefill=1, decode=1))["changed"]


def test_instances_without_a_sibling_are_copied_from_the_history(on_deployments: Driver) -> None:
    driver = on_deployments
    succeeded(driver.deploy())
    before = driver.get("deployments")
    for name in ("vllm-p0", "vllm-p1"):
        driver.cluster.request("DELETE", f"/apis/apps/v1/namespaces/{driver.namespace}/deployments/{name}")
    pods_are(driver, 0)
    succeeded(driver.scale(prefill=2, decode=1))
    reads = [request for request in driver.proxy.requests if request.method == "GET" and "/controllerrevisions" in request.path]
    assert [request.path.rsplit("/", 1)[-1] for request in reads] == ["motor-1"]
    after = driver.get("deployments")
    for name in ("vllm-p0", "vllm-p1"):
        assert after[name]["spec"] == before[name]["spec"]
    succeeded(driver.scale(prefill=3, decode=1))
    assert not any("/controllerrevisions" in request.path for request in driver.proxy.requests if request.method == "GET")
