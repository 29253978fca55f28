# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The remaining shapes of a service on the real control plane: deploy, again unchanged, remove."""

from __future__ import annotations

import json

import pytest

from tests.functional.conftest import EXAMPLES, Driver
from tests.functional.test_modules import succeeded

SHAPES = {
    "single_container": {},
    "hybrid_multi_deployment": {"union": 2},
    "hybrid_infer_service_set": {"union": 2},
    "epd": {"prefill": 2, "decode": 1, "encode": 1},
    "kv_store": {"prefill": 2, "decode": 1},
}


@pytest.mark.parametrize("shape", list(SHAPES))
def test_deploy_again_and_remove(on_deployments: Driver, shape: str) -> None:
    driver, folder = on_deployments, EXAMPLES / "configs" / shape
    config = json.loads((folder / "user_config.json").read_text())
    config["motor_deploy_config"]["job_id"] = driver.namespace
    options = {"release": str(EXAMPLES / "release-2026-07"), "env_content": json.loads((folder / "env.json").read_text())}
    deployed = succeeded(driver.deploy(config, **options))["service"]
    assert deployed["counts"] == SHAPES[shape] and deployed["standing"] == "applied"
    assert deployed["control"] and all(role["pods_ready"] for role in deployed["control"])
    assert not succeeded(driver.deploy(config, **options))["changed"] and driver.proxy.mutating() == []
    succeeded(driver.remove())
    assert driver.get("pods", "v1") == {}
