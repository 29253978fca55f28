# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backend `ascend_jobs`: one AscendJob per engine instance, with its rank table, and a scaling rule that fits the counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from . import deployments, rule_object, siblings
from .choice import Removal
from .errors import Refused
from .job_settings import ENGINE_ROLES
from .ownership import metadata_labels
from .plan import Step, Write, create, delete, update
from .rank_tables import RANK_TABLE_PREFIX, initial, rank_table, rank_table_name
from .rule_reader import RuleError, read_data
from .rule_resize import Tiers, resized
from .scaling_rule import write
from .state import Snapshot
from .workloads import ASCEND_JOB, pod_count

RULE_STEP = "make the scaling rule fit"


def rule_steps(snapshot: Snapshot, wanted: Mapping[str, int], instances: Iterable[tuple[str, Mapping[str, Any]]]) -> tuple[Step, ...]:
    """Make the rule fit `wanted` counts, before any job comes or goes. `instances` (engine role, job) say how many pods one has.

    Raises Refused for a live rule that is broken: what it was meant to say is not guessed.
    """
    settings = snapshot.settings
    servers = {settings.groups[role]: pod_count(job) for role, job in instances}
    counts = {settings.groups[role]: wanted[role] for role in ENGINE_ROLES if settings.groups[role] in servers}
    if len(counts) < len(ENGINE_ROLES):
        return ()
    tiers = _live_tiers(snapshot)
    fitting = resized(tiers, counts, servers, settings.groups["prefill"])
    if fitting == tiers:
        return ()
    said = " / ".join(" + ".join(f"{size.number} {group}" for group, size in tier.items()) for tier in fitting)
    return (Step(RULE_STEP, (_rule_write(snapshot, fitting, f"tiers: {said}"),)),)


def shrink(snapshot: Snapshot, removals: Mapping[str, tuple[Removal, ...]]) -> tuple[Write, ...]:
    """Delete the jobs of these instances, with their rank tables, which nothing owns."""
    jobs = deployments.shrink(snapshot, removals)
    tables = (table for write in jobs for table in delete_rank_table(snapshot, write.name, write.why))
    return (*jobs, *tables, *left_over(snapshot))


def left_over(snapshot: Snapshot) -> tuple[Write, ...]:
    """Rank tables of ours whose job is gone: what an interrupted removal has left."""
    jobs = {rank_table_name(job["metadata"]["name"]) for job in snapshot.jobs}
    ours = {**metadata_labels("")}
    ours.pop("app.kubernetes.io/component")
    return tuple(
        delete("ConfigMap", obj, "its job is gone")
        for (kind, name), obj in snapshot.others.items()
        if kind == "ConfigMap"
        and name.startswith(RANK_TABLE_PREFIX)
        and name not in jobs
        and ours.items() <= (obj["metadata"].get("labels") or {}).items()
    )


def rank_tables(snapshot: Snapshot, role: str, writes: Iterable[Write]) -> tuple[Write, ...]:
    """Create the rank tables of the jobs that `writes` create. One of a job that is gone is deleted before."""
    stale = {write.name for write in left_over(snapshot)}
    names = {name for kind, name in snapshot.others if kind == "ConfigMap" and name not in stale}
    return tuple(
        create(rank_table(write.body, role), f"the ranks of {write.name} are written into it")
        for write in writes
        if write.kind == ASCEND_JOB and rank_table_name(write.name) not in names
    )


def renewed_rank_tables(snapshot: Snapshot, role: str, writes: Iterable[Write]) -> tuple[Write, ...]:
    """As `rank_tables`, where nothing is deleted before: one that a job of that name has left is made as it was in the beginning."""
    found = []
    for new in writes:
        left = snapshot.others.get(("ConfigMap", rank_table_name(new.name)))
        why = f"the ranks of {new.name} are written into it"
        if new.kind == ASCEND_JOB:
            found.append(create(rank_table(new.body, role), why) if left is None else update(initial(left), why))
    return tuple(found)


def delete_rank_table(snapshot: Snapshot, job_name: str, why: str) -> tuple[Write, ...]:
    """Delete the rank table of a job, when it is there."""
    found = snapshot.others.get(("ConfigMap", rank_table_name(job_name)))
    return (delete("ConfigMap", found, why),) if found else ()


def servers_of(snapshot: Snapshot, templates: Mapping[tuple[str, int], Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    """One job of each engine role that says how many pods an instance has: of the templates, else a live one."""
    found: dict[str, Mapping[str, Any]] = {}
    for role, items in siblings.by_role(snapshot.jobs, snapshot.base_name).items():
        usual = siblings.usual(job for dummy, job in items)
        if usual is not None:
            found[role] = usual
    found.update({role: job for (role, dummy), job in templates.items()})
    return list(found.items())


def _live_tiers(snapshot: Snapshot) -> Tiers:
    """The tiers of the live rule. What else is doubtful in it (a group that a tier omits, no tiers) the fitting rule mends."""
    if snapshot.rule is None:
        return ()
    where = f"ConfigMap {snapshot.namespace}/{snapshot.settings.scaling_rule}"
    try:
        return read_data(snapshot.rule.get("data") or {}, source=where).tiers
    except RuleError as error:
        raise Refused(
            f"The scaling rule of {snapshot.namespace} is broken, so that the Ascend Operator holds every job: {error.message}. "
            "Write it anew (motor_scaling_rule), then run this task again.",
            reason="RuleBroken",
            paths=(where,),
        ) from error


def _rule_write(snapshot: Snapshot, tiers: Tiers, why: str) -> Write:
    if snapshot.rule is None:
        return create(rule_object.made(snapshot.settings.scaling_rule, snapshot.namespace, write(tiers)), why)
    return update(rule_object.changed(snapshot.rule, write(tiers)), why)
