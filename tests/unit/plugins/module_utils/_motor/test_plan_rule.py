# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run on a scaling rule plans: one write or none, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import guard, plan_rule, rule_reader
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import Refused
from ansible_collections.ascend.mindie.plugins.module_utils._motor.findings import ERROR, WARNING, Finding
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan import Plan
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_rule import RuleRefused, WantedRule
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_reader import DATA_KEY
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import ANY_BACKEND, Snapshot
from tests.functional.rules import TWO_TIERS, mapping, text_of

NAME, NAMESPACE, AT = "scaling-rule", "mindie-test", "2026-08-01T09:30:00Z"


def wanted(text: str = TWO_TIERS) -> WantedRule:
    return WantedRule(NAME, rule_reader.read(text, source="rule"), "rule")


def live(text: str | None, **more: Any) -> dict[str, Any]:
    metadata = {"name": NAME, "namespace": NAMESPACE, "uid": "1", "resourceVersion": "7", "labels": {"team": "a"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {} if text is None else {DATA_KEY: text}, **more}


def snapshot(rule: dict[str, Any] | None = None, **more: Any) -> Snapshot:
    return Snapshot(namespace=NAMESPACE, backend=ANY_BACKEND, base_name="vllm", rule=rule, **more)


def lease(verb: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {"ascend.mindie/intent": json.dumps({"verb": verb, "run": "1"})}}}


def job(name: str, **metadata: Any) -> dict[str, Any]:
    return {"kind": "AscendJob", "metadata": {"name": name, "labels": {"mind-cluster/scaling-rule": NAME}, **metadata}}


def planned(found: Snapshot, rule: WantedRule | None = None, findings: tuple[Finding, ...] = ()) -> Plan:
    return plan_rule.plan_rule(found, rule or wanted(), lambda dummy: findings, AT)


def test_a_new_rule_is_created_with_our_labels_and_the_time() -> None:
    plan = planned(snapshot())
    (write,) = plan.steps[0].writes
    assert (write.verb, write.kind, write.name, plan.record, plan.verb) == ("create", "ConfigMap", NAME, False, "rule")
    assert write.body["data"] == {DATA_KEY: TWO_TIERS}
    assert write.body["metadata"]["labels"]["app.kubernetes.io/component"] == "scaling-rule"
    assert write.body["metadata"]["annotations"] == {"ascend.mindie/changed": AT}


def test_another_rule_is_replaced_as_it_was_seen_and_keeps_what_is_not_ours() -> None:
    before = live(text_of(mapping(3, 1)), binaryData={"x": "eA=="})
    before["data"]["readme"] = "ours"
    (write,) = planned(snapshot(before)).steps[0].writes
    assert write.verb == "update" and write.body["metadata"]["resourceVersion"] == "7" and write.body["metadata"]["labels"]["team"] == "a"
    assert write.body["data"] == {DATA_KEY: TWO_TIERS, "readme": "ours"} and write.body["binaryData"] == {"x": "eA=="}
    assert before["data"][DATA_KEY] == text_of(mapping(3, 1)), "what was seen is left as it was"


@pytest.mark.parametrize("text", [None, "", "{", "\ufeff" + TWO_TIERS, "[]"])
def test_a_rule_that_the_operator_refuses_is_replaced(text: str | None) -> None:
    (write,) = planned(snapshot(live(text))).steps[0].writes
    assert write.why == "the operator refuses the live rule" and write.body["data"][DATA_KEY] == TWO_TIERS


def test_what_says_the_same_is_left_as_it_is() -> None:
    loose = json.dumps({**json.loads(TWO_TIERS), "version": "2.0", "status": "completed"})
    assert planned(snapshot(live(loose))).empty


@pytest.mark.parametrize("where", [0, 1])
def test_the_order_of_groups_counts_in_the_first_tier_alone(where: int) -> None:
    turned = json.loads(TWO_TIERS)
    turned["elastic_scaling_list"][where]["group_list"].reverse()
    assert planned(snapshot(live(json.dumps(turned)))).empty == (where == 1)


def test_an_error_beside_the_rule_is_refused_also_when_nothing_would_change() -> None:
    error = Finding("R602", ERROR, "job x has no group", "It crashes.", "Correct it.")
    for found in (snapshot(), snapshot(live(TWO_TIERS))):
        with pytest.raises(RuleRefused) as failed:
            planned(found, findings=(Finding("R301", WARNING, "w", "e", "r"), error))
        assert "1 error:\nR602 job x has no group. It crashes. Correct it." in failed.value.message
        assert [one["code"] for one in failed.value.details["findings"]] == ["R301", "R602"]


def test_an_immutable_config_map_is_refused_before_anything_is_written() -> None:
    with pytest.raises(Refused, match="immutable"):
        planned(snapshot(live("{}", immutable=True)))
    assert planned(snapshot(live(TWO_TIERS, immutable=True))).empty


def test_another_unfinished_change_comes_first() -> None:
    for verb in ("scale", "deploy", "update_config"):
        with pytest.raises(Refused, match=verb):
            planned(snapshot(lease=lease(verb)))
        assert planned(snapshot(live(TWO_TIERS), lease=lease(verb))).empty
        with pytest.raises(Refused, match=verb):
            plan_rule.plan_rule_absent(snapshot(live(TWO_TIERS), lease=lease(verb)), NAME)
    assert not planned(snapshot(lease=lease("rule"))).empty


def test_an_edit_of_a_rule_that_was_cut_off_blocks_no_verb() -> None:
    found = snapshot(lease=lease("rule"))
    assert guard.open_intent(found) is None and guard.unfinished_verb(found) is None
    assert guard.unfinished_verb(snapshot(lease=lease("scale"))) == "scale"


def test_a_rule_is_removed_only_when_no_job_that_stays_names_it() -> None:
    found = snapshot(live(TWO_TIERS), jobs=(job("b"), job("a"), job("gone", deletionTimestamp=AT)))
    with pytest.raises(Refused) as failed:
        plan_rule.plan_rule_absent(found, NAME)
    assert failed.value.paths == ("a", "b") and "(a, b)" in failed.value.message
    (write,) = plan_rule.plan_rule_absent(replace(found, jobs=(job("gone", deletionTimestamp=AT),)), NAME).steps[0].writes
    assert (write.verb, write.preconditions) == ("delete", {"uid": "1"})
    assert plan_rule.plan_rule_absent(replace(found, rule=None), NAME).empty
    assert not plan_rule.plan_rule_absent(found, "another").empty


def test_a_diff_shows_white_space_as_no_difference_and_a_broken_rule_as_it_is() -> None:
    assert plan_rule.shown_text(live(json.dumps(json.loads(TWO_TIERS)))) == TWO_TIERS
    assert plan_rule.shown_text(live("{ broken")) == "{ broken" and plan_rule.shown_text(None) == "" == plan_rule.shown_text(live(None))
