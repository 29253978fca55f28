# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How counts change: every engine role, counts that an autoscaler owns, and plans that do nothing but remove."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import counts
from ansible_collections.ascend.mindie.plugins.module_utils._motor.instances import ENGINE_ROLES
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan import GONE, REDUCED, Step
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import ServiceState, service_state

from . import services


def owned(prefill: int) -> ServiceState:
    """A service whose decode count an autoscaler owns."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "vllm-d0"}
    scaler = {"kind": "HorizontalPodAutoscaler", "metadata": {"name": "by-load"}, "spec": {"scaleTargetRef": target}}
    live = services.running(prefill=prefill, decode=2)
    return service_state(services.snapshot(services.user_config(), live, autoscalers=(scaler,)))


@pytest.mark.parametrize("role", ENGINE_ROLES)
def test_every_engine_role_grows_and_shrinks(role: str) -> None:
    state = service_state(services.snapshot(services.user_config(), [(role, 0), (role, 1)]))
    assert counts.change(state, {role: 4}).add == {role: (2, 3)}
    assert counts.change(state, {role: 1}).remove == {role: (1,)}
    assert counts.change(state, {}).remove == {role: (1, 0)}
    same = counts.change(state, {role: 2})
    assert not same.add and not same.removals


def test_an_owned_count_is_kept_and_told_when_another_one_is_configured() -> None:
    kept, (notice,) = counts.keep_owned(owned(1), {"prefill": 3, "decode": 4})
    assert kept == {"prefill": 3, "decode": 2}
    assert notice.startswith(
        f"2 decode instances of {services.NAMESPACE} are kept, although 4 are configured: HorizontalPodAutoscaler by-load owns this count."
    )


@pytest.mark.parametrize("wanted", [{"prefill": 3, "decode": 2}, {"prefill": 3}])
def test_an_owned_count_is_no_news_when_it_is_right_or_nobodys_wish(wanted: dict[str, int]) -> None:
    assert counts.keep_owned(owned(1), wanted) == (wanted, ())


def test_an_owned_count_is_refused_only_when_it_would_change() -> None:
    counts.refuse_owned(owned(1), {"prefill": 3, "decode": 2})
    counts.refuse_owned(owned(1), {"prefill": 3})
    with pytest.raises(counts.Refused) as refused:
        counts.refuse_owned(owned(1), {"prefill": 1, "decode": 1})
    assert refused.value.paths == ("decode",) and refused.value.reason == "CountOwned"


@pytest.mark.parametrize(
    ("until", "shrinks"), [([], True), ([GONE], True), ([REDUCED], True), ([GONE, REDUCED], True), ([GONE, ""], False), ([""], False)]
)
def test_a_plan_only_shrinks_when_every_step_waits_for_what_goes(until: list[Any], shrinks: bool) -> None:
    assert counts.only_shrink([Step("", until=word) for word in until]) is shrinks


def test_growing_a_set_names_the_engine_roles_that_grow() -> None:
    config = services.user_config(deploy_mode="infer_service_set")
    shot = services.set_snapshot(config, prefill=1, decode=2)
    found = counts.steps(shot, service_state(shot), {"prefill": 2, "decode": 3})
    assert [step.title for step in found] == ["create decode and prefill instances"]
    found = counts.steps(shot, service_state(shot), {"prefill": 2, "decode": 1})
    assert [(step.title, step.until, step.always) for step in found] == [
        ("remove surplus instances", GONE, True),
        ("create prefill instances", "", False),
    ]
