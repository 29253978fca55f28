# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backend `infer_service_set`: counts are `roles[i].replicas` of one InferServiceSet; the Infer Operator does the rest."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .choice import Removal
from .compare import differences
from .errors import Refused
from .instances import INFER_SERVICE_SET_NAME
from .plan import Write
from .state import INFER_LABEL, Snapshot, infer_roles, instance_set_of

# What the operator adds to pod templates on its own.
_OPERATOR_KEYS = (INFER_LABEL, "fault-scheduling", "inferserviceid", "scheduling.k8s.io/group-name")
_OPERATOR_ENVIRONMENT = ("INSTANCE_INDEX", "INSTANCE_ROLE", "INFER_SERVICE_INDEX", "INFER_SERVICE_NAME")
GANG_LABEL = f"{INFER_LABEL}gang-schedule"


def shrink(snapshot: Snapshot, removals: Mapping[str, tuple[Removal, ...]]) -> Write:
    """Lower the counts. The operator removes every index at or above the new count, in no particular order."""
    current = counts(snapshot)
    changes = {role: (current[role], current[role] - len(gone)) for role, gone in removals.items()}
    whys = {role: ", ".join(f"{removal.index} ({removal.why})" for removal in gone) for role, gone in removals.items()}
    removed = tuple(removal for gone in removals.values() for removal in gone)
    return replace(_patch(snapshot, changes, {role: f": removes {why}" for role, why in whys.items()}), removed=removed)


def grow(snapshot: Snapshot, wanted: Mapping[str, int]) -> Write:
    """Raise the counts."""
    current = counts(snapshot)
    for role in wanted:
        if role not in current:
            raise Refused(
                f"InferServiceSet {snapshot.namespace}/{_name(snapshot)} {'has no role ' + role if current else 'is not there'}: "
                "deploy the service again (role motor_deploy or module motor_service with user_config, env and release).",
                reason="NoSuchRole",
                paths=(role,),
            )
    return _patch(snapshot, {role: (current[role], count) for role, count in wanted.items()})


def child(role: Mapping[str, Any], live: Mapping[str, Any]) -> dict[str, Any]:
    """The workload that the operator would make now in place of a live one, as far as it matters to the pods.

    The operator adds labels, annotations and environment variables of its own to the pod template; they are taken over.
    """
    wanted: dict[str, Any] = copy.deepcopy({"replicas": role["spec"].get("replicas", 1), "template": role["spec"]["template"]})
    theirs = live["spec"]["template"]
    for field in ("labels", "annotations"):
        added = {key: value for key, value in (theirs["metadata"].get(field) or {}).items() if key.startswith(_OPERATOR_KEYS)}
        wanted["template"]["metadata"][field] = {**(wanted["template"]["metadata"].get(field) or {}), **added}
    environment = {item["name"]: item.get("env") or () for item in theirs["spec"]["containers"]}
    for container in wanted["template"]["spec"]["containers"]:
        added_env = [item for item in environment.get(container["name"], ()) if item["name"] in _OPERATOR_ENVIRONMENT]
        container["env"] = [*(container.get("env") or ()), *added_env]
    metadata = {key: live["metadata"][key] for key in ("name", "namespace", "labels")}
    return {"apiVersion": "apps/v1", "kind": live["kind"], "metadata": metadata, "spec": {**wanted, "selector": live["spec"]["selector"]}}


def unknown(snapshot: Snapshot) -> str:
    """Why the operator does not yet make workloads as the set says, or "". It makes them from the InstanceSets."""
    by_role = {(item["metadata"].get("labels") or {}).get(f"{INFER_LABEL}instanceset-name"): item for item in snapshot.instance_sets}
    for role in infer_roles(snapshot):
        item = by_role.get(role["name"])
        if item is None:
            return f"InstanceSet of {role['name']} does not exist yet"
        wanted = {key: value for key, value in role.items() if key != "replicas"}
        observed = (item.get("status") or {}).get("observedGeneration")
        if differences(wanted, item["spec"]) or observed != item["metadata"].get("generation"):
            return f"InstanceSet {item['metadata']['name']} is not yet as the set says"
    return ""


def counts(snapshot: Snapshot) -> dict[str, int]:
    """`roles[].replicas` by role name."""
    return {role["name"]: int(role.get("replicas") or 0) for role in infer_roles(snapshot)}


def unsettled(snapshot: Snapshot, wanted: Mapping[str, int]) -> str:
    """Why the counts are not reached yet, or "". Only the InstanceSets tell the truth: the Ready conditions of their
    parents stay True for a while after a change (ground facts of the Infer Operator).
    """
    for role, count in wanted.items():
        item = instance_set_of(snapshot, role)
        if item is None:
            return f"InstanceSet of {role} does not exist yet"
        status = item.get("status") or {}
        ready = status.get("readyReplicas", 0)
        numbers = (item["spec"].get("replicas"), status.get("replicas", 0), ready)
        if status.get("observedGeneration") != item["metadata"].get("generation") or set(numbers) != {count}:
            return f"InstanceSet {item['metadata']['name']}: {ready} of {count} instances ready"
    return ""


def unreduced(snapshot: Snapshot, wanted: Mapping[str, int]) -> str:
    """Why a lower count is not reached yet, or "": the operator has still more instances than wanted, so it may make pods anew."""
    for role, count in wanted.items():
        item = instance_set_of(snapshot, role)
        if item is None:
            return f"InstanceSet of {role} does not exist"
        numbers = (item["spec"].get("replicas") or 0, (item.get("status") or {}).get("replicas") or 0)
        if max(numbers) > count:
            return f"InstanceSet {item['metadata']['name']}: {max(numbers)} instances, {count} wanted"
    return ""


def uses_gang_scheduling(snapshot: Snapshot) -> bool:
    """True when an engine role asks the operator for gang scheduling: then it may tear down what it just built."""
    labels = ((role.get("metadata") or {}).get("labels") or {} for role in infer_roles(snapshot))
    return any(str(found.get(GANG_LABEL)).lower() == "true" for found in labels)


def _patch(snapshot: Snapshot, changes: Mapping[str, tuple[int, int]], whys: Mapping[str, str] | None = None) -> Write:
    found = snapshot.infer_service_set or {}
    patch: list[dict[str, Any]] = [{"op": "test", "path": "/metadata/uid", "value": found["metadata"]["uid"]}]
    for index, role in enumerate(infer_roles(snapshot)):
        if role["name"] in changes:
            path, (old, new) = f"/spec/template/roles/{index}", changes[role["name"]]
            patch.append({"op": "test", "path": f"{path}/name", "value": role["name"]})
            patch.append({"op": "test", "path": f"{path}/replicas", "value": old})
            patch.append({"op": "replace", "path": f"{path}/replicas", "value": new})
    why = "; ".join(f"{role} {old} -> {new}{(whys or {}).get(role, '')}" for role, (old, new) in changes.items())
    return Write("update", "InferServiceSet", snapshot.namespace, _name(snapshot), why, body=patch, patch=True)


def _name(snapshot: Snapshot) -> str:
    found = snapshot.infer_service_set
    return str(found["metadata"]["name"]) if found else INFER_SERVICE_SET_NAME
