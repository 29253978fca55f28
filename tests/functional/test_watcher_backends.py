# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the watcher does for services of Deployments and of an InferServiceSet, watching one namespace with rights for that one alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.cluster.fault_proxy import FaultProxy
from tests.cluster.kube_client import wait_for
from tests.functional.conftest import Driver
from tests.support.watcher import NAME, Watcher, count

QUICK = {"missing_after": 2, "lease_duration": 3, "replicas": 1}
SETS = "/apis/mindcluster.huawei.com/v1/namespaces/{}/inferservicesets/vllm"


@pytest.fixture(params=["deployments", "infer_service_set"])
def service(cluster: Cluster, proxy: FaultProxy, namespace: str, request: pytest.FixtureRequest) -> Driver:
    """A service of two prefill instances and one decode instance that runs."""
    driver = Driver(cluster, proxy, namespace, request.param)
    config = driver.with_config("motor_deploy_config", "p_instances_num", value=2)
    done = driver.deploy(config)
    assert not done.get("failed"), done
    return driver


@pytest.fixture
def watcher(cluster: Cluster, service: Driver, proxy: FaultProxy) -> Iterator[Watcher]:
    with Watcher(cluster, f"watch-{service.namespace}", through=proxy.kubeconfig) as found:
        yield found
        found.play(state="absent")
        cluster.request("DELETE", f"/api/v1/namespaces/{found.namespace}")


def lose(service: Driver) -> str:
    """Take one prefill instance away; returns its name."""
    if service.backend == "deployments":
        service.cluster.request("DELETE", f"/apis/apps/v1/namespaces/{service.namespace}/deployments/vllm-p0")
        return "vllm-p0"
    path = SETS.format(service.namespace)
    roles = service.cluster.get(path)["spec"]["template"]["roles"]
    index = next(index for index, role in enumerate(roles) if role["name"] == "prefill")
    patch = [{"op": "replace", "path": f"/spec/template/roles/{index}/replicas", "value": 1}]
    service.cluster.request("PATCH", path, patch, content_type="application/json-patch+json")
    return "vllm-0-prefill-1"


def test_an_instance_that_is_missing_is_restored_on_every_backend(service: Driver, watcher: Watcher) -> None:
    watcher.install(service.namespace, acts=("restore_missing",), **QUICK)
    watcher.until_running(service.namespace)
    name = lose(service)
    watcher.until(service.namespace, "it is missing", lambda seen: seen.get(name, ("",))[0] == "missing")
    watcher.until(
        service.namespace,
        "it is restored",
        lambda dummy: count(watcher.repairs(service.namespace), "restore_missing", "motor-config", "done"),
    )
    watcher.until_running(service.namespace)
    assert len(watcher.repairs(service.namespace)) == 1
    assert not service.scale(prefill=2, decode=1)["changed"], "the service is as its baseline says"


@pytest.mark.parametrize("service", ["deployments"], indirect=True)
def test_what_only_observes_tells_and_changes_nothing(service: Driver, watcher: Watcher, proxy: FaultProxy) -> None:
    """By default every act is off: then there are no rights for it, either."""
    watcher.install(service.namespace, acts=(), **QUICK)
    watcher.until_running(service.namespace)
    name = lose(service)
    watcher.until(service.namespace, "it is missing", lambda seen: seen.get(name, ("",))[0] == "missing")
    time.sleep(QUICK["missing_after"] + 1)
    wait_for(lambda: count(watcher.events(service.namespace), "motor-config", "InstanceMissing"), 20, "an Event at motor-config")
    own = [request for request in proxy.mutating() if request.user_agent.startswith(f"{NAME}/")]
    assert {request.kind_of_resource for request in own} == {"leases", "events"}
    roles: list[dict[str, Any]] = service.cluster.get(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{service.namespace}/roles")["items"]
    (rules,) = [role["rules"] for role in roles if role["metadata"]["name"].startswith(NAME)]
    assert {verb for rule in rules if rule["resources"] != ["events"] for verb in rule["verbs"]} == {"list", "watch"}
