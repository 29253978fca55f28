# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Back to an older record of success: its config and environment, without what was secret in them."""

from __future__ import annotations

import copy
import json
from typing import Any

from tests.functional.conftest import RELEASE, Driver
from tests.functional.test_history import SECRET, kept, level, with_secrets
from tests.functional.test_modules import applied, recorded_counts, succeeded

KEYS = ("api_key_config", "valid_keys")


def go_back(driver: Driver, revision: int, **options: Any) -> dict[str, Any]:
    given = {"namespace": driver.namespace, "revision": revision, "wait_timeout": 120, "lock_duration": 2, "node_ports": "auto"}
    return driver.run("motor_service", **{**given, **options})


def text_of(driver: Driver) -> str:
    return str(driver.motor_config()["data"]["user_config.json"])


def test_going_back_brings_counts_and_config_back_byte_for_byte(driver: Driver) -> None:
    with_secrets(driver)
    succeeded(driver.deploy())
    first, before = text_of(driver), driver.workloads()
    succeeded(driver.scale(prefill=3, decode=1))
    driver.config = driver.with_config("motor_deploy_config", "p_instances_num", value=3)
    succeeded(driver.run("motor_config_baseline", user_config_content=level(driver, "DEBUG")))
    predicted = succeeded(go_back(driver, 1, check_mode=True))
    assert driver.proxy.mutating() == []
    result = succeeded(go_back(driver, 1))
    assert predicted["actions"] == result["actions"]
    assert text_of(driver) == first and recorded_counts(driver) == (2, 1)
    assert driver.workloads() == before, "instances that stay are not touched"
    assert applied(driver)["revision"] == 4 and kept(driver)[4]["data"]["why"] == "deploy: go back to revision 1"
    assert SECRET not in json.dumps(kept(driver)) + json.dumps(result)
    assert not succeeded(go_back(driver, 1))["changed"] and driver.proxy.mutating() == []


def test_a_secret_that_has_changed_is_refused_with_its_path(on_deployments: Driver) -> None:
    driver = on_deployments
    with_secrets(driver)
    succeeded(driver.deploy())
    driver.config = driver.with_config(*KEYS, value=["another"])
    succeeded(driver.deploy(allow_restart=True, wait_timeout=120))
    refused = go_back(driver, 1)
    assert refused["reason"] == "SecretChanged" and refused["paths"] == ["api_key_config.valid_keys[0]"]
    assert SECRET not in json.dumps(refused) and driver.proxy.mutating() == []


def test_going_back_to_another_image_and_environment_replaces_instances(driver: Driver) -> None:
    succeeded(driver.deploy())
    first, data = text_of(driver), driver.motor_config()["data"]
    driver.config = driver.with_config("motor_deploy_config", "image_name", value="registry.example/motor:2")
    driver.env = copy.deepcopy(driver.env)
    driver.env["motor_common_env"]["ADDED"] = "1"
    succeeded(driver.deploy(allow_restart=True, wait_timeout=120))
    assert go_back(driver, 1)["reason"] == "ReleaseNeeded"
    assert go_back(driver, 1, release=str(RELEASE))["reason"] == "RestartNeeded" and driver.proxy.mutating() == []
    succeeded(go_back(driver, 1, release=str(RELEASE), allow_restart=True))
    assert text_of(driver) == first and driver.motor_config()["data"] == data
    images = {item["spec"]["containers"][0]["image"] for item in driver.get("pods", "v1").values()}
    assert images == {json.loads(first)["motor_deploy_config"]["image_name"]}
    assert not succeeded(go_back(driver, 1, release=str(RELEASE), allow_restart=True))["changed"]


def test_a_revision_that_is_not_kept_is_refused(on_deployments: Driver) -> None:
    driver = on_deployments
    assert go_back(driver, 1)["reason"] == "NotDeployed"
    succeeded(driver.deploy())
    refused = go_back(driver, 7)
    assert refused["reason"] == "NotKept" and "motor-7" in refused["msg"] and driver.proxy.mutating() == []


def test_a_deployment_that_adopts_drift_keeps_the_live_instances(on_deployments: Driver) -> None:
    driver = on_deployments
    succeeded(driver.deploy())
    driver.cluster.request("DELETE", f"/apis/apps/v1/namespaces/{driver.namespace}/deployments/vllm-p1")
    assert driver.deploy(on_drift="fail")["reason"] == "Drift"
    adopted = succeeded(driver.deploy(on_drift="adopt"))
    assert adopted["drift"]["missing"] == ["vllm-p1"] and "vllm-p1" not in driver.workloads()
    assert recorded_counts(driver) == (1, 1) and applied(driver)["counts"] == {"prefill": 1, "decode": 1}
    assert succeeded(driver.deploy())["service"]["counts"] == {"prefill": 2, "decode": 1}
