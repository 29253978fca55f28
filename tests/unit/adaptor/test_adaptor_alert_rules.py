# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The alert rules ask for what the adaptor tells, and its page shows each metric and each alert."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from metrics_adaptor import metrics
from metrics_adaptor.metrics import PREFIX

from tests.tools.environment import ROOT

RULES = ROOT / "roles" / "motor_autoscale" / "files" / "alert_rules.yml"
(GROUP,) = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
ALERTS: list[dict[str, Any]] = GROUP["rules"]
LABELS = {f"{PREFIX}_{family.name}": set(family.labels) for family in metrics.FAMILIES}
each_alert = pytest.mark.parametrize("alert", ALERTS, ids=[alert["alert"] for alert in ALERTS])


@each_alert
def test_an_alert_asks_for_metrics_and_labels_that_there_are(alert: dict[str, Any]) -> None:
    names = re.findall(rf"{PREFIX}_\w+", alert["expr"])
    assert names and set(names) <= LABELS.keys()
    grouped = {label for group in re.findall(r"\bby \(([^)]*)\)", alert["expr"]) for label in re.split(r",\s*", group)}
    told = set(re.findall(r"\$labels\.(\w+)", str(alert["annotations"])))
    assert told <= grouped <= LABELS[names[0]]


@each_alert
def test_an_alert_takes_both_pods_together_and_says_what_to_do(alert: dict[str, Any]) -> None:
    assert re.match(r"(max|min|sum|absent)\b", alert["expr"])
    assert re.fullmatch(r"Motor[A-Z]\w+", alert["alert"]) and alert["labels"]["severity"] in ("critical", "warning")
    assert len(alert["annotations"]["summary"]) < 180 and len(alert["annotations"]["description"]) > 100


def test_the_page_of_the_adaptor_shows_each_metric_and_each_alert() -> None:
    labels = {family.name: ", ".join(f"`{label}`" for label in family.labels) for family in metrics.FAMILIES}
    rows = [f"| `{PREFIX}_{family.name}` | {family.kind} | {labels[family.name]} | {family.help} |" for family in metrics.FAMILIES]
    rows.append(f"| `{PREFIX}_{metrics.ANSWERS}` | histogram |  | {metrics.ANSWERS_HELP} |")
    rows += [
        f"| {alert['alert']} | {alert['labels']['severity']} | {alert.get('for', 'at once')} | {alert['annotations']['description']} |"
        for alert in ALERTS
    ]
    text = (ROOT / "docs" / "adaptor.md").read_text(encoding="utf-8").splitlines()
    assert [row for row in rows if row not in text] == []
    assert len([row for row in text if row.startswith((f"| `{PREFIX}_", "| Motor"))]) == len(rows)
