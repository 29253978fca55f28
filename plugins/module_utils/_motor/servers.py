# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The servers of a cluster and their NPUs: as plans and simulations want them, and as they are shown.

Of a server `npus` is what it has (`capacity`); `healthy` what kubelet offers of them (`allocatable`), none while it is not Ready. Pods that
are bound to it and have not ended have theirs: `used` are those of pods that have started, `reserved` those of pods that have not yet.
What is left is `free`; nothing is on a server that takes no pods.

A job whose PodGroup was let in (`Inqueue`) while it has no pods reserves NPUs of the cluster, but of no server: only the totals tell.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from . import pods as pod_facts
from .capacity_model import MOST_NPUS, Server
from .job_facts import phase
from .state import INFER_LABEL, Object, is_deleted
from .workloads import ASCEND_JOB, JOB_LABEL

SUPER_POD_LABEL = "huawei.com/topotree.superpodid"
SUPER_POD_ANNOTATION = "superPodID"
INQUEUE = "Inqueue"


def npus_by_node(pods: Iterable[Object]) -> Counter[str]:
    """NPUs of pods that are bound to a node and have not ended."""
    found: Counter[str] = Counter()
    for pod in pods:
        node = pod_facts.node_of(pod)
        if node and not pod_facts.is_over(pod):
            found[node] += pod_facts.npus(pod)
    return found


def servers(nodes: Iterable[Object], pods: Iterable[Object]) -> tuple[Server, ...]:
    """The nodes with NPUs, by name. Of these, `used` are those that the pods have, and those that are not healthy."""
    taken = npus_by_node(pods)
    found = (_server(node, taken[node["metadata"]["name"]]) for node in nodes)
    return tuple(sorted((server for server in found if server.npus), key=lambda server: server.name))


def without(found: Sequence[Server], pods: Iterable[Object]) -> tuple[Server, ...]:
    """The servers as they would be without these pods."""
    taken = npus_by_node(pods)
    return tuple(replace(server, used=max(0, server.used - taken[server.name])) if server.name in taken else server for server in found)


def _server(node: Object, taken: int) -> Server:
    status = node.get("status") or {}
    npus = _npus(status.get("capacity"))
    ill = max(0, npus - _npus(status.get("allocatable"))) if "allocatable" in status else 0
    return Server(str(node["metadata"]["name"]), min(npus, MOST_NPUS), _super_pod(node), _is_usable(node), min(npus, taken + ill))


def _npus(resources: Mapping[str, Any] | None) -> int:
    return pod_facts.npus_of(resources or {})


def _super_pod(node: Object) -> str:
    metadata = node["metadata"]
    return str((metadata.get("labels") or {}).get(SUPER_POD_LABEL) or (metadata.get("annotations") or {}).get(SUPER_POD_ANNOTATION, ""))


def _is_cordoned(node: Object) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))


def _is_usable(node: Object) -> bool:
    return pod_facts.node_is_ready(node) and not _is_cordoned(node)


def servers_view(nodes: Iterable[Object], pods: Iterable[Object]) -> list[dict[str, Any]]:
    """The servers as they are shown, by name, each with the pods that have NPUs of it."""
    by_node: dict[str, list[Object]] = defaultdict(list)
    for pod in pods:
        by_node[pod_facts.node_of(pod)].append(pod)
    shown = (_shown(node, by_node.get(node["metadata"]["name"], ())) for node in nodes)
    return sorted((server for server in shown if server["npus"]), key=lambda server: str(server["name"]))


def _shown(node: Object, pods: Iterable[Object]) -> dict[str, Any]:
    status = node.get("status") or {}
    npus, ready = _npus(status.get("capacity")), pod_facts.node_is_ready(node)
    healthy = min(npus, _npus(status.get("allocatable") if "allocatable" in status else status.get("capacity"))) if ready else 0
    holding = [row for row in map(_pod, pods) if row["npus"] and row["state"] != "ended"]
    started = sum(row["npus"] for row in holding if row["state"] != "starting")
    waiting = sum(row["npus"] for row in holding if row["state"] == "starting")
    return {
        "name": node["metadata"]["name"],
        "npus": npus,
        "healthy": healthy,
        "used": started,
        "reserved": waiting,
        "free": max(0, healthy - started - waiting) if _is_usable(node) else 0,
        "ready": ready,
        "cordoned": _is_cordoned(node),
        "super_pod": _super_pod(node),
        "since": pod_facts.node_since(node),
        "pods": sorted(holding, key=lambda row: (row["namespace"], row["name"])),
    }


def _pod(pod: Object) -> dict[str, Any]:
    metadata = pod["metadata"]
    return {
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "instance": _instance(metadata.get("labels") or {}),
        "npus": pod_facts.npus(pod),
        "state": _state(pod),
    }


def _instance(labels: Mapping[str, str]) -> str:
    """The instance that a pod belongs to, as its labels say."""
    role = labels.get(f"{INFER_LABEL}instanceset-name")
    if role:
        return f"{role}-{labels.get(f'{INFER_LABEL}instanceset-index', '')}"
    return labels.get(JOB_LABEL) or labels.get("app", "")


def _state(pod: Object) -> str:
    """`starting` until its containers have started, `running` when it is ready; `ended` ones have given their NPUs back."""
    if pod_facts.is_over(pod):
        return "ended"
    if pod_facts.is_leaving(pod):
        return "terminating"
    if not pod_facts.has_started(pod):
        return "starting"
    return "running" if pod_facts.is_ready(pod) else "unready"


def enqueued(pod_groups: Iterable[Object], pods: Iterable[Object]) -> list[dict[str, Any]]:
    """Jobs whose PodGroup was let in while they have no pods: the scheduler counts their NPUs as taken, though no server does."""
    owners = {owner.get("uid") for pod in pods for owner in pod["metadata"].get("ownerReferences") or ()}
    found = []
    for group in pod_groups:
        owner = next((row for row in group["metadata"].get("ownerReferences") or () if row.get("kind") == ASCEND_JOB), None)
        npus = _npus((group.get("spec") or {}).get("minResources"))
        if phase(group) == INQUEUE and not is_deleted(group) and npus and not (owner and owner.get("uid") in owners):
            name = str((owner or {}).get("name") or group["metadata"]["name"])
            found.append({"namespace": group["metadata"].get("namespace", ""), "job": name, "npus": npus})
    return sorted(found, key=lambda row: (row["namespace"], row["job"]))


def totals(shown: Iterable[Mapping[str, Any]], waiting: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The sums over `servers_view`, and what jobs that wait without pods (`enqueued`) reserve of what is free."""
    rows = list(shown)
    found: dict[str, Any] = {key: sum(row[key] for row in rows) for key in ("npus", "healthy", "used", "reserved", "free")}
    jobs = [dict(row) for row in waiting]
    return {"servers": len(rows), **found, "enqueued": sum(row["npus"] for row in jobs), "enqueued_jobs": jobs}
