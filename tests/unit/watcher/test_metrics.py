# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The metrics of the watcher: what they say, and that they are as Prometheus wants them."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from rescheduling_watcher import metrics
from rescheduling_watcher.metrics import Counters, render
from rescheduling_watcher.settings import ACTS

from tests.support import watcher_report as reports

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def series(report: dict[str, Any], counters: Counters | None = None) -> Series:
    """All samples by name and labels, read by the library of Prometheus. The same series twice is an error."""
    found: Series = {}
    for family in text_string_to_metric_families(render(report, counters or Counters())):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found, key
            found[key] = sample.value
    return found


def value(report: dict[str, Any], name: str, counters: Counters | None = None, **labels: str) -> float | None:
    return series(report, counters).get((name, frozenset(labels.items())))


def names(report: dict[str, Any]) -> set[str]:
    return {name for name, dummy in series(report)}


def test_instances_are_counted_by_state_and_states_without_any_are_zero() -> None:
    found = {
        state: value(reports.faulty(), "motor_watcher_instances", namespace="chat", engine_role="prefill", state=state)
        for state in metrics.STATES
    }
    assert found == {**dict.fromkeys(metrics.STATES, 0), "running": 2, "held": 1, "starting": 1}


def test_an_engine_role_of_the_baseline_without_instances_is_there() -> None:
    service = reports.service("chat", [reports.instance("prefill", 0)], baseline={"prefill": 1, "decode": 2})
    report = reports.report([service])
    assert value(report, "motor_watcher_instances", namespace="chat", engine_role="decode", state="running") == 0
    assert value(report, "motor_watcher_baseline_instances", namespace="chat", engine_role="decode") == 2


def test_the_longest_hold_counts() -> None:
    service = reports.service(
        "chat",
        [
            reports.instance("prefill", 0, "held", since="2026-11-30T14:59:00Z"),
            reports.instance("prefill", 1, "held", since="2026-11-30T14:50:00Z"),
            reports.instance("prefill", 2, "pending", since="2026-11-30T10:00:00Z"),
        ],
    )
    assert value(reports.report([service]), "motor_watcher_held_seconds", namespace="chat", engine_role="prefill") == 600


@pytest.mark.parametrize("since", ["", "yesterday"])
def test_a_time_that_is_not_known_has_no_sample(since: str) -> None:
    service = reports.service("chat", [reports.instance("prefill", 0, "held", since=since)])
    assert "motor_watcher_held_seconds" not in names(reports.report([service]))


def test_where_nothing_is_held_no_time_is_told() -> None:
    assert "motor_watcher_held_seconds" not in names(reports.well())


@pytest.mark.parametrize(
    ("now", "possible", "servers", "expected"),
    [
        (0, 0, True, (0, 0)),
        (2, 1, True, (2, 1)),
        (None, 3, True, (4, 3)),
        (None, None, True, (4, 4)),
        (None, None, False, (4, None)),
        (3, None, True, (3, None)),
    ],
)
def test_tiers_are_numbers_and_unknown_ones_are_absent(
    now: int | None, possible: int | None, servers: bool, expected: tuple[int, int | None]
) -> None:
    task = reports.task(reports.TIERS, now, possible, {"g0": 1})
    report = reports.report([reports.service("chat", [], [task])], [reports.server(0)] if servers else [])
    labels = {"namespace": "chat", "rule": "scaling-rule", "task": "chat"}
    found = value(report, "motor_watcher_tier", **labels), value(report, "motor_watcher_tier_possible", **labels)
    assert found == expected and value(report, "motor_watcher_tiers", **labels) == 4


def test_of_a_rule_that_cannot_be_read_no_tier_is_told() -> None:
    report = reports.faulty()
    labels = {"namespace": "search", "rule": "scaling-rule", "task": "search"}
    assert value(report, "motor_watcher_rule_readable", **labels) == 0
    assert value(report, "motor_watcher_rule_would_crash_operator", **labels) == 1
    assert value(report, "motor_watcher_rule_findings", **labels, severity="error") == 1
    assert value(report, "motor_watcher_rule_findings", **labels, severity="warning") == 0
    assert value(report, "motor_watcher_tier", **labels) is None and value(report, "motor_watcher_tiers", **labels) is None


def test_each_npu_is_counted_once() -> None:
    report = reports.faulty()
    found = {state: value(report, "motor_watcher_npus", state=state) for state in ("used", "reserved", "free", "unhealthy", "closed")}
    assert found == {"used": 67, "reserved": 22, "free": 13, "unhealthy": 2, "closed": 8}
    assert sum(number or 0 for number in found.values()) == sum(server["npus"] for server in report["servers"])
    assert value(report, "motor_watcher_healthy_npus") == sum(server["healthy"] for server in report["servers"])


def test_servers_are_counted_by_state() -> None:
    found = {state: value(reports.faulty(), "motor_watcher_servers", state=state) for state in ("ready", "cordoned", "not_ready")}
    assert found == {"ready": 10, "cordoned": 1, "not_ready": 1}


def test_a_pod_that_ends_on_a_server_that_is_not_ready_is_stuck() -> None:
    assert value(reports.faulty(), "motor_watcher_stuck_pods", namespace="search") == 1
    assert value(reports.faulty(), "motor_watcher_stuck_pods", namespace="chat") == 0
    ending = reports.report(servers=[reports.server(0, [reports.pod("chat", "p0", state="terminating")])])
    assert "motor_watcher_stuck_pods" not in names(ending)


def test_nothing_is_said_of_the_cluster_before_the_caches_are_filled() -> None:
    report = reports.faulty()
    report["program"]["synced"] = False
    found = names(report)
    assert not [name for name in found if re.search("instances|tier|npus|servers|rule|services|stuck|held|control", name)]
    assert value(report, "motor_watcher_synced", program_namespace="mindie-system", program="rescheduling-watcher") == 0
    assert "motor_watcher_watch_synced" in found


def test_an_empty_report_is_no_error() -> None:
    assert names({}) == {name for name in names({}) if name.startswith(("motor_watcher_repairs_total", "motor_watcher_decision_seconds"))}


def test_who_leads_and_what_is_switched_on() -> None:
    report = reports.well()
    assert value(report, "motor_watcher_leader", program_namespace="mindie-system", program="rescheduling-watcher") == 1
    assert value(report, "motor_watcher_enabled", act="nudge") == 1
    assert value(report, "motor_watcher_enabled", act="restore_missing") == 0
    assert value(report, "motor_watcher_build_info", version="1.0.0") == 1


def test_repairs_are_counted_by_outcome_from_zero_on() -> None:
    counters = Counters()
    zero = {
        (act, outcome): value({}, "motor_watcher_repairs_total", counters, act=act, outcome=outcome)
        for act in ACTS
        for outcome in metrics.OUTCOMES
    }
    assert set(zero.values()) == {0}
    for outcome in ("done", "done", "failed: 403 Forbidden", "given up"):
        counters.repair("nudge", outcome)
    found = [value({}, "motor_watcher_repairs_total", counters, act="nudge", outcome=outcome) for outcome in ("done", "failed", "given_up")]
    assert found == [2, 1, 1]


def test_watches_are_told_and_what_was_never_heard_is_absent() -> None:
    report = reports.faulty()
    labels = {"kind": "PodGroup", "namespace": "search"}
    assert value(report, "motor_watcher_watch_failing", **labels) == 1 and value(report, "motor_watcher_watch_synced", **labels) == 0
    assert value(report, "motor_watcher_watch_silent_seconds", **labels) is None
    assert value(report, "motor_watcher_watch_restarts_total", kind="Pod", namespace="chat") == 3
    assert value(report, "motor_watcher_watch_silent_seconds", kind="Node", namespace="") == 1.2


def test_decisions_are_a_histogram() -> None:
    counters = Counters()
    for seconds in (0.004, 0.005, 0.15, 0.2, 3.0, 60.0):
        counters.decisions.observe(seconds)
    name = "motor_watcher_decision_seconds"
    found = {bound: value({}, f"{name}_bucket", counters, le=bound) for bound in ("0.005", "0.1", "0.2", "5", "10", "+Inf")}
    assert found == {"0.005": 2, "0.1": 2, "0.2": 4, "5": 5, "10": 5, "+Inf": 6}
    assert value({}, f"{name}_count", counters) == 6 and value({}, f"{name}_sum", counters) == pytest.approx(63.359)


def test_observations_of_many_threads_are_all_counted() -> None:
    counters = Counters()
    threads = [threading.Thread(target=lambda: [counters.decisions.observe(0.1) for dummy in range(2000)]) for dummy in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counters.decisions.cumulated()[0][-1] == ("+Inf", 8000)


def test_label_values_are_escaped() -> None:
    evil = 'a"b\\nc\nd{}=,\\'
    report = reports.report([reports.service(evil, [reports.instance("prefill", 0)], [reports.task(reports.TIERS, 0, 0, {}, rule=evil)])])
    assert value(report, "motor_watcher_instances", namespace=evil, engine_role="prefill", state="running") == 1
    assert value(report, "motor_watcher_tier", namespace=evil, rule=evil, task="chat") == 0


def test_the_number_of_series_of_a_namespace_is_bounded_and_the_worst_rules_are_told() -> None:
    tasks = [reports.task(reports.TIERS, 0, 0, {}, rule=f"rule-{index}", crashes=index == 499) for index in range(500)]
    report = reports.report([reports.service("chat", [], tasks)])
    assert len(series(report)) < 400
    assert value(report, "motor_watcher_rule_would_crash_operator", namespace="chat", rule="rule-499", task="chat") == 1
    assert value(report, "motor_watcher_tasks", namespace="chat") == 500


def test_series_grow_with_services_and_not_with_instances_or_servers() -> None:
    assert len(series(reports.large(3, 12, 1))) == len(series(reports.large(3, 1000, 1)))


# What the documentation of Prometheus asks of names: base units, _total for counters and nothing else, suffixes that are not taken.
def test_names_are_as_prometheus_wants_them() -> None:
    for family in text_string_to_metric_families(render(reports.faulty(), Counters())):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert re.fullmatch(r"motor_watcher_[a-z]+(_[a-z]+)*", name), name
        assert family.type in ("gauge", "counter", "histogram"), name
        assert family.documentation and family.documentation.endswith("."), name
        assert not re.search(r"_(count|sum|bucket|ms|milliseconds|minutes|hours|percent|gauge|counter)$", family.name), name
        assert ("total" in name.split("_")) == (family.type == "counter"), name
        assert "_seconds" not in name or name.endswith("_seconds"), name
        for sample in family.samples:
            assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", label) for label in sample.labels), sample


def test_every_family_is_written_once_and_in_one_piece() -> None:
    text = render(reports.faulty(), Counters())
    heads = re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)
    assert len(heads) == len(set(heads)) and text.endswith("\n")
    assert {family.name for family in metrics.FAMILIES} | {metrics.DECISIONS} == set(heads)
    current = ""
    for line in text.splitlines():
        current = line.split()[2] if line.startswith("#") else current
        assert line.startswith(("#", current)), line
