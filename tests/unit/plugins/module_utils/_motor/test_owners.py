# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Owners of counts: which autoscaler scales what, what to edit, and where the true count is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import drift, owners, readiness, report
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import Refused
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_scale import plan_scale
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot, service_state

from . import services

CONFIG = services.user_config(prefill=2, decode=1, deploy_mode="infer_service_set")
POLICY = {"type": "HPA", "spec": {"minReplicas": 1, "maxReplicas": 4}}


def scaler(target: dict[str, str], *, kind: str = "HorizontalPodAutoscaler", name: str = "by-load") -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name}, "spec": {"scaleTargetRef": target}}


def autoscaled(live: int, *, written: int = 2, policy: dict[str, Any] | None = None) -> Snapshot:
    """A set whose prefill has a scaling policy: the set says `written`, the InstanceSet (and the pods) `live`."""
    shot = services.set_snapshot(CONFIG, prefill=live, decode=1)
    found: dict[str, Any] = services.infer_service_set(prefill=written, decode=1)
    found["spec"]["template"]["roles"][1]["scalingPolicy"] = policy or POLICY
    made = scaler(INSTANCE_SET, name="vllm-0-prefill-scaler")
    return replace(shot, infer_service_set=found, autoscalers=(made,))


INSTANCE_SET = {"apiVersion": "mindcluster.huawei.com/v1", "kind": "InstanceSet", "name": "vllm-0-prefill"}


@pytest.mark.parametrize("kind", ["HorizontalPodAutoscaler", "ScaledObject"])
@pytest.mark.parametrize(
    ("target", "role"),
    [
        (INSTANCE_SET, "prefill"),
        ({"apiVersion": "apps/v1", "kind": "Deployment", "name": "vllm-d0"}, "decode"),
        ({"kind": "Deployment", "name": "vllm-d0"}, "decode"),
        ({"name": "vllm-d0"}, "decode"),
        ({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "vllm-0-prefill-0"}, "prefill"),
        ({"apiVersion": "other.example/v1", "kind": "InstanceSet", "name": "vllm-0-prefill"}, None),
        ({"apiVersion": "v1", "kind": "Deployment", "name": "vllm-d0"}, None),
        ({"apiVersion": "apps/v1", "kind": "Deployment", "name": "vllm-0-prefill"}, None),
        ({"apiVersion": "apps/v1", "kind": "Deployment", "name": "mindie-motor-coordinator"}, None),
        ({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "vllm-d0"}, None),
        ({"apiVersion": "mindcluster.huawei.com/v1", "kind": "InstanceSet", "name": "vllm-0-coordinator"}, None),
    ],
)
def test_an_owner_is_known_by_kind_group_and_name_of_its_target(kind: str, target: dict[str, str], role: str | None) -> None:
    found = owners.find([scaler(target, kind=kind)], [], "vllm")
    assert {name: str(owner) for name, owner in found.items()} == ({role: f"{kind} by-load"} if role else {})


@pytest.mark.parametrize("turned", [False, True])
def test_the_autoscaler_that_keda_makes_is_named_as_its_scaled_object(turned: bool) -> None:
    found = [scaler(INSTANCE_SET, kind="ScaledObject", name="by-queue"), scaler(INSTANCE_SET, name="keda-hpa-by-queue")]
    owner = owners.find(found[::-1] if turned else found, [], "vllm")["prefill"]
    assert str(owner) == "ScaledObject by-queue"


def test_the_scaled_object_is_named_even_when_only_its_autoscaler_is_seen() -> None:
    made = scaler(INSTANCE_SET, name="keda-hpa-by-queue")
    made["metadata"]["ownerReferences"] = [{"kind": "ScaledObject", "name": "by-queue"}]
    assert str(owners.find([made], [], "vllm")["prefill"]) == "ScaledObject by-queue"


def test_an_autoscaler_that_is_being_deleted_owns_nothing() -> None:
    leaving = scaler(INSTANCE_SET)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert owners.find([leaving], [], "vllm") == {}


def test_a_scaling_policy_owns_the_count_before_its_autoscaler_is_there() -> None:
    state = service_state(replace(autoscaled(2), autoscalers=()))
    assert str(state.owners["prefill"]) == "scalingPolicy of role prefill"


@pytest.mark.parametrize(
    ("target", "policies", "said"),
    [
        (INSTANCE_SET, [{"name": "prefill", "scalingPolicy": POLICY}], "minReplicas and maxReplicas in the scalingPolicy of role prefill"),
        (INSTANCE_SET, [{"name": "prefill", "scalingPolicy": {"type": "KEDA"}}], "has no scalingPolicy of type HPA"),
        (INSTANCE_SET, [], "takes back what an autoscaler sets"),
        ({"kind": "Deployment", "name": "vllm-p1"}, [], "changes the pods of Deployment vllm-p1, which is one instance"),
    ],
)
def test_the_remedy_fits_what_the_autoscaler_scales(target: dict[str, str], policies: list[dict[str, Any]], said: str) -> None:
    assert said in owners.find([scaler(target)], policies, "vllm")["prefill"].remedy("prefill")


@pytest.mark.parametrize("live", [1, 3, 4])
def test_under_a_policy_the_instance_set_has_the_count(live: int) -> None:
    assert service_state(autoscaled(live)).counts() == {"prefill": live, "decode": 1}


def test_under_another_policy_the_set_has_the_count() -> None:
    assert service_state(autoscaled(3, policy={"type": "KEDA"})).counts() == {"prefill": 2, "decode": 1}


def test_scaling_refuses_the_owned_count_alone() -> None:
    shot = autoscaled(3)
    with pytest.raises(Refused) as refused:
        plan_scale(shot, CONFIG, {"prefill": 2, "decode": 1})
    assert refused.value.reason == "CountOwned" and refused.value.paths == ("prefill",)
    assert "HorizontalPodAutoscaler vllm-0-prefill-scaler" in str(refused.value) and "scalingPolicy" in str(refused.value)
    plan = plan_scale(shot, CONFIG, {"decode": 2})
    assert [write.why for step in plan.steps for write in step.writes] == ["decode 1 -> 2"]
    assert plan_scale(shot, CONFIG, {"prefill": 3, "decode": 2}).counts == {"prefill": 3, "decode": 2}


def test_what_an_autoscaler_does_is_no_reason_to_write() -> None:
    assert plan_scale(autoscaled(4), CONFIG, {"decode": 1}).empty


@pytest.mark.parametrize(("ill", "done"), [({0}, False), ({2}, True), (set(), True)])
def test_of_an_autoscalers_instances_as_many_have_to_run_as_there_were_to_be(ill: set[int], done: bool) -> None:
    """There were to be two; the autoscaler has made a third meanwhile."""
    shot = autoscaled(3)
    names = {f"vllm-0-prefill-{index}-0" for index in ill} | ({"vllm-0-prefill-1-0"} if 0 in ill else set())
    pods = tuple({**pod, "status": {"phase": "Pending"}} if pod["metadata"]["name"] in names else pod for pod in shot.pods)
    assert readiness.settled(replace(shot, pods=pods), {"prefill": 2, "decode": 1}).done is done


def test_an_autoscaler_that_takes_instances_away_is_not_waited_against() -> None:
    shot = autoscaled(1)
    leaving = services.set_pod("prefill", 1, leaving=True)
    assert readiness.settled(replace(shot, pods=(*shot.pods, leaving)), {"prefill": 2, "decode": 1}).done


def test_the_count_of_another_engine_role_is_still_ours_to_wait_for() -> None:
    assert not readiness.settled(autoscaled(2), {"prefill": 2, "decode": 2}).done


def test_an_autoscaler_of_a_deployment_that_is_gone_owns_nothing() -> None:
    config = services.user_config(prefill=1)
    by_load = scaler({"apiVersion": "apps/v1", "kind": "Deployment", "name": "vllm-p7"})
    assert service_state(services.snapshot(config, services.running(prefill=1, decode=1), autoscalers=(by_load,))).owners == {}


def test_what_an_autoscaler_has_made_of_its_count_is_no_drift() -> None:
    shot = autoscaled(3)
    assert report.baseline_report(shot, None)["baseline"]["drift"] == {}
    assert not drift.find(shot)
    by_hand = services.set_snapshot(CONFIG, prefill=3, decode=1)
    assert report.baseline_report(by_hand, None)["baseline"]["drift"] == {"prefill": {"baseline": 2, "live": 3}}
