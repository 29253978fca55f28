# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said of a service: each state with its reason in plain words and since when it is so; lock, baseline and drift."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor.overview import service_view
from ansible_collections.ascend.mindie.plugins.module_utils._motor.servers import servers
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import ANY_BACKEND, Snapshot
from tests.unit.plugins.module_utils._motor import services
from tests.unit.plugins.module_utils._motor.job_services import (
    BORN,
    DEAD,
    NPU,
    READY,
    STOP,
    failed,
    job,
    name,
    node,
    pod,
    pod_group,
    rule,
    snapshot,
)

TWO_TIERS = rule((2, 1), (1, 1))
P0, P1, D0 = job("p0"), job("p1"), job("d0")
RUNNING = (pod_group(P0, "Running"), pod(P0, "a"))


def view(found: Snapshot, *beside: Any) -> dict[str, Any]:
    """The view of a service; `beside` are pods of others on the servers."""
    nodes = [item for item in found.nodes.values() if item]
    return service_view(found, servers=servers(nodes, (*found.pods, *beside)) if nodes else None)


def row(found: Snapshot, short: str, *beside: Any) -> tuple[str, str, str]:
    """State, reason and since of an instance."""
    (item,) = [item for item in view(found, *beside)["instances"] if item["name"] == name(short)]
    return item["state"], item["reason"], item["since"]


def alone(phase: str | None, *pods: Any, own: Any = P1, running: bool = False, nodes: Any = (), rules: Any = (TWO_TIERS,)) -> Snapshot:
    """The job `own` with a PodGroup in this phase, beside a running p0 when asked for."""
    groups = [] if phase is None else [pod_group(own, phase)]
    jobs = [own, P0] if running else [own]
    return snapshot(
        jobs, [*groups, *([RUNNING[0]] if running else [])], [*pods, *([RUNNING[1]] if running else [])], rules=rules, nodes=nodes
    )


@pytest.mark.parametrize(
    ("found", "state", "reason", "since"),
    [
        (alone("Running", pod(P1, "b")), "running", "", READY),
        (alone(None), "starting", "the Ascend Operator has made no PodGroup for it yet", BORN),
        (alone(""), "starting", "Volcano has not looked at its PodGroup yet", BORN),
        (alone("Inqueue"), "starting", "its pods are about to be created", BORN),
        (alone("Inqueue", pod(P1, "b")), "starting", "its pods are ready, its PodGroup is Inqueue", READY),
        (alone("Running", pod(P1, "b", ready=False)), "starting", "0 of 1 pods ready", READY),
        (alone("Pending"), "pending", "its PodGroup is Pending: not enough NPUs are free, or its queue is not open", BORN),
        (alone("Inqueue", running=True), "held", "tier 1 has its 1 instances of g0 and waits for g1 (0 of 1)", BORN),
        (alone("Inqueue", rules=()), "held", "its scaling rule, ConfigMap chat/scaling-rule, does not exist", BORN),
        (alone("Inqueue", own=failed(P1)), "failed", "AscendJob mindie-server-p1 has failed for good: a pod failed", DEAD),
        (alone("Running", pod(P1, "b"), own=job("p1", deletionTimestamp=STOP)), "terminating", "1 pods left", STOP),
        (
            alone("Inqueue", running=True, rules=(rule((1, 0)),)),
            "held",
            "every tier of the rule is satisfied, so nothing more is started",
            BORN,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_state_has_its_reason_and_its_time(found: Snapshot, state: str, reason: str, since: str) -> None:
    assert row(found, "p1") == (state, reason, since)


def test_a_broken_rule_is_told_from_one_that_holds() -> None:
    state, reason, dummy = row(alone("Inqueue", rules=(rule(text="{ # comment"),)), "p1")
    assert state == "held" and reason.startswith(
        "the scaling rule cannot be read: ConfigMap chat/scaling-rule elastic_scaling.json, line 1"
    )


def test_a_job_that_names_another_rule_is_held_by_that_one() -> None:
    own = job("p1", rule="other-rule")
    found = alone("Inqueue", own=own, running=True, rules=(TWO_TIERS, rule((1, 1), called="other-rule")))
    assert row(found, "p1")[:2] == ("starting", "its pods are about to be created")
    assert row(alone("Inqueue", own=own), "p1")[:2] == ("held", "its scaling rule, ConfigMap chat/other-rule, does not exist")


@pytest.mark.parametrize("others", [("p5",), ("p5", "p6"), ("p6", "p5")], ids=" ".join)
def test_a_pod_group_that_cannot_be_counted_holds_every_job_of_the_task(others: tuple[str, ...]) -> None:
    """Of several the same one is named, in whatever order they come."""
    strays = [pod_group(job(name, group=None), "Running") for name in others]
    found = snapshot([P1], [pod_group(P1, "Inqueue"), *strays], rules=[TWO_TIERS])
    assert row(found, "p1")[:2] == (
        "held",
        "PodGroup mindie-server-p5-uid-p5 has no label mind-cluster/group-name, so that the operator cannot count and holds every job of the task",
    )


@pytest.mark.parametrize("leaving", [False, True])
def test_a_pod_on_a_dead_server_is_told_with_the_server_and_since_when(leaving: bool) -> None:
    dead = node("a", ready="Unknown")
    found = snapshot([P1], [pod_group(P1, "Inqueue")], [pod(P1, "a", ready=False, leaving=leaving)], rules=[TWO_TIERS], nodes=[dead])
    hangs = " hangs while it is stopped" if leaving else ""
    assert row(found, "p1")[:2] == ("failed", f"pod mindie-server-p1-master-0{hangs}: node a is not Ready since {DEAD}")


def test_an_instance_that_goes_says_on_which_dead_server_it_hangs() -> None:
    own, dead = job("p1", deletionTimestamp=STOP), node("a", ready="False")
    found = snapshot([own], [pod_group(own, "Inqueue")], [pod(own, "a", leaving=True)], nodes=[dead])
    reason = f"1 pods left; pod mindie-server-p1-master-0 hangs while it is stopped: node a is not Ready since {DEAD}"
    assert row(found, "p1") == ("terminating", reason, STOP)
    gone = snapshot([], [], [pod(own, "a", leaving=True)], nodes=[dead])
    assert row(gone, "p1") == ("terminating", reason, "2026-11-30T11:00:00Z"), "30 s before the pod has to be gone it was told to stop"


PENDING = "its PodGroup is Pending: "
ENOUGH = "there is room for it, so its queue may not be open, or Volcano has not looked yet"


@pytest.mark.parametrize(
    ("own", "nodes", "reason"),
    [
        (job("p1"), [node("a", healthy=4), node("b", ready="False")], "it needs 8 NPUs on one server, the largest free room is 4 on a"),
        (job("p1"), [node("a", unschedulable=True)], "it needs 8 NPUs on one server, no server has any free"),
        (job("p1", pods=2), [node("a"), node("b", healthy=0)], "it needs 16 NPUs (2 x 8), 8 are free"),
        (
            job("p1", pods=2),
            [node("a", npus=16, healthy=12), node("b", healthy=4)],
            "it needs 16 NPUs (2 x 8), there is room for 1 x 8, though 16 are free",
        ),
        (job("p1"), [node("a")], ENOUGH),
        (
            job("p1", pods=2, annotations={"sp-block": "16"}),
            [node("a", super_pod="0"), node("b", super_pod="1"), node("c")],
            "it needs 1 x 16 NPUs, each in one super pod, there is room for 0 of them (super pod 0 has room for 8)",
        ),
        (job("p1", pods=2, annotations={"sp-block": "16"}), [node("a", super_pod="0"), node("b", super_pod="0")], ENOUGH),
    ],
)
def test_what_waits_says_how_much_is_missing(own: Any, nodes: Any, reason: str) -> None:
    assert row(alone("Pending", own=own, nodes=nodes), "p1")[:2] == ("pending", PENDING + reason)


def test_npus_that_held_jobs_reserve_are_told_to_who_waits_for_them() -> None:
    groups = [pod_group(P1, "Inqueue"), pod_group(D0, "Pending"), RUNNING[0]]
    found = snapshot([P0, P1, D0], groups, [RUNNING[1]], rules=[TWO_TIERS], nodes=[node("a"), node("b")])
    assert row(found, "p1")[0] == "held"
    reserved = "8 NPUs are free, but 8 of them are reserved by jobs that were let in before and have no pods: mindie-server-p1"
    assert row(found, "d0")[:2] == ("pending", PENDING + reserved)


def test_pods_that_find_no_place_say_how_much_is_missing() -> None:
    blocked = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes are available."}
    waiting = services.pod("vllm-p1", status={"phase": "Pending", "conditions": [blocked]})
    del waiting["spec"]["nodeName"]
    deployment = services.deployment("prefill", 1)
    deployment["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {NPU: "16"}}
    found = services.snapshot(services.user_config(prefill=2), (), deployments=(deployment,), pods=(waiting,))
    found = replace(found, nodes={"a": node("a", npus=16, healthy=12)})
    (item,) = [item for item in view(found)["instances"] if item["name"] == "vllm-p1"]
    said = "pod vllm-p1-0: Unschedulable: 0/2 nodes are available; it needs 16 NPUs on one server, the largest free room is 12 on a"
    assert (item["state"], item["reason"], item["npus"]) == ("pending", said, 16)


def test_what_has_been_starting_for_long_says_what_is_behind_it() -> None:
    said = {"type": "ReplicaFailure", "status": "True", "message": "pods are forbidden: exceeded quota"}
    refused = {**services.deployment("prefill", 0), "status": {"conditions": [said]}}
    ended = {"restartCount": 4, "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 137}}}
    crashing = services.pod("vllm-d0", ready=False)
    crashing["status"]["containerStatuses"] = [ended]
    found = services.snapshot(
        services.user_config(prefill=1), (), deployments=(refused, services.deployment("decode", 0)), pods=(crashing,)
    )
    reasons = {item["name"]: (item["state"], item["reason"]) for item in view(found)["instances"]}
    assert reasons == {
        "vllm-p0": ("starting", "0 of 1 pods ready; its Deployment cannot make pods: pods are forbidden: exceeded quota"),
        "vllm-d0": ("starting", "0 of 1 pods ready; pod vllm-d0-0: not ready after 4 restarts, the last with exit code 137"),
    }


def test_a_control_role_without_pods_says_why() -> None:
    def reasons(*jobs: Any, phase: str = "Pending") -> dict[str, str]:
        found = snapshot(jobs, [pod_group(item, phase) for item in jobs])
        return {role["name"]: role["reason"] for role in view(found)["control"]}

    controller = job("p9", npus=0)
    controller["metadata"]["labels"] = {"app": "mindie-ms-controller"}
    absent = "its AscendJob is not there"
    waits = "its PodGroup is Pending: not enough NPUs are free, or its queue is not open"
    assert reasons(controller) == {"controller": waits, "coordinator": absent}
    assert reasons(failed(controller))["controller"] == "AscendJob mindie-server-p9 has failed for good: a pod failed"
    controller["metadata"]["deletionTimestamp"] = STOP
    assert reasons(controller)["controller"] == "it is being deleted"


def test_instances_without_pods_say_what_they_will_have() -> None:
    (item,) = view(alone("Pending", own=job("p1", pods=2)))["instances"]
    assert (item["pods"], item["pods_ready"], item["npus"], item["nodes"], item["group"]) == (2, 0, 16, [], "g0")


def test_missing_surplus_and_foreign_instances_are_shown_with_drift_and_baseline() -> None:
    config = services.user_config(prefill=2, decode=1)
    foreign = services.deployment("decode", 3)
    foreign["spec"]["selector"]["matchLabels"] = {"app": "other"}
    found = services.snapshot(config, [("prefill", 0), ("decode", 0), ("decode", 1)])
    shown = view(replace(found, deployments=(*found.deployments, foreign)))
    states = {item["name"]: item["state"] for item in shown["instances"] if item["state"] != "running"}
    assert states == {"vllm-p1": "missing", "vllm-d1": "surplus", "vllm-d3": "foreign"}
    assert shown["drift"] == {"missing": ["vllm-p1"], "surplus": ["vllm-d1"], "altered": [], "foreign": ["vllm-d3"]}
    assert shown["baseline"] == {"prefill": 2, "decode": 1} and shown["standing"] == "applied"


def test_lock_hold_and_an_open_change_are_shown() -> None:
    config = services.user_config()
    found = services.snapshot(config, services.running(prefill=2, decode=1))
    plain = view(found)
    assert (plain["lock"], plain["hold"], plain["unfinished"]) == (None, False, "")
    intent = {"verb": "scale", "run": "open", "from": {}, "to": {}}
    metadata = {"name": "ascend-mindie", "annotations": {"ascend.mindie/intent": json.dumps(intent)}}
    lease = {"metadata": metadata, "spec": {"holderIdentity": "ops@host", "acquireTime": READY}}
    config_map = services.config_map(config)
    config_map["metadata"]["annotations"]["ascend.mindie/hold"] = ""
    shown = view(replace(found, lease=lease, config_map=config_map))
    assert shown["lock"] == {"holder": "ops@host", "verb": "scale", "since": READY}
    assert (shown["hold"], shown["unfinished"]) == (True, "scale")
    released = {**lease, "spec": {"holderIdentity": ""}}
    assert view(replace(found, lease=released))["lock"] is None


def test_without_a_motor_config_workloads_say_how_the_service_is_made() -> None:
    found = replace(alone("Inqueue", running=True), backend=ANY_BACKEND, base_name="vllm")
    shown = view(found)
    assert shown["backend"] == "ascend_jobs" and {item["state"] for item in shown["instances"]} == {"running", "held"}
    in_set = replace(services.set_snapshot(services.user_config(prefill=1), prefill=1, decode=1), backend=ANY_BACKEND)
    assert view(in_set)["backend"] == "infer_service_set"
    nothing = view(Snapshot("empty", ANY_BACKEND, "vllm"))
    assert (nothing["backend"], nothing["standing"], nothing["baseline"], nothing["tasks"]) == ("any", "absent", None, [])
