# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What rules do to the stand-in for the Ascend Operator as they did to the real one: b it crashes, c it holds without a word, d it waits.

Each test is named after its row of what was measured with the real operator.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator

import pytest

from tests.cluster import Cluster
from tests.cluster.ascend_operator import objects
from tests.cluster.ascend_operator.operator import PANIC
from tests.cluster.ascend_operator.retries import Queue
from tests.cluster.cluster import ASCEND_OPERATOR
from tests.cluster.kube_client import CONFIG_MAPS, PODS, SERVICES, wait_for
from tests.support.ascend_jobs import RULE, Fleet, Task, uids

TIER = '{"group_list": [{"group_name": "g0", "group_num": "1", "server_num_per_group": "1"}]}'
LARGER = TIER.replace('group_num": "1', 'group_num": "2')
GOOD = f'{{"version": "1.0", "elastic_scaling_list": [{TIER}]}}'
BROKEN = {
    "number": GOOD.replace('"group_num": "1"', '"group_num": 1'),
    "version": GOOD.replace('"1.0"', "1.0"),
    "hash-comment": GOOD.replace("[{", "[  # full size\n{", 1),
    "slash-comment": GOOD.replace("[{", "[  // full size\n{", 1),
    "byte-order-mark": "\ufeff" + GOOD,
    "trailing-comma": GOOD.replace("]}]}", "]},]}"),
    "empty": "",
    "two-documents": GOOD + GOOD,
    "no-tiers": '{"elastic_scaling_list": []}',
    "blank-in-number": GOOD.replace('"group_num": "1"', '"group_num": " 1"'),
    "larger-lower-tier": GOOD.replace(TIER, f"{TIER}, {LARGER}"),
    "new-group-below": GOOD.replace(TIER, f"{TIER}, {TIER.replace('g0', 'g1')}"),
}
ACCEPTED = {
    "folded-key": GOOD.replace("group_name", "Group_Name"),
    "plus-sign": GOOD.replace('"group_num": "1"', '"group_num": "+1"'),
}


@pytest.fixture
def operator(ascend_cluster: Cluster, task: Task) -> Iterator[Cluster]:
    """The cluster, whose operator lives again afterwards."""
    yield ascend_cluster
    task.clear()
    ascend_cluster.restart_ascend_operator()


def dies(cluster: Cluster, seconds: float = 20) -> bool:
    """It ends by itself as the real program does."""
    return cluster.exit_status(ASCEND_OPERATOR, seconds) == PANIC and "nil pointer dereference" in cluster.log(ASCEND_OPERATOR)


@pytest.fixture
def other(ascend_cluster: Cluster, task: Task) -> Iterator[Task]:
    """A task in a namespace whose jobs the operator takes first."""
    made = Task(task.client, ascend_cluster.create_namespace(f"a-{task.namespace}"))
    yield made
    made.clear()


def test_b_a_tier_that_omits_the_group_kills_the_operator_again_and_again(task: Task, fleet: Fleet, operator: Cluster, other: Task) -> None:
    fleet.add(2)
    task.rule({"g0": 2, "g1": 1}, {"g0": 1})
    task.job("d0", "g1")
    assert dies(operator)
    other.rule({"g0": 1})
    other.job("p0")
    operator.restart_ascend_operator()
    assert dies(operator), "the same job is looked at again"
    other.wait_phase("Inqueue", "p0")
    assert not other.pods("p0"), "another job gets one step further per restart"
    operator.restart_ascend_operator()
    assert dies(operator)
    wait_for(lambda: other.pods("p0"), 10, "the pod of the other job")
    task.rule({"g0": 2, "g1": 1}, {"g0": 1, "g1": 0})
    operator.restart_ascend_operator()
    other.wait_running("p0")
    task.wait_reason("d0", "PodCreateFailed")
    assert operator.exit_status(ASCEND_OPERATOR) is None


def test_b_a_container_that_is_restarted_crashes_on_until_the_rule_is_right(task: Task, fleet: Fleet, operator: Cluster) -> None:
    fleet.add(1)
    before = operator.log(ASCEND_OPERATOR).count("crashed; starts again")
    operator.restart_ascend_operator(restart_after=0.1)
    task.rule({"g0": 1, "g1": 1}, {"g0": 1})
    task.job("d0", "g1")
    wait_for(lambda: operator.log(ASCEND_OPERATOR).count("crashed; starts again") >= before + 3, 30, "three crashes")
    task.rule({"g0": 1, "g1": 1}, {"g0": 0, "g1": 1})
    task.wait_running("d0")


def test_b_a_misspelt_group_is_harmless_until_a_sibling_loses_its_pod(task: Task, fleet: Fleet, operator: Cluster) -> None:
    fleet.add(2)
    task.rule({"g0": 1})
    task.job("p0")
    task.wait_running("p0")
    task.job("p1", "G0")
    task.wait_reason("p1", "PodCreateFailed")
    assert operator.exit_status(ASCEND_OPERATOR) is None

    def dies_of_the_loss(number: int) -> bool:
        """Not if the pod is back, and counted, before the other job is looked at."""
        task.delete_pod("p0-master-0")
        wait_for(lambda: task.phase("p0") != "Running", 20, "the loss noticed")
        task.nudge("p1", f"time {number}")
        if dies(operator, 5):
            return True
        task.wait_running("p0")
        return False

    assert any(dies_of_the_loss(number) for number in range(5))
    operator.restart_ascend_operator()
    assert dies(operator)
    task.delete("p1")
    operator.restart_ascend_operator()
    task.wait_running("p0")


def test_c_a_broken_rule_looks_like_a_job_that_is_rightly_held(task: Task, fleet: Fleet) -> None:
    names = {**{name: f"rule-{name}" for name in BROKEN}, "missing": "rule-missing", "no-key": "rule-no-key", "held": "rule-held"}
    for name, text in BROKEN.items():
        task.rule_text(text, names[name])
    task.client.create(CONFIG_MAPS, {"metadata": {"name": "rule-no-key", "namespace": task.namespace}, "data": {"scaling.json": GOOD}})
    task.rule({"g0": 0}, name="rule-held")
    for name, rule in names.items():
        task.job(name, npus=0, labels={objects.RULE: rule})
    for name in names:
        task.wait_reason(name, "PodCreateFailed")
    shown = set()
    for name in names:
        rows = task.get(name)["status"]["conditions"]
        assert [row["type"] for row in rows] == ["Created"]
        shown.add(rows[0]["message"].replace(f"{task.namespace}/{name}", "<job>"))
    assert shown == {"job <job> can't create pod, try later"}
    assert not task.all(PODS) and not any(task.events(name) for name in names), "Volcano may warn on PodGroups, nobody on the job"


def test_c_what_only_looks_wrong_is_accepted(task: Task, fleet: Fleet) -> None:
    for name, text in ACCEPTED.items():
        task.rule_text(text, f"rule-{name}")
        task.job(name, npus=0, labels={objects.RULE: f"rule-{name}"})
    task.wait_running(*ACCEPTED)


@pytest.mark.parametrize("label", [objects.RULE_GROUP, objects.JOB_ID])
def test_c_a_missing_scaling_label_is_terminal(task: Task, fleet: Fleet, label: str) -> None:
    task.rule({"g0": 1})
    task.job("p0", npus=0, labels={label: None})
    task.wait_reason("p0", "JobValidFailed", "Failed")
    created, failed = task.get("p0")["status"]["conditions"]
    assert (created["type"], created["status"], created["reason"]) == ("Created", "True", "JobCreated")
    assert created["message"] == "Job p0 is create."
    assert failed["message"].startswith("InvalidScalingConfig: job p0 has no ") and label in failed["message"]
    assert ("Warning", "InvalidScalingConfig") in task.events("p0")
    task.client.patch(objects.ASCEND_JOBS, task.namespace, "p0", {"metadata": {"labels": {label: "g0"}}})
    task.stays(lambda: task.phase("p0") == "none" and not task.pods("p0"), 1.0)


@pytest.mark.parametrize(
    ("reason", "path", "value"),
    [
        ("InvalidFramework", "/metadata/labels/framework", None),
        ("InvalidSuccessPolicy", "/spec/successPolicy", "Some"),
        ("InvalidQueue", "/spec/runPolicy/schedulingPolicy/queue", None),
        ("InvalidQueue", "/spec/runPolicy/schedulingPolicy/queue", "elsewhere"),
        ("InvalidReplicaType", "/spec/replicaSpecs/Chief", {"replicas": 1}),
        ("InvalidReplicaSpec", "/spec/replicaSpecs/Master/replicas", 2),
        ("InvalidContainer", "/spec/replicaSpecs/Master/template/spec/containers/0/name", "main"),
        ("InvalidSpecs", "/spec/replicaSpecs", {}),
    ],
)
def test_c_an_invalid_job_is_terminal_and_says_why(task: Task, fleet: Fleet, reason: str, path: str, value: object) -> None:
    body = task.body("p0", npus=0)
    *parents, last = path.strip("/").split("/")
    section = body
    for key in parents:
        section = section[int(key)] if isinstance(section, list) else section[key]
    section[last] = value
    if value is None:
        del section[last]
    task.client.create(objects.ASCEND_JOBS, body)
    task.wait_reason("p0", "JobValidFailed", "Failed")
    assert task.conditions("p0") == [("Created", "True", "JobCreated"), ("Failed", "True", "JobValidFailed")]
    assert task.get("p0")["status"]["conditions"][-1]["message"].startswith(f"{reason}: ")
    assert ("Warning", reason) in task.events("p0") and task.phase("p0") == "none"


def test_c_a_job_without_a_framework_is_told_which_there_are(task: Task, fleet: Fleet) -> None:
    task.job("p0", npus=0, labels={objects.FRAMEWORK: None})
    task.wait_reason("p0", "JobValidFailed", "Failed")
    told = "framework label is not set, please set label framework as one of <pytorch,mindspore,tensorflow>"
    assert task.get("p0")["status"]["conditions"][-1]["message"] == f"InvalidFramework: {told}"


def test_c_without_the_label_of_a_rule_a_job_is_not_gated(task: Task, fleet: Fleet) -> None:
    task.job("p0", npus=0, labels={objects.RULE: None})
    task.wait_running("p0")


def test_c_the_empty_group_name_is_a_group_name(task: Task, fleet: Fleet) -> None:
    task.rule({"": 1})
    task.job("p0", "", npus=0)
    task.wait_running("p0")


def waits_for(cluster: Cluster, task: Task, name: str) -> float:
    """How long the operator said that a job waits for its next attempt, last."""
    found = re.findall(rf"{task.namespace}/{name}: job .* again in ([0-9.]+) s", cluster.log(ASCEND_OPERATOR))
    return float(found[-1]) if found else 0.0


def hold_long(cluster: Cluster, task: Task, *names: str) -> None:
    """Wait until jobs have just been refused and will not be tried again for ten seconds: time to show that something else wakes them."""
    for name in names:
        wait_for(lambda name=name: waits_for(cluster, task, name) > 10, 40, f"the back-off of {name}")


def test_d_and_a6b_neither_the_rule_nor_a_sibling_wakes_a_held_job_its_own_timer_does(
    task: Task, fleet: Fleet, ascend_cluster: Cluster
) -> None:
    task.rule({"g0": 1, "g1": 1})
    task.job("p0", npus=0)
    task.wait_running("p0")
    task.job("p1", npus=0)
    hold_long(ascend_cluster, task, "p1")
    task.rule({"g0": 2, "g1": 1}, {"g0": 1, "g1": 1})
    task.job("d0", "g1", npus=0)
    task.wait_running("d0", timeout=9)
    assert not task.pods("p1"), "its time has not come"
    task.wait_running("p1")


def test_d_what_wakes_a_held_job_and_what_does_not(task: Task, fleet: Fleet, ascend_cluster: Cluster) -> None:
    note = {"metadata": {"annotations": {"nudge": "now"}}}
    own = (objects.ASCEND_JOBS, "{}")
    nudges = {
        "annotation": (*own, note, ""),
        "label": (*own, {"metadata": {"labels": {"nudge": "now"}}}, ""),
        "spec": (*own, {"spec": {"runPolicy": {"ttlSecondsAfterFinished": 9}}}, ""),
        "status": (*own, {"status": {"lastReconcileTime": "2020-01-01T00:00:00Z"}}, "status"),
        "pod-group": (objects.POD_GROUPS, "{}-{uid}", note, ""),
        "service": (SERVICES, "{}-master-0", note, ""),
    }
    deaf = {"rule": (CONFIG_MAPS, RULE, note, ""), "rings": (CONFIG_MAPS, "rings-config-{}", note, "")}
    task.rule({"g0": 0})
    for name in (*deaf, *nudges):
        task.rings(name)
        task.job(name, npus=0)
    hold_long(ascend_cluster, task, *deaf, *nudges)
    task.rule({"g0": 100})
    for name, (resource, target, body, subresource) in {**deaf, **nudges}.items():
        target = target.format(name, uid=task.get(name)["metadata"]["uid"])
        task.client.patch(resource, task.namespace, target, body, subresource=subresource)
    wait_for(lambda: all(task.pods(name) for name in nudges), 9, "pods of the jobs that were woken")
    assert not any(task.pods(name) for name in deaf)
    wait_for(lambda: all(task.pods(name) for name in deaf), 25, "pods of the others in their own time")


def test_d_the_pause_doubles_up_to_twenty_seconds() -> None:
    queue = Queue()
    pauses = [queue.failed(("ns", "job")) for dummy in range(16)]
    assert pauses[:3] == [0.005, 0.01, 0.02] and all(b == min(2 * a, 20.0) for a, b in itertools.pairwise(pauses))
    assert pauses[-1] == 20.0
    queue.succeeded(("ns", "job"))
    assert queue.failed(("ns", "job")) == 0.005


def test_d_a_nudge_leaves_the_timer_as_it_is() -> None:
    queue, key = Queue(), ("ns", "job")
    start = time.monotonic()
    queue.add_after(key, 0.3)
    queue.add(key)
    assert queue.take() == key and time.monotonic() < start + 0.3
    queue.add_after(key, 10)
    assert queue.take() == key and 0.3 <= time.monotonic() - start < 10, "the earlier of two timers counts"


def test_d_a_held_job_owns_a_service_and_an_enqueued_pod_group(task: Task, fleet: Fleet) -> None:
    fleet.add(1)
    task.rule({"g0": 0})
    task.job("p0")
    task.wait_reason("p0", "PodCreateFailed")
    assert task.phase("p0") == "Inqueue" and set(task.all(SERVICES)) == {"p0-master-0"} and not uids(task.pods("p0").values())
