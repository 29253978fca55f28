# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Backends with a workload of its own per engine instance: a Deployment, or an AscendJob."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from . import history, siblings
from .choice import Removal
from .errors import Refused
from .instances import LETTER, instance_name
from .ownership import metadata_labels
from .plan import Write, create, delete
from .rank_tables import set_name
from .state import Snapshot
from .workloads import ASCEND_JOB

NO_SIBLING = "NoSibling"


def shrink(snapshot: Snapshot, removals: Mapping[str, tuple[Removal, ...]]) -> tuple[Write, ...]:
    """Delete the workloads of these instances."""
    by_name = {workload["metadata"]["name"]: workload for workload in snapshot.own_workloads}
    return tuple(
        replace(
            delete(by_name[gone.name]["kind"], by_name[gone.name], f"{role} instance {gone.index} is surplus: {gone.why}"), removed=(gone,)
        )
        for role, found in removals.items()
        for gone in found
    )


def grow(
    snapshot: Snapshot, role: str, indexes: tuple[int, ...], templates: Mapping[tuple[str, int], Mapping[str, Any]]
) -> tuple[Write, ...]:
    """Create workloads: from `templates` where given, else as clones of a live sibling.

    An index for which there is no template (that of a lower one is taken by a namesake) takes another one of its engine role.
    """
    made = [obj for (found, dummy), obj in sorted(templates.items()) if found == role]
    writes = []
    for index in indexes:
        obj = templates.get((role, index)) or clone(made[0] if made else _sibling(snapshot, role), snapshot, role, index)
        writes.append(create(obj, f"{role} instance {index} is missing"))
    return tuple(writes)


def clone(sibling: Mapping[str, Any], snapshot: Snapshot, role: str, index: int) -> dict[str, Any]:
    """A new instance with the spec of another one; only name, labels and JOB_NAME (of an AscendJob: the rank table) are its own."""
    name = instance_name(snapshot.base_name, role, index)
    obj = siblings.cleaned(sibling)
    if obj["kind"] == ASCEND_JOB:
        set_name(obj, name)
        obj["metadata"].setdefault("labels", {}).update(metadata_labels(role))
        return obj
    obj["metadata"]["name"] = name
    labels = obj["metadata"].setdefault("labels", {})
    labels.update(metadata_labels(role), app=name)
    obj["spec"]["selector"]["matchLabels"]["app"] = name
    obj["spec"]["template"]["metadata"]["labels"]["app"] = name
    _rename_job(obj, role, index)
    return obj


def _rename_job(obj: dict[str, Any], role: str, index: int) -> None:
    """JOB_NAME and label job-name are `{job_id}-{letter}{index}-{suffix}`: only the index is new."""
    prefix, replacement = re.compile(rf"-{LETTER[role]}\d+-(?=[0-9a-z]+$)"), f"-{LETTER[role]}{index}-"
    labels = obj["metadata"]["labels"]
    if "job-name" in labels:
        labels["job-name"] = prefix.sub(replacement, labels["job-name"])
    for container in obj["spec"]["template"]["spec"]["containers"]:
        for item in container.get("env") or ():
            if item["name"] == "JOB_NAME" and "value" in item:
                item["value"] = prefix.sub(replacement, item["value"])


def _sibling(snapshot: Snapshot, role: str) -> Mapping[str, Any]:
    """A live workload of the engine role, one that is like most of its siblings; with none left, the one kept in the history."""
    items = siblings.by_role(snapshot.own_workloads, snapshot.base_name).get(role, [])
    found = siblings.usual(workload for dummy, workload in items) or history.template(snapshot.revision, role)
    if found is None:
        raise Refused(
            f"Cannot create {role} instances of {snapshot.namespace}: no {role} instance is left to copy the specification from, nor is one kept. "
            "Deploy the service again (role motor_deploy or module motor_service with user_config, env and release).",
            reason=NO_SIBLING,
            paths=(role,),
        )
    return found
