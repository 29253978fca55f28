# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan is when nothing else is said, how its writes are bound to what was seen, and what it tells."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import plan
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan import Plan, Step, Subject, Write, create, delete, update

OBJECT: dict[str, Any] = {"kind": "Service", "metadata": {"name": "s", "namespace": "ns", "uid": "u"}}
CLUSTER_WIDE: dict[str, Any] = {"kind": "ClusterRole", "metadata": {"name": "r", "uid": "u"}}


def test_what_a_write_is_unless_told_otherwise() -> None:
    write = Write("create", "Service", "ns", "s", "why")
    assert (write.body, write.patch, write.propagation, write.removed) == (None, False, "Background", ())
    assert not write.preconditions


def test_what_a_plan_is_unless_told_otherwise() -> None:
    plan = Plan("scale", "ns")
    assert plan.empty and plan.settles and not plan.record and not plan.removes and not plan.lease_left
    assert (plan.steps, plan.why_record, plan.env_sha256, plan.data, plan.notices) == ((), "", None, None, ())
    step = Step("title")
    assert (step.writes, step.until, step.always, step.idle) == ((), "", False, None)


@pytest.mark.parametrize(
    ("plan", "empty"),
    [
        (Plan("v", "ns", steps=(Step("wait", until="gone"),)), True),
        (Plan("v", "ns", steps=(Step("wait"), Step("write", (create(OBJECT, ""),)))), False),
        (Plan("v", "ns", record=True), False),
        (Plan("v", "ns", lease_left=True), False),
    ],
)
def test_a_plan_is_empty_when_nothing_has_to_be_written(plan: Plan, empty: bool) -> None:
    assert plan.empty is empty


def test_actions_are_all_writes_in_order_then_the_record_then_the_lease() -> None:
    steps = (Step("one", (create(OBJECT, "a"),)), Step("two", (delete("ClusterRole", CLUSTER_WIDE, "b"),)))
    plan = Plan("v", "ns", steps=steps, record=True, why_record="c", lease_left=True)
    assert plan.actions() == [
        {"verb": "create", "kind": "Service", "namespace": "ns", "name": "s", "why": "a"},
        {"verb": "delete", "kind": "ClusterRole", "namespace": "", "name": "r", "why": "b"},
        {"verb": "update", "kind": "ConfigMap", "namespace": "ns", "name": "motor-config", "why": "c"},
        {"verb": "delete", "kind": "Lease", "namespace": "ns", "name": "ascend-mindie", "why": "the service is removed"},
    ]
    assert Plan("v", "ns", steps=steps).actions() == plan.actions()[:2]


def test_writes_are_made_from_objects() -> None:
    made = create(OBJECT, "why")
    assert (made.verb, made.kind, made.namespace, made.name, made.why, made.body) == ("create", "Service", "ns", "s", "why", OBJECT)
    assert update(OBJECT, "why").namespace == delete("Service", OBJECT, "why").namespace == "ns"
    changed = update(CLUSTER_WIDE, "why")
    assert (changed.verb, changed.kind, changed.namespace, changed.name, changed.body) == ("update", "ClusterRole", None, "r", CLUSTER_WIDE)
    gone = delete("Service", OBJECT, "why", "Foreground")
    assert (gone.verb, gone.name, gone.preconditions, gone.propagation) == ("delete", "s", {"uid": "u"}, "Foreground")
    assert delete("Service", OBJECT, "why").propagation == "Background"


def test_a_subject_is_the_pods_with_all_its_labels() -> None:
    subject = Subject("p0", {"app": "p0", "tier": "x"})
    assert (subject.ready, subject.started, subject.old, subject.but_ready) == (0, 0, "", False)
    assert subject.has({"metadata": {"labels": {"app": "p0", "tier": "x", "more": "y"}}})
    for labels in ({"app": "p0"}, {"app": "p0", "tier": "z"}, {}, None):
        assert not subject.has({"metadata": {"labels": labels}})
    assert not subject.has({"metadata": {}})


def test_data_that_no_object_can_hold_are_refused_when_they_are_planned() -> None:
    with pytest.raises(InputError) as error:
        Plan("deploy", "ns", data={"user_config.json": "x" * 1_100_000})
    assert str(error.value).startswith("motor-config: ")
    assert Plan("deploy", "ns", data={"user_config.json": "x" * 300_000}).data


def test_what_a_step_waits_for_has_a_name_of_its_own() -> None:
    names = (plan.GONE, plan.REDUCED, plan.NO_PODS, plan.ABSENT, plan.KNOWN, plan.RUNNING)
    assert names == ("gone", "reduced", "no_pods", "absent", "known", "running")
