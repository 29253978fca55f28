# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rolling replacement: which workloads are outdated, in which order they go, and what is waited for in between."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import generation, infer_service_set, readiness, replace
from ansible_collections.ascend.mindie.plugins.module_utils._motor.converge import OTHER_START, Outdated
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError, Refused
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan import Plan, Subject
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_deploy import plan_deploy
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_remove import belongs, plan_remove
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot

from . import releases, services
from .test_plan_deploy import SET, live, service

IMAGE = "registry.example/motor:2"
INFER = "infer.huawei.com/"


def new_image(snapshot: Snapshot, *, allow_restart: bool = True) -> Plan:
    old, wanted = releases.config(), releases.config(image_name=IMAGE)
    return plan_deploy(snapshot, wanted, releases.rendered(wanted), old, allow_restart=allow_restart)


def rounds(plan: Plan) -> list[tuple[str, list[str]]]:
    """Verb and names of each step that deletes or creates workloads."""
    found = []
    for step in plan.steps:
        writes = [write for write in step.writes if write.kind == "Deployment"]
        if writes:
            found.append((writes[0].verb, [write.name for write in writes]))
    return found


def test_one_instance_of_each_engine_role_then_the_control_roles() -> None:
    dummy, dummy, shot = service()
    plan = new_image(shot)
    assert [names for verb, names in rounds(plan) if verb == "delete"] == [
        ["vllm-p1", "vllm-d0"],
        ["vllm-p0"],
        ["mindie-motor-controller"],
        ["mindie-motor-coordinator"],
    ]
    verbs = [verb for verb, dummy in rounds(plan)]
    assert verbs == ["delete", "create"] * 4, "nothing surges"
    assert all(step.always for step in plan.steps if step.until), "also without wait"
    assert plan.steps[0].writes[0].name == "motor-config", "pods that start have to find the new configuration"


def test_what_does_not_run_goes_first() -> None:
    dummy, dummy, shot = service()
    plan = new_image(_with_pods(shot, unready="vllm-p0"))
    assert rounds(plan)[0][1] == ["vllm-p0", "vllm-d0"]


def test_a_replaced_instance_that_does_not_run_yet_is_waited_for() -> None:
    dummy, dummy, shot = service()
    wanted = releases.config(image_name=IMAGE)
    value = generation.generation(releases.rendered(wanted).config_map["data"])
    fresh = next(obj for role, index, obj in releases.rendered(wanted).instances if (role, index) == ("prefill", 1))
    fresh = copy.deepcopy(dict(fresh))
    generation.mark(fresh["metadata"], value)
    fresh["metadata"]["uid"] = "new"
    assert waited_for(new_image(_with_pods(shot.with_object(fresh), unready=""))) == [], "it runs already"
    plan = new_image(_with_pods(shot.with_object(fresh), unready="vllm-p1"))
    waits = [step for step in plan.steps if step.until == "running" and not step.writes]
    assert [subject.name for subject in waits[0].subjects] == ["vllm-p1"]
    assert "vllm-p1" not in [name for dummy, names in rounds(plan) for name in names]


def test_without_a_mark_and_a_record_nothing_is_restarted() -> None:
    assert not generation.is_other({}, "", "wanted")
    assert generation.is_other({}, "baseline", "wanted") and not generation.is_other({}, "wanted", "wanted")
    assert generation.is_other({"annotations": {generation.ANNOTATION: "own"}}, "wanted", "wanted")


@pytest.mark.parametrize(
    ("section", "value", "other"),
    [
        ("motor_controller_config", {"logging_config": {"log_level": "DEBUG"}}, False),
        ("motor_controller_config", {"empty": {}}, False),
        ("motor_controller_config", {"a_key": 1}, True),
        ("motor_engine_prefill_config", {"engine_type": "vllm", "engine_config": {"max_num_seqs": 4}}, True),
    ],
)
def test_the_generation_is_what_pods_read_when_they_start(section: str, value: Any, other: bool) -> None:
    before, after = services.user_config(), services.user_config(prefill=5, **{section: value})
    found = [generation.generation({"user_config.json": config.text, "boot.sh": "x"}) for config in (before, after)]
    assert (found[0] != found[1]) is other
    assert generation.generation({"user_config.json": before.text, "boot.sh": "y"}) != found[0]


def test_of_a_standby_pair_the_standby_pod_goes_first() -> None:
    pair = _control(replicas=2)
    pods = (_pod("master", ready=True), _pod("standby", ready=False))
    shot = Snapshot("ns", "deployments", "vllm", pods=pods, deployments=(pair,))
    first, second = replace.steps(shot, [Outdated(pair, ("image",), pair)], [], "generation")
    assert [write.verb for write in first.writes] == ["update"] and first.writes[0].body["spec"]["strategy"]["rollingUpdate"][
        "maxSurge"
    ] == 0
    assert {step.subjects[0].name for step in (first, second)} == {"controller"}, "as troubles of its pods are told"
    assert first.subjects[0].but_ready and first.subjects[0].started == 1 and first.subjects[0].old == "old"
    assert [(write.verb, write.kind, write.name) for write in second.writes] == [("delete", "Pod", "master")]
    assert second.subjects[0].ready == 1 and not second.subjects[0].but_ready


def test_a_half_replaced_standby_pair_is_gone_on_with() -> None:
    pair = _control(replicas=2)
    pods = (_pod("master", ready=True), _pod("standby", ready=False, template="new", created="2026-01-02T00:00:00Z"))
    shot = Snapshot("ns", "deployments", "vllm", pods=pods, deployments=(pair,))
    (step,) = replace.unfinished_rollouts(shot, [])
    assert [(write.kind, write.name) for write in step.writes] == [("Pod", "master")] and step.subjects[0].name == "controller"
    assert replace.unfinished_rollouts(shot, [Outdated(pair, ("image",))]) == (), "the rounds see to it"
    done = Snapshot("ns", "deployments", "vllm", pods=(_pod("master", ready=True, template="new"),), deployments=(pair,))
    assert replace.unfinished_rollouts(done, []) == ()


def test_a_half_replaced_pair_of_somebody_else_is_left_alone() -> None:
    pair = _control(replicas=2)
    pair["metadata"]["name"] = "a-tool"
    pods = (_pod("a", ready=True), _pod("b", ready=False, template="new", created="2026-01-02T00:00:00Z"))
    shot = Snapshot("ns", "deployments", "vllm", pods=pods, deployments=(pair,))
    assert replace.unfinished_rollouts(shot, []) == ()


def test_a_deployment_of_somebody_else_is_not_waited_for() -> None:
    dummy, dummy, shot = service()
    foreign = _control(replicas=1)
    foreign["metadata"]["name"] = "a-tool"
    foreign["spec"]["selector"]["matchLabels"] = {"app": "a-tool"}
    plan = new_image(_with_pods(shot.with_object(foreign), unready="a-tool"))
    assert "a-tool" not in {subject.name for step in plan.steps for subject in step.subjects}
    assert rounds(plan) == rounds(new_image(_with_pods(shot, unready="")))


def test_a_first_deployment_that_never_ended_is_replaced_without_asking() -> None:
    config, found, dummy = service()
    shot = live(config, found, applied=False)
    for obj in shot.deployments:
        marked_one = copy.deepcopy(dict(obj))
        generation.mark(marked_one["metadata"], generation.generation(found.config_map["data"]))
        shot = shot.with_object(marked_one)
    assert next(names for verb, names in rounds(new_image(shot, allow_restart=False)) if verb == "delete") == ["vllm-p1", "vllm-d0"]
    with pytest.raises(Refused) as refused:
        new_image(live(config, found), allow_restart=False)
    assert refused.value.reason == "RestartNeeded"


def test_a_replacement_goes_on_between_the_two_halves_of_a_standby_pair() -> None:
    config, found, dummy = service()
    pair = next(obj for obj in found.objects if (obj["kind"], obj["metadata"]["name"]) == ("Deployment", "mindie-motor-controller"))
    pair["spec"]["replicas"] = 2
    pods = (_pod("master", ready=True), _pod("standby", ready=False, template="new", created="2026-01-02T00:00:00Z"))
    for applied in (True, False):
        shot = Snapshot(**{**live(config, found, applied=applied).__dict__, "pods": pods})
        gone = [write.name for step in plan_deploy(shot, config, found, config).steps for write in step.writes if write.kind == "Pod"]
        assert gone == ([] if applied else ["master"]), "only a change of ours that did not end"


def waited_for(plan: Plan) -> list[str]:
    """What is waited for before the first round."""
    return [subject.name for step in plan.steps if step.until == "running" and not step.writes for subject in step.subjects]


def test_what_runs_is_not_waited_for_and_what_is_created_is() -> None:
    dummy, dummy, shot = service()
    assert waited_for(new_image(_with_pods(shot, unready=""))) == []
    old, wanted = releases.config(), releases.config(image_name=IMAGE, p_instances_num=3)
    plan = plan_deploy(_with_pods(shot, unready=""), wanted, releases.rendered(wanted), old, allow_restart=True)
    assert waited_for(plan) == ["vllm-p2"]


def test_a_new_instance_that_goes_is_not_waited_for() -> None:
    dummy, dummy, shot = service()
    old, wanted = releases.config(), releases.config(image_name=IMAGE, p_instances_num=1)
    fresh = next(
        obj for role, index, obj in releases.rendered(releases.config(image_name=IMAGE)).instances if (role, index) == ("prefill", 1)
    )
    fresh = copy.deepcopy(dict(fresh))
    generation.mark(fresh["metadata"], generation.generation(releases.rendered(wanted).config_map["data"]))
    fresh["metadata"]["uid"] = "new"
    plan = plan_deploy(_with_pods(shot.with_object(fresh), unready="vllm-p1"), wanted, releases.rendered(wanted), old, allow_restart=True)
    assert waited_for(plan) == [] and "vllm-p1" in [write.name for step in plan.steps for write in step.writes]


def test_workloads_of_a_set_are_compared_with_what_the_set_is_going_to_be() -> None:
    config, dummy, shot = service(deploy_mode=SET)
    wanted = releases.config(deploy_mode=SET, image_name=IMAGE)
    after = releases.rendered(wanted)
    value = generation.generation(after.config_map["data"])
    children = (_workload(shot.infer_service_set, "prefill", 0, "old"), _workload(_set_of(after), "prefill", 1, value))
    found = Snapshot(**{**shot.__dict__, "workloads": children})
    plan = plan_deploy(found, wanted, after, config, allow_restart=True)
    assert [write.name for step in plan.steps for write in step.writes if write.kind == "StatefulSet"] == ["vllm-0-prefill-0"]
    assert waited_for(plan) == ["vllm-0-prefill-1"], "it has no pods yet"


def test_what_was_started_with_an_earlier_configuration_is_named() -> None:
    config, found, dummy = service()
    shot = live(config, found)
    record_of_before = shot.config_map["metadata"]["annotations"]["ascend.mindie/applied"].replace(
        '"generation": ""', '"generation": "before"'
    )
    unfinished = copy.deepcopy(dict(shot.config_map))
    unfinished["metadata"]["annotations"]["ascend.mindie/applied"] = record_of_before.replace('"config": "', '"config": "0')
    with pytest.raises(Refused) as refused:
        plan_deploy(shot.with_object(unfinished), config, found, config)
    assert f"Deployment vllm-p0: {OTHER_START}" in refused.value.paths


def test_without_a_release_a_deployment_of_somebody_else_is_no_matter() -> None:
    config, dummy, shot = service()
    foreign = _control(replicas=1)
    foreign["metadata"]["name"] = "a-tool"
    generation.mark(foreign["metadata"], "another")
    assert plan_deploy(shot.with_object(foreign), config, None, config).empty
    own = copy.deepcopy(dict(shot.deployments[0]))
    generation.mark(own["metadata"], "another")
    with pytest.raises(InputError, match="release is needed"):
        plan_deploy(shot.with_object(own), config, None, config)


def test_old_pods_have_to_be_gone_and_new_ones_ready() -> None:
    subject = Subject("controller", {"app": "mindie-motor-controller"}, ready=1, old="old")
    for pods, done in (
        ((_pod("a", ready=True),), False),
        ((_pod("a", ready=True), _pod("b", ready=True, template="new")), False),
        ((_pod("b", ready=False, template="new"),), False),
        ((_pod("b", ready=True, template="new"),), True),
    ):
        shot = Snapshot("ns", "deployments", "vllm", pods=pods)
        assert readiness.present([subject], ())(shot, {}).done is done
    assert not readiness.present([Subject("x", {}, ready=1)], {"a"})(
        Snapshot("ns", "deployments", "vllm", pods=(_pod("a", ready=True),)), {}
    ).done


def test_what_the_operator_adds_to_a_pod_template_is_no_difference() -> None:
    role = _role()
    assert infer_service_set.child(role, _child())["spec"]["template"] == _child()["spec"]["template"]
    strange = _child()
    strange["spec"]["template"]["metadata"]["labels"]["by"] = "hand"
    strange["spec"]["template"]["spec"]["containers"][0]["env"].append({"name": "BY", "value": "hand"})
    assert infer_service_set.child(role, strange)["spec"]["template"] == _child()["spec"]["template"]
    assert infer_service_set.child(role, _child())["metadata"] == {
        key: _child()["metadata"][key] for key in ("name", "namespace", "labels")
    }
    assert (
        infer_service_set.child(role, _child())["kind"] == "StatefulSet"
        and infer_service_set.child(role, _child())["spec"]["replicas"] == 2
    )


def test_a_role_that_says_nothing_of_its_pods_has_one() -> None:
    role = _role()
    del role["spec"]["replicas"]
    made = infer_service_set.child(role, _child())
    assert made["spec"]["replicas"] == 1 and made["apiVersion"] == "apps/v1"


@pytest.mark.parametrize("status", [{}, {"replicas": 1}, {"readyReplicas": 1}])
def test_a_set_whose_operator_has_said_nothing_is_not_as_wanted(status: dict[str, int]) -> None:
    shot = _with_instance_set(1, {"observedGeneration": 2, **status})
    assert infer_service_set.unsettled(shot, {"prefill": 1})
    assert not infer_service_set.unsettled(
        _with_instance_set(1, {"observedGeneration": 2, "replicas": 1, "readyReplicas": 1}), {"prefill": 1}
    )


def test_a_lower_count_is_reached_when_the_operator_has_no_more() -> None:
    assert not infer_service_set.unreduced(_with_instance_set(None, {}), {"prefill": 0})
    assert infer_service_set.unreduced(_with_instance_set(1, {}), {"prefill": 0})
    assert infer_service_set.unreduced(_with_instance_set(None, {"replicas": 1}), {"prefill": 0})
    assert "does not exist" in infer_service_set.unreduced(Snapshot("ns", SET, "vllm"), {"prefill": 0})


@pytest.mark.parametrize("change", ["spec", "observed", "missing", ""])
def test_the_operator_knows_a_change_when_its_instance_sets_have_it(change: str) -> None:
    item = {"metadata": {"name": "vllm-0-prefill", "generation": 2, "labels": {f"{INFER}instanceset-name": "prefill"}}}
    item |= {"spec": {**_role(), "replicas": 7}, "status": {"observedGeneration": 2}}
    if change == "spec":
        item["spec"] = {**item["spec"], "spec": {**item["spec"]["spec"], "replicas": 3}}
    if change == "observed":
        item["status"]["observedGeneration"] = 1
    found = () if change == "missing" else (item,)
    shot = Snapshot(
        "ns", SET, "vllm", infer_service_set={"metadata": {"name": "vllm"}, "spec": {"template": {"roles": [_role()]}}}, instance_sets=found
    )
    assert bool(infer_service_set.unknown(shot)) is bool(change)


@pytest.mark.parametrize("kind", ["ClusterRole", "ClusterRoleBinding", "PersistentVolumeClaim"])
def test_what_only_has_a_name_of_motors_deployer_is_not_removed(kind: str) -> None:
    obj: dict[str, Any] = {"kind": kind, "metadata": {"name": "mindie-motor-controller"}}
    assert not belongs(obj)
    obj["metadata"]["labels"] = {"app.kubernetes.io/part-of": "mindie-motor"}
    assert belongs(obj)
    obj["metadata"]["ownerReferences"] = [{"kind": "Deployment"}]
    assert not belongs(obj)


def test_removing_waits_in_the_foreground_for_a_set_only() -> None:
    config = services.user_config()
    plan = plan_remove(services.snapshot(config, services.running(prefill=1, decode=1)), claims=False)
    assert {write.propagation for step in plan.steps for write in step.writes} == {"Background"}


def _with_pods(shot: Snapshot, *, unready: str) -> Snapshot:
    """A pod for each Deployment, all of them Ready but those of one."""
    found = []
    for item in shot.deployments:
        name = item["metadata"]["name"]
        for number in range(item["spec"]["replicas"]):
            pod = _pod(f"{name}-{number}", ready=name != unready)
            pod["metadata"]["labels"]["app"] = name
            found.append(pod)
    return Snapshot(**{**shot.__dict__, "pods": tuple(found)})


def _control(*, replicas: int) -> dict[str, Any]:
    labels = {"app": "mindie-motor-controller"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "mindie-motor-controller", "namespace": "ns", "uid": "u"},
        "spec": spec,
    }


def _pod(name: str, *, ready: bool, template: str = "old", created: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": name,
            "creationTimestamp": created,
            "labels": {"app": "mindie-motor-controller", "pod-template-hash": template},
        },
        "spec": {"containers": []},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }


def _set_of(found: Any) -> dict[str, Any]:
    return next(dict(obj) for obj in found.objects if obj["kind"] == "InferServiceSet")


def _workload(infer_set: Any, name: str, index: int, value: str) -> dict[str, Any]:
    """The StatefulSet that the operator has made of a role."""
    role = next(item for item in infer_set["spec"]["template"]["roles"] if item["name"] == name)
    labels = {f"{INFER}instanceset-name": name, f"{INFER}instanceset-index": str(index)}
    metadata = {"name": f"vllm-0-{name}-{index}", "namespace": "ns", "uid": f"uid-{index}", "labels": labels}
    generation.mark(metadata, value)
    spec = {**copy.deepcopy(role["spec"]), "selector": {"matchLabels": labels}}
    return {"kind": "StatefulSet", "metadata": metadata, "spec": spec}


def _with_instance_set(replicas: int | None, status: dict[str, int]) -> Snapshot:
    metadata = {"name": "vllm-0-prefill", "generation": 2, "labels": {f"{INFER}instanceset-name": "prefill"}}
    item = {"metadata": metadata, "spec": {"replicas": replicas}, "status": status}
    return Snapshot("ns", SET, "vllm", instance_sets=(item,))


def _role() -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}]}]},
    }
    return {"name": "prefill", "replicas": 1, "spec": {"replicas": 2, "template": template}}


def _child() -> dict[str, Any]:
    added = {f"{INFER}instanceset-index": "0", "fault-scheduling": "force", "inferserviceid": "id"}
    names = ("INSTANCE_INDEX", "INSTANCE_ROLE", "INFER_SERVICE_INDEX", "INFER_SERVICE_NAME")
    env = [{"name": "A", "value": "1"}, *({"name": name, "value": "0"} for name in names)]
    template = {
        "metadata": {"labels": {"app": "x", **added}, "annotations": {"scheduling.k8s.io/group-name": "pg"}},
        "spec": {"containers": [{"name": "c", "image": "i", "env": env}]},
    }
    metadata = {"name": "vllm-0-prefill-0", "namespace": "ns", "uid": "u", "labels": {f"{INFER}instanceset-name": "prefill"}}
    return {
        "kind": "StatefulSet",
        "metadata": metadata,
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "x"}}, "template": template},
    }
