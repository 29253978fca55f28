# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in for the Ascend Operator does what the real one was seen to do: start, loss, scaling, rule changes.

Each test reproduces one row of what was measured with the real operator and the real Volcano on a real control plane. Orders and final
states are asserted; times are not. The rule is, unless a test says otherwise, two prefill (g0) and one decode (g1), then one and one.
"""

from __future__ import annotations

import json

from tests.cluster import Cluster
from tests.cluster.ascend_operator import objects
from tests.cluster.cluster import ASCEND_OPERATOR, GANG_SCHEDULER
from tests.cluster.kube_client import CONFIG_MAPS, PODS, SERVICES, Obj, wait_for
from tests.support.ascend_jobs import RULE, Fleet, Task, in_phase, phases, uids
from tests.support.infer_services import Recorder

JOBS = {"p0": "g0", "p1": "g0", "d0": "g1"}


def test_a1_with_room_for_all_every_job_starts_and_pods_follow_the_enqueued_pod_group(task: Task, fleet: Fleet) -> None:
    fleet.add(4)
    with Recorder(task, PODS, objects.POD_GROUPS) as seen:
        task.two_and_one()
    for name in JOBS:
        assert [row for row in phases(seen, name) if row] == ["Inqueue", "Running"]
        created = seen.first(lambda kind, row, obj, name=name: kind == "Pod" and row == f"{name}-master-0")
        assert seen.first(in_phase(name, "Inqueue")) < created < seen.first(in_phase(name, "Running"))


def test_a1_derived_objects_have_the_names_labels_and_owner_that_the_operator_gives(task: Task, fleet: Fleet) -> None:
    fleet.add(2)
    task.rule({"g0": 1})
    task.rings("p0")
    job = task.job("p0", pods=2)
    task.wait_running("p0")
    owner = {"apiVersion": "mindxdl.gitee.com/v1", "kind": "AscendJob", "name": "p0", "uid": job["metadata"]["uid"]}
    made = [task.group("p0"), task.all(SERVICES)["p0-master-0"], *task.pods("p0").values()]
    assert all(row and owner.items() <= row["metadata"]["ownerReferences"][0].items() for row in made)

    group = made[0] or {}
    assert group["metadata"]["name"] == f"p0-{job['metadata']['uid']}" and group["metadata"]["labels"] == job["metadata"]["labels"]
    asked = {"cpu": "32", "memory": "128Gi", "huawei.com/Ascend910": "16"}
    assert (group["spec"]["minMember"], group["spec"]["queue"], group["spec"]["minResources"]) == (2, "default", asked)
    assert group["spec"]["minTaskMember"] == {"master": 1, "worker": 1}

    assert set(task.pods("p0")) == {"p0-master-0", "p0-worker-0"}
    worker = task.pods("p0")["p0-worker-0"]
    prefix = "training.kubeflow.org/"
    own = {f"{prefix}operator-name": "ascendjob-controller", f"{prefix}job-name": "p0", "group-name": "mindxdl.gitee.com", "job-name": "p0"}
    own |= {f"{prefix}replica-type": "worker", f"{prefix}replica-index": "0", "version": "0"}
    assert worker["metadata"]["labels"] == {**own, "app": "mindie-ms-server", "jobID": task.namespace}, (
        "the job's own labels are not passed on"
    )
    annotations = worker["metadata"]["annotations"]
    assert (annotations["scheduling.k8s.io/group-name"], annotations["hccl/rankIndex"]) == (group["metadata"]["name"], "1")
    environment = {row["name"]: row.get("value", "") for row in worker["spec"]["containers"][0]["env"]}
    assert (environment["MINDX_TASK_ID"], environment["APP_TYPE"]) == (task.namespace, "mindie-ms-server")

    def table() -> Obj:
        found: Obj = json.loads(task.all(CONFIG_MAPS)["rings-config-p0"]["data"]["hccl.json"])
        return found

    wait_for(lambda: table()["status"] == "completed", 10, "the rank table")
    assert [len(server["device"]) for server in table()["server_list"]] == [8, 8]
    assert not any("hardware_type" in server for server in table()["server_list"]), "left out where it is empty"


def test_a2_the_job_without_room_has_no_pod_and_says_that_its_pod_group_is_pending(task: Task, fleet: Fleet) -> None:
    fleet.add(2)
    task.two_tiers()
    for name, group in JOBS.items():
        task.job(name, group)
    wait_for(lambda: sorted(task.phase(name) for name in JOBS) == ["Pending", "Running", "Running"], 30, "two of three run")
    loser = next(name for name in JOBS if task.phase(name) == "Pending")
    task.wait_reason(loser, "PodGroupPending")
    task.stays(lambda: not task.pods(loser) and task.phase(loser) == "Pending")


def test_a2b_a_new_node_lets_the_pending_job_in_without_help(task: Task, fleet: Fleet) -> None:
    fleet.add(2)
    task.two_tiers()
    task.job("p0")
    task.job("d0", "g1")
    task.wait_running("p0", "d0")
    task.job("p1")
    task.wait_reason("p1", "PodGroupPending")
    with Recorder(task, PODS, objects.POD_GROUPS) as seen:
        fleet.add()
        task.wait_running("p1")
    assert phases(seen, "p1")[-2:] == ["Inqueue", "Running"]


def test_a3_a3b_a3c_a3d_a_dead_node_holds_its_pod_and_with_it_the_job(task: Task, fleet: Fleet) -> None:
    fleet.add(3)
    task.two_and_one()
    (old,) = task.pods("d0").values()
    node = old["spec"]["nodeName"]
    with Recorder(task, PODS, objects.POD_GROUPS) as seen:
        fleet.die(node)
        task.wait_phase("Inqueue", "d0")
    evicted = seen.first(lambda kind, row, obj: kind == "Pod" and row == "d0-master-0" and "deletionTimestamp" in obj["metadata"])
    assert evicted < seen.first(in_phase("d0", "Pending")), "a3: its PodGroup runs as long as nobody deletes the pod"
    assert not fleet.ready(node)

    def hangs() -> bool:
        (pod,) = task.pods("d0").values()
        return pod["metadata"]["uid"] == old["metadata"]["uid"] and "deletionTimestamp" in pod["metadata"]

    task.stays(hangs)  # a3b: the operator replaces no pod that is still there
    task.delete_pod("d0-master-0", 0)
    new = wait_for(lambda: [pod for pod in task.pods("d0").values() if pod["metadata"]["uid"] != old["metadata"]["uid"]], 10, "a3c")
    assert not new[0]["spec"].get("nodeName"), "there is no room"
    fleet.back(node)
    task.wait_running("d0")
    assert uids(task.pods("d0").values()) == uids(new), "a3d: the pod that waits takes the place"


def test_a4_a_lost_pod_comes_back_when_its_own_pod_group_has_noticed(task: Task, fleet: Fleet, ascend_cluster: Cluster) -> None:
    fleet.add(3)
    task.two_and_one()
    ascend_cluster.stop_program(GANG_SCHEDULER)
    task.delete_pod("p0-master-0")
    task.wait_reason("p0", "PodCreateFailed")
    task.stays(lambda: task.phase("p0") == "Running" and not task.pods("p0"), 1.0)
    with Recorder(task, PODS, objects.POD_GROUPS) as seen:
        ascend_cluster.start_gang_scheduler()
        task.wait_running("p0")
        wait_for(lambda: phases(seen, "p0")[-1:] == ["Running"], 10, "the watch to see it")
    assert phases(seen, "p0") == ["Pending", "Inqueue", "Running"]
    created = seen.first(lambda kind, row, obj: kind == "Pod" and row == "p0-master-0")
    assert seen.first(in_phase("p0", "Inqueue")) < created < seen.first(in_phase("p0", "Running"))


def test_a6_rule_first_then_the_new_job_runs(task: Task, fleet: Fleet) -> None:
    fleet.add(4)
    task.two_and_one()
    task.rule({"g0": 3, "g1": 1}, {"g0": 2, "g1": 1}, {"g0": 1, "g1": 1})
    task.job("p2")
    task.wait_running("p2")


def test_a7_a_smaller_rule_ends_nothing_and_a_deleted_job_leaves_its_rank_table(task: Task, fleet: Fleet) -> None:
    fleet.add(3)
    task.two_and_one()
    before = uids(task.all(PODS).values())
    task.rule({"g0": 1, "g1": 1})
    task.stays(lambda: uids(task.all(PODS).values()) == before and task.running(*JOBS))
    task.delete("p1")
    wait_for(lambda: not task.pods("p1") and "p1-master-0" not in task.all(SERVICES), 20, "pod and Service gone")
    wait_for(lambda: len(task.all(objects.POD_GROUPS)) == 2, 20, "PodGroup gone")
    assert "rings-config-p1" in task.all(CONFIG_MAPS)


def test_a8_an_instance_beyond_a_shrunk_rule_is_never_rebuilt(task: Task, fleet: Fleet) -> None:
    fleet.add(3)
    task.two_and_one()
    task.rule({"g0": 1, "g1": 1})
    task.delete_pod("p0-master-0")
    task.wait_phase("Inqueue", "p0")
    task.wait_reason("p0", "PodCreateFailed")
    for value in ("one", "two"):
        task.nudge("p0", value)
        task.stays(lambda: not task.pods("p0") and task.phase("p0") == "Inqueue", 1.0)


def test_a9_the_rule_is_no_upper_bound_for_jobs_created_together(task: Task, fleet: Fleet, ascend_cluster: Cluster) -> None:
    fleet.add(5)
    task.rule({"g0": 2, "g1": 1})
    ascend_cluster.stop_program(GANG_SCHEDULER)
    jobs = {"d0": "g1", **{f"p{index}": "g0" for index in range(4)}}
    for name, group in jobs.items():
        task.job(name, group)
        task.wait_reason(name, "PodGroupNotInitialized")
    try:
        ascend_cluster.start_gang_scheduler(sessions=2.0)  # time for the operator to look at all of them before the first one runs
        task.wait_running(*jobs)
    finally:
        ascend_cluster.start_gang_scheduler()


def test_a10_without_its_rule_a_job_is_held_until_the_rule_is_back(task: Task, fleet: Fleet) -> None:
    fleet.add(3)
    task.two_and_one()
    task.client.delete(CONFIG_MAPS, task.namespace, RULE)
    task.delete_pod("d0-master-0")
    task.wait_phase("Inqueue", "d0")
    task.nudge("d0", "in vain")
    task.stays(lambda: not task.pods("d0") and task.reason("d0") == "PodCreateFailed", 1.0)
    task.two_tiers()
    task.nudge("d0")
    task.wait_running("d0")


def test_a11_the_group_of_a_live_job_is_that_of_its_beginning(task: Task, fleet: Fleet) -> None:
    fleet.add(1)
    task.rule({"g0": 1})
    task.job("p0")
    task.wait_running("p0")
    task.client.patch(objects.ASCEND_JOBS, task.namespace, "p0", {"metadata": {"labels": {objects.RULE_GROUP: "g9"}}})
    task.stays(lambda: objects.labels_of(task.group("p0") or {"metadata": {}}).get(objects.RULE_GROUP) == "g0", 1.0)


def test_a12_a_job_created_while_the_operator_is_down_is_taken_up_at_its_start(task: Task, fleet: Fleet, ascend_cluster: Cluster) -> None:
    fleet.add(1)
    task.rule({"g0": 1})
    ascend_cluster.stop_program(ASCEND_OPERATOR)
    task.job("p0")
    assert task.phase("p0") == "none"
    ascend_cluster.restart_ascend_operator()
    task.wait_running("p0")


def test_a14_a_lost_pod_group_is_made_again_and_the_pods_do_not_notice(task: Task, fleet: Fleet) -> None:
    fleet.add(1)
    task.rule({"g0": 1})
    task.job("p0")
    task.wait_running("p0")
    pods, group = uids(task.pods("p0").values()), task.group("p0")
    assert group
    task.client.delete(objects.POD_GROUPS, task.namespace, group["metadata"]["name"])
    wait_for(lambda: uids(task.all(objects.POD_GROUPS).values()) - uids([group]), 10, "a new PodGroup")
    task.wait_running("p0")
    assert uids(task.pods("p0").values()) == pods


def test_a15_pods_do_not_follow_an_edited_job(task: Task, fleet: Fleet) -> None:
    fleet.add(1)
    task.rule({"g0": 1})
    task.job("p0")
    task.wait_running("p0")
    before = task.pods("p0")["p0-master-0"]
    path = "/spec/replicaSpecs/Master/template/spec/containers/0/image"
    task.client.patch(objects.ASCEND_JOBS, task.namespace, "p0", [{"op": "replace", "path": path, "value": "registry.example/mindie:2"}])
    task.stays(lambda: task.pods("p0")["p0-master-0"]["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"], 1.0)


def test_a16_no_held_job_slips_through_when_the_operator_starts(task: Task, fleet: Fleet, ascend_cluster: Cluster) -> None:
    fleet.add(4)
    task.two_and_one()
    task.job("p2")
    task.wait_reason("p2", "PodCreateFailed")
    for dummy in range(3):
        ascend_cluster.restart_ascend_operator()
        task.stays(lambda: not task.pods("p2"), 1.0)
    assert task.running(*JOBS)


def test_conditions_mislead_running_stays_and_the_last_one_may_be_old(task: Task, fleet: Fleet) -> None:
    fleet.add(1)
    task.rule({"g0": 1})
    task.job("p0")
    task.wait_running("p0")
    task.wait_reason("p0", "JobRunning", "Running")
    task.client.patch(objects.ASCEND_JOBS, task.namespace, "p0", {"metadata": {"labels": {objects.RULE: "none"}}})
    task.delete_pod("p0-master-0")
    task.wait_reason("p0", "PodCreateFailed")
    wait_for(lambda: task.phase("p0") != "Running" and not task.pods("p0"), 20, "the loss noticed")
    assert task.reason("p0", "Running") == "JobRunning", "all pods are gone"
    task.client.patch(objects.ASCEND_JOBS, task.namespace, "p0", {"metadata": {"labels": {objects.RULE: RULE}}})
    task.wait_running("p0")
    assert [row[0] for row in task.conditions("p0")] == ["Running", "Created"], "all is well, and the last condition is of the past"
    conditions = {row["type"]: row["status"] for row in (task.group("p0") or {})["status"]["conditions"]}
    assert conditions.get("Unschedulable", "True") == "True", "a PodGroup that runs is no better: it takes no condition back"
