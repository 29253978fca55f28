# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rights that docs/rbac.md names are enough, for a user who has no others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from tests.functional.conftest import RELEASE, Driver
from tests.functional.test_modules import succeeded

PAGE = Path(__file__).parents[2] / "docs" / "rbac.md"


def documented() -> dict[str, list[dict[str, Any]]]:
    """The rules of the page's ClusterRoles by their names."""
    blocks = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)]
    return {block["metadata"]["name"]: block["rules"] for block in blocks}


def test_an_operator_with_the_documented_rights_can_run_every_verb(driver: Driver) -> None:
    operator = driver.cluster.user_kubeconfig(f"operator-{driver.namespace}", documented()["mindie-motor-operator"])
    succeeded(driver.deploy(kubeconfig=operator))
    succeeded(driver.scale(prefill=3, decode=2, kubeconfig=operator))
    succeeded(driver.scale(prefill=1, decode=1, kubeconfig=operator))
    driver.config["motor_deploy_config"].update(p_instances_num=1, d_instances_num=1)
    driver.config["motor_controller_config"]["logging_config"]["log_level"] = "DEBUG"
    succeeded(driver.run("motor_config_baseline", user_config_content=driver.config, kubeconfig=operator))
    assert not succeeded(driver.deploy(kubeconfig=operator))["changed"]
    succeeded(driver.remove(kubeconfig=operator))


def test_a_reader_with_the_documented_rights_can_predict_every_verb(driver: Driver) -> None:
    reader = driver.cluster.user_kubeconfig(f"only-reads-{driver.namespace}", documented()["mindie-motor-reader"])
    look = {"kubeconfig": reader, "check_mode": True}
    assert succeeded(driver.deploy(**look))["changed"]
    succeeded(driver.deploy())
    assert succeeded(driver.scale(prefill=3, decode=2, **look))["changed"]
    driver.config["motor_controller_config"]["logging_config"]["log_level"] = "DEBUG"
    assert succeeded(driver.run("motor_config_baseline", user_config_content=driver.config, **look))["changed"]
    assert succeeded(driver.deploy(**look))["changed"]
    assert succeeded(driver.remove(**look))["changed"]
    for module in ("motor_service_info", "motor_config_baseline_info"):
        succeeded(driver.run(module, namespace=driver.namespace, kubeconfig=reader))


def test_without_a_right_the_error_names_it(on_deployments: Driver) -> None:
    rules = [rule for rule in documented()["mindie-motor-operator"] if "apps" not in rule["apiGroups"]]
    weak = on_deployments.cluster.user_kubeconfig(f"weak-{on_deployments.namespace}", rules)
    failed = on_deployments.deploy(kubeconfig=weak, release=str(RELEASE))
    assert failed["status"] == 403 and "deployments" in failed["msg"] and "docs/rbac.md" in failed["msg"]
    assert on_deployments.mutating() == []
