# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reconciling InstanceSet: its Services and one workload per instance.

Workloads that exist are never changed. Those with an index at or above the count are removed, at once and in no order.
"""

from __future__ import annotations

import dataclasses
import logging
import random
import time

from ..kube_client import DEPLOYMENTS, SERVICES, STATEFUL_SETS, Key, KubeError, Obj, Resource
from . import objects, status
from .scaling import Scaling
from .view import Pace, View, alive, labelled
from .work_queue import Requeue

LOG = logging.getLogger(__name__)

LAST_PRIORITY = 33
"""Stands for "all ready"; a role with this priority or a larger one is never started."""
RETRY = 1.0


class Hold(Requeue):
    """Nothing may be seen yet of what is about to happen; not even the status is written."""


@dataclasses.dataclass
class Flap:
    """Instances that were scaled in and are back: with gang scheduling the operator takes their going for faults."""

    indexes: set[int] = dataclasses.field(default_factory=set)
    due: float = 0.0
    rounds: int = 2
    pause: float = 1.0


class InstanceSets:
    """The reconciler.

    ``flap``: tear returning gang-scheduled instances down twice, as the real operator was seen to do; an annotation
    ``fake/flap`` on the InferServiceSet does the same for that one.
    """

    def __init__(self, view: View, pace: Pace, flap: bool = False) -> None:
        self._view = view
        self._client = view.client
        self._pace = pace
        self._flap = flap
        self._scaling = Scaling(view)
        self._held: dict[Key, float] = {}
        self._flaps: dict[str, Flap] = {}

    def reconcile(self, key: Key) -> None:
        """Bring one InstanceSet's objects in line with its spec, then write its status."""
        parent = self._view.instance_sets.get(*key)
        if parent is None or not alive(parent):
            self._held.pop(key, None)
            return
        problem = objects.invalid_instance_set(parent, self._view.pod_groups_served())
        if problem:
            LOG.warning("InstanceSet %s/%s is invalid: %s", *key, problem)
            self._view.warn(parent, "ValidateError", problem)
            return
        scaling, failure = self._scale(parent)
        again: Requeue | None = None
        try:
            self._workloads(key, parent)
        except Hold:
            raise
        except Requeue as later:
            again = later
        self._write_status(parent, scaling)
        if failure or again:
            raise failure or again or Requeue(RETRY, "")

    def _scale(self, parent: Obj) -> tuple[Obj | None, KubeError | None]:
        try:
            return self._scaling.reconcile(parent), None
        except KubeError as error:
            self._view.warn(parent, "ScalingResourceReconcileError", str(error))
            return parent.get("status", {}).get("scalingResourceStatus"), error

    def _workloads(self, key: Key, parent: Obj) -> None:
        self._tear_down(key, parent)
        self._remove_surplus(parent)
        for declared in parent["spec"].get("services", []):
            self._declared_service(parent, declared)
        if self._may_start(parent):
            self._start_missing(key, parent)

    def _delete(self, resource: Resource, obj: Obj) -> None:
        metadata = obj["metadata"]
        self._client.delete(resource, metadata["namespace"], metadata["name"])
        LOG.info("deleted %s %s", resource.kind, metadata["name"])

    def _remove_surplus(self, parent: Obj) -> None:
        limit = parent["spec"]["replicas"]
        resource = _resource(parent)
        surplus = [row for row in self._view.workloads(parent) if (objects.index_of(row) or 0) >= limit and alive(row)]
        random.shuffle(surplus)
        for row in surplus:
            self._delete(resource, row)
            if self._may_flap(parent):
                self._flaps.setdefault(parent["metadata"]["uid"], Flap()).indexes.add(objects.index_of(row) or 0)
        for row in self._view.kube_services.items():
            index = objects.index_of(row)
            if index is not None and index >= limit and objects.belongs_to(row, parent):
                self._delete(SERVICES, row)

    def _declared_service(self, parent: Obj, declared: Obj) -> None:
        service = objects.declared_service(parent, declared)
        name = service["metadata"]["name"]
        if self._view.kube_services.get(parent["metadata"]["namespace"], name) is None:
            try:
                self._create(SERVICES, service)
            except KubeError as error:
                self._view.warn(parent, "ServiceCreateError", f"Failed to create service {declared['name']}: {error}")
                raise

    def _create(self, resource: Resource, obj: Obj) -> bool:
        """False when it was there already."""
        try:
            self._client.create(resource, obj)
        except KubeError as error:
            if error.reason != "AlreadyExists":
                raise
            return False
        LOG.info("created %s %s", resource.kind, obj["metadata"]["name"])
        return True

    def _start_missing(self, key: Key, parent: Obj) -> None:
        try:
            self._prepare(key, parent)
            present = {objects.index_of(row) for row in self._view.workloads(parent)}
            missing = [index for index in range(parent["spec"]["replicas"]) if index not in present]
            wait = self._held.get(key, 0.0) - time.monotonic()
            if missing and wait > 0:
                raise Hold(wait, "new instances")
            for index in missing:
                self._create(_resource(parent), objects.workload(parent, index))
        except KubeError as error:
            raise Requeue(RETRY, str(error)) from error
        self._expect_flap(parent, missing)

    def _prepare(self, key: Key, parent: Obj) -> None:
        """Create the PodGroup and the Service of each instance."""
        namespace = parent["metadata"]["namespace"]
        for index in range(parent["spec"]["replicas"]):
            if objects.gang_scheduled(parent):
                group = objects.pod_group(parent, index)
                if self._view.pod_groups.get(namespace, group["metadata"]["name"]) is None:
                    self._create(objects.POD_GROUPS, group)
            service = objects.instance_service(parent, index)
            known = service is None or self._view.kube_services.get(namespace, service["metadata"]["name"])
            if service and not known and self._create(SERVICES, service):
                self._held[key] = time.monotonic() + self._pace.start

    def _may_start(self, parent: Obj) -> bool:
        """The scheduling strategy: under Priority a role waits until each role with a lower number is ready."""
        labels = parent["metadata"]["labels"]
        strategy = labels.get(objects.STRATEGY)
        if strategy == "Parallel":
            return True
        if strategy != "Priority":
            raise ValueError(f"unknown scheduling strategy {strategy}")
        if status.is_ready(parent):
            return False
        namespace, service_name = parent["metadata"]["namespace"], labels[objects.SERVICE_NAME]
        service = self._view.services.get(namespace, service_name)
        if service is None:
            raise Requeue(RETRY, f"InferService {service_name} not found")
        own = parent["spec"].get("priority")
        if own is None:
            return True
        siblings = labelled(self._view.instance_sets.items(), namespace, objects.SERVICE_NAME, service_name)
        ready = {row["metadata"]["labels"].get(objects.ROLE_NAME) for row in siblings if status.is_ready(row)}
        first = LAST_PRIORITY
        for role in service["spec"].get("roles", []):
            if role["name"] not in ready and "priority" in role:
                first = min(first, role["priority"])
        if first == LAST_PRIORITY:
            return False
        if own > first:
            raise Requeue(RETRY, f"roles of priority {first} are not ready")
        return True

    def _write_status(self, parent: Obj, scaling: Obj | None) -> None:
        ready = sum(map(status.workload_ready, self._view.workloads(parent)))
        new = status.ready_status(parent, parent["spec"]["replicas"], ready, "AllWorkLoadReady", "WorkLoad")
        labels = objects.instance_labels(parent, None)
        chosen = (objects.SERVICE_NAME, objects.ROLE_NAME)
        new["labelSelector"] = ",".join(f"{label}={labels[label]}" for label in chosen)
        if scaling is not None or "scalingResourceStatus" in parent.get("status", {}):
            old: Obj = parent.get("status", {}).get("scalingResourceStatus") or {}
            # A merge patch removes what is null.
            new["scalingResourceStatus"] = scaling and {key: scaling.get(key) for key in {*scaling, *old}}
        self._view.write_status(objects.INSTANCE_SETS, parent, new)

    def _may_flap(self, parent: Obj) -> bool:
        if not objects.gang_scheduled(parent):
            return False
        name = parent["metadata"]["labels"][objects.SERVICE_NAME].rpartition("-")[0]
        service_set = self._view.sets.get(parent["metadata"]["namespace"], name) or {"metadata": {}}
        return self._flap or service_set["metadata"].get("annotations", {}).get("fake/flap") == "true"

    def _expect_flap(self, parent: Obj, started: list[int]) -> None:
        flap = self._flaps.get(parent["metadata"]["uid"])
        if flap is None:
            return
        if flap.indexes.intersection(started) and flap.rounds:
            flap.due = time.monotonic() + flap.pause
        if flap.due:
            raise Requeue(max(0.0, flap.due - time.monotonic()), "instances that were scaled in are back")

    def _tear_down(self, key: Key, parent: Obj) -> None:
        flap = self._flaps.get(parent["metadata"]["uid"])
        if flap is None or not flap.due or time.monotonic() < flap.due:
            return
        flap.due = 0.0
        flap.rounds -= 1
        self._held[key] = time.monotonic() + flap.pause
        for row in self._view.workloads(parent):
            if objects.index_of(row) in flap.indexes:
                self._delete(_resource(parent), row)
        if not flap.rounds:
            del self._flaps[parent["metadata"]["uid"]]


def _resource(parent: Obj) -> Resource:
    return STATEFUL_SETS if parent["spec"]["workload"]["kind"] == "StatefulSet" else DEPLOYMENTS
