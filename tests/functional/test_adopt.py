# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services that Motor's own deployer made, whole or failed halfway, are taken over without a pod being touched."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.functional.conftest import Driver
from tests.functional.test_drift import interfere, pods_are
from tests.functional.test_modules import APPLIED, applied, recorded_counts, succeeded

MERGE = "application/merge-patch+json"
LABELS = ("app.kubernetes.io/managed-by", "app.kubernetes.io/part-of", "app.kubernetes.io/component")


def made_by_the_deployer(driver: Driver) -> None:
    """Deploy, and take off all that this collection adds to what Motor's own deployer makes."""
    succeeded(driver.deploy())
    forget = {"metadata": {"labels": dict.fromkeys(LABELS), "annotations": {APPLIED: None}}}
    for kind, api in (("configmaps", "v1"), ("services", "v1"), ("serviceaccounts", "v1"), ("deployments", "apps/v1")):
        prefix = f"/api/{api}" if "/" not in api else f"/apis/{api}"
        for name in driver.get(kind, api):
            driver.cluster.request("PATCH", f"{prefix}/namespaces/{driver.namespace}/{kind}/{name}", forget, content_type=MERGE)
    driver.cluster.request("DELETE", f"/apis/coordination.k8s.io/v1/namespaces/{driver.namespace}/leases/ascend-mindie")


def adopt(driver: Driver, **options: Any) -> dict[str, Any]:
    return driver.run("motor_config_baseline", **{"namespace": driver.namespace, "state": "adopted", "lock_duration": 2, **options})


def untouched(driver: Driver) -> dict[str, Any]:
    """All that must stay as it is: workloads and pods."""
    pods = {name: pod["metadata"]["uid"] for name, pod in driver.get("pods", "v1").items()}
    return {"workloads": driver.workloads(), "pods": pods, "deployments": driver.get("deployments").keys()}


def change_config(driver: Driver, data: dict[str, str | None]) -> None:
    path = f"/api/v1/namespaces/{driver.namespace}/configmaps/motor-config"
    driver.cluster.request("PATCH", path, {"data": data}, content_type=MERGE)


def test_adopting_is_one_write_and_restarts_nothing(driver: Driver) -> None:
    made_by_the_deployer(driver)
    before, data = untouched(driver), driver.motor_config()["data"]
    assert succeeded(driver.run("motor_service_info", namespace=driver.namespace))["service"]["standing"] == "deployer"
    predicted = succeeded(adopt(driver, check_mode=True))
    assert driver.proxy.mutating() == []
    adopted = succeeded(adopt(driver))
    assert driver.mutating() == [("PUT", "motor-config")] and adopted["actions"] == predicted["actions"]
    assert untouched(driver) == before and driver.motor_config()["data"] == data
    assert applied(driver)["counts"] == {"prefill": 2, "decode": 1} and adopted["service"]["standing"] == "applied"
    assert driver.motor_config()["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "ascend.mindie"
    assert not succeeded(adopt(driver))["changed"] and driver.proxy.mutating() == []

    succeeded(driver.scale(prefill=3, decode=1))
    after = driver.workloads()
    assert {name: after[name] for name in before["workloads"]} == before["workloads"]
    assert driver.name("prefill", 2) in after


@pytest.mark.parametrize("prefill", [1, 3], ids=["the baseline is ahead of the cluster", "orphans"])
def test_a_service_that_is_not_as_its_config_says_is_refused_then_adopted_by_count(driver: Driver, prefill: int) -> None:
    made_by_the_deployer(driver)
    interfere(driver, prefill=prefill)
    pods_are(driver, prefill)
    before, config_map = untouched(driver)["workloads"], driver.motor_config()
    for given in ({}, {"user_config_content": driver.config}):
        refused = adopt(driver, **given)
        assert refused["reason"] == "Drift" and refused["paths"] == ["motor_deploy_config.p_instances_num"]
        assert f"instances: {{prefill: {prefill}, decode: 1}}" in refused["msg"]
        assert driver.proxy.mutating() == [] and driver.motor_config() == config_map
    succeeded(adopt(driver, instances={"prefill": prefill, "decode": 1}))
    assert driver.mutating() == [("PUT", "motor-config")] and untouched(driver)["workloads"] == before
    assert recorded_counts(driver) == (prefill, 1) and applied(driver)["counts"] == {"prefill": prefill, "decode": 1}


def test_a_creation_that_failed_halfway_is_adopted_with_its_hole(on_deployments: Driver) -> None:
    driver = on_deployments
    driver.config = driver.with_config("motor_deploy_config", "p_instances_num", value=3)
    made_by_the_deployer(driver)
    driver.cluster.request("DELETE", f"/apis/apps/v1/namespaces/{driver.namespace}/deployments/vllm-p1")
    pods_are(driver, 2)
    refused = adopt(driver)
    assert refused["reason"] == "Drift" and "2 live (vllm-p0, vllm-p2)" in refused["msg"] and driver.proxy.mutating() == []
    succeeded(adopt(driver, instances={"prefill": 2, "decode": 1}))
    assert recorded_counts(driver) == (2, 1)
    succeeded(driver.scale(prefill=3, decode=1))
    assert {"vllm-p0", "vllm-p1", "vllm-p2"} <= driver.workloads().keys(), "the lowest free index comes back"


@pytest.mark.parametrize("text", [None, "{", "\ufeff{}"], ids=["absent", "not JSON", "a byte order mark"])
def test_a_damaged_motor_config_is_adopted_with_the_right_config_only(driver: Driver, text: str | None) -> None:
    made_by_the_deployer(driver)
    change_config(driver, {"user_config.json": text})
    before, config_map = untouched(driver), driver.motor_config()
    refused = adopt(driver)
    assert refused["reason"] == "BaselineDamaged" and "user_config" in refused["msg"]
    other = driver.with_config("motor_deploy_config", "image_name", value="registry.example/another:1")
    refused = adopt(driver, user_config_content=other)
    assert refused["reason"] == "OtherThanLive" and refused["paths"] == ["motor_deploy_config.image_name"]
    assert driver.motor_config() == config_map and driver.proxy.mutating() == []
    assert driver.scale(prefill=2, decode=1)["reason"] == "BaselineDamaged"

    succeeded(adopt(driver, user_config_content=driver.config))
    assert driver.mutating() == [("PUT", "motor-config")] and untouched(driver) == before
    assert json.loads(driver.motor_config()["data"]["user_config.json"]) == driver.config
    assert not succeeded(driver.scale(prefill=2, decode=1))["changed"]


def test_scripts_without_their_environment_are_told(driver: Driver) -> None:
    made_by_the_deployer(driver)
    scripts = {key: text for key, text in driver.motor_config()["data"].items() if key.endswith(".sh")}
    stripped = {key: "\n".join(line for line in text.splitlines() if not line.startswith("function set_")) for key, text in scripts.items()}
    change_config(driver, stripped)
    refused = adopt(driver)
    assert refused["reason"] == "BaselineDamaged" and "env.json" in refused["msg"] and driver.proxy.mutating() == []


def test_a_damaged_service_can_still_be_removed(driver: Driver) -> None:
    succeeded(driver.deploy())
    change_config(driver, {"user_config.json": "{"})
    succeeded(driver.remove())
    assert driver.get("pods", "v1") == {} and "motor-config" not in driver.get("configmaps", "v1")
