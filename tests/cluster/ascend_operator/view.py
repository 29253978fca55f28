# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the operator knows of the cluster, and how it writes."""

from __future__ import annotations

import datetime
import logging
import time

from ..kube_client import EVENTS, PODS, SERVICES, Informer, Key, KubeClient, KubeError, Obj, Resource, key_of
from . import objects

LOG = logging.getLogger(__name__)

OWN = objects.KUBEFLOW + "operator-name=ascendjob-controller"
PATIENCE = 5.0
"""For so many seconds a pod that was just made counts as there although the watch has not told of it."""


def now() -> str:
    """The time as Kubernetes writes it, in whole seconds."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class View:
    """Copies of all objects that the operator derives or reads."""

    def __init__(self, client: KubeClient) -> None:
        self.client = client
        self.jobs = Informer(client, objects.ASCEND_JOBS)
        self.pod_groups = Informer(client, objects.POD_GROUPS)
        self.pods = Informer(client, PODS, selector=OWN)
        self.services = Informer(client, SERVICES, selector=OWN)
        self._made: dict[Key, tuple[float, Obj]] = {}
        self._queues: set[str] = set()

    def informers(self) -> tuple[Informer, ...]:
        """All of them."""
        return self.jobs, self.pod_groups, self.pods, self.services

    def pods_of(self, job: Obj) -> dict[tuple[str, str], Obj]:
        """The pods that carry a job's name, of whatever owner, by replica type and index."""
        known = {key_of(pod): pod for pod in self.pods.items()}
        self._made = {key: row for key, row in self._made.items() if key not in known and time.monotonic() < row[0] + PATIENCE}
        every = [*known.values(), *(pod for dummy, pod in self._made.values())]
        found = {}
        for pod in every:
            labels = objects.labels_of(pod)
            if pod["metadata"]["namespace"] == job["metadata"]["namespace"] and labels[objects.JOB_NAME] == job["metadata"]["name"]:
                found[labels[objects.REPLICA_TYPE], labels[objects.REPLICA_INDEX]] = pod
        return found

    def create_pod(self, pod: Obj) -> None:
        """Create a pod; one of that name that is there already is as good."""
        made = self.create(PODS, pod)
        if made:
            self._made[key_of(made)] = time.monotonic(), made

    def create(self, resource: Resource, obj: Obj) -> Obj | None:
        """Create an object; None when it is there already."""
        try:
            made = self.client.create(resource, obj)
        except KubeError as error:
            if error.reason != "AlreadyExists":
                raise
            return None
        LOG.info("created %s %s/%s", resource.kind, *key_of(made))
        return made

    def delete(self, resource: Resource, obj: Obj) -> bool:
        """Delete exactly this object."""
        namespace, name = key_of(obj)
        try:
            done = self.client.delete(resource, namespace, name, preconditions={"uid": obj["metadata"]["uid"]})
        except KubeError as error:
            if error.status != 409:
                raise
            return False
        LOG.info("deleted %s %s/%s", resource.kind, namespace, name)
        return done

    def queue_exists(self, name: str) -> bool:
        """Whether Volcano has such a queue."""
        if name not in self._queues and name and self.client.get(objects.QUEUES, "", name):
            self._queues.add(name)
        return name in self._queues

    def write_status(self, job: Obj, new: Obj) -> None:
        """Write a status unless it is what the job has. A job that changed meanwhile is a conflict."""
        if new != (job.get("status") or {}):
            version = {key: job["metadata"][key] for key in ("uid", "resourceVersion")}
            self.client.patch(objects.ASCEND_JOBS, *key_of(job), {"metadata": version, "status": new}, subresource="status")

    def tell(self, job: Obj, kind: str, reason: str, message: str) -> None:
        """Write an event on a job."""
        metadata, time_now = job["metadata"], now()
        involved = {key: metadata[key] for key in ("name", "namespace", "uid", "resourceVersion")}
        event = {
            "metadata": {"generateName": metadata["name"] + ".", "namespace": metadata["namespace"]},
            "involvedObject": {"apiVersion": objects.GROUP_VERSION, "kind": objects.ASCEND_JOBS.kind, **involved},
            "type": kind,
            "reason": reason,
            "message": message,
            "source": {"component": "ascendjob-controller"},
            "firstTimestamp": time_now,
            "lastTimestamp": time_now,
            "count": 1,
        }
        self.client.create(EVENTS, event)
