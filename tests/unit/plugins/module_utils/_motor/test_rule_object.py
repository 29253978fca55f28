# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ConfigMap of a scaling rule: made with our labels; changed in its rule alone, without the time of an earlier change."""

from __future__ import annotations

import copy

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import Refused
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_object import CHANGED, changed, made


def test_a_new_one_carries_our_labels() -> None:
    found = made("rule", "ns", "{}")
    assert (found["kind"], found["metadata"]["name"], found["metadata"]["namespace"]) == ("ConfigMap", "rule", "ns")
    assert found["metadata"]["labels"]["app.kubernetes.io/component"] == "scaling-rule" and found["data"] == {"elastic_scaling.json": "{}"}


@pytest.mark.parametrize(
    ("annotations", "left"),
    [({CHANGED: "2026-08-01T09:30:00Z", "team": "a"}, {"team": "a"}), ({"team": "a"}, {"team": "a"}), (None, {})],
)
def test_a_changed_one_keeps_what_is_not_the_rule_and_carries_no_old_time(annotations: dict[str, str] | None, left: dict[str, str]) -> None:
    own = {} if annotations is None else {"annotations": annotations}
    before = {"kind": "ConfigMap", "metadata": {"name": "rule", "uid": "u", **own}, "data": {"a": "b"}}
    seen = copy.deepcopy(before)
    expected = {
        "kind": "ConfigMap",
        "metadata": {"name": "rule", "uid": "u", "annotations": left},
        "data": {"a": "b", "elastic_scaling.json": "{}"},
    }
    assert changed(before, "{}") == expected and before == seen


def test_one_that_nothing_can_change_is_refused_by_name() -> None:
    with pytest.raises(Refused, match="ns/rule: it is immutable") as error:
        changed({"metadata": {"name": "rule", "namespace": "ns"}, "immutable": True}, "{}")
    assert error.value.reason == "Immutable"
