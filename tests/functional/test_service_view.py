# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""motor_service_info beside the operator and the scheduler: what each instance waits for, tiers, and the servers.

What is said of the live objects is what is said of them when they are cut as programs keep them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor.overview_details import service_report
from ansible_collections.ascend.mindie.plugins.module_utils._motor.servers import servers
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot
from tests.cluster import Cluster
from tests.cluster.ascend_operator import objects
from tests.cluster.fault_proxy import FaultProxy
from tests.cluster.kube_client import CONFIG_MAPS, NODES, PODS, KubeClient, wait_for
from tests.functional.test_modules import succeeded
from tests.support.ascend_jobs import Task
from tests.support.cut import cut
from tests.support.modules import run_module

P0, P1, P2, D0 = "mindie-server-p0", "mindie-server-p1", "mindie-server-p2", "mindie-server-d0"
TWO_TIERS = ({"g0": 2, "g1": 1}, {"g0": 1, "g1": 1})


class Live(Task):
    """A task of AscendJobs that nothing but the module is asked about."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        super().__init__(KubeClient.from_kubeconfig(cluster.kubeconfig), namespace)
        self.cluster = cluster

    def start(self, **groups: str) -> None:
        """Jobs and their rank tables; `p0="g0"`."""
        for short, group in groups.items():
            self.rings(f"mindie-server-{short}")
            self.job(f"mindie-server-{short}", group)

    def shown(self, kubeconfig: str = "", **options: Any) -> dict[str, Any]:
        """What the module says."""
        return succeeded(
            run_module("motor_service_info", namespace=self.namespace, kubeconfig=kubeconfig or self.cluster.kubeconfig, **options)
        )

    def instance(self, name: str, **options: Any) -> dict[str, Any]:
        """What it says of one instance."""
        (found,) = [item for item in self.shown(**options)["service"]["instances"] if item["name"] == name]
        return found

    def said(self, name: str, **options: Any) -> tuple[str, str]:
        """State and reason."""
        found = self.instance(name, **options)
        return found["state"], found["reason"]

    def task(self, **options: Any) -> dict[str, Any]:
        """What it says of the task."""
        (found,) = self.shown(**options)["service"]["tasks"]
        return found

    def snapshot(self) -> Snapshot:
        """The live objects of the namespace, whole, and all nodes."""
        config_maps = self.all(CONFIG_MAPS)
        return Snapshot(
            self.namespace,
            "ascend_jobs",
            "mindie-server",
            jobs=tuple(self.all(objects.ASCEND_JOBS).values()),
            pod_groups=tuple(self.all(objects.POD_GROUPS).values()),
            pods=tuple(self.all(PODS).values()),
            rule=config_maps.get("scaling-rule"),
            others={("ConfigMap", name): found for name, found in config_maps.items()},
            nodes={row["metadata"]["name"]: row for row in self.client.list(NODES)["items"]},
        )


@pytest.fixture
def live(job_cluster: Cluster, job_namespace: str) -> Iterator[Live]:
    found = Live(job_cluster, job_namespace)
    yield found
    whole = found.snapshot()
    known = servers([node for node in whole.nodes.values() if node], whole.pods)
    assert service_report(cut(whole), servers=known) == service_report(whole, servers=known)
    found.clear()


def test_a_running_service_is_at_its_largest_tier(live: Live) -> None:
    live.rule(*TWO_TIERS)
    live.start(p0="g0", p1="g0", d0="g1")
    live.wait_running(P0, P1, D0)
    wait_for(lambda: {live.said(name) for name in (P0, P1, D0)} == {("running", "")}, 10, "all instances running")
    found = live.shown(servers=True)
    (task,) = found["service"]["tasks"]
    assert (task["tier_now"], task["tier_possible"], task["crashes"], task["groups"]) == (0, 0, False, {"g0": "prefill", "g1": "decode"})
    rows = {row["name"]: row for row in found["servers"]}
    for item in found["service"]["instances"]:
        (node,) = item["nodes"]
        assert rows[node]["healthy"] == 8 and (rows[node]["used"], rows[node]["free"]) == (8, 0)
        assert [(pod["namespace"], pod["instance"], pod["state"]) for pod in rows[node]["pods"]] == [
            (live.namespace, item["name"], "running")
        ]
    assert found["npus"]["npus"] == found["npus"]["healthy"] == 64 and found["npus"]["servers"] == 8
    assert not found["changed"] and task["tier_possible"] is not None and live.task()["tier_possible"] is None


def test_a_held_job_names_the_line_of_the_rule_and_reserves_npus(live: Live) -> None:
    live.rule(*TWO_TIERS)
    live.start(p0="g0")
    live.wait_running(P0)
    live.start(p1="g0")
    live.wait_reason(P1, "PodCreateFailed")
    held = live.instance(P1)
    assert (held["state"], held["reason"]) == ("held", "tier 1 has its 1 instances of g0 and waits for g1 (0 of 1)")
    assert held["since"] == live.get(P1)["metadata"]["creationTimestamp"] and (held["npus"], held["pods"], held["group"]) == (8, 1, "g0")
    found = live.shown(servers=True)
    assert {"namespace": live.namespace, "job": P1, "npus": 8} in found["npus"]["enqueued_jobs"]
    (task,) = found["service"]["tasks"]
    assert (task["tier_now"], task["running"]) == (None, {"g0": 1})
    assert task["tier_possible"] is None, "nothing is known of how large an instance of g1 is"


def test_what_waits_for_npus_says_how_many_are_missing(live: Live) -> None:
    live.rule({"g0": 1, "g1": 1})
    live.rings(P0)
    live.job(P0, pods=9)
    live.wait_phase("Pending", P0)
    found = live.shown(servers=True)
    (item,) = found["service"]["instances"]
    free = found["npus"]["free"]
    assert (item["state"], item["reason"]) == ("pending", f"its PodGroup is Pending: it needs 72 NPUs (9 x 8), {free} are free")
    assert live.said(P0) == ("pending", "its PodGroup is Pending: not enough NPUs are free, or its queue is not open")


def test_who_waits_is_told_which_held_job_reserves_the_npus(live: Live) -> None:
    live.rule(*TWO_TIERS)
    wait_for(lambda: live.shown(servers=True)["npus"]["free"] == 64, 30, "nobody has NPUs any more")
    live.rings(P0)
    live.job(P0, pods=64 // 8 - 1)
    live.wait_running(P0)
    live.start(p1="g0")
    live.wait_reason(P1, "PodCreateFailed")
    live.start(d0="g1")
    live.wait_phase("Pending", D0)
    assert live.said(P1, servers=True)[0] == "held"
    reserved = f"8 NPUs are free, but 8 of them are reserved by jobs that were let in before and have no pods: {P1}"
    assert live.said(D0, servers=True) == ("pending", f"its PodGroup is Pending: {reserved}")
    (task,) = live.shown(servers=True)["service"]["tasks"]
    assert (task["tier_now"], task["tier_possible"]) == (None, 1), "once the held job is deleted"


def test_a_pod_that_fits_on_no_server_says_how_much_is_missing(live: Live) -> None:
    live.rule({"g0": 1, "g1": 1})
    live.rings(P0)
    live.job(P0, npus=16)
    wait_for(lambda: live.said(P0)[0] == "pending", 20, "the pod to find no place")
    state, reason = live.said(P0, servers=True)
    assert state == "pending" and "; it needs 16 NPUs on one server, the largest free room is 8 on a2-" in reason


def test_a_job_that_failed_for_good_says_why_and_since_when(live: Live) -> None:
    live.rule({"g0": 1, "g1": 1})
    live.rings(P0)
    live.job(P0, labels={"fault-retry-times": "0"}, annotations={"fake/fail": "3"})
    live.wait_reason(P0, "JobFailed", "Failed")
    item = live.instance(P0)
    (since,) = [row["lastTransitionTime"] for row in live.get(P0)["status"]["conditions"] if row["type"] == "Failed"]
    assert item["state"] == "failed" and item["reason"].startswith(f"AscendJob {P0} has failed for good: ")
    assert item["since"] >= since


def test_a_pod_that_hangs_on_a_dead_server_is_told_with_the_server_and_since_when(live: Live) -> None:
    live.rule({"g0": 1, "g1": 1})
    live.start(p0="g0", d0="g1")
    live.wait_running(P0, D0)
    wait_for(lambda: live.said(P0) == ("running", ""), 10, "the instance to run")
    (node,) = live.instance(P0)["nodes"]
    live.cluster.down_node(node)
    try:
        live.delete_pod(f"{P0}-master-0")
        wait_for(lambda: live.said(P0)[0] == "failed", 30, "the server to be found dead")
        conditions = (live.client.get(NODES, "", node) or {})["status"]["conditions"]
        (since,) = [row["lastTransitionTime"] for row in conditions if row["type"] == "Ready"]
        assert live.said(P0) == ("failed", f"pod {P0}-master-0 hangs while it is stopped: node {node} is not Ready since {since}")
        found = live.shown(servers=True)
        (row,) = [row for row in found["servers"] if row["name"] == node]
        assert (row["healthy"], row["used"], row["free"], row["ready"], row["since"]) == (0, 8, 0, False, since)
        assert [pod["state"] for pod in row["pods"]] == ["terminating"]
        (task,) = found["service"]["tasks"]
        assert (task["tier_now"], task["tier_possible"]) == (None, 0), "there is room on another server, once the pod is gone"
        live.delete(P0)
        wait_for(lambda: live.said(P0, servers=True)[0] == "terminating", 10, "the instance to go")
        assert live.said(P0, servers=True)[1].endswith(f"{P0}-master-0 hangs while it is stopped: node {node} is not Ready since {since}")
    finally:
        live.cluster.up_node(node)
        wait_for(lambda: all(row["ready"] for row in live.shown(servers=True)["servers"]), 30, "the server to be back")


def test_a_broken_rule_is_told_from_one_that_holds(live: Live) -> None:
    live.rule_text("{ # two of each\n}")
    live.start(p0="g0")
    live.wait_reason(P0, "PodCreateFailed")
    state, reason = live.said(P0)
    assert state == "held" and reason.startswith("the scaling rule cannot be read: ")
    task = live.task()
    assert (task["present"], task["readable"], task["tier_now"]) == (True, False, None)
    assert [row["code"] for row in task["findings"]] == ["R104"] and task["findings"][0]["severity"] == "error"


def test_a_combination_that_would_crash_the_operator_is_told_before_it_does(live: Live) -> None:
    live.rule({"g0": 1, "g1": 1})
    live.start(p0="g0", d0="g1")
    live.wait_running(P0, D0)
    assert live.task()["crashes"] is False
    live.start(p2="G0")
    try:
        task = live.task()
        assert (task["crashes"], task["crashing_jobs"]) == (True, [P2])
        assert next((row["code"], row["severity"]) for row in task["findings"] if row["name"] == f"AscendJob {live.namespace}/{P2}") == (
            "R602",
            "error",
        )
    finally:
        live.delete(P2)  # before a pod of the others is missing, and the operator crashes in truth


def test_servers_cost_two_requests_and_only_when_asked_for(live: Live) -> None:
    live.rule({"g0": 1, "g1": 1})
    live.start(p0="g0")
    live.wait_running(P0)
    wait_for(lambda: live.said(P0) == ("running", ""), 10, "the instance to run")
    with FaultProxy(live.cluster) as proxy:
        plain = live.shown(proxy.kubeconfig)
        more = live.shown(proxy.kubeconfig, servers=True)
        assert proxy.mutating() == []
    assert more["requests"] == plain["requests"] + 2 and "servers" not in plain and "npus" not in plain


def test_without_the_right_to_read_all_pods_those_of_the_service_count(live: Live) -> None:
    live.rule({"g0": 1, "g1": 1})
    live.start(p0="g0")
    live.wait_running(P0)
    with FaultProxy(live.cluster) as proxy:
        proxy.fault(method="GET", path="^/api/v1/pods", status=403)
        found = live.shown(proxy.kubeconfig, servers=True)
    assert any("What pods of other namespaces have of the servers is not known" in text for text in found["warnings"])
    assert found["npus"]["servers"] == 8
