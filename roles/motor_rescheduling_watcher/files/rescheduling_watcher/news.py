# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is news of a service: instances that have not run for a while or run again, and scaling rules that are broken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._motor.events import News
from ansible_collections.ascend.mindie.plugins.module_utils._motor.findings import ERROR
from ansible_collections.ascend.mindie.plugins.module_utils._motor.ownership import CONFIG_MAP

# What passes sooner is part of every start.
TOLD_AFTER_SECONDS = 10.0
# A rule that stays broken is told of again, for whoever has cleared its Event away.
AGAIN_SECONDS = 600.0
_QUIET = ("running", "starting", "terminating", "surplus", "foreign")
_ALARMING = ("failed", "missing")


@dataclass(frozen=True)
class Item:
    """One piece of news, and the object that it is told at. `for_good`: it is told once per version of the object; `instance`: which of
    those that share the object it is about.
    """

    kind: str
    name: str
    news: News
    for_good: bool = False
    instance: str = ""


class Gossip:
    """What was told of one service. Knows what is still to be told."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}
        self._told_of_rules: dict[str, tuple[str, float]] = {}
        self._since: dict[tuple[str, str], float] = {}

    def look(self, view: Mapping[str, Any], now: float) -> tuple[list[Item], float | None]:
        """What is to be told at `now` (seconds of a monotonic clock), and in how many seconds there may be more."""
        found, due = list(self._of_rules(view, now)), []
        states = {(item["name"], item["state"]) for item in view["instances"] if item["state"] not in _QUIET}
        self._since = {key: self._since.get(key, now) for key in states}
        for item in view["instances"]:
            name, state = item["name"], item["state"]
            if state == "running" and self._told.pop(name, ""):
                found.append(Item(*_object(view, item), News("InstanceRunning", f"{name} runs again"), instance=name))
            if state in _QUIET or self._told.get(name) == state:
                continue
            left = TOLD_AFTER_SECONDS - (now - self._since[name, state])
            if left > 0:
                due.append(left)
                continue
            self._told[name] = state
            said = News(f"Instance{state.capitalize()}", f"{name} is {state}: {item['reason']}", state in _ALARMING)
            found.append(Item(*_object(view, item), said, instance=name))
        gone = self._told.keys() - {item["name"] for item in view["instances"]}
        for name in gone:
            del self._told[name]
        return found, min(due, default=None)

    def _of_rules(self, view: Mapping[str, Any], now: float) -> Iterator[Item]:
        """What is wrong with rules, as far as it is new, or may be forgotten by now."""
        items = {f"{item.news.reason} {item.name}": item for item in _of_rules(view)}
        before, self._told_of_rules = self._told_of_rules, {}
        for name, item in items.items():
            said, at = before.get(name, ("", 0.0))
            again = said != item.news.message or now - at >= AGAIN_SECONDS
            self._told_of_rules[name] = (item.news.message, now if again else at)
            if again:
                yield item


def _of_rules(view: Mapping[str, Any]) -> Iterator[Item]:
    """A broken rule looks like one that holds jobs for good reason: only here it is told."""
    for task in view["tasks"]:
        errors = [finding for finding in task["findings"] if finding["severity"] == ERROR]
        if not errors:
            continue
        reason = "RuleCrashesOperator" if task["crashes"] else "RuleBroken"
        said = "; ".join(f"{finding['code']}: {finding['message']}. {finding['remedy']}" for finding in errors[:3])
        yield Item("ConfigMap", task["rule"], News(reason, said, warning=True), for_good=True)


def _object(view: Mapping[str, Any], instance: Mapping[str, Any]) -> tuple[str, str]:
    """The workload of an instance, by kind and name."""
    if instance["state"] == "missing":
        return "ConfigMap", CONFIG_MAP
    kinds = {"ascend_jobs": "AscendJob", "deployments": "Deployment"}
    kind = kinds.get(view["backend"])
    return (kind, instance["name"]) if kind else ("InferServiceSet", "")
