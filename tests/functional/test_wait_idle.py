# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting until instances that go are idle: a server in the coordinator's place, reached through the API server as in a cluster."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.cluster.certificates import Authority
from tests.cluster.egress import FORWARD
from tests.cluster.fault_proxy import FaultProxy
from tests.cluster.kube_client import wait_for
from tests.functional.conftest import EXAMPLES, Driver
from tests.functional.test_modules import succeeded
from tests.support.coordinator import FROZEN, METRICS, Coordinator, Stage, endpoints_of
from tests.support.engines import Load

# How often the coordinator collects, as the user config says. A look is a second collection when it comes a second later than that.
REUSE = 1
APART = REUSE + 1
IDLE = Load()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster whose API server reaches pods."""
    with Cluster(a3_nodes=12, cpu_nodes=1, infer_operator=True, egress=True) as running:
        yield running


def pods_of(driver: Driver, role: str, index: int) -> list[str]:
    """Names of the pods of an instance; those of a Deployment have a suffix."""
    return [name for name in driver.get("pods", "v1") if name.startswith(driver.name(role, index) + "-")]


@contextlib.contextmanager
def serving(driver: Driver, certificate: Path | None = None) -> Iterator[Coordinator]:
    """A coordinator behind the live coordinator pod; decode has nothing to do, and prefill works on, so that no two collections are alike."""
    coordinator = Coordinator(lambda: endpoints_of(driver.get("pods", "v1").values()), reuse=REUSE)
    coordinator.loads = {"prefill": Load(finished=10), "decode": IDLE}
    with Stage() as stage:
        ports = stage.play(coordinator, certificate)
        pods = driver.get("pods", "v1").items()
        (pod,) = [name for name, found in pods if found["metadata"]["labels"].get("app") == "mindie-motor-coordinator"]
        driver.cluster.annotate_pod(driver.namespace, pod, {FORWARD: ports})
        wait_for(lambda: _reached(driver, "https:" if certificate else "http:"), 15, "the coordinator is reached")
        coordinator.asked.clear()
        yield coordinator


def _reached(driver: Driver, scheme: str) -> bool:
    suffix = "" if driver.backend == "deployments" else "-vllm-0-coordinator"
    service = f"{scheme}mindie-motor-coordinator-obs{suffix}:{METRICS}"
    return driver.cluster.request("GET", f"/api/v1/namespaces/{driver.namespace}/services/{service}/proxy/health")[0] == 200


def deployed(driver: Driver, release: str = "release-2026-07", **config: Any) -> None:
    driver.config["motor_coordinator_config"]["prometheus_metrics_config"] = {"reuse_time": REUSE}
    driver.config["motor_deploy_config"].update(p_instances_num=1, d_instances_num=2, **config)
    succeeded(driver.deploy(release=str(EXAMPLES / release)))


def scale_in(driver: Driver, **options: Any) -> dict[str, Any]:
    return driver.scale(prefill=1, decode=1, **options)


def is_there(driver: Driver) -> bool:
    return driver.name("decode", 1) in driver.workloads()


def removal(driver: Driver) -> float:
    """When the request that removes was sent."""
    return next(request.started for request in driver.proxy.mutating() if request.method == "DELETE" or "inferservicesets" in request.path)


def test_the_delete_comes_after_the_instance_was_idle_in_two_collections(driver: Driver) -> None:
    deployed(driver)
    with serving(driver) as coordinator:
        (victim,) = pods_of(driver, "decode", 1)
        coordinator.pods[victim] = Load(running=3, waiting=1)
        ended: list[float] = []

        def end_requests() -> None:
            ended.append(time.monotonic())
            coordinator.pods[victim] = IDLE

        timer = threading.Timer(3.0, end_requests)
        timer.start()
        result = succeeded(scale_in(driver, wait_idle={"timeout": 40}))
        assert ended and removal(driver) - ended[0] >= APART - 0.1
        assert set(coordinator.asked) == {"/metrics?type=dp"}, "nothing is paused, nothing else is asked"
    (drained,) = result["drained"]
    assert (drained["name"], drained["idle"], drained["running"], drained["waiting"]) == (driver.name("decode", 1), True, 0, 0)
    assert drained["seconds"] >= 3.0 and not is_there(driver)


def test_at_the_deadline_it_goes_on_and_says_what_was_running(driver: Driver) -> None:
    deployed(driver)
    with serving(driver) as coordinator:
        (victim,) = pods_of(driver, "decode", 1)
        coordinator.pods[victim] = Load(running=3, waiting=2)
        result = succeeded(scale_in(driver, wait_idle={"timeout": 2}, wait=False))
    (drained,) = result["drained"]
    assert (drained["idle"], drained["running"], drained["waiting"]) == (False, 3, 2)
    assert drained["seconds"] >= 2.0
    wait_for(lambda: not is_there(driver), 20, "the instance is gone, which was not waited for")


def test_at_the_deadline_it_fails_before_anything_is_deleted(driver: Driver) -> None:
    deployed(driver)
    with serving(driver) as coordinator:
        (victim,) = pods_of(driver, "decode", 1)
        coordinator.pods[victim] = Load(running=3)
        failed = scale_in(driver, wait_idle={"timeout": 2, "on_timeout": "fail"})
        assert failed["reason"] == "NotIdle" and f"{driver.name('decode', 1)}: 3 running, 0 waiting" in failed["msg"]
        assert driver.mutating() == [] and not failed["changed"] and is_there(driver)
        coordinator.pods[victim] = IDLE
        assert succeeded(scale_in(driver, wait_idle={"timeout": 40, "on_timeout": "fail"}))["drained"][0]["idle"]
    assert not is_there(driver)


def test_an_instance_that_is_not_shown_is_unknown_and_not_idle(driver: Driver) -> None:
    deployed(driver)
    with serving(driver) as coordinator:
        (victim,) = pods_of(driver, "decode", 1)
        coordinator.failing.add(victim)
        failed = scale_in(driver, wait_idle={"timeout": 5, "on_timeout": "fail"})
        assert failed["reason"] == "NotIdle" and "unknown (the coordinator does not show it)" in failed["msg"] and is_there(driver)
        coordinator.failing.update(driver.get("pods", "v1"))
        failed = scale_in(driver, wait_idle={"timeout": 5, "on_timeout": "fail"})
        assert failed["reason"] == "NotIdle" and is_there(driver), "with nothing shown at all, nobody is idle"
        (drained,) = succeeded(scale_in(driver, wait_idle={"timeout": 1}))["drained"]
    assert (drained["idle"], drained["running"], drained["waiting"]) == (False, None, None)


def test_the_same_answer_for_long_counts_as_idle(on_deployments: Driver) -> None:
    """A service that nobody uses looks the same in every collection."""
    driver = on_deployments
    deployed(driver)
    with serving(driver) as coordinator:
        coordinator.collect()
        coordinator.mood = FROZEN
        (drained,) = succeeded(scale_in(driver, wait_idle={}))["drained"]
    assert drained["idle"] and drained["seconds"] >= 3 * APART - 0.5


def test_instances_that_stay_do_not_matter(on_deployments: Driver) -> None:
    driver = on_deployments
    deployed(driver)
    with serving(driver) as coordinator:
        for index in (0, 1):
            (pod,) = pods_of(driver, "decode", index)
            coordinator.pods[pod] = Load(running=5 * (1 - index))
        (drained,) = succeeded(scale_in(driver, wait_idle={"timeout": 40}))["drained"]
    assert drained["idle"] and drained["name"] == "vllm-d1"


def test_a_coordinator_that_speaks_tls_is_asked_by_https(on_deployments: Driver, tmp_path: Path) -> None:
    driver = on_deployments
    deployed(driver, tls_config={"mgmt_tls_config": {"enable_tls": True}})
    certificate = tmp_path / "server.pem"
    certificate.write_bytes(b"".join(Authority.new("coordinator").issue("coordinator", server=True)))
    with serving(driver, certificate) as coordinator:
        (victim,) = pods_of(driver, "decode", 1)
        coordinator.pods[victim] = IDLE
        assert succeeded(scale_in(driver, wait_idle={"timeout": 40}))["drained"][0]["idle"]
        assert coordinator.asked


def test_a_release_without_these_metrics_is_not_waited_for(driver: Driver) -> None:
    deployed(driver, release="release-2026-05")
    failed = scale_in(driver, wait_idle={"timeout": 60, "on_timeout": "fail"})
    assert failed["reason"] == "NotIdle" and "not found" in failed["msg"] and is_there(driver)
    (drained,) = succeeded(scale_in(driver, wait_idle={"timeout": 60}))["drained"]
    assert drained["running"] is None and "not found" in drained["problem"] and drained["seconds"] < 10


def test_a_coordinator_that_cannot_be_reached_leaves_the_load_unknown(on_deployments: Driver) -> None:
    driver = on_deployments
    deployed(driver)
    failed = scale_in(driver, wait_idle={"timeout": 2, "on_timeout": "fail"})
    assert failed["reason"] == "NotIdle" and "unknown (" in failed["msg"] and is_there(driver)


def test_instances_without_a_running_pod_serve_nobody(on_deployments: Driver) -> None:
    driver = on_deployments
    deployed(driver)
    driver.cluster.behave(driver.namespace, {"app": "vllm-d2"}, {"fake/image-pull-error": "true"})
    driver.scale(prefill=1, decode=3, wait=False)
    (drained,) = succeeded(driver.scale(prefill=1, decode=2, wait_idle={"timeout": 60, "on_timeout": "fail"}))["drained"]
    assert (drained["name"], drained["idle"], drained["seconds"] < 5) == ("vllm-d2", True, True)


def test_without_the_right_to_ask_the_error_names_it_and_nothing_is_deleted(on_deployments: Driver, proxy: FaultProxy) -> None:
    driver = on_deployments
    deployed(driver)
    every = {"apiGroups": ["*"], "resources": ["configmaps", "leases", "pods", "deployments", "horizontalpodautoscalers"], "verbs": ["*"]}
    weak = driver.cluster.user_kubeconfig(f"no-proxy-{driver.namespace}", [every])
    failed = scale_in(driver, wait_idle={"timeout": 60}, kubeconfig=weak)
    assert failed["status"] == 403 and "services/proxy" in failed["msg"] and driver.namespace in failed["msg"]
    assert is_there(driver)


def test_a_lost_lock_ends_the_wait(on_deployments: Driver) -> None:
    driver = on_deployments
    deployed(driver)
    with serving(driver) as coordinator:
        coordinator.pods[pods_of(driver, "decode", 1)[0]] = Load(running=3)
        path = f"/apis/coordination.k8s.io/v1/namespaces/{driver.namespace}/leases/ascend-mindie"

        def steal() -> None:
            body = {"spec": {"holderIdentity": "somebody@elsewhere"}}
            driver.cluster.request("PATCH", path, body, content_type="application/merge-patch+json")

        timer = threading.Timer(2.0, steal)
        timer.start()
        failed = scale_in(driver, wait_idle={"timeout": 60})
        timer.join()
    assert failed["reason"] == "LockLost" and is_there(driver)


def test_check_mode_asks_nobody(on_deployments: Driver) -> None:
    driver = on_deployments
    deployed(driver)
    with serving(driver) as coordinator:
        foretold = succeeded(scale_in(driver, wait_idle={"timeout": 60}, check_mode=True))
        assert foretold["drained"] == [] and foretold["removed"][0]["name"] == "vllm-d1"
        assert coordinator.asked == []
