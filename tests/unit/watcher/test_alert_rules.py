# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The alert rules: what they ask for is what the watcher tells, and they fire when they should."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from rescheduling_watcher import metrics

RULES = Path(__file__).parents[3] / "roles" / "motor_rescheduling_watcher" / "files" / "alert_rules.yml"
(GROUP,) = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
ALERTS: list[dict[str, Any]] = GROUP["rules"]
IDS = [alert["alert"] for alert in ALERTS]
LABELS = {family.name: set(family.labels) for family in metrics.FAMILIES} | {f"{metrics.DECISIONS}_bucket": {"le"}}
# What a label can be, where that is a fixed list.
VALUES = {
    "state": {*metrics.STATES, "ready", "cordoned", "not_ready"},
    "severity": set(metrics.SEVERITIES),
    "outcome": set(metrics.OUTCOMES),
}
PROMTOOL = shutil.which("promtool")


def asked(expression: str) -> dict[str, dict[str, str]]:
    """The metrics of an expression, with the labels that have to have certain values."""
    found = re.findall(r"(motor_watcher_[a-z_]+)(?:\{([^}]*)\})?", expression)
    return {name: dict(re.findall(r'([a-z_]+)="([^"]*)"', matchers)) for name, matchers in found}


@pytest.mark.parametrize("alert", ALERTS, ids=IDS)
def test_every_metric_and_label_of_an_alert_is_one_of_the_watcher(alert: dict[str, Any]) -> None:
    found = asked(alert["expr"])
    assert found
    for name, matchers in found.items():
        assert name in LABELS, name
        assert set(matchers) <= LABELS[name]
        assert all(value in VALUES[label] for label, value in matchers.items())


@pytest.mark.parametrize("alert", ALERTS, ids=IDS)
def test_an_alert_groups_and_tells_by_labels_that_its_metrics_have(alert: dict[str, Any]) -> None:
    grouped = re.findall(r"\bby \(([^)]*)\) \((?:[a-z]+\()?(motor_watcher_[a-z_]+)", alert["expr"])
    kept = [set(re.split(r",\s*", labels)) for labels, dummy in grouped]
    assert all(labels <= LABELS[name] for labels, (dummy, name) in zip(kept, grouped, strict=True))
    joined = re.findall(r"\bon \(([^)]*)\)", alert["expr"])
    assert all(label in labels for group in joined for label in re.split(r",\s*", group) for labels in kept)
    told = set(re.findall(r"\$labels\.([a-z_]+)", " ".join(alert["annotations"].values())))
    assert told <= (kept[0] if kept else set())


@pytest.mark.parametrize("alert", ALERTS, ids=IDS)
def test_an_alert_takes_both_replicas_together(alert: dict[str, Any]) -> None:
    assert re.match(r"(max|min|sum|absent|histogram_quantile)\b", alert["expr"])


@pytest.mark.parametrize("alert", ALERTS, ids=IDS)
def test_an_alert_says_what_it_is_and_what_to_do(alert: dict[str, Any]) -> None:
    assert re.fullmatch(r"Motor[A-Z]\w+", alert["alert"]) and alert["labels"]["severity"] in ("critical", "warning")
    assert set(alert["annotations"]) == {"summary", "description"}
    assert len(alert["annotations"]["summary"]) < 160 and len(alert["annotations"]["description"]) > 100


def test_alerts_have_names_of_their_own() -> None:
    assert len(IDS) == len(set(IDS))


def test_the_documentation_tells_each_metric_and_each_alert() -> None:
    labels = {family.name: ", ".join(f"`{label}`" for label in family.labels) for family in metrics.FAMILIES}
    rows = [f"| `{family.name}` | {family.kind} | {labels[family.name]} | {family.help} |" for family in metrics.FAMILIES]
    rows.append(f"| `{metrics.DECISIONS}` | histogram |  | {metrics.DECISIONS_HELP} |")
    rows += [
        f"| {alert['alert']} | {alert['labels']['severity']} | {alert.get('for', 'at once')} | {alert['annotations']['description']} |"
        for alert in ALERTS
    ]
    text = (RULES.parents[3] / "docs" / "watcher_status.md").read_text(encoding="utf-8").splitlines()
    assert [row for row in rows if row not in text] == []
    assert len([row for row in text if row.startswith(("| `motor_watcher_", "| Motor"))]) == len(rows)


@pytest.mark.skipif(PROMTOOL is None, reason="needs promtool on PATH (Debian's package prometheus)")
def test_alerts_fire_when_they_should_and_not_before() -> None:
    assert PROMTOOL
    cases = Path(__file__).with_name("alert_rules_cases.yml")
    for command in (["check", "rules", str(RULES)], ["test", "rules", str(cases)]):
        done = subprocess.run([PROMTOOL, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
