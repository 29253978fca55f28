# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wait ends early when instances cannot run, with the reason of each; what goes back then, and what is told meanwhile."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._cluster import diagnosis
from ansible_collections.ascend.mindie.plugins.module_utils._motor import terminal
from tests.cluster.kube_client import wait_for
from tests.functional.conftest import Driver
from tests.functional.test_modules import applied, recorded_counts, succeeded

# Long enough that only an early end can come before it on the slowest machine.
PATIENT = 300
BAD_IMAGE, CRASH = {"fake/image-pull-error": "true"}, {"fake/crash-loop": "1"}


def pods_of(driver: Driver, role: str, index: int) -> dict[str, str]:
    """Labels of the pods of one instance."""
    if driver.backend == "deployments":
        return {"app": driver.name(role, index)}
    return {"infer.huawei.com/instanceset-name": role, "infer.huawei.com/instanceset-index": str(index)}


def failures(result: dict[str, Any]) -> dict[str, tuple[str, int, str]]:
    return {row["name"]: (row["engine_role"], row["index"], row["reason"]) for row in result["failed_instances"]}


def intent(driver: Driver) -> dict[str, Any] | None:
    lease = driver.get("leases", "coordination.k8s.io/v1")["ascend-mindie"]
    text = (lease["metadata"].get("annotations") or {}).get("ascend.mindie/intent")
    return json.loads(text) if text else None


def events(driver: Driver) -> list[tuple[str, str]]:
    """Type and reason of our Events, the oldest first."""
    found = [event for event in driver.get("events", "v1").values() if event["source"].get("component") == "ascend.mindie"]
    assert all(event["involvedObject"]["uid"] == driver.motor_config()["metadata"]["uid"] for event in found)
    return [(event["type"], event["reason"]) for event in sorted(found, key=lambda event: int(event["metadata"]["name"].rsplit(".", 1)[1]))]


@contextmanager
def cordoned(driver: Driver) -> Iterator[None]:
    """No pod finds a node meanwhile."""
    nodes = [node["metadata"]["name"] for node in driver.cluster.get("/api/v1/nodes")["items"]]

    def mark(unschedulable: bool) -> None:
        for name in nodes:
            body = {"spec": {"unschedulable": unschedulable or None}}
            driver.cluster.request("PATCH", f"/api/v1/nodes/{name}", body, content_type="application/merge-patch+json")

    mark(True)
    try:
        yield
    finally:
        mark(False)


def limit_pods(driver: Driver, number: int | None) -> None:
    """A quota for pods of the namespace; None takes it away."""
    path = f"/api/v1/namespaces/{driver.namespace}/resourcequotas"
    if number is None:
        driver.cluster.request("DELETE", f"{path}/few")
        return
    assert driver.cluster.request("POST", path, {"metadata": {"name": "few"}, "spec": {"hard": {"pods": str(number)}}})[0] == 201
    wait_for(lambda: driver.cluster.get(f"{path}/few").get("status", {}).get("used"), 10, "the quota")


@pytest.mark.parametrize(("behaviour", "said"), [(BAD_IMAGE, "ImagePullBackOff"), (CRASH, "CrashLoopBackOff after 3 restarts")])
def test_instances_that_cannot_run_end_the_wait(driver: Driver, behaviour: dict[str, str], said: str) -> None:
    succeeded(driver.deploy())
    before = driver.motor_config()
    driver.cluster.behave(driver.namespace, pods_of(driver, "prefill", 2), behaviour)
    failed = driver.scale(prefill=4, decode=1, wait_timeout=PATIENT)
    assert failed["reason"] == "InstancesFailed" and not failed.get("rolled_back")
    ((name, (role, index, reason)),) = failures(failed).items()
    assert (name, role, index) == (driver.name("prefill", 2), "prefill", 2) and said in reason
    assert name in failed["msg"] and said in failed["msg"] and "Nothing was undone" in failed["msg"]
    assert driver.motor_config() == before and intent(driver)
    assert [row["state"] for row in failed["timeline"] if row["name"] == name][-1] == "failed"
    assert driver.name("prefill", 3) in driver.workloads(), "nothing was undone"
    assert ("Warning", "InstancesFailed") in events(driver)


def test_the_same_task_again_ends_early_too_and_ends_well_when_the_cause_is_gone(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "OLD_SECONDS", 3.0)
    succeeded(driver.deploy())
    driver.cluster.behave(driver.namespace, pods_of(driver, "decode", 1), BAD_IMAGE)
    for dummy in range(2):
        failed = driver.scale(prefill=2, decode=2, wait_timeout=PATIENT)
        assert failed["reason"] == "InstancesFailed" and set(failures(failed)) == {driver.name("decode", 1)}
    pod = next(name for name in driver.get("pods", "v1") if name.startswith(driver.name("decode", 1)))
    driver.cluster.annotate_pod(driver.namespace, pod, {"fake/image-pull-error": None})
    succeeded(driver.scale(prefill=2, decode=2))
    assert recorded_counts(driver) == (2, 2) and intent(driver) is None


def test_all_instances_that_fail_alike_are_told(driver: Driver) -> None:
    driver.cluster.behave(driver.namespace, {"app": "vllm"} if driver.backend == "infer_service_set" else {}, BAD_IMAGE)
    failed = driver.deploy(wait_timeout=PATIENT)
    assert failed["reason"] == "InstancesFailed"
    assert set(failures(failed)) >= {driver.name("prefill", 0), driver.name("prefill", 1), driver.name("decode", 0)}


def test_a_control_role_that_cannot_run_ends_a_deployment(driver: Driver) -> None:
    driver.cluster.behave(driver.namespace, {"app": "mindie-motor-coordinator"}, BAD_IMAGE)
    failed = driver.deploy(wait_timeout=PATIENT)
    assert failed["reason"] == "InstancesFailed" and failures(failed)["coordinator"][:2] == ("coordinator", None)


def test_a_quota_ends_the_wait(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "FIRST_SECONDS", 1.0)
    monkeypatch.setattr(terminal, "REFUSED_SECONDS", 2.0)
    succeeded(driver.deploy())
    limit_pods(driver, 6)
    failed = driver.scale(prefill=4, decode=1, wait_timeout=PATIENT)
    assert failed["reason"] == "InstancesFailed" and "exceeded quota: few" in failed["msg"]
    assert set(failures(failed)) <= {driver.name("prefill", 2), driver.name("prefill", 3)}
    limit_pods(driver, None)
    succeeded(driver.scale(prefill=4, decode=1, wait_timeout=PATIENT))


def test_a_corrected_cause_is_waited_for_although_it_still_shows(driver: Driver) -> None:
    """Kubelet tries again only after a pause: until then the task that is run again sees the old error."""
    succeeded(driver.deploy())
    driver.cluster.behave(driver.namespace, pods_of(driver, "prefill", 2), BAD_IMAGE)
    assert driver.scale(prefill=3, decode=1, wait_timeout=PATIENT)["reason"] == "InstancesFailed"
    pod = next(name for name in driver.get("pods", "v1") if name.startswith(driver.name("prefill", 2)))
    later = threading.Timer(5, driver.cluster.annotate_pod, (driver.namespace, pod, {"fake/image-pull-error": None}))
    later.start()
    succeeded(driver.scale(prefill=3, decode=1, wait_timeout=PATIENT))
    later.join()


def test_a_quota_that_is_lifted_in_time_ends_nothing(on_deployments: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = on_deployments
    monkeypatch.setattr(diagnosis, "FIRST_SECONDS", 1.0)
    succeeded(driver.deploy())
    limit_pods(driver, 5)
    driver.proxy.fault(path="/deployments$", method="GET", nth=2, call=lambda _request: limit_pods(driver, None))
    succeeded(driver.scale(prefill=3, decode=1, wait_timeout=PATIENT))


def test_unschedulable_for_longer_than_asked(driver: Driver) -> None:
    succeeded(driver.deploy())
    with cordoned(driver):
        failed = driver.scale(prefill=3, decode=1, wait_timeout=PATIENT, unschedulable_timeout=2)
        assert failed["reason"] == "InstancesFailed" and "Unschedulable" in failures(failed)[driver.name("prefill", 2)][2]
        late = driver.scale(prefill=3, decode=1, wait_timeout=5)
        assert late["reason"] == "WaitTimeout" and "Unschedulable" in late["msg"], "by default only the deadline ends this"
        assert driver.name("prefill", 2) in failures(late)


def test_a_deployment_past_its_progress_deadline(on_deployments: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = on_deployments
    monkeypatch.setattr(diagnosis, "FIRST_SECONDS", 3.0)
    succeeded(driver.deploy())
    for name in ("vllm-p0", "vllm-p1"):
        path = f"/apis/apps/v1/namespaces/{driver.namespace}/deployments/{name}"
        driver.cluster.request("PATCH", path, {"spec": {"progressDeadlineSeconds": 2}}, content_type="application/merge-patch+json")
    driver.cluster.behave(driver.namespace, {"app": "vllm-p2"}, {"fake/never-ready": "true"})
    failed = driver.scale(prefill=3, decode=1, wait_timeout=PATIENT)
    assert failed["reason"] == "InstancesFailed" and "ProgressDeadlineExceeded" in failures(failed)["vllm-p2"][2]


def test_what_was_ill_before_ends_no_run_that_does_not_touch_it(driver: Driver) -> None:
    succeeded(driver.deploy())
    sick = next(name for name in driver.get("pods", "v1") if name.startswith(driver.name("decode", 0)))
    driver.cluster.annotate_pod(driver.namespace, sick, {"fake/never-ready": "true", **CRASH})

    def restarts() -> bool:
        (container,) = driver.get("pods", "v1")[sick]["status"]["containerStatuses"]
        return container["restartCount"] >= 3

    wait_for(restarts, 30, "three restarts")
    late = driver.scale(prefill=3, decode=1, wait_timeout=8, allow_during_fault=True)
    assert late["reason"] == "WaitTimeout" and driver.name("decode", 0) in late["msg"]
    driver.cluster.behave(driver.namespace, pods_of(driver, "prefill", 3), BAD_IMAGE)
    failed = driver.scale(prefill=4, decode=1, wait_timeout=PATIENT, allow_during_fault=True)
    assert set(failures(failed)) == {driver.name("prefill", 3)} and "Besides" in failed["msg"]


def test_rolling_back_a_change_both_ways(driver: Driver) -> None:
    succeeded(driver.deploy())
    before, record = driver.workloads(), driver.motor_config()
    driver.cluster.behave(driver.namespace, pods_of(driver, "decode", 1), BAD_IMAGE)
    failed = driver.scale(prefill=1, decode=2, wait_timeout=PATIENT, on_failure="rollback")
    assert failed["reason"] == "InstancesFailed" and failed["rolled_back"] is True and failed["changed"]
    assert "prefill 2, decode 1" in failed["msg"] and set(failures(failed)) == {driver.name("decode", 1)}
    after = driver.workloads()
    assert set(after) == set(before) and after[driver.name("prefill", 0)] == before[driver.name("prefill", 0)]
    assert driver.motor_config() == record and intent(driver) is None
    labels = [pod["metadata"]["labels"] for pod in driver.get("pods", "v1").values()]
    assert not any(pods_of(driver, "decode", 1).items() <= label.items() for label in labels), "the pods are gone when the task ends"
    assert not succeeded(driver.scale(prefill=2, decode=1))["changed"]
    assert not succeeded(driver.run("motor_config_baseline", user_config_content=driver.config))["changed"]


def test_rolling_back_at_the_deadline(driver: Driver) -> None:
    succeeded(driver.deploy())
    before = driver.workloads()
    driver.cluster.behave(driver.namespace, pods_of(driver, "prefill", 2), {"fake/never-ready": "true"})
    failed = driver.scale(prefill=3, decode=1, wait_timeout=4, on_failure="rollback")
    assert failed["reason"] == "WaitTimeout" and failed["rolled_back"] is True
    assert driver.workloads() == before and intent(driver) is None


def test_rolling_back_that_fails_says_so_and_keeps_the_intent(on_deployments: Driver) -> None:
    driver = on_deployments
    succeeded(driver.deploy())
    driver.cluster.behave(driver.namespace, {"app": "vllm-p2"}, BAD_IMAGE)
    driver.proxy.fault(method="DELETE", status=403)
    failed = driver.scale(prefill=3, decode=1, wait_timeout=PATIENT, on_failure="rollback")
    assert failed["reason"] == "InstancesFailed" and failed["rolled_back"] is False and "Rolling back failed" in failed["msg"]
    assert intent(driver) and "vllm-p2" in driver.workloads()
    driver.proxy.heal()
    succeeded(driver.scale(prefill=2, decode=1))


def test_rolling_back_a_first_deployment_removes_it(driver: Driver) -> None:
    driver.cluster.behave(driver.namespace, {"app": "mindie-motor-controller"}, BAD_IMAGE)
    failed = driver.deploy(wait_timeout=PATIENT, on_failure="rollback")
    assert failed["reason"] == "InstancesFailed" and failed["rolled_back"] is True
    assert driver.get("pods", "v1") == {} and driver.workloads() == {} and "motor-config" not in driver.get("configmaps", "v1")
    assert driver.get("leases", "coordination.k8s.io/v1") == {}


def test_rolling_back_a_deployment_over_a_live_service_restores_counts_and_config(driver: Driver) -> None:
    succeeded(driver.deploy())
    before, data, record = driver.workloads(), driver.motor_config()["data"], applied(driver)
    driver.cluster.behave(driver.namespace, pods_of(driver, "prefill", 2), BAD_IMAGE)
    config = driver.with_config("motor_coordinator_config", "logging_config", "log_level", value="ERROR")
    config["motor_deploy_config"]["p_instances_num"] = 3
    failed = driver.deploy(config, wait_timeout=PATIENT, on_failure="rollback")
    assert failed["reason"] == "InstancesFailed" and failed["rolled_back"] is True, failed["msg"]
    assert driver.workloads() == before and driver.motor_config()["data"] == data and applied(driver) == record
    assert intent(driver) is None and not succeeded(driver.deploy())["changed"]


def test_the_timeline_tells_what_happened(driver: Driver) -> None:
    succeeded(driver.deploy())
    result = succeeded(driver.scale(prefill=1, decode=2))
    rows = [(row["step"], row["name"], row["state"]) for row in result["timeline"]]
    assert ("remove surplus instances", "", "started") in rows and rows[-1] == ("record the success", "", "ended")
    states = {name: [state for _step, row, state in rows if row == name] for _step, name, _state in rows}
    assert states[driver.name("prefill", 1)][-1] == "gone" and states[driver.name("decode", 1)][-1] == "running"
    assert driver.name("prefill", 0) not in states, "nothing is told of what does not change"
    times = [row["at"] for row in result["timeline"]]
    assert times == sorted(times) and result["timeline"][0].keys() == {"at", "step", "name", "state", "reason"}
    assert succeeded(driver.scale(prefill=1, decode=2))["timeline"] == []


def test_events_tell_of_a_long_wait_and_of_no_short_one(driver: Driver) -> None:
    succeeded(driver.deploy())
    driver.cluster.behave(driver.namespace, pods_of(driver, "prefill", 2), {"fake/ready-after": "14s"})
    succeeded(driver.scale(prefill=3, decode=1))
    told = events(driver)
    assert ("Normal", "Waiting") in told and told[-1] == ("Normal", "Settled")
    posts = [request for request in driver.proxy.mutating() if request.path.endswith("/events")]
    assert min(post.started for post in posts) - driver.proxy.requests[0].started >= 10


def test_a_user_who_may_not_write_events_gets_one_warning(on_deployments: Driver) -> None:
    driver = on_deployments
    succeeded(driver.deploy())
    driver.cluster.behave(driver.namespace, {"app": "vllm-p2"}, {"fake/ready-after": "18s"})
    fault = driver.proxy.fault(method="POST", path="/events$", status=403)
    result = succeeded(driver.scale(prefill=3, decode=1))
    warnings = [warning for warning in result["warnings"] if "Event" in warning]
    assert len(warnings) == 1 and fault.seen == 1


def test_events_that_cannot_be_written_fail_nothing(on_deployments: Driver) -> None:
    driver = on_deployments
    succeeded(driver.deploy())
    driver.cluster.behave(driver.namespace, {"app": "vllm-p2"}, {"fake/ready-after": "12s"})
    driver.proxy.fault(method="POST", path="/events$", status=500)
    assert not succeeded(driver.scale(prefill=3, decode=1)).get("warnings")


def test_a_new_image_that_cannot_be_pulled_ends_the_replacement_and_is_not_rolled_back(driver: Driver) -> None:
    """One instance of each engine role is lost at most; the others serve on as they were."""
    succeeded(driver.deploy())
    before, record = driver.workloads(), driver.motor_config()["metadata"]["annotations"]["ascend.mindie/applied"]
    driver.cluster.behave(driver.namespace, pods_of(driver, "prefill", 1), BAD_IMAGE)
    config = driver.with_config("motor_deploy_config", "image_name", value="registry.example/other:2")
    failed = driver.deploy(config, allow_restart=True, wait_timeout=PATIENT, on_failure="rollback")
    assert failed["reason"] == "InstancesFailed" and set(failures(failed)) == {driver.name("prefill", 1)}
    assert failed["rolled_back"] is False and "Not rolled back" in failed["msg"]
    assert driver.workloads()[driver.name("prefill", 0)] == before[driver.name("prefill", 0)]
    assert driver.motor_config()["metadata"]["annotations"]["ascend.mindie/applied"] == record and intent(driver)
