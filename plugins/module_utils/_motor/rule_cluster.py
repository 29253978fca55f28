# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a snapshot tells of what is beside a scaling rule: jobs for its check, servers and instances for its simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from . import job_settings
from . import pods as pod_facts
from . import servers as server_facts
from .capacity import Instance, Server, Shape
from .findings import Finding
from .guard import open_intent
from .hardware import SUPER_POD_BLOCK
from .job_facts import GROUP_LABEL, RULE_LABEL, Census, phase, pods_by_job
from .job_facts import RUNNING as PHASE_RUNNING
from .ownership import JOB_APP
from .rank_tables import RANK_TABLE_PREFIX
from .rule_live import LiveTask, lint_live
from .rule_reader import DATA_KEY, Reading
from .state import Object, Snapshot, is_deleted
from .workloads import JOB_LABEL, pod_count, pod_templates


def live_findings(snapshot: Snapshot, name: str, reading: Reading | None, among: Sequence[Server]) -> tuple[Finding, ...]:
    """What is wrong with a rule beside the live jobs, PodGroups and servers (none: not known); nothing for one that the operator refuses."""
    return lint_live(reading, live_task(snapshot, name, among)) if reading else ()


def live_task(snapshot: Snapshot, name: str, among: Sequence[Server]) -> LiveTask:
    """What is live beside the rule `name`, and all servers (none: not known)."""
    settings = job_settings.of_service(snapshot.config_map)
    config_maps = {found: obj for (kind, found), obj in snapshot.others.items() if kind == "ConfigMap"}
    return LiveTask(
        namespace=snapshot.namespace,
        rule_name=name,
        jobs=snapshot.jobs,
        pod_groups=snapshot.pod_groups,
        pods=snapshot.pods,
        rule=snapshot.rule_named(name),
        rule_names=(*(found for found, obj in config_maps.items() if DATA_KEY in (obj.get("data") or {})), name),
        rank_tables=frozenset(found for found in config_maps if found.startswith(RANK_TABLE_PREFIX)),
        controllers=tuple(pod for pod in snapshot.pods if _labels(pod).get("app") == JOB_APP["controller"]),
        servers=tuple(among),
        shapes=shapes(snapshot, name),
        groups=settings.groups if settings and settings.scaling_rule == name else {},
        intent_open=open_intent(snapshot) is not None,
    )


def servers(snapshot: Snapshot, name: str) -> tuple[Server, ...]:
    """The servers as they are without the rule's jobs. What pods of other namespaces have is known only where they were read."""
    return server_facts.without(all_servers(snapshot), pods(snapshot, name))


def all_servers(snapshot: Snapshot) -> tuple[Server, ...]:
    """The servers with all the pods on them that are known."""
    return server_facts.servers((node for node in snapshot.nodes.values() if node is not None), snapshot.pods)


def pods(snapshot: Snapshot, name: str) -> list[Object]:
    """The pods of the jobs of a rule."""
    own = {job["metadata"]["name"] for job in jobs(snapshot, name)}
    return [pod for pod in snapshot.pods if _labels(pod).get(JOB_LABEL) in own]


def shapes(snapshot: Snapshot, name: str) -> dict[str, Shape]:
    """What one instance of each group of a rule is like; see `shapes_of`."""
    return shapes_of(jobs(snapshot, name))


def shapes_of(found_jobs: Sequence[Object]) -> dict[str, Shape]:
    """What one instance of each group is like, as its first job has it."""
    found: dict[str, Shape] = {}
    for job in found_jobs:
        shape = shape_of(job, _labels(job).get(GROUP_LABEL, ""))
        if shape and shape.group not in found:
            found[shape.group] = shape
    return found


def shape_of(job: Object, group: str) -> Shape | None:
    """What one instance is like that a job makes; None for one without NPUs."""
    sizes = [pod_facts.npus(template) for dummy, template in pod_templates(job) if template.get("spec")]
    block = str((job["metadata"].get("annotations") or {}).get(SUPER_POD_BLOCK, ""))
    return Shape(group, 0, pod_count(job), max(sizes), int(block) if block.isdecimal() else 0) if any(sizes) else None


def instances(snapshot: Snapshot, name: str) -> tuple[Instance, ...]:
    """The instances that run, that is jobs whose PodGroup does, and the servers of their pods."""
    by_job, census = pods_by_job(snapshot.pods), Census(snapshot.pod_groups)
    found = []
    for job in jobs(snapshot, name):
        placed = [pod for pod in by_job.get(job["metadata"]["name"], ()) if pod_facts.node_of(pod) and pod_facts.npus(pod)]
        if placed and phase(census.pod_group(job)) == PHASE_RUNNING:
            nodes = tuple(pod_facts.node_of(pod) for pod in placed)
            found.append(Instance(_labels(job).get(GROUP_LABEL, ""), job["metadata"]["name"], nodes, max(map(pod_facts.npus, placed))))
    return tuple(found)


def jobs(snapshot: Snapshot, name: str) -> list[Object]:
    """The jobs of a rule that are to stay, by name."""
    found = [job for job in snapshot.jobs if _labels(job).get(RULE_LABEL) == name and not is_deleted(job)]
    return sorted(found, key=lambda job: str(job["metadata"]["name"]))


def _labels(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}
