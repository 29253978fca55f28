# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wanted objects of a service against the live ones: what to create, to update, to prune, and whose pods have to be replaced."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from . import generation, owners
from .compare import differences, merged
from .instances import ENGINE_ROLES
from .manifests.identity import keep_identity
from .ownership import is_ours
from .plan import Write, create, delete, update
from .rank_tables import RANK_TABLE_PREFIX
from .rendered import Rendered
from .siblings import is_engine
from .state import Snapshot, is_deleted, service_state
from .workloads import ASCEND_JOB

WORKLOADS = frozenset({"Deployment", "InferServiceSet", ASCEND_JOB})
# Workloads that we make ourselves, one for an instance or control role.
_OWN = frozenset({"Deployment", ASCEND_JOB})
# Claims hold data: they are created, never pruned.
_KEPT = frozenset({"PersistentVolumeClaim"})
_OWN_LABELS = "metadata.labels[app.kubernetes.io/"
OTHER_START = "the configuration that its pods started with"


@dataclass(frozen=True)
class Outdated:
    """A live workload whose pods were started with something else than what is wanted now. `paths` says what differs;
    `wanted` is the object that takes its place (None: the Infer Operator makes it). `why` says it where no path differs.
    """

    live: Mapping[str, Any]
    paths: tuple[str, ...]
    wanted: Mapping[str, Any] | None = None
    why: str = ""

    @property
    def name(self) -> str:
        """The name of the workload, before and after."""
        return str(self.live["metadata"]["name"])


@dataclass(frozen=True)
class Convergence:
    """Writes that restart nothing, the InferServiceSet as it has to become (when new pods are to differ), the outdated workloads, and
    those whose pods were started with just what is wanted.
    """

    writes: tuple[Write, ...] = ()
    new_set: Mapping[str, Any] | None = None
    outdated: tuple[Outdated, ...] = ()
    current: tuple[Mapping[str, Any], ...] = ()
    prune: tuple[Write, ...] = ()


def converge(snapshot: Snapshot, rendered: Rendered, wanted_generation: str) -> Convergence:
    """Compare everything but the counts of engine instances, which change by their own steps."""
    instances = {obj["metadata"]["name"] for _role, _index, obj in rendered.instances}
    ours = (obj for obj in live_objects(snapshot) if not is_going(obj) and not _is_namesake(obj, instances))
    live = {(obj["kind"], obj["metadata"]["name"]): obj for obj in ours}
    unmarked = generation.of_baseline(snapshot.config_map)
    writes: list[Write] = []
    outdated: list[Outdated] = []
    current: list[Mapping[str, Any]] = []
    new_set = None
    for obj in [*rendered.objects, *(obj for _role, _index, obj in rendered.instances)]:
        found = live.get((obj["kind"], obj["metadata"]["name"]))
        if found is None:
            writes.extend([create(marked(obj, wanted_generation), "it is missing")] if obj in rendered.objects else [])
            continue
        wanted = keep_identity(_with_live_counts(snapshot, obj, found), found)
        paths = differences(wanted, found)
        reasons = tuple(path for path in paths if restarts(obj["kind"], path))
        if obj["kind"] in WORKLOADS and _with_generation(wanted, found, wanted_generation, unmarked):
            reasons = (OTHER_START, *reasons)
        if reasons and obj["kind"] == "InferServiceSet":
            new_set = merged(wanted, found)
            outdated.append(Outdated(found, reasons))
        elif reasons:
            outdated.append(Outdated(found, reasons, obj))
        else:
            current.extend([found] if obj["kind"] in _OWN else [])
            writes.extend([update(merged(wanted, found), f"{', '.join(paths)} differs")] if paths else [])
    return Convergence(tuple(writes), new_set, tuple(outdated), tuple(current), _prune(snapshot, rendered))


def _is_namesake(obj: Mapping[str, Any], instances: Collection[str]) -> bool:
    """Somebody else's Deployment that only has the name of an instance: it is never touched."""
    return obj["kind"] == "Deployment" and obj["metadata"]["name"] in instances and not is_engine(obj)


def restarts(kind: str, path: str) -> bool:
    """True when this field reaches running pods only through a restart. The operator copies labels and annotations of an AscendJob
    to its PodGroup once, when it makes it; only those of ours mean nothing there.
    """
    if kind == ASCEND_JOB:
        return not path.startswith(_OWN_LABELS)
    return kind in WORKLOADS and path.startswith("spec")


def marked(obj: Mapping[str, Any], value: str) -> Mapping[str, Any]:
    """The object with the generation on the metadata of each workload that it is or makes."""
    if obj["kind"] not in WORKLOADS:
        return obj
    new: dict[str, Any] = copy.deepcopy(dict(obj))
    for metadata in _workload_metadata(new):
        generation.mark(metadata, value)
    return new


def live_objects(snapshot: Snapshot) -> list[Any]:
    """Everything of the service but `motor-config` and the Lease."""
    found = [*snapshot.own_workloads, *snapshot.others.values()]
    return [*found, snapshot.infer_service_set] if snapshot.infer_service_set else found


def is_going(obj: Mapping[str, Any]) -> bool:
    """True for a workload that was deleted and is there until its pods are gone."""
    return obj["kind"] in WORKLOADS and is_deleted(obj)


def _workload_metadata(obj: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """The metadata that end up on workloads: the object's own, or those of the roles of an InferServiceSet."""
    if obj["kind"] == "InferServiceSet":
        return [role.setdefault("metadata", {}) for role in obj["spec"]["template"]["roles"]]
    return [obj["metadata"]]


def _with_generation(wanted: dict[str, Any], live: Mapping[str, Any], value: str, unmarked: str) -> bool:
    """Mark the wanted object where the live one is marked, or was started with another generation; tells whether any was."""
    live_roles = {role["name"]: role.get("metadata") or {} for role in _roles(live)}
    found = [live_roles.get(role["name"], {}) for role in _roles(wanted)] or [live["metadata"]]
    others = [generation.is_other(metadata, unmarked, value) for metadata in found]
    for metadata, before, other in zip(_workload_metadata(wanted), found, others, strict=True):
        if other or generation.is_marked(before):
            generation.mark(metadata, value)
    return any(others)


def _roles(obj: Mapping[str, Any]) -> list[Any]:
    return list(obj["spec"]["template"]["roles"]) if obj["kind"] == "InferServiceSet" else []


def _with_live_counts(snapshot: Snapshot, obj: Mapping[str, Any], live: Mapping[str, Any]) -> Mapping[str, Any]:
    """With the live counts where they are not this step's: those of engine roles of an InferServiceSet change by their own
    steps, and the pods of a Deployment that has an autoscaler are the autoscaler's.
    """
    if obj["kind"] == "Deployment" and owners.scaled(snapshot.autoscalers, "Deployment", obj["metadata"]["name"]):
        return {**obj, "spec": {**obj["spec"], "replicas": live["spec"].get("replicas", 1)}}
    if obj["kind"] != "InferServiceSet":
        return obj
    current = {role["name"]: role.get("replicas") for role in live["spec"]["template"]["roles"]}
    wanted: dict[str, Any] = copy.deepcopy(dict(obj))
    for role in wanted["spec"]["template"]["roles"]:
        if role["name"] in ENGINE_ROLES and role["name"] in current:
            role["replicas"] = current[role["name"]]
    return wanted


def _prune(snapshot: Snapshot, rendered: Rendered) -> tuple[Write, ...]:
    wanted = {(obj["kind"], obj["metadata"]["name"]) for obj in rendered.objects}
    engines = {instance.name for instance in service_state(snapshot).instances}
    gone = []
    for obj in live_objects(snapshot):
        if obj["metadata"]["name"].startswith(RANK_TABLE_PREFIX):
            continue  # it goes with its job
        key = (obj["kind"], obj["metadata"]["name"])
        if is_ours(obj) and key not in wanted and key[0] not in _KEPT and not (key[0] in _OWN and key[1] in engines):
            gone.append(delete(key[0], obj, "it is no longer wanted"))
    return tuple(gone)
