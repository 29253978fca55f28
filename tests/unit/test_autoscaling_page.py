# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the guide on autoscaling says of metrics, presets and problems is what the code has."""

from __future__ import annotations

import re
from pathlib import Path

from ansible_collections.ascend.mindie.plugins.module_utils._motor import load
from ansible_collections.ascend.mindie.plugins.module_utils._motor.load_metrics import METRICS
from ansible_collections.ascend.mindie.plugins.module_utils._motor.policy_words import NOTES, REMEDIES
from ansible_collections.ascend.mindie.plugins.module_utils._motor.scaling_presets import PRESETS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "autoscaling.md").read_text()


def rows(head: str) -> list[list[str]]:
    """The cells of the rows of the table with this head."""
    text = PAGE[PAGE.index(head) :].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]


def test_the_table_has_each_metric_with_its_target_type_and_unit() -> None:
    told: dict[str, tuple[str, str]] = {}
    for names, target_type, unit, dummy in rows("| metric | target type | unit |"):
        first, *more = re.findall(r"`([^`]+)`", names)
        stem = first.removesuffix("_p50")
        for name in (first, *(other.replace("…", stem) for other in more)):
            assert name not in told
            told[name] = (target_type.strip("`"), unit)
    assert told == {name: (metric.target_type, metric.unit) for name, metric in METRICS.items()}


def test_the_table_names_each_preset_with_its_metrics() -> None:
    found = {name.strip("`"): cells for name, *cells in rows("| preset | prefill |")}
    assert set(found) == set(PRESETS)
    for name, cells in found.items():
        written = set(re.findall(r"`(\w+)`", " ".join(cells))) & set(METRICS)
        meant = {metric for targets in PRESETS[name].values() for metric in targets}
        assert written | {"num_requests_waiting"} == meant
        for targets in PRESETS[name].values():
            assert all(value is None or f"`{metric}` {value}" in PAGE for metric, value in targets.items())


def test_each_problem_is_in_the_table_of_symptoms() -> None:
    named = set(re.findall(r"`(\w+)`", " ".join(cells[1] for cells in rows("| symptom | problem |"))))
    # What explains itself where it is shown.
    said_there = {"NotDeployed", "WrongBackend", "WrongType", "OutsideLimits", "NotAllowed", "ConditionFalse"}
    assert set(REMEDIES) == (named & set(REMEDIES)) | said_there
    assert not NOTES - set(REMEDIES)


def test_each_reason_for_no_value_is_told_and_exists() -> None:
    named = set(re.findall(r"`(\w+)`", " ".join(cells[0] for cells in rows("| reason | meaning |"))))
    sources = [Path(load.__file__), *(ROOT / "roles" / "motor_autoscale" / "files" / "metrics_adaptor").glob("*.py")]
    given = {name for file in sources for name in re.findall(r'(?:NoValue|Unanswered)\(\s*"(\w+)"', file.read_text())}
    assert named == given and len(given) > 15
