# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Adopting: what is live becomes the baseline in one write, or is refused with everything that does not fit."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import fit, record
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError, Refused
from ansible_collections.ascend.mindie.plugins.module_utils._motor.ownership import is_ours
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan import Plan
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_adopt import plan_adopt
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot
from ansible_collections.ascend.mindie.plugins.module_utils._motor.user_config import UserConfig

from . import services

CONFIG = services.user_config(prefill=3, decode=1)
IMAGE = "registry.example/motor:1"
# One of three was never created, for example because its `apply` failed.
HOLE = [("prefill", 0), ("prefill", 2), ("decode", 0)]
KEY = record.USER_CONFIG_KEY


def made(config: UserConfig = CONFIG, live: list[tuple[str, int]] | None = None, *, applied: bool = False) -> Snapshot:
    """A service as Motor's own deployer leaves it."""
    shot = services.snapshot(config, live or services.running(**config.counts), applied=applied)
    for deployment in copy.deepcopy(shot.deployments):
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        container["image"], container["resources"] = IMAGE, {"requests": {"huawei.com/Ascend910": "16"}}
        shot = shot.with_object(deployment)
    return shot


def stored(shot: Snapshot, text: str | None) -> Snapshot:
    """The same service with another user config in its motor-config (None: without one)."""
    config_map = copy.deepcopy(dict(shot.config_map or {}))
    config_map["data"].pop(KEY)
    if text is not None:
        config_map["data"][KEY] = text
    return replace(shot, config_map=config_map)


def recorded(shot: Snapshot, plan: Plan) -> dict[str, Any]:
    return record.with_applied(shot.config_map or {}, plan.data or {}, plan.counts, at="now", by="me", run="1")


def refused(shot: Snapshot, given: UserConfig | None = None, **counts: int) -> Refused:
    with pytest.raises(Refused) as error:
        plan_adopt(shot, given, counts)
    return error.value


def test_a_service_of_the_deployer_is_adopted_by_the_record_alone() -> None:
    shot = made()
    plan = plan_adopt(shot, None, {})
    assert plan.record and plan.steps == () and not plan.settles
    assert plan.data == shot.config_map["data"] and plan.counts == {"prefill": 3, "decode": 1}
    after = recorded(shot, plan)
    assert is_ours(after) and record.standing(after) == record.APPLIED
    assert plan_adopt(replace(shot, config_map=after), None, {}).empty, "a second run writes nothing"


def test_adopting_again_after_drift_takes_the_named_counts() -> None:
    shot = made(live=HOLE, applied=True)
    assert refused(shot).reason == "Drift"
    plan = plan_adopt(shot, None, {"prefill": 2})
    assert plan.counts == {"prefill": 2, "decode": 1}
    assert plan_adopt(replace(shot, config_map=recorded(shot, plan)), None, {"prefill": 2}).empty


@pytest.mark.parametrize(
    ("live", "said"),
    [
        (HOLE, "3 in the user config, 2 live (vllm-p0, vllm-p2)"),
        (services.running(prefill=1, decode=1), "3 in the user config, 1 live (vllm-p0)"),
        (services.running(prefill=5, decode=1), "3 in the user config, 5 live (vllm-p0, vllm-p1, vllm-p2, vllm-p3, vllm-p4)"),
    ],
    ids=["apply failed halfway", "the baseline is ahead of the cluster", "orphans"],
)
def test_counts_that_are_not_live_are_refused_and_adopted_when_named(live: list[tuple[str, int]], said: str) -> None:
    shot = made(live=live)
    error = refused(shot)
    assert error.reason == "Drift" and error.paths == ("motor_deploy_config.p_instances_num",) and said in str(error)
    count = sum(role == "prefill" for role, dummy in live)
    assert f"instances: {{prefill: {count}, decode: 1}}" in str(error)
    plan = plan_adopt(shot, None, {"prefill": count})
    assert json.loads(plan.data[KEY])["motor_deploy_config"]["p_instances_num"] == count
    assert plan.data[KEY] == CONFIG.text.replace('"p_instances_num": 3', f'"p_instances_num": {count}')
    given = services.user_config(prefill=count, decode=1)
    assert plan_adopt(shot, given, {}).data[KEY] == plan.data[KEY]


DAMAGED = {
    "absent": None,
    "not JSON": "{",
    "not a user config": '{"motor_deploy_config": {}}',
    "a byte order mark": "\ufeff" + CONFIG.text,
}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_user_config_needs_the_right_one(text: str | None) -> None:
    shot = stored(made(), text)
    with pytest.raises(InputError) as error:
        plan_adopt(shot, None, {})
    assert error.value.reason == "BaselineDamaged" and "user_config" in str(error.value)
    plan = plan_adopt(shot, CONFIG, {})
    assert plan.data[KEY] == CONFIG.text and record.standing(recorded(shot, plan)) == record.APPLIED
    assert plan.data["boot.sh"] == shot.config_map["data"]["boot.sh"]
    assert refused(shot, services.user_config(prefill=2, decode=1)).reason == "Drift"


def test_motor_config_without_any_data_is_adopted_with_a_config() -> None:
    shot = made()
    shot = replace(shot, config_map={key: value for key, value in shot.config_map.items() if key != "data"})
    assert plan_adopt(shot, CONFIG, {}).data == {KEY: CONFIG.text}


def test_data_that_are_not_as_recorded_need_a_config() -> None:
    shot = stored(made(applied=True), CONFIG.text.replace("motor:1", "motor:2"))
    assert refused(shot).reason == "Unfinished"
    plan = plan_adopt(shot, CONFIG, {})
    assert plan.record and plan.data[KEY] == CONFIG.text


def test_a_config_that_the_service_does_not_run_with_is_refused_with_the_paths() -> None:
    other = services.user_config(prefill=3, decode=1, motor_controller_config={"logging_config": {"log_level": "DEBUG"}}, version="v9")
    error = refused(made(), other)
    assert error.reason == "OtherChanges"
    assert error.paths == ("motor_controller_config.logging_config.log_level", "version")


@pytest.mark.parametrize(
    ("key", "value", "live"),
    [("image_name", "registry.example/motor:2", IMAGE), ("single_d_instance_pod_num", 2, "1 in"), ("p_pod_npu_num", 8, "16 in")],
)
def test_workloads_that_are_not_as_described_are_refused(key: str, value: Any, live: str) -> None:
    data = json.loads(CONFIG.text)
    data["motor_deploy_config"][key] = value
    error = refused(stored(made(), json.dumps(data)))
    assert error.reason == "OtherThanLive" and error.paths == (f"motor_deploy_config.{key}",)
    assert live in str(error) and str(value) in str(error)


def test_roles_of_a_set_are_compared_like_deployments() -> None:
    config = services.user_config(prefill=3, decode=1, deploy_mode="infer_service_set")
    shot = replace(services.set_snapshot(config, prefill=3, decode=1), config_map=services.config_map(config, applied=False))
    assert plan_adopt(shot, None, {}).counts == {"prefill": 3, "decode": 1}
    ahead = replace(services.set_snapshot(config, prefill=2, decode=1), config_map=shot.config_map)
    assert refused(ahead).reason == "Drift" and plan_adopt(ahead, None, {"prefill": 2}).counts == {"prefill": 2, "decode": 1}
    role = shot.infer_service_set["spec"]["template"]["roles"][1]
    role["spec"] = {"replicas": 2, "template": {"spec": {"containers": [{"name": "vllm", "image": "another"}]}}}
    assert refused(shot).paths == ("motor_deploy_config.image_name", "motor_deploy_config.single_p_instance_pod_num")


def test_instances_of_another_engine_are_named() -> None:
    old = services.deployment("prefill", 0)
    old["metadata"]["name"] = "sglang-p0"
    error = refused(made().with_object(old))
    assert error.reason == "OtherThanLive" and "sglang-p0" in str(error)


def test_an_autoscalers_count_is_adopted_as_it_is() -> None:
    scaler = {
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "by-load"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "vllm-p0"}},
    }
    plan = plan_adopt(replace(made(live=HOLE), autoscalers=(scaler,)), None, {})
    assert plan.counts == {"prefill": 2, "decode": 1} and plan.data[KEY] == CONFIG.text


@pytest.mark.parametrize(("verb", "goes_on"), [("adopt", True), ("scale", False), ("deploy", False)])
def test_another_verbs_unfinished_change_is_finished_first(verb: str, goes_on: bool) -> None:
    intent = {"verb": verb, "run": "another", "from": {}, "to": {}}
    shot = replace(made(), lease={"metadata": {"annotations": {record.INTENT_ANNOTATION: json.dumps(intent)}}, "spec": {}})
    if goes_on:
        assert plan_adopt(shot, None, {}).record
    else:
        assert refused(shot).reason == "Unfinished"


SCRIPTS = {"common.sh": "set_common_env\n", "engine.sh": 'case "$ROLE" in prefill) set_prefill_env ;; esac\n'}


def test_scripts_that_lost_their_environment_are_told() -> None:
    shot = made()
    shot.config_map["data"].update(SCRIPTS)
    with pytest.raises(InputError) as error:
        plan_adopt(shot, None, {})
    assert error.value.reason == "BaselineDamaged" and "env.json" in str(error.value)
    plan = plan_adopt(shot, CONFIG, {})
    assert plan.data["common.sh"] == SCRIPTS["common.sh"] and "env.json" in plan.notices[0]
    shot.config_map["data"]["common.sh"] = "function set_common_env() {\n    export A=1\n}\n" + SCRIPTS["common.sh"]
    assert plan_adopt(shot, None, {}).notices == ()


def test_scripts_that_call_no_environment_lack_none() -> None:
    assert not fit.lacks_environment({"boot.sh": "exec motor\n", KEY: "set_common_env"})


def test_no_motor_config_is_no_service() -> None:
    assert refused(replace(made(), config_map=None), CONFIG).reason == "NotDeployed"


def test_a_single_container_is_adopted_without_counts() -> None:
    config = services.user_config(deploy_mode="single_container")
    shot = replace(services.snapshot(config, [], applied=False))
    assert plan_adopt(shot, None, {}).counts == {}
