# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which troubles do not end by themselves, and whose troubles end a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import pods as pod_facts
from ansible_collections.ascend.mindie.plugins.module_utils._motor import terminal
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan import Plan, Step, Subject, create, delete
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot, service_state
from ansible_collections.ascend.mindie.plugins.module_utils._motor.terminal import Scope, Symptom, Workloads

from . import services

CONFIG = services.user_config(prefill=2, decode=1)
NOTHING = Workloads()
QUOTA = 'pods "vllm-p0-x" is forbidden: exceeded quota: small, requested: pods=1, used: pods=3, limited: pods=3'


def waiting(reason: str, restarts: int = 0, *, where: str = "containerStatuses") -> dict[str, Any]:
    return {"phase": "Pending", where: [{"state": {"waiting": {"reason": reason}}, "restartCount": restarts}]}


def unschedulable(reason: str = "Unschedulable", message: str = "0/3 nodes are available") -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    return {"phase": "Pending", "conditions": [condition]}


def running(started: bool) -> dict[str, Any]:
    ready = {"type": "Ready", "status": "False"}
    return {"phase": "Running", "conditions": [ready], "containerStatuses": [{"state": {"running": {}}, "started": started}]}


def controlled(pod: dict[str, Any]) -> dict[str, Any]:
    pod["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "x", "controller": True}]
    return pod


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (waiting("ErrImagePull"), ""),
        (waiting("ImagePullBackOff"), "image"),
        (waiting("InvalidImageName"), "image"),
        (waiting("ErrImageNeverPull"), "image"),
        (waiting("CreateContainerConfigError"), "config"),
        (waiting("CreateContainerError"), ""),
        (waiting("RunContainerError"), ""),
        (waiting("ContainerCreating"), ""),
        (waiting("CrashLoopBackOff", 0), ""),
        (waiting("CrashLoopBackOff", 2), ""),
        (waiting("CrashLoopBackOff", 3), "crash"),
        (waiting("CrashLoopBackOff", 40), "crash"),
        (waiting("CrashLoopBackOff", 5, where="initContainerStatuses"), "crash"),
        (waiting("ImagePullBackOff", where="initContainerStatuses"), "image"),
        (running(started=False), ""),
        (running(started=True), ""),
        (unschedulable(), "unschedulable"),
        ({"phase": "Failed", "reason": "Evicted"}, "failed"),
        ({"phase": "Pending"}, ""),
    ],
)
def test_which_states_of_a_pod_do_not_end_by_themselves(status: dict[str, Any], kind: str) -> None:
    trouble = pod_facts.trouble(services.pod("vllm-p0", status=status))
    assert (trouble.lasting if trouble else "") == kind


def test_the_lasting_one_of_two_troubled_containers_is_told() -> None:
    status = {
        "phase": "Pending",
        "containerStatuses": [*waiting("ErrImagePull")["containerStatuses"], *waiting("InvalidImageName")["containerStatuses"]],
    }
    trouble = pod_facts.trouble(services.pod("vllm-p0", status=status))
    assert trouble and trouble.lasting == "image" and "InvalidImageName" in trouble.reason


def test_a_failed_pod_that_its_controller_replaces_is_no_end() -> None:
    trouble = pod_facts.trouble(controlled(services.pod("vllm-p0", status={"phase": "Failed", "reason": "Evicted"})))
    assert trouble and trouble.state == "failed" and not trouble.lasting


def test_the_number_of_restarts_is_told() -> None:
    trouble = pod_facts.trouble(services.pod("vllm-p0", status=waiting("CrashLoopBackOff", 7)))
    assert trouble and "CrashLoopBackOff after 7 restarts" in trouble.reason


def with_pods(*pods: dict[str, Any]) -> Snapshot:
    live = services.running(prefill=1, decode=1)
    return services.snapshot(CONFIG, live, pods=(*services.control_pods(), services.pod("vllm-d0"), *pods))


def test_one_hopeless_pod_of_several_is_enough_for_an_instance() -> None:
    shot = with_pods(services.pod("vllm-p0"), services.pod("vllm-p0", 1, ready=False, status=waiting("ImagePullBackOff")))
    shot = replace(shot, deployments=(services.deployment("prefill", 0, pods=2), services.deployment("decode", 0)))
    (found,) = terminal.symptoms(shot, NOTHING)
    assert (found.name, found.engine_role, found.index, found.kind) == ("vllm-p0", "prefill", 0, "image")
    assert found.to_dict().keys() == {"name", "engine_role", "index", "reason"}


def test_of_pods_that_start_together_the_one_without_a_place_is_told_and_not_the_one_that_waits_for_it() -> None:
    waits = unschedulable("Schedulable", "Pod can possibly be assigned to node-4, once minAvailable is satisfied")
    shot = with_pods(*(services.pod("vllm-p0", n, ready=False, status=status) for n, status in enumerate((waits, unschedulable()))))
    shot = replace(shot, deployments=(services.deployment("prefill", 0, pods=2), services.deployment("decode", 0)))
    (found,) = terminal.symptoms(shot, NOTHING)
    assert (found.name, found.kind) == ("vllm-p0", "unschedulable") and "0/3 nodes are available" in found.reason
    (instance,) = (item for item in service_state(shot).instances if item.name == "vllm-p0")
    assert instance.state == "pending" and "0/3 nodes are available" in instance.reason


def test_instances_that_run_or_leave_have_no_symptoms() -> None:
    leaving = services.pod("vllm-p0", leaving=True, status=waiting("ImagePullBackOff"))
    assert terminal.symptoms(with_pods(services.pod("vllm-p0"), leaving), NOTHING) == ()
    gone = services.snapshot(CONFIG, [("decode", 0)], pods=(*services.control_pods(), services.pod("vllm-d0"), leaving))
    assert terminal.symptoms(gone, NOTHING) == ()


def test_a_control_role_is_lost_only_with_all_its_pods() -> None:
    bad = services.pod("mindie-motor-controller", 1, status=waiting("ImagePullBackOff"))
    starting = services.pod("mindie-motor-controller", 0, ready=False)
    coordinator = services.pod("mindie-motor-coordinator")
    shot = services.snapshot(CONFIG, [], pods=(bad, starting, coordinator))
    assert terminal.symptoms(shot, NOTHING) == ()
    (found,) = terminal.symptoms(replace(shot, pods=(bad, coordinator)), NOTHING)
    assert (found.name, found.engine_role, found.index) == ("controller", "controller", None)


def deployment(**conditions: tuple[str, str, str]) -> dict[str, Any]:
    rows = [
        {"type": kind, "status": status, "reason": reason, "message": message} for kind, (status, reason, message) in conditions.items()
    ]
    return {**services.deployment("prefill", 0), "status": {"conditions": rows}}


LATE = ("False", "ProgressDeadlineExceeded", 'ReplicaSet "vllm-p0-1" has timed out progressing.')


@pytest.mark.parametrize(
    ("workload", "pods", "kind"),
    [
        (deployment(ReplicaFailure=("True", "FailedCreate", QUOTA)), [], "refused"),
        (deployment(ReplicaFailure=("False", "FailedCreate", QUOTA)), [], ""),
        (deployment(ReplicaFailure=("True", "FailedCreate", "etcdserver: request timed out")), [], ""),
        (deployment(ReplicaFailure=("True", "FailedCreate", QUOTA)), [services.pod("vllm-p0", ready=False)], ""),
        (deployment(Progressing=LATE), [], "progress"),
        (deployment(Progressing=LATE), [services.pod("vllm-p0", status=running(started=True))], "progress"),
        (deployment(Progressing=LATE), [services.pod("vllm-p0", status=running(started=False))], ""),
        (deployment(Progressing=("False", "FailedCreate", "")), [], ""),
        (deployment(Progressing=("True", "ReplicaSetUpdated", "")), [], ""),
    ],
)
def test_what_a_deployment_tells(workload: dict[str, Any], pods: list[dict[str, Any]], kind: str) -> None:
    found = terminal.symptoms(with_pods(*pods), Workloads((workload,)))
    assert [symptom.kind for symptom in found] == ([kind] if kind else [])


def of_a_set(*events: dict[str, Any]) -> tuple[Symptom, ...]:
    """One prefill instance of an InferServiceSet without a pod, and these Events."""
    roles = [{"name": "prefill", "replicas": 1, "spec": {"replicas": 1}}]
    service_set = {"kind": "InferServiceSet", "metadata": {"name": "vllm"}, "spec": {"template": {"roles": roles}}}
    shot = Snapshot(services.NAMESPACE, "infer_service_set", "vllm", infer_service_set=service_set, pods=tuple(services.control_pods()))
    name = "vllm-0-prefill-0"
    workload = {
        "kind": "StatefulSet",
        "metadata": {"name": name, "uid": "now"},
        "spec": {"template": {"metadata": {}}},
        "status": {"replicas": 0},
    }
    return terminal.symptoms(shot, Workloads((workload,), events))


def event(uid: str, message: str, at: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    return {"involvedObject": {"kind": "StatefulSet", "uid": uid}, "reason": "FailedCreate", "message": message, "lastTimestamp": at}


def test_a_stateful_set_tells_by_events_of_its_own() -> None:
    (found,) = of_a_set(event("now", QUOTA))
    assert found.kind == "refused" and "exceeded quota: small" in found.reason and found.name == "vllm-0-prefill-0"
    assert of_a_set(event("of an earlier one", QUOTA)) == ()
    assert of_a_set(event("now", QUOTA), event("now", "etcd is slow", "2026-01-01T00:00:09Z")) == ()
    assert of_a_set() == ()


def symptom(name: str = "vllm-p2", kind: str = "image") -> Symptom:
    return Symptom(name, "prefill", 2, kind, "because")


@pytest.mark.parametrize(
    ("kind", "age", "ends"),
    [
        ("image", 0.0, True),
        ("crash", 0.0, True),
        ("progress", 0.0, True),
        ("refused", 14.9, False),
        ("refused", 15.0, True),
        ("unschedulable", 59.0, False),
        ("unschedulable", 60.0, True),
    ],
)
def test_how_long_a_symptom_must_last(kind: str, age: float, ends: bool) -> None:
    found = symptom(kind=kind)
    assert terminal.terminal([found], {found.key: age}, Scope(), 60.0) == ((found,) if ends else ())


def test_what_is_spared_does_not_end_a_run() -> None:
    found = symptom("vllm-d0")
    assert terminal.terminal([found], {found.key: 1000.0}, Scope(spared=frozenset({"vllm-d0"})), 60.0) == ()


@pytest.mark.parametrize(
    ("kind", "age", "ends"),
    [
        ("image", 329.0, False),
        ("image", 330.0, True),
        ("crash", 330.0, True),
        ("refused", 16.0, False),
        ("refused", 330.0, True),
        ("progress", 1e6, False),
        ("unschedulable", 60.0, True),
    ],
)
def test_what_was_there_before_gets_time_to_be_tried_again(kind: str, age: float, ends: bool) -> None:
    """The cause may be corrected, and kubelet comes to it after five minutes at most."""
    found = symptom(kind=kind)
    assert terminal.terminal([found], {found.key: age}, Scope(old=frozenset({found.name})), 60.0) == ((found,) if ends else ())


def live(**counts: int) -> Snapshot:
    """A recorded 2P1D service whose instances were made one after the other."""
    shot = services.snapshot(CONFIG, services.running(**counts))
    made = tuple(
        {**item, "metadata": {**item["metadata"], "creationTimestamp": f"2026-01-01T00:00:{number:02}Z"}}
        for number, item in enumerate(shot.deployments)
    )
    return replace(shot, deployments=made)


def plan(*steps: Step) -> Plan:
    return Plan("scale", services.NAMESPACE, steps)


CONTROL = {"controller", "coordinator"}


def test_instances_that_were_there_before_are_spared() -> None:
    growing = plan(Step("create", (create(services.deployment("prefill", 2), "missing"),)))
    assert terminal.scope(live(prefill=2, decode=1), growing).spared == {"vllm-p0", "vllm-p1", "vllm-d0"} | CONTROL


def test_what_was_there_before_is_old_unless_it_is_touched() -> None:
    shot = live(prefill=4, decode=1)
    step = Step("replace", (delete("Deployment", shot.deployments[0], "new image"),), subjects=(Subject("controller", {}),))
    assert terminal.scope(shot, plan(step)).old == {"vllm-p1", "vllm-p2", "vllm-p3", "vllm-d0", "coordinator"}
    assert terminal.scope(Snapshot(services.NAMESPACE, "deployments", "vllm"), plan()).old == frozenset()


def test_an_instance_that_is_made_again_under_its_name_is_not_spared() -> None:
    shot = live(prefill=2, decode=1)
    replacing = plan(Step("replace", (delete("Deployment", shot.deployments[0], "new image"),)))
    assert "vllm-p0" not in terminal.scope(shot, replacing).spared


def test_after_an_interruption_the_newest_beyond_the_record_are_not_spared() -> None:
    assert terminal.scope(live(prefill=4, decode=1), plan()).spared == {"vllm-p0", "vllm-p1", "vllm-d0"} | CONTROL
    shot = live(prefill=3, decode=1)
    oldest_last = replace(
        shot,
        deployments=tuple(
            {**item, "metadata": {**item["metadata"], "creationTimestamp": "2025-01-01T00:00:00Z"}}
            if item["metadata"]["name"] == "vllm-p2"
            else item
            for item in shot.deployments
        ),
    )
    assert terminal.scope(oldest_last, plan()).spared == {"vllm-p0", "vllm-p2", "vllm-d0"} | CONTROL


def test_a_service_that_was_never_reached_spares_nothing() -> None:
    shot = live(prefill=2, decode=1)
    config_map = {**(shot.config_map or {}), "metadata": {**(shot.config_map or {})["metadata"], "annotations": {}}}
    assert terminal.scope(replace(shot, config_map=config_map), plan()).spared == frozenset()
    assert terminal.scope(replace(shot, config_map=None), plan()).spared == frozenset()


def test_a_service_of_the_deployer_is_spared_as_it_is() -> None:
    shot = services.snapshot(CONFIG, services.running(prefill=3, decode=1), applied=False)
    assert terminal.scope(shot, plan()).spared == {"vllm-p0", "vllm-p1", "vllm-p2", "vllm-d0"} | CONTROL


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        ({"kind": "InferServiceSet", "metadata": {"name": "vllm"}}, set()),
        ({"kind": "Deployment", "metadata": {"name": "mindie-motor-controller"}}, set()),
        ({"kind": "Deployment", "metadata": {"name": "vllm-p7"}}, CONTROL),
        ({"kind": "Service", "metadata": {"name": "mindie-motor-controller-service"}}, CONTROL),
    ],
)
def test_control_roles_count_when_the_run_makes_them(obj: dict[str, Any], expected: set[str]) -> None:
    found = terminal.scope(live(prefill=2, decode=1), plan(Step("workloads", (create(obj, "missing"),)))).spared
    assert found & CONTROL == expected
