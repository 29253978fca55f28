# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The watcher sees, explains and repairs: each scenario with the program as installed, against stand-ins for MindCluster's operators."""

from __future__ import annotations

import itertools
import json
import signal
import time
from collections.abc import Iterator

import pytest

from tests.cluster import Cluster
from tests.cluster.fault_proxy import AFTER, BEFORE, FaultProxy
from tests.cluster.kube_client import CONFIG_MAPS, wait_for
from tests.functional.jobs import RULE, JobDriver
from tests.support.watcher import NAME, Watcher, count

_NUMBERS = itertools.count(1)
P0, P1, D0 = "mindie-server-p0", "mindie-server-p1", "mindie-server-d0"
# What the tests have no minutes for.
QUICK = {"stuck_after": 3, "missing_after": 2, "lease_duration": 3, "tries_per_hour": 2}


@pytest.fixture(scope="module")
def faulty() -> Iterator[Cluster]:
    """A control plane of its own: servers die in it. Four servers, so that one instance more than the service has fits."""
    with Cluster(a2_nodes=4, a3_nodes=0, cpu_nodes=1, ascend_operator=True, sessions=0.2, restart_after=1) as running:
        yield running


@pytest.fixture(scope="module")
def proxy(faulty: Cluster) -> Iterator[FaultProxy]:
    with FaultProxy(faulty) as running:
        yield running


@pytest.fixture(scope="module")
def installed(faulty: Cluster, proxy: FaultProxy) -> Iterator[Watcher]:
    """For all namespaces, with all acts switched on. Its pods reach the API server through the proxy."""
    with Watcher(faulty, "mindie-system", through=proxy.kubeconfig) as found:
        found.install("*", **QUICK)
        yield found


@pytest.fixture
def chat(faulty: Cluster, proxy: FaultProxy) -> Iterator[JobDriver]:
    """A service of two prefill instances and one decode instance that runs."""
    namespace = faulty.create_namespace(f"chat-{next(_NUMBERS)}")
    service = JobDriver(faulty, proxy, namespace)
    done = service.deploy()
    assert not done.get("failed"), done
    yield service
    service.remove()
    faulty.request("DELETE", f"/api/v1/namespaces/{namespace}")


@pytest.fixture
def watcher(installed: Watcher, chat: JobDriver, proxy: FaultProxy) -> Iterator[Watcher]:
    """As installed, with both replicas, knowing the service."""
    installed.revive()
    installed.until_running(chat.namespace)
    proxy.clear()
    yield installed
    proxy.heal()


def test_a_server_that_is_lost_and_comes_back(watcher: Watcher, chat: JobDriver, faulty: Cluster) -> None:
    """State and reason at each step; the pod that hangs is released once; a spare server takes the instance over."""
    node = watcher.service(chat.namespace)["instances"][0]["nodes"][0]
    name = watcher.service(chat.namespace)["instances"][0]["name"]
    faulty.down_node(node)
    try:
        watcher.until(chat.namespace, "the reason names the server", lambda seen: node in seen[name][1] and seen[name][0] != "running")
        watcher.until(chat.namespace, "the pod is released", lambda dummy: count(watcher.repairs(chat.namespace), "release_stuck"))
        watcher.until_running(chat.namespace, timeout=20)
        (server,) = [item for item in watcher.state()["servers"] if item["name"] == node]
        assert (server["ready"], server["healthy"], server["free"]) == (False, 0, 0)
        assert count(watcher.repairs(chat.namespace), "release_stuck", f"{name}-master-0", "done") == 1
        assert count(watcher.events(chat.namespace), name, "PodReleased") == 1
    finally:
        faulty.up_node(node)
    wait_for(lambda: all(item["ready"] for item in watcher.state()["servers"]), 20, "the server is back")
    assert len(watcher.repairs(chat.namespace)) == 1


def test_a_job_that_has_failed_for_good_is_created_again(watcher: Watcher, chat: JobDriver, faulty: Cluster) -> None:
    """Deleted, waited for, created from its own specification, once; what was kept meanwhile is gone."""
    before = chat.jobs()[P1]
    faulty.annotate_pod(chat.namespace, f"{P1}-master-0", {"fake/fail": "1"})
    watcher.until(chat.namespace, "it is seen to have failed", lambda seen: seen[P1][0] in ("failed", "missing", "terminating"))
    watcher.until(
        chat.namespace, "it is created again", lambda dummy: count(watcher.repairs(chat.namespace), "recreate_failed", P1, "done")
    )
    watcher.until_running(chat.namespace)
    after = chat.jobs()[P1]
    assert after["metadata"]["uid"] != before["metadata"]["uid"] and after["spec"] == before["spec"]
    assert count(watcher.repairs(chat.namespace), "recreate_failed") == 1 and count(watcher.events(chat.namespace), P1, "JobRecreated") == 1
    assert not [name for name in chat.get("configmaps", "v1") if name.startswith("ascend-mindie-recreate-")]


def test_what_fails_again_and_again_is_given_up_and_said_so(watcher: Watcher, chat: JobDriver, faulty: Cluster) -> None:
    """Twice within an hour is what the settings allow here. The record of tries is on the Lease: it does not end with the leader."""
    for tries in range(1, QUICK["tries_per_hour"] + 2):
        faulty.annotate_pod(chat.namespace, f"{P1}-master-0", {"fake/fail": "1"})
        watcher.until(chat.namespace, "it was tried", lambda dummy, wanted=tries: len(watcher.repairs(chat.namespace)) == wanted)
        if tries <= QUICK["tries_per_hour"]:
            watcher.until_running(chat.namespace)
    assert [outcome for dummy, name, outcome in watcher.repairs(chat.namespace)] == ["done", "done", "given up"]
    wait_for(lambda: count(watcher.events(chat.namespace), P1, "RepairGivenUp"), 10, "an Event at the job")
    leader = watcher.leader()
    assert leader
    watcher.signal(leader, signal.SIGKILL)
    wait_for(watcher.leader, 20, "the other one leads")
    wait_for(lambda: watcher.repairs(chat.namespace), 20, "it has come to the same")
    assert [outcome for dummy, name, outcome in watcher.repairs(chat.namespace)] == ["given up"]


def test_an_instance_that_was_deleted_behind_our_back_is_restored(watcher: Watcher, chat: JobDriver) -> None:
    """Not before it was missing for long enough, and not while somebody wants it so."""
    held = {"metadata": {"annotations": {"ascend.mindie/hold": "looking into it"}}}
    watcher.client.patch(CONFIG_MAPS, chat.namespace, "motor-config", held)
    chat.cluster.request("DELETE", f"/apis/mindxdl.gitee.com/v1/namespaces/{chat.namespace}/ascendjobs/{P0}")
    watcher.until(chat.namespace, "it is missing", lambda seen: seen[P0] == ("missing", "the baseline has 2 prefill instances"))
    time.sleep(QUICK["missing_after"] + 2)
    seen = watcher.service(chat.namespace)
    assert not watcher.repairs(chat.namespace) and (seen["hold"], seen["hold_text"]) == (True, "looking into it")
    held["metadata"]["annotations"]["ascend.mindie/hold"] = None
    watcher.client.patch(CONFIG_MAPS, chat.namespace, "motor-config", held)
    watcher.until_running(chat.namespace, P0, timeout=20)
    assert [(act, outcome) for act, dummy, outcome in watcher.repairs(chat.namespace)] == [("restore_missing", "done")]
    assert chat.get("leases", "coordination.k8s.io/v1")["ascend-mindie"]["spec"]["holderIdentity"] == ""


def test_a_job_that_the_edited_rule_allows_is_nudged_once(watcher: Watcher, chat: JobDriver) -> None:
    """The operator by itself would take up to 20 seconds: it has held the job for a while."""
    rule = chat.get("configmaps", "v1")[RULE]["data"]
    smaller = json.loads(rule["elastic_scaling.json"])
    smaller["elastic_scaling_list"].pop(0)
    watcher.client.patch(CONFIG_MAPS, chat.namespace, RULE, {"data": {"elastic_scaling.json": json.dumps(smaller)}})
    watcher.cluster.request("DELETE", f"/api/v1/namespaces/{chat.namespace}/pods/{P1}-master-0")
    watcher.until(chat.namespace, "it is held", lambda seen: seen[P1][0] == "held" and "every tier of the rule is satisfied" in seen[P1][1])
    time.sleep(8)
    watcher.client.patch(CONFIG_MAPS, chat.namespace, RULE, {"data": rule})
    edited = time.monotonic()
    wait_for(lambda: count(watcher.repairs(chat.namespace), "nudge", P1, "done"), 5, "the job is nudged")
    watcher.until_running(chat.namespace, P1, timeout=10)
    assert time.monotonic() - edited < 10
    assert [repair[:2] for repair in watcher.repairs(chat.namespace)] == [("nudge", P1)] and count(
        watcher.events(chat.namespace), P1, "Nudged"
    ) == 1


def test_a_broken_rule_is_told_from_one_that_holds_for_good_reason(watcher: Watcher, chat: JobDriver) -> None:
    """To everybody else both look the same. The finding has its place; the Event is at the ConfigMap; nothing is nudged."""
    rule = chat.get("configmaps", "v1")[RULE]["data"]
    watcher.client.patch(CONFIG_MAPS, chat.namespace, RULE, {"data": {"elastic_scaling.json": rule["elastic_scaling.json"] + "# what?"}})
    watcher.cluster.request("DELETE", f"/api/v1/namespaces/{chat.namespace}/pods/{P0}-master-0")
    watcher.until(chat.namespace, "it is held", lambda seen: seen[P0][0] == "held" and "cannot be read" in seen[P0][1])
    (task,) = watcher.service(chat.namespace)["tasks"]
    (finding,) = [item for item in task["findings"] if item["severity"] == "error"]
    assert not task["readable"] and finding["line"] and finding["remedy"]
    wait_for(lambda: count(watcher.events(chat.namespace), RULE, "RuleBroken"), 10, "an Event at the rule")
    assert not watcher.repairs(chat.namespace)
    watcher.client.patch(CONFIG_MAPS, chat.namespace, RULE, {"data": rule})
    watcher.until_running(chat.namespace, P0)
    assert count(watcher.events(chat.namespace), RULE, "RuleBroken") == 1


def test_a_combination_that_would_crash_the_operator_raises_an_alert(watcher: Watcher, chat: JobDriver) -> None:
    rule = json.loads(chat.get("configmaps", "v1")[RULE]["data"]["elastic_scaling.json"])
    rule["elastic_scaling_list"][1]["group_list"] = rule["elastic_scaling_list"][1]["group_list"][1:]
    watcher.client.patch(CONFIG_MAPS, chat.namespace, RULE, {"data": {"elastic_scaling.json": json.dumps(rule)}})
    wait_for(lambda: [task["crashes"] for task in watcher.service(chat.namespace)["tasks"]] == [True], 10, "it is seen")
    wait_for(lambda: count(watcher.events(chat.namespace), RULE, "RuleCrashesOperator"), 10, "an Event at the rule")
    leader = watcher.leader()
    assert leader and f'motor_watcher_rule_would_crash_operator{{namespace="{chat.namespace}"' in watcher.asked(leader, "/metrics")


def test_while_the_operator_is_down_states_stay_true(watcher: Watcher, chat: JobDriver, faulty: Cluster) -> None:
    """Nobody makes pods; the reason says who is to act next; nothing is repaired that is not broken."""
    faulty.stop_program("ascend-operator")
    try:
        faulty.request("DELETE", f"/api/v1/namespaces/{chat.namespace}/pods/{P0}-master-0")
        watcher.until(chat.namespace, "it does not run", lambda seen: seen[P0][0] in ("starting", "held", "pending") and seen[P0][1])
        time.sleep(3)
        assert not [repair for repair in watcher.repairs(chat.namespace) if repair[0] != "nudge"]
    finally:
        faulty.restart_ascend_operator(restart_after=1)
    watcher.until_running(chat.namespace)


@pytest.mark.parametrize("when", [BEFORE, AFTER])
def test_a_leader_that_is_killed_between_decision_and_act_leaves_it_to_the_next_one(
    watcher: Watcher, chat: JobDriver, proxy: FaultProxy, when: str
) -> None:
    """At the deletion of a failed job: what is done is done once, whoever does it."""
    leader = watcher.leader()
    assert leader
    proxy.clear()
    fault = proxy.fault(
        method="DELETE", path=f"/ascendjobs/{P1}", call=lambda dummy: watcher.signal(leader, signal.SIGKILL), when=when, drop=when, nth=1
    )
    watcher.cluster.annotate_pod(chat.namespace, f"{P1}-master-0", {"fake/fail": "1"})
    wait_for(lambda: fault.seen, 20, "the leader was about to act")
    wait_for(watcher.leader, 20, "another one leads")
    watcher.until_running(chat.namespace, timeout=40)
    writes = [request for request in proxy.mutating() if "/ascendjobs" in request.path and request.method in ("POST", "DELETE")]
    assert [request.method for request in writes] == (["DELETE", "DELETE", "POST"] if when == BEFORE else ["DELETE", "POST"])
    assert not [name for name in chat.get("configmaps", "v1") if name.startswith("ascend-mindie-recreate-")]


def test_a_leader_that_was_frozen_beyond_its_lease_writes_nothing_when_it_thaws(
    watcher: Watcher, chat: JobDriver, proxy: FaultProxy
) -> None:
    """The other one takes over and repairs; the thawed one goes back to watching."""
    frozen = watcher.leader()
    assert frozen
    watcher.signal(frozen, signal.SIGSTOP)
    chat.cluster.annotate_pod(chat.namespace, f"{P1}-master-0", {"fake/fail": "1"})
    (other,) = [pod for pod in watcher.pods() if pod is not frozen]
    wait_for(lambda: watcher.asked(other, "/state.json")["program"]["leading"], 20, "the other one leads")
    wait_for(lambda: count(watcher.repairs(chat.namespace, other), "recreate_failed", P1, "done"), 40, "it has repaired")
    proxy.clear()
    watcher.signal(frozen, signal.SIGCONT)
    wait_for(lambda: watcher.asked(frozen, "/state.json")["program"]["leader"] == other.name, 20, "it knows who leads")
    time.sleep(3)
    assert {request.user_agent for request in proxy.mutating()} == {f"{NAME}/{other.name}"}, "only the one that leads writes"
    watcher.until_running(chat.namespace)


def test_sigterm_ends_in_order_and_hands_over_at_once(watcher: Watcher, chat: JobDriver) -> None:
    leader = watcher.leader()
    assert leader
    began = time.monotonic()
    watcher.signal(leader, signal.SIGTERM)
    assert [process.wait(10) for process in leader.processes.values()] == [0]
    wait_for(watcher.leader, 10, "the other one leads")
    assert time.monotonic() - began < QUICK["lease_duration"] + 5
    assert "stopped in order" in leader.log()
