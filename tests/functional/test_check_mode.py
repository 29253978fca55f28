# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check mode writes nothing, predicts what the real run does, and needs rights to read only."""

from __future__ import annotations

from typing import Any

from tests.functional.conftest import RELEASE, Driver
from tests.functional.test_modules import succeeded

READ_RULES = [
    {
        "apiGroups": ["", "apps", "autoscaling", "coordination.k8s.io", "mindcluster.huawei.com", "rbac.authorization.k8s.io"],
        "resources": [
            "configmaps",
            "pods",
            "services",
            "serviceaccounts",
            "persistentvolumeclaims",
            "namespaces",
            "deployments",
            "horizontalpodautoscalers",
            "leases",
            "inferservicesets",
            "instancesets",
            "clusterroles",
            "clusterrolebindings",
        ],
        "verbs": ["get", "list", "watch"],
    }
]


def predicted_and_done(driver: Driver, reader: str, module: str, **options: Any) -> None:
    """The check run (as a user who may only read) sends no mutating request and foretells the real run's actions."""
    before = driver.cluster.get(f"/api/v1/namespaces/{driver.namespace}/configmaps")["items"]
    predicted = succeeded(driver.run(module, **options, check_mode=True))
    assert driver.proxy.mutating() == []
    assert driver.cluster.get(f"/api/v1/namespaces/{driver.namespace}/configmaps")["items"] == before
    as_reader = succeeded(driver.run(module, **{**options, "kubeconfig": reader}, check_mode=True))
    done = succeeded(driver.run(module, **options))
    assert predicted["actions"] == done["actions"] == as_reader["actions"] and predicted["changed"] and done["changed"]


def test_check_mode_of_every_module_that_changes_something(driver: Driver) -> None:
    reader = driver.cluster.user_kubeconfig(f"reader-{driver.namespace}", READ_RULES)
    deploy = {
        "user_config_content": driver.config,
        "env_content": driver.env,
        "release": str(RELEASE),
        "node_ports": "auto",
        "wait_timeout": 60,
    }
    predicted_and_done(driver, reader, "motor_service", **deploy)
    scaled = {"namespace": driver.namespace, "instances": {"prefill": 3, "decode": 2}, "wait_timeout": 60}
    predicted_and_done(driver, reader, "motor_instance_scale", **scaled)
    driver.config["motor_deploy_config"].update(p_instances_num=3, d_instances_num=2)
    updated = driver.with_config("motor_controller_config", "logging_config", "log_level", value="DEBUG")
    predicted_and_done(driver, reader, "motor_config_baseline", user_config_content=updated, wait_timeout=60)
    updated["motor_deploy_config"].update(p_instances_num=1, d_instances_num=3)
    predicted_and_done(driver, reader, "motor_service", **{**deploy, "user_config_content": updated})
    predicted_and_done(driver, reader, "motor_service", namespace=driver.namespace, state="absent", wait_timeout=60)


def test_reading_is_enough_for_the_info_modules(driver: Driver) -> None:
    succeeded(driver.deploy())
    reader = driver.cluster.user_kubeconfig(f"info-{driver.namespace}", READ_RULES)
    for module in ("motor_service_info", "motor_config_baseline_info"):
        assert not succeeded(driver.run(module, namespace=driver.namespace, kubeconfig=reader))["changed"]
    assert driver.proxy.mutating() == []


def test_the_diff_is_the_same_in_check_mode_and_given_only_when_asked_for(driver: Driver) -> None:
    succeeded(driver.deploy())
    wanted = {"prefill": 1, "decode": 2}
    predicted = succeeded(driver.scale(**wanted, check_mode=True, diff=True))["diff"]
    assert "diff" not in succeeded(driver.scale(**wanted, check_mode=True))
    assert succeeded(driver.scale(**wanted, diff=True))["diff"] == predicted
    assert predicted["before"]["instances"] == {"prefill": 2, "decode": 1} and predicted["after"]["instances"] == wanted
