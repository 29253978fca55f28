# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services of AscendJobs: rule first, then jobs, both ways; rank tables come and go with their jobs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.cluster.fault_proxy import FaultProxy
from tests.cluster.kube_client import wait_for
from tests.functional.conftest import Driver
from tests.functional.jobs import JOBS, RULE, TEMPLATES, JobDriver, templates
from tests.functional.test_budgets import spent
from tests.functional.test_modules import succeeded
from tests.functional.test_replace import Eyes


@pytest.fixture
def jobs(job_cluster: Cluster, job_namespace: str) -> Iterator[JobDriver]:
    """A service of 2 prefill and 1 decode instances, not yet deployed."""
    with FaultProxy(job_cluster) as proxy:
        yield JobDriver(job_cluster, proxy, job_namespace)


def test_a_service_is_deployed_scaled_and_removed(jobs: JobDriver) -> None:
    result = succeeded(jobs.deploy())
    assert result["service"]["counts"] == {"prefill": 2, "decode": 1}
    assert jobs.tiers() == [(2, 1), (1, 1)]
    assert set(jobs.phases().values()) == {"Running"}
    assert jobs.rank_tables() == {f"rings-config-{name}" for name in jobs.workloads()}
    again = succeeded(jobs.deploy())
    assert not again["changed"] and jobs.mutating() == []
    before = jobs.workloads()
    succeeded(jobs.scale(prefill=3, decode=1))
    assert jobs.tiers() == [(3, 1), (2, 1), (1, 1)]
    assert set(jobs.workloads()) - set(before) == {"mindie-server-p2"}
    succeeded(jobs.scale(prefill=1, decode=1))
    assert jobs.tiers() == [(1, 1)]
    assert set(jobs.workloads()) == {"mindie-server-p0", "mindie-server-d0"}
    assert jobs.rank_tables() == {"rings-config-mindie-server-p0", "rings-config-mindie-server-d0"}
    assert not succeeded(jobs.scale(prefill=1, decode=1))["changed"] and jobs.mutating() == []
    succeeded(jobs.remove())
    left = jobs.get("configmaps", "v1")
    assert jobs.jobs() == {} and set(left) == {"kube-root-ca.crt"}
    assert not succeeded(jobs.remove())["changed"] and jobs.mutating() == []


def created(result: dict[str, Any]) -> list[str]:
    return [f"{action['verb']} {action['kind']} {action['name']}" for action in succeeded(result)["actions"]]


def with_counts(jobs: JobDriver, prefill: int, decode: int) -> None:
    jobs.config["motor_deploy_config"].update(p_instances_num=prefill, d_instances_num=decode)


def small(jobs: JobDriver) -> None:
    """Instances of one NPU, so that many fit."""
    jobs.config["motor_deploy_config"].update(p_pod_npu_num=1, d_pod_npu_num=1)


def write_rule(jobs: JobDriver, text: str) -> None:
    rule = jobs.get("configmaps", "v1")[RULE]
    rule["data"]["elastic_scaling.json"] = text
    path = f"/api/v1/namespaces/{jobs.namespace}/configmaps/{RULE}"
    status, answer = jobs.cluster.request("PUT", path, rule)
    assert status == 200, answer


def test_the_rule_comes_first_and_decode_grows_before_prefill(jobs: JobDriver) -> None:
    small(jobs)
    succeeded(jobs.deploy())
    done = created(jobs.scale(prefill=3, decode=2))
    assert done[0] == f"update ConfigMap {RULE}"
    assert done[1:5] == [
        "create ConfigMap rings-config-mindie-server-d1",
        "create AscendJob mindie-server-d1",
        "create ConfigMap rings-config-mindie-server-p2",
        "create AscendJob mindie-server-p2",
    ]
    assert jobs.tiers() == [(3, 2), (2, 2), (2, 1), (1, 1)]
    both = created(jobs.scale(prefill=1, decode=3))
    assert [line.split()[0] for line in both] == ["update", "delete", "delete", "delete", "delete", "create", "create", "update"]
    assert jobs.tiers() == [(1, 3), (1, 2), (1, 1)]


def test_a_new_image_replaces_one_job_of_each_engine_role_at_a_time(jobs: JobDriver) -> None:
    small(jobs)
    succeeded(jobs.deploy())
    before = jobs.workloads()
    refused = jobs.deploy(job_templates=templates(image="mindie:other"))
    assert refused["reason"] == "RestartNeeded" and jobs.mutating() == []
    with Eyes(jobs, {"prefill": 2, "decode": 1}) as eyes:
        succeeded(jobs.deploy(job_templates=templates(image="mindie:other"), allow_restart=True))
    assert eyes.worst == {"prefill": 1, "decode": 1}
    images = {item["image"] for pod in jobs.get("pods", "v1").values() for item in pod["spec"]["containers"]}
    assert images == {"mindie:other"}
    after = jobs.workloads()
    assert set(after) == set(before) and not set(after.values()) & set(before.values())
    assert jobs.rank_tables() == {f"rings-config-{name}" for name in after}
    assert not succeeded(jobs.deploy(job_templates=templates(image="mindie:other")))["changed"] and jobs.mutating() == []


def test_names_and_groups_of_the_options_stay_those_of_the_service(jobs: JobDriver) -> None:
    small(jobs)
    options = {"name_prefix": "chat", "scaling_rule": "chat-rule", "groups": {"prefill": "first", "decode": "second"}}
    succeeded(jobs.deploy(**options))
    assert set(jobs.workloads()) == {"chat-p0", "chat-p1", "chat-d0"}
    labels = jobs.jobs()["chat-p0"]["metadata"]["labels"]
    assert (labels["mind-cluster/scaling-rule"], labels["mind-cluster/group-name"]) == ("chat-rule", "first")
    succeeded(jobs.scale(prefill=3, decode=1))
    assert "chat-p2" in jobs.workloads()
    assert not succeeded(jobs.deploy(instances={"prefill": 3, "decode": 1}))["changed"]
    for option in options:
        refused = jobs.deploy(**{option: {"prefill": "other"} if option == "groups" else "other"})
        assert refused["reason"] == "NotAllowed" and option in refused["msg"] and jobs.mutating() == []


def test_tiers_of_somebody_else_stay_as_far_as_counts_allow(jobs: JobDriver) -> None:
    small(jobs)
    with_counts(jobs, 4, 2)
    succeeded(jobs.deploy())
    text = jobs.get("configmaps", "v1")[RULE]["data"]["elastic_scaling.json"]
    document = json.loads(text)
    document["elastic_scaling_list"] = [document["elastic_scaling_list"][0], document["elastic_scaling_list"][2]]
    write_rule(jobs, json.dumps(document))
    assert jobs.tiers() == [(4, 2), (2, 2)]
    succeeded(jobs.scale(prefill=3, decode=2))
    assert jobs.tiers() == [(3, 2), (2, 2)]
    succeeded(jobs.scale(prefill=1, decode=1))
    assert jobs.tiers() == [(1, 1)]


def test_a_broken_rule_is_refused_and_nothing_is_written(jobs: JobDriver) -> None:
    small(jobs)
    succeeded(jobs.deploy())
    write_rule(jobs, '{"elastic_scaling_list": [ # mine\n]}')
    refused = jobs.scale(prefill=3, decode=1)
    assert refused["reason"] == "RuleBroken" and "line 1, column 28" in refused["msg"] and "motor_scaling_rule" in refused["msg"]
    assert jobs.mutating() == []


def test_a_missing_job_is_made_again_and_the_rule_too(jobs: JobDriver) -> None:
    small(jobs)
    succeeded(jobs.deploy())
    jobs.cluster.request("DELETE", f"/apis/{JOBS}/namespaces/{jobs.namespace}/ascendjobs/mindie-server-p0")
    jobs.cluster.request("DELETE", f"/api/v1/namespaces/{jobs.namespace}/configmaps/{RULE}")
    wait_for(lambda: "mindie-server-p0" not in jobs.phases(), 10, "the PodGroup is gone")
    result = succeeded(jobs.scale(prefill=2, decode=1))
    assert result["drift"]["missing"] == ["mindie-server-p0"]
    assert jobs.tiers() == [(2, 1), (1, 1)] and set(jobs.phases().values()) == {"Running"}


def test_requests_stay_within_the_budget(jobs: JobDriver) -> None:
    small(jobs)
    with_counts(jobs, 1, 1)
    succeeded(jobs.deploy())
    result = succeeded(jobs.scale(prefill=8, decode=1, wait=False))
    objects = sum(action["verb"] == "create" for action in result["actions"])
    # One object more is written, the rule, and two more kinds are read than for Deployments.
    assert objects == 14 and spent(jobs) <= objects + 1 + 12 + 2
    succeeded(jobs.scale(prefill=8, decode=1))
    assert len(jobs.proxy.requests) <= 9 and jobs.mutating() == []


def test_instances_that_do_not_fit_are_pending_and_go_first(jobs: JobDriver) -> None:
    """Eight A2 servers: of nine instances of a whole server one has no room."""
    with_counts(jobs, 7, 1)
    succeeded(jobs.deploy())
    failed = jobs.scale(prefill=8, decode=1, wait_timeout=5)
    assert failed["reason"] == "WaitTimeout"
    (pending,) = failed["failed_instances"]
    assert pending["name"] == "mindie-server-p7" and "NPUs" in pending["reason"]
    removed = succeeded(jobs.scale(prefill=7, decode=1))["removed"]
    assert [item["name"] for item in removed] == ["mindie-server-p7"] and "not running" in removed[0]["why"]


def states(jobs: JobDriver) -> dict[str, tuple[str, str]]:
    service = succeeded(jobs.run("motor_service_info", namespace=jobs.namespace))["service"]
    return {item["name"]: (item["state"], item["reason"]) for item in service["instances"]}


def test_a_held_job_is_told_from_one_that_waits_for_npus(jobs: JobDriver) -> None:
    small(jobs)
    succeeded(jobs.deploy())
    # A third job of prefill, which no tier of the rule asks for.
    extra = jobs.jobs()["mindie-server-p0"]
    extra["metadata"] = {key: extra["metadata"][key] for key in ("labels", "annotations", "namespace")} | {"name": "mindie-server-p2"}
    status, answer = jobs.cluster.request("POST", f"/apis/{JOBS}/namespaces/{jobs.namespace}/ascendjobs", extra)
    assert status == 201, answer
    wait_for(lambda: jobs.phases().get("mindie-server-p2") == "Inqueue", 10, "the PodGroup is enqueued")
    why = "held: every tier of the rule is satisfied, so nothing more is started"
    assert states(jobs)["mindie-server-p2"] == ("surplus", f"the baseline has 2 prefill instances, {why}")


def test_a_job_that_failed_for_good_is_a_fault_and_stops_growth(jobs: JobDriver) -> None:
    small(jobs)
    succeeded(jobs.deploy())
    pod = next(name for name in jobs.get("pods", "v1") if name.startswith("mindie-server-p1-"))
    jobs.cluster.annotate_pod(jobs.namespace, pod, {"fake/fail": "1"})
    wait_for(lambda: states(jobs)["mindie-server-p1"][0] == "failed", 15, "the job has failed")
    refused = jobs.scale(prefill=3, decode=1)
    assert refused["reason"] == "Fault" and "mindie-server-p1" in refused["msg"] and "failed for good" in refused["msg"]
    assert jobs.mutating() == []
    result = succeeded(jobs.scale(prefill=1, decode=1, order="unhealthy_first"))
    assert [item["name"] for item in result["removed"]] == ["mindie-server-p1"]


def test_a_growth_that_does_not_fit_is_rolled_back_with_its_rule(jobs: JobDriver) -> None:
    with_counts(jobs, 7, 1)
    succeeded(jobs.deploy())
    failed = jobs.scale(prefill=8, decode=1, wait_timeout=5, on_failure="rollback")
    assert failed["rolled_back"], failed
    assert "mindie-server-p7" not in jobs.workloads() and jobs.tiers()[0] == (7, 1)
    assert jobs.rank_tables() == {f"rings-config-{name}" for name in jobs.workloads()}
    assert not succeeded(jobs.scale(prefill=7, decode=1))["changed"]


def test_an_older_revision_is_gone_back_to(jobs: JobDriver) -> None:
    small(jobs)
    succeeded(jobs.deploy())
    succeeded(jobs.scale(prefill=3, decode=2))
    succeeded(jobs.run("motor_service", namespace=jobs.namespace, revision=1))
    assert set(jobs.workloads()) == {"mindie-server-p0", "mindie-server-p1", "mindie-server-d0"} and jobs.tiers() == [(2, 1), (1, 1)]


def test_live_counts_are_adopted(jobs: JobDriver) -> None:
    small(jobs)
    succeeded(jobs.deploy())
    jobs.cluster.request("DELETE", f"/apis/{JOBS}/namespaces/{jobs.namespace}/ascendjobs/mindie-server-p1")
    wait_for(lambda: "mindie-server-p1" not in jobs.phases(), 10, "the PodGroup is gone")
    result = succeeded(jobs.run("motor_config_baseline", namespace=jobs.namespace, state="adopted", instances={"prefill": 1, "decode": 1}))
    assert result["changed"] and result["service"]["counts"] == {"prefill": 1, "decode": 1}
    succeeded(jobs.scale(prefill=1, decode=1))
    assert set(jobs.workloads()) == {"mindie-server-p0", "mindie-server-d0"} and jobs.tiers() == [(1, 1)]


def test_check_mode_writes_nothing_and_says_what_a_run_would_do(jobs: JobDriver) -> None:
    small(jobs)
    foretold = created(jobs.deploy(check_mode=True))
    assert jobs.proxy.mutating() == []
    assert created(jobs.deploy()) == foretold
    foretold = created(jobs.scale(prefill=1, decode=2, check_mode=True))
    assert jobs.proxy.mutating() == []
    assert created(jobs.scale(prefill=1, decode=2)) == foretold


@pytest.mark.parametrize(
    ("options", "said"), [({"release": "/srv/motor"}, "release"), ({"job_templates": None}, "job_templates is needed")]
)
def test_options_of_another_deploy_mode_are_refused(jobs: JobDriver, options: dict[str, Any], said: str) -> None:
    refused = jobs.deploy(**options)
    assert refused["failed"] and said in refused["msg"] and jobs.proxy.mutating() == []


def test_other_deploy_modes_take_no_job_templates(on_deployments: Driver) -> None:
    refused = on_deployments.deploy(job_templates=TEMPLATES)
    assert refused["failed"] and "job_templates: this option is for deploy mode ascend_jobs" in refused["msg"]
    assert on_deployments.proxy.mutating() == []


def test_jobs_that_somebody_else_made_are_taken_over_and_those_that_differ_only_restarted_when_allowed(jobs: JobDriver) -> None:
    small(jobs)
    succeeded(jobs.deploy())
    before = jobs.workloads()
    jobs.cluster.request("DELETE", f"/api/v1/namespaces/{jobs.namespace}/configmaps/motor-config")
    assert jobs.deploy(job_templates=templates(image="mindie:other"))["reason"] == "RestartNeeded" and jobs.mutating() == []
    succeeded(jobs.deploy())
    assert jobs.workloads() == before
    jobs.cluster.request("DELETE", f"/api/v1/namespaces/{jobs.namespace}/configmaps/motor-config")
    succeeded(jobs.deploy(job_templates=templates(image="mindie:other"), allow_restart=True))
    assert set(jobs.workloads()) == set(before) and not set(jobs.workloads().values()) & set(before.values())


def test_a_job_that_failed_for_good_is_told_and_made_anew_when_restarts_are_allowed(jobs: JobDriver) -> None:
    small(jobs)
    succeeded(jobs.deploy())
    before = jobs.workloads()
    pod = next(name for name in jobs.get("pods", "v1") if name.startswith("mindie-server-p1-"))
    jobs.cluster.annotate_pod(jobs.namespace, pod, {"fake/fail": "1"})
    wait_for(lambda: states(jobs)["mindie-server-p1"][0] == "failed", 15, "the job has failed")
    told = succeeded(jobs.deploy())
    assert not told["changed"] and jobs.mutating() == []
    (warning,) = [text for text in told["warnings"] if "mindie-server-p1" in text]
    assert "failed for good" in warning and "allow_restart" in warning
    succeeded(jobs.deploy(allow_restart=True))
    after = jobs.workloads()
    assert {name for name in after if after[name] != before[name]} == {"mindie-server-p1"}
    assert {state for state, _reason in states(jobs).values()} == {"running"}
