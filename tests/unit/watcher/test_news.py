# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is told of a service, and that each piece of it is told once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rescheduling_watcher.news import TOLD_AFTER_SECONDS, Gossip, Item
from rescheduling_watcher.tell import Teller

from ansible_collections.ascend.mindie.plugins.module_utils._cluster.api import Api, Response

ABOUT = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "motor-config", "namespace": "chat", "uid": "u", "resourceVersion": "1"},
}


def view(backend: str = "ascend_jobs", **states: str) -> dict[str, Any]:
    return {
        "backend": backend,
        "tasks": [],
        "instances": [{"name": name, "state": state, "reason": "why"} for name, state in states.items()],
    }


def told(items: list[Item]) -> list[tuple[str, str]]:
    return [(item.news.reason, item.instance) for item in items]


def events(*items: Item, about: dict[str, Any] | None = None) -> list[str]:
    """The names of the Events that the items make at one object, in order; one that there is already is refused by the server."""
    found: list[str] = []

    def send(method: str, path: str, query: Any, body: Any, *rest: Any, **more: Any) -> Response:
        found.append(body["metadata"]["name"])
        return Response(201, json.dumps(body).encode())

    teller = Teller(Api(send), "watcher/pod")
    for item in items:
        teller.tell(about or ABOUT, item.news, for_good=item.for_good, instance=item.instance)
    return found


def test_what_does_not_run_is_told_after_a_while_and_when_it_runs_again() -> None:
    gossip = Gossip()
    assert gossip.look(view(p0="held"), 0.0) == ([], TOLD_AFTER_SECONDS)
    assert told(gossip.look(view(p0="held"), 11.0)[0]) == [("InstanceHeld", "p0")]
    assert gossip.look(view(p0="held"), 12.0) == ([], None)
    assert told(gossip.look(view(p0="running"), 13.0)[0]) == [("InstanceRunning", "p0")]
    assert gossip.look(view(p0="running"), 14.0) == ([], None)


@pytest.mark.parametrize("backend", ["ascend_jobs", "deployments", "infer_service_set"])
def test_of_instances_that_share_an_object_each_is_told(backend: str) -> None:
    """What is missing is told at motor-config, and all instances of an InferServiceSet at it: one must not hide the others."""
    gossip = Gossip()
    gossip.look(view(backend, p0="missing", p1="missing"), 0.0)
    items, dummy = gossip.look(view(backend, p0="missing", p1="missing"), 11.0)
    assert {(item.kind, item.name) for item in items} == {("ConfigMap", "motor-config")}
    assert len(set(events(*items))) == 2
    assert len(set(events(*items, *items))) == 2, "the same is told once"


def broken(message: str, rule: str = "scaling-rule") -> dict[str, Any]:
    finding = {"severity": "error", "code": "R102", "message": message, "remedy": "correct it"}
    tasks = [{"rule": rule, "task": task, "crashes": False, "findings": [finding]} for task in ("a", "b")]
    return {**view(p0="running"), "tasks": tasks}


def test_a_broken_rule_is_told_once_however_often_it_is_looked_at() -> None:
    gossip = Gossip()
    assert [len(gossip.look(broken("line 1"), now)[0]) for now in (0.0, 0.1, 5.0, 599.0)] == [1, 0, 0, 0]
    assert told(gossip.look(broken("line 2"), 600.0)[0]) == [("RuleBroken", "")], "another error is news"
    assert [len(gossip.look(broken("line 2"), now)[0]) for now in (601.0, 1201.0)] == [0, 1], "and so it is after a while"
    assert gossip.look(view(p0="running"), 1300.0)[0] == []
    assert len(gossip.look(broken("line 2"), 1301.0)[0]) == 1, "broken again"


def test_an_object_may_have_any_name() -> None:
    long = {**ABOUT, "metadata": {**ABOUT["metadata"], "name": "a" * 199 + "-" + "b" * 53}}
    gossip = Gossip()
    gossip.look(view(p0="failed"), 0.0)
    items, dummy = gossip.look(view(p0="failed"), 11.0)
    (name,) = events(*items, about=long)
    assert name.startswith("a" * 199 + ".") and len(name) <= 253
