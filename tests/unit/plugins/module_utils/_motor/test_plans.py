# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans: what is removed and created, in which order, what is refused, and what is recorded last."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ascend.mindie.plugins.module_utils._motor import counts, deployments, guard, record
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError, Refused
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_config import plan_update
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_remove import plan_remove
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_scale import plan_scale
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import service_state
from ansible_collections.ascend.mindie.plugins.module_utils._motor.user_config import with_counts

from . import services

INDEXES = st.sets(st.integers(0, 20), max_size=16)


def writes(plan: Any) -> list[tuple[str, str]]:
    return [(write.verb, write.name) for step in plan.steps for write in step.writes]


@given(live=INDEXES, wanted=st.integers(1, 16))
def test_scaling_reaches_the_wanted_count_and_keeps_what_it_can(live: set[int], wanted: int) -> None:
    config = services.user_config()
    state = service_state(services.snapshot(config, [("prefill", index) for index in live]))
    change = counts.change(state, {"prefill": wanted})
    removed, added = set(change.remove.get("prefill", ())), set(change.add.get("prefill", ()))
    assert len((live - removed) | added) == wanted
    assert not (removed and added)
    assert removed <= live and not added & live
    assert all(gone > kept for gone in removed for kept in live - removed), "the highest indexes go"
    assert all(index < wanted for index in added), "the lowest free indexes come"


def test_shrink_before_grow() -> None:
    config = services.user_config(prefill=3, decode=1)
    plan = plan_scale(services.snapshot(config, services.running(prefill=3, decode=1)), config, {"prefill": 1, "decode": 2})
    assert writes(plan) == [("delete", "vllm-p2"), ("delete", "vllm-p1"), ("create", "vllm-d1")]
    assert plan.steps[0].until == "gone" and plan.steps[0].always


def test_grow_decode_before_prefill() -> None:
    config = services.user_config(prefill=1, decode=1)
    plan = plan_scale(services.snapshot(config, services.running(prefill=1, decode=1)), config, {"prefill": 2, "decode": 2})
    assert [step.title for step in plan.steps] == ["create decode instances", "create prefill instances"]


def test_an_instance_that_is_still_stopping_is_waited_for_before_growing() -> None:
    config = services.user_config(prefill=1)
    shot = services.snapshot(config, services.running(prefill=1, decode=1))
    shot = shot.with_object(services.deployment("prefill", 1, deleting=True))
    plan = plan_scale(shot, config, {"prefill": 2, "decode": 1})
    assert next((step.title, step.until) for step in plan.steps) == ("wait for instances that are still stopping", "gone")
    assert writes(plan) == [("create", "vllm-p1")]


def test_a_new_instance_is_its_sibling_under_another_name() -> None:
    config = services.user_config(prefill=1)
    shot = services.snapshot(config, services.running(prefill=1, decode=1))
    created = plan_scale(shot, config, {"prefill": 2, "decode": 1}).steps[0].writes[0].body
    sibling = services.deployment("prefill", 0)
    text = json.dumps(created["spec"])
    assert json.loads(text.replace("vllm-p1", "vllm-p0").replace("-p1-", "-p0-")) == sibling["spec"]
    assert created["metadata"]["labels"]["job-name"] == f"{services.NAMESPACE}-p1-0123abcd"
    assert "uid" not in created["metadata"] and "annotations" not in created["metadata"] and "status" not in created


def test_growing_without_a_sibling_is_refused() -> None:
    config = services.user_config(prefill=1)
    with pytest.raises(Refused) as refused:
        plan_scale(services.snapshot(config, [("decode", 0)]), config, {"prefill": 1, "decode": 1})
    assert refused.value.reason == "NoSibling"


def test_nothing_to_do_is_an_empty_plan() -> None:
    config = services.user_config()
    plan = plan_scale(services.snapshot(config, services.running(prefill=2, decode=1)), config, {"prefill": 2, "decode": 1})
    assert plan.empty and plan.actions() == []


def test_counts_already_live_are_still_recorded() -> None:
    config = services.user_config(prefill=2)
    plan = plan_scale(services.snapshot(config, services.running(prefill=4, decode=1)), config, {"prefill": 4, "decode": 1})
    assert not plan.steps and plan.record
    assert json.loads(plan.data["user_config.json"])["motor_deploy_config"]["p_instances_num"] == 4


def test_only_counts_change_when_scaling() -> None:
    config = services.user_config()
    other = services.user_config(prefill=4, motor_controller_config={"logging_config": {"log_level": "DEBUG"}})
    with pytest.raises(Refused) as refused:
        plan_scale(services.snapshot(config, services.running(prefill=2, decode=1)), config, other.counts, other)
    assert refused.value.reason == "OtherChanges"
    assert refused.value.paths == ("motor_controller_config.logging_config.log_level",)


def test_scaling_by_counts_keeps_every_other_byte() -> None:
    config = services.user_config()
    plan = plan_scale(services.snapshot(config, services.running(prefill=2, decode=1)), config, {"prefill": 3, "decode": 1})
    assert plan.data["user_config.json"] == config.text.replace('"p_instances_num": 2', '"p_instances_num": 3')


@pytest.mark.parametrize(
    ("wanted", "path"),
    [({"prefill": 2}, "decode"), ({"prefill": 2, "decode": 1, "union": 1}, "union")],
    ids=["missing", "unknown"],
)
def test_a_missing_count_is_never_guessed(wanted: dict[str, int], path: str) -> None:
    config = services.user_config()
    with pytest.raises(InputError) as error:
        plan_scale(services.snapshot(config, services.running(prefill=2, decode=1)), config, wanted)
    assert error.value.path == path


def autoscaler(target: str) -> dict[str, Any]:
    return {"kind": "HorizontalPodAutoscaler", "metadata": {"name": "by-load"}, "spec": {"scaleTargetRef": {"name": target}}}


def test_an_autoscalers_count_is_its_own() -> None:
    config = services.user_config()
    shot = services.snapshot(config, services.running(prefill=2, decode=1), autoscalers=(autoscaler("vllm-p0"),))
    with pytest.raises(Refused) as refused:
        plan_scale(shot, config, {"prefill": 3, "decode": 1})
    assert refused.value.reason == "CountOwned" and "by-load" in str(refused.value)
    assert plan_scale(shot, config, {"decode": 2}).counts == {"prefill": 2, "decode": 2}


def test_single_container_is_not_scalable() -> None:
    config = services.user_config(deploy_mode="single_container")
    with pytest.raises(Refused) as refused:
        plan_scale(services.snapshot(config, []), config, {"prefill": 2, "decode": 1})
    assert refused.value.reason == "NotScalable"


def test_counts_of_an_infer_service_set_change_by_one_guarded_patch() -> None:
    config = services.user_config(prefill=1, decode=1, deploy_mode="infer_service_set")
    plan = plan_scale(services.set_snapshot(config, prefill=1, decode=1), config, {"prefill": 4, "decode": 2})
    (write,) = [write for step in plan.steps for write in step.writes]
    assert [item["op"] for item in write.body] == ["test", "test", "test", "replace", "test", "test", "replace"]
    assert write.body[0] == {"op": "test", "path": "/metadata/uid", "value": "iss"}
    assert {"op": "replace", "path": "/spec/template/roles/1/replicas", "value": 4} in write.body


def test_an_infer_service_set_shrinks_before_it_grows() -> None:
    config = services.user_config(prefill=3, decode=1, deploy_mode="infer_service_set")
    plan = plan_scale(services.set_snapshot(config, prefill=3, decode=1), config, {"prefill": 1, "decode": 2})
    assert [(step.writes[0].why, step.until, step.always) for step in plan.steps] == [
        ("prefill 3 -> 1: removes 2 (highest index), 1 (highest index)", "gone", True),
        ("decode 1 -> 2", "", False),
    ]


def test_a_role_that_the_set_lacks_cannot_grow() -> None:
    config = services.user_config(deploy_mode="infer_service_set")
    shot = services.set_snapshot(config, prefill=2)
    with pytest.raises(Refused) as refused:
        plan_scale(shot, config, {"prefill": 2, "decode": 1})
    assert refused.value.reason == "NoSuchRole"


def lease(verb: str, run: str = "run-2") -> dict[str, Any]:
    intent = {"verb": verb, "run": run, "started": "2026-01-01T00:00:00Z", "by": "me"}
    return {"metadata": {"annotations": {record.INTENT_ANNOTATION: json.dumps(intent)}}, "spec": {}}


@pytest.mark.parametrize(("verb", "goes_on"), [("scale", True), ("deploy", False), ("update_config", False), ("remove", False)])
def test_only_the_verb_of_the_intent_goes_on(verb: str, goes_on: bool) -> None:
    config = services.user_config()
    shot = services.snapshot(config, services.running(prefill=1, decode=1), lease=lease(verb))
    if goes_on:
        assert plan_scale(shot, config, {"prefill": 2, "decode": 1}).steps
    else:
        with pytest.raises(Refused) as refused:
            plan_scale(shot, config, {"prefill": 2, "decode": 1})
        assert refused.value.reason == "Unfinished" and verb in str(refused.value)


def test_an_intent_that_was_recorded_is_done_with() -> None:
    config = services.user_config()
    shot = services.snapshot(config, services.running(prefill=2, decode=1), lease=lease("update_config", run="run-1"))
    assert guard.unfinished_verb(shot) is None


def test_data_that_differ_from_the_record_are_an_unfinished_deployment() -> None:
    config = services.user_config()
    shot = services.snapshot(config, services.running(prefill=2, decode=1))
    shot.config_map["data"]["boot.sh"] += "exit 1\n"
    with pytest.raises(Refused) as refused:
        plan_update(shot, config, config)
    assert refused.value.reason == "Unfinished"


def test_no_motor_config_is_no_service() -> None:
    config = services.user_config()
    with pytest.raises(Refused) as refused:
        plan_update(services.snapshot(config, [], config_map=None), config, config)
    assert refused.value.reason == "NotDeployed"
    with pytest.raises(Refused) as refused:
        plan_scale(services.snapshot(config, [], config_map=None), config, {"prefill": 2, "decode": 1})
    assert refused.value.reason == "NotDeployed"


def test_the_record_of_scaling_says_which_counts() -> None:
    config = services.user_config()
    plan = plan_scale(services.snapshot(config, services.running(prefill=2, decode=1)), config, {"prefill": 3, "decode": 1})
    assert plan.why_record == "record the counts prefill 3, decode 1"


def test_an_updatable_key_is_stored_and_recorded_in_one_write() -> None:
    config = services.user_config()
    new = services.user_config(motor_controller_config={"logging_config": {"log_level": "DEBUG"}})
    plan = plan_update(services.snapshot(config, services.running(prefill=2, decode=1)), config, new)
    assert not plan.steps and plan.record and plan.data["user_config.json"] == new.text
    assert plan.actions()[0]["why"] == "update motor_controller_config.logging_config.log_level"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"prefill": 3}, "CountsDiffer"),
        ({"deploy_mode": "infer_service_set"}, "NotAllowed"),
        ({"version": "v3"}, "RestartNeeded"),
    ],
)
def test_updating_refuses_everything_else(change: dict[str, Any], reason: str) -> None:
    config, new = services.user_config(), services.user_config(**change)
    with pytest.raises(Refused) as refused:
        plan_update(services.snapshot(config, services.running(prefill=2, decode=1)), config, new)
    assert refused.value.reason == reason and refused.value.paths


def test_removing_ends_workloads_first_and_motor_config_last() -> None:
    config = services.user_config()
    shot = services.snapshot(config, services.running(prefill=1, decode=1))
    for kind, name, labels in (
        ("Service", "mindie-motor-coordinator-infer", {}),
        ("Service", "unrelated", {}),
        ("PersistentVolumeClaim", "weights", {"app.kubernetes.io/part-of": "mindie-motor"}),
        ("ClusterRole", "ours", {"app.kubernetes.io/part-of": "mindie-motor"}),
        ("ClusterRole", "mindie-controller-role", {}),
    ):
        shot = shot.with_object({"kind": kind, "metadata": {"name": name, "uid": name, "labels": labels}})
    plan = plan_remove(shot, claims=False)
    assert [{name for _verb, name in [(w.verb, w.name) for w in step.writes]} for step in plan.steps] == [
        {"vllm-p0", "vllm-d0"},
        {"mindie-motor-coordinator-infer", "ours"},
        {"motor-config"},
    ]
    assert plan.steps[0].until == "no_pods"
    with_claims = plan_remove(shot, claims=True)
    assert ("delete", "weights") in writes(with_claims)


def test_removing_a_service_that_is_not_there_is_an_empty_plan() -> None:
    config = services.user_config()
    assert plan_remove(services.snapshot(config, [], config_map=None, pods=()), claims=True).empty


def test_removing_leaves_objects_that_another_object_owns() -> None:
    config = services.user_config(deploy_mode="infer_service_set")
    owned = {"kind": "Service", "metadata": {"name": "mindie-motor-x", "uid": "s", "ownerReferences": [{"kind": "InstanceSet"}]}}
    plan = plan_remove(services.set_snapshot(config, prefill=1, decode=1).with_object(owned), claims=False)
    assert writes(plan) == [("delete", "vllm"), ("delete", "motor-config")]
    assert plan.steps[0].writes[0].propagation == "Foreground"


def test_with_counts_agrees_with_the_plan() -> None:
    config = services.user_config()
    assert with_counts(config, {"prefill": 5, "decode": 1}).counts == {"prefill": 5, "decode": 1}


def test_counts_of_the_option_win_over_those_of_the_file() -> None:
    config = services.user_config()
    plan = plan_scale(services.snapshot(config, services.running(prefill=2, decode=1)), config, {"prefill": 3, "decode": 1}, config)
    assert json.loads(plan.data["user_config.json"])["motor_deploy_config"]["p_instances_num"] == 3


def test_a_run_that_was_killed_before_its_record_is_ended_by_running_it_again() -> None:
    config = services.user_config(prefill=2)
    shot = services.snapshot(config, services.running(prefill=2, decode=1), lease=lease("scale"))
    plan = plan_scale(shot, config, {"prefill": 2, "decode": 1})
    assert not plan.steps and plan.record, "everything is removed already, but the intent is still there"
    shot = services.snapshot(config, services.running(prefill=2, decode=1), lease=lease("update_config"))
    assert plan_update(shot, config, config).record


def test_the_index_of_something_that_only_has_the_name_of_an_instance_is_not_free() -> None:
    config = services.user_config(prefill=1)
    shot = services.snapshot(config, services.running(prefill=1, decode=1))
    namesake = services.deployment("prefill", 1)
    namesake["spec"]["selector"]["matchLabels"]["app"] = "something-else"
    plan = plan_scale(shot.with_object(namesake), config, {"prefill": 2, "decode": 1})
    assert writes(plan) == [("create", "vllm-p2")]


def test_something_that_only_has_the_name_of_an_instance_is_never_copied() -> None:
    config = services.user_config(prefill=1)
    namesake = services.deployment("prefill", 1)
    namesake["spec"]["selector"]["matchLabels"]["app"] = "something-else"
    with pytest.raises(Refused) as refused:
        plan_scale(services.snapshot(config, services.running(decode=1)).with_object(namesake), config, {"prefill": 1, "decode": 1})
    assert refused.value.reason == "NoSibling"


def test_an_infer_service_set_that_is_being_deleted_has_no_instances_and_no_owners_of_counts() -> None:
    config = services.user_config(prefill=1, decode=1, deploy_mode="infer_service_set")
    shot = services.set_snapshot(config, prefill=1, decode=1)
    target = {"apiVersion": "mindcluster.huawei.com/v1", "kind": "InstanceSet", "name": "vllm-0-prefill"}
    scaler = {"kind": "HorizontalPodAutoscaler", "metadata": {"name": "by-load"}, "spec": {"scaleTargetRef": target}}
    shot = dataclasses.replace(shot, autoscalers=(scaler,))
    assert service_state(shot).owners
    shot.infer_service_set["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    state = service_state(shot)
    assert not state.counts() and not state.owners and len(state.leaving()) == 2


@pytest.mark.parametrize("there", [True, False])
def test_scaling_a_set_that_is_gone_says_what_to_do(there: bool) -> None:
    config = services.user_config(prefill=1, decode=1, deploy_mode="infer_service_set")
    shot = services.set_snapshot(config, prefill=1, decode=1)
    shot.infer_service_set["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    with pytest.raises(Refused) as refused:
        plan_scale(shot if there else dataclasses.replace(shot, infer_service_set=None), config, {"prefill": 1, "decode": 1})
    assert refused.value.reason == "NoSuchRole" and "is not there: deploy the service again" in str(refused.value)


def test_an_index_without_a_template_takes_another_one_of_its_engine_role() -> None:
    """Deploying one instance while a namesake has index 0: the template of index 0 makes index 1."""
    template = services.deployment("prefill", 0)
    (write,) = deployments.grow(services.snapshot(services.user_config(), []), "prefill", (1,), {("prefill", 0): template})
    assert write.name == "vllm-p1" and write.body["spec"]["selector"]["matchLabels"]["app"] == "vllm-p1"
    assert write.body["metadata"]["labels"]["job-name"] == f"{services.NAMESPACE}-p1-0123abcd"


def test_scripts_stay_when_a_config_is_stored_or_counts_change() -> None:
    config = services.user_config()
    new = services.user_config(motor_controller_config={"logging_config": {"log_level": "DEBUG"}})
    shot = services.snapshot(config, services.running(prefill=2, decode=1))
    scripts = {key: text for key, text in shot.config_map["data"].items() if key != "user_config.json"}
    for plan in (plan_update(shot, config, new), plan_scale(shot, config, {"prefill": 3, "decode": 1})):
        assert {key: text for key, text in plan.data.items() if key != "user_config.json"} == scripts and scripts


def test_storing_a_config_waits_for_nothing_and_changes_no_count() -> None:
    config = services.user_config()
    shot = services.snapshot(config, services.running(prefill=3, decode=1))
    plan = plan_update(shot, config, services.user_config(motor_controller_config={"logging_config": {"log_level": "DEBUG"}}))
    assert not plan.settles and plan.verb == "update_config" and not plan.steps
    assert plan.counts == {"prefill": 2, "decode": 1} and plan.counts_before == {"prefill": 3, "decode": 1}
    again = plan_update(services.snapshot(config, [], lease=lease("update_config")), config, config)
    assert again.why_record == "record that an earlier update is over"


def test_only_the_job_name_of_a_copy_is_renamed() -> None:
    config = services.user_config(prefill=1)
    sibling = services.deployment("prefill", 0)
    environment = [{"name": "OTHER", "value": "other-p0-0123abcd"}, {"name": "JOB_NAME", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]
    sibling["spec"]["template"]["spec"]["containers"][0]["env"] = environment
    shot = services.snapshot(config, services.running(prefill=1, decode=1)).with_object(sibling)
    created = plan_scale(shot, config, {"prefill": 2, "decode": 1}).steps[0].writes[0].body
    assert created["spec"]["template"]["spec"]["containers"][0]["env"] == environment


def test_removing_takes_what_motors_own_deployer_made_under_other_names() -> None:
    config = services.user_config()
    shot = services.snapshot(config, [], pods=())
    names = {"kvp-master", "kv-conductor", "mf-store", "mindie-motor-controller-service", "vllm-coordinator-service"}
    for name in (*names, "somebody-elses"):
        shot = shot.with_object({"kind": "Service", "metadata": {"name": name, "uid": name}})
    plan = plan_remove(shot, claims=False)
    assert plan.verb == "remove" and plan.removes and not plan.settles and not plan.lease_left
    assert {name for _verb, name in writes(plan)} == {*names, "motor-config"}
    assert [step.title for step in plan.steps] == ["remove what they used", "remove motor-config"]
    assert plan_remove(services.snapshot(config, [], lease=lease("scale")), claims=False).lease_left


def test_removing_waits_for_pods_of_workloads_that_are_gone_already() -> None:
    config = services.user_config()
    shot = services.snapshot(config, [], pods=(services.pod("vllm-p0"),), config_map=None)
    (step,) = plan_remove(shot, claims=False).steps
    assert (step.writes, step.until, step.always) == ((), "no_pods", True)
