# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a long wait is told by Events, and what they say."""

from __future__ import annotations

from ansible_collections.ascend.mindie.plugins.module_utils._motor import events
from ansible_collections.ascend.mindie.plugins.module_utils._motor.events import News, Reporter
from ansible_collections.ascend.mindie.plugins.module_utils._motor.timeline import Change

from . import services


def change(name: str, state: str) -> Change:
    return Change(0.0, "", name, state)


def test_short_waits_are_not_told() -> None:
    reporter = Reporter("scale")
    assert reporter.look(0.0, [change("vllm-p1", "starting")], "one") is None
    assert reporter.look(9.9, [change("vllm-p1", "running")], "one") is None
    assert reporter.end(News("Settled", "done"), always=False) is None


def test_the_first_event_comes_after_ten_seconds_and_says_what_is_missing() -> None:
    reporter = Reporter("scale")
    assert reporter.look(10.0, [], "prefill: 1 of 2 instances running") == News("Waiting", "scale: prefill: 1 of 2 instances running")
    assert reporter.look(60.0, [], "prefill: 1 of 2 instances running") is None, "nothing has changed"


def test_a_wait_that_ends_as_it_is_to_be_told_first_is_not_told() -> None:
    assert Reporter("scale").look(10.0, [change("vllm-p1", "running")], "") is None


def test_changes_within_five_seconds_are_told_together() -> None:
    reporter = Reporter("deploy")
    reporter.look(10.0, [], "all")
    assert reporter.look(11.0, [change("vllm-p0", "starting")], "some") is None
    assert reporter.look(12.0, [change("vllm-p0", "running")], "some") is None
    told = reporter.look(15.0, [change("vllm-p1", "running")], "some")
    assert told == News("InstanceRunning", "deploy: vllm-p0 running, vllm-p1 running. Still missing: some")
    assert reporter.look(21.0, [], "some") is None
    failed = reporter.look(22.0, [change("vllm-p2", "failed"), change("vllm-p3", "running")], "some")
    assert failed and failed.reason == "InstanceFailed" and failed.warning
    assert (reporter.look(30.0, [change("vllm-p2", "gone")], "") or failed).reason == "InstanceChanged"


def test_32_instances_make_no_more_events_than_time_allows() -> None:
    reporter = Reporter("deploy")
    seen = (change(f"vllm-p{tenth % 32}", "running" if tenth % 2 else "failed") for tenth in range(600))
    told = [reporter.look(tenth / 10, [one], "x" * 5000) for tenth, one in enumerate(seen)]
    found = [news for news in told if news]
    assert len(found) == 10, "at 10, 15, ... 55 seconds"
    assert all(len(news.message) <= 1000 for news in found)


def test_the_end_is_told_after_others_or_when_it_must_be() -> None:
    reporter = Reporter("scale")
    assert reporter.end(News("InstancesFailed", "no", warning=True), always=True) == News("InstancesFailed", "scale: no", True)
    reporter.look(10.0, [], "x")
    assert reporter.end(News("Settled", "done"), always=False) == News("Settled", "scale: done")


def test_the_object_is_about_motor_config_and_carries_our_labels() -> None:
    config_map = services.config_map(services.user_config())
    made = events.event(
        config_map, News("Waiting", "scale: x", warning=True), name="motor-config.1", at="2026-01-01T00:00:00Z", by="me" * 100
    )
    assert made["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "motor-config",
        "namespace": services.NAMESPACE,
        "uid": "cm",
    }
    assert (made["type"], made["reportingComponent"], len(made["reportingInstance"])) == ("Warning", "ascend.mindie", 128)
    assert made["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "ascend.mindie"
