# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The metrics adaptor behind the real aggregation layer: who is answered, with what certificate, and what there is when it goes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.cluster.egress import FORWARD
from tests.functional.conftest import EXAMPLES, Driver
from tests.functional.test_modules import succeeded
from tests.support.adaptor import API, GROUP, VERSION, Adaptor, selector
from tests.support.coordinator import Coordinator, Stage, endpoints_of
from tests.support.engines import Load


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster whose API server reaches pods."""
    with Cluster(a3_nodes=12, cpu_nodes=1, infer_operator=True, egress=True) as running:
        yield running


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as running:
        yield running


def serving(driver: Driver, stage: Stage) -> Coordinator:
    """A deployed service, and a coordinator behind its coordinator pod."""
    driver.config["motor_coordinator_config"]["prometheus_metrics_config"] = {"reuse_time": 1}
    driver.config["motor_deploy_config"].update(p_instances_num=1, d_instances_num=2)
    succeeded(driver.deploy(release=str(EXAMPLES / "release-2026-07")))
    coordinator = Coordinator(lambda: endpoints_of(driver.get("pods", "v1").values()), reuse=1)
    ports = stage.play(coordinator)
    pods = driver.get("pods", "v1").items()
    (pod,) = [name for name, found in pods if found["metadata"]["labels"].get("app") == "mindie-motor-coordinator"]
    driver.cluster.annotate_pod(driver.namespace, pod, {FORWARD: ports})
    return coordinator


@pytest.fixture
def adaptor(cluster: Cluster, namespace: str) -> Iterator[Adaptor]:
    """An adaptor that is not installed yet."""
    with Adaptor(cluster, f"{namespace}-system") as found:
        yield found


def test_installed_by_its_playbook_it_serves_the_load_of_a_service(adaptor: Adaptor, on_set: Driver, stage: Stage) -> None:
    coordinator = serving(on_set, stage)
    coordinator.loads = {"prefill": Load(waiting=7, running=2), "decode": Load(running=5)}
    done = adaptor.install(on_set.namespace, wait=True)
    (result,) = done.results
    assert result["program"]["missing"] == "" and done.actions[-1]["kind"] == "APIService"
    place = on_set.namespace
    assert adaptor.until_value(place, "num_requests_waiting", "prefill") == "7"
    assert adaptor.until_value(place, "vllm:num_requests_running", "decode") == "5"
