# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans of the verb deploy, over services that the sample releases give: new, unfinished, live, and no longer as wanted."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import json_reader, record
from ansible_collections.ascend.mindie.plugins.module_utils._motor.choice import Choice
from ansible_collections.ascend.mindie.plugins.module_utils._motor.converge import marked
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError, Refused
from ansible_collections.ascend.mindie.plugins.module_utils._motor.generation import generation
from ansible_collections.ascend.mindie.plugins.module_utils._motor.ownership import metadata_labels
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan import Plan
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_deploy import plan_deploy
from ansible_collections.ascend.mindie.plugins.module_utils._motor.release import SHAPE_2026_07
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rendered import Rendered
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot
from ansible_collections.ascend.mindie.plugins.module_utils._motor.user_config import UserConfig, parse

from . import releases

SET = "infer_service_set"
MODES = ("multi_deployment", SET)
COUNTS = {"prefill": 2, "decode": 1}
WORKLOADS = ("Deployment", "InferServiceSet")
DEBUG = {"motor_controller_config": {"logging_config": {"log_level": "DEBUG"}}}
LOG_LEVEL = "motor_controller_config.logging_config.log_level"


def empty(config: UserConfig) -> Snapshot:
    """A namespace without anything in it."""
    return Snapshot(releases.NAMESPACE, config.backend, config.base_name)


def stored_by_server(obj: dict[str, Any]) -> dict[str, Any]:
    """An object as it comes back from the server."""
    found = copy.deepcopy(obj)
    found["metadata"].update(uid=f"uid-{obj['metadata']['name']}", resourceVersion="5")
    return found


def live(config: UserConfig, found: Rendered, *, applied: bool = True) -> Snapshot:
    """The service that these objects are; without a record of success when the deploy did not end."""
    shot = empty(config)
    for obj in [*found.objects, *(obj for _role, _index, obj in found.instances)]:
        shot = shot.with_object(stored_by_server(obj))
    config_map = stored_by_server(record.with_data(found.config_map, found.config_map["data"]))
    if applied:
        config_map = record.with_applied(config_map, config_map["data"], config.counts, at="2026-01-01T00:00:00Z", by="me", run="run-1")
    return shot.with_object(config_map)


def service(shape: str = SHAPE_2026_07, **deploy: Any) -> tuple[UserConfig, Rendered, Snapshot]:
    """A config, its objects, and the live service that they are."""
    config = releases.config(**deploy)
    found = releases.rendered(config, shape)
    return config, found, live(config, found)


def writes(plan: Plan) -> list[tuple[str, str, str]]:
    return [(write.verb, write.kind, write.name) for step in plan.steps for write in step.writes]


def titles(plan: Plan) -> list[str]:
    return [step.title for step in plan.steps]


def names(found: Rendered) -> set[tuple[str, str]]:
    """Kind and name of every object of a service."""
    everything = [found.config_map, *found.objects, *(obj for _role, _index, obj in found.instances)]
    return {(obj["kind"], obj["metadata"]["name"]) for obj in everything}


def extra(kind: str, name: str, *, ours: bool = True) -> dict[str, Any]:
    """An object that no configuration asks for."""
    obj = {"kind": kind, "metadata": {"name": name, "uid": name, "labels": metadata_labels("old") if ours else {}}}
    return {**obj, "spec": {"selector": {"matchLabels": {"app": name}}, "template": {}}}


@pytest.mark.parametrize("shape", releases.SHAPES)
@pytest.mark.parametrize("mode", MODES)
def test_a_new_service_is_every_object_once_in_an_order_that_holds(mode: str, shape: str) -> None:
    config = releases.config(deploy_mode=mode)
    found = releases.rendered(config, shape)
    plan = plan_deploy(empty(config), config, found, None)
    done = writes(plan)
    assert {verb for verb, _kind, _name in done} == {"create"}
    assert len(done) == len(set(done)) and {(kind, name) for _verb, kind, name in done} == names(found)
    assert titles(plan)[:3] == ["write motor-config", "what workloads need", "workloads"]
    referring = {*WORKLOADS, "ClusterRoleBinding"}
    assert {write.kind for write in plan.steps[2].writes} <= referring
    assert not {write.kind for step in plan.steps[:2] for write in step.writes} & referring
    assert plan.counts == COUNTS and not plan.counts_before and plan.record
    assert plan.data == found.config_map["data"]


@pytest.mark.parametrize("shape", releases.SHAPES)
def test_a_new_service_creates_decode_before_prefill_as_rendered(shape: str) -> None:
    config = releases.config()
    found = releases.rendered(config, shape)
    plan = plan_deploy(empty(config), config, found, None)
    assert titles(plan)[3:] == ["create decode instances", "create prefill instances"]
    value = generation(found.config_map["data"])
    created = {write.name: write.body for step in plan.steps[3:] for write in step.writes}
    assert created == {obj["metadata"]["name"]: marked(obj, value) for _role, _index, obj in found.instances}


def test_a_new_infer_service_set_has_its_counts_from_the_start() -> None:
    config = releases.config(deploy_mode=SET)
    plan = plan_deploy(empty(config), config, releases.rendered(config), None)
    (body,) = [write.body for step in plan.steps for write in step.writes if write.kind == "InferServiceSet"]
    assert {role: releases.roles(body)[role]["replicas"] for role in COUNTS} == COUNTS
    assert titles(plan)[-1] == "workloads", "no step of its own sets counts"


def test_motor_config_of_a_new_service_carries_no_record_of_success() -> None:
    config = releases.config()
    body = plan_deploy(empty(config), config, releases.rendered(config), None).steps[0].writes[0].body
    assert record.standing(body) == record.UNFINISHED
    assert body["metadata"]["labels"].items() >= metadata_labels("config").items()


def test_the_namespace_comes_before_everything() -> None:
    config = releases.config()
    namespace = {"kind": "Namespace", "metadata": {"name": releases.NAMESPACE}}
    plan = plan_deploy(empty(config), config, releases.rendered(config), None, namespace)
    assert titles(plan)[:2] == ["create the namespace", "write motor-config"]
    assert writes(plan)[0] == ("create", "Namespace", releases.NAMESPACE)


def test_a_single_container_has_no_instances_of_its_own() -> None:
    config, found, shot = service(deploy_mode="single_container")
    plan = plan_deploy(empty(config), config, found, None)
    assert {(kind, name) for _verb, kind, name in writes(plan)} == names(found)
    assert not plan.counts and titles(plan)[-1] == "workloads"
    again = plan_deploy(shot, config, found, config)
    assert again.empty and not again.counts


def test_a_release_is_needed_for_a_new_service() -> None:
    config = releases.config()
    with pytest.raises(InputError) as error:
        plan_deploy(empty(config), config, None, None)
    assert error.value.path == "release" and releases.NAMESPACE in str(error.value)


@pytest.mark.parametrize("shape", releases.SHAPES)
@pytest.mark.parametrize("mode", MODES)
def test_a_service_that_is_as_wanted_is_left_alone(mode: str, shape: str) -> None:
    config, found, shot = service(shape, deploy_mode=mode)
    plan = plan_deploy(shot, config, found, config)
    assert plan.empty and plan.actions() == []
    assert plan_deploy(shot, config, None, config).empty, "without a release, too"


@pytest.mark.parametrize("mode", MODES)
def test_an_unfinished_deploy_creates_what_is_missing_and_is_recorded(mode: str) -> None:
    config = releases.config(deploy_mode=mode)
    found = releases.rendered(config)
    shot = live(config, found, applied=False)
    needed = next(obj for obj in found.objects if obj["kind"] not in WORKLOADS)
    gone = {(needed["kind"], needed["metadata"]["name"])}
    gone.add(("InferServiceSet", "vllm") if mode == SET else ("Deployment", "vllm-p1"))
    for kind, name in gone:
        shot = shot.without(kind, name)
    plan = plan_deploy(shot, config, found, config)
    assert set(writes(plan)) == {("create", kind, name) for kind, name in gone}
    assert plan.record and plan.counts == COUNTS


@pytest.mark.parametrize("mode", MODES)
def test_a_deploy_that_only_lacks_its_record_is_recorded(mode: str) -> None:
    config = releases.config(deploy_mode=mode)
    found = releases.rendered(config)
    plan = plan_deploy(live(config, found, applied=False), config, found, config)
    assert not plan.steps and plan.record and not plan.empty


def test_a_service_of_motors_own_deployer_needs_no_record() -> None:
    config, _found, shot = service()
    theirs = copy.deepcopy(dict(shot.config_map or {}))
    theirs["metadata"].update(labels={}, annotations={})
    assert record.standing(theirs) == record.DEPLOYER
    assert plan_deploy(shot.with_object(theirs), config, None, config).empty


@pytest.mark.parametrize("with_release", [True, False], ids=["release", "no release"])
def test_only_counts_is_scaling(with_release: bool) -> None:
    old, _found, shot = service()
    new = releases.config(p_instances_num=1, d_instances_num=3)
    plan = plan_deploy(shot, new, releases.rendered(new) if with_release else None, old)
    assert writes(plan) == [
        ("delete", "Deployment", "vllm-p1"),
        ("create", "Deployment", "vllm-d1"),
        ("create", "Deployment", "vllm-d2"),
    ]
    assert plan.steps[0].until == "gone" and plan.steps[0].always
    assert plan.counts_before == COUNTS and plan.counts == {"prefill": 1, "decode": 3}
    assert plan.record and (plan.data or {})["user_config.json"] == new.text


def test_only_counts_of_a_set_is_one_patch_and_no_update_of_the_set() -> None:
    old, _found, shot = service(deploy_mode=SET)
    new = releases.config(deploy_mode=SET, p_instances_num=4)
    plan = plan_deploy(shot, new, releases.rendered(new), old)
    (write,) = [write for step in plan.steps for write in step.writes]
    assert write.patch and write.kind == "InferServiceSet" and write.why == "prefill 2 -> 4"
    assert [item["value"] for item in write.body if item["op"] == "replace"] == [4]


def test_without_a_release_new_instances_are_clones() -> None:
    old, _found, shot = service()
    new = releases.config(p_instances_num=3)
    (write,) = plan_deploy(shot, new, None, old).steps[0].writes
    (rendered,) = plan_deploy(shot, new, releases.rendered(new), old).steps[0].writes
    assert write.name == "vllm-p2" and write.body["spec"] == rendered.body["spec"]


def test_instances_of_a_role_that_has_none_left_come_from_the_release() -> None:
    config, found, shot = service()
    shot = shot.without("Deployment", "vllm-p0").without("Deployment", "vllm-p1")
    (step,) = plan_deploy(shot, config, found, config).steps
    assert [write.body for write in step.writes] == [
        marked(obj, generation(found.config_map["data"])) for role, _index, obj in found.instances if role == "prefill"
    ]
    with pytest.raises(Refused) as refused:
        plan_deploy(shot, config, None, config)
    assert refused.value.reason == "NoSibling" and refused.value.paths == ("prefill",)


@pytest.mark.parametrize("with_release", [True, False], ids=["release", "no release"])
def test_an_updated_config_is_written_before_new_instances_read_it(with_release: bool) -> None:
    old, _found, shot = service()
    new = releases.config(DEBUG, p_instances_num=3)
    plan = plan_deploy(shot, new, releases.rendered(new) if with_release else None, old)
    assert titles(plan) == ["update motor-config", "create prefill instances"]
    (write,) = plan.steps[0].writes
    assert write.verb == "update" and write.why == f"update {LOG_LEVEL}"
    assert write.body["data"]["user_config.json"] == new.text
    assert write.body["metadata"]["resourceVersion"] == "5", "a compare-and-swap"
    assert record.standing(write.body) == record.UNFINISHED, "until the service is as wanted"


def test_an_updatable_key_alone_touches_no_workload() -> None:
    old, _found, shot = service(deploy_mode=SET)
    new = releases.config(DEBUG, deploy_mode=SET)
    assert writes(plan_deploy(shot, new, releases.rendered(new), old)) == [("update", "ConfigMap", "motor-config")]


def test_another_way_to_write_the_same_config_is_no_change() -> None:
    old, found, shot = service()
    same = parse(json_reader.read(json.dumps(old.data, indent=4), source="user_config"))
    assert same.text != old.text
    assert plan_deploy(shot, same, None, old).empty
    assert (plan_deploy(shot, same, found, old).data or {})["user_config.json"] == old.text


@pytest.mark.parametrize(
    ("changed", "reason", "path"),
    [
        ({"image_name": "registry.example/motor:2"}, "RestartNeeded", "motor_deploy_config.image_name"),
        ({"p_pod_npu_num": 4}, "RestartNeeded", "motor_deploy_config.p_pod_npu_num"),
        ({"deploy_mode": SET}, "NotAllowed", "motor_deploy_config.deploy_mode"),
    ],
)
@pytest.mark.parametrize("with_release", [True, False], ids=["release", "no release"])
def test_a_config_that_needs_new_pods_is_refused(with_release: bool, changed: dict[str, Any], reason: str, path: str) -> None:
    old, _found, shot = service()
    new = releases.config(**changed)
    with pytest.raises(Refused) as refused:
        plan_deploy(shot, new, releases.rendered(new) if with_release else None, old)
    assert refused.value.reason == reason and refused.value.paths == (path,)


@pytest.mark.parametrize("mode", MODES)
def test_another_env_is_refused_with_the_scripts_that_it_changes(mode: str) -> None:
    config, _found, shot = service(deploy_mode=mode)
    with pytest.raises(Refused) as refused:
        plan_deploy(shot, config, releases.rendered(config, variables={"motor_common_env": {"NEW_VARIABLE": "1"}}), config)
    assert refused.value.reason == "RestartNeeded" and refused.value.paths
    assert all(path.startswith("ConfigMap motor-config: data[") and "user_config" not in path for path in refused.value.paths)


def test_a_script_that_is_gone_from_the_release_is_refused_too() -> None:
    config, found, shot = service()
    (shot.config_map or {})["data"]["old.sh"] = "exit 0\n"
    with pytest.raises(Refused) as refused:
        plan_deploy(shot, config, found, config)
    assert refused.value.paths == ("ConfigMap motor-config: data[old.sh]",)


def test_another_release_is_refused() -> None:
    old_shape, new_shape = releases.SHAPES
    config, _found, shot = service(old_shape)
    with pytest.raises(Refused) as refused:
        plan_deploy(shot, config, releases.rendered(config, new_shape), config)
    assert refused.value.reason == "RestartNeeded" and refused.value.paths


@pytest.mark.parametrize("name", ["vllm-p1", "mindie-motor-controller"])
def test_a_workload_with_another_specification_is_refused(name: str) -> None:
    config, found, shot = service()
    changed = copy.deepcopy(dict(next(obj for obj in shot.deployments if obj["metadata"]["name"] == name)))
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example/motor:other"
    container = changed["spec"]["template"]["spec"]["containers"][0]["name"]
    with pytest.raises(Refused) as refused:
        plan_deploy(shot.with_object(changed), config, found, config)
    assert refused.value.reason == "RestartNeeded"
    assert refused.value.paths == (f"Deployment {name}: spec.template.spec.containers[{container}].image",)
    assert plan_deploy(shot.with_object(changed), config, None, config).empty, "without a release nothing is compared"


def test_a_role_of_the_set_with_another_specification_is_refused() -> None:
    config, found, shot = service(deploy_mode=SET)
    changed = copy.deepcopy(dict(shot.infer_service_set or {}))
    releases.pod(changed, "decode")["spec"]["containers"][0]["image"] = "registry.example/motor:other"
    with pytest.raises(Refused) as refused:
        plan_deploy(shot.with_object(changed), config, found, config)
    (path,) = refused.value.paths
    assert path.startswith("InferServiceSet vllm: spec.template.roles[decode].") and path.endswith(".image")


def test_what_reaches_no_pod_is_updated_in_place() -> None:
    config, found, shot = service()
    name = next(obj["metadata"]["name"] for obj in found.objects if obj["kind"] == "Service")
    changed = copy.deepcopy(dict(shot.others["Service", name]))
    changed["spec"]["type"] = "ExternalName"
    changed["spec"]["clusterIP"] = "10.0.0.1"
    bare = copy.deepcopy(dict(next(obj for obj in shot.deployments if obj["metadata"]["name"] == "vllm-p0")))
    bare["metadata"]["labels"].pop("app.kubernetes.io/managed-by")
    plan = plan_deploy(shot.with_object(changed).with_object(bare), config, found, config)
    bodies = {write.name: write for step in plan.steps for write in step.writes}
    assert {(write.verb, write.kind) for write in bodies.values()} == {("update", "Service"), ("update", "Deployment")}
    wanted = next(obj for obj in found.objects if (obj["kind"], obj["metadata"]["name"]) == ("Service", name))
    assert bodies[name].body["spec"].get("type") == wanted["spec"].get("type"), bodies[name].why
    assert bodies[name].body["spec"]["clusterIP"] == "10.0.0.1", "what the server chose stays"
    assert bodies["vllm-p0"].body["metadata"]["resourceVersion"] == "5"
    assert plan.record


def test_job_names_of_live_instances_stay() -> None:
    config, found, shot = service()
    older = copy.deepcopy(dict(next(obj for obj in shot.deployments if obj["metadata"]["name"] == "vllm-p0")))
    older["metadata"]["labels"]["job-name"] = "of-another-time"
    for container in older["spec"]["template"]["spec"]["containers"]:
        for item in container["env"]:
            item.update({"value": "of-another-time"} if item["name"] == "JOB_NAME" else {})
    assert plan_deploy(shot.with_object(older), config, found, config).empty


def test_what_is_no_longer_wanted_goes_by_label_and_claims_and_instances_stay() -> None:
    config, found, shot = service()
    ours = [extra("Service", "old-service"), extra("ClusterRole", "old-role"), extra("Deployment", "mindie-motor-old")]
    claim, theirs = extra("PersistentVolumeClaim", "weights"), extra("Service", "unrelated", ours=False)
    for obj in [*ours, claim, theirs]:
        shot = shot.with_object(obj)
    plan = plan_deploy(shot, config, found, config)
    assert set(writes(plan)) == {("delete", obj["kind"], obj["metadata"]["name"]) for obj in ours}
    assert {write.preconditions["uid"] for step in plan.steps for write in step.writes} == {"old-service", "old-role", "mindie-motor-old"}


def test_surplus_instances_go_as_instances_and_are_not_pruned() -> None:
    old, _found, shot = service(p_instances_num=4)
    new = releases.config(p_instances_num=2)
    plan = plan_deploy(shot, new, releases.rendered(new), old)
    assert titles(plan) == ["remove surplus instances"]
    assert writes(plan) == [("delete", "Deployment", "vllm-p3"), ("delete", "Deployment", "vllm-p2")]


@pytest.mark.parametrize("mode", MODES)
def test_the_count_of_an_autoscaler_is_kept(mode: str) -> None:
    old, _found, shot = service(deploy_mode=mode, p_instances_num=3)
    kind, target = ("InstanceSet", "vllm-0-prefill") if mode == SET else ("Deployment", "vllm-p0")
    scaler = {
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "by-load"},
        "spec": {"scaleTargetRef": {"kind": kind, "name": target}},
    }
    owned = Snapshot(**{**shot.__dict__, "autoscalers": (scaler,)})
    new = releases.config(deploy_mode=mode, p_instances_num=1, d_instances_num=2)
    plan = plan_deploy(owned, new, releases.rendered(new), old)
    assert plan.counts == {"prefill": 3, "decode": 2}
    (write,) = [write for step in plan.steps for write in step.writes]
    assert (write.verb, write.name) == (("update", "vllm") if mode == SET else ("create", "vllm-d1"))
    assert mode != SET or write.why == "decode 1 -> 2"


def test_an_autoscaler_of_a_role_that_the_service_lacks_changes_nothing() -> None:
    config, found, shot = service()
    scaler = {"kind": "HorizontalPodAutoscaler", "metadata": {"name": "other"}, "spec": {"scaleTargetRef": {"name": "vllm-0-union"}}}
    plan = plan_deploy(Snapshot(**{**shot.__dict__, "autoscalers": (scaler,)}), config, found, config)
    assert plan.empty and plan.counts == COUNTS


def test_a_workload_that_is_being_deleted_is_waited_for_and_created_anew() -> None:
    config, found, shot = service(deploy_mode=SET)
    going = copy.deepcopy(shot.infer_service_set)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    plan = plan_deploy(shot.with_object(going), config, found, config)
    assert [(step.title, step.until, step.always) for step in plan.steps] == [
        ("wait for workloads that are being deleted", "gone", True),
        ("workloads", "", False),
    ]
    assert writes(plan) == [("create", "InferServiceSet", "vllm")]


def test_pods_that_a_deleted_set_has_left_are_waited_for_before_it_is_created_anew() -> None:
    config, found, shot = service(deploy_mode=SET)
    labels = {"infer.huawei.com/instanceset-name": "prefill", "infer.huawei.com/instanceset-index": "0"}
    left = {"metadata": {"name": "vllm-0-prefill-0-0", "labels": labels}, "spec": {"containers": []}}
    plan = plan_deploy(Snapshot(**{**shot.__dict__, "infer_service_set": None, "pods": (left,)}), config, found, config)
    assert [(step.until, step.always) for step in plan.steps] == [("gone", True), ("", False)]


@pytest.mark.parametrize("allow_restart", [True, False])
def test_something_that_only_has_the_name_of_an_instance_is_never_touched(allow_restart: bool) -> None:
    config, found, shot = service()
    namesake = copy.deepcopy(next(obj for obj in shot.deployments if obj["metadata"]["name"] == "vllm-p1"))
    namesake["spec"]["selector"]["matchLabels"]["app"] = namesake["spec"]["template"]["metadata"]["labels"]["app"] = "something-else"
    plan = plan_deploy(shot.with_object(namesake), config, found, config, allow_restart=allow_restart)
    assert writes(plan) == [("create", "Deployment", "vllm-p2")]


def test_instances_that_stay_under_other_indexes_are_replaced_too() -> None:
    config, found, _shot = service(p_instances_num=3)
    shot = live(config, found).without("Deployment", "vllm-p0")
    wanted = releases.config(p_instances_num=2, image_name="registry.example/motor:2")
    plan = plan_deploy(shot, wanted, releases.rendered(wanted), config, allow_restart=True)
    replaced = {name for verb, kind, name in writes(plan) if verb == "create"}
    assert {"vllm-p1", "vllm-p2", "vllm-d0"} <= replaced and "vllm-p0" not in replaced
    created = {write.name: write.body for step in plan.steps for write in step.writes if write.verb == "create"}
    assert created["vllm-p2"]["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/motor:2"


def test_instances_that_go_need_no_restart() -> None:
    config, _found, shot = service(p_instances_num=2)
    other = copy.deepcopy(next(obj for obj in shot.deployments if obj["metadata"]["name"] == "vllm-p1"))
    other["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example/motor:0"
    wanted = releases.config(p_instances_num=1)
    plan = plan_deploy(shot.with_object(other), wanted, releases.rendered(wanted), config)
    assert writes(plan) == [("delete", "Deployment", "vllm-p1")]


def test_another_service_is_not_made_of_a_live_one_even_where_restarts_are_allowed() -> None:
    config, _found, shot = service()
    other = releases.config(deploy_mode=SET)
    with pytest.raises(Refused) as refused:
        plan_deploy(shot, other, releases.rendered(other), config, allow_restart=True)
    assert refused.value.reason == "NotAllowed"


def test_only_instances_that_the_service_has_can_be_protected() -> None:
    config, found, shot = service()
    with pytest.raises(InputError) as error:
        plan_deploy(shot, config, found, config, choice=Choice(protect={"union": frozenset({0})}))
    assert error.value.path == "protect.union"


def test_replacing_instances_needs_the_release() -> None:
    config, _found, shot = service()
    wanted = releases.config({"motor_controller_config": {"read_at_start": 1}})
    with pytest.raises(InputError) as error:
        plan_deploy(shot, wanted, None, config, allow_restart=True)
    assert error.value.path == "release" and "have to be replaced" in str(error.value)


def test_a_deployment_is_called_so() -> None:
    config, found, shot = service()
    assert plan_deploy(shot, config, found, config).verb == plan_deploy(empty(config), config, found, None).verb == "deploy"


@pytest.mark.parametrize(("prefill", "settles"), [(1, False), (2, True), (3, True)])
def test_only_a_deployment_that_just_removes_does_not_wait_for_the_health_of_what_stays(prefill: int, settles: bool) -> None:
    config, _found, shot = service()
    wanted = releases.config(p_instances_num=prefill)
    assert plan_deploy(shot, wanted, releases.rendered(wanted), config).settles is settles
