# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scaling rules by the real module against the real API server: what is written, what is refused, and what is left alone."""

from __future__ import annotations

import copy
import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.fault_proxy import AFTER, BEFORE, Request
from tests.functional.rules import DOCUMENTED, TWO_TIERS, Rules, mapping, text_of
from tests.functional.test_modules import succeeded
from tests.support.module_process import ModuleProcess
from tests.support.modules import run_module


def test_a_rule_is_written_once_and_in_check_mode_not_at_all(rules: Rules) -> None:
    predicted = succeeded(rules.apply(mapping(2, 1), check_mode=True, diff=True))
    assert rules.proxy.mutating() == [] and rules.live() is None
    written = succeeded(rules.apply(mapping(2, 1), diff=True))
    assert written["changed"] and predicted["actions"] == written["actions"] and predicted["diff"] == written["diff"]
    assert [(action["verb"], action["name"]) for action in written["actions"]] == [("create", "scaling-rule")]
    assert written["diff"] == {"before": "", "after": TWO_TIERS} and rules.text() == TWO_TIERS
    assert (
        predicted["rule"] == written["rule"] and written["rule"]["text"] == TWO_TIERS and written["rule"]["groups"] == ["group0", "group1"]
    )
    again = succeeded(rules.apply(mapping(2, 1), diff=True))
    assert not again["changed"] and rules.proxy.mutating() == [] and again["diff"] == {"before": TWO_TIERS, "after": TWO_TIERS}
    larger = succeeded(rules.apply(mapping(3, 1), diff=True))
    assert [action["verb"] for action in larger["actions"]] == ["update"] and larger["diff"]["before"] == TWO_TIERS


def test_the_same_rule_gives_the_same_bytes_however_it_is_given(rules: Rules, tmp_path: Path) -> None:
    texts = copy.deepcopy(mapping(2, 1))
    for tier in texts["elastic_scaling_list"]:
        for group in tier["group_list"]:
            group.update({key: str(value) for key, value in group.items()})
    compact = json.dumps(texts)
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "scaling-rule"}, "data": {"elastic_scaling.json": compact}}
    files = {"rule.json": compact, "manifest.yaml": yaml.safe_dump(manifest), "manifest.json": json.dumps(manifest)}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    ways: dict[str, dict[str, Any]] = {
        "a mapping of numbers": {"rule": mapping(2, 1)},
        "a mapping of texts": {"rule": texts},
        "JSON text": {"rule": compact},
        "YAML text": {"rule": yaml.safe_dump(mapping(2, 1))},
        "a manifest as mapping": {"rule": manifest},
        "a manifest as YAML text": {"rule": files["manifest.yaml"]},
        **{f"a file {name}": {"rule_file": str(tmp_path / name)} for name in files},
        "numbers": {"synthesize": {"servers": 3, "hardware": "A3", "instances": {"prefill": 2, "decode": 1}}},
    }
    version = ""
    for way, options in ways.items():
        result = succeeded(rules.run(**options))
        assert rules.text() == TWO_TIERS, way
        assert result["changed"] == (not version), way
        version = version or rules.version()
        assert rules.version() == version, way


def test_white_space_in_the_live_rule_is_no_change_but_the_order_of_groups_is_one(rules: Rules) -> None:
    rules.put(json.dumps(json.loads(TWO_TIERS), indent=7))
    assert not succeeded(rules.apply(mapping(2, 1)))["changed"]
    turned = json.loads(TWO_TIERS)
    turned["elastic_scaling_list"][0]["group_list"].reverse()
    rules.put(json.dumps(turned))
    assert succeeded(rules.apply(mapping(2, 1)))["changed"] and rules.text() == TWO_TIERS


@pytest.mark.parametrize(
    ("broken", "said"),
    [("\ufeff" + TWO_TIERS, "line 1, column 1"), ("# all\n" + TWO_TIERS, "comment"), ('{"elastic_scaling_list": [{', "ends here")],
)
def test_a_live_rule_that_the_operator_refuses_is_replaced_and_told(rules: Rules, broken: str, said: str) -> None:
    rules.put(broken)
    result = succeeded(rules.apply(mapping(2, 1), diff=True))
    assert result["changed"] and rules.text() == TWO_TIERS
    assert result["diff"]["before"] == broken
    assert any("held every job" in warning and said in warning for warning in result["warnings"])


def test_what_is_not_ours_in_the_config_map_stays(rules: Rules) -> None:
    rules.put("{}", labels={"team": "a"}, more={"readme": "ours"})
    succeeded(rules.apply(mapping(2, 1)))
    live = rules.live() or {}
    assert live["data"]["readme"] == "ours" and live["metadata"]["labels"]["team"] == "a"
    assert live["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "ascend.mindie"
    assert live["metadata"]["annotations"]["ascend.mindie/changed"].endswith("Z")


@pytest.mark.parametrize(
    ("number", "path"),
    [
        (2.9, "elastic_scaling_list[0].group_list[0].group_num"),
        (True, "elastic_scaling_list[0].group_list[0].group_num"),
        ("２", "elastic_scaling_list[0].group_list[0].group_num"),
        ("2.0", "elastic_scaling_list[0].group_list[0].group_num"),
        (None, "elastic_scaling_list[0].group_list[0].group_num"),
    ],
)
def test_a_number_that_is_no_whole_one_is_refused_with_its_path(rules: Rules, number: Any, path: str) -> None:
    wrong = mapping(2, 1)
    wrong["elastic_scaling_list"][0]["group_list"][0]["group_num"] = number
    failed = rules.apply(wrong)
    assert failed["failed"] and path in failed["msg"]
    assert rules.proxy.requests == [] and rules.live() is None


def test_a_rule_with_an_error_is_never_applied_and_each_finding_is_told_in_full(rules: Rules) -> None:
    wrong = json.loads(TWO_TIERS)
    del wrong["elastic_scaling_list"][1]["group_list"][1]
    wrong["elastic_scaling_list"][0]["group_list"][0]["group_name"] = None
    failed = rules.apply(json.dumps(wrong, indent=2))
    assert failed["failed"] and failed["reason"] == "RuleRefused"
    errors = [finding for finding in failed["findings"] if finding["severity"] == "error"]
    assert errors
    for error in errors:
        assert error["line"] and error["column"] and error["remedy"] in failed["msg"] and error["code"] in failed["msg"]
        assert f"line {error['line']}, column {error['column']}" in failed["msg"]
    assert rules.proxy.requests == [] and rules.live() is None


def test_a_rule_that_would_crash_the_operator_for_a_live_job_is_not_applied(rules: Rules) -> None:
    rules.job("mindie-server-p0", group="grp0")
    failed = rules.apply(mapping(2, 1))
    assert failed["failed"] and failed["reason"] == "RuleRefused" and "mindie-server-p0" in failed["msg"] and "group0" in failed["msg"]
    assert rules.proxy.mutating() == [] and rules.live() is None


def test_a_job_that_is_lost_for_another_reason_keeps_no_rule_from_being_applied(rules: Rules) -> None:
    rules.job("mindie-server-p0", group="group0", framework="none")
    result = succeeded(rules.apply(mapping(2, 1)))
    assert result["changed"] and rules.text() == TWO_TIERS
    assert [(found["code"], found["severity"]) for found in result["findings"] if found["severity"] == "error"] == [("R604", "error")]
    assert any(warning.startswith("R604") for warning in result["warnings"])


def test_the_documented_sample_is_refused_with_line_and_column_and_accepted_relaxed(rules: Rules, tmp_path: Path) -> None:
    file = tmp_path / "sample.yaml"
    file.write_text(DOCUMENTED.replace("mindie-service", rules.namespace))
    failed = rules.run(rule_file=str(file))
    assert failed["failed"] and failed["reason"] == "RuleRefused" and "R104" in failed["msg"]
    line, column = next((number, line.index("# Fixed")) for number, line in enumerate(DOCUMENTED.split("\n"), 1) if '"version"' in line)
    assert f"line {line}, column {column + 1}" in failed["msg"]
    result = succeeded(rules.run(rule_file=str(file), relaxed=True))
    assert rules.text() == TWO_TIERS.replace('"server_num_per_group": "1"', '"server_num_per_group": "2"')
    assert any("R502" in warning and '"{"' in warning for warning in result["warnings"])


def test_a_manifest_of_another_name_or_namespace_is_refused(rules: Rules) -> None:
    manifest = {"kind": "ConfigMap", "metadata": {"name": "other"}, "data": {"elastic_scaling.json": TWO_TIERS}}
    assert "metadata.name" in rules.apply(manifest)["msg"]
    manifest["metadata"] = {"name": "scaling-rule", "namespace": "elsewhere"}
    assert "metadata.namespace" in rules.apply(manifest)["msg"]
    assert rules.proxy.requests == []


@pytest.mark.parametrize("name", ["motor-config", "rings-config-mindie-server-p0", "Scaling-Rule", "x" * 64, "-x"])
def test_a_name_that_is_no_name_of_a_rule_is_refused(rules: Rules, name: str) -> None:
    for failed in (rules.apply(mapping(2, 1), name=name), rules.remove(name=name)):
        assert failed["failed"] and failed["reason"] == "InvalidInput" and name in failed["msg"]
    assert rules.proxy.requests == []


def test_a_rule_that_jobs_name_is_not_removed(rules: Rules) -> None:
    succeeded(rules.apply(mapping(2, 1)))
    for name in ("mindie-server-p0", "mindie-server-d0"):
        rules.job(name, group="group0" if "-p" in name else "group1")
    rules.job("another", group="group0", rule="another-rule")
    failed = rules.remove()
    assert failed["failed"] and failed["reason"] == "RuleInUse" and failed["paths"] == ["mindie-server-d0", "mindie-server-p0"]
    assert rules.proxy.mutating() == [] and rules.live() is not None
    rules.delete_jobs("mindie-server-p0", "mindie-server-d0")
    predicted = succeeded(rules.remove(check_mode=True, diff=True))
    assert rules.live() is not None and rules.proxy.mutating() == []
    removed = succeeded(rules.remove(diff=True))
    assert removed["actions"] == predicted["actions"] and rules.live() is None
    assert removed["diff"] == {"before": TWO_TIERS, "after": ""} == predicted["diff"]
    assert not removed["rule"]["present"] and not succeeded(rules.remove())["changed"]


def test_an_edit_between_read_and_write_is_never_overwritten_unseen(rules: Rules) -> None:
    succeeded(rules.apply(mapping(2, 1)))

    def edit(request: Request) -> None:
        rules.put(rules.text() or "", labels={"team": "b"})

    rules.proxy.fault(method="PUT", path="/configmaps/scaling-rule", call=edit, nth=1)
    result = succeeded(rules.apply(mapping(3, 1)))
    assert result["changed"]
    live = rules.live() or {}
    assert live["metadata"]["labels"]["team"] == "b", "the edit was read before the rule was written"
    assert '"group_num": "3"' in live["data"]["elastic_scaling.json"]


def test_of_two_writers_each_ends_and_the_rule_is_that_of_one_of_them_whole(rules: Rules) -> None:
    wanted = {prefill: mapping(prefill, 1) for prefill in (3, 4)}
    with ModuleProcess("motor_scaling_rule") as one, ModuleProcess("motor_scaling_rule") as other:
        runs = [process.start(**rules.options(rule=rule)) for process, rule in zip((one, other), wanted.values(), strict=True)]
        results = [succeeded(run.result()) for run in runs]
    assert all(result["changed"] for result in results)
    assert rules.text() in [text_of(rule) for rule in wanted.values()]
    for rule in wanted.values():
        succeeded(rules.apply(rule))
    assert rules.text() == text_of(wanted[4])


@pytest.mark.parametrize("when", [BEFORE, AFTER])
@pytest.mark.parametrize(("write", "done"), [(1, False), (2, False), (3, True)])
def test_a_run_that_is_killed_at_any_write_is_finished_by_the_same_task(rules: Rules, write: int, when: str, done: bool) -> None:
    """The writes are those of the lock, of the rule, and of the lock again; without any of them nothing has happened."""
    succeeded(rules.apply(mapping(2, 1)))
    with ModuleProcess("motor_scaling_rule") as process:
        trap = rules.proxy.fault(mutating=True, nth=write, call=lambda dummy: process.send(signal.SIGKILL), when=when, drop=when)
        with pytest.raises(RuntimeError, match="ended with -9"):
            process.start(**rules.options(rule=mapping(3, 1))).result()
    assert trap.seen == write
    rules.proxy.heal()
    done = done or (write == 2 and when == AFTER)
    assert rules.text() == text_of(mapping(3 if done else 2, 1))
    again = succeeded(rules.apply(mapping(3, 1)))
    assert again["changed"] != done and rules.text() == text_of(mapping(3, 1))
    assert not succeeded(rules.apply(mapping(3, 1)))["changed"] and rules.proxy.mutating() == []


def test_while_another_run_holds_the_lock_it_waits_and_then_says_who(rules: Rules) -> None:
    rules.lock("somebody@host/1")
    failed = rules.apply(mapping(2, 1), lock_timeout=1)
    assert failed["failed"] and failed["reason"] == "LockHeld" and "somebody@host/1" in failed["msg"]
    assert rules.live() is None


def test_an_unfinished_change_of_the_service_comes_first_unless_the_rule_is_the_same(rules: Rules) -> None:
    succeeded(rules.apply(mapping(2, 1)))
    rules.leave_intent("scale")
    failed = rules.apply(mapping(3, 1))
    assert failed["failed"] and failed["reason"] == "Unfinished" and "scale" in failed["msg"] and rules.text() == TWO_TIERS
    assert not succeeded(rules.apply(mapping(2, 1)))["changed"]
    assert rules.remove()["reason"] == "Unfinished"
    rules.leave_intent("rule")
    assert succeeded(rules.apply(mapping(3, 1)))["changed"], "an edit that was cut off blocks nothing"


@pytest.mark.parametrize("kind", ["configmaps", "ascendjobs", "podgroups", "pods", "leases"])
def test_what_may_not_be_read_is_named_and_never_taken_for_absent(rules: Rules, kind: str) -> None:
    succeeded(rules.apply(mapping(2, 1)))
    rules.proxy.fault(method="GET", path=f"/{kind}", status=403)
    for failed in (rules.apply(mapping(3, 1)), rules.remove()):
        assert failed["failed"] and failed["status"] == 403 and failed["reason"] == "Forbidden"
    assert rules.text() == TWO_TIERS


def test_without_the_right_to_read_nodes_the_rule_is_applied_with_a_warning(rules: Rules) -> None:
    rules.proxy.fault(method="GET", path="/api/v1/nodes", status=403)
    result = succeeded(rules.apply(mapping(2, 1)))
    assert rules.text() == TWO_TIERS and any("servers" in warning for warning in result["warnings"])


def test_a_lock_that_a_killed_edit_has_left_blocks_no_other_verb(rules: Rules) -> None:
    rules.leave_intent("rule")
    failed = run_module(
        "motor_instance_scale", kubeconfig=rules.proxy.kubeconfig, namespace=rules.namespace, instances={"prefill": 1, "decode": 1}
    )
    assert failed["reason"] == "NotDeployed", "it gets as far as on a namespace without the intent"


def test_a_controller_that_goes_on_by_an_old_rule_is_told_as_soon_as_the_rule_changes(rules: Rules) -> None:
    rules.controller("mindie-ms-controller-0")
    time.sleep(1.1)  # times of the API server have whole seconds
    for result in (rules.apply(mapping(2, 1), check_mode=True), rules.apply(mapping(2, 1)), rules.apply(mapping(2, 1))):
        (warning,) = [warning for warning in succeeded(result)["warnings"] if "R701" in warning]
        assert "mindie-ms-controller-0" in warning and "Restart" in warning


def test_jobs_that_the_rule_does_not_fit_are_told_and_it_is_applied(rules: Rules) -> None:
    rules.job("mindie-server-p0", group="group0", pods=3)
    rules.job("mindie-server-d0", group="group1", **{"mind-cluster/scaling-rule": "scaling-rules"})
    result = succeeded(rules.apply(mapping(2, 1)))
    codes = {finding["code"] for finding in result["findings"]}
    assert {"R621", "R612"} <= codes and rules.text() == TWO_TIERS
    told = " ".join(result["warnings"])
    assert "mindie-server-d0" in told and 'nearest: "scaling-rule"' in told
