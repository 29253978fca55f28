# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drift: what the live instances have more, less or otherwise than the baseline."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import drift, record, siblings
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import Refused
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot, service_state
from ansible_collections.ascend.mindie.plugins.module_utils._motor.stored import baseline_counts, readable_config

from . import services

CONFIG = services.user_config(prefill=3, decode=1)
SET_CONFIG = services.user_config(prefill=3, decode=1, deploy_mode="infer_service_set")
# Instance 1 is missing.
HOLE = [("prefill", 0), ("prefill", 2), ("decode", 0)]
AUTOSCALER = {
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "by-load"},
    "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "vllm-p0"}},
}


def unfinished(verb: str = "scale") -> dict[str, Any]:
    intent = {"verb": verb, "run": "another", "from": {}, "to": {}}
    return {"metadata": {"annotations": {record.INTENT_ANNOTATION: json.dumps(intent)}}, "spec": {}}


def shown(shot: Snapshot, state: str) -> list[str]:
    return [item.name for item in drift.reported(shot).instances if item.state == state]


def with_image(shot: Snapshot, name: str, image: str) -> Snapshot:
    deployment = copy.deepcopy(next(item for item in shot.deployments if item["metadata"]["name"] == name))
    deployment["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return shot.with_object(deployment)


@pytest.mark.parametrize("applied", [True, False], ids=["recorded", "made by the deployer"])
def test_an_index_that_the_baseline_has_and_the_cluster_lacks_is_missing(applied: bool) -> None:
    shot = services.snapshot(CONFIG, HOLE, applied=applied)
    assert shown(shot, "missing") == ["vllm-p1"]
    found = drift.find(shot)
    assert found and found.to_dict() == {"missing": ["vllm-p1"], "surplus": [], "altered": [], "foreign": []}


def test_instances_beyond_the_baseline_are_surplus_and_stay_countable() -> None:
    shot = services.snapshot(CONFIG, services.running(prefill=5, decode=1))
    assert shown(shot, "surplus") == ["vllm-p3", "vllm-p4"] and drift.find(shot).surplus == ("vllm-p3", "vllm-p4")
    assert drift.reported(shot).counts() == {"prefill": 5, "decode": 1}
    assert {item.state for item in service_state(shot).instances} == {"running"}, "plans see what the pods make of it"


def test_missing_and_surplus_instances_of_an_infer_service_set() -> None:
    shot = services.set_snapshot(SET_CONFIG, prefill=2, decode=2)
    assert drift.find(shot).to_dict() == {
        "missing": ["vllm-0-prefill-2"],
        "surplus": ["vllm-0-decode-1"],
        "altered": [],
        "foreign": [],
    }
    assert shown(shot, "missing") == ["vllm-0-prefill-2"] and shown(shot, "surplus") == ["vllm-0-decode-1"]


def test_other_indexes_than_the_lowest_are_no_drift_when_the_count_fits() -> None:
    assert not drift.find(services.snapshot(services.user_config(prefill=2), HOLE))


def test_an_instance_that_somebody_is_removing_is_missing_but_shown_once() -> None:
    shot = services.snapshot(CONFIG, HOLE).with_object(services.deployment("prefill", 1, deleting=True))
    assert drift.find(shot).missing == ("vllm-p1",)
    assert [item.state for item in drift.reported(shot).instances if item.name == "vllm-p1"] == ["terminating"]


def test_what_an_unfinished_change_has_left_is_no_drift() -> None:
    shot = services.snapshot(CONFIG, HOLE)
    assert drift.find(shot) and not drift.find(replace(shot, lease=unfinished()))
    shot.config_map["data"]["boot.sh"] += "# written by a change that has not ended\n"
    assert not drift.find(shot) and shown(shot, "missing") == []


def test_the_count_of_an_autoscaler_is_no_drift() -> None:
    assert not drift.find(services.snapshot(CONFIG, services.running(prefill=5, decode=1), autoscalers=(AUTOSCALER,)))


def test_an_instance_that_differs_from_its_siblings_is_altered() -> None:
    shot = services.snapshot(CONFIG, services.running(prefill=3, decode=1))
    assert not any(item.altered for item in drift.reported(shot).instances)
    for name in ("vllm-p0", "vllm-p2"):
        found = with_image(shot, name, "mine")
        assert drift.find(found).altered == (name,), "of three, two are right"
        assert [item.name for item in drift.reported(found).instances if item.altered] == [name]


def test_names_restarts_and_the_order_of_variables_alter_nothing() -> None:
    shot = services.snapshot(CONFIG, services.running(prefill=3, decode=1))
    deployment = copy.deepcopy(shot.deployments[1])
    template = deployment["spec"]["template"]
    template["metadata"]["annotations"] = {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}
    template["spec"]["containers"][0]["env"].reverse()
    template["spec"]["tolerations"] = []
    assert drift.find(shot.with_object(deployment)).altered == ()


def test_a_pod_with_another_image_than_its_role_of_the_set_is_altered() -> None:
    shot = services.set_snapshot(SET_CONFIG, prefill=3, decode=1)
    for role in shot.infer_service_set["spec"]["template"]["roles"][1:]:
        role["spec"]["template"] = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    pods = copy.deepcopy(shot.pods)
    for pod in pods:
        pod["spec"]["containers"][0]["image"] = "i"
    assert drift.find(replace(shot, pods=pods)).altered == ()
    next(pod for pod in pods if pod["metadata"]["name"] == "vllm-0-prefill-1-0")["spec"]["containers"][0]["image"] = "older"
    assert drift.find(replace(shot, pods=pods)).altered == ("vllm-0-prefill-1",)


def test_failing_on_drift_names_each_instance() -> None:
    shot = with_image(services.snapshot(CONFIG, [*HOLE, ("decode", 1)]), "vllm-p2", "mine")
    with pytest.raises(Refused) as refused:
        drift.settle(shot, {"prefill": 3, "decode": 1}, drift.FAIL)
    assert refused.value.reason == "Drift" and refused.value.paths == ("vllm-p1", "vllm-d1", "vllm-p2")
    assert all(name in str(refused.value) for name in refused.value.paths)
    assert drift.settle(shot, {"prefill": 3, "decode": 1}, drift.REPAIR) == {"prefill": 3, "decode": 1}


def test_without_drift_nothing_fails() -> None:
    shot = services.snapshot(CONFIG, services.running(prefill=3, decode=1))
    assert drift.settle(shot, {"prefill": 4, "decode": 1}, drift.FAIL) == {"prefill": 4, "decode": 1}


@pytest.mark.parametrize(
    ("wanted", "settled"),
    [({"prefill": 3, "decode": 1}, {"prefill": 2, "decode": 1}), ({"prefill": 4, "decode": 1}, {"prefill": 4, "decode": 1})],
    ids=["the baseline is wanted", "another count is wanted"],
)
def test_adopting_takes_the_live_count_where_the_baseline_is_wanted(wanted: dict[str, int], settled: dict[str, int]) -> None:
    assert drift.settle(services.snapshot(CONFIG, HOLE), wanted, drift.ADOPT) == settled


@pytest.mark.parametrize("live", [0, 17])
def test_a_count_that_no_service_has_is_not_adopted(live: int) -> None:
    shot = services.snapshot(CONFIG, services.running(prefill=live, decode=1))
    with pytest.raises(Refused) as refused:
        drift.settle(shot, {"prefill": 3, "decode": 1}, drift.ADOPT)
    assert refused.value.reason == "NotAdoptable"


def test_the_usual_specification_is_that_of_most_siblings_and_else_of_the_lowest() -> None:
    shot = services.snapshot(CONFIG, services.running(prefill=3))
    found = with_image(shot, "vllm-p0", "mine")
    items = [item for dummy, item in siblings.by_role(found.deployments, "vllm")["prefill"]]
    assert siblings.usual(items)["metadata"]["name"] == "vllm-p1"
    assert siblings.usual(items[:2])["metadata"]["name"] == "vllm-p0"
    assert siblings.usual([]) is None


def test_pods_that_an_autoscaler_counts_alter_nothing() -> None:
    deployments = [services.deployment("prefill", index, pods=pods) for index, pods in enumerate((1, 1, 4))]
    assert siblings.altered(deployments, "vllm") == {"vllm-p2"}
    assert siblings.altered(deployments, "vllm", scaled=["prefill"]) == set()


def test_no_counts_of_a_baseline_that_cannot_be_read() -> None:
    damaged = services.config_map(CONFIG, applied=False)
    damaged["data"]["user_config.json"] = "{"
    assert baseline_counts(damaged) is None and readable_config(damaged) is None
    assert baseline_counts(None) is None
    single = services.user_config(deploy_mode="single_container")
    assert baseline_counts(services.config_map(single, applied=False)) == {}


def test_an_instance_whose_node_is_gone_or_not_ready_has_failed() -> None:
    shot = services.snapshot(CONFIG, services.running(prefill=1), pods=(services.pod("vllm-p0", ready=False),))
    for node, reason in ((None, "is gone"), ({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, "is not Ready")):
        (instance,) = service_state(replace(shot, nodes={"node-0": node})).instances
        assert instance.state == "failed" and reason in instance.reason and "node-0" in instance.reason
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert service_state(replace(shot, nodes={"node-0": ready})).instances[0].state == "starting"
