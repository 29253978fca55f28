# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shows a scaling rule: the live one of a namespace, or a given one for which no connection is opened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from . import _entry_rule
from ._entry_rule import Checked
from ._motor import capacity, capacity_model, capacity_page, rule_report, rule_synthesis
from ._motor.capacity import Instance, Server, Shape, Simulation
from ._motor.capacity_words import LANGUAGES
from ._motor.errors import InputError
from ._motor.findings import by_severity
from ._motor.plan_rule import RuleRefused
from ._motor.rule_live import LiveTask, lint_live
from ._motor.rule_reader import Reading
from ._motor.rule_report import Picture

WAYS = _entry_rule.WAYS
SPEC: dict[str, Any] = {
    "namespace": {"type": "str"},
    **_entry_rule.RULE_SPEC,
    "inventory": {
        "type": "dict",
        "options": {
            "servers": {"type": "raw", "required": True},
            "hardware": {"type": "str", "choices": list(rule_synthesis.NPUS_PER_SERVER)},
            "npus_per_server": {"type": "raw"},
        },
    },
    "shapes": {
        "type": "list",
        "elements": "dict",
        "options": {
            "group": {"type": "str", "required": True},
            "pods": {"type": "int", "required": True},
            "npus_per_pod": {"type": "int", "required": True},
            "sp_block": {"type": "int", "default": 0},
        },
    },
    "running": {"type": "dict"},
    "simulate": {"type": "dict", "options": {"failures": {"type": "int", "default": 1}}},
    "html": {"type": "bool", "default": False},
    "language": {"type": "str", "choices": list(LANGUAGES), "default": "en"},
}


def show(module: Any) -> dict[str, Any]:
    """Read, check, decide, simulate, report."""
    params = module.params
    if params["html"] and params["simulate"] is None:
        raise InputError.at("the page shows a simulation: give simulate, too", source="html")
    checked = _entry_rule.checked_rule(module)
    if params["namespace"]:
        for option in ("inventory", "running"):
            if params[option] is not None:
                raise InputError.at(f"with a namespace this is read from the cluster: leave {option} out", source=option)
        module.requires("kubernetes")
        from . import _entry_rule_live  # only now a cluster is needed, and the library kubernetes with it

        picture = _entry_rule_live.picture(module, checked)
    elif checked is None:
        raise InputError.at("give the namespace of a live rule, or a rule (rule, rule_file or synthesize)", source="namespace")
    else:
        picture = offline(params, checked)
    return _result(params, picture)


def offline(params: Mapping[str, Any], checked: Checked) -> Picture:
    """A given rule, and what the options say of servers and counts."""
    servers, counts = given_servers(params["inventory"]), given_counts(params["running"] or {})
    if servers is None:
        servers = checked.wish.inventory() if checked.wish else ()
    known = {shape.group: shape for shape in checked.wish.shapes(checked.wish.instances)} if checked.wish else {}
    picture = Picture(
        source=checked.source,
        facts=rule_report.rule_facts("", params["name"], checked.reading, present=True),
        reading=checked.reading,
        findings=checked.findings,
        running={"": counts},
        jobs=rule_report.group_answers(checked.reading, counts),
        servers=servers,
        shapes=known,
        instances=None,
    )
    if checked.reading is None or not servers:
        return picture
    shapes = {shape.group: shape for shape in all_shapes(picture, params["shapes"] or ())}
    live = LiveTask(namespace="", rule_name=params["name"], jobs=(), pod_groups=(), servers=servers, shapes=shapes)
    findings = by_severity((*checked.findings, *lint_live(checked.reading, live)))
    return replace(picture, shapes=shapes, findings=findings, possible={"": _possible(checked.reading, servers, tuple(shapes.values()))})


def _possible(reading: Reading, servers: Sequence[Server], shapes: Sequence[Shape]) -> int | None:
    """The tier that the servers have room for, None without shapes or tiers."""
    return capacity.reachable(servers, shapes, reading.tiers) if shapes and reading.tiers else None


def given_servers(inventory: Mapping[str, Any] | None) -> tuple[Server, ...] | None:
    """The servers of the option `inventory`, None when it is not given. Raises InputError."""
    if inventory is None:
        return None
    found = inventory["servers"]
    if not isinstance(found, list):
        number = rule_synthesis.number(found, "inventory", "servers", rule_synthesis.MAX_SERVERS)
        npus = rule_synthesis.npus_per_server(inventory, "inventory")
        return tuple(Server(f"server-{index}", npus) for index in range(number))
    servers = [{"name": item} if isinstance(item, str) else item for item in found]
    complete = all("npus" in item for item in servers if isinstance(item, Mapping))
    usual = {} if complete else {"npus": rule_synthesis.npus_per_server(inventory, "inventory")}
    data = {"servers": [{**usual, **item} if isinstance(item, Mapping) else item for item in servers]}
    return capacity.from_inventory(data, source="inventory").servers


def given_counts(running: Mapping[str, Any]) -> dict[str, int]:
    """The counts of the option `running`. Raises InputError."""
    return {
        str(group): rule_synthesis.number(count, "running", str(group), rule_synthesis.MAX_INSTANCES, least=0)
        for group, count in running.items()
    }


def _result(params: Mapping[str, Any], picture: Picture) -> dict[str, Any]:
    result: dict[str, Any] = {
        "changed": False,
        "rule": dict(picture.facts),
        "findings": [finding.to_dict() for finding in picture.findings],
        "tasks": rule_report.tasks(picture),
        "jobs": [dict(job) for job in picture.jobs],
        "requests": picture.requests,
    }
    if params["simulate"] is not None:
        simulation = simulated(picture, params["simulate"].get("failures", 1), params["shapes"] or ())
        result["simulation"] = simulation.to_dict()
        if params["html"]:
            result["html"] = capacity_page.page(simulation, language=params["language"])
    return result


def simulated(picture: Picture, failures: int, shapes: Iterable[Mapping[str, Any]]) -> Simulation:
    """What every failure of so many servers leads to. Raises RuleRefused or InputError without a rule or servers."""
    if picture.reading is None and not picture.findings:
        raise InputError.at("there is no rule in this namespace to simulate", source="simulate")
    if picture.reading is None or not picture.reading.tiers:
        raise RuleRefused(picture.source, picture.findings, "simulated")
    if not picture.servers:
        raise InputError.at("no server with NPUs is known: give inventory", source="simulate", path="inventory")
    found = all_shapes(picture, shapes)
    running = _running(picture, found)
    return capacity.simulate(picture.servers, found, picture.reading.tiers, failures, running=running)


def _running(picture: Picture, shapes: Sequence[Shape]) -> tuple[Instance, ...] | None:
    """What runs, as far as it is the rule's business; None when nothing is said of it."""
    if picture.instances is None:
        return _laid_out(picture, shapes) if picture.running[""] else None
    groups = {shape.group for shape in shapes}
    return tuple(instance for instance in picture.instances if instance.group in groups)


def _laid_out(picture: Picture, shapes: Iterable[Shape]) -> tuple[Instance, ...]:
    """Instances for the counts that were given, put on servers."""
    counts = picture.running[""]
    placed = capacity.place(picture.servers, [replace(shape, count=counts.get(shape.group, 0)) for shape in shapes])
    missing = [group for group, left in placed.left.items() if left]
    if missing:
        group, count = missing[0], counts[missing[0]]
        wrong = f"{count} instances of {group} cannot run on these servers: there is room for {count - placed.left[group]}"
        raise InputError.at(wrong, source="running", path=f"running.{group}")
    return placed.instances


def all_shapes(picture: Picture, given: Iterable[Mapping[str, Any]]) -> tuple[Shape, ...]:
    """The shape of every group of the full size, with its number of instances there: as given, else as known, else whole servers."""
    tier = picture.reading.tiers[0] if picture.reading and picture.reading.tiers else {}
    told = {item["group"]: Shape(item["group"], 0, item["pods"], item["npus_per_pod"], item["sp_block"]) for item in given}
    unknown = sorted(set(told) - set(tier))
    if unknown:
        raise InputError.at(f"the rule has no group {unknown[0]}", source="shapes")
    most = max((server.npus for server in picture.servers), default=0)
    found = []
    for group, size in tier.items():
        known = told.get(group) or picture.shapes.get(group) or Shape(group, 0, max(1, size.servers), most)
        found.append(replace(known, group=group, count=max(0, size.number)))
    capacity_model.checked_shapes(found, source="shapes")
    return tuple(found)
