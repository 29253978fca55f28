# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rolling replacement: a new image or configuration reaches every pod, one instance per engine role at a time."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from typing import Any

import pytest

from tests.cluster.kube_client import PODS, Informer, KubeClient, Obj
from tests.functional.conftest import Driver
from tests.functional.test_modules import applied, succeeded

IMAGE = "registry.example/motor:2"
STOPPING = {"fake/stop-after": "300ms", "fake/ready-after": "200ms"}


class Eyes:
    """Sees every state of the pods of a namespace, and remembers the most instances of an engine role that were not Ready at once."""

    def __init__(self, driver: Driver, wanted: dict[str, int]) -> None:
        self._wanted = wanted
        self._pods: dict[str, Obj] = {}
        self.worst: dict[str, int] = defaultdict(int)
        self._informer = Informer(KubeClient.from_kubeconfig(driver.cluster.kubeconfig), PODS, self._saw, namespace=driver.namespace)

    def __enter__(self) -> Eyes:
        self._informer.start()
        assert self._informer.synced.wait(10)
        self.worst.clear()
        return self

    def __exit__(self, *_: object) -> None:
        self._informer.stop()

    def _saw(self, before: Obj | None, after: Obj | None) -> None:
        for obj in (before,) if before else ():
            self._pods.pop(obj["metadata"]["uid"], None)
        for obj in (after,) if after else ():
            self._pods[obj["metadata"]["uid"]] = obj
        ready: dict[str, set[str]] = defaultdict(set)
        for pod in self._pods.values():
            role, instance = _instance(pod)
            if role and _is_ready(pod):
                ready[role].add(instance)
        for role, count in self._wanted.items():
            self.worst[role] = max(self.worst[role], count - len(ready[role]))


def _instance(pod: Obj) -> tuple[str, str]:
    labels = pod["metadata"].get("labels") or {}
    if labels.get("infer.huawei.com/instanceset-name") in ("prefill", "decode"):
        return labels["infer.huawei.com/instanceset-name"], labels["infer.huawei.com/instanceset-index"]
    name = labels.get("training.kubeflow.org/job-name") or labels.get("app", "")
    found = re.fullmatch(r"(?:vllm|mindie-server)-([pd])(\d+)", name)
    return ({"p": "prefill", "d": "decode"}[found[1]], found[2]) if found else ("", "")


def _is_ready(pod: Obj) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    ready = any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
    return ready and not pod["metadata"].get("deletionTimestamp")


def images(driver: Driver) -> set[str]:
    """Images of all pod templates of live workloads."""
    found = [*driver.get("deployments").values(), *driver.get("statefulsets").values()]
    return {container["image"] for item in found for container in item["spec"]["template"]["spec"]["containers"]}


def pod_images(driver: Driver) -> set[str]:
    return {container["image"] for pod in driver.get("pods", "v1").values() for container in pod["spec"]["containers"]}


def with_image(driver: Driver, image: str = IMAGE) -> dict[str, Any]:
    return driver.with_config("motor_deploy_config", "image_name", value=image)


def deployed(driver: Driver, prefill: int, decode: int) -> None:
    driver.config["motor_deploy_config"].update(p_instances_num=prefill, d_instances_num=decode)
    succeeded(driver.deploy())


def test_a_new_image_replaces_one_instance_of_each_engine_role_at_a_time(driver: Driver) -> None:
    driver.cluster.behave(driver.namespace, {}, STOPPING)
    deployed(driver, 4, 2)
    before = driver.workloads()
    with Eyes(driver, {"prefill": 4, "decode": 2}) as eyes:
        result = succeeded(driver.deploy(with_image(driver), allow_restart=True))
    assert eyes.worst == {"prefill": 1, "decode": 1}
    assert images(driver) == {IMAGE} and pod_images(driver) == {IMAGE}
    after = driver.workloads()
    assert set(after) == set(before) and not set(after.values()) & set(before.values())
    assert result["service"]["standing"] == "applied" and all(item["state"] == "running" for item in result["service"]["instances"])
    assert not succeeded(driver.deploy(with_image(driver)))["changed"] and driver.proxy.mutating() == []


def test_a_new_image_is_refused_unless_restarts_are_allowed(driver: Driver) -> None:
    succeeded(driver.deploy())
    failed = driver.deploy(with_image(driver))
    assert failed["reason"] == "RestartNeeded" and "image_name" in failed["msg"] and "allow_restart" in failed["msg"]
    assert driver.proxy.mutating() == []


@pytest.mark.parametrize("key", ["motor_nodemanger_config", "motor_controller_config"])
def test_a_configuration_that_pods_read_at_start_reaches_every_pod(driver: Driver, key: str) -> None:
    deployed(driver, 2, 1)
    before = {pod["metadata"]["uid"] for pod in driver.get("pods", "v1").values()}
    config = driver.with_config(key, "a_new_section", "a_new_key", value=7)
    succeeded(driver.deploy(config, allow_restart=True))
    assert not before & {pod["metadata"]["uid"] for pod in driver.get("pods", "v1").values()}
    assert not succeeded(driver.deploy(config))["changed"]


def test_check_mode_predicts_a_replacement_and_writes_nothing(driver: Driver) -> None:
    deployed(driver, 2, 2)
    predicted = succeeded(driver.deploy(with_image(driver), allow_restart=True, check_mode=True))
    assert driver.proxy.mutating() == []
    done = succeeded(driver.deploy(with_image(driver), allow_restart=True))
    assert predicted["actions"] == done["actions"] and predicted["changed"]


def test_counts_and_image_change_in_one_run(driver: Driver) -> None:
    deployed(driver, 3, 1)
    config = with_image(driver)
    config["motor_deploy_config"].update(p_instances_num=2, d_instances_num=3)
    succeeded(driver.deploy(config, allow_restart=True))
    assert set(driver.workloads()) >= {driver.name("prefill", 0), driver.name("prefill", 1), driver.name("decode", 2)}
    assert len(driver.workloads()) >= 5 and driver.name("prefill", 2) not in driver.workloads()
    assert images(driver) == {IMAGE} and applied(driver)["counts"] == {"prefill": 2, "decode": 3}


def test_a_replacement_that_was_interrupted_goes_on_where_it_was(driver: Driver) -> None:
    deployed(driver, 3, 2)
    config, number = with_image(driver), 0
    while True:
        number += 1
        fault = driver.proxy.fault(
            mutating=True, nth=number * 3, method="DELETE|POST|PUT|PATCH", path="/(deployments|statefulsets|inferservicesets)", status=403
        )
        interrupted = driver.deploy(config, allow_restart=True)
        driver.proxy.heal()
        if fault.seen < number * 3:
            succeeded(interrupted)
            break
        assert interrupted["failed"]
        with Eyes(driver, {"prefill": 3, "decode": 2}) as eyes:
            succeeded(driver.deploy(config, allow_restart=True))
        assert max(eyes.worst.values()) <= 1
        assert images(driver) == {config["motor_deploy_config"]["image_name"]} == pod_images(driver)
        config = with_image(driver, f"registry.example/motor:{number + 2}")


def test_an_image_that_does_not_start_costs_one_instance_of_each_engine_role(driver: Driver) -> None:
    deployed(driver, 2, 2)
    driver.cluster.behave(driver.namespace, {}, {"fake/image-pull-error": "true"})
    failed = driver.deploy(with_image(driver), allow_restart=True, wait_timeout=40)
    assert failed["reason"] == "InstancesFailed" and "ImagePullBackOff" in failed["msg"]
    ready = [pod for pod in driver.get("pods", "v1").values() if _is_ready(pod)]
    assert sorted(_instance(pod)[0] for pod in ready if _instance(pod)[0]) == ["decode", "prefill"]
    assert sum(1 for pod in ready if not _instance(pod)[0]) == 2


def test_a_first_deployment_with_a_wrong_image_is_mended_without_asking(driver: Driver) -> None:
    behaviour = driver.cluster.behave(driver.namespace, {}, {"fake/image-pull-error": "true"})
    failed = driver.deploy(with_image(driver, "registry.example/no-such-image:1"), wait_timeout=30)
    assert failed["reason"] == "InstancesFailed"
    driver.cluster.stop_behaving(driver.namespace, behaviour)
    succeeded(driver.deploy(with_image(driver)))
    assert images(driver) == {IMAGE} and all(_is_ready(pod) for pod in driver.get("pods", "v1").values())


def test_a_standby_pair_gives_way_standby_first_then_the_master(driver: Driver) -> None:
    standby = {"standby_config": {"enable_master_standby": True}}
    driver.config["motor_coordinator_config"] = {**driver.config.get("motor_coordinator_config", {}), **standby}
    driver.cluster.behave(driver.namespace, {}, {"fake/stop-after": "300ms"})
    with Standby(driver) as pair:
        succeeded(driver.deploy())
        pair.order.clear()
        succeeded(driver.deploy({**driver.config, **with_image(driver)}, allow_restart=True))
    assert images(driver) == {IMAGE} == pod_images(driver)
    assert pair.order[:2] == ["standby", "master"], "the standby pod gave way first"


class Standby:
    """Plays the lock of a standby pair: of the coordinator's pods just one is Ready. `order` tells which pods went, in order."""

    def __init__(self, driver: Driver) -> None:
        self._driver, self._master = driver, ""
        self._pods: dict[str, Obj] = {}
        self.order: list[str] = []
        labels = {"app": "mindie-motor-coordinator"}
        driver.cluster.behave(driver.namespace, labels, {"fake/never-ready": "true"})
        selector = "app=mindie-motor-coordinator"
        self._informer = Informer(
            KubeClient.from_kubeconfig(driver.cluster.kubeconfig), PODS, self._saw, namespace=driver.namespace, selector=selector
        )

    def __enter__(self) -> Standby:
        self._informer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._informer.stop()

    def _saw(self, before: Obj | None, after: Obj | None) -> None:
        if before and not after:
            del self._pods[before["metadata"]["uid"]]
            self.order.append("master" if before["metadata"]["uid"] == self._master else "standby")
        for obj in (after,) if after else ():
            self._pods[obj["metadata"]["uid"]] = obj
        if self._master not in self._pods:
            running = [pod for pod in self._pods.values() if (pod.get("status") or {}).get("phase") == "Running"]
            for pod in sorted(running, key=lambda pod: pod["metadata"]["creationTimestamp"])[:1]:
                self._master = pod["metadata"]["uid"]
                time.sleep(0.3)
                self._driver.cluster.annotate_pod(self._driver.namespace, pod["metadata"]["name"], {"fake/never-ready": None})
