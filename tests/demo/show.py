# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables that a person enjoys reading."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .elastic import Moment
from .night import Night

_COLOURS = {"running": "green", "failed": "red", "held": "magenta"}


@dataclass(frozen=True)
class Step:
    """One step of the demo. `requests` are those that reached the API server, `writes` those of them that changed something."""

    title: str
    what: str
    seconds: float
    requests: int
    writes: int


def summary(actions: Iterable[dict[str, Any]]) -> str:
    """Actions in few words: `create 3 Deployments, update 1 ConfigMap`."""
    counted = Counter((action["verb"], action["kind"]) for action in actions)
    return ", ".join(f"{verb} {count} {kind}{'s' if count > 1 else ''}" for (verb, kind), count in counted.items()) or "nothing to do"


def steps(console: Console, mode: str, done: list[Step]) -> None:
    """What each step did and what it cost."""
    table = Table(title=f"What was done ({mode})", title_justify="left", show_footer=True)
    table.add_column("step", footer="in all")
    table.add_column("actions", overflow="fold")
    table.add_column("seconds", justify="right", footer=f"{sum(step.seconds for step in done):.1f}")
    table.add_column("requests", justify="right", footer=str(sum(step.requests for step in done)))
    table.add_column("writes", justify="right", footer=str(sum(step.writes for step in done)))
    for step in done:
        table.add_row(step.title, step.what, f"{step.seconds:.1f}", str(step.requests), str(step.writes))
    console.print(table)


def service(console: Console, mode: str, found: dict[str, Any]) -> None:
    """Instances and control pods: state, pods, nodes, NPUs, since when."""
    table = Table(title=f"Service {found['namespace']} ({mode}): {_counts(found)}", title_justify="left")
    for column, justify in (
        ("instance", "left"),
        ("state", "left"),
        ("pods", "right"),
        ("node", "left"),
        ("NPUs", "right"),
        ("ready since", "left"),
    ):
        table.add_column(column, justify=justify)
    for role in found["control"]:
        state = "[green]running[/]" if role["pods_ready"] else f"[red]{role['reason']}[/]"
        table.add_row(role["name"], state, f"{role['pods_ready']}/{role['pods']}", ", ".join(role["nodes"]), "", _since(role["since"]))
    table.add_section()
    for item in found["instances"]:
        state = f"[{'green' if item['state'] == 'running' else 'yellow'}]{item['state']}[/]"
        pods = f"{item['pods_ready']}/{item['pods']}"
        table.add_row(
            f"{item['name']} ({item['engine_role']})", state, pods, ", ".join(item["nodes"]), str(item["npus"]), _since(item["since"])
        )
    console.print(table)


def tiers(console: Console, rule: dict[str, Any]) -> None:
    """The tiers of a scaling rule, from full size down."""
    table = Table(title=f"Scaling rule {rule['namespace']}/{rule['name']}", title_justify="left")
    table.add_column("tier", justify="right")
    for group in rule["groups"]:
        table.add_column(f"instances of {group}", justify="right")
    for index, tier in enumerate(rule["tiers"]):
        table.add_row(str(index), *(str(tier[group]["number"]) for group in rule["groups"]))
    console.print(table)


def foretold(console: Console, level: dict[str, Any]) -> None:
    """What a simulation says of the failure of one server."""
    worst = level["worst"]
    left = " + ".join(f"{number} {group}" for group, number in worst["running"].items())
    console.print(
        f"Simulated beforehand: of {level['combinations']} servers that can fail, {worst['combinations']} leave tier {worst['tier']}, that is {left}."
    )


def timeline(console: Console, moments: Sequence[Moment], prefix: str) -> None:
    """What the instances did over time, and which tier of the rule counted."""
    table = Table(title="What happened (ascend_jobs)", title_justify="left")
    table.add_column("seconds", justify="right")
    table.add_column("what", overflow="fold")
    for name in moments[0].states:
        table.add_column(name.removeprefix(prefix))
    table.add_column("tier", justify="right")
    table.add_column("why not running", overflow="fold")
    for now in moments:
        states = [f"[{_COLOURS.get(state, 'yellow')}]{state}[/]" for state in now.states.values()]
        why = "; ".join(f"{name.removeprefix(prefix)}: {reason}" for name, reason in now.why.items())
        table.add_row(f"{now.at:.1f}", now.happened, *states, "all met" if now.tier < 0 else str(now.tier), escape(why))
    console.print(table)


def nights(console: Console, found: Sequence[Night], absent: float) -> None:
    """What the watcher is worth when a server is away for `absent` seconds."""
    table = Table(title=f"A server is away for {absent:.0f} s and nobody is at hand (ascend_jobs)", title_justify="left")
    table.add_column("")
    table.add_column("without decode, seconds", justify="right")
    table.add_column("whole again after its return, seconds", justify="right")
    table.add_column("what the watcher did", overflow="fold")
    for one in found:
        title = "with the watcher" if one.watched else "without the watcher"
        table.add_row(title, f"{one.without_decode:.1f}", f"{one.regrow:.1f}", ", ".join(one.repairs))
    console.print(table)


def _counts(found: dict[str, Any]) -> str:
    return ", ".join(f"{count} {role}" for role, count in found["counts"].items())


def _since(text: str) -> str:
    if not text:
        return ""
    moment = datetime.datetime.fromisoformat(text)
    seconds = (datetime.datetime.now(datetime.UTC) - moment).total_seconds()
    return f"{moment:%H:%M:%S} ({max(0, seconds):.0f} s ago)"
