# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the adaptor tells Prometheus of itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from metrics_adaptor import metrics
from metrics_adaptor.book import Report
from metrics_adaptor.metrics import Counters, Facts, Itself
from prometheus_client.parser import text_string_to_metric_families

from ansible_collections.ascend.mindie.plugins.module_utils._cluster.watch import Health
from ansible_collections.ascend.mindie.plugins.module_utils._motor.load import NoValue
from tests.tools.environment import COLLECTIONS, ROOT

ITSELF = Itself("abc", ready=True, expires=1.8e9, reloads=2, problems=("rules",))
GONE = NoValue("Stale", "old")


def report(**changes: Any) -> Report:
    usual: dict[str, Any] = {"namespace": 'na"me', "name": "chat-0", "scrapes": 7, "failures": {"Empty": 2}, "seconds": 0.25, "size": 1000}
    return Report(**{**usual, "age": 1.5, "shown": {"decode": (2, 16)}, "problems": {"prefill": GONE}, **changes})


def health(**changes: Any) -> Health:
    usual: dict[str, Any] = {
        "kind": "Pod",
        "namespace": "chat",
        "synced": True,
        "unknown": False,
        "restarts": 1,
        "relists": 2,
        "errors": "",
    }
    return Health(**{**usual, "heard": 90.0, "listed": 80.0, "relist_seconds": 0.1, "objects": 3, **changes})


def read(text: str) -> dict[tuple[str, tuple[str, ...]], float]:
    """Name and label values of each sample; a parser of others reads the whole text."""
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation and family.type != "unknown"
        found.update({(sample.name, tuple(sample.labels.values())): sample.value for sample in family.samples})
    return found


def test_what_was_counted_and_seen_is_told() -> None:
    counters = Counters()
    counters.request("value", 200, "")
    counters.request("value", 503, "Stale")
    counters.refused("wrong name")
    counters.answers.observe(0.002)
    found = read(metrics.render(Facts(counters, ITSELF, [report()], [health()], 100.0)))
    wanted = {
        ("build_info", ("abc",)): 1,
        ("ready", ()): 1,
        ("certificate_expiry_seconds", ()): 1.8e9,
        ("certificate_loads_total", ()): 2,
        ("trouble", ("rules",)): 1,
        ("trouble", ("certificate",)): 0,
        ("requests_total", ("value", "200")): 1,
        ("requests_total", ("value", "503")): 1,
        ("values_missing_total", ("Stale",)): 1,
        ("refused_total", ("wrong name",)): 1,
        ("answer_seconds_count", ()): 1,
        ("services", ()): 1,
        ("scrapes_total", ('na"me', "chat-0")): 7,
        ("scrape_failures_total", ('na"me', "chat-0", "Empty")): 2,
        ("scrape_age_seconds", ('na"me', "chat-0")): 1.5,
        ("instances", ('na"me', "chat-0", "decode")): 2,
        ("endpoints", ('na"me', "chat-0", "decode")): 16,
        ("no_value", ('na"me', "chat-0", "prefill", "Stale")): 1,
        ("watch_silent_seconds", ("Pod", "chat")): 10,
    }
    told = {(name.removeprefix("motor_adaptor_"), labels): value for (name, labels), value in found.items()}
    assert {key: told.get(key) for key in wanted} == wanted


def test_what_is_not_known_has_no_sample() -> None:
    found = read(
        metrics.render(Facts(Counters(), Itself("", False, 0.0, 0, ()), [report(age=None)], [health(heard=0.0), health(unknown=True)], 5.0))
    )
    names = {name for name, dummy in found}
    assert not names & {
        f"motor_adaptor_{name}" for name in ("build_info", "certificate_expiry_seconds", "scrape_age_seconds", "watch_silent_seconds")
    }
    assert found["motor_adaptor_ready", ()] == 0


@pytest.mark.parametrize("text", ["{", "{}", json.dumps({"namespaces": ["chat"], "intervall": 5})])
def test_without_readable_settings_it_ends_at_once_and_says_why(tmp_path: Path, text: str) -> None:
    settings = tmp_path / "settings.json"
    settings.write_text(text)
    paths = f"{ROOT / 'roles' / 'motor_autoscale' / 'files'}{os.pathsep}{COLLECTIONS}"
    command = [sys.executable, "-m", "metrics_adaptor", "--settings", str(settings)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False, timeout=30)
    (line,) = done.stdout.splitlines()
    said = json.loads(line)
    assert (done.returncode, said["level"], done.stderr) == (2, "error", "") and str(settings) in said["message"]
