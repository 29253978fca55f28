# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Instances that are not those of the baseline, and instances with a fault, on the real control plane."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.functional.conftest import Driver
from tests.functional.test_modules import applied, recorded_counts, succeeded

SET_PATH = "/apis/mindcluster.huawei.com/v1/namespaces/{}/inferservicesets/vllm"
NOTHING: dict[str, list[str]] = {"missing": [], "surplus": [], "altered": [], "foreign": []}


def interfere(driver: Driver, *, prefill: int) -> None:
    """Change the number of prefill instances as somebody with kubectl would."""
    path = f"/apis/apps/v1/namespaces/{driver.namespace}/deployments"
    if driver.backend == "infer_service_set":
        roles = driver.cluster.get(SET_PATH.format(driver.namespace))["spec"]["template"]["roles"]
        number = next(number for number, role in enumerate(roles) if role["name"] == "prefill")
        patch = [{"op": "replace", "path": f"/spec/template/roles/{number}/replicas", "value": prefill}]
        driver.cluster.request("PATCH", SET_PATH.format(driver.namespace), patch, content_type="application/json-patch+json")
        return
    live = [name for name in driver.workloads() if name.startswith("vllm-p")]
    for name in live[prefill:]:
        driver.cluster.request("DELETE", f"{path}/{name}")
    if prefill > len(live):
        text = json.dumps(driver.cluster.get(f"{path}/vllm-p0"))
        for index in range(len(live), prefill):
            copied = json.loads(text.replace("vllm-p0", f"vllm-p{index}"))
            driver.cluster.request("POST", path, {**copied, "metadata": {"name": f"vllm-p{index}", "labels": copied["metadata"]["labels"]}})


def pods_are(driver: Driver, count: int) -> None:
    """Wait until there are so many pods of prefill instances."""
    deadline = time.monotonic() + 20
    names: list[str] = []
    while time.monotonic() < deadline:
        names = [name for name in driver.get("pods", "v1") if name.startswith(("vllm-p", "vllm-0-prefill"))]
        if len(names) == count:
            return
        time.sleep(0.2)
    raise AssertionError(names)


def shown(driver: Driver, state: str) -> list[str]:
    service = succeeded(driver.run("motor_service_info", namespace=driver.namespace))["service"]
    return [instance["name"] for instance in service["instances"] if instance["state"] == state]


def test_missing_instances_are_shown_refused_created_or_adopted(driver: Driver) -> None:
    succeeded(driver.deploy())
    interfere(driver, prefill=1)
    pods_are(driver, 1)
    name = driver.name("prefill", 1)
    assert shown(driver, "missing") == [name]

    failed = driver.scale(prefill=2, decode=1, on_drift="fail")
    assert failed["reason"] == "Drift" and failed["paths"] == [name] and driver.proxy.mutating() == []

    predicted = succeeded(driver.scale(prefill=2, decode=1, on_drift="adopt", check_mode=True))
    adopted = succeeded(driver.scale(prefill=2, decode=1, on_drift="adopt"))
    assert predicted["actions"] == adopted["actions"]
    assert driver.mutating() == [("PUT", "motor-config")] and adopted["drift"] == {**NOTHING, "missing": [name]}
    assert applied(driver)["counts"] == {"prefill": 1, "decode": 1} and recorded_counts(driver) == (1, 1)
    assert not succeeded(driver.scale(prefill=1, decode=1, on_drift="fail"))["changed"]

    succeeded(driver.scale(prefill=2, decode=1))
    interfere(driver, prefill=1)
    pods_are(driver, 1)
    repaired = succeeded(driver.scale(prefill=2, decode=1))
    assert repaired["drift"] == {**NOTHING, "missing": [name]} and repaired["service"]["counts"] == {"prefill": 2, "decode": 1}
    assert name in driver.workloads()


def test_surplus_instances_are_shown_refused_and_removed(driver: Driver) -> None:
    succeeded(driver.deploy())
    interfere(driver, prefill=3)
    pods_are(driver, 3)
    name = driver.name("prefill", 2)
    assert shown(driver, "surplus") == [name]
    failed = driver.scale(prefill=2, decode=1, on_drift="fail")
    assert failed["reason"] == "Drift" and failed["paths"] == [name] and driver.proxy.mutating() == []
    assert succeeded(driver.scale(prefill=2, decode=1))["drift"] == {**NOTHING, "surplus": [name]}
    assert name not in driver.workloads() and shown(driver, "surplus") == []


def test_an_altered_instance_is_reported_and_never_touched(on_deployments: Driver) -> None:
    driver = on_deployments
    succeeded(driver.deploy(instances={"prefill": 3, "decode": 1}))
    path = f"/apis/apps/v1/namespaces/{driver.namespace}/deployments/vllm-p0"
    patch = [{"op": "add", "path": "/spec/template/spec/containers/0/env/-", "value": {"name": "MINE", "value": "1"}}]
    driver.cluster.request("PATCH", path, patch, content_type="application/json-patch+json")
    before = driver.workloads()
    failed = driver.scale(prefill=4, decode=1, on_drift="fail")
    assert failed["reason"] == "Drift" and failed["paths"] == ["vllm-p0"] and driver.proxy.mutating() == []
    scaled = succeeded(driver.scale(prefill=4, decode=1))
    assert scaled["drift"] == {**NOTHING, "altered": ["vllm-p0"]}
    assert {name: driver.workloads()[name] for name in before} == before
    env = driver.get("deployments")["vllm-p3"]["spec"]["template"]["spec"]["containers"][0]["env"]
    assert "MINE" not in {item["name"] for item in env}, "the new instance is like most of its siblings"


def pod_of(driver: Driver, name: str) -> dict[str, Any]:
    """The pod of an instance."""
    return next(pod for pod_name, pod in driver.get("pods", "v1").items() if pod_name.startswith(f"{name}-"))


def no_scale_out_beside(driver: Driver, name: str) -> None:
    deadline = time.monotonic() + 60
    while name not in shown(driver, "failed"):
        assert time.monotonic() < deadline, f"{name} has not failed"
        time.sleep(0.5)
    for wanted in ({"prefill": 3, "decode": 1}, {"prefill": 1, "decode": 2}):
        refused = driver.scale(**wanted)
        assert refused["reason"] == "Fault" and name in refused["paths"] and driver.proxy.mutating() == []
        assert "allow_during_fault" in refused["msg"]
    result = succeeded(driver.scale(prefill=1, decode=1))
    assert result["service"]["counts"] == {"prefill": 1, "decode": 1}, "removing is never refused"
    allowed = succeeded(driver.scale(prefill=2, decode=1, wait=False, allow_during_fault=True))
    assert allowed["service"]["counts"] == {"prefill": 2, "decode": 1}


def test_no_scale_out_beside_an_instance_that_crashes(driver: Driver) -> None:
    succeeded(driver.deploy())
    name = driver.name("prefill", 0)
    driver.cluster.annotate_pod(driver.namespace, pod_of(driver, name)["metadata"]["name"], {"fake/crash-loop": "1"})
    no_scale_out_beside(driver, name)


def test_no_scale_out_beside_an_instance_on_a_dead_node(on_deployments: Driver) -> None:
    driver = on_deployments
    # Its successor cannot run either, so that the fault lasts.
    driver.cluster.behave(driver.namespace, {"app": "vllm-p0"}, {"fake/ready-after": "60s"})
    succeeded(driver.deploy(wait=False))
    deadline = time.monotonic() + 30
    while not any(name.startswith("vllm-p0-") and pod["spec"].get("nodeName") for name, pod in driver.get("pods", "v1").items()):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    node = str(pod_of(driver, "vllm-p0")["spec"]["nodeName"])
    driver.cluster.down_node(node)
    try:
        no_scale_out_beside(driver, "vllm-p0")
    finally:
        driver.cluster.up_node(node)
