# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The choice of the instances that go."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ascend.mindie.plugins.module_utils._motor import choice, counts, readiness
from ansible_collections.ascend.mindie.plugins.module_utils._motor.choice import HIGHEST_INDEX, UNHEALTHY_FIRST, Choice
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError, Refused
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_scale import plan_scale
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot, service_state

from . import services

CONFIG = services.user_config(prefill=4)
SICK = {"phase": "Failed", "reason": "Evicted"}
PENDING = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no NPU"}]}
STARTING = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}


def service(**statuses: dict[str, Any]) -> Snapshot:
    """Four prefill instances and one decode instance; `statuses` are those of pods by instance (`p1`)."""
    shot = services.snapshot(CONFIG, services.running(prefill=4, decode=1))
    pods = []
    for pod in shot.pods:
        letter = pod["metadata"]["labels"]["app"].removeprefix("vllm-")
        pods.append({**pod, "status": statuses[letter]} if letter in statuses else pod)
    return replace(shot, pods=tuple(pods))


def gone(shot: Snapshot, left: int, **options: Any) -> list[tuple[int, str]]:
    removals = counts.change(service_state(shot), {"prefill": left, "decode": 1}, Choice(**options)).removals
    return [(removal.index, removal.why) for removal in removals.get("prefill", ())]


def test_the_highest_indexes_go_unless_told_otherwise() -> None:
    assert gone(service(p0=SICK), 2) == [(3, "highest index"), (2, "highest index")]


def test_what_is_furthest_from_serving_goes_first() -> None:
    shot = service(p0=STARTING, p1=PENDING, p2=SICK)
    found = gone(shot, 0, order=UNHEALTHY_FIRST)
    assert [index for index, dummy in found] == [2, 1, 0, 3]
    assert found[0][1] == "not running: pod vllm-p2-0: Evicted" and found[3][1] == "highest index"


def test_of_equally_unhealthy_instances_the_highest_index_goes_first() -> None:
    assert [index for index, dummy in gone(service(p0=SICK, p2=SICK), 2, order=UNHEALTHY_FIRST)] == [2, 0]


def test_protected_instances_stay_even_when_they_are_ill() -> None:
    shot, protect = service(p3=SICK), {"prefill": frozenset({3})}
    assert gone(shot, 3, order=UNHEALTHY_FIRST, protect=protect) == [(2, "highest index that is not protected")]


def test_more_protected_than_may_remain_is_refused_by_name() -> None:
    with pytest.raises(Refused) as refused:
        gone(service(), 1, protect={"prefill": frozenset({0, 2, 9})})
    assert refused.value.reason == "ProtectedInstance" and "2 are protected (vllm-p0, vllm-p2)" in str(refused.value)


def test_protection_matters_only_to_its_engine_role_and_when_something_goes() -> None:
    protect = {"prefill": frozenset({0, 1, 2, 3})}
    assert gone(service(), 4, protect=protect) == [] and gone(service(), 5, protect=protect) == []
    assert gone(service(), 3, protect={"decode": frozenset({3})}) == [(3, "highest index")]


@pytest.mark.parametrize("indexes", ["0", [0, "1"], [-1], [1.0], [True], {"a": 1}, 0])
def test_indexes_are_strict_integers(indexes: Any) -> None:
    with pytest.raises(InputError) as refused:
        choice.read_protect({"prefill": indexes})
    assert refused.value.path == "protect.prefill"


def test_an_engine_role_left_out_protects_nothing() -> None:
    assert choice.read_protect({"prefill": None, "decode": [1, 1]}) == {"decode": frozenset({1})}
    assert choice.read_protect(None) == {}


@given(
    live=st.sets(st.integers(0, 20), min_size=1, max_size=12),
    sick=st.sets(st.integers(0, 20)),
    protected=st.sets(st.integers(0, 20), max_size=6),
    order=st.sampled_from([HIGHEST_INDEX, UNHEALTHY_FIRST]),
    left=st.integers(0, 12),
)
def test_a_choice_takes_as_many_as_asked_and_never_a_protected_one(
    live: set[int], sick: set[int], protected: set[int], order: str, left: int
) -> None:
    shot = services.snapshot(CONFIG, [("prefill", index) for index in live])
    ill = {f"vllm-p{index}" for index in sick}
    pods = tuple({**pod, "status": SICK} if pod["metadata"]["labels"]["app"] in ill else pod for pod in shot.pods)
    state = service_state(replace(shot, pods=pods))
    surplus = max(0, len(live) - left)
    try:
        found = [removal.index for removal in choice.victims(state, "prefill", surplus, Choice(order, {"prefill": frozenset(protected)}))]
    except Refused:
        assert surplus > len(live - protected)
        return
    kept = live - set(found)
    assert len(found) == len(set(found)) == surplus and set(found) <= live - protected
    for taken in found:
        for other in kept - protected:
            better = taken > other if order == HIGHEST_INDEX or (taken in sick) == (other in sick) else taken in sick
            assert better, "whoever stays has the better claim"


def infer_service_set(**statuses: dict[str, Any]) -> Snapshot:
    config = services.user_config(prefill=3, deploy_mode="infer_service_set")
    shot = services.set_snapshot(config, prefill=3, decode=1)
    pods = tuple({**pod, "status": statuses.get(pod["metadata"]["name"][-3:-2], pod["status"])} for pod in shot.pods)
    return replace(shot, pods=pods)


@pytest.mark.parametrize(
    ("shot", "options", "reason"),
    [
        (infer_service_set(), {"protect": {"prefill": frozenset({2})}}, "ProtectedInstance"),
        (infer_service_set(**{"0": SICK}), {"order": UNHEALTHY_FIRST}, "OrderNotPossible"),
    ],
)
def test_what_a_set_cannot_honour_is_refused(shot: Snapshot, options: dict[str, Any], reason: str) -> None:
    config = services.user_config(prefill=3, deploy_mode="infer_service_set")
    with pytest.raises(Refused) as refused:
        plan_scale(shot, config, {"prefill": 2, "decode": 1}, choice=Choice(**options))
    assert refused.value.reason == reason and "vllm-0-prefill-2 would go instead" in str(refused.value)


def test_what_a_set_would_do_anyway_is_no_refusal() -> None:
    config = services.user_config(prefill=3, deploy_mode="infer_service_set")
    options = Choice(UNHEALTHY_FIRST, {"prefill": frozenset({0})})
    plan = plan_scale(infer_service_set(**{"2": SICK}), config, {"prefill": 2, "decode": 1}, choice=options)
    (write,) = plan.steps[0].writes
    assert [(removal.index, removal.name) for removal in write.removed] == [(2, "vllm-0-prefill-2")]
    assert write.why == "prefill 3 -> 2: removes 2 (not running: pod vllm-0-prefill-2-0: Evicted)"


def test_protecting_what_the_service_does_not_have_is_an_error() -> None:
    with pytest.raises(InputError) as refused:
        plan_scale(service(), CONFIG, {"prefill": 4, "decode": 1}, choice=Choice(protect={"union": frozenset({0})}))
    assert refused.value.path == "protect.union"


@pytest.mark.parametrize(
    ("wanted", "settles"),
    [({"prefill": 2, "decode": 1}, False), ({"prefill": 5, "decode": 1}, True), ({"prefill": 2, "decode": 2}, True)],
)
def test_only_a_plan_that_grows_waits_for_health(wanted: dict[str, int], settles: bool) -> None:
    plan = plan_scale(service(), CONFIG, wanted)
    assert plan.settles is settles


def test_a_killed_shrink_waits_for_the_pods_when_it_is_run_again() -> None:
    leaving = services.pod("vllm-p3", leaving=True)
    shot = services.snapshot(CONFIG, services.running(prefill=3, decode=1))
    plan = plan_scale(replace(shot, pods=(*shot.pods, leaving)), CONFIG, {"prefill": 3, "decode": 1})
    assert [(step.until, step.writes) for step in plan.steps] == [("reduced", ())] and plan.record and not plan.settles


def test_what_is_still_stopping_alone_is_no_reason_to_write() -> None:
    shot = services.snapshot(CONFIG, services.running(prefill=4, decode=1))
    leaving = services.pod("vllm-p4", leaving=True)
    assert plan_scale(replace(shot, pods=(*shot.pods, leaving)), CONFIG, {"prefill": 4, "decode": 1}).empty


@pytest.mark.parametrize(("spec", "status", "done"), [(2, 2, True), (3, 2, False), (2, 3, False)])
def test_a_set_has_shrunk_when_its_instance_set_says_so(spec: int, status: int, done: bool) -> None:
    config = services.user_config(prefill=2, deploy_mode="infer_service_set")
    shot = services.set_snapshot(config, prefill=2, decode=1)
    found = services.instance_set("prefill", spec, ready=0)
    found["status"]["replicas"] = status
    shot = replace(shot, instance_sets=(found, services.instance_set("decode", 1)))
    assert readiness.reduced(shot, {"prefill": 2, "decode": 1}).done is done
