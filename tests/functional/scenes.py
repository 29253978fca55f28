# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pieces of work that between them use every right of every manifest in examples/rbac. A new right needs a scene that uses it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from ansible_collections.ascend.mindie.plugins.module_utils._cluster import diagnosis
from ansible_collections.ascend.mindie.plugins.module_utils._motor import events
from ansible_collections.ascend.mindie.plugins.module_utils._motor.record import APPLIED_ANNOTATION
from tests.cluster.kube_client import wait_for
from tests.functional import adaptor_rights, watcher_rights
from tests.functional.conftest import EXAMPLES, Driver
from tests.functional.jobs import JOBS
from tests.functional.jobs import templates as job_templates
from tests.functional.rules import mapping
from tests.functional.test_modules import succeeded
from tests.support.infer_services import hpa

CLAIM = {"type": "pvc", "storage_class_name": "fast"}
OURS = {"app.kubernetes.io/managed-by": "ascend.mindie", "app.kubernetes.io/part-of": "mindie-motor"}
NEWER: dict[str, Any] = {"release": str(EXAMPLES / "release-2026-07"), "wait": False}
RBAC = "rbac.authorization.k8s.io/v1"
OTHER_LABEL = {"metadata": {"labels": {"app.kubernetes.io/component": "other"}}}


@dataclass(frozen=True)
class Scene:
    """A piece of work: `prepare` as administrator, then `act` as the user of a kubeconfig."""

    playbook: str
    name: str
    backend: str
    prepare: Callable[[Driver], Any]
    act: Callable[[Driver, str], dict[str, Any]]


def nothing(driver: Driver) -> None:
    """A namespace without a service."""


def to_be_deployed_with_a_claim(driver: Driver) -> None:
    driver.config = driver.with_config("motor_deploy_config", "storage", value=[CLAIM])


def deployed(driver: Driver) -> None:
    succeeded(driver.deploy())


def deployed_with_a_claim(driver: Driver) -> None:
    to_be_deployed_with_a_claim(driver)
    succeeded(driver.deploy(**NEWER))


def without_a_lease(driver: Driver) -> None:
    """As a service looks that nobody has changed since Motor's own deployer made it."""
    deployed(driver)
    assert driver.cluster.request("DELETE", f"{coordination(driver)}/ascend-mindie")[0] == 200


def with_unready_pods(number: int) -> Callable[[Driver], None]:
    """A service of which so many engine pods are not ready."""

    def prepare(driver: Driver) -> None:
        deployed(driver)
        engines = [name for name, pod in driver.get("pods", "v1").items() if "huawei.com/Ascend910" in str(pod["spec"])][:number]
        for name in engines:
            driver.cluster.annotate_pod(driver.namespace, name, {"fake/never-ready": "true"})
        wait_for(lambda: all(not is_ready(driver.get("pods", "v1")[name]) for name in engines), 20, "pods that are not ready")

    return prepare


def with_slow_pods(driver: Driver) -> None:
    """New pods take a while until they are Ready."""
    deployed(driver)
    driver.cluster.behave(driver.namespace, {}, {"fake/ready-after": "4s"})


def with_a_standby_coordinator(driver: Driver) -> None:
    driver.config = driver.with_config("motor_coordinator_config", "standby_config", value={"enable_master_standby": True})
    deployed(driver)


def with_a_long_history(driver: Driver) -> None:
    """The next record of success is one more than are kept."""
    deployed(driver)
    applied = json.loads(driver.motor_config()["metadata"]["annotations"][APPLIED_ANNOTATION])
    body = {"metadata": {"annotations": {APPLIED_ANNOTATION: json.dumps({**applied, "revision": 10})}}}
    path = f"/api/v1/namespaces/{driver.namespace}/configmaps/motor-config"
    assert driver.cluster.request("PATCH", path, body, content_type="application/merge-patch+json")[0] == 200


def with_an_older_revision(driver: Driver) -> None:
    deployed(driver)
    succeeded(driver.scale(prefill=1, decode=1))


def without_prefill_instances(driver: Driver) -> None:
    """Somebody deleted them, so that a new one can be copied from the history alone."""
    deployed(driver)
    for index in range(2):
        path = f"/apis/apps/v1/namespaces/{driver.namespace}/deployments/{driver.name('prefill', index)}"
        assert driver.cluster.request("DELETE", path)[0] == 200


def with_a_scaling_policy(driver: Driver) -> None:
    """The prefill instances of the InferServiceSet belong to an autoscaler, and its InstanceSets say how many there are to be."""
    deployed(driver)
    path = f"/apis/mindcluster.huawei.com/v1/namespaces/{driver.namespace}/inferservicesets/vllm"
    roles = driver.cluster.get(path)["spec"]["template"]["roles"]
    number = [role["name"] for role in roles].index("prefill")
    patch_ = [{"op": "add", "path": f"/spec/template/roles/{number}/scalingPolicy", "value": hpa(1, 4)}]
    status, answer = driver.cluster.request("PATCH", path, patch_, content_type="application/json-patch+json")
    assert status == 200, answer


def altered_with_leftovers(driver: Driver) -> None:
    """Every object that may be updated in place has a label of somebody else, and there are objects of ours that nobody wants."""
    deployed(driver)
    namespace, cluster = driver.namespace, driver.cluster
    own, whole = f"/api/v1/namespaces/{namespace}", f"/apis/{RBAC}"
    live = f"{whole}/clusterroles?labelSelector=app.kubernetes.io/instance={namespace}"
    role = cluster.get(live)["items"][0]["metadata"]["name"]
    binding = cluster.get(live.replace("clusterroles", "clusterrolebindings"))["items"][0]["metadata"]["name"]
    paths = [f"{whole}/clusterroles/{role}", f"{whole}/clusterrolebindings/{binding}"]
    paths += [f"{own}/serviceaccounts/{name}" for name in driver.get("serviceaccounts", "v1") if name != "default"]
    paths += [
        f"{own}/services/{name}" for name, found in driver.get("services", "v1").items() if not found["metadata"].get("ownerReferences")
    ]
    paths.append(workload(driver))
    for path in paths:
        status, answer = cluster.request("PATCH", path, OTHER_LABEL, content_type="application/merge-patch+json")
        assert status == 200, answer
    labels = {**OURS, "app.kubernetes.io/instance": namespace}
    leftovers: dict[str, dict[str, Any]] = {
        f"{own}/services": {"spec": {"ports": [{"port": 1}]}},
        f"{own}/serviceaccounts": {},
        f"{whole}/clusterroles": {},
        f"{whole}/clusterrolebindings": {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}},
        f"/apis/apps/v1/namespaces/{namespace}/deployments": {"spec": DEPLOYMENT},
    }
    for path, body in leftovers.items():
        status, answer = cluster.request("POST", path, {"metadata": {"name": f"left-{namespace}", "labels": labels}, **body})
        assert status == 201, answer


DEPLOYMENT = {
    "replicas": 0,
    "selector": {"matchLabels": {"app": "left"}},
    "template": {"metadata": {"labels": {"app": "left"}}, "spec": {"containers": [{"name": "left", "image": "left"}]}},
}


def coordination(driver: Driver) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{driver.namespace}/leases"


def workload(driver: Driver) -> str:
    """Path of a workload that is updated in place when its labels differ."""
    if driver.backend == "deployments":
        return f"/apis/apps/v1/namespaces/{driver.namespace}/deployments/mindie-motor-controller"
    return f"/apis/mindcluster.huawei.com/v1/namespaces/{driver.namespace}/inferservicesets/vllm"


def is_ready(pod: dict[str, Any]) -> bool:
    return any(row["type"] == "Ready" and row["status"] == "True" for row in pod["status"].get("conditions", ()))


def deploy(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    return driver.deploy(kubeconfig=kubeconfig)


def deploy_with_a_claim(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    return driver.deploy(kubeconfig=kubeconfig, **NEWER)


def deploy_more(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    return driver.deploy(kubeconfig=kubeconfig, instances={"prefill": 1, "decode": 2}, wait=False)


def scale_both_ways(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    return driver.scale(prefill=1, decode=2, kubeconfig=kubeconfig)


def scale_out(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    return driver.scale(prefill=3, decode=1, kubeconfig=kubeconfig, wait=False)


def scale_slowly(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    """Wait for long; what happens after ten seconds happens soon here."""
    with patch.object(events, "FIRST_SECONDS", 0.5), patch.object(diagnosis, "FIRST_SECONDS", 0.5):
        return driver.scale(prefill=3, decode=1, kubeconfig=kubeconfig)


def scale_in_when_idle(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    """Nothing listens behind the coordinator's Service, so that time runs out at once."""
    return driver.scale(prefill=1, decode=1, kubeconfig=kubeconfig, wait=False, wait_idle={"timeout": 1, "on_timeout": "continue"})


def deploy_fewer_when_idle(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    idle = {"timeout": 1, "on_timeout": "continue"}
    return driver.deploy(kubeconfig=kubeconfig, instances={"prefill": 1, "decode": 1}, wait=False, wait_idle=idle)


def deploy_slowly(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    with patch.object(events, "FIRST_SECONDS", 0.5), patch.object(diagnosis, "FIRST_SECONDS", 0.5):
        return driver.deploy(kubeconfig=kubeconfig, instances={"prefill": 3, "decode": 1})


def go_back(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    return driver.run("motor_service", namespace=driver.namespace, revision=1, kubeconfig=kubeconfig, wait=False)


def replace_image(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    changed = driver.with_config("motor_deploy_config", "image_name", value="registry.example/motor:newer")
    return driver.deploy(changed, kubeconfig=kubeconfig, allow_restart=True)


def update_config(driver: Driver, kubeconfig: str, **options: Any) -> dict[str, Any]:
    changed = driver.with_config("motor_controller_config", "logging_config", "log_level", value="DEBUG")
    return driver.run("motor_config_baseline", user_config_content=changed, kubeconfig=kubeconfig, **options)


QUEUE = {"min": 1, "max": 4, "preset": "queue"}


def autoscale(driver: Driver, kubeconfig: str, **options: Any) -> dict[str, Any]:
    return driver.run("motor_scaling_policy", namespace=driver.namespace, policies={"prefill": QUEUE}, kubeconfig=kubeconfig, **options)


def autoscale_slowly(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    """A minimum that the autoscaler has to reach first."""
    more = {"prefill": {**QUEUE, "min": 3}}
    with patch.object(events, "FIRST_SECONDS", 0.5), patch.object(diagnosis, "FIRST_SECONDS", 0.5):
        return driver.run("motor_scaling_policy", namespace=driver.namespace, policies=more, outside="scale", kubeconfig=kubeconfig)


def with_policies(driver: Driver) -> None:
    """Set by the module."""
    deployed(driver)
    succeeded(driver.run("motor_scaling_policy", namespace=driver.namespace, policies={"prefill": QUEUE}))


def autoscale_no_more(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    return driver.run("motor_scaling_policy", namespace=driver.namespace, state="absent", kubeconfig=kubeconfig)


def remove(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    return driver.remove(kubeconfig=kubeconfig, remove_claims=True)


def predict_all(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    """All that only reads, up to the first failure."""
    look: dict[str, Any] = {"kubeconfig": kubeconfig, "check_mode": True}
    info: dict[str, Any] = {"kubeconfig": kubeconfig, "namespace": driver.namespace}
    runs: tuple[Callable[[], dict[str, Any]], ...] = (
        lambda: driver.run("motor_service_info", **info),
        lambda: driver.run("motor_config_baseline_info", **info),
        lambda: driver.scale(prefill=3, decode=2, **look),
        lambda: update_config(driver, **look),
        lambda: driver.remove(**look),
        lambda: driver.deploy(**look),
    )
    warnings: list[str] = []
    for run in runs:
        result = run()
        if result.get("failed"):
            return result
        warnings.extend(result.get("warnings", ()))
    return {**result, "warnings": warnings}


def predict_deploy(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    return driver.deploy(kubeconfig=kubeconfig, check_mode=True)


def predict_restart(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    changed = driver.with_config("motor_deploy_config", "image_name", value="registry.example/motor:newer")
    return driver.deploy(changed, kubeconfig=kubeconfig, allow_restart=True, check_mode=True)


def with_a_rule(driver: Driver) -> None:
    succeeded(driver.run("motor_scaling_rule", namespace=driver.namespace, rule=mapping(2, 1)))


def apply_rule(driver: Driver, kubeconfig: str, **options: Any) -> dict[str, Any]:
    return driver.run("motor_scaling_rule", namespace=driver.namespace, rule=mapping(3, 1), kubeconfig=kubeconfig, **options)


def remove_rule(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    return driver.run("motor_scaling_rule", namespace=driver.namespace, state="absent", kubeconfig=kubeconfig)


def look_at_rule(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    found = driver.run("motor_scaling_rule_info", namespace=driver.namespace, kubeconfig=kubeconfig)
    return found if found.get("failed") else apply_rule(driver, kubeconfig, check_mode=True)


def small(driver: Driver) -> None:
    """A namespace without a service, for one of AscendJobs of which many fit."""
    driver.config["motor_deploy_config"].update(p_pod_npu_num=1, d_pod_npu_num=1)


def jobs_deployed(driver: Driver) -> None:
    small(driver)
    deployed(driver)


def jobs_with_slow_pods(driver: Driver) -> None:
    small(driver)
    with_slow_pods(driver)


def jobs_with_leftovers(driver: Driver) -> None:
    """A control job and a Service have a label of somebody else, and there are objects of ours that nobody wants."""
    jobs_deployed(driver)
    base, own = f"/apis/{JOBS}/namespaces/{driver.namespace}/ascendjobs", f"/api/v1/namespaces/{driver.namespace}"
    for path in (f"{base}/mindie-ms-controller", f"{own}/services/mindie-ms-infer"):
        status, answer = driver.cluster.request("PATCH", path, OTHER_LABEL, content_type="application/merge-patch+json")
        assert status == 200, answer
    table = {"metadata": {"name": "rings-config-mindie-server-p7", "labels": OURS}}
    service = {"metadata": {"name": "left", "labels": OURS}, "spec": {"ports": [{"port": 1}]}}
    for path, body in ((f"{own}/configmaps", table), (f"{own}/services", service)):
        status, answer = driver.cluster.request("POST", path, body)
        assert status == 201, answer


def deploy_more_jobs(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    return driver.deploy(kubeconfig=kubeconfig, instances={"prefill": 1, "decode": 2})


def deploy_jobs_slowly(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    with patch.object(events, "FIRST_SECONDS", 0.5):
        return driver.deploy(kubeconfig=kubeconfig, instances={"prefill": 3, "decode": 1})


def replace_job_image(driver: Driver, kubeconfig: str, **options: Any) -> dict[str, Any]:
    return driver.deploy(kubeconfig=kubeconfig, job_templates=job_templates(image="mindie:other"), allow_restart=True, **options)


def adopt(driver: Driver, kubeconfig: str, **options: Any) -> dict[str, Any]:
    return driver.run("motor_config_baseline", namespace=driver.namespace, state="adopted", kubeconfig=kubeconfig, **options)


def without_one_job(driver: Driver) -> None:
    jobs_deployed(driver)
    assert driver.cluster.request("DELETE", f"/apis/{JOBS}/namespaces/{driver.namespace}/ascendjobs/mindie-server-p1")[0] == 200
    wait_for(lambda: not any("p1" in name for name in driver.get("pods", "v1")), 20, "pods that are gone")


def adopt_what_is_left(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    return adopt(driver, kubeconfig, instances={"prefill": 1, "decode": 1})


def predict_jobs(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    """All that only reads of a service of AscendJobs, up to the first failure."""
    look: dict[str, Any] = {"kubeconfig": kubeconfig, "check_mode": True}
    runs: tuple[Callable[[], dict[str, Any]], ...] = (
        lambda: read(driver, kubeconfig),
        lambda: driver.scale(prefill=3, decode=2, **look),
        lambda: adopt(driver, **look),
        lambda: driver.remove(**look),
        lambda: replace_job_image(driver, **look),
    )
    for run in runs:
        result = run()
        if result.get("failed"):
            return result
    return result


def read(driver: Driver, kubeconfig: str) -> dict[str, Any]:
    return driver.run("motor_service_info", namespace=driver.namespace, kubeconfig=kubeconfig)


SCENES = (
    Scene("deploy", "converge", "deployments", altered_with_leftovers, deploy_more),
    Scene("deploy", "converge", "infer_service_set", altered_with_leftovers, deploy_more),
    Scene("deploy", "new", "deployments", to_be_deployed_with_a_claim, deploy_with_a_claim),
    Scene("deploy", "new", "infer_service_set", nothing, deploy),
    Scene("deploy", "long history", "deployments", with_a_long_history, deploy_more),
    Scene("deploy", "allow_restart", "infer_service_set", deployed, replace_image),
    Scene("deploy", "revision", "deployments", with_an_older_revision, go_back),
    Scene("deploy", "slow", "infer_service_set", with_slow_pods, deploy_slowly),
    Scene("deploy", "wait_idle", "deployments", deployed, deploy_fewer_when_idle),
    Scene("deploy", "allow_restart", "deployments", with_a_standby_coordinator, replace_image),
    Scene("deploy", "new", "ascend_jobs", small, deploy),
    Scene("deploy", "converge", "ascend_jobs", jobs_with_leftovers, deploy_more_jobs),
    Scene("deploy", "allow_restart", "ascend_jobs", jobs_deployed, replace_job_image),
    Scene("deploy", "slow", "ascend_jobs", jobs_with_slow_pods, deploy_jobs_slowly),
    Scene("scale", "both ways", "deployments", deployed, scale_both_ways),
    Scene("scale", "both ways", "infer_service_set", deployed, scale_both_ways),
    Scene("scale", "both ways", "ascend_jobs", jobs_deployed, scale_both_ways),
    Scene("scale", "slow", "ascend_jobs", jobs_with_slow_pods, scale_slowly),
    Scene("scale", "of a deployer's service", "deployments", without_a_lease, scale_out),
    Scene("scale", "long history", "deployments", with_a_long_history, scale_out),
    Scene("scale", "from the history", "deployments", without_prefill_instances, scale_out),
    Scene("scale", "slow", "infer_service_set", with_slow_pods, scale_slowly),
    Scene("scale", "wait_idle", "deployments", deployed, scale_in_when_idle),
    Scene("scale", "one pod is not ready", "deployments", with_unready_pods(1), scale_out),
    Scene("scale", "pods are not ready", "deployments", with_unready_pods(2), scale_out),
    Scene("update_config", "an autoscaler", "infer_service_set", with_a_scaling_policy, update_config),
    Scene("update_config", "log level", "deployments", deployed, update_config),
    Scene("update_config", "log level", "infer_service_set", deployed, update_config),
    Scene("update_config", "of a deployer's service", "deployments", without_a_lease, update_config),
    Scene("update_config", "long history", "deployments", with_a_long_history, update_config),
    Scene("update_config", "adopted", "ascend_jobs", without_one_job, adopt_what_is_left),
    Scene("scaling_rule", "another", "deployments", with_a_rule, apply_rule),
    Scene("scaling_rule", "new", "deployments", nothing, apply_rule),
    Scene("scaling_rule", "removed", "deployments", with_a_rule, remove_rule),
    Scene("autoscale", "on", "infer_service_set", deployed, autoscale),
    Scene("autoscale", "off", "infer_service_set", with_policies, autoscale_no_more),
    Scene("autoscale", "slow", "infer_service_set", with_slow_pods, autoscale_slowly),
    Scene("autoscale", "of a deployer's service", "infer_service_set", without_a_lease, autoscale),
    Scene("autoscale", "long history", "infer_service_set", with_a_long_history, autoscale),
    Scene("autoscale", "one pod is not ready", "infer_service_set", with_unready_pods(1), autoscale),
    Scene("watcher", "new", "deployments", nothing, watcher_rights.install),
    Scene("watcher", "changed", "deployments", watcher_rights.altered, watcher_rights.change),
    Scene("watcher", "reduced", "deployments", watcher_rights.installed, watcher_rights.reduce),
    Scene("watcher", "removed", "deployments", watcher_rights.installed, watcher_rights.remove),
    Scene("adaptor", "new", "deployments", nothing, adaptor_rights.new),
    Scene("adaptor", "changed", "deployments", adaptor_rights.altered, adaptor_rights.change),
    Scene("adaptor", "reduced", "deployments", adaptor_rights.installed, adaptor_rights.reduce),
    Scene("adaptor", "removed", "deployments", adaptor_rights.installed, adaptor_rights.remove),
    Scene("remove", "an autoscaler", "infer_service_set", with_a_scaling_policy, remove),
    Scene("remove", "all", "deployments", deployed_with_a_claim, remove),
    Scene("remove", "all", "infer_service_set", deployed, remove),
    Scene("remove", "all", "ascend_jobs", jobs_deployed, remove),
    Scene("remove", "of a deployer's service", "deployments", without_a_lease, remove),
    Scene("read", "an autoscaler", "infer_service_set", with_a_scaling_policy, read),
    Scene("read", "live", "deployments", deployed, predict_all),
    Scene("read", "live", "infer_service_set", deployed, predict_all),
    Scene("read", "live", "ascend_jobs", jobs_deployed, predict_jobs),
    Scene("read", "allow_restart", "infer_service_set", deployed, predict_restart),
    Scene("read", "new", "deployments", nothing, predict_deploy),
    Scene("read", "new", "infer_service_set", nothing, predict_deploy),
    Scene("read", "a scaling rule", "deployments", with_a_rule, look_at_rule),
    Scene("read", "one pod is not ready", "deployments", with_unready_pods(1), read),
    Scene("read", "pods are not ready", "deployments", with_unready_pods(2), read),
)
