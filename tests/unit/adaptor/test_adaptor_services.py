# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the adaptor makes of an InferServiceSet and a user config: where to ask, and how."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from metrics_adaptor.finder import Pods, services_of, services_of_all


def infer_set(**spec: Any) -> dict[str, Any]:
    services = [
        {"name": "inference", "spec": {"ports": [{"port": 1025}]}},
        {"name": "numbers", "spec": {"ports": [{"port": 80}, {"port": 1027}]}},
    ]
    roles = [{"name": "coordinator", "services": services}, {"name": "controller"}, {"name": "prefill", "replicas": 2}]
    roles += [{"name": "decode", "replicas": 0, "scalingPolicy": {"type": "HPA"}}, {"name": "union", "replicas": 0}]
    metadata = {"name": "vllm", "namespace": "chat", "uid": "1"}
    return {"metadata": metadata, "spec": {"replicas": 1, "template": {"roles": roles}, **spec}}


def config_map(text: Any) -> dict[str, Any]:
    return {"data": {"user_config.json": text if isinstance(text, str) else json.dumps(text)}}


def test_the_coordinator_is_asked_at_the_services_of_its_set() -> None:
    (service,) = services_of(infer_set(), config_map({}))
    assert service.metrics_url == "http://numbers-vllm-0-coordinator.chat.svc:1027/metrics?type=dp"
    assert service.models_url == "http://inference-vllm-0-coordinator.chat.svc:1025/v1/models"
    assert (service.key, service.set_name, service.engine_roles) == (("chat", "vllm-0"), "vllm", ("prefill", "decode", "union"))
    assert service.served == ("prefill", "decode"), "those with instances, or with an autoscaler that sees to it"
    assert service.collection == 4.0


def test_each_service_of_a_set_is_one_of_its_own() -> None:
    found = list(services_of(infer_set(replicas=2), None))
    assert [service.name for service in found] == ["vllm-0", "vllm-1"]
    assert found[1].metrics_url.startswith("http://numbers-vllm-1-coordinator.chat.svc:")
    assert list(services_of(infer_set(replicas=0), None)) == []


def test_a_set_that_wants_more_services_than_the_operator_makes_has_none() -> None:
    assert len(list(services_of(infer_set(replicas=64), None))) == 64
    assert list(services_of(infer_set(replicas=65), None)) == [] == list(services_of(infer_set(replicas=2**31 - 1), None))


def test_no_namespace_has_so_many_services_that_others_would_have_none() -> None:
    many = [
        infer_set(replicas=60) | {"metadata": {"name": f"s{number:03}", "namespace": "many", "uid": str(number)}} for number in range(500)
    ]
    going = infer_set() | {"metadata": {"name": "a", "namespace": "many", "uid": "a", "deletionTimestamp": "2026-11-30T15:00:00Z"}}
    found = list(services_of_all([*reversed(many), going, infer_set()], []))
    assert [service.name for service in found if service.namespace == "chat"] == ["vllm-0"]
    assert [service.name for service in found if service.namespace == "many"] == [
        *(f"s000-{index}" for index in range(60)),
        *(f"s001-{index}" for index in range(4)),
    ]


@pytest.mark.parametrize("name", ["10.0.0.1:6443/#", "169.254.169.254/latest/?x=", "user@elsewhere", "a.b", "a b", "A", "", "a" * 64])
def test_no_name_in_a_set_leads_elsewhere(name: str) -> None:
    wrong = infer_set()
    for entry in wrong["spec"]["template"]["roles"][0]["services"]:
        entry["name"] = name
    (service,) = services_of(wrong, None)
    assert service.metrics_url == "http://mindie-motor-coordinator-obs-vllm-0-coordinator.chat.svc:1027/metrics?type=dp"
    assert service.models_url == "http://mindie-motor-coordinator-infer-vllm-0-coordinator.chat.svc:1025/v1/models"


@pytest.mark.parametrize(("switch", "schemes"), [("mgmt_tls_config", ("https", "http")), ("infer_tls_config", ("http", "https"))])
def test_each_port_has_its_own_tls_switch(switch: str, schemes: tuple[str, str]) -> None:
    config = {"motor_deploy_config": {"tls_config": {switch: {"enable_tls": True}}}}
    (service,) = services_of(infer_set(), config_map(config))
    assert (service.metrics_url.partition(":")[0], service.models_url.partition(":")[0]) == schemes
    config["motor_deploy_config"]["tls_config"][switch]["enable_tls"] = False
    (service,) = services_of(infer_set(), config_map(config))
    assert service.metrics_url.startswith("http:") and service.models_url.startswith("http:")


@pytest.mark.parametrize("given", [15, 0.5])
def test_the_user_config_says_how_often_is_collected(given: float) -> None:
    config = {"motor_coordinator_config": {"prometheus_metrics_config": {"reuse_time": given}}}
    assert next(iter(services_of(infer_set(), config_map(config)))).collection == given + 1


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"motor_deploy_config": 5}', "[" * 100_000, '{"motor_coordinator_config": []}'])
def test_a_user_config_that_cannot_be_read_is_as_good_as_none(text: str) -> None:
    assert list(services_of(infer_set(), config_map(text))) == list(services_of(infer_set(), None))


def test_without_an_entry_for_its_metrics_the_name_is_that_of_the_releases() -> None:
    bare = infer_set()
    bare["spec"]["template"]["roles"] = [{"name": "union"}]
    (service,) = services_of(bare, None)
    assert service.metrics_url.startswith("http://mindie-motor-coordinator-obs-vllm-0-coordinator.chat.svc:1027/")
    assert service.engine_roles == ("union",)


def pod(name: str, address: str = "", *, going: bool = False, namespace: str = "chat") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, **({"deletionTimestamp": "2026-11-30T15:00:00Z"} if going else {})}
    return {"metadata": metadata, "status": {"phase": "Running", **({"podIP": address} if address else {})}}


def test_pods_live_from_when_they_have_an_address_until_they_are_ending() -> None:
    pods = Pods(iter(range(10, 20)).__next__)
    pods.changed(None, pod("a"))
    assert pods.live("chat") == {}
    pods.changed(pod("a"), pod("a", "10.0.0.1"))
    pods.changed(None, pod("b", "10.0.0.2"), listed=True)
    pods.changed(None, pod("a", "10.0.0.1", namespace="other"))
    pods.changed(pod("a", "10.0.0.1"), pod("a", "10.0.0.1"))
    assert (pods.live("chat"), pods.live("other")) == ({"10.0.0.1": 10, "10.0.0.2": -math.inf}, {"10.0.0.1": 11})
    pods.changed(pod("a", "10.0.0.1"), pod("a", "10.0.0.1", going=True))
    pods.changed(pod("b", "10.0.0.2"), None)
    assert (pods.live("chat"), pods.live("other")) == ({}, {"10.0.0.1": 11})


def test_another_pod_with_the_same_address_has_it_since_it_came() -> None:
    pods = Pods(iter(range(10, 20)).__next__)
    pods.changed(None, pod("a", "10.0.0.1"), listed=True)
    pods.changed(pod("a", "10.0.0.1"), None)
    pods.changed(None, pod("b", "10.0.0.1"))
    assert pods.live("chat") == {"10.0.0.1": 10}
    pods.changed(None, pod("c", "10.0.0.1"))
    assert pods.live("chat") == {"10.0.0.1": 10}, "they share that of their server"
