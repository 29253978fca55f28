# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What takes longer to say of tasks: which tier the servers have room for, and what is wrong with a live rule and its jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import job_settings, rule_cluster
from . import pods as pod_facts
from . import servers as server_facts
from .capacity import Instance, Server, Shape, reachable
from .errors import InputError
from .findings import Finding, by_severity
from .job_facts import GROUP_LABEL, TASK_LABEL, pods_by_job
from .overview import service_view
from .remembered import remembered
from .rule_lint import Lint, lint, lint_data
from .rule_reader import DATA_KEY, Reading
from .state import Object, Snapshot
from .stored import readable_config
from .workloads import pod_count

Key = tuple[str, str]


def service_report(snapshot: Snapshot, *, servers: Sequence[Server] | None = None) -> dict[str, Any]:
    """`overview.service_view`, each task with its details."""
    return detailed(service_view(snapshot, servers=servers), snapshot, servers)


def detailed(view: dict[str, Any], snapshot: Snapshot, servers: Sequence[Server] | None) -> dict[str, Any]:
    """A view of a snapshot, each task with its details."""
    details = task_details(snapshot, view["tasks"], servers=servers)
    tasks = [{**task, **details[task["rule"], task["task"]]} for task in view["tasks"]]
    return {**view, "tasks": tasks}


def task_details(snapshot: Snapshot, tasks: Sequence[Any], *, servers: Sequence[Server] | None = None) -> dict[Key, dict[str, Any]]:
    """For each of the tasks (`overview_tasks.tasks_view`), by rule and task: `tier_possible` and `findings`.

    `tier_possible` is the largest tier that healthy servers have room for, what the task itself has included and left where it is; None
    when they have room for none, or nothing is known. `findings` are those of the rule's text, and of its jobs, PodGroups and servers.
    """
    linted = {rule: _linted(snapshot, rule) for rule in {task["rule"] for task in tasks}}
    findings = {rule: _findings(snapshot, rule, found, servers or ()) for rule, found in linted.items()}
    return {
        (task["rule"], task["task"]): {
            "tier_possible": tier_possible(snapshot, task["rule"], task["task"], linted[task["rule"]].reading, servers or ()),
            "findings": [finding.to_dict() for finding in findings[task["rule"]]],
        }
        for task in tasks
    }


def _linted(snapshot: Snapshot, name: str) -> Lint:
    rule, source = snapshot.rule_named(name), f"ConfigMap {snapshot.namespace}/{name}"
    if rule is None:
        return Lint((), None)
    data = rule.get("data") or {}
    return _lint_text(data[DATA_KEY], f"{source} {DATA_KEY}") if DATA_KEY in data else lint_data(data, source=source)


@remembered
def _lint_text(text: str, source: str) -> Lint:
    return lint(text, source=source)


def _findings(snapshot: Snapshot, name: str, found: Lint, servers: Sequence[Server]) -> tuple[Finding, ...]:
    return by_severity((*found.findings, *rule_cluster.live_findings(snapshot, name, found.reading, servers)))


def tier_possible(snapshot: Snapshot, rule: str, task: str, reading: Reading | None, servers: Sequence[Server]) -> int | None:
    """See `task_details`; `servers` are with all that there is on them."""
    if reading is None or not reading.tiers or not servers:
        return None
    jobs = [job for job in rule_cluster.jobs(snapshot, rule) if _labels(job).get(TASK_LABEL, "") == task]
    by_job = pods_by_job(snapshot.pods)
    own = {job["metadata"]["name"]: by_job.get(job["metadata"]["name"], []) for job in jobs}
    shapes = {**_planned_shapes(snapshot, rule), **rule_cluster.shapes_of(jobs)}
    beside = server_facts.without(servers, (pod for found in own.values() for pod in found))
    try:
        return reachable(beside, list(shapes.values()), reading.tiers, _standing(snapshot, jobs, own, servers))
    except InputError:  # what runs does not go together with what nodes and jobs say of themselves
        return None


def _standing(snapshot: Snapshot, jobs: Sequence[Object], own: dict[str, list[Object]], servers: Sequence[Server]) -> list[Instance]:
    """The instances all of whose pods have a place on a server that is Ready, be it one that takes no more pods."""
    usable = {server.name for server in servers if server.usable}
    known = {server.name for server in servers}
    found = []
    for job in jobs:
        name = job["metadata"]["name"]
        staying = [pod for pod in own[name] if not pod_facts.is_leaving(pod) and not pod_facts.is_over(pod) and pod_facts.npus(pod)]
        nodes = tuple(pod_facts.node_of(pod) for pod in staying)
        if len(nodes) >= pod_count(job) and all(node in usable or (node in known and _is_ready(snapshot, node)) for node in nodes):
            found.append(Instance(_labels(job).get(GROUP_LABEL, ""), name, nodes, max(map(pod_facts.npus, staying))))
    return found


def _is_ready(snapshot: Snapshot, node: str) -> bool:
    found = snapshot.nodes.get(node)
    return found is not None and pod_facts.node_is_ready(found)


def _planned_shapes(snapshot: Snapshot, rule: str) -> dict[str, Shape]:
    """What `motor-config` says of instances of groups that have no jobs."""
    settings, config = job_settings.of_service(snapshot.config_map), readable_config(snapshot.config_map)
    if settings is None or config is None or settings.scaling_rule != rule:
        return {}
    sizes = {role: (config.pods_per_instance.get(role), config.npus_per_pod.get(role)) for role in settings.groups}
    return {settings.groups[role]: Shape(settings.groups[role], 0, pods, npus) for role, (pods, npus) in sizes.items() if pods and npus}


def _labels(obj: Object) -> Any:
    return obj["metadata"].get("labels") or {}
