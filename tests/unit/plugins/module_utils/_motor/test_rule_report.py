# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is told of jobs beside a scaling rule, and what of a cluster goes into its check and its simulation."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import job_facts, rule_cluster, rule_reader, rule_report
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_reader import Reading
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_report import Picture
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import ANY_BACKEND, Snapshot
from tests.functional.rules import TWO_TIERS, mapping, text_of

NAME, NAMESPACE, TASK = "scaling-rule", "mindie-test", "mindie"
NPU = "huawei.com/Ascend910"
GROUPS = {"prefill": "group0", "decode": "group1"}


def reading(text: str = TWO_TIERS) -> Reading:
    return rule_reader.read(text, source="rule")


def container(npus: int) -> dict[str, Any]:
    return {"name": "ascend", "resources": {"requests": {NPU: str(npus)}}}


def job(name: str, group: str | None = "group0", *, pods: int = 1, npus: int = 8, task: str | None = TASK, **more: Any) -> dict[str, Any]:
    labels = {"mind-cluster/scaling-rule": NAME, "mind-cluster/group-name": group, "jobID": task}
    template = {"spec": {"containers": [container(npus)]}}
    specs = {"Master": {"replicas": 1, "template": template}, "Worker": {"replicas": pods - 1, "template": template}}
    metadata = {"name": name, "uid": f"uid-{name}", "labels": {key: value for key, value in labels.items() if value is not None}}
    found: dict[str, Any] = {"kind": "AscendJob", "metadata": metadata, "spec": {"replicaSpecs": specs}}
    found["metadata"].update(more.pop("metadata", {}))
    return {**found, **more}


def pod_group(of: dict[str, Any], phase: str | None, *, owned: bool = True, **labels: str | None) -> dict[str, Any]:
    metadata = of["metadata"]
    kept = {key: value for key, value in {**metadata["labels"], **labels}.items() if value is not None}
    owners = [{"kind": "AscendJob", "name": metadata["name"], "uid": metadata["uid"]}] if owned else []
    status = {"phase": phase} if phase else {}
    return {
        "kind": "PodGroup",
        "metadata": {"name": f"{metadata['name']}-{metadata['uid']}", "labels": kept, "ownerReferences": owners},
        "status": status,
    }


def pod(of: str, node: str, npus: int = 8) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"name": f"{of}-master-0", "labels": {"training.kubeflow.org/job-name": of}},
        "spec": {"nodeName": node, "containers": [container(npus)]},
    }


def node(name: str, npus: int = 8, *, ready: str = "True", cordoned: bool = False, pod_id: str = "", annotated: str = "") -> dict[str, Any]:
    metadata = {
        "name": name,
        "labels": {"huawei.com/topotree.superpodid": pod_id} if pod_id else {},
        "annotations": {"superPodID": annotated},
    }
    status = {"capacity": {NPU: str(npus)} if npus else {}, "conditions": [{"type": "Ready", "status": ready}]}
    return {"kind": "Node", "metadata": metadata, "spec": {"unschedulable": cordoned}, "status": status}


def snapshot(**more: Any) -> Snapshot:
    return Snapshot(namespace=NAMESPACE, backend=ANY_BACKEND, base_name="vllm", **more)


def why(
    one: dict[str, Any], *, beside: tuple[dict[str, Any], ...] = (), rule: Reading | None = None, **more: Any
) -> tuple[bool, bool, str]:
    found = snapshot(jobs=(one, *beside), **more)
    answers = {answer["name"]: answer for answer in rule_report.job_answers(found, NAME, rule or reading())}
    answer = answers[one["metadata"]["name"]]
    return answer["may_create"], answer["crashes"], answer["why"]


HELD, OTHER, DECODE = job("p1"), job("p0"), job("d0", "group1")
INQUEUE = (pod_group(HELD, "Inqueue"),)


def test_what_the_rule_decides() -> None:
    assert why(HELD, pod_groups=INQUEUE) == (True, False, "tier 1 asks for 1 instances of group0, 0 run")
    running = (*INQUEUE, pod_group(OTHER, "Running"))
    assert why(HELD, pod_groups=running) == (False, False, "tier 1 has its 1 instances of group0 and waits for group1 (0 of 1)")
    full = (*INQUEUE, pod_group(OTHER, "Running"), pod_group(job("p2"), "Running"), pod_group(DECODE, "Running"))
    assert why(HELD, pod_groups=full) == (False, False, "every tier of the rule is satisfied, so nothing more is started")
    assert why(HELD, pod_groups=(*INQUEUE, pod_group(job("x", task="another"), "Running")))[0], "another task does not count"


def test_a_misspelt_group_crashes_the_operator() -> None:
    wrong = job("p1", "grp0")
    assert why(wrong, pod_groups=(pod_group(wrong, "Inqueue"),))[:2] == (False, True)


def test_what_keeps_a_job_from_being_asked_about_in_the_order_of_the_operator() -> None:
    leaving = job("p1", metadata={"deletionTimestamp": "2026-08-01T09:30:00Z"})
    assert why(leaving, pod_groups=INQUEUE)[2] == "it is being deleted"
    for missing, label in (({"group": None}, "mind-cluster/group-name"), ({"task": None}, "jobID")):
        assert why(job("p1", **missing), pod_groups=INQUEUE)[2] == f"it has no label {label}: the operator gives it up for good"
    failed = {"conditions": [{"type": "Failed", "status": "True", "message": "the backoff limit"}]}
    assert "given it up for good (the backoff limit)" in why(job("p1", status=failed), pod_groups=INQUEUE)[2]
    assert why(HELD, pod_groups=INQUEUE, pods=(pod("p1", "n"),))[2] == "it has all its 1 pods and needs no more"
    assert why(job("p1", pods=2), pod_groups=INQUEUE, pods=(pod("p1", "n"),))[0], "one of two pods is missing"
    assert "not enough NPUs are free" in why(HELD, pod_groups=(pod_group(HELD, "Pending"),))[2]
    assert "the Ascend Operator has made no PodGroup" in why(HELD)[2]
    assert "Volcano has not looked" in why(HELD, pod_groups=(pod_group(HELD, None),))[2]
    nameless = pod_group(OTHER, "Running", **{"mind-cluster/group-name": None})
    assert "has no label mind-cluster/group-name" in why(HELD, pod_groups=(*INQUEUE, nameless))[2]
    assert why(HELD, pod_groups=(*INQUEUE, pod_group(job("x", task="another"), "Running", **{"mind-cluster/group-name": None})))[0]


def test_pods_that_do_not_run_are_told_with_their_trouble() -> None:
    ill = {**pod("p1", "n"), "status": {"phase": "Failed", "reason": "Evicted"}}
    said = why(HELD, pod_groups=INQUEUE, pods=(ill,))[2]
    assert said.startswith("it has all its 1 pods and needs no more, but they do not run: ") and "Evicted" in said


def test_a_pod_group_is_found_by_its_owner_or_its_name() -> None:
    assert why(HELD, pod_groups=(pod_group(HELD, "Inqueue", owned=False),))[0]
    assert job_facts.Census((pod_group(OTHER, "Inqueue"),)).pod_group(HELD) is None


def test_jobs_of_other_rules_are_not_told_of_and_a_refused_rule_holds_all() -> None:
    other = job("x")
    other["metadata"]["labels"]["mind-cluster/scaling-rule"] = "another"
    found = snapshot(jobs=(other, HELD), pod_groups=INQUEUE)
    (answer,) = rule_report.job_answers(found, NAME, None)
    assert answer["name"] == "p1" and answer["why"] == "the operator refuses the rule, so that it holds every job"


def test_tasks_are_told_apart_and_one_without_running_instances_is_there() -> None:
    found = snapshot(jobs=(HELD, job("x", task="another")), pod_groups=(pod_group(OTHER, "Running"), pod_group(HELD, "Inqueue")))
    running = rule_report.running(found, NAME)
    assert running == {TASK: {"group0": 1}, "another": {}}
    shown = Picture("", {}, reading(), (), running, (), (), {}, None, possible={TASK: 0})
    assert rule_report.tasks(shown) == [
        {"job_id": "another", "running": {}, "tier": 1, "tier_now": None, "tier_possible": None},
        {"job_id": TASK, "running": {"group0": 1}, "tier": 1, "tier_now": None, "tier_possible": 0},
    ]
    both = replace(shown, running={TASK: {"group0": 1, "group1": 1}})
    assert [task["tier_now"] for task in rule_report.tasks(both)] == [1]
    assert [(task["tier"], task["tier_now"]) for task in rule_report.tasks(replace(shown, reading=None))] == [(None, None)] * 2


def test_facts_of_a_rule() -> None:
    assert rule_report.rule_facts("n", "r", None)["present"] is False
    refused = rule_report.rule_facts("n", "r", None, present=True)
    assert (refused["present"], refused["text"], refused["groups"], refused["tiers"]) == (True, "", [], [])
    facts = rule_report.rule_facts("n", "r", reading())
    assert facts["groups"] == ["group0", "group1"] and facts["text"] == TWO_TIERS and facts["present"]
    assert facts["tiers"][0] == {"group0": {"number": 2, "servers": 1}, "group1": {"number": 1, "servers": 1}}


def test_groups_of_the_rule_and_of_the_counts_are_answered_for() -> None:
    answers = rule_report.group_answers(reading(), {"other": 1})
    assert [(answer["group"], answer["may_create"], answer["crashes"]) for answer in answers] == [
        ("group0", True, False),
        ("group1", True, False),
        ("other", False, True),
    ]
    assert [answer["may_create"] for answer in rule_report.group_answers(None, {"group0": 0})] == [False]


def test_servers_are_nodes_with_npus_and_what_others_use_of_them() -> None:
    nodes = {
        "b": node("b", 16, pod_id="3"),
        "a": node("a", annotated="7"),
        "c": node("c", cordoned=True),
        "d": node("d", ready="Unknown"),
        "cpu": node("cpu", 0),
        "gone": None,
    }
    pods = (pod("p0", "a", 4), pod("else", "a", 2), pod("else", "a", 1), pod("else", "b", 99))
    found = rule_cluster.servers(snapshot(nodes=nodes, pods=pods, jobs=(OTHER,)), NAME)
    assert [(server.name, server.npus, server.super_pod, server.usable, server.used) for server in found] == [
        ("a", 8, "7", True, 3),
        ("b", 16, "3", True, 16),
        ("c", 8, "", False, 0),
        ("d", 8, "", False, 0),
    ]


def test_shapes_and_instances_are_those_of_the_jobs() -> None:
    large = job("d0", "group1", pods=2, npus=16, metadata={"annotations": {"sp-block": "32"}})
    control = job("controller", "control", npus=0)
    pods = (pod("p0", "a"), pod("d0", "b", 16), pod("d0", "c", 16), pod("p1", "d"))
    groups = (pod_group(OTHER, "Running"), pod_group(large, "Running"), pod_group(HELD, "Inqueue"))
    found = snapshot(jobs=(HELD, OTHER, large, control), pods=pods, pod_groups=groups)
    shapes = rule_cluster.shapes(found, NAME)
    assert {name: (shape.pods, shape.npus_per_pod, shape.sp_block) for name, shape in shapes.items()} == {
        "group0": (1, 8, 0),
        "group1": (2, 16, 32),
    }
    instances = rule_cluster.instances(found, NAME)
    assert [(one.group, one.name, one.pods, one.npus_per_pod) for one in instances] == [
        ("group1", "d0", ("b", "c"), 16),
        ("group0", "p0", ("a",), 8),
    ]


@pytest.mark.parametrize(("rule", "groups"), [(NAME, GROUPS), ("another", {})])
def test_the_check_knows_what_the_service_says_of_its_jobs(rule: str, groups: dict[str, str]) -> None:
    annotation = json.dumps({"scaling_rule": rule, "groups": GROUPS, "name_prefix": "mindie-server"})
    config_map = {"metadata": {"name": "motor-config", "annotations": {"ascend.mindie/ascend-jobs": annotation}}}
    maps = {"rings-config-p0": {"data": {}}, "other-rule": {"data": {"elastic_scaling.json": "{}"}}, "else": {"data": {"x": "y"}}}
    controller = {"metadata": {"name": "c", "labels": {"app": "mindie-ms-controller"}}, "spec": {}}
    found = snapshot(config_map=config_map, others={("ConfigMap", name): obj for name, obj in maps.items()}, pods=(controller,))
    live = rule_cluster.live_task(found, NAME, ())
    assert live.groups == groups and live.rank_tables == {"rings-config-p0"} and live.rule_names == ("other-rule", NAME)
    assert live.controllers == (controller,) and not live.intent_open
    assert rule_cluster.live_findings(found, NAME, None, ()) == ()
    assert rule_cluster.live_task(snapshot(), NAME, ()).groups == {}


def test_a_smaller_rule_is_found_beside_what_runs() -> None:
    found = snapshot(jobs=(OTHER, HELD, DECODE), pod_groups=tuple(pod_group(one, "Running") for one in (OTHER, HELD, DECODE)))
    assert "R624" in {finding.code for finding in rule_cluster.live_findings(found, NAME, reading(text_of(mapping(1, 1))), ())}
    assert "R624" not in {finding.code for finding in rule_cluster.live_findings(found, NAME, reading(), ())}
