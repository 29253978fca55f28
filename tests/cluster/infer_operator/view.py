# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the operator knows of the cluster, and how it writes events and status."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from ..kube_client import DEPLOYMENTS, EVENTS, SERVICES, STATEFUL_SETS, Informer, KubeClient, KubeError, Obj, Resource
from . import objects, status

AUTOSCALERS = Resource("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")


@dataclasses.dataclass(frozen=True)
class Pace:
    """How long the real operator takes where that can be observed (seconds).

    Between the change of a child and the new status of its parent lies ``status``; that is why a parent still says
    Ready for some tenths of a second after a change. Between the Service of a new instance and its workload lies
    ``start``.
    """

    status: float = 0.1
    start: float = 0.2


class View:
    """Copies of all objects that the operator derives or reads."""

    def __init__(self, client: KubeClient) -> None:
        self.client = client
        managed = objects.MANAGED_SELECTOR
        self.sets = Informer(client, objects.INFER_SERVICE_SETS)
        self.services = Informer(client, objects.INFER_SERVICES)
        self.instance_sets = Informer(client, objects.INSTANCE_SETS)
        self.deployments = Informer(client, DEPLOYMENTS, selector=managed)
        self.stateful_sets = Informer(client, STATEFUL_SETS, selector=managed)
        self.kube_services = Informer(client, SERVICES, selector=managed)
        self.autoscalers = Informer(client, AUTOSCALERS, selector=objects.PREFIX + "scaling-owned-by")
        self.pod_groups = Informer(client, objects.POD_GROUPS, selector=managed)
        self._pod_groups_served = False
        self._events: dict[tuple[str, str, str], tuple[str, int]] = {}

    def custom(self) -> tuple[Informer, ...]:
        """The kinds of MindCluster, which may be installed later."""
        return self.sets, self.services, self.instance_sets

    def optional(self) -> tuple[Informer, ...]:
        """The kinds of Volcano, which may be absent for good."""
        return (self.pod_groups,)

    def builtin(self) -> tuple[Informer, ...]:
        """The kinds that each cluster has."""
        return self.deployments, self.stateful_sets, self.kube_services, self.autoscalers

    def workloads(self, parent: Obj) -> list[Obj]:
        """The workloads of an InstanceSet's kind that carry its labels, of whatever owner."""
        stateful = parent["spec"]["workload"]["kind"] == "StatefulSet"
        informer = self.stateful_sets if stateful else self.deployments
        rows = [row for row in informer.items() if objects.belongs_to(row, parent)]
        for row in rows:
            row.setdefault("kind", informer.resource.kind)
        return rows

    def pod_groups_served(self) -> bool:
        """Whether Volcano's PodGroup is installed; without it the operator refuses gang scheduling."""
        if not self._pod_groups_served:
            try:
                self.client.request("GET", f"/apis/{objects.POD_GROUPS.api_version}")
                self._pod_groups_served = True
            except KubeError as error:
                if error.status != 404:
                    raise
        return self._pod_groups_served

    def write_status(self, resource: Resource, obj: Obj, new: Obj) -> None:
        """Write a status unless it is what the object has."""
        old: Obj = obj.get("status", {})
        changed = {key: value for key, value in new.items() if old.get(key) != value}
        if changed:
            namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
            body = {"metadata": {"uid": obj["metadata"]["uid"]}, "status": new}
            self.client.patch(resource, namespace, name, body, subresource="status")

    def warn(self, obj: Obj, reason: str, message: str) -> None:
        """Write a Warning event; the same one again only raises its count."""
        metadata = obj["metadata"]
        key = metadata["uid"], reason, message
        name, count = self._events.get(key, ("", 0))
        time = status.now()
        if name:
            self.client.patch(EVENTS, metadata["namespace"], name, {"count": count + 1, "lastTimestamp": time})
        else:
            involved = {key: obj[key] for key in ("apiVersion", "kind")}
            involved.update({key: metadata[key] for key in ("name", "namespace", "uid", "resourceVersion")})
            event = {
                "metadata": {"generateName": metadata["name"] + ".", "namespace": metadata["namespace"]},
                "involvedObject": involved,
                "type": "Warning",
                "reason": reason,
                "message": message,
                "source": {"component": "instanceset-controller"},
                "firstTimestamp": time,
                "lastTimestamp": time,
                "count": 1,
            }
            name = self.client.create(EVENTS, event)["metadata"]["name"]
        self._events[key] = name, count + 1


def alive(obj: Obj | None) -> bool:
    """Known and not being deleted."""
    return obj is not None and "deletionTimestamp" not in obj["metadata"]


def labelled(rows: Iterable[Obj], namespace: str, label: str, value: str) -> list[Obj]:
    """Those in a namespace whose label has a value."""
    return [row for row in rows if row["metadata"]["namespace"] == namespace and row["metadata"].get("labels", {}).get(label) == value]
