# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far the pods of a program's Deployment have come, and what keeps them from getting on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from . import pods as pod_facts
from . import programs, terminal
from .ownership import COMPONENT
from .terminal import Symptom
from .workloads import pod_count, pod_labels


def missing(deployment: Mapping[str, Any]) -> str:
    """What is still missing until all pods are of the newest version and available, in words; "" when nothing is."""
    status = deployment.get("status") or {}
    wanted, updated = pod_count(deployment), int(status.get("updatedReplicas") or 0)
    if int(status.get("observedGeneration") or 0) < int(deployment["metadata"].get("generation") or 0):
        return "the Deployment has not been looked at yet"
    if updated < wanted:
        return f"{updated} of {wanted} pods are of the new version"
    if int(status.get("replicas") or 0) > updated:
        return "pods of the old version are left"
    available = int(status.get("availableReplicas") or 0)
    return "" if available >= wanted else f"{available} of {wanted} pods are available"


def unserved(api_service: Mapping[str, Any] | None) -> str:
    """Why the API server does not pass an API on, in its words; "" when it does."""
    if api_service is None:
        return "the APIService is gone"
    conditions = (api_service.get("status") or {}).get("conditions") or ()
    found = next((row for row in conditions if row.get("type") == "Available"), None)
    if found is None:
        return "it has not looked for it yet"
    return "" if found.get("status") == "True" else f"{found.get('reason', '')}: {found.get('message', '')}"


def all_pods(deployment: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """Its pods of any version."""
    labels = pod_labels(deployment).items()
    return tuple(pod for pod in pods if labels <= (pod["metadata"].get("labels") or {}).items())


def symptoms(deployment: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> tuple[Symptom, ...]:
    """All lasting troubles of those of its pods that are of the newest version and are to stay, and of the Deployment itself."""
    metadata, started_from = deployment["metadata"], programs.checksum(deployment)
    if int((deployment.get("status") or {}).get("observedGeneration") or 0) < int(metadata.get("generation") or 0):
        return ()  # what it says is of an older version
    program = str((metadata.get("labels") or {}).get(COMPONENT, ""))
    mine = [pod for pod in all_pods(deployment, pods) if programs.checksum(pod) == started_from and not pod_facts.is_leaving(pod)]
    found = [(pod["metadata"]["name"], trouble) for pod in mine if (trouble := pod_facts.trouble(pod)) and trouble.lasting]
    of_pods = tuple(Symptom(name, program, None, trouble.lasting, trouble.reason) for name, trouble in found)
    whole = terminal.of_workload(deployment, mine, pod_count(deployment), (), (metadata["name"], program, None))
    return (*of_pods, whole) if whole else of_pods


def lasting(symptom: Symptom, before: frozenset[str]) -> float:
    """For how many seconds a symptom must be seen before a wait ends because of it.

    `before` names what was there before and was not changed, so that its troubles may be about to end, the cause being corrected.
    """
    old = symptom.name in before
    if symptom.kind == terminal.REFUSED:
        return terminal.REFUSED_SECONDS
    if symptom.kind == pod_facts.UNSCHEDULABLE or (old and symptom.kind == terminal.PROGRESS):
        return math.inf
    return terminal.OLD_SECONDS if old else 0.0
