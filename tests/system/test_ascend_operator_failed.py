# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How AscendJobs end for good, and begin again, with the stand-in as with the real operator: rows e of what was measured."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.cluster.ascend_operator import objects
from tests.cluster.kube_client import CONFIG_MAPS, NODES, PODS, SERVICES, KubeClient, KubeError, Resource, wait_for
from tests.support.ascend_jobs import Fleet, Task, uids
from tests.support.infer_services import Recorder

NAMESPACES = Resource("v1", "Namespace", "namespaces", namespaced=False)
BUDGETS = {"name": "vcjob-fault-npu-cm", "namespace": "volcano-system"}


def running_pair(task: Task, fleet: Fleet, **settings: Any) -> None:
    """A job of two pods on two nodes."""
    fleet.add(2)
    task.rule({"g0": 1})
    task.rings("p0")
    task.job("p0", pods=2, **settings)
    task.wait_running("p0")
    wait_for(lambda: {pod["status"]["phase"] for pod in task.pods("p0").values()} == {"Running"}, 20, "both pods run")


def fail(cluster: Cluster, task: Task, pod: str) -> None:
    """The pod's process ends with an error."""
    cluster.annotate_pod(task.namespace, pod, {"fake/fail": "1"})


def grant(client: KubeClient, task: Task, name: str, times: int) -> None:
    """What Volcano's NPU plugin says of the starts that are left to a job."""
    try:
        client.create(NAMESPACES, {"metadata": {"name": BUDGETS["namespace"]}})
    except KubeError as error:
        if error.status != 409:
            raise
    job = task.get(name)
    budget = {f"{task.namespace}/{objects.pod_group_name(job)}": {"UUID": job["metadata"]["uid"], "Times": times}}
    client.delete(CONFIG_MAPS, BUDGETS["namespace"], BUDGETS["name"])
    client.create(CONFIG_MAPS, {"metadata": BUDGETS, "data": {"remain-retry-times": json.dumps(budget)}})


def test_e_one_failed_pod_ends_the_job_and_the_next_job_is_let_in_but_the_other_pod_keeps_its_npus(
    task: Task, fleet: Fleet, ascend_cluster: Cluster
) -> None:
    running_pair(task, fleet)
    before = uids(task.pods("p0").values())
    fail(ascend_cluster, task, "p0-worker-0")
    task.wait_reason("p0", "JobFailed", "Failed")
    wait_for(lambda: task.phase("p0") == "none", 10, "the PodGroup deleted")
    task.stays(lambda: uids(task.pods("p0").values()) == before, 1.0)
    assert {name: pod["status"]["phase"] for name, pod in task.pods("p0").items()} == {"p0-master-0": "Running", "p0-worker-0": "Failed"}
    assert "p0-master-0" in task.all(SERVICES) and "rings-config-p0" in task.all(CONFIG_MAPS)
    assert ("Running", "False", "JobRunning") in task.conditions("p0")

    task.job("p1", pods=2)
    task.wait_phase("Inqueue", "p1")
    wait_for(lambda: len(task.pods("p1")) == 2, 20, "the pods of the next job")
    task.stays(lambda: task.phase("p1") == "Inqueue" and not any(pod["spec"].get("nodeName") for pod in task.pods("p1").values()), 1.0)
    task.delete("p0")
    task.wait_running("p1")


def test_e_with_a_retry_left_the_job_restarts_when_somebody_deletes_its_pods(task: Task, fleet: Fleet, ascend_cluster: Cluster) -> None:
    running_pair(task, fleet)
    grant(task.client, task, "p0", 3)
    fail(ascend_cluster, task, "p0-worker-0")
    task.wait_reason("p0", "JobRestarting", "Restarting")
    task.wait_phase("Unknown", "p0")
    before = uids(task.pods("p0").values())
    task.stays(lambda: uids(task.pods("p0").values()) == before and task.phase("p0") == "Unknown")
    for name in task.pods("p0"):
        task.delete_pod(name)
    wait_for(lambda: len(uids(task.pods("p0").values()) - before) == 2, 20, "new pods")
    task.wait_running("p0")
    assert {objects.labels_of(pod)["version"] for pod in task.pods("p0").values()} == {"1"}
    task.wait_reason("p0", "JobRunning", "Running")


@pytest.mark.parametrize(
    ("settings", "survives"),
    [({"labels": {"fault-retry-times": "3"}}, 3), ({"policy": {"backoffLimit": 1}}, 1)],
    ids=["fault-retry-times", "backoffLimit"],
)
def test_e_a_limit_ends_the_job_at_the_loss_that_exceeds_it(task: Task, fleet: Fleet, settings: dict[str, Any], survives: int) -> None:
    fleet.add(1)
    task.rule({"g0": 1})
    task.job("p0", **settings)
    for version in range(survives + 1):
        task.wait_running("p0")
        (pod,) = task.pods("p0").values()
        assert objects.labels_of(pod)["version"] == str(version)
        task.delete_pod("p0-master-0")
        wait_for(lambda pod=pod: uids([pod]) != uids(task.pods("p0").values()), 10, "the loss")
        if version < survives:
            wait_for(lambda: task.pods("p0"), 20, "a new pod")
    task.wait_reason("p0", "JobFailed", "Failed")
    task.nudge("p0")
    task.stays(lambda: not task.pods("p0"), 1.0)
    rows = task.get("p0")["status"]["conditions"]
    assert rows[-1]["message"] == "Job p0 has failed because it has reached the specified backoff limit"


@pytest.mark.parametrize("label", ["many", "1.5", "1_0"])
def test_e_a_retry_label_that_is_no_integer_leaves_the_job_unseen_until_something_of_it_changes(
    task: Task, fleet: Fleet, label: str
) -> None:
    task.rule({"g0": 1})
    task.job("p0", npus=0, labels={"fault-retry-times": label})
    task.stays(lambda: task.phase("p0") == "none" and not task.get("p0").get("status"), 1.0)
    task.nudge("p0")
    task.wait_running("p0")


@pytest.mark.parametrize(
    "settings", [{"labels": {"fault-retry-times": ""}}, {"policy": {"backoffLimit": 2}}], ids=["empty", "backoffLimit"]
)
def test_e_an_empty_retry_label_is_none_and_beside_a_backoff_limit_it_is_not_read(
    task: Task, fleet: Fleet, settings: dict[str, Any]
) -> None:
    task.rule({"g0": 1})
    task.job("p0", npus=0, **{"labels": {"fault-retry-times": "many"}, **settings})
    task.wait_running("p0")


def test_e_deleted_and_created_again_at_once_it_is_a_new_job(task: Task, fleet: Fleet, ascend_cluster: Cluster) -> None:
    running_pair(task, fleet)
    old = task.group("p0")
    assert old
    fail(ascend_cluster, task, "p0-worker-0")
    task.wait_reason("p0", "JobFailed", "Failed")
    task.delete("p0")
    task.job("p0", pods=2)
    task.wait_running("p0")
    new = task.group("p0")
    assert new and new["metadata"]["name"] != old["metadata"]["name"]
    wait_for(lambda: len(task.all(objects.POD_GROUPS)) == 1, 20, "no left-over")


def test_e_created_again_while_an_old_pod_stops_slowly_it_takes_free_names_first(task: Task, fleet: Fleet, ascend_cluster: Cluster) -> None:
    running_pair(task, fleet)
    fleet.add(2)
    ascend_cluster.annotate_pod(task.namespace, "p0-worker-0", {"fake/stop-after": "4s"})
    old = task.pods("p0")
    with Recorder(task, PODS) as seen:
        task.delete("p0")
        wait_for(lambda: "deletionTimestamp" in task.pods("p0")["p0-worker-0"]["metadata"], 10, "the end of the old job's pods")
        wait_for(lambda: "p0-master-0" not in task.pods("p0"), 10, "the quick one gone")
        task.job("p0", pods=2)
        wait_for(lambda: "p0-master-0" in task.pods("p0"), 10, "the pod with the free name")
        task.wait_reason("p0", "JobRunning", "Running")
        assert uids([task.pods("p0")["p0-worker-0"]]) == uids([old["p0-worker-0"]]), "it is the old pod that runs"
        assert task.phase("p0") != "Running"
        task.wait_running("p0")
    created = seen.first(lambda kind, row, obj: row == "p0-worker-0" and uids([obj or {}]) != uids([old["p0-worker-0"]]))
    assert "p0-worker-0" in seen.gone("Pod") and created
    assert not uids(old.values()) & uids(task.pods("p0").values())


def test_e_and_a3b_on_a_dead_node_the_old_pod_stays_and_the_new_job_waits_for_its_name(task: Task, fleet: Fleet) -> None:
    fleet.add(2)
    task.rule({"g0": 1})
    task.job("p0")
    task.wait_running("p0")
    (old,) = task.pods("p0").values()
    fleet.die(old["spec"]["nodeName"])
    task.delete("p0")
    wait_for(lambda: "deletionTimestamp" in task.pods("p0")["p0-master-0"]["metadata"], 10, "the old pod told to stop")
    task.job("p0")
    task.wait_phase("Inqueue", "p0")
    task.stays(lambda: uids(task.pods("p0").values()) == uids([old]))
    task.client.delete(NODES, "", old["spec"]["nodeName"])
    task.delete_pod("p0-master-0", 0)
    task.wait_running("p0")
