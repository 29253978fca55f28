# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a snapshot says of a service: states of instances, control roles, owners of counts, verdicts, the record."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import pods as pod_facts
from ansible_collections.ascend.mindie.plugins.module_utils._motor import readiness, record, report
from ansible_collections.ascend.mindie.plugins.module_utils._motor.kinds import KINDS
from ansible_collections.ascend.mindie.plugins.module_utils._motor.ownership import is_ours
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_remove import plan_remove
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_scale import plan_scale
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot, service_state

from . import services

CONFIG = services.user_config(prefill=1, decode=1)


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"phase": "Pending", "containerStatuses": [{"state": state}]}


def terminated(code: int) -> dict[str, Any]:
    return {
        "phase": "Failed",
        "containerStatuses": [{"state": {"running": {}}}, {"state": {"terminated": {"reason": "Error", "exitCode": code}}}],
    }


UNSCHEDULABLE = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}],
}


@pytest.mark.parametrize(
    ("pod", "state", "reason"),
    [
        (services.pod("vllm-p0"), "running", ""),
        (services.pod("vllm-p0", ready=False), "starting", "0 of 1 pods ready"),
        (services.pod("vllm-p0", status=waiting("ImagePullBackOff", "no such image")), "failed", "ImagePullBackOff: no such image"),
        (services.pod("vllm-p0", status=waiting("CrashLoopBackOff")), "failed", "CrashLoopBackOff"),
        (services.pod("vllm-p0", status=waiting("ContainerCreating")), "starting", "0 of 1 pods ready"),
        (services.pod("vllm-p0", status=terminated(3)), "failed", "exit code 3"),
        (services.pod("vllm-p0", status={"phase": "Failed", "reason": "Evicted"}), "failed", "Evicted"),
        (services.pod("vllm-p0", status={"phase": "Failed"}), "failed", "Failed"),
        (services.pod("vllm-p0", status=UNSCHEDULABLE), "pending", "0/3 nodes are available"),
        (services.pod("vllm-p0", leaving=True), "starting", "0 of 1 pods ready"),
    ],
)
def test_the_state_of_an_instance_follows_its_pods(pod: dict[str, Any], state: str, reason: str) -> None:
    shot = services.snapshot(CONFIG, [("prefill", 0)], pods=(pod,))
    (instance,) = service_state(shot).instances
    assert instance.state == state
    assert reason in instance.reason


def test_an_instance_tells_where_it_runs_and_what_it_takes() -> None:
    shot = services.snapshot(CONFIG, [("prefill", 0)])
    (instance,) = service_state(shot).instances
    assert instance.to_dict() == {
        "engine_role": "prefill",
        "index": 0,
        "name": "vllm-p0",
        "state": "running",
        "reason": "",
        "since": "2026-01-02T00:00:00Z",
        "pods": 1,
        "pods_ready": 1,
        "nodes": ["node-0"],
        "npus": 16,
        "altered": False,
    }


def test_a_deployment_of_somebody_else_is_foreign_and_never_counted() -> None:
    deployment = services.deployment("prefill", 3)
    deployment["spec"]["selector"] = {"matchLabels": {"app": "mine"}}
    state = service_state(services.snapshot(CONFIG, services.running(prefill=1, decode=1)).with_object(deployment))
    assert [i.name for i in state.instances if i.state == "foreign"] == ["vllm-p3"]
    assert state.counts() == {"prefill": 1, "decode": 1}


def test_an_instance_is_terminating_until_its_last_pod_is_gone() -> None:
    shot = services.snapshot(CONFIG, [("prefill", 0)])
    without = shot.without("Deployment", "vllm-p0")
    assert [(i.name, i.state) for i in service_state(without).instances] == [("vllm-p0", "terminating")]
    assert not readiness.gone(without, {}).done and "vllm-p0" in readiness.gone(without, {}).seen
    assert readiness.gone(replace(without, pods=()), {}).done


def test_surplus_indexes_of_an_infer_service_set_are_terminating() -> None:
    shot = services.set_snapshot(CONFIG, prefill=1, decode=1, extra_pods=[services.set_pod("prefill", 1)])
    state = service_state(shot)
    assert [i.name for i in state.leaving()] == ["vllm-0-prefill-1"]
    assert state.counts() == {"prefill": 1, "decode": 1}


def test_an_instance_of_an_infer_service_set_without_pods_is_starting() -> None:
    shot = replace(services.set_snapshot(CONFIG, prefill=1, decode=1), pods=())
    assert {i.state for i in service_state(shot).instances} == {"starting"}


def test_a_standby_pod_that_is_never_ready_does_not_hold_up_the_service() -> None:
    shot = services.snapshot(CONFIG, services.running(prefill=1, decode=1))
    standby = services.pod("mindie-motor-controller", 1, ready=False)
    assert readiness.settled(replace(shot, pods=(*shot.pods, standby)), {"prefill": 1, "decode": 1}).done


def test_without_a_ready_control_pod_the_reason_is_told() -> None:
    shot = services.snapshot(CONFIG, services.running(prefill=1, decode=1))
    broken = services.pod("mindie-motor-controller", status=waiting("ImagePullBackOff"))
    pods = tuple(pod for pod in shot.pods if pod["metadata"]["labels"]["app"] != "mindie-motor-controller")
    verdict = readiness.settled(replace(shot, pods=(*pods, broken)), {"prefill": 1, "decode": 1})
    assert not verdict.done and "controller: pod mindie-motor-controller-0: ImagePullBackOff" in verdict.seen
    assert "no pod yet" in readiness.settled(replace(shot, pods=pods), {"prefill": 1, "decode": 1}).seen


@pytest.mark.parametrize(
    ("counts", "said"), [({"prefill": 2, "decode": 1}, "prefill: 1 of 2"), ({"prefill": 0, "decode": 1}, "1 instances, 0 wanted")]
)
def test_settled_needs_exactly_the_wanted_counts(counts: dict[str, int], said: str) -> None:
    verdict = readiness.settled(services.snapshot(CONFIG, services.running(prefill=1, decode=1)), counts)
    assert not verdict.done and said in verdict.seen


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (services.instance_set("prefill", 1, observed=False), "0 of 1"),
        (services.instance_set("prefill", 1, ready=0), "0 of 1"),
        (None, "does not exist yet"),
    ],
    ids=["not observed", "not ready", "absent"],
)
def test_only_instance_sets_tell_the_truth(changed: dict[str, Any] | None, said: str) -> None:
    shot = services.set_snapshot(CONFIG, prefill=1, decode=1)
    assert readiness.settled(shot, {"prefill": 1, "decode": 1}).done
    sets = [changed] if changed else []
    verdict = readiness.settled(replace(shot, instance_sets=(*sets, services.instance_set("decode", 1))), {"prefill": 1, "decode": 1})
    assert not verdict.done and said.replace("0 of 1", "of 1 instances ready") in verdict.seen


def test_gang_scheduling_asks_for_a_state_that_stays() -> None:
    shot = services.set_snapshot(CONFIG, prefill=1, decode=1)
    assert not readiness.settled(shot, {}).may_flap
    shot.infer_service_set["spec"]["template"]["roles"][1]["metadata"] = {"labels": {"infer.huawei.com/gang-schedule": "true"}}
    assert readiness.settled(shot, {}).may_flap


def test_pods_of_others_are_not_waited_for() -> None:
    other = services.pod("unrelated")
    shot = Snapshot("n", "any", "vllm", pods=(other,))
    assert readiness.no_pods(shot, {}).done
    assert (
        "2 pods left" in readiness.no_pods(replace(shot, pods=(other, services.pod("sglang-d1"), services.set_pod("prefill", 0))), {}).seen
    )


def test_in_one_pod_the_single_container_is_all_there_is() -> None:
    name = f"{services.NAMESPACE}-single-container"
    deployment = {"kind": "Deployment", "metadata": {"name": name}, "spec": {"selector": {}}}
    shot = Snapshot(services.NAMESPACE, "deployments", "vllm", deployments=(deployment,), pods=(services.pod(name),))
    assert [(role.name, role.pods_ready) for role in service_state(shot).control] == [("single_container", 1)]
    assert readiness.settled(shot, {}).done


def test_a_snapshot_follows_what_the_server_stored() -> None:
    shot = services.set_snapshot(CONFIG, prefill=1)
    service = {"kind": "Service", "metadata": {"name": "s"}}
    shot = shot.with_object(service)
    assert shot.others[("Service", "s")] is service
    assert not shot.without("Service", "s").others
    assert shot.without("ConfigMap", "motor-config").config_map is None
    assert shot.without("InferServiceSet", "vllm").infer_service_set is None
    changed = {**shot.infer_service_set, "spec": {}}
    assert shot.with_object(changed).infer_service_set == changed
    assert shot.with_object({"kind": "ConfigMap", "metadata": {"name": "motor-config"}}).config_map["metadata"]


@pytest.mark.parametrize(
    ("config_map", "standing"),
    [
        (None, record.ABSENT),
        (services.config_map(CONFIG, applied=False), record.DEPLOYER),
        (services.config_map(CONFIG), record.APPLIED),
        (record.with_data(services.config_map(CONFIG, applied=False), {}), record.UNFINISHED),
        (record.with_data(services.config_map(CONFIG), {"user_config.json": "{}"}), record.UNFINISHED),
    ],
)
def test_what_motor_config_says_of_the_service(config_map: dict[str, Any] | None, standing: str) -> None:
    assert record.standing(config_map) == standing


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_an_unreadable_record_is_none(text: str) -> None:
    obj = {"metadata": {"annotations": {record.APPLIED_ANNOTATION: text}}}
    assert record.applied_of(obj) is None


def test_the_revision_grows_and_the_digest_of_the_environment_is_kept() -> None:
    first = record.with_applied(services.config_map(CONFIG), {}, {}, at="t", by="me", run="a", env_sha256="e")
    second = record.with_applied(first, {}, {}, at="t", by="me", run="b")
    assert record.applied_of(second)["revision"] == record.applied_of(first)["revision"] + 1
    assert record.applied_of(second)["sha256"]["env"] == "e"
    assert is_ours(second) and not is_ours(None)


def test_the_report_of_a_baseline_hides_secrets_and_shows_drift_and_changes() -> None:
    config = services.user_config(motor_coordinator_config={"api_key_config": {"api_key": "geheim"}})
    other = services.user_config(prefill=3, version="v3")
    shown = report.baseline_report(services.snapshot(config, [("prefill", 0)]), other)
    assert "geheim" not in str(shown)
    assert shown["baseline"]["drift"] == {"prefill": {"baseline": 2, "live": 1}, "decode": {"baseline": 1, "live": 0}}
    assert shown["changes"]["counts"] == {"prefill": [2, 3]} and "version" in shown["changes"]["restart"]
    assert report.baseline_report(services.snapshot(config, [], config_map=None), None)["baseline"]["standing"] == "absent"


def test_npus_are_summed_over_containers_and_resources() -> None:
    containers = [{"resources": {"requests": {"huawei.com/Ascend910": "8"}}}, {"resources": {"requests": {"huawei.com/npu": 4}}}, {}]
    assert pod_facts.npus({"spec": {"containers": containers}}) == 12


def test_paths_of_kinds() -> None:
    assert KINDS["Pod"].path("n", "p") == "/api/v1/namespaces/n/pods/p"
    assert KINDS["Deployment"].path("n") == "/apis/apps/v1/namespaces/n/deployments"
    assert KINDS["ClusterRole"].path(None, "r") == "/apis/rbac.authorization.k8s.io/v1/clusterroles/r"


def test_the_state_as_plain_data() -> None:
    shown = service_state(services.snapshot(CONFIG, services.running(prefill=1, decode=1))).to_dict()
    assert shown["counts"] == {"prefill": 1, "decode": 1} and shown["standing"] == "applied"
    assert [role["name"] for role in shown["control"]] == ["controller", "coordinator"]


def test_the_diff_of_a_plan_shows_what_we_manage_without_secrets() -> None:
    before = services.user_config(motor_coordinator_config={"api_key_config": {"api_key": "geheim"}})
    shot = services.snapshot(before, services.running(prefill=2, decode=1))
    shown = report.diff(shot, plan_scale(shot, before, {"prefill": 3, "decode": 1}))
    assert "geheim" not in str(shown)
    assert shown["before"]["instances"] == {"prefill": 2, "decode": 1} and shown["after"]["instances"] == {"prefill": 3, "decode": 1}
    counts = [shown[side]["user_config"]["motor_deploy_config"].pop("p_instances_num") for side in ("before", "after")]
    assert counts == [2, 3] and shown["before"]["user_config"] == shown["after"]["user_config"]
    assert report.diff(shot, plan_remove(shot, claims=False))["after"] == {"instances": {}, "user_config": {}}
    shot.config_map["data"]["user_config.json"] = "{"
    assert report.diff(shot, plan_remove(shot, claims=False))["before"]["user_config"] == {}
