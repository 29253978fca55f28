# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb `remove`: everything of a service goes, the namespace and claims stay unless asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .ownership import JOB_APPS, PART_OF, PRODUCT
from .plan import NO_PODS, Plan, Step, Write, delete
from .state import Snapshot, is_deployer_name, service_pods, service_state
from .workloads import ASCEND_JOB

VERB = "remove"
# Names of Motor's own deployer that do not begin with the prefix.
_DEPLOYER_SERVICES = frozenset({"kvp-master", "kv-conductor", "mf-store"})


def plan_remove(snapshot: Snapshot, *, claims: bool) -> Plan:
    """Plan the removal: workloads first, then (no pod left) what they used, `motor-config` last. `claims`: PVCs go, too."""
    workloads: list[Write] = []
    others: list[Write] = []
    for obj in _belonging(snapshot):
        kind = obj["kind"]
        if kind == "PersistentVolumeClaim" and not claims:
            continue
        propagation = "Foreground" if kind == "InferServiceSet" else "Background"
        target = workloads if kind in ("Deployment", "InferServiceSet", ASCEND_JOB) else others
        target.append(delete(kind, obj, "the service is removed", propagation))
    steps = [Step("remove workloads", tuple(workloads), until=NO_PODS, always=True)] if workloads or service_pods(snapshot) else []
    if others:
        steps.append(Step("remove what they used", tuple(others)))
    if snapshot.config_map:
        steps.append(Step("remove motor-config", (_config(snapshot.config_map),)))
    state = service_state(snapshot)
    return Plan(
        verb=VERB,
        namespace=snapshot.namespace,
        steps=tuple(steps),
        counts_before=state.counts(),
        removes=True,
        settles=False,
        lease_left=snapshot.lease is not None,
    )


def belongs(obj: Mapping[str, Any]) -> bool:
    """True for an object of the service, made by us (label) or by Motor's own deployer (name)."""
    name, labels = obj["metadata"]["name"], obj["metadata"].get("labels") or {}
    if obj["metadata"].get("ownerReferences"):
        return False  # it goes with its owner
    if labels.get(PART_OF) == PRODUCT:
        return True
    if obj["kind"] in ("ClusterRole", "ClusterRoleBinding", "PersistentVolumeClaim"):
        return False
    if obj["kind"] == ASCEND_JOB:
        return labels.get("app") in JOB_APPS
    return is_deployer_name(name) or (obj["kind"] == "Service" and name in _DEPLOYER_SERVICES)


def _belonging(snapshot: Snapshot) -> list[Any]:
    rule = [snapshot.rule] if snapshot.rule else []
    found = [obj for obj in (*snapshot.own_workloads, *snapshot.others.values(), *rule) if belongs(obj)]
    return [*found, snapshot.infer_service_set] if snapshot.infer_service_set else found


def _config(config_map: Mapping[str, Any]) -> Write:
    return delete("ConfigMap", config_map, "the service is removed")
