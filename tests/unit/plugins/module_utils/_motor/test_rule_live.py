# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scaling rules beside what is live: each fault of jobs, PodGroups, servers and controllers with its code, object and nearest name."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import rule_reader, scaling_rule
from ansible_collections.ascend.mindie.plugins.module_utils._motor.capacity_model import Server, Shape
from ansible_collections.ascend.mindie.plugins.module_utils._motor.findings import ERROR, NOTE, WARNING, Finding
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_live import LiveTask, lint_live
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_reader import Reading, Size

from .test_scaling_rule import text_of

RULE, GROUP, TASK = "mind-cluster/scaling-rule", "mind-cluster/group-name", "jobID"


SHAPES = {"group0": Shape("group0", 2, 2, 8), "group1": Shape("group1", 1, 2, 8)}


def machines(*npus: int, super_pods: str = "") -> tuple[Server, ...]:
    """Servers with so many NPUs; `super_pods` has a letter for each."""
    pods = super_pods or " " * len(npus)
    return tuple(Server(f"server-{index}", number, pod.strip()) for index, (number, pod) in enumerate(zip(npus, pods, strict=True)))


def reading(*tiers: dict[str, int], servers: int = 2) -> Reading:
    sizes = [{group: Size(number, servers) for group, number in tier.items()} for tier in tiers]
    return rule_reader.read(scaling_rule.write(sizes), source="rule")


TWO_TIERS = reading({"group0": 2, "group1": 1}, {"group0": 1, "group1": 1})


def job(name: str, group: str, npus: int = 8, **labels: str | None) -> dict[str, Any]:
    """An AscendJob of two pods. A label given as None is taken away."""
    own: dict[str, str | None] = {
        "framework": "pytorch", "app": "mindie-ms-server", "fault-retry-times": "10000", RULE: "rule", GROUP: group, TASK: "mindie",
        **{key.replace("_", "-"): value for key, value in labels.items()},
    }  # fmt: skip
    requests = {"resources": {"requests": {"huawei.com/Ascend910": npus}}}
    spec = {"replicas": 1, "template": {"spec": {"containers": [{"name": "ascend", **requests}]}}}
    return {
        "kind": "AscendJob",
        "metadata": {
            "name": name, "namespace": "mindie", "uid": f"uid-{name}",
            "labels": {key: value for key, value in own.items() if value is not None},
        },
        "spec": {"replicaSpecs": {"Master": spec, "Worker": copy.deepcopy(spec)}},
    }  # fmt: skip


def pod_group(of: dict[str, Any], phase: str = "Running") -> dict[str, Any]:
    metadata = of["metadata"]
    return {
        "kind": "PodGroup",
        "metadata": {"name": f"{metadata['name']}-{metadata['uid']}", "namespace": "mindie", "labels": dict(metadata["labels"])},
        "status": {"phase": phase},
    }


def labelled(obj: dict[str, Any], **labels: str | None) -> dict[str, Any]:
    """The same object with other labels; for keys with a slash use a mapping in `labels`."""
    changed = copy.deepcopy(obj)
    for key, value in labels.items():
        if value is None:
            changed["metadata"]["labels"].pop(key, None)
        else:
            changed["metadata"]["labels"][key] = value
    return changed


P0, P1, D0 = job("server-p0", "group0"), job("server-p1", "group0"), job("server-d0", "group1")


def live(*jobs: dict[str, Any], phase: str = "Running", **more: Any) -> LiveTask:
    groups = tuple(pod_group(one, phase) for one in jobs)
    return LiveTask(**{"namespace": "mindie", "rule_name": "rule", "jobs": jobs, "pod_groups": groups, **more})


def only(found: tuple[Finding, ...]) -> Finding:
    assert len(found) == 1, found
    return found[0]


def test_a_whole_service_has_no_finding() -> None:
    tables = frozenset(f"rings-config-{one['metadata']['name']}" for one in (P0, P1, D0))
    task = live(
        P0,
        P1,
        D0,
        servers=machines(*[8] * 6),
        shapes=SHAPES,
        rank_tables=tables,
        groups={"prefill": "group0", "decode": "group1"},
        task="mindie",
    )
    assert lint_live(TWO_TIERS, task) == ()


def test_a_rule_without_jobs_has_no_finding() -> None:
    assert lint_live(TWO_TIERS, live()) == ()


JOBS: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "no group-name": (labelled(P1, **{GROUP: None, "mind-cluster/groupname": "group0"}), "R603", ERROR, "mind-cluster/groupname"),
    "no jobID": (labelled(P1, **{TASK: None, "jobId": "mindie"}), "R603", ERROR, "jobId"),
    "no framework": (labelled(P1, framework=None), "R604", ERROR, "no label framework"),
    "a framework that there is not": (labelled(P1, framework="pytorsh"), "R604", ERROR, '"pytorch"'),
    "retries that are no number": (labelled(P1, **{"fault-retry-times": "many"}), "R606", ERROR, '"many"'),
    "retries with a blank": (labelled(P1, **{"fault-retry-times": "3 "}), "R606", ERROR, '"3 "'),
    "few retries": (labelled(P1, **{"fault-retry-times": "3"}), "R617", WARNING, "at restart 4"),
    "no retries": (labelled(P1, **{"fault-retry-times": None}), "R618", WARNING, "no label fault-retry-times"),
    "empty retries": (labelled(P1, **{"fault-retry-times": ""}), "R618", WARNING, "no label fault-retry-times"),
    "zero retries": (labelled(P1, **{"fault-retry-times": "0"}), "R618", WARNING, "fault-retry-times 0"),
    "another rule": (labelled(P1, **{RULE: "rules"}), "R612", WARNING, '"rule"'),
    "no rule": (labelled(P1, **{RULE: None}), "R613", WARNING, "no label mind-cluster/scaling-rule"),
}


@pytest.mark.parametrize(("changed", "code", "severity", "word"), JOBS.values(), ids=JOBS)
def test_a_job_that_the_operator_takes_otherwise_is_found_by_name(changed: dict[str, Any], code: str, severity: str, word: str) -> None:
    # The operator makes no PodGroup for a job that it refuses.
    task = live(P0, changed, D0, pod_groups=(pod_group(P0), pod_group(D0)))
    one = only(tuple(found for found in lint_live(TWO_TIERS, task) if found.code != "R625"))
    assert (one.code, one.severity, one.name) == (code, severity, "AscendJob mindie/server-p1")
    assert word in one.message


def test_a_back_off_limit_that_ends_a_job_wins_over_its_retries() -> None:
    limited = copy.deepcopy(P1)
    limited["spec"]["runPolicy"] = {"backoffLimit": 3}
    found = only(lint_live(TWO_TIERS, live(P0, limited, D0)))
    assert (found.code, found.name) == ("R617", "AscendJob mindie/server-p1") and "backoffLimit 3" in found.message
    for unlimited in (0, -1, 1000):
        limited["spec"]["runPolicy"] = {"backoffLimit": unlimited}
        assert lint_live(TWO_TIERS, live(P0, labelled(limited, **{"fault-retry-times": "3"}), D0)) == ()


def test_a_group_that_the_rule_lacks_crashes_the_operator_now_or_later() -> None:
    wrong = job("server-p1", "Group0")
    one = only(tuple(found for found in lint_live(TWO_TIERS, live(P0, wrong, D0)) if found.code != "R625"))
    assert (one.code, one.severity, one.tier, one.group) == ("R601", ERROR, 0, "Group0")
    assert '(nearest: "group0")' in one.message
    satisfied = reading({"group0": 1, "group1": 1})
    later = only(lint_live(satisfied, live(P0, wrong, D0)))
    assert (later.code, later.severity, later.tier) == ("R602", ERROR, None)
    far = only(lint_live(satisfied, live(P0, job("server-p1", "zzz"), D0)))
    assert "it has group0, group1" in far.message


def test_a_group_that_the_chosen_tier_omits_crashes_the_operator_now() -> None:
    text = '{"elastic_scaling_list": [{"group_list": [%s, %s]}, {"group_list": [%s]}]}'
    entries = [f'{{"group_name": "group{i}", "group_num": "{n}", "server_num_per_group": "2"}}' for i, n in ((0, 2), (1, 1), (0, 1))]
    omitting = rule_reader.read(text % tuple(entries), source="rule")
    found = [one for one in lint_live(omitting, live(P0, D0, phase="Pending")) if one.severity == ERROR]
    assert [(one.code, one.tier, one.group, one.name) for one in found] == [("R601", 1, "group1", "AscendJob mindie/server-d0")]
    assert [one for one in lint_live(omitting, live(P0, D0)) if one.severity == ERROR] == []


def test_a_pod_group_without_group_name_holds_every_job() -> None:
    bare = labelled(pod_group(D0), **{GROUP: None})
    task = live(P0, P1, D0, pod_groups=(pod_group(P0), pod_group(P1), bare))
    found = {one.code: one for one in lint_live(TWO_TIERS, task)}
    assert set(found) == {"R605", "R614"}
    assert found["R605"].severity == ERROR and found["R605"].name == "PodGroup mindie/server-d0-uid-server-d0"


def test_a_pod_group_keeps_labels_of_the_past() -> None:
    task = live(P0, P1, D0, pod_groups=(pod_group(P0), pod_group(job("server-p1", "group1")), pod_group(D0)))
    found = {one.code: one for one in lint_live(TWO_TIERS, task)}
    assert set(found) == {"R614", "R624"}
    assert found["R614"].name == "AscendJob mindie/server-p1"
    assert f'{GROUP} "group0"' in found["R614"].message and '"group1"' in found["R614"].message


def test_a_job_of_another_task_is_found_unless_that_task_is_whole() -> None:
    stray = labelled(P1, **{TASK: "mindle"})
    found = only(tuple(one for one in lint_live(TWO_TIERS, live(P0, stray, D0)) if one.code != "R625"))
    assert (found.code, found.name, found.group) == ("R611", "AscendJob mindie/server-p1", "group0")
    assert 'nearest: "mindie"' in found.message
    others = [labelled(one, **{TASK: "other"}) for one in (job("other-p0", "group0"), job("other-p1", "group0"), job("other-d0", "group1"))]
    assert lint_live(TWO_TIERS, live(P0, P1, D0, *others)) == ()


def test_the_task_that_is_meant_is_the_one_that_is_told() -> None:
    assert [one.code for one in lint_live(TWO_TIERS, live(P0, P1, D0, task="meant"))] == []
    found = [one for one in lint_live(TWO_TIERS, live(P0, P1, task="meant")) if one.code == "R611"]
    assert len(found) == 2 and 'the others: "meant"' in found[0].message


def test_a_rule_that_is_known_is_no_slip_of_the_pen() -> None:
    other = labelled(P1, **{RULE: "rules"})
    assert [one.code for one in lint_live(TWO_TIERS, live(P0, other, D0, rule_names=("rule", "rules")))] == ["R625"]
    far = labelled(P1, **{RULE: "zzz", "app": "else"})
    assert [one.code for one in lint_live(TWO_TIERS, live(P0, far, D0, rule_names=("rule",)))] == ["R625"]


def test_a_job_without_a_rule_of_another_task_is_none_of_ours() -> None:
    other = labelled(P1, **{RULE: None, TASK: "other"})
    assert [one.code for one in lint_live(TWO_TIERS, live(P0, other, D0))] == ["R625"]


def test_a_job_that_has_failed_is_found_and_its_missing_pod_group_is_not() -> None:
    failed = copy.deepcopy(P1)
    failed["status"] = {"conditions": [{"type": "Failed", "status": "True", "message": "JobFailed"}]}
    pod = {"metadata": {"name": "x", "labels": {"training.kubeflow.org/job-name": "server-p1"}}}
    task = live(P0, failed, D0, pod_groups=(pod_group(P0), pod_group(D0)), pods=(pod,))
    found = only(lint_live(TWO_TIERS, task))
    assert (found.code, found.name) == ("R619", "AscendJob mindie/server-p1") and "JobFailed" in found.message


def test_pods_without_a_pod_group_tell_that_gang_scheduling_is_off() -> None:
    pod = {"metadata": {"name": "x", "labels": {"training.kubeflow.org/job-name": "server-p1"}}}
    task = live(P0, P1, D0, pod_groups=(), pods=(pod,))
    found = only(lint_live(TWO_TIERS, task))
    assert (found.code, found.severity, found.name) == ("R615", WARNING, "AscendJob mindie/server-p1")


def test_a_missing_rank_table_is_found_with_the_nearest_name() -> None:
    tables = frozenset({"rings-config-server-p0", "rings-config-server-d0", "rings-config-servr-p1"})
    found = only(lint_live(TWO_TIERS, live(P0, P1, D0, rank_tables=tables)))
    assert (found.code, found.name) == ("R616", "AscendJob mindie/server-p1")
    assert "rings-config-server-p1" in found.message and 'nearest: "rings-config-servr-p1"' in found.message


def test_servers_of_the_rule_are_compared_with_the_pods_of_the_jobs() -> None:
    found = lint_live(reading({"group0": 2, "group1": 1}, servers=4), live(P0, P1, D0))
    assert [(one.code, one.group) for one in found] == [("R621", "group0"), ("R621", "group0"), ("R621", "group1")]
    assert "has 2 pods" in found[0].message and "is 4" in found[0].message


@pytest.mark.parametrize(("intent_open", "severity"), [(True, NOTE), (False, WARNING)])
def test_a_rule_below_what_runs_is_a_note_while_a_change_is_open_and_a_warning_otherwise(intent_open: bool, severity: str) -> None:
    shrunk = reading({"group0": 1, "group1": 1})
    found = only(lint_live(shrunk, live(P0, P1, D0, intent_open=intent_open)))
    assert (found.code, found.severity, found.group, found.tier) == ("R624", severity, "group0", 0)
    assert lint_live(shrunk, live(P0, P1, D0, phase="Pending")) == ()


def test_a_rule_that_asks_for_more_than_there_are_jobs_is_told_by_its_smallest_such_tier() -> None:
    grown = reading({"group0": 3, "group1": 1}, {"group0": 2, "group1": 1}, {"group0": 1, "group1": 1})
    found = only(lint_live(grown, live(P0, D0)))
    assert (found.code, found.severity, found.tier, found.group) == ("R625", NOTE, 1, "group0")
    grave = only(lint_live(TWO_TIERS, live(P0, P1)))
    assert (grave.severity, grave.tier, grave.group) == (WARNING, 1, "group1")
    assert only(lint_live(TWO_TIERS, live(P0, P1, intent_open=True))).severity == NOTE


def room(*npus: int, super_pods: str = "", **shapes: Shape) -> list[tuple[str, int | None]]:
    task = live(P0, P1, D0, servers=machines(*npus, super_pods=super_pods), shapes={**SHAPES, **shapes})
    return [(one.code, one.tier) for one in lint_live(TWO_TIERS, task)]


def test_tiers_that_the_servers_can_never_hold_are_found() -> None:
    assert room(8, 8, 8, 8, 8, 8) == []
    assert room(16, 16, 16) == []
    assert room(8, 8, 8, 8, 8) == [("R622", 0)]
    assert room(8, 8, 8, 8) == [("R622", 0)]
    assert room(8, 8, 8) == [("R623", 1)]
    # Many NPUs in small pieces are no place for a pod that wants eight.
    assert room(*[4] * 40) == [("R623", 1)]


def test_small_pods_do_not_hide_that_large_ones_do_not_fit() -> None:
    assert room(8, 8, 7, 7, group1=Shape("group1", 1, 2, 1)) == [("R622", 0)]


def test_instances_that_have_to_be_in_one_super_pod_are_laid_out() -> None:
    blocks = {"group0": Shape("group0", 2, 2, 8, 16), "group1": Shape("group1", 1, 2, 8, 16)}
    assert room(*[8] * 6, super_pods="aabbcc", **blocks) == []
    assert room(*[8] * 6, super_pods="abbbcc", **blocks) == [("R622", 0)]
    assert room(*[8] * 6, super_pods="abcdef", **blocks) == [("R623", 1)]


def test_servers_that_are_down_or_in_use_now_may_come_back() -> None:
    down = tuple(replace(server, usable=False, used=8) for server in machines(*[8] * 6))
    assert lint_live(TWO_TIERS, live(P0, P1, D0, servers=down, shapes=SHAPES)) == ()


def test_the_finding_about_room_says_what_is_lacking() -> None:
    def message(*npus: int) -> str:
        return only(lint_live(TWO_TIERS, live(P0, P1, D0, servers=machines(*npus), shapes=SHAPES))).message

    assert message(8, 8, 8) == "tier 1: it needs 32 NPUs, the servers have 24"
    assert message(*[4] * 40) == "tier 1: it has 4 pods of at least 8 NPUs, the servers have room for 0"


def test_shapes_that_cannot_be_and_unknown_ones_are_not_judged() -> None:
    assert room(*[8] * 6, group0=Shape("group0", 2, 2, 8, 5)) == []
    assert lint_live(TWO_TIERS, live(P0, P1, D0, servers=machines(1))) == ()


def test_the_order_of_groups_is_compared_with_roles_as_told_or_as_named() -> None:
    swapped = reading({"group1": 1, "group0": 2}, {"group1": 1, "group0": 1})
    told = lint_live(swapped, live(P0, P1, D0, groups={"prefill": "group0", "decode": "group1"}))
    assert [(one.code, one.severity, one.group) for one in told] == [("R626", WARNING, "group1"), ("R626", WARNING, "group0")]
    assert lint_live(swapped, live(P0, P1, D0)) == told
    assert lint_live(swapped, live(P0, P1, D0, groups={"prefill": "group1", "decode": "group0"})) == ()
    unnamed = [job("a", "group0"), job("b", "group0"), job("c", "group1")]
    assert lint_live(swapped, live(*unnamed)) == ()


def controller(start: str, rule: str = "rule", **mount: str) -> dict[str, Any]:
    mounts = [{"name": "rule", "mountPath": "/x", **mount}]
    spec = {"volumes": [{"name": "rule", "configMap": {"name": rule}}, {"name": "e"}], "containers": [{"volumeMounts": mounts}]}
    return {"metadata": {"name": "controller-0", "namespace": "mindie"}, "spec": spec, "status": {"startTime": start}}


def config_map(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "rule", **metadata}}


T1, T2, T3 = "2026-08-01T10:00:00Z", "2026-08-01T11:00:00Z", "2026-08-01T12:00:00Z"
DATA, OTHER = {"f:data": {".": {}}}, {"f:metadata": {}}
AGES: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "changed after the start": (config_map(annotations={"ascend.mindie/changed": T2}), controller(T1, subPath="f"), True),
    "changed before the start": (config_map(annotations={"ascend.mindie/changed": T1}), controller(T2, subPath="f"), False),
    "changed at the start": (config_map(annotations={"ascend.mindie/changed": T1}), controller(T1, subPath="f"), False),
    "mounted as a folder": (config_map(annotations={"ascend.mindie/changed": T2}), controller(T1), False),
    "mounted by expression": (config_map(annotations={"ascend.mindie/changed": T2}), controller(T1, subPathExpr="f"), True),
    "data written later": (config_map(managedFields=[{"time": T3, "fieldsV1": DATA}, {"time": T1, "fieldsV1": DATA}]), controller(T2, subPath="f"), True),
    "labels written later": (config_map(managedFields=[{"time": T3, "fieldsV1": OTHER}, {"time": T1, "fieldsV1": DATA}]), controller(T2, subPath="f"), False),
    "created later": (config_map(creationTimestamp=T3), controller(T2, subPath="f"), True),
    "nothing is known": (config_map(), controller(T2, subPath="f"), False),
    "a time that is none": (config_map(annotations={"ascend.mindie/changed": "yesterday"}), controller(T2, subPath="f"), False),
    "another ConfigMap": ({"metadata": {"creationTimestamp": T3}}, controller(T2, subPath="f", rule="x"), False),
}  # fmt: skip


@pytest.mark.parametrize(("rule", "pod", "old"), AGES.values(), ids=AGES)
def test_a_controller_that_mounts_the_file_of_an_older_rule_is_found(rule: dict[str, Any], pod: dict[str, Any], old: bool) -> None:
    found = lint_live(TWO_TIERS, live(P0, P1, D0, rule=rule, controllers=(pod,)))
    assert [(one.code, one.severity, one.name) for one in found] == ([("R701", WARNING, "Pod mindie/controller-0")] if old else [])


def test_jobs_that_are_being_deleted_are_left_alone() -> None:
    leaving = labelled(P1, **{GROUP: "wrong", "framework": None})
    leaving["metadata"]["deletionTimestamp"] = T1
    assert [one.code for one in lint_live(TWO_TIERS, replace(live(P0, leaving, D0)))] == ["R625"]


def test_a_rule_without_tiers_does_not_disturb_the_check_of_jobs() -> None:
    empty = rule_reader.read("{}", source="rule")
    assert lint_live(empty, live(P0, P1, D0)) == ()
    assert [one.code for one in lint_live(empty, live(P0, labelled(P1, framework=None), D0))] == ["R604"]


def test_jobs_that_would_crash_the_operator_in_recorded_questions_are_errors(shared_dir: Path, show: Callable[[str], None]) -> None:
    rows = [json.loads(line) for line in (shared_dir / "vectors" / "scaling-rule.jsonl").read_text().splitlines()]
    asked = [row for row in rows if "group" in row and row["expect"]["load"] == "ok"]
    wrong = []
    for row in asked:
        running = [job(f"{group}.{number}", group) for group, count in row["counts"].items() for number in range(count)]
        task = LiveTask("mindie", "rule", (job("asks", row["group"]), *running), tuple(pod_group(one) for one in running))
        found = {one.code for one in lint_live(rule_reader.read_data(text_of(row), source="rule"), task) if one.name.endswith("/asks")}
        if row["expect"]["panic"] != ("R601" in found):
            wrong.append(row["id"])
    show(f"{len(asked) - len(wrong)} of {len(asked)} recorded questions: a crash is foreseen exactly where the operator crashed")
    assert not wrong
