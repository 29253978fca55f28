# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in for gang scheduling reserves, binds and says what the real scheduler was seen to; each test is named after its row."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import pods
from tests.cluster import Cluster
from tests.cluster.ascend_operator import objects
from tests.cluster.cluster import GANG_SCHEDULER
from tests.cluster.gang_scheduler import resources
from tests.cluster.gang_scheduler.resources import NPU, quantity
from tests.cluster.kube_client import PODS, KubeClient, Obj, wait_for
from tests.support.ascend_jobs import Fleet, Task, phases, uids
from tests.support.infer_services import Recorder


@pytest.fixture
def generous(ascend_cluster: Cluster) -> Iterator[None]:
    """Every PodGroup is let in, as with Huawei's plugin and its shipped setting."""
    ascend_cluster.start_gang_scheduler(enqueue_always=True)
    yield
    ascend_cluster.start_gang_scheduler()


@pytest.fixture
def rescheduling(ascend_cluster: Cluster) -> Iterator[None]:
    """Instances that a fault has hit lose their pods."""
    ascend_cluster.start_gang_scheduler(reschedule=True)
    yield
    ascend_cluster.start_gang_scheduler()


def held_beside_one(task: Task) -> None:
    """p0 runs, p1 has been let in and is held by the rule, which misses a decode instance."""
    task.two_tiers()
    task.job("p0")
    task.wait_running("p0")
    task.job("p1")
    task.wait_phase("Inqueue", "p1")
    task.wait_reason("p1", "PodCreateFailed")


def test_a5_a_held_job_keeps_the_room_that_would_end_its_waiting(task: Task, fleet: Fleet) -> None:
    fleet.add(2)
    held_beside_one(task)
    task.job("d0", "g1")
    task.wait_reason("d0", "PodGroupPending")
    for job in ("p1", "d0"):
        task.nudge(job)
    task.stays(lambda: (task.phase("p1"), task.phase("d0")) == ("Inqueue", "Pending") and len(task.all(PODS)) == 1)
    task.delete("p1")
    task.wait_running("d0")


def test_a5b_with_everything_let_in_decode_runs_and_the_surplus_pod_stays_pending(task: Task, fleet: Fleet, generous: None) -> None:
    fleet.add(2)
    held_beside_one(task)
    task.job("d0", "g1")
    task.wait_running("d0")
    task.nudge("p1")
    (pod,) = wait_for(lambda: task.pods("p1").values(), 25, "the pod of the surplus job")
    assert not pod["spec"].get("nodeName")

    def complaint() -> str:
        (row,) = task.pods("p1").values()
        conditions = (row.get("status") or {}).get("conditions") or []
        return next((item["message"] for item in conditions if item["type"] == "PodScheduled"), "")

    wait_for(complaint, 10, "why it has no place")
    assert f"Insufficient {NPU}" in complaint()
    assert (task.phase("p1"), task.reason("p1")) == ("Inqueue", "PodCreateFailed"), "the condition is of the past"


def test_a13_of_a_two_pod_instance_only_the_lost_pod_is_replaced(task: Task, fleet: Fleet) -> None:
    fleet.add(2)
    task.rule({"g0": 1})
    task.job("p0", pods=2)
    task.wait_running("p0")
    before = task.pods("p0")
    with Recorder(task, objects.POD_GROUPS) as seen:
        task.delete_pod("p0-worker-0")
        wait_for(lambda: phases(seen, "p0")[-2:] == ["Pending", "Running"], 20, "Running again")
    assert phases(seen, "p0") == ["Unknown", "Pending", "Running"]
    after = task.pods("p0")
    assert after["p0-master-0"]["metadata"]["uid"] == before["p0-master-0"]["metadata"]["uid"]
    assert after["p0-worker-0"]["metadata"]["uid"] != before["p0-worker-0"]["metadata"]["uid"]


def test_a17_without_a_scheduler_the_pod_group_is_not_initialised(task: Task, fleet: Fleet, ascend_cluster: Cluster) -> None:
    fleet.add(1)
    task.rule({"g0": 1})
    ascend_cluster.stop_program(GANG_SCHEDULER)
    task.job("p0")
    task.wait_reason("p0", "PodGroupNotInitialized")
    assert (task.phase("p0"), task.pods("p0")) == ("", {})
    ascend_cluster.start_gang_scheduler()
    task.wait_running("p0")


def test_pods_of_an_instance_are_bound_together_or_not_at_all(task: Task, fleet: Fleet, generous: None) -> None:
    fleet.add(1)
    task.rule({"g0": 1})
    task.job("p0", pods=2)
    wait_for(lambda: len(task.pods("p0")) == 2, 20, "both pods")
    task.stays(lambda: not any(pod["spec"].get("nodeName") for pod in task.pods("p0").values()), 1.0)
    fleet.add(1)
    task.wait_running("p0")
    assert {pod["spec"]["nodeName"] for pod in task.pods("p0").values()} == set(fleet.names)


def test_of_pods_that_wait_together_only_the_one_that_lacks_a_place_is_named(task: Task, fleet: Fleet, generous: None) -> None:
    fleet.add(1)
    task.rule({"g0": 1})
    task.job("p0", pods=2)

    def told() -> dict[str, Obj]:
        rows = [(pod, row) for pod in task.pods("p0").values() for row in (pod.get("status") or {}).get("conditions") or ()]
        return {row["reason"]: {**row, "pod": pod} for pod, row in rows if row["type"] == "PodScheduled" and row["status"] == "False"}

    wait_for(lambda: set(told()) == {"Schedulable", "Unschedulable"}, 20, "both pods told")
    fits, lacks = told()["Schedulable"], told()["Unschedulable"]
    pod = f"{task.namespace}/{fits['pod']['metadata']['name']}"
    assert fits["message"] == f"Pod {pod} can possibly be assigned to {fleet.names[0]}, once minAvailable is satisfied"
    assert lacks["message"].startswith("0/") and f"Insufficient {NPU}" in lacks["message"]
    assert pods.trouble(fits["pod"]) is None, "the product does not blame the pod that only waits"
    found = pods.trouble(lacks["pod"])
    assert found and found.lasting == pods.UNSCHEDULABLE and lacks["pod"]["metadata"]["name"] in found.reason
    fleet.add(1)
    task.wait_running("p0")
    assert not told()


def test_room_on_a_cordoned_node_counts_for_entry_and_not_for_pods(task: Task, fleet: Fleet) -> None:
    fleet.add(1)
    path = f"/api/v1/nodes/{fleet.names[0]}"
    task.client.request("PATCH", path, {"spec": {"unschedulable": True}}, "application/merge-patch+json")
    task.rule({"g0": 1})
    task.job("p0")
    (pod,) = wait_for(lambda: list(task.pods("p0").values()), 20, "a pod")
    assert task.phase("p0") == "Inqueue"
    task.stays(lambda: not any(row["spec"].get("nodeName") for row in task.pods("p0").values()), 1.0)
    task.client.request("PATCH", path, {"spec": {"unschedulable": None}}, "application/merge-patch+json")
    task.wait_running("p0")
    assert uids(task.pods("p0").values()) == uids([pod])


def test_jobs_without_npus_run_beside_full_nodes(task: Task, fleet: Fleet) -> None:
    fleet.add(1)
    task.rule({"g0": 1})
    task.job("p0")
    task.wait_running("p0")
    task.job("controller", npus=0, labels={objects.RULE: None, objects.RULE_GROUP: None, "app": "mindie-ms-controller"})
    task.wait_running("controller")


def test_pods_without_a_pod_group_are_placed_one_by_one(task: Task, fleet: Fleet, ascend_client: KubeClient) -> None:
    fleet.add(1)

    def create(name: str, npus: int) -> None:
        wanted = {"requests": {NPU: npus}, "limits": {NPU: npus}}
        spec = {"schedulerName": "volcano", "containers": [{"name": "main", "image": "registry.example/main:1", "resources": wanted}]}
        ascend_client.create(PODS, {"metadata": {"name": name, "namespace": task.namespace}, "spec": spec})

    def placed() -> dict[str, str]:
        found: dict[str, Obj] = task.all(PODS)
        return {name: pod["spec"].get("nodeName", "") for name, pod in found.items()}

    for name in ("one", "two", "three"):
        create(name, 4)
    wait_for(lambda: sorted(map(bool, placed().values())) == [False, True, True], 20, "two of three placed")
    loser = next(name for name, node in placed().items() if not node)
    task.delete_pod(next(name for name, node in placed().items() if node))
    wait_for(lambda: placed().get(loser), 20, "the third one placed")


FORCE = {"fault-scheduling": "force"}


def test_rescheduling_moves_a_whole_instance_off_a_dead_node(task: Task, fleet: Fleet, rescheduling: None) -> None:
    fleet.add(3)
    task.rule({"g0": 1})
    task.job("p0", pods=2, labels=FORCE)
    task.wait_running("p0")
    before = task.pods("p0")
    dead = before["p0-worker-0"]["spec"]["nodeName"]
    fleet.die(dead)
    wait_for(lambda: len(uids(task.pods("p0").values()) - uids(before.values())) == 2, 30, "two new pods")
    task.wait_running("p0")
    assert dead not in {pod["spec"]["nodeName"] for pod in task.pods("p0").values()}


def test_rescheduling_restarts_an_instance_with_a_failed_pod_until_its_retries_are_used_up(
    task: Task, fleet: Fleet, rescheduling: None, ascend_cluster: Cluster
) -> None:
    fleet.add(2)
    task.rule({"g0": 1})
    task.job("p0", pods=2, labels={**FORCE, "fault-retry-times": "1"})
    for again in (True, False):
        task.wait_running("p0")
        wait_for(lambda: {pod["status"]["phase"] for pod in task.pods("p0").values()} == {"Running"}, 20, "both pods run")
        before = uids(task.pods("p0").values())
        ascend_cluster.annotate_pod(task.namespace, "p0-worker-0", {"fake/fail": "1"})
        if again:
            wait_for(lambda before=before: len(uids(task.pods("p0").values()) - before) == 2, 20, "two new pods")
    task.wait_reason("p0", "JobFailed", "Failed")


def test_decode_takes_the_place_of_a_prefill_instance_when_its_server_dies_and_prefill_returns_with_the_server(
    task: Task, fleet: Fleet, rescheduling: None, ascend_cluster: Cluster
) -> None:
    fleet.add(3)
    task.two_tiers()
    for name, group in (("p0", "g0"), ("p1", "g0"), ("d0", "g1")):
        task.job(name, group, labels=FORCE)
    task.wait_running("p0", "p1", "d0")
    (lost,) = task.pods("d0").values()
    fleet.die(lost["spec"]["nodeName"])
    task.wait_phase("Inqueue", "d0")
    assert task.running("p0", "p1") and not any(pod["spec"].get("nodeName") for pod in task.pods("d0").values())
    ascend_cluster.annotate_pod(task.namespace, "p1-master-0", {"fake/fail": "1"})  # as Motor's controller has one end
    task.wait_running("p0", "d0")
    task.stays(lambda: task.running("p0", "d0") and not task.running("p1"))
    fleet.back(lost["spec"]["nodeName"])
    task.wait_running("p0", "p1", "d0")


@pytest.mark.parametrize(
    ("text", "number"),
    [("8", 8), ("500m", 0.5), ("16Gi", 16 * 2**30), ("2k", 2000), ("1.5", 1.5), ("1e3", 1000)],
    ids=str,
)
def test_quantities_mean_what_kubernetes_means(text: str, number: float) -> None:
    assert quantity(text) == number


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (["64Gi", "64Gi"], "128Gi"),
        (["64Gi", "512Mi"], "66048Mi"),
        (["64", "1Gi"], "1073741888"),
        (["512Gi", "512Gi"], "1Ti"),
        (["500m", "500m"], "1"),
        (["16", "500m"], "16500m"),
        (["1500", "500"], "2k"),
        (["0", "1Ki"], "1Ki"),
        (["0.5Ki"], "512"),
        (["0"], "0"),
    ],
    ids=str,
)
def test_sums_are_written_as_kubernetes_writes_them(given: list[str], text: str) -> None:
    spec = {"containers": [{"resources": {"requests": {"memory": row}}} for row in given]}
    total = resources.of_template(spec)["memory"]
    assert resources.canonical(total, binary="memory" in resources.in_powers_of_two([spec])) == text
