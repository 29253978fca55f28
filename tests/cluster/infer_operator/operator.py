# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One running operator: which change leads to which work."""

from __future__ import annotations

from ..kube_client import Informer, KubeClient, Obj, key_of
from . import objects
from .instance_sets import InstanceSets
from .nodes import NodeCleaner
from .parents import Parents
from .view import Pace, View
from .work_queue import Worker


class Operator:
    """Call ``start``; it works in threads until the process ends or ``stop``."""

    def __init__(self, client: KubeClient, pace: Pace | None = None, flap: bool = False) -> None:
        self._pace = pace or Pace()
        self.view = View(client)
        parents = Parents(self.view)
        self._nodes = NodeCleaner(client)
        self._set_children = Worker("InferServiceSet", parents.set_children)
        self._set_status = Worker("InferServiceSet status", parents.set_status)
        self._service_children = Worker("InferService", parents.service_children)
        self._service_status = Worker("InferService status", parents.service_status)
        self._instance_sets = Worker("InstanceSet", InstanceSets(self.view, self._pace, flap).reconcile)
        self.view.sets.handler = self._set_changed
        self.view.services.handler = self._service_changed
        self.view.instance_sets.handler = self._instance_set_changed
        for informer in (*self.view.builtin(), *self.view.optional()):
            informer.handler = self._object_changed

    def start(self) -> None:
        """Begin to watch, and to work once the built-in kinds are known."""
        for informer in self._informers():
            informer.start()
        for informer in self.view.builtin():
            informer.synced.wait()
        for worker in self._workers():
            worker.start()

    def stop(self) -> None:
        """End the threads."""
        for informer in self._informers():
            informer.stop()
        for worker in self._workers():
            worker.stop()

    def _informers(self) -> tuple[Informer, ...]:
        return *self.view.builtin(), *self.view.custom(), *self.view.optional(), self._nodes.informer

    def _workers(self) -> tuple[Worker, ...]:
        return (
            self._set_children,
            self._set_status,
            self._service_children,
            self._service_status,
            self._instance_sets,
            self._nodes.worker,
        )

    def _queue_set(self, namespace: str, name: str) -> None:
        self._set_children.add((namespace, name))
        self._set_status.add((namespace, name), self._pace.status)

    def _queue_service(self, namespace: str, name: str) -> None:
        self._service_children.add((namespace, name))
        self._service_status.add((namespace, name), self._pace.status)

    def _set_changed(self, before: Obj | None, after: Obj | None) -> None:
        if after is not None:
            self._queue_set(*key_of(after))

    def _service_changed(self, before: Obj | None, after: Obj | None) -> None:
        """A new InferService is no news for its set, which made it."""
        if after is not None:
            self._queue_service(*key_of(after))
        if before is not None:
            name = before["metadata"].get("labels", {}).get(objects.SET_NAME)
            if name:
                self._queue_set(before["metadata"]["namespace"], name)

    def _instance_set_changed(self, before: Obj | None, after: Obj | None) -> None:
        if after is not None:
            self._instance_sets.add(key_of(after))
        if before is not None:
            name = before["metadata"].get("labels", {}).get(objects.SERVICE_NAME)
            if name:
                self._queue_service(before["metadata"]["namespace"], name)

    def _object_changed(self, before: Obj | None, after: Obj | None) -> None:
        """A workload, Service, PodGroup or autoscaler changed or went; a new one is no news for its InstanceSet."""
        if before is None:
            return
        owners = before["metadata"].get("ownerReferences", [])
        for owner in owners:
            if owner["kind"] == "InstanceSet":
                self._instance_sets.add((before["metadata"]["namespace"], owner["name"]))
