# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of scaling policies do with a service."""

from __future__ import annotations

from typing import Any

from tests.functional.conftest import QUICK, Driver

MODULE = "motor_scaling_policy"
SETS = "mindcluster.huawei.com/v1"
SCALERS = "autoscaling/v2"
WAITING = "num_requests_waiting"
# HPA waits no longer than this before it scales in.
QUICK_IN = {"window": 0}
QUEUE = {"min": 1, "max": 6, "preset": "queue", "scale_in": QUICK_IN}


def policy(driver: Driver, *, check_mode: bool = False, diff: bool = False, **policies: Any) -> dict[str, Any]:
    options: dict[str, Any] = {
        **QUICK,
        **{key: policies.pop(key) for key in ("outside", "check_capacity", "wait", "wait_timeout") if key in policies},
    }
    return driver.run(MODULE, namespace=driver.namespace, policies=policies, check_mode=check_mode, diff=diff, **options)


def off(driver: Driver, **options: Any) -> dict[str, Any]:
    return driver.run(MODULE, namespace=driver.namespace, state="absent", **{**QUICK, **options})


def live_policies(driver: Driver) -> dict[str, Any]:
    roles = driver.get("inferservicesets", SETS)["vllm"]["spec"]["template"]["roles"]
    return {role["name"]: role["scalingPolicy"] for role in roles if "scalingPolicy" in role}


def count(driver: Driver, role: str = "prefill") -> int:
    found: int = driver.get("instancesets", SETS)[f"vllm-0-{role}"]["spec"]["replicas"]
    return found


def written(driver: Driver, role: str = "prefill") -> int:
    roles = driver.get("inferservicesets", SETS)["vllm"]["spec"]["template"]["roles"]
    return next(int(one["replicas"]) for one in roles if one["name"] == role)


def patch_role(driver: Driver, role: str, op: str, field: str, value: Any) -> None:
    """What somebody else does to the InferServiceSet."""
    path = f"/apis/{SETS}/namespaces/{driver.namespace}/inferservicesets/vllm"
    roles = driver.cluster.get(path)["spec"]["template"]["roles"]
    number = [one["name"] for one in roles].index(role)
    patch = [{"op": op, "path": f"/spec/template/roles/{number}/{field}", "value": value}]
    assert driver.cluster.request("PATCH", path, patch, content_type="application/json-patch+json")[0] == 200
