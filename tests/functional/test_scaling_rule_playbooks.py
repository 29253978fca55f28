# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks scaling_rule and simulate: the rule of an inventory applied, and its simulation written beside its page."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.functional.rules import TWO_TIERS, Rules
from tests.support.playbooks import PlaybookFailed, run

SERVERS = {"a3_servers": {"hosts": {f"server-{index}": {} for index in range(3)}}}


def inventory(namespace: str, *, servers: dict[str, Any] | None = None, **variables: Any) -> dict[str, Any]:
    """One service, and the servers beside it."""
    hosts = {"one": {"mindie_namespace": namespace, **variables}}
    return {"all": {"children": {"motor_services": {"hosts": hosts}, **(SERVERS if servers is None else servers)}}}


def test_the_rule_is_made_from_counts_and_servers_of_the_inventory(rules: Rules) -> None:
    given = inventory(rules.namespace, p_instances_num=2, d_instances_num="1")
    predicted = run("scaling_rule", given, rules.proxy.kubeconfig, check=True)
    assert rules.live() is None and [action["name"] for action in predicted.actions] == ["scaling-rule"]
    assert run("scaling_rule", given, rules.proxy.kubeconfig).actions == predicted.actions
    assert rules.text() == TWO_TIERS
    wish = {"minimum": {"prefill": 3}, "servers": 4}
    run(
        "scaling_rule",
        inventory(rules.namespace, mindie_instances={"prefill": 3, "decode": 1}, mindie_rule_synthesize=wish),
        rules.proxy.kubeconfig,
    )
    assert rules.tiers() == [{"group0": 3, "group1": 1}]


def test_a_rule_of_the_inventory_is_applied_and_removed(rules: Rules, tmp_path: Path) -> None:
    file = tmp_path / "rule.json"
    file.write_text("# all of it\n" + TWO_TIERS)
    given = inventory(rules.namespace, servers={}, mindie_rule_file=str(file))
    with pytest.raises(PlaybookFailed, match="R104"):
        run("scaling_rule", given, rules.proxy.kubeconfig)
    run("scaling_rule", given, rules.proxy.kubeconfig, mindie_rule_relaxed=True)
    assert rules.text() == TWO_TIERS
    run("scaling_rule", given, rules.proxy.kubeconfig, mindie_state="absent")
    assert rules.live() is None


@pytest.mark.parametrize(
    ("namespace", "servers", "said"),
    [("", SERVERS, "mindie_namespace"), ("mindie-motor", {**SERVERS, "a2_servers": {"hosts": {"x": {}}}}, "hardware: A3")],
)
def test_what_the_inventory_does_not_say_is_named(namespace: str, servers: dict[str, Any], said: str) -> None:
    with pytest.raises(PlaybookFailed, match=said):
        run("scaling_rule", inventory(namespace, servers=servers, p_instances_num=2, d_instances_num=1), os.devnull)


def test_a_simulation_needs_no_cluster_and_is_written_with_its_page(tmp_path: Path) -> None:
    given = inventory("mindie-motor", p_instances_num=2, d_instances_num=1)
    folder = str(tmp_path)
    outcome = run("simulate", given, os.devnull, mindie_simulate_folder=folder, mindie_simulate_failures=2)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["one-simulation.html", "one-simulation.json"]
    written = json.loads((tmp_path / "one-simulation.json").read_text())
    (result,) = outcome.results
    assert written["simulation"] == result["simulation"] and written["findings"] == []
    assert [level["worst"]["tier"] for level in written["simulation"]["levels"]] == [0, 1, None]
    assert {server["name"] for server in written["simulation"]["servers"]} == {"server-0", "server-1", "server-2"}
    page = (tmp_path / "one-simulation.html").read_text()
    assert page == result["html"] and page.lower().startswith("<!doctype html>") and "server-0" in page
