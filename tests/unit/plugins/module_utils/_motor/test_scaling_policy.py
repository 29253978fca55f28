# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Policies of the cluster: which mean the same, which limits hold, and the one under which HPA leaves the count alone."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import scaling_policy
from ansible_collections.ascend.mindie.plugins.module_utils._motor.policy_reader import read_policies

POLICY = read_policies({"decode": {"min": 2, "max": 6, "preset": "latency"}})["decode"].scaling_policy()


def test_a_number_may_be_written_otherwise_and_nothing_else_may() -> None:
    other: dict[str, Any] = copy.deepcopy(POLICY)
    assert other["spec"]["metrics"][1]["external"]["target"] == {"type": "Value", "value": "50m"}
    other["spec"]["metrics"][1]["external"]["target"]["value"] = "0.050"
    assert scaling_policy.same(POLICY, other) and other != POLICY
    other["spec"]["metrics"][1]["external"]["target"]["value"] = "0.051"
    assert not scaling_policy.same(POLICY, other)
    assert not scaling_policy.same(POLICY, {**POLICY, "type": "KEDA"}) and not scaling_policy.same(POLICY, None)


@pytest.mark.parametrize(
    ("policy", "limits"),
    [
        (POLICY, (2, 6)),
        ({"type": "HPA", "spec": {"maxReplicas": 3}}, (1, 3)),
        ({"type": "KEDA", "spec": {"minReplicas": 1, "maxReplicas": 3}}, None),
        ({"type": "HPA", "spec": {"minReplicas": "two", "maxReplicas": 3}}, None),
        ({"type": "HPA", "spec": {"minReplicas": True, "maxReplicas": 3}}, None),
        ({"type": "HPA", "spec": {"minReplicas": 4, "maxReplicas": 2}}, None),
        ({"type": "HPA", "spec": {"minReplicas": 1}}, None),
        ({"type": "HPA", "spec": []}, None),
        ({"type": "HPA"}, None),
        (None, None),
    ],
)
def test_limits_are_those_that_hpa_takes(policy: Any, limits: tuple[int, int] | None) -> None:
    assert scaling_policy.limits(policy) == limits


@pytest.mark.parametrize(
    ("policy", "live", "limits"),
    [
        (POLICY, 3, (2, 6)),
        (POLICY, 1, (1, 6)),
        (POLICY, 9, (2, 9)),
        (POLICY, 0, (1, 6)),
        ({"type": "HPA", "spec": {"minReplicas": "two", "maxReplicas": 4}}, 3, (1, 3)),
        ({"type": "HPA", "spec": {"minReplicas": 4, "maxReplicas": 2}}, 3, (1, 3)),
    ],
)
def test_a_frozen_policy_has_limits_that_cause_no_change(policy: Any, live: int, limits: tuple[int, int]) -> None:
    frozen = scaling_policy.frozen(policy, live)
    assert scaling_policy.limits(frozen) == limits
    assert scaling_policy.is_frozen(frozen) and not scaling_policy.is_frozen(policy)


def test_an_autoscaler_is_frozen_whatever_defaults_the_server_has_added() -> None:
    frozen = scaling_policy.frozen(POLICY, 3)
    for direction in ("scaleUp", "scaleDown"):
        frozen["spec"]["behavior"] = {**frozen["spec"]["behavior"]}
        frozen["spec"]["behavior"][direction] = {
            "selectPolicy": "Disabled",
            "stabilizationWindowSeconds": 0,
            "policies": [{"type": "Pods"}],
        }
    assert scaling_policy.is_frozen(frozen)
    frozen["spec"]["behavior"]["scaleDown"] = {"selectPolicy": "Max"}
    assert not scaling_policy.is_frozen(frozen)


@pytest.mark.parametrize(
    "policy", [None, {}, {"spec": []}, {"spec": {}}, {"spec": {"metrics": {}}}, {"spec": {"metrics": [1, {"external": 2}]}}]
)
def test_what_is_no_policy_of_ours_is_not_frozen(policy: Any) -> None:
    assert not scaling_policy.is_frozen(policy)
