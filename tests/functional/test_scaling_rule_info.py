# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What motor_scaling_rule_info says of a live rule and its jobs, and of a given one without any cluster."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from tests.functional.rules import DOCUMENTED, TWO_TIERS, Rules, mapping
from tests.functional.test_modules import succeeded
from tests.support.modules import run_module, run_offline


def offline(**options: Any) -> dict[str, Any]:
    """Run the module where there is no library kubernetes and no way to connect."""
    return run_offline("motor_scaling_rule_info", **options)


def test_without_a_namespace_no_connection_is_opened_and_kubernetes_is_not_imported() -> None:
    result = succeeded(offline(rule=mapping(2, 1), running={"group0": 1, "group1": 1}))
    counted = {"job_id": "", "running": {"group0": 1, "group1": 1}, "tier": 0}
    assert result["rule"]["text"] == TWO_TIERS and result["tasks"] == [{**counted, "tier_now": 1, "tier_possible": None}]
    answers = {job["group"]: (job["may_create"], job["why"]) for job in result["jobs"]}
    assert answers["group0"] == (True, "tier 0 asks for 2 instances of group0, 1 run")
    assert not answers["group1"][0] and "waits for group0 (1 of 2)" in answers["group1"][1]
    assert result["requests"] == 0 and not result["changed"]


def test_a_module_that_needs_the_cluster_says_that_the_library_is_missing() -> None:
    failed = offline(namespace="somewhere", kubeconfig="/dev/null")
    assert failed["failed"] and "kubernetes" in failed["msg"] and "Traceback" not in failed["msg"]


@pytest.mark.parametrize(
    ("running", "tier", "creating", "crashing"),
    [
        ({}, 1, {"group0", "group1"}, set()),
        ({"group0": 1}, 1, {"group1"}, set()),
        ({"group0": 2, "group1": 1}, -1, set(), set()),
        ({"group0": 2, "other": 0}, 1, {"group1"}, {"other"}),
    ],
)
def test_the_tier_and_the_answers_are_those_of_the_operator(
    running: dict[str, int], tier: int, creating: set[str], crashing: set[str]
) -> None:
    result = succeeded(run_module("motor_scaling_rule_info", rule=mapping(2, 1), running=running))
    assert [task["tier"] for task in result["tasks"]] == [tier]
    assert {job["group"] for job in result["jobs"] if job["may_create"]} == creating
    assert {job["group"] for job in result["jobs"] if job["crashes"]} == crashing


def test_a_broken_rule_is_shown_with_its_findings_and_holds_every_job() -> None:
    result = succeeded(run_module("motor_scaling_rule_info", rule=DOCUMENTED, name="scaling-rule"))
    assert result["findings"][0]["code"] == "R104" and result["findings"][0]["line"] == 5
    assert result["rule"]["present"] and result["rule"]["text"] == "" and [task["tier"] for task in result["tasks"]] == [None]
    assert succeeded(run_module("motor_scaling_rule_info", rule=DOCUMENTED, relaxed=True))["rule"]["groups"] == ["group0", "group1"]


def test_tiers_that_the_servers_can_never_hold_are_found_offline() -> None:
    codes, possible = {}, {}
    for servers in (1, 2, 3):
        result = succeeded(run_module("motor_scaling_rule_info", rule=mapping(2, 1), inventory={"servers": servers, "hardware": "A3"}))
        codes[servers] = [finding["code"] for finding in result["findings"]]
        possible[servers] = result["tasks"][0]["tier_possible"]
    assert codes == {1: ["R623"], 2: ["R622"], 3: []} and possible == {1: None, 2: 1, 3: 0}


def test_failures_are_simulated_offline_for_servers_by_number_and_by_name() -> None:
    by_number = succeeded(offline(rule=mapping(2, 1), inventory={"servers": 3, "hardware": "A3"}, simulate={"failures": 2}))["simulation"]
    assert [level["failures"] for level in by_number["levels"]] == [0, 1, 2]
    assert [level["worst"]["tier"] for level in by_number["levels"]] == [0, 1, None]
    named = [{"name": f"node-{index}"} for index in range(3)]
    by_name = succeeded(offline(rule=mapping(2, 1), inventory={"servers": named, "hardware": "A3"}, simulate={"failures": 1}))["simulation"]
    assert [server["name"] for server in by_name["servers"]] == ["node-0", "node-1", "node-2"]
    assert by_name["levels"][1]["worst"]["running"] == {"group0": 1, "group1": 1}
    half = succeeded(
        offline(
            rule=mapping(2, 1),
            inventory={"servers": 2, "hardware": "A3"},
            shapes=[{"group": "group0", "pods": 1, "npus_per_pod": 8}],
            simulate={},
        )
    )["simulation"]
    assert half["levels"][0]["worst"]["tier"] == 0, "two prefill instances share a server"
    made = {"servers": 3, "hardware": "A3", "instances": {"prefill": 2, "decode": 1}}
    assert succeeded(offline(synthesize=made, simulate={}))["simulation"]["levels"][0]["worst"]["tier"] == 0


def test_the_page_is_returned_when_asked_for_and_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"rule": mapping(2, 1), "inventory": {"servers": 3, "hardware": "A3"}, "simulate": {}}
    assert "html" not in succeeded(run_module("motor_scaling_rule_info", **given))
    pages = [succeeded(run_module("motor_scaling_rule_info", **given, html=True, language=language))["html"] for language in ("en", "zh")]
    assert all(page.startswith("<!DOCTYPE html>") and "<svg" in page and "server-2" in page for page in pages)
    assert 'lang="en"' in pages[0] and 'lang="zh' in pages[1]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "namespace"),
        ({"rule": mapping(2, 1), "simulate": {}}, "inventory"),
        ({"rule": mapping(2, 1), "simulate": {}, "inventory": {"servers": 2}}, "hardware"),
        ({"rule": mapping(2, 1), "simulate": {}, "inventory": {"servers": "2", "hardware": "A2"}}, "inventory.servers"),
        ({"rule": mapping(2, 1), "simulate": {"failures": -1}, "inventory": {"servers": 2, "hardware": "A2"}}, "failures"),
        ({"rule": mapping(2, 1), "running": {"group0": 1.5}}, "running.group0"),
        ({"rule": mapping(2, 1), "html": True}, "simulate"),
        ({"rule": mapping(2, 1), "simulate": {}, "inventory": {"servers": 2, "hardware": "A2"}, "running": {"group0": 3}}, "room for 2"),
        ({"namespace": "x", "running": {"group0": 1}}, "leave running out"),
        ({"namespace": "x", "inventory": {"servers": 2, "hardware": "A2"}}, "leave inventory out"),
        (
            {
                "rule": mapping(2, 1),
                "inventory": {"servers": 2, "hardware": "A2"},
                "shapes": [{"group": "x", "pods": 1, "npus_per_pod": 1}],
            },
            "no group x",
        ),
    ],
)
def test_a_bad_option_is_named(options: dict[str, Any], said: str) -> None:
    failed = run_module("motor_scaling_rule_info", **options)
    assert failed["failed"] and failed["reason"] == "InvalidInput" and said in failed["msg"]


@pytest.mark.parametrize(("rule", "code"), [("{", "R102"), ("{}", "R111"), (DOCUMENTED, "R104")])
def test_a_broken_rule_is_not_simulated_and_its_findings_are_told(rule: str, code: str) -> None:
    failed = run_module("motor_scaling_rule_info", rule=rule, simulate={}, inventory={"servers": 2, "hardware": "A2"})
    assert failed["failed"] and failed["reason"] == "RuleRefused" and "is not simulated, because of 1 error:" in failed["msg"]
    assert code in failed["msg"] and [finding["code"] for finding in failed["findings"]] == [code]


def answers(result: dict[str, Any]) -> dict[str, tuple[bool, str]]:
    return {job["name"].removeprefix("mindie-server-"): (job["may_create"], job["why"]) for job in succeeded(result)["jobs"]}


def test_each_live_job_is_told_whether_it_may_create_pods_and_why_not(rules: Rules) -> None:
    succeeded(rules.apply(mapping(2, 1)))
    rules.job("mindie-server-p0", group="group0")
    rules.until("mindie-server-p0", "Running")
    rules.job("mindie-server-p1", group="group0")
    rules.until("mindie-server-p1", "Inqueue")
    rules.job("mindie-server-d0", group="group1", pods=99)
    rules.until("mindie-server-d0", "Pending")
    result = rules.info()
    assert rules.proxy.mutating() == []
    counted = {"job_id": rules.namespace, "running": {"group0": 1}, "tier": 1}
    assert result["tasks"] == [{**counted, "tier_now": None, "tier_possible": None}], "no servers have room for 99 pods"
    assert answers(result) == {
        "p0": (False, "it has all its 1 pods and needs no more"),
        "p1": (False, "tier 1 has its 1 instances of group0 and waits for group1 (0 of 1)"),
        "d0": (
            False,
            "its PodGroup is Pending, as not enough NPUs are free (or its queue is not open): the operator does not even ask the rule",
        ),
    }
    what_if = rules.info(rule=mapping(2, 0))
    assert answers(what_if)["p1"] == (True, "tier 0 asks for 2 instances of group0, 1 run")
    rules.delete_jobs("mindie-server-d0")
    rules.job("mindie-server-d1", group="group1")
    for name in ("mindie-server-d1", "mindie-server-p1"):
        rules.until(name, "Running")
    assert [(task["tier"], task["tier_now"], task["tier_possible"]) for task in succeeded(rules.info())["tasks"]] == [(-1, 0, 0)]


def test_a_live_rule_that_is_broken_or_absent_is_told_as_such(rules: Rules) -> None:
    absent = succeeded(rules.info())
    assert "no rule in this namespace" in rules.info(simulate={})["msg"]
    assert not absent["rule"]["present"] and absent["tasks"] == [] and absent["jobs"] == []
    rules.put("# a comment\n" + TWO_TIERS)
    rules.job("mindie-server-p0", group="group0")
    rules.until("mindie-server-p0", "Inqueue")
    broken = succeeded(rules.info())
    assert broken["rule"]["present"] and [finding["code"] for finding in broken["findings"]] == ["R104"]
    assert answers(broken) == {"p0": (False, "the operator refuses the rule, so that it holds every job")}
    what_if = succeeded(rules.info(rule=mapping(2, 1)))
    assert answers(what_if)["p0"][0] and what_if["rule"]["text"] == TWO_TIERS
    succeeded(rules.apply(mapping(2, 1)))
    rules.until("mindie-server-p0", "Running")


def test_the_cluster_tells_what_servers_and_shapes_there_are(rules: Rules) -> None:
    succeeded(rules.apply(mapping(2, 1)))
    for name, group in (("p0", "group0"), ("p1", "group0"), ("d0", "group1")):
        rules.job(f"mindie-server-{name}", group=group, npus=8)
    simulation = succeeded(rules.info(simulate={"failures": 1}))["simulation"]
    assert {server["npus"] for server in simulation["servers"]} == {8, 16}
    assert {shape["group"]: shape["npus_per_pod"] for shape in simulation["shapes"]} == {"group0": 8, "group1": 8}


def test_a_cluster_without_ascend_jobs_has_none(rules: Rules) -> None:
    """The answer of a server that does not know a kind is not that of one that has no objects of it."""
    rules.proxy.fault(method="GET", path="/ascendjobs|/podgroups", status=404)
    result = succeeded(rules.info())
    assert result["jobs"] == [] and result["tasks"] == []


def test_the_module_says_where_the_server_cannot_be_reached() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    failed = run_module("motor_scaling_rule_info", namespace="x", host=f"https://127.0.0.1:{port}", api_key="x", validate_certs=False)
    assert failed["failed"] and failed["reason"] in ("Unreachable", "NoConfiguration")
