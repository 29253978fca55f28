# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way back after a change that did not come to run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import Refused
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan import Plan, Step, Subject, create, delete, update
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_rollback import left_changed, plan_rollback
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_scale import plan_scale
from ansible_collections.ascend.mindie.plugins.module_utils._motor.record import with_data
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot

from . import services

CONFIG = services.user_config(prefill=2, decode=1)


def service(**counts: int) -> Snapshot:
    return services.snapshot(CONFIG, services.running(**counts))


def scaling(before: Snapshot, **wanted: int) -> Plan:
    return plan_scale(before, CONFIG, wanted)


def actions(plan: Plan) -> list[tuple[str, str]]:
    return [(write.verb, write.name) for step in plan.steps for write in step.writes]


def test_what_was_made_goes_and_what_went_is_made_again() -> None:
    before = service(prefill=2, decode=1)
    plan = plan_rollback(before, service(prefill=1, decode=2), scaling(before, prefill=1, decode=2))
    assert actions(plan) == [("delete", "vllm-d1"), ("create", "vllm-p1")] and plan.counts == {"prefill": 2, "decode": 1}
    assert not plan.record and plan.settles and plan.steps[0].until


def test_a_rollback_that_only_removes_does_not_wait_for_health() -> None:
    before = service(prefill=2, decode=1)
    plan = plan_rollback(before, service(prefill=4, decode=1), scaling(before, prefill=4, decode=1))
    assert actions(plan) == [("delete", "vllm-p3"), ("delete", "vllm-p2")] and not plan.settles


def test_what_was_there_before_stays_whatever_its_index() -> None:
    before = services.snapshot(CONFIG, [("prefill", 0), ("prefill", 5), ("decode", 0)])
    now = services.snapshot(CONFIG, [("prefill", 0), ("prefill", 1), ("prefill", 5), ("decode", 0)])
    assert actions(plan_rollback(before, now, scaling(before, prefill=3, decode=1))) == [("delete", "vllm-p1")]


def test_an_instance_is_made_again_as_it_was() -> None:
    """Also when no sibling is left to copy, and with its own fields."""
    before = service(prefill=2, decode=1)
    now = services.snapshot(CONFIG, [("prefill", 0), ("prefill", 1)])
    (write,) = plan_rollback(before, now, scaling(before, prefill=3, decode=1)).steps[-1].writes
    (old,) = (item for item in before.deployments if item["metadata"]["name"] == "vllm-d0")
    assert write.body["spec"] == old["spec"] and "uid" not in write.body["metadata"]


def test_the_config_goes_back_first_when_it_was_written() -> None:
    before = service(prefill=2, decode=1)
    data = {**(before.config_map or {})["data"], "user_config.json": "{}"}
    now = replace(service(prefill=3, decode=1), config_map=with_data(before.config_map or {}, data))
    failed = replace(scaling(before, prefill=3, decode=1), verb="deploy")
    plan = plan_rollback(before, now, failed)
    assert actions(plan) == [("update", "motor-config"), ("delete", "vllm-p2")]
    assert plan.steps[0].writes[0].body["data"] == (before.config_map or {})["data"]


def test_a_service_of_the_deployer_is_the_deployers_again() -> None:
    before = services.snapshot(CONFIG, services.running(prefill=2, decode=1), applied=False)
    now = replace(before, config_map=with_data(before.config_map or {}, {"user_config.json": "{}"}))
    plan = plan_rollback(before, now, Plan("deploy", services.NAMESPACE))
    body = plan.steps[0].writes[0].body
    assert body["metadata"]["labels"] == {} and body["data"] == (before.config_map or {})["data"]


def test_a_service_that_was_never_reached_is_removed() -> None:
    before = Snapshot(services.NAMESPACE, "deployments", "vllm")
    plan = plan_rollback(before, service(prefill=2, decode=1), Plan("deploy", services.NAMESPACE))
    assert plan.removes and ("delete", "motor-config") in actions(plan)
    assert left_changed(before, Plan("deploy", services.NAMESPACE)) == ()


@pytest.mark.parametrize("verb", ["update_config", "adopt", "remove"])
def test_other_verbs_are_not_rolled_back(verb: str) -> None:
    before = service(prefill=2, decode=1)
    with pytest.raises(Refused, match="more than counts"):
        plan_rollback(before, before, Plan(verb, services.NAMESPACE))


def test_a_replacement_is_not_rolled_back() -> None:
    before = service(prefill=2, decode=1)
    step = Step("start", (create(services.deployment("prefill", 0), "new image"),), until="running", subjects=(Subject("vllm-p0", {}),))
    with pytest.raises(Refused, match="vllm-p0"):
        plan_rollback(before, before, Plan("deploy", services.NAMESPACE, (step,)))


def obj(kind: str, name: str) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name, "namespace": services.NAMESPACE, "uid": "u"}}


def test_what_does_not_go_back_is_named() -> None:
    before = service(prefill=2, decode=1)
    writes = (
        create(services.deployment("prefill", 2), "x"),
        delete("Deployment", services.deployment("decode", 1), "x"),
        update(obj("ConfigMap", "motor-config"), "x"),
        create(obj("Service", "mindie-motor-controller-service"), "x"),
        update(obj("Deployment", "vllm-p0"), "x"),
        update(obj("InferServiceSet", "vllm"), "x"),
        replace(update(obj("InferServiceSet", "vllm"), "x"), patch=True),
    )
    found = left_changed(before, Plan("deploy", services.NAMESPACE, (Step("all", writes),)))
    assert found == ("Deployment vllm-p0", "InferServiceSet vllm", "Service mindie-motor-controller-service")
    assert left_changed(before, scaling(before, prefill=1, decode=2)) == ()
