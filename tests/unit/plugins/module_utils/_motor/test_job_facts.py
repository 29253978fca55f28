# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why an AscendJob has no pods, and what is left of one that is gone."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import scaling_rule
from ansible_collections.ascend.mindie.plugins.module_utils._motor.job_facts import Census, facts
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_reader import DATA_KEY, Size

LABELS = {"mind-cluster/scaling-rule": "rule", "jobID": "task"}
RULE = {
    "metadata": {"name": "rule"},
    "data": {DATA_KEY: scaling_rule.write([{"g0": Size(2, 1), "g1": Size(1, 1)}, {"g0": Size(1, 1), "g1": Size(1, 1)}])},
}


def job(name: str, group: str = "g0", *, conditions: list[dict[str, str]] | None = None, workers: int = 0) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "labels": {**LABELS, "mind-cluster/group-name": group}}
    specs = {"Master": {"replicas": 1}, "Worker": {"replicas": workers}}
    return {"kind": "AscendJob", "metadata": metadata, "spec": {"replicaSpecs": specs}, "status": {"conditions": conditions or []}}


def pod_group(name: str, phase: str, group: str = "g0") -> dict[str, Any]:
    owner = {"kind": "AscendJob", "name": name, "uid": f"uid-{name}"}
    labels = {**LABELS, "mind-cluster/group-name": group}
    return {"metadata": {"name": f"{name}-uid-{name}", "ownerReferences": [owner], "labels": labels}, "status": {"phase": phase}}


def pod(name: str, *, ready: bool = True) -> dict[str, Any]:
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
    return {"metadata": {"name": f"{name}-master-0", "labels": {"training.kubeflow.org/job-name": name}}, "status": status, "spec": {}}


def verdict(
    *others: dict[str, Any], own: dict[str, Any], group: dict[str, Any] | None, pods: tuple[Any, ...] = (), rule: Any = ""
) -> tuple[str, str] | None:
    groups = [item for item in (group, *others) if item]
    (found,) = [
        fact
        for fact in facts([own], Census(groups, lambda name: RULE if rule == "" else rule), pods)
        if fact.name == own["metadata"]["name"]
    ]
    return found.verdict


FAILED = [{"type": "Failed", "status": "True", "reason": "JobFailed", "message": "pod failed"}]
OVER = [{"type": "Failed", "status": "False", "message": "long ago"}, {"type": "Created", "status": "True", "reason": "PodCreateFailed"}]


@pytest.mark.parametrize(
    ("own", "phase", "state", "said"),
    [
        (job("p0"), None, "starting", "the Ascend Operator has made no PodGroup"),
        (job("p0"), "", "starting", "Volcano has not looked"),
        (job("p0"), "Pending", "pending", "not enough NPUs"),
        (job("p0"), "Inqueue", "starting", "about to be created"),
        (job("p0", "other"), "Inqueue", "held", "the operator crashes"),
        (job("p0", conditions=FAILED), "Running", "failed", "pod failed"),
        (job("p0", conditions=OVER), "Inqueue", "starting", "about to be created"),
    ],
)
def test_a_job_without_pods_says_why(own: dict[str, Any], phase: str | None, state: str, said: str) -> None:
    found = verdict(own=own, group=None if phase is None else pod_group("p0", phase))
    assert found and found[0] == state and said in found[1]


def test_a_held_job_names_what_the_rule_waits_for() -> None:
    found = verdict(pod_group("p1", "Running"), own=job("p0"), group=pod_group("p0", "Inqueue"))
    assert found == ("held", "tier 1 has its 1 instances of g0 and waits for g1 (0 of 1)")


@pytest.mark.parametrize(
    ("rule", "said"),
    [(None, "ConfigMap ns/rule, does not exist"), ({"data": {}}, "no key"), ({"data": {DATA_KEY: "{ #"}}, "line 1, column 3")],
)
def test_a_job_without_a_readable_rule_is_held(rule: Any, said: str) -> None:
    found = verdict(own=job("p0"), group=pod_group("p0", "Inqueue"), rule=rule)
    assert found and found[0] == "held" and said in found[1]


def test_pod_groups_of_another_task_or_rule_do_not_count() -> None:
    others = []
    for label in ("jobID", "mind-cluster/scaling-rule"):
        other = pod_group("x", "Running", "g1")
        other["metadata"]["labels"] = {**other["metadata"]["labels"], label: "another"}
        others.append(other)
    assert Census(others).running("rule", "task") == {}


def test_ready_pods_run_only_when_the_rule_counts_them() -> None:
    assert verdict(own=job("p0"), group=pod_group("p0", "Inqueue"), pods=(pod("p0"),)) == (
        "starting",
        "its pods are ready, its PodGroup is Inqueue",
    )
    assert verdict(own=job("p0"), group=pod_group("p0", "Running"), pods=(pod("p0"),)) is None
    # Without gang scheduling there are no PodGroups.
    assert verdict(own=job("p0"), group=None, pods=(pod("p0"),)) is None
    assert verdict(own=job("p0"), group=pod_group("p0", "Inqueue"), pods=(pod("p0", ready=False),)) is None
    assert verdict(own=job("p0", workers=1), group=pod_group("p0", "Inqueue"), pods=(pod("p0"),)) is None


def test_a_name_is_taken_as_long_as_job_pods_or_pod_group_are_there() -> None:
    going = job("p0")
    going["metadata"]["deletionTimestamp"] = "2026-11-30T12:00:00Z"
    found = list(facts([going], Census([pod_group("p2", "Inqueue")]), [pod("p1")]))
    assert [(fact.name, fact.leaving, len(fact.pods)) for fact in found] == [("p0", True, 0), ("p1", True, 1), ("p2", True, 0)]


def test_a_pod_group_of_an_older_job_of_the_same_name_is_no_second_instance() -> None:
    older = pod_group("p0", "Running")
    older["metadata"]["ownerReferences"][0]["uid"] = "older"
    (found,) = facts([job("p0")], Census([older, pod_group("p0", "Inqueue")], lambda name: RULE), [])
    assert (found.name, found.leaving, found.verdict and found.verdict[0]) == ("p0", False, "held")
