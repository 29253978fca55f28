# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The main job by the real modules against the real API server: deploy, scale, update, remove."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.functional.conftest import Driver

APPLIED = "ascend.mindie/applied"


def succeeded(result: dict[str, Any]) -> dict[str, Any]:
    assert not result.get("failed"), result["msg"]
    return result


def applied(driver: Driver) -> dict[str, Any]:
    return json.loads(driver.motor_config()["metadata"]["annotations"][APPLIED])


def recorded_counts(driver: Driver) -> tuple[int, int]:
    deploy = json.loads(driver.motor_config()["data"]["user_config.json"])["motor_deploy_config"]
    return deploy["p_instances_num"], deploy["d_instances_num"]


def test_main_job(driver: Driver) -> None:
    """Deploy 2P1D, scale to 4P2D and to 1P1D, change a log level, run again unchanged, remove."""
    assert succeeded(driver.deploy())["changed"]
    before = driver.workloads()
    assert set(before) >= {driver.name("prefill", 0), driver.name("prefill", 1), driver.name("decode", 0)}

    scaled_out = succeeded(driver.scale(prefill=4, decode=2))
    after = driver.workloads()
    assert {name: after[name] for name in before} == before, "instances that stay are not touched"
    created = {driver.name("prefill", 2), driver.name("prefill", 3), driver.name("decode", 1)}
    assert set(after) - set(before) == created, "exactly the new workloads were created"
    assert scaled_out["service"]["counts"] == {"prefill": 4, "decode": 2}

    succeeded(driver.scale(prefill=1, decode=1))
    left = driver.workloads()
    gone = {driver.name("prefill", 1), driver.name("prefill", 2), driver.name("prefill", 3), driver.name("decode", 1)}
    assert set(after) - set(left) == gone, "exactly the highest indexes are gone"
    assert {name: before[name] for name in left} == left
    assert recorded_counts(driver) == (1, 1)

    driver.config = driver.with_config("motor_deploy_config", "p_instances_num", value=1)
    changed = driver.with_config("motor_controller_config", "logging_config", "log_level", value="DEBUG")
    assert succeeded(driver.run("motor_config_baseline", user_config_content=changed))["changed"]
    assert driver.workloads() == left

    for again in (
        driver.scale(prefill=1, decode=1),
        driver.deploy(changed),
        driver.run("motor_config_baseline", user_config_content=changed),
    ):
        assert not succeeded(again)["changed"] and again["actions"] == []
        assert driver.proxy.mutating() == [], "an unchanged run writes nothing, not even the Lease"

    succeeded(driver.remove())
    assert (
        driver.get("pods", "v1") == {} and driver.get("deployments") == {} and set(driver.get("configmaps", "v1")) == {"kube-root-ca.crt"}
    )
    assert not succeeded(driver.remove())["changed"]


def test_the_record_of_success_is_written_last(driver: Driver) -> None:
    """motor-config and its annotation change after the instances did, in one compare-and-swap."""
    succeeded(driver.deploy())
    assert driver.mutating()[-1] == ("PUT", "motor-config")
    first = applied(driver)
    succeeded(driver.scale(prefill=3, decode=1))
    assert [pair for pair in driver.mutating() if pair[1] == "motor-config"] == [("PUT", "motor-config")]
    assert driver.mutating()[-1] == ("PUT", "motor-config")
    assert applied(driver)["revision"] == first["revision"] + 1 and applied(driver)["counts"] == {"prefill": 3, "decode": 1}


def test_motor_config_keeps_its_content_while_instances_are_still_changing(driver: Driver) -> None:
    succeeded(driver.deploy())
    before = driver.motor_config()
    label = {"app": "vllm-p2"} if driver.backend == "deployments" else {"infer.huawei.com/instanceset-name": "prefill"}
    driver.cluster.behave(driver.namespace, label, {"fake/never-ready": "true"})
    failed = driver.scale(prefill=3, decode=1, wait_timeout=3)
    assert failed.get("reason") == "WaitTimeout" and "prefill" in failed["msg"]
    assert driver.motor_config() == before
    refused = driver.run("motor_config_baseline", user_config_content=driver.config)
    assert refused["reason"] == "Unfinished", "another verb waits until the change has ended"
    succeeded(driver.scale(prefill=2, decode=1))
    assert not succeeded(driver.run("motor_config_baseline", user_config_content=driver.config))["changed"]


def test_shrink_before_grow_waits_until_pods_are_gone(driver: Driver) -> None:
    """Also with wait: false, as NPUs are free only when the pods are gone."""
    driver.cluster.behave(
        driver.namespace, {"app": "vllm-p1"} if driver.backend == "deployments" else {"app": "vllm"}, {"fake/stop-after": "2s"}
    )
    succeeded(driver.deploy())
    result = succeeded(driver.scale(prefill=1, decode=2, wait=False))
    assert result["changed"]
    writes = driver.proxy.mutating()
    removed = next(w for w in writes if w.method == "DELETE" or (w.method == "PATCH"))
    grown = next(w for w in writes if w.started > removed.started and w.method in ("POST", "PATCH") and w is not removed)
    assert grown.started - removed.started > 1.5
    assert driver.name("prefill", 1) not in {pod["metadata"]["labels"].get("app") for pod in driver.get("pods", "v1").values()}


def test_deploying_over_a_live_service_converges_counts_and_updatable_keys(driver: Driver) -> None:
    succeeded(driver.deploy())
    before = driver.workloads()
    driver.config = driver.with_config("motor_deploy_config", "p_instances_num", value=3)
    config = driver.with_config("motor_coordinator_config", "logging_config", "log_level", value="ERROR")
    result = succeeded(driver.deploy(config))
    assert {name: driver.workloads()[name] for name in before} == before
    assert driver.name("prefill", 2) in driver.workloads()
    kinds = [(action["verb"], action["kind"]) for action in result["actions"]]
    assert kinds[0] == ("update", "ConfigMap"), "new pods read the new configuration"
    assert (
        driver.motor_config()["data"]["user_config.json"] == json.dumps(config, indent=2, ensure_ascii=False) + "\n"
        or json.loads(driver.motor_config()["data"]["user_config.json"]) == config
    )


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("motor_deploy_config", "image_name"), "registry.example/other:2"),
        (("motor_engine_prefill_config", "engine_config", "max_model_len"), 4096),
        (("motor_deploy_config", "single_p_instance_pod_num"), 2),
    ],
)
def test_what_restarts_pods_is_refused_with_the_paths(driver: Driver, path: tuple[str, ...], value: Any) -> None:
    succeeded(driver.deploy())
    refused = driver.deploy(driver.with_config(*path, value=value))
    assert refused["failed"] and refused["reason"] == "RestartNeeded"
    assert ".".join(path) in refused["msg"] and ".".join(path) in refused["paths"]
    assert driver.proxy.mutating() == []


def test_a_changed_environment_or_release_is_refused_with_the_scripts(driver: Driver) -> None:
    succeeded(driver.deploy())
    driver.env["motor_common_env"]["ADDED"] = "1"
    refused = driver.deploy()
    assert refused["reason"] == "RestartNeeded" and "common.sh" in refused["msg"]
    assert driver.proxy.mutating() == []


def test_objects_no_longer_wanted_are_pruned_and_missing_ones_come_back(on_deployments: Driver) -> None:
    driver = on_deployments
    succeeded(driver.deploy())
    labels = {"app.kubernetes.io/managed-by": "ascend.mindie", "app.kubernetes.io/part-of": "mindie-motor"}
    base = f"/api/v1/namespaces/{driver.namespace}/services"
    old = {"metadata": {"name": "mindie-motor-old", "labels": labels}, "spec": {"ports": [{"port": 1}]}}
    assert driver.cluster.request("POST", base, old)[0] == 201
    assert driver.cluster.request("POST", base, {"metadata": {"name": "not-ours"}, "spec": {"ports": [{"port": 1}]}})[0] == 201
    assert driver.cluster.request("DELETE", f"{base}/mindie-motor-controller-service")[0] == 200
    result = succeeded(driver.deploy())
    done = {(action["verb"], action["name"]) for action in result["actions"]}
    assert done == {("delete", "mindie-motor-old"), ("create", "mindie-motor-controller-service"), ("update", "motor-config")}
    assert "not-ours" in driver.get("services", "v1")


def test_drift_is_repaired_by_scaling_to_the_recorded_counts(on_deployments: Driver) -> None:
    driver = on_deployments
    succeeded(driver.deploy())
    path = f"/apis/apps/v1/namespaces/{driver.namespace}/deployments/vllm-p0"
    driver.cluster.request("DELETE", path)
    result = succeeded(driver.scale(prefill=2, decode=1))
    assert next((action["verb"], action["name"]) for action in result["actions"]) == ("create", "vllm-p0")


def test_a_standby_pod_that_never_becomes_ready_does_not_fail_the_deployment(driver: Driver) -> None:
    app = "mindie-motor-controller"
    driver.cluster.behave(driver.namespace, {"app": app}, {"fake/never-ready": "true"})
    config = driver.with_config("motor_controller_config", "standby_config", value={"enable_master_standby": True})
    failed = driver.deploy(config, wait_timeout=4)
    assert failed["reason"] == "WaitTimeout" and "controller" in failed["msg"], "with no control pod Ready it fails with the reason"
    pods = sorted(name for name, pod in driver.get("pods", "v1").items() if pod["metadata"]["labels"]["app"] == app)
    assert len(pods) == 2
    driver.cluster.annotate_pod(driver.namespace, pods[0], {"fake/never-ready": None})
    result = succeeded(driver.deploy(config))
    control = {role["name"]: (role["pods_ready"], role["pods"]) for role in result["service"]["control"]}
    assert control["controller"] == (1, 2)


@pytest.mark.parametrize(
    ("behaviour", "reason", "said"),
    [
        ({"fake/image-pull-error": "true"}, "InstancesFailed", "ImagePullBackOff"),
        ({"fake/crash-loop": "1"}, "WaitTimeout", "CrashLoopBackOff|not ready after .*exit code 1"),
        ({"fake/never-ready": "true"}, "WaitTimeout", "not ready"),
    ],
)
def test_a_wait_that_ends_says_why(on_deployments: Driver, behaviour: dict[str, str], reason: str, said: str) -> None:
    driver = on_deployments
    driver.cluster.behave(driver.namespace, {"app": "mindie-motor-coordinator"}, behaviour)
    failed = driver.deploy(wait_timeout=6)
    assert failed["reason"] == reason and "coordinator" in failed["msg"] and re.search(said, failed["msg"])


def test_one_writer_at_a_time(on_deployments: Driver) -> None:
    driver = on_deployments
    succeeded(driver.deploy())
    path = f"/apis/coordination.k8s.io/v1/namespaces/{driver.namespace}/leases/ascend-mindie"
    lease = driver.cluster.get(path)
    lease["spec"].update(holderIdentity="somebody@elsewhere", acquireTime="2026-01-01T00:00:00.000000Z", leaseDurationSeconds=600)
    lease["metadata"].setdefault("annotations", {})["ascend.mindie/intent"] = json.dumps({"verb": "scale", "run": "x", "by": "somebody"})
    assert driver.cluster.request("PUT", path, lease)[0] == 200
    refused = driver.scale(prefill=3, decode=1, lock_timeout=1)
    assert refused.get("reason") == "LockHeld" and "somebody@elsewhere" in refused["msg"] and "2026-01-01" in refused["msg"]
    assert driver.mutating() == []


def test_a_lock_whose_holder_died_is_taken(on_deployments: Driver) -> None:
    driver = on_deployments
    succeeded(driver.deploy())
    path = f"/apis/coordination.k8s.io/v1/namespaces/{driver.namespace}/leases/ascend-mindie"
    lease = driver.cluster.get(path)
    lease["spec"].update(holderIdentity="dead@elsewhere", leaseDurationSeconds=1)
    assert driver.cluster.request("PUT", path, lease)[0] == 200
    succeeded(driver.scale(prefill=3, decode=1))
    assert driver.cluster.get(path)["spec"]["holderIdentity"] == ""


def test_info_modules_report_without_writing(driver: Driver, cluster: Cluster) -> None:
    absent = driver.run("motor_service_info", namespace=driver.namespace)
    assert absent["service"]["standing"] == "absent" and not absent["changed"]
    succeeded(driver.deploy())
    shown = succeeded(driver.run("motor_service_info", namespace=driver.namespace))["service"]
    assert shown["counts"] == {"prefill": 2, "decode": 1} and {instance["state"] for instance in shown["instances"]} == {"running"}
    assert all(instance["nodes"] and instance["npus"] for instance in shown["instances"])
    config = driver.with_config("motor_deploy_config", "p_instances_num", value=4)
    baseline = succeeded(driver.run("motor_config_baseline_info", user_config_content=config))
    assert baseline["baseline"]["standing"] == "applied" and baseline["changes"]["counts"] == {"prefill": [2, 4]}
    assert driver.proxy.mutating() == []


def test_storing_a_config_does_not_wait_for_instances_that_are_ill(driver: Driver) -> None:
    succeeded(driver.deploy())
    name = next(name for name in driver.get("pods", "v1") if name.startswith(driver.name("prefill", 0)))
    driver.cluster.annotate_pod(driver.namespace, name, {"fake/never-ready": "true"})
    changed = driver.with_config("motor_controller_config", "logging_config", "log_level", value="DEBUG")
    assert succeeded(driver.run("motor_config_baseline", user_config_content=changed, wait_timeout=3))["changed"]
