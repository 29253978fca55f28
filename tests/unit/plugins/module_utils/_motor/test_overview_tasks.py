# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tasks under scaling rules: the tier that runs, the one that servers have room for, what is wrong, and what would crash the operator."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor.capacity import Server
from ansible_collections.ascend.mindie.plugins.module_utils._motor.overview_details import service_report
from ansible_collections.ascend.mindie.plugins.module_utils._motor.servers import servers
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot
from tests.unit.plugins.module_utils._motor import services
from tests.unit.plugins.module_utils._motor.job_services import NAMESPACE, RULE, job, node, pod, pod_group, rule, snapshot

TWO_TIERS = rule((2, 1), (1, 1))
SHORT = ("p0", "p1", "d0")


def task(found: Snapshot, *, known: bool = True) -> dict[str, Any]:
    """The one task of a snapshot."""
    nodes = [item for item in found.nodes.values() if item]
    (shown,) = service_report(found, servers=servers(nodes, found.pods) if known else None)["tasks"]
    return shown


def placed(on: dict[str, str], *, nodes: Any = (), rules: Any = (TWO_TIERS,), all_jobs: tuple[str, ...] = SHORT) -> Snapshot:
    """Jobs of which those in `on` run, each on its node."""
    jobs = {short: job(short) for short in all_jobs}
    groups = [pod_group(found, "Running" if short in on else "Inqueue") for short, found in jobs.items()]
    return snapshot(jobs.values(), groups, [pod(jobs[short], called) for short, called in on.items()], nodes=nodes, rules=rules)


A, B, C, D = (node(called) for called in "abcd")


@pytest.mark.parametrize(
    ("on", "nodes", "now", "possible"),
    [
        ({"p0": "a", "p1": "b", "d0": "c"}, [A, B, C], 0, 0),
        ({"p0": "a", "d0": "c"}, [A, B, C], 1, 0),
        ({"p0": "a", "d0": "c"}, [A, C], 1, 1),
        ({"p0": "a"}, [A, B], None, 1),
        ({"p0": "a"}, [A], None, None),
        ({}, [A, B, C], None, 0),
        ({"p0": "a", "d0": "c"}, [A, node("b", healthy=4), C], 1, 1),
        ({"p0": "a", "d0": "c"}, [A, node("b", ready="False"), C], 1, 1),
        ({"p0": "a", "d0": "c"}, [A, node("b", unschedulable=True), C], 1, 1),
        ({"p0": "a", "d0": "c"}, [node("a", unschedulable=True), B, C], 1, 0),
        ({"p0": "a", "d0": "c"}, [node("a", ready="Unknown"), B, C, D], 1, 0),
    ],
)
def test_the_tier_that_runs_and_the_one_that_healthy_servers_have_room_for(
    on: dict[str, str], nodes: Any, now: int | None, possible: int | None
) -> None:
    shown = task(placed(on, nodes=nodes))
    assert (shown["tier_now"], shown["tier_possible"]) == (now, possible)
    assert shown["tiers"] == [{"g0": 2, "g1": 1}, {"g0": 1, "g1": 1}] and shown["groups"] == {"g0": "prefill", "g1": "decode"}


def test_without_servers_nothing_is_said_of_what_is_possible() -> None:
    found = placed({"p0": "a"}, nodes=[A])
    assert task(found, known=False)["tier_possible"] is None
    assert "R623" in {row["code"] for row in task(found)["findings"]} and not [
        row for row in task(found, known=False)["findings"] if row["code"] in ("R622", "R623")
    ]


def test_pods_of_others_leave_less_room() -> None:
    found = placed({"p0": "a", "d0": "b"}, nodes=[A, B, C])
    other = pod(job("p9", rule="other"), "c")
    other["metadata"]["namespace"] = "elsewhere"
    (shown,) = service_report(found, servers=servers([A, B, C], [*found.pods, other]))["tasks"]
    assert shown["tier_possible"] == 1


def test_a_group_without_jobs_has_the_size_that_motor_config_says() -> None:
    config = services.user_config(prefill=2, decode=1, deploy_mode="multi_deployment")
    settings = {"scaling_rule": RULE, "groups": {"prefill": "g0", "decode": "g1"}, "name_prefix": "mindie-server"}
    config_map = services.config_map(config)
    config_map["metadata"]["annotations"]["ascend.mindie/ascend-jobs"] = json.dumps(settings)
    found = placed({"p0": "a"}, nodes=[A, B, node("big", npus=16)], all_jobs=("p0", "p1"))
    assert task(found)["tier_possible"] is None, "nobody knows how large an instance of g1 is"
    assert task(replace(found, config_map=config_map))["tier_possible"] == 0, "16 NPUs, as the user config says"


def test_servers_that_do_not_fit_what_runs_say_nothing() -> None:
    found = placed({"p0": "a", "d0": "a"}, nodes=[A])
    (shown,) = service_report(found, servers=[Server("a", 8)])["tasks"]
    assert shown["tier_possible"] is None


def test_a_rule_that_cannot_be_read_and_one_that_is_not_there() -> None:
    broken = task(placed({}, nodes=[A], rules=[rule(text="{ # comment")]))
    assert (broken["present"], broken["readable"], broken["tiers"], broken["tier_now"], broken["tier_possible"]) == (
        True,
        False,
        [],
        None,
        None,
    )
    assert [row["code"] for row in broken["findings"]] == ["R104"]
    empty = {"kind": "ConfigMap", "metadata": {"name": RULE, "namespace": NAMESPACE}}
    assert [row["code"] for row in task(placed({}, rules=[empty]))["findings"]] == ["R101"]
    absent = task(placed({}, rules=[]))
    assert (absent["present"], absent["readable"], absent["findings"]) == (False, False, [])


@pytest.mark.parametrize(
    ("group", "tiers", "crashing"),
    [
        ("g0", [{"g0": 1, "g1": 1}], False),
        ("G0", [{"g0": 1, "g1": 1}], True),
        ("g0", [{"g0": 2, "g1": 1}, {"g1": 1}], True),
        ("g1", [{"g0": 2, "g1": 1}, {"g1": 1}], False),
        ("g0", [{"g0": 1, "g1": 1}, {"g1": 0}], False),
    ],
    ids=["as it should be", "misspelt", "omitted", "of the group that is there", "omitted where no tier counts"],
)
def test_jobs_that_would_crash_the_operator_are_named(group: str, tiers: list[dict[str, int]], crashing: bool) -> None:
    rows = [[{"group_name": name, "group_num": str(n), "server_num_per_group": "1"} for name, n in tier.items()] for tier in tiers]
    text = json.dumps({"version": "1.0", "elastic_scaling_list": [{"group_list": row} for row in rows]})
    own = job("p0", group=group)
    shown = task(snapshot([own], [pod_group(own, "Running")], [pod(own, "a")], rules=[rule(text=text)], nodes=[A]))
    assert (shown["crashes"], shown["crashing_jobs"]) == (crashing, ["mindie-server-p0"] if crashing else [])
    codes = {row["code"] for row in shown["findings"]}
    assert bool(codes & {"R601", "R602", "R201"}) is crashing or group == "g1"
    going = job("p0", group=group, deletionTimestamp="2026-11-30T11:00:00Z")
    assert not task(snapshot([going], rules=[rule(text=text)]))["crashes"]


def test_jobs_of_several_rules_and_tasks_are_told_apart() -> None:
    other, second = job("p1", rule="other-rule"), job("d0")
    second["metadata"]["labels"]["jobID"] = "second"
    groups = [pod_group(job("p0"), "Running"), pod_group(other, "Running"), pod_group(second, "Running")]
    found = snapshot([job("p0"), other, second], groups, rules=[TWO_TIERS, rule((1, 0), called="other-rule")])
    shown = {(row["rule"], row["task"]): (row["running"], row["tier_now"]) for row in service_report(found)["tasks"]}
    assert shown == {
        ("other-rule", NAMESPACE): ({"g0": 1}, 0),
        (RULE, NAMESPACE): ({"g0": 1}, None),
        (RULE, "second"): ({"g1": 1}, None),
    }


def test_a_rule_without_jobs_and_a_task_of_which_only_pod_groups_are_left_are_shown() -> None:
    shown = task(snapshot([], rules=[TWO_TIERS]))
    assert (shown["task"], shown["readable"], shown["running"]) == ("", True, {})
    left = task(snapshot([], [pod_group(job("p0"), "Running")], rules=[TWO_TIERS]))
    assert (left["task"], left["running"]) == (NAMESPACE, {"g0": 1})


def test_an_instance_that_is_being_stopped_keeps_no_place() -> None:
    found = placed({"p0": "a", "d0": "c"}, nodes=[node("a", unschedulable=True), C])
    assert task(found)["tier_possible"] == 1
    stopped = [pod(job("p0"), "a", leaving=True), pod(job("d0"), "c")]
    assert task(replace(found, pods=tuple(stopped)))["tier_possible"] is None
