# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Promises about AscendJobs alone: the rule comes first, both ways, and is right at every moment; decode before prefill; rank table before job."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from ansible_collections.ascend.mindie.plugins.module_utils._motor.findings import ERROR
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan import Write
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_lint import lint
from tests.cluster.ascend_operator.objects import RULE_GROUP
from tests.property import facts
from tests.property.ascend import INQUEUE, JOB, PENDING, may_create, phase
from tests.property.cases import JOBS
from tests.property.world import RULE, World


def most(world: World) -> dict[str, int]:
    """By group, how many jobs there are or the rule asks for, whichever is more."""
    sizes, asked = facts.group_sizes(world), facts.rule_numbers(world)
    return {group: max(sizes.get(group, 0), asked.get(group, 0)) for group in {*sizes, *asked}}


def check_rule(world: World, before: Mapping[str, int] | None) -> None:
    """The rule has no error, and there are never more jobs than there were or it asked for `before`, or it asks for now."""
    if world.backend != JOBS:
        return
    rule = world.objects.get(("ConfigMap", RULE))
    found = _errors(rule["data"]["elastic_scaling.json"]) if rule else ()
    assert not found, f"the scaling rule is wrong: {found}"
    asked = facts.rule_numbers(world)
    for group, number in facts.group_sizes(world).items() if before is not None else ():
        bound = max((before or {}).get(group, 0), asked.get(group, 0))
        assert number <= bound, f"{number} jobs of {group} are there, the rule asked and asks for {bound} at most"


@cache
def _errors(text: str) -> tuple[str, ...]:
    return tuple(f"{one.code} {one.message}" for one in lint(text, source="rule").findings if one.severity == ERROR)


def check_write(world: World, write: Write, role: str, counts: Mapping[str, int], *, replaced: bool) -> None:
    """A job comes when the rule asks for it, after its rank table, and decode before prefill; it goes when the rule no longer does."""
    job = write.body if write.verb == "create" else world.objects[JOB, write.name]
    group = job["metadata"]["labels"][RULE_GROUP]
    asked, there = facts.rule_numbers(world).get(group, 0), facts.group_sizes(world).get(group, 0)
    if write.verb == "create":
        assert there < asked, f"{write.name} comes before the rule: it asks for {asked} of {group}, {there} are there"
        assert facts.has_rank_table(world, write.name), f"{write.name} comes before its rank table"
        missing = counts["decode"] - facts.counts(world)["decode"]
        assert replaced or role != "prefill" or missing <= 0, f"{write.name} comes before {missing} decode instances"
    elif write.verb == "delete" and not replaced:
        assert asked <= counts[role], f"{write.name} goes before the rule, which asks for {asked} of {group}"


def check_end(world: World) -> None:
    """In the end the rule asks for just what is there, and no rank table is left of a job that is gone."""
    if world.backend == JOBS:
        numbers, sizes = facts.rule_numbers(world), facts.group_sizes(world)
        assert numbers == sizes, f"the rule asks for {numbers}, there are {sizes}"
        assert not facts.stray_rank_tables(world), f"without a job: {facts.stray_rank_tables(world)}"


def is_idle(world: World, place: tuple[str, int]) -> bool:
    """An AscendJob none of whose pods has a place, or that may make none by the rule: it may go before the others."""
    return world.backend == JOBS and not any(pod.placed for pod in facts.engine_pods(world).get(place, []))


def makes_none(world: World, place: tuple[str, int]) -> bool:
    """An AscendJob that makes no pods, for want of room or because the rule holds it: it goes before those that have some."""
    now = phase(facts.pod_groups(world).get(place, {}))
    if place in facts.engine_pods(world) or not is_idle(world, place) or now not in (PENDING, INQUEUE):
        return False
    return now == PENDING or not may_create(facts.engine_workloads(world)[place], world.objects.get(("ConfigMap", RULE)), world.pod_groups)
