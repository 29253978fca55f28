# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a snapshot tells of what is beside a scaling rule: jobs for its check, servers and instances for its simulation."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from . import job_settings
from . import pods as pod_facts
from .capacity import Instance, Server, Shape
from .findings import Finding
from .guard import open_intent
from .hardware import SUPER_POD_BLOCK
from .job_facts import GROUP_LABEL, RULE_LABEL, phase, pod_group_of
from .job_facts import RUNNING as PHASE_RUNNING
from .ownership import JOB_APP
from .rank_tables import RANK_TABLE_PREFIX
from .rule_live import LiveTask, lint_live
from .rule_reader import DATA_KEY, Reading
from .state import Object, Snapshot, is_deleted
from .workloads import JOB_LABEL, pod_count, pod_templates

SUPER_POD_LABEL = "huawei.com/topotree.superpodid"
SUPER_POD_ANNOTATION = "superPodID"


def live_findings(snapshot: Snapshot, name: str, reading: Reading | None) -> tuple[Finding, ...]:
    """What is wrong with a rule beside the live jobs, PodGroups and servers; nothing for one that the operator refuses."""
    return lint_live(reading, live_task(snapshot, name)) if reading else ()


def live_task(snapshot: Snapshot, name: str) -> LiveTask:
    """What is live beside the rule `name`."""
    settings = job_settings.read(snapshot.config_map)
    annotated = job_settings.ANNOTATION in ((snapshot.config_map or {}).get("metadata", {}).get("annotations") or {})
    config_maps = {found: obj for (kind, found), obj in snapshot.others.items() if kind == "ConfigMap"}
    return LiveTask(
        namespace=snapshot.namespace,
        rule_name=name,
        jobs=snapshot.jobs,
        pod_groups=snapshot.pod_groups,
        pods=snapshot.pods,
        rule=snapshot.rule,
        rule_names=(*(found for found, obj in config_maps.items() if DATA_KEY in (obj.get("data") or {})), name),
        rank_tables=frozenset(found for found in config_maps if found.startswith(RANK_TABLE_PREFIX)),
        controllers=tuple(pod for pod in snapshot.pods if _labels(pod).get("app") == JOB_APP["controller"]),
        servers=servers(snapshot, name),
        shapes=shapes(snapshot, name),
        groups=settings.groups if annotated and settings.scaling_rule == name else {},
        intent_open=open_intent(snapshot) is not None,
    )


def servers(snapshot: Snapshot, name: str) -> tuple[Server, ...]:
    """The nodes with NPUs. `used` is what pods of this namespace have that are not of the rule's jobs; other namespaces are not known."""
    own = {job["metadata"]["name"] for job in _jobs(snapshot, name)}
    used: Counter[str] = Counter()
    for pod in snapshot.pods:
        if _labels(pod).get(JOB_LABEL) not in own:
            used[pod_facts.node_of(pod)] += pod_facts.npus(pod)
    found = (_server(node, used) for dummy, node in sorted(snapshot.nodes.items()) if node is not None)
    return tuple(server for server in found if server.npus)


def shapes(snapshot: Snapshot, name: str) -> dict[str, Shape]:
    """What one instance of each group is like, as its first job (by name) has it."""
    found: dict[str, Shape] = {}
    for job in _jobs(snapshot, name):
        group = _labels(job).get(GROUP_LABEL, "")
        sizes = [pod_facts.npus(template) for dummy, template in pod_templates(job) if template.get("spec")]
        block = str((job["metadata"].get("annotations") or {}).get(SUPER_POD_BLOCK, ""))
        if any(sizes) and group not in found:
            found[group] = Shape(group, 0, pod_count(job), max(sizes), int(block) if block.isdecimal() else 0)
    return found


def instances(snapshot: Snapshot, name: str) -> tuple[Instance, ...]:
    """The instances that run, that is jobs whose PodGroup does, and the servers of their pods."""
    by_job: dict[str, list[Object]] = defaultdict(list)
    for pod in snapshot.pods:
        by_job[_labels(pod).get(JOB_LABEL, "")].append(pod)
    found = []
    for job in _jobs(snapshot, name):
        placed = [pod for pod in by_job[job["metadata"]["name"]] if pod_facts.node_of(pod) and pod_facts.npus(pod)]
        if placed and phase(pod_group_of(snapshot.pod_groups, job)) == PHASE_RUNNING:
            nodes = tuple(pod_facts.node_of(pod) for pod in placed)
            found.append(Instance(_labels(job).get(GROUP_LABEL, ""), job["metadata"]["name"], nodes, max(map(pod_facts.npus, placed))))
    return tuple(found)


def _jobs(snapshot: Snapshot, name: str) -> list[Object]:
    found = [job for job in snapshot.jobs if _labels(job).get(RULE_LABEL) == name and not is_deleted(job)]
    return sorted(found, key=lambda job: str(job["metadata"]["name"]))


def _server(node: Object, used: Mapping[str, int]) -> Server:
    metadata, status = node["metadata"], node.get("status") or {}
    capacity: Mapping[str, Any] = status.get("capacity") or {}
    npus = sum(int(capacity.get(resource, 0)) for resource in pod_facts.NPU_RESOURCES)
    pod = (metadata.get("labels") or {}).get(SUPER_POD_LABEL) or (metadata.get("annotations") or {}).get(SUPER_POD_ANNOTATION, "")
    ready = any(row.get("type") == "Ready" and row.get("status") == "True" for row in status.get("conditions") or ())
    usable = ready and not (node.get("spec") or {}).get("unschedulable")
    return Server(str(metadata["name"]), npus, str(pod), usable, min(npus, used.get(metadata["name"], 0)))


def _labels(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}
