# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No scale-out beside a fault; nothing else is held up by one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import faults, record
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import Refused
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_scale import plan_scale
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot, doubtful_nodes

from . import services

CONFIG = services.user_config(prefill=2, decode=1)
CRASHING = {"phase": "Running", "containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}
FAILED = {"phase": "Failed", "reason": "Evicted"}
NOT_READY_NODE = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
PENDING = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}


def service(app: str, status: dict[str, Any] | None, live: list[tuple[str, int]] | None = None) -> Snapshot:
    """2P1D (or `live`), with the pod of one instance in this state."""
    shot = services.snapshot(CONFIG, live or services.running(prefill=2, decode=1))
    pods = [pod for pod in shot.pods if pod["metadata"]["labels"]["app"] != app]
    return replace(shot, pods=(*pods, services.pod(app, ready=False, status=status)))


def unfinished(verb: str, **counts: int) -> dict[str, Any]:
    intent = {"verb": verb, "run": "another", "from": counts, "to": {}}
    return {"metadata": {"annotations": {record.INTENT_ANNOTATION: json.dumps(intent)}}, "spec": {}}


def check(shot: Snapshot, **wanted: int) -> None:
    faults.refuse(shot, plan_scale(shot, CONFIG, wanted))


@pytest.mark.parametrize("status", [CRASHING, FAILED], ids=["crashing", "failed"])
@pytest.mark.parametrize("wanted", [{"prefill": 3, "decode": 1}, {"prefill": 1, "decode": 2}], ids=["out", "in and out"])
def test_scaling_out_beside_a_fault_is_refused_with_its_name(status: dict[str, Any], wanted: dict[str, int]) -> None:
    with pytest.raises(Refused) as refused:
        check(service("vllm-p0", status), **wanted)
    assert refused.value.reason == "Fault" and refused.value.paths == ("vllm-p0",)
    assert "allow_during_fault" in str(refused.value)


@pytest.mark.parametrize(
    ("restarts", "code", "fault"), [(3, 1, True), (1, 1, False), (3, 0, False)], ids=["crashes", "crashed once", "ended"]
)
def test_between_two_crashes_it_is_a_fault_too(restarts: int, code: int, fault: bool) -> None:
    container = {"restartCount": restarts, "state": {"running": {}}, "lastState": {"terminated": {"exitCode": code}}}
    shot = service("vllm-p0", {"phase": "Running", "containerStatuses": [container]})
    if fault:
        with pytest.raises(Refused) as refused:
            check(shot, prefill=3, decode=1)
        assert refused.value.paths == ("vllm-p0",) and "3 restarts" in str(refused.value)
    else:
        check(shot, prefill=3, decode=1)
    ready = replace(shot, pods=(*shot.pods, services.pod("vllm-p0", 1)))
    check(ready, prefill=3, decode=1)


def test_a_pod_on_a_node_that_is_not_ready_is_a_fault() -> None:
    shot = service("vllm-d0", None)
    check(shot, prefill=3, decode=1)
    assert doubtful_nodes(shot) == ("node-0",)
    for node in (NOT_READY_NODE, None):
        with pytest.raises(Refused) as refused:
            check(replace(shot, nodes={"node-0": node}), prefill=3, decode=1)
        assert refused.value.paths == ("vllm-d0",) and "node-0" in str(refused.value)


@pytest.mark.parametrize("wanted", [{"prefill": 1, "decode": 1}, {"prefill": 2, "decode": 1}], ids=["in", "unchanged"])
def test_a_plan_that_only_removes_is_never_refused(wanted: dict[str, int]) -> None:
    check(service("vllm-p0", CRASHING), **wanted)


def test_a_fault_of_an_instance_that_goes_is_none() -> None:
    check(service("vllm-p1", CRASHING), prefill=1, decode=2)


def test_an_instance_that_waits_for_a_node_is_no_fault() -> None:
    check(service("vllm-p0", PENDING), prefill=3, decode=1)


def test_bringing_back_what_the_baseline_has_is_no_scale_out() -> None:
    shot = service("vllm-p0", CRASHING, [("prefill", 0), ("decode", 0)])
    check(shot, prefill=2, decode=1)
    with pytest.raises(Refused):
        check(shot, prefill=3, decode=1)


def test_what_an_unfinished_change_has_made_is_no_fault() -> None:
    shot = service("vllm-p2", CRASHING, services.running(prefill=3, decode=1))
    resumed = replace(shot, lease=unfinished("scale", prefill=2, decode=1))
    check(resumed, prefill=4, decode=1)
    with pytest.raises(Refused):
        check(shot, prefill=4, decode=1)
    with pytest.raises(Refused):
        check(replace(resumed, pods=service("vllm-p0", CRASHING).pods), prefill=4, decode=1)


def test_nodes_are_asked_for_only_when_a_pod_of_an_instance_is_not_ready() -> None:
    shot = services.snapshot(CONFIG, services.running(prefill=2, decode=1))
    assert doubtful_nodes(shot) == ()
    standby = services.pod("mindie-motor-controller", 7, ready=False)
    leaving = services.pod("vllm-p9", 8, ready=False, leaving=True)
    assert doubtful_nodes(replace(shot, pods=(*shot.pods, standby, leaving))) == ()
    unscheduled = services.pod("vllm-p0", ready=False)
    del unscheduled["spec"]["nodeName"]
    assert doubtful_nodes(replace(shot, pods=(unscheduled,))) == ()
    of_a_set = services.set_snapshot(CONFIG, prefill=1, decode=1, extra_pods=[services.set_pod("prefill", 3, ready=False)])
    assert doubtful_nodes(of_a_set) == (), "an instance that goes is not looked at"
    of_a_set = services.set_snapshot(CONFIG, prefill=3, decode=1)
    unwell = services.set_pod("prefill", 2, ready=False)
    pods = [unwell if pod["metadata"]["name"] == unwell["metadata"]["name"] else pod for pod in of_a_set.pods]
    assert doubtful_nodes(replace(of_a_set, pods=tuple(pods))) == ("node-2",)


def test_a_pod_that_cannot_leave_a_dead_node_is_a_fault_of_its_instance() -> None:
    shot = services.snapshot(CONFIG, services.running(prefill=2, decode=1))
    pods = [pod for pod in shot.pods if pod["metadata"]["labels"]["app"] != "vllm-p0"]
    shot = replace(shot, pods=(*pods, services.pod("vllm-p0", ready=False, leaving=True)))
    assert doubtful_nodes(shot) == ("node-0",)
    with pytest.raises(Refused) as refused:
        check(replace(shot, nodes={"node-0": NOT_READY_NODE}), prefill=3, decode=1)
    assert refused.value.paths == ("vllm-p0",)
    successor = services.pod("vllm-p0", 1)
    check(replace(shot, pods=(*shot.pods, successor), nodes={"node-0": NOT_READY_NODE}), prefill=3, decode=1)
