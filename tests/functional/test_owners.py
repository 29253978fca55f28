# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts that an autoscaler owns, with the real controller of HorizontalPodAutoscalers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.cluster import Cluster
from tests.cluster.cluster import CRDS
from tests.cluster.kube_client import wait_for
from tests.functional.conftest import Driver
from tests.functional.test_modules import recorded_counts, succeeded
from tests.support.infer_services import hpa

SCALERS = "autoscaling/v2"
SETS = "mindcluster.huawei.com/v1"
INSTANCE_SET = {"apiVersion": SETS, "kind": "InstanceSet", "name": "vllm-0-prefill"}


def limits(driver: Driver, low: int, high: int) -> None:
    """Set the limits of prefill in the InferServiceSet, the way to scale by hand beside an autoscaler."""
    path = f"/apis/{SETS}/namespaces/{driver.namespace}/inferservicesets/vllm"
    roles = driver.cluster.get(path)["spec"]["template"]["roles"]
    number = next(number for number, role in enumerate(roles) if role["name"] == "prefill")
    patch = [{"op": "add", "path": f"/spec/template/roles/{number}/scalingPolicy", "value": hpa(low, high)}]
    assert driver.cluster.request("PATCH", path, patch, content_type="application/json-patch+json")[0] == 200


def autoscaled(driver: Driver, count: int, *, low: int, high: int) -> None:
    """The autoscaler brings prefill to `count`, as its limits want it, and all of its pods are ready."""
    limits(driver, low, high)

    def there() -> bool:
        found = driver.get("instancesets", SETS)["vllm-0-prefill"]
        return {found["spec"]["replicas"], found["status"].get("replicas"), found["status"].get("readyReplicas")} == {count}

    wait_for(there, 40, f"the autoscaler has made {count} prefill instances")


def scaler(driver: Driver, target: dict[str, str], *, low: int = 1, high: int = 4) -> None:
    """A HorizontalPodAutoscaler `by-load` that somebody made."""
    spec = {"scaleTargetRef": target, "minReplicas": low, "maxReplicas": high, "metrics": hpa(low, high)["spec"]["metrics"]}
    body = {"apiVersion": SCALERS, "kind": "HorizontalPodAutoscaler", "metadata": {"name": "by-load"}, "spec": spec}
    path = f"/apis/{SCALERS}/namespaces/{driver.namespace}/horizontalpodautoscalers"
    assert driver.cluster.request("POST", path, body)[0] == 201


def test_deploying_again_never_resets_what_an_autoscaler_changed(on_set: Driver) -> None:
    driver = on_set
    succeeded(driver.deploy())
    autoscaled(driver, 3, low=3, high=4)
    before = driver.workloads()
    again = succeeded(driver.deploy())
    assert not again["changed"] and driver.proxy.mutating() == []
    assert again["service"]["counts"] == {"prefill": 3, "decode": 1}
    assert again["service"]["owners"] == {"prefill": "HorizontalPodAutoscaler vllm-0-prefill-scaler"}
    (warning,) = again["warnings"]
    assert "3 prefill instances" in warning and "2 are configured" in warning and "vllm-0-prefill-scaler" in warning

    grown = succeeded(driver.deploy(driver.with_config("motor_deploy_config", "d_instances_num", value=2)))
    assert grown["service"]["counts"] == {"prefill": 3, "decode": 2}
    assert {name: driver.workloads()[name] for name in before} == before
    assert recorded_counts(driver) == (2, 2), "the user's configuration is stored as it was given"


def test_another_count_is_refused_for_that_engine_role_alone(on_set: Driver) -> None:
    driver = on_set
    succeeded(driver.deploy())
    autoscaled(driver, 3, low=3, high=4)
    refused = driver.scale(prefill=2, decode=2)
    assert refused["reason"] == "CountOwned" and refused["paths"] == ["prefill"]
    assert "HorizontalPodAutoscaler vllm-0-prefill-scaler owns this count (now 3)" in refused["msg"]
    assert "minReplicas and maxReplicas in the scalingPolicy of role prefill" in refused["msg"]
    assert driver.proxy.mutating() == []

    others = {"namespace": driver.namespace, "wait_timeout": 60}
    result = succeeded(driver.run("motor_instance_scale", instances={"decode": 2}, **others))
    assert result["service"]["counts"] == {"prefill": 3, "decode": 2}
    assert not succeeded(driver.run("motor_instance_scale", instances={"decode": 2}, **others))["changed"]
    assert succeeded(driver.scale(prefill=3, decode=1))["service"]["counts"] == {"prefill": 3, "decode": 1}


def test_what_the_message_says_to_edit_changes_the_count(on_set: Driver) -> None:
    driver = on_set
    succeeded(driver.deploy())
    autoscaled(driver, 2, low=1, high=4)
    autoscaled(driver, 4, low=4, high=6)
    autoscaled(driver, 3, low=1, high=3)
    assert succeeded(driver.scale(prefill=3, decode=2))["service"]["counts"] == {"prefill": 3, "decode": 2}


def test_growing_does_not_wait_for_what_the_autoscaler_adds_meanwhile(on_set: Driver) -> None:
    """The count of prefill goes from 2 to 3 while decode is being scaled, and the third never becomes ready."""
    driver = on_set
    succeeded(driver.deploy())
    autoscaled(driver, 2, low=2, high=4)
    driver.cluster.behave(driver.namespace, {"infer.huawei.com/instanceset-name": "prefill"}, {"fake/never-ready": "true"})
    limits(driver, 3, 4)
    result = succeeded(driver.run("motor_instance_scale", namespace=driver.namespace, instances={"decode": 2}, wait_timeout=30))
    assert result["service"]["counts"]["decode"] == 2


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_an_autoscaler_of_one_instance_owns_the_count_and_the_message_says_what_it_really_changes(
    on_deployments: Driver, on_set: Driver, kind: str
) -> None:
    driver, name = (on_deployments, "vllm-p0") if kind == "Deployment" else (on_set, "vllm-0-prefill-0")
    succeeded(driver.deploy())
    scaler(driver, {"apiVersion": "apps/v1", "kind": kind, "name": name})
    refused = driver.scale(prefill=3, decode=1)
    assert refused["reason"] == "CountOwned" and "HorizontalPodAutoscaler by-load" in refused["msg"]
    assert f"it changes the pods of {kind} {name}, which is one instance, and never the number of instances" in refused["msg"]
    assert succeeded(driver.scale(prefill=2, decode=2))["service"]["counts"] == {"prefill": 2, "decode": 2}


def test_deploying_again_keeps_the_pods_that_an_autoscaler_gave_a_deployment(on_deployments: Driver) -> None:
    driver = on_deployments
    succeeded(driver.deploy())
    for name, count in (("vllm-p0", 3), ("mindie-motor-coordinator", 2)):
        scaler_of = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
        scaler(driver, scaler_of, low=count)
        path = f"/apis/{SCALERS}/namespaces/{driver.namespace}/horizontalpodautoscalers/by-load"

        def grown(name: str = name, count: int = count) -> bool:
            return bool(driver.get("deployments")[name]["status"].get("readyReplicas") == count)

        wait_for(grown, 30, f"{count} pods of {name}")
        again = succeeded(driver.deploy())
        assert not again["changed"] and driver.get("deployments")[name]["spec"]["replicas"] == count
        driver.cluster.request("DELETE", path)
        # Without an autoscaler the number of pods is ours again, and changing it is refused as it was.
        assert driver.deploy()["reason"] == "RestartNeeded"
        body = {"spec": {"replicas": 1}}
        deployment = f"/apis/apps/v1/namespaces/{driver.namespace}/deployments/{name}"
        assert driver.cluster.request("PATCH", deployment, body, content_type="application/merge-patch+json")[0] == 200


@pytest.fixture
def keda(cluster: Cluster) -> Iterator[None]:
    """The cluster knows ScaledObjects for one test: elsewhere they would cost a request each."""
    cluster.apply_crds(CRDS / "keda")
    wait_for(lambda: _serves_keda(cluster), 20, "the group keda.sh is served")
    yield
    cluster.request("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/scaledobjects.keda.sh")
    wait_for(lambda: not _serves_keda(cluster), 20, "ScaledObjects are unknown again")


@pytest.mark.usefixtures("keda")
@pytest.mark.parametrize("backend", ["deployments", "infer_service_set"])
def test_a_scaled_object_owns_a_count(on_deployments: Driver, on_set: Driver, backend: str) -> None:
    driver, target = (on_deployments, {"name": "vllm-p1"}) if backend == "deployments" else (on_set, INSTANCE_SET)
    succeeded(driver.deploy())
    path = f"/apis/keda.sh/v1alpha1/namespaces/{driver.namespace}/scaledobjects"
    body: dict[str, Any] = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "by-queue"}}
    assert driver.cluster.request("POST", path, {**body, "spec": {"scaleTargetRef": target, "maxReplicaCount": 4}})[0] == 201
    refused = driver.scale(prefill=3, decode=1)
    assert refused["reason"] == "CountOwned" and "ScaledObject by-queue owns this count (now 2)" in refused["msg"]
    assert driver.proxy.mutating() == []
    assert succeeded(driver.scale(prefill=2, decode=2))["service"]["owners"] == {"prefill": "ScaledObject by-queue"}
    kept = succeeded(driver.deploy(driver.with_config("motor_deploy_config", "p_instances_num", value=3)))
    assert kept["service"]["counts"]["prefill"] == 2 and "ScaledObject by-queue" in kept["warnings"][0]


def test_a_cluster_with_other_kinds_of_keda_alone_is_no_error(on_deployments: Driver) -> None:
    """The group is served, ScaledObjects are not. It was not served when the client last kept in a file what is."""
    driver = on_deployments
    succeeded(driver.run("motor_service_info", namespace=driver.namespace))
    time.sleep(1.1)
    (crd,) = yaml.safe_load_all((CRDS / "keda" / "scaledobjects.yaml").read_text())
    crd["metadata"]["name"] = "triggerauthentications.keda.sh"
    crd["spec"]["names"] = {"kind": "TriggerAuthentication", "plural": "triggerauthentications"}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert driver.cluster.request("POST", path, crd)[0] == 201
    try:
        wait_for(lambda: _serves_keda(driver.cluster), 20, "the group keda.sh is served")
        assert succeeded(driver.deploy())["changed"]
        assert any(request.path.endswith("/scaledobjects") for request in driver.proxy.requests)
    finally:
        driver.cluster.request("DELETE", f"{path}/triggerauthentications.keda.sh")
        wait_for(lambda: not _serves_keda(driver.cluster), 20, "the group keda.sh is gone")


def _serves_keda(cluster: Cluster) -> bool:
    return "keda.sh" in {group["name"] for group in cluster.get("/apis")["groups"]}


def test_replacing_instances_keeps_what_an_autoscaler_changed(on_set: Driver) -> None:
    driver = on_set
    succeeded(driver.deploy())
    autoscaled(driver, 3, low=3, high=4)
    other = driver.with_config("motor_deploy_config", "image_name", value="registry.example/other:2")
    replaced = succeeded(driver.deploy(other, allow_restart=True, wait_timeout=200))
    assert replaced["service"]["counts"] == {"prefill": 3, "decode": 1}
    pods = driver.get("pods", "v1")
    engines = [pod for pod in pods.values() if "infer.huawei.com/instanceset-index" in pod["metadata"]["labels"]]
    images = {container["image"] for pod in engines for container in pod["spec"]["containers"]}
    assert images == {"registry.example/other:2"}
    assert "vllm-0-prefill-scaler" in driver.get("horizontalpodautoscalers", SCALERS)
