# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reconciling InferServiceSet and InferService: they only create, change and remove their children."""

from __future__ import annotations

import logging
import re

from ..kube_client import Informer, Key, KubeError, Obj, Resource
from . import objects, status
from .view import View, alive, labelled
from .work_queue import Requeue

LOG = logging.getLogger(__name__)

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
MOST_SERVICES = 64
MOST_ROLES = 32
LARGEST_PRIORITY = 256


class Invalid(Exception):
    """The object asks for what the operator refuses. It shows in the log alone: no event, no status."""


def check_set(service_set: Obj) -> int:
    """The number of InferServices asked for, 1 when absent."""
    replicas = service_set.get("spec", {}).get("replicas", 1)
    if not 1 <= replicas <= MOST_SERVICES:
        raise Invalid(f"replicas {replicas} is not within 1 and {MOST_SERVICES}")
    return int(replicas)


def check_service(service: Obj) -> list[Obj]:
    """The roles, after the checks that the operator makes."""
    roles: list[Obj] = service.get("spec", {}).get("roles", [])
    if len(roles) > MOST_ROLES:
        raise Invalid(f"{len(roles)} roles are more than {MOST_ROLES}")
    seen: set[str] = set()
    prioritized = service["spec"].get("schedulingStrategy", {}).get("type") == "Priority"
    for role in roles:
        name = role.get("name", "")
        if not LABEL.fullmatch(name) or name in seen:
            raise Invalid(f"role name {name!r} is empty, no label or given twice")
        seen.add(name)
        priority = role.get("priority", 1)
        if prioritized and not 1 <= priority <= LARGEST_PRIORITY:
            raise Invalid(f"priority {priority} of role {name} is not within 1 and {LARGEST_PRIORITY}")
    return roles


class Parents:
    """The reconcilers of both kinds. Children and status are separate steps: the status lags as the real one does."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._client = view.client

    def _known(self, informer: Informer, key: Key) -> Obj | None:
        if not all(custom.synced.is_set() for custom in self._view.custom()):
            raise Requeue(0.1, "kinds of MindCluster not known yet")
        obj = informer.get(*key)
        return obj if alive(obj) else None

    def _create(self, resource: Resource, obj: Obj) -> None:
        try:
            self._client.create(resource, obj)
        except KubeError as error:
            if error.reason != "AlreadyExists":
                raise
        LOG.info("created %s %s", resource.kind, obj["metadata"]["name"])

    def _replace_spec(self, resource: Resource, namespace: str, name: str, spec: Obj) -> None:
        """Replace the spec of the object as it is now, but for the count of an autoscaler."""
        live = self._client.get(resource, namespace, name)
        if live is None:
            return
        if resource is objects.INSTANCE_SETS and objects.hpa_managed(live) and "replicas" in live["spec"]:
            spec = {**spec, "replicas": live["spec"]["replicas"]}
        if live.get("spec") == spec:
            return
        patch = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"]},
            {"op": "add", "path": "/spec", "value": spec},
        ]
        self._client.patch(resource, namespace, name, patch)
        LOG.info("changed the spec of %s %s", resource.kind, name)

    def set_children(self, key: Key) -> None:
        """Give an InferServiceSet its InferServices, all with the spec of its template."""
        service_set = self._known(self._view.sets, key)
        if service_set is None:
            return
        wanted = check_set(service_set)
        children = labelled(self._view.services.items(), key[0], objects.SET_NAME, key[1])
        found = {child["metadata"]["labels"].get(objects.SERVICE_INDEX, ""): child for child in children}
        template = objects.service_template(service_set)
        for index, child in found.items():
            if not index.isdecimal() or int(index) >= wanted:
                self._client.delete(objects.INFER_SERVICES, key[0], child["metadata"]["name"])
            elif child.get("spec") != template:
                self._replace_spec(objects.INFER_SERVICES, key[0], child["metadata"]["name"], template)
        for number in range(wanted):
            if str(number) not in found:
                self._create(objects.INFER_SERVICES, objects.infer_service(service_set, number))

    def set_status(self, key: Key) -> None:
        """Count the InferServices that say they are ready, whatever they are worth at this moment."""
        service_set = self._known(self._view.sets, key)
        if service_set is None:
            return
        wanted = check_set(service_set)
        children = labelled(self._view.services.items(), key[0], objects.SET_NAME, key[1])
        ready = sum(map(status.is_ready, children))
        new = status.ready_status(service_set, wanted, ready, "AllInferServicesReady", "InferService")
        self._view.write_status(objects.INFER_SERVICE_SETS, service_set, new)

    def service_children(self, key: Key) -> None:
        """Give an InferService one InstanceSet per role."""
        service = self._known(self._view.services, key)
        if service is None:
            return
        roles = check_service(service)
        children = labelled(self._view.instance_sets.items(), key[0], objects.SERVICE_NAME, key[1])
        found = {child["metadata"]["labels"].get(objects.ROLE_NAME, ""): child for child in children}
        names = {role["name"] for role in roles}
        for name, child in found.items():
            if name not in names:
                self._client.delete(objects.INSTANCE_SETS, key[0], child["metadata"]["name"])
        for role in roles:
            child = found.get(role["name"], {})
            if not child:
                self._create(objects.INSTANCE_SETS, objects.instance_set(service, role))
            elif child.get("spec") != role:
                self._replace_spec(objects.INSTANCE_SETS, key[0], child["metadata"]["name"], role)

    def service_status(self, key: Key) -> None:
        """Count the InstanceSets that say they are ready."""
        service = self._known(self._view.services, key)
        if service is None:
            return
        wanted = len(check_service(service))
        children = labelled(self._view.instance_sets.items(), key[0], objects.SERVICE_NAME, key[1])
        ready = sum(map(status.is_ready, children))
        new = status.ready_status(service, wanted, ready, "AllInstanceSetsReady", "InstanceSet", none_is_ready=False)
        self._view.write_status(objects.INFER_SERVICES, service, new)
