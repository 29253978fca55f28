# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans for scaling policies: what is written, in which order, and what is refused; and when HPA has heard of it."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ascend.mindie.plugins.module_utils._motor import plan_policy, policy_checks, policy_verdicts, scaling_policy
from ansible_collections.ascend.mindie.plugins.module_utils._motor.capacity_model import Server
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import Refused
from ansible_collections.ascend.mindie.plugins.module_utils._motor.policy_reader import read_policies
from ansible_collections.ascend.mindie.plugins.module_utils._motor.record import INTENT_ANNOTATION
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot, service_state

from . import services

CONFIG = services.user_config(prefill=2, decode=1, deploy_mode="infer_service_set")
QUEUE = read_policies({"prefill": {"min": 1, "max": 4, "preset": "queue"}})
SCALER = "vllm-0-prefill-scaler"


def spec(policy: dict[str, Any]) -> dict[str, Any]:
    """The spec of the autoscaler that the operator makes of a policy, with what the server adds."""
    target = {"apiVersion": "mindcluster.huawei.com/v1", "kind": "InstanceSet", "name": "vllm-0-prefill"}
    made: dict[str, Any] = copy.deepcopy({**policy["spec"], "scaleTargetRef": target})
    for row in made["metrics"]:
        row["external"]["metric"]["selector"] = {"matchLabels": {"infer.huawei.com/role-name": "prefill"}}
    for pace in made.get("behavior", {}).values():
        pace["policies"] = [{"type": "Percent", "value": 100, "periodSeconds": 15}]
    return made


def scaler(policy: dict[str, Any], **status: Any) -> dict[str, Any]:
    owners = [{"kind": "InstanceSet", "name": "vllm-0-prefill"}]
    metadata = {"name": SCALER, "ownerReferences": owners}
    return {"kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec(policy), "status": status}


def shot(
    live: int = 2, policy: dict[str, Any] | None = None, *, written: int = 2, has: dict[str, Any] | None = None, **status: Any
) -> Snapshot:
    """A service whose prefill has a policy: the set says `written`, its InstanceSet `live`. `has`: of what the autoscaler is made."""
    found = services.set_snapshot(CONFIG, prefill=live, decode=1)
    service_set: dict[str, Any] = services.infer_service_set(prefill=written, decode=1)
    scalers: tuple[dict[str, Any], ...] = ()
    if policy:
        service_set["spec"]["template"]["roles"][1]["scalingPolicy"] = policy
        found.instance_sets[0]["spec"]["scalingPolicy"] = policy
        scalers = (scaler(has or policy, **status),)
    return replace(found, infer_service_set=service_set, autoscalers=scalers, versions={"HorizontalPodAutoscaler": "1"})


def refused(snapshot: Snapshot, policies: Any = QUEUE) -> Refused:
    with pytest.raises(Refused) as error:
        plan_policy.plan_policies(snapshot, CONFIG, policies)
    return error.value


POLICY = QUEUE["prefill"].scaling_policy()
OTHER = read_policies({"prefill": {"min": 1, "max": 6, "preset": "queue"}})["prefill"].scaling_policy()
STILL = scaling_policy.frozen(POLICY, 4)
HEARD = [{"type": "ScalingActive", "status": "False", "reason": "FailedGetExternalMetric", "message": f"no {scaling_policy.FROZEN_METRIC}"}]
UNHEARD = [{"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound", "message": "num_requests_waiting"}]


def test_a_policy_is_one_patch_that_tests_what_was_observed() -> None:
    plan = plan_policy.plan_policies(shot(), CONFIG, QUEUE)
    (step,) = plan.steps
    assert step.writes[0].body == [
        {"op": "test", "path": "/metadata/uid", "value": "iss"},
        {"op": "test", "path": "/spec/template/roles/1/name", "value": "prefill"},
        {"op": "test", "path": "/spec/template/roles/1/replicas", "value": 2},
        {"op": "test", "path": "/spec/template/roles/1/scalingPolicy", "value": None},
        {"op": "add", "path": "/spec/template/roles/1/scalingPolicy", "value": POLICY},
    ]
    assert plan.record and not plan.settles and plan.counts == {"prefill": 2, "decode": 1} and not plan.notices


def test_the_same_policy_is_nothing_to_write() -> None:
    assert plan_policy.plan_policies(shot(4, POLICY), CONFIG, QUEUE).empty


def test_an_interrupted_change_is_recorded_when_there_is_nothing_else_to_do() -> None:
    lease = {"metadata": {"annotations": {INTENT_ANNOTATION: json.dumps({"verb": "autoscale", "run": "run-9"})}}, "spec": {}}
    plan = plan_policy.plan_policies(replace(shot(4, POLICY), lease=lease), CONFIG, QUEUE)
    assert plan.record and not plan.steps
    gone = plan_policy.plan_policies_absent(replace(shot(), lease=lease), CONFIG, None)
    assert gone.record and not gone.steps and gone.counts == {"prefill": 2, "decode": 1}


def test_another_verb_that_has_not_ended_comes_first() -> None:
    lease = {"metadata": {"annotations": {INTENT_ANNOTATION: json.dumps({"verb": "scale", "run": "run-9"})}}, "spec": {}}
    assert refused(replace(shot(), lease=lease)).reason == "Unfinished"
    with pytest.raises(Refused, match="an earlier scale"):
        plan_policy.plan_policies_absent(replace(shot(3, POLICY), lease=lease), CONFIG, None)
    assert plan_policy.plan_policies_absent(replace(shot(), lease=lease), CONFIG, None).empty


@pytest.mark.parametrize(("live", "low", "high"), [(2, 3, 4), (5, 1, 4)])
def test_the_message_has_the_count_and_both_limits(live: int, low: int, high: int) -> None:
    error = refused(shot(live, written=live), read_policies({"prefill": {"min": low, "max": high, "preset": "queue"}}))
    assert error.reason == "OutsideLimits" and f"min {low}, max {high}, but {live} live" in error.message


def test_the_live_count_is_that_of_the_instance_set_once_there_is_a_policy() -> None:
    error = refused(shot(6, OTHER))
    assert error.reason == "OutsideLimits" and "but 6 live" in error.message


def test_outside_scale_tells_what_hpa_will_do_and_waits_for_it() -> None:
    plan = plan_policy.plan_policies(shot(6, OTHER), CONFIG, QUEUE, policy_checks.SCALE)
    assert (
        plan.counts["prefill"] == 4
        and plan.settles
        and plan.notices == ("HPA will bring prefill 6 -> 4, as the limits of its policy say.",)
    )


@pytest.mark.parametrize("outside", policy_checks.OUTSIDE)
def test_a_role_that_the_release_writes_but_the_service_does_not_use_has_nothing_to_scale(outside: str) -> None:
    found = shot()
    roles = (found.infer_service_set or {})["spec"]["template"]["roles"]
    roles.append({"name": "union", "replicas": 0, "spec": {"replicas": 1}})
    with pytest.raises(Refused, match=r"it has: prefill, decode") as error:
        plan_policy.plan_policies(found, CONFIG, read_policies({"union": {"min": 1, "max": 4, "preset": "queue"}}), outside)
    assert error.value.reason == "NoSuchRole"


@given(live=st.integers(1, 20), limits=st.lists(st.integers(1, 16), min_size=2, max_size=2).map(sorted), has=st.booleans())
def test_no_policy_is_planned_whose_limits_the_live_count_is_not_within(live: int, limits: list[int], has: bool) -> None:
    low, high = limits
    found, policies = (
        shot(live, OTHER if has else None, written=live),
        read_policies({"prefill": {"min": low, "max": high, "preset": "cache"}}),
    )
    if low <= live <= high:
        plan = plan_policy.plan_policies(found, CONFIG, policies)
        assert plan.counts["prefill"] == live and not plan.settles and not plan.notices
    else:
        assert refused(found, policies).reason == "OutsideLimits"
    by_hand = plan_policy.plan_policies(found, CONFIG, policies, policy_checks.SCALE)
    assert low <= by_hand.counts["prefill"] <= high and by_hand.settles == (not low <= live <= high)


def test_a_fault_is_told_because_hpa_does_not_wait_for_its_end() -> None:
    failed = services.set_pod("decode", 0, ready=False, status={"phase": "Failed", "reason": "Evicted"})
    found = shot()
    pods = tuple(pod for pod in found.pods if pod["metadata"]["name"] != failed["metadata"]["name"])
    (notice,) = plan_policy.plan_policies(replace(found, pods=(*pods, failed)), CONFIG, QUEUE).notices
    assert notice.startswith("There is a fault: vllm-0-decode-0 (")
    assert not plan_policy.plan_policies(found, CONFIG, QUEUE).notices


def test_a_policy_that_is_being_switched_off_can_be_set_again() -> None:
    plan = plan_policy.plan_policies(shot(4, STILL, conditions=HEARD), CONFIG, QUEUE)
    assert plan.steps[0].writes[0].body[-1]["value"] == POLICY


def test_switching_off_freezes_first_and_says_what_follows() -> None:
    plan = plan_policy.plan_policies_absent(shot(4, POLICY, conditions=UNHEARD), CONFIG, None)
    freeze, config, release = plan.steps
    assert freeze.always and freeze.look_again and freeze.writes[0].body[-1]["value"] == STILL
    assert [write.name for write in config.writes] == ["motor-config"]
    assert release.writes[0].body[3:] == [
        {"op": "test", "path": "/spec/template/roles/1/scalingPolicy", "value": POLICY},
        {"op": "replace", "path": "/spec/template/roles/1/replicas", "value": 4},
        {"op": "remove", "path": "/spec/template/roles/1/scalingPolicy"},
    ]
    assert plan.counts == {"prefill": 4, "decode": 1}
    assert plan.data and json.loads(plan.data["user_config.json"])["motor_deploy_config"]["p_instances_num"] == 4


def test_what_is_frozen_and_was_heard_of_goes_at_once_and_what_was_not_is_waited_for() -> None:
    heard = plan_policy.plan_policies_absent(shot(4, STILL, conditions=HEARD), CONFIG, None)
    assert [step.title for step in heard.steps] == ["update motor-config", "take the policy of prefill away"]
    unheard = plan_policy.plan_policies_absent(shot(4, STILL, conditions=UNHEARD), CONFIG, None)
    assert unheard.steps[0].look_again and not unheard.steps[0].writes


def test_the_count_of_a_policy_that_the_operator_does_not_know_is_that_of_the_set() -> None:
    plan = plan_policy.plan_policies_absent(shot(3, {**POLICY, "type": "KEDA"}), CONFIG, None)
    (release,) = plan.steps
    assert plan.counts["prefill"] == 2 and [op["op"] for op in release.writes[0].body] == ["test", "test", "test", "test", "remove"]


def test_more_instances_than_a_user_config_holds_cannot_be_recorded() -> None:
    many = read_policies({"prefill": {"min": 1, "max": 16, "preset": "queue"}})["prefill"].scaling_policy()
    many["spec"]["maxReplicas"] = 40
    with pytest.raises(Refused, match="17 instances are live, and a user config holds 1 to 16") as error:
        plan_policy.plan_policies_absent(shot(17, many), CONFIG, None)
    assert error.value.reason == "OutsideLimits"


def test_of_a_set_that_makes_several_services_no_policy_is_set_or_taken_away() -> None:
    """Each has a count of its own, and the set has one number for both."""
    several = shot(policy=STILL, conditions=HEARD)
    assert several.infer_service_set
    several.infer_service_set["spec"]["replicas"] = 2  # type: ignore[index]  # a test's own object
    assert refused(several).reason == "SeveralServices"
    with pytest.raises(Refused, match="2 services"):
        plan_policy.plan_policies_absent(several, CONFIG, None)
    plan_policy.plan_policies_absent(several, CONFIG, ["decode"])  # it has none


def test_another_autoscaler_of_the_instances_is_refused_but_not_the_operators_own() -> None:
    found = shot()
    theirs = {**scaler(POLICY), "metadata": {"name": "by-load"}}
    assert refused(replace(found, autoscalers=(theirs,))).reason == "CountOwned"
    left = replace(shot(2, {**POLICY, "type": "KEDA"}), autoscalers=(scaler(POLICY),))
    assert plan_policy.plan_policies(left, CONFIG, QUEUE).steps


@pytest.mark.parametrize(
    ("conditions", "metrics", "heard"),
    [
        (HEARD, [], True),
        (UNHEARD, [], False),
        (UNHEARD, [{"type": "External", "external": {"metric": {"name": scaling_policy.FROZEN_METRIC}}}], True),
        (UNHEARD, [{"type": "External", "external": {"metric": {"name": "num_requests_waiting"}}}], False),
        ([{"type": "AbleToScale", "status": "False", "reason": "FailedGetScale", "message": ""}], [], True),
        ([{"type": "AbleToScale", "status": "False", "reason": "FailedUpdateScale", "message": ""}], [], False),
        ([{"type": "AbleToScale", "status": "True", "reason": "SucceededGetScale", "message": ""}], [], False),
        ([{"type": "ScalingActive", "status": "False", "reason": "ScalingDisabled", "message": "zero"}], [], True),
        ([], [], False),
    ],
)
def test_hpa_has_heard_when_its_status_tells_of_the_metric_that_nobody_serves(conditions: Any, metrics: Any, heard: bool) -> None:
    found = shot(4, STILL, conditions=conditions, currentMetrics=metrics)
    verdict = policy_verdicts.frozen(["prefill"], found)
    assert verdict.done is heard and bool(verdict.seen) is not heard


def test_hpa_has_not_heard_before_operator_and_autoscaler_have_the_frozen_policy() -> None:
    assert "HPA has not yet seen" in policy_verdicts.frozen(["prefill"], shot(4, STILL, has=POLICY, conditions=HEARD)).seen
    found = shot(4, STILL, conditions=HEARD)
    found.instance_sets[0]["status"]["observedGeneration"] = 1
    assert "Infer Operator has not yet seen" in policy_verdicts.frozen(["prefill"], found).seen
    assert policy_verdicts.frozen(["prefill"], replace(shot(4, STILL), autoscalers=())).done, "the operator makes no autoscalers at all"


def test_a_policy_is_followed_when_autoscaler_and_count_are_as_it_says() -> None:
    assert policy_verdicts.followed(["prefill"], shot(3, POLICY)).done
    assert "is not as the policy says" in policy_verdicts.followed(["prefill"], shot(3, POLICY, has=OTHER)).seen
    assert "HPA has not yet brought 6 instances within 1 and 4" in policy_verdicts.followed(["prefill"], shot(6, POLICY)).seen
    none = replace(shot(3, POLICY), autoscalers=())
    none.instance_sets[0]["status"]["scalingResourceStatus"] = {"message": "failed to unmarshal"}
    assert "there is no autoscaler yet (the Infer Operator says: failed to unmarshal)" in policy_verdicts.followed(["prefill"], none).seen
    late = shot(3, POLICY)
    late.instance_sets[0]["spec"]["scalingPolicy"] = OTHER
    assert "does not have the policy yet" in policy_verdicts.followed(["prefill"], late).seen


def test_a_policy_is_gone_when_its_autoscaler_is_and_the_count_is_that_of_the_set() -> None:
    assert policy_verdicts.released(["prefill"], shot(2)).done
    assert "is not yet as the set says" in policy_verdicts.released(["prefill"], shot(3)).seen
    assert "is not gone yet" in policy_verdicts.released(["prefill"], replace(shot(2), autoscalers=(scaler(POLICY),))).seen


def set_schema(roles: Any) -> dict[str, Any]:
    template = {"properties": {"template": {"properties": {"roles": roles}}}}
    kind = [{"group": "mindcluster.huawei.com", "version": "v1", "kind": "InferServiceSet"}]
    return {"components": {"schemas": {"any": {}, "iss": {"x-kubernetes-group-version-kind": kind, "properties": {"spec": template}}}}}


@pytest.mark.parametrize(
    ("openapi", "known"),
    [
        (set_schema({"items": {"properties": {"name": {}, "scalingPolicy": {}}}}), True),
        (set_schema({"items": {"properties": {"name": {}}}}), False),
        (set_schema({"items": {"x-kubernetes-preserve-unknown-fields": True}}), True),
        (set_schema({"items": {"allOf": [{"$ref": "#/components/schemas/role"}]}}), False),
        (set_schema({"type": "array"}), False),
        ({"components": {"schemas": {}}}, False),
        ({}, False),
    ],
)
def test_a_schema_tells_whether_policies_are_kept(openapi: dict[str, Any], known: bool) -> None:
    assert policy_checks.knows_policies(openapi) is known


def test_references_of_a_schema_are_followed() -> None:
    openapi = set_schema({"items": {"$ref": "#/components/schemas/role"}})
    openapi["components"]["schemas"]["role"] = {"properties": {"scalingPolicy": {}}}
    assert policy_checks.knows_policies(openapi)
    openapi["components"]["schemas"]["role"] = {"$ref": "#/components/schemas/role"}
    assert not policy_checks.knows_policies(openapi), "one that refers to itself ends"


def with_npus(found: Snapshot, npus: int, pods: int = 1, block: str = "") -> Snapshot:
    service_set: dict[str, Any] = copy.deepcopy(dict(found.infer_service_set or {}))
    for role in service_set["spec"]["template"]["roles"][1:]:
        container = {"name": "c", "resources": {"requests": {"huawei.com/Ascend910": str(npus)}}}
        template: dict[str, Any] = {"metadata": {"annotations": {"sp-block": block}}, "spec": {"containers": [container]}}
        role["spec"] = {"replicas": pods, "template": template}
    return replace(found, infer_service_set=service_set)


def room(found: Snapshot, servers: list[Server]) -> str:
    try:
        policy_checks.require_room(found, service_state(found), QUEUE, servers)
    except Refused as error:
        return f"{error.reason}: {error.message}"
    return ""


def test_room_is_asked_for_what_may_come_besides_what_is_live() -> None:
    """Two prefill instances are live, two more may come."""
    found = with_npus(shot(), 16)
    assert room(found, [Server("a", 16), Server("b", 16)]) == ""
    assert room(found, []).startswith("TooFewNpus: ")
    assert "prefill: 2 more of 1 x 16 NPUs, room for 1" in room(found, [Server("a", 16)])
    assert "room for 1" in room(found, [Server("a", 16), Server("b", 16, used=8)]), "a place of eight is none"
    assert "room for 0" in room(found, [Server("a", 16, usable=False)])
    assert room(with_npus(shot(), 0), []) == "", "what needs no NPUs needs no room"


def test_policies_that_are_live_already_count_too() -> None:
    found = with_npus(shot(), 16)
    service_set: Any = found.infer_service_set
    service_set["spec"]["template"]["roles"][2]["scalingPolicy"] = OTHER
    assert "decode: 5 more of 1 x 16 NPUs" in room(found, [Server("a", 16), Server("b", 16)])
    assert room(found, [Server(str(number), 16) for number in range(7)]) == ""


def test_an_instance_has_to_be_in_one_super_pod_where_there_are_some() -> None:
    found = with_npus(shot(), 16, pods=2, block="32")
    apart = [Server("a", 16, "0"), Server("b", 16, "1"), Server("c", 16, "2"), Server("d", 16, "3")]
    assert "room for 0" in room(found, apart)
    assert room(found, [replace(server, super_pod="0") for server in apart]) == ""
    assert room(found, [replace(server, super_pod="") for server in apart]) == ""
