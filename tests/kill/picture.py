# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a namespace holds, in words that are the same whenever a service is in the same state."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from typing import Any

from tests.cluster.ascend_operator.objects import ASCEND_JOBS
from tests.cluster.ascend_operator.rank_table import KEY, PREFIX
from tests.cluster.infer_operator.objects import INFER_SERVICE_SETS, INFER_SERVICES, INSTANCE_SETS, POD_GROUPS
from tests.cluster.kube_client import CONFIG_MAPS, DEPLOYMENTS, PODS, SECRETS, SERVICES, STATEFUL_SETS, KubeClient, Obj, Resource

LEASES = Resource("coordination.k8s.io/v1", "Lease", "leases")
REPLICA_SETS = Resource("apps/v1", "ReplicaSet", "replicasets")
_RBAC = "rbac.authorization.k8s.io/v1"
REVISIONS = Resource("apps/v1", "ControllerRevision", "controllerrevisions")
# Kinds in which something could be left over, or be there twice. Not among them: what only mirrors others (EndpointSlices) and notes
# (Events). Of the history only counts whether any is left.
KINDS = (
    CONFIG_MAPS,
    SECRETS,
    SERVICES,
    PODS,
    LEASES,
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    ASCEND_JOBS,
    INFER_SERVICE_SETS,
    INFER_SERVICES,
    INSTANCE_SETS,
    POD_GROUPS,
    Resource("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
    Resource("v1", "ServiceAccount", "serviceaccounts"),
    Resource("v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    Resource(_RBAC, "Role", "roles"),
    Resource(_RBAC, "RoleBinding", "rolebindings"),
)
CLUSTER_KINDS = (
    Resource(_RBAC, "ClusterRole", "clusterroles", namespaced=False),
    Resource(_RBAC, "ClusterRoleBinding", "clusterrolebindings", namespaced=False),
)
HISTORY = "app.kubernetes.io/managed-by=ascend.mindie,app.kubernetes.io/component=history"
OF_NAMESPACE = "app.kubernetes.io/instance"
SETTLING_SECONDS = 15.0
LONGEST_UNREST = 90.0

Picture = Counter[str]
OURS = "ControllerRevision of ours"
_PASSING = re.compile(r" is gone$| \(terminating\)$|, (initializing|new|Pending|Inqueue|Unknown)$")


def take(client: KubeClient, namespace: str) -> Picture:
    """Every object, by kind and name (a name that was made by chance is told by its owner's), with how often it is there."""
    objects = [item for kind in KINDS for item in client.list(kind, namespace)["items"]]
    for kind in CLUSTER_KINDS:
        selector = f"{OF_NAMESPACE}={namespace}"
        objects += client.list(kind, labelSelector=selector)["items"]
    pictured = Counter({OURS: 1} if history(client, namespace) else {})
    by_uid = {item["metadata"]["uid"]: item for item in objects}
    pictured.update(_describe(item, by_uid, namespace) for item in objects)
    return pictured


def history(client: KubeClient, namespace: str) -> list[Obj]:
    """Our revisions; a StatefulSet has some of its own."""
    found: list[Obj] = client.list(REVISIONS, namespace, labelSelector=HISTORY)["items"]
    return found


def settled(client: KubeClient, namespace: str, patience: float = LONGEST_UNREST) -> Picture:
    """A picture that stays as it is for a second. Raises TimeoutError with what does not come to rest."""
    deadline = time.monotonic() + patience
    seen: Picture = Counter()
    while True:
        now = take(client, namespace)
        restless = {name for name in now if _PASSING.search(name)} | set(now - seen) | set(seen - now)
        if not restless:
            return now
        if time.monotonic() > deadline:
            raise TimeoutError(f"{namespace} has not settled within {patience:g} s: {'; '.join(sorted(restless))}")
        seen = now
        time.sleep(1.0)


def wait_for(client: KubeClient, namespace: str, wanted: Picture) -> list[str]:
    """What differs from the wanted picture once the control plane has had time to clear up; empty when nothing does."""
    deadline = time.monotonic() + SETTLING_SECONDS
    while True:
        seen = take(client, namespace)
        # The history follows the record of success and nothing depends on it: a run may be ended in between.
        surplus, missing = seen - wanted, wanted - seen - Counter({OURS: 1})
        if not surplus and not missing:
            return []
        if time.monotonic() > deadline:
            return [f"too many: {name}" for name in surplus] + [f"missing: {name}" for name in missing]
        time.sleep(0.3)


def _describe(item: Obj, by_uid: dict[str, Obj], namespace: str) -> str:
    metadata = item["metadata"]
    ending = " (terminating)" if metadata.get("deletionTimestamp") else ""
    return f"{item['kind']} {_name(item, by_uid).replace(namespace, '~')}{_state(item)}{ending}"


def _state(item: Obj) -> str:
    """Of pods and PodGroups of AscendJobs the phase; of a rank table whether it is complete: only one that is older than its job ever is."""
    if item["kind"] == "ConfigMap" and item["metadata"]["name"].startswith(PREFIX):
        return f", {json.loads(item['data'][KEY])['status']}"
    owners = (row["kind"] for row in item["metadata"].get("ownerReferences") or ())
    phase = (item.get("status") or {}).get("phase") or "new"
    return f", {phase}" if item["kind"] in ("Pod", "PodGroup") and ASCEND_JOBS.kind in owners else ""


def _name(item: Obj, by_uid: dict[str, Obj]) -> str:
    owner: Any = next((row for row in item["metadata"].get("ownerReferences") or () if row.get("controller")), None)
    if owner is None or item["kind"] not in ("Pod", "PodGroup", "ReplicaSet") or owner["kind"] == "StatefulSet":
        return str(item["metadata"]["name"])
    above = by_uid.get(owner["uid"])
    return f"of {owner['kind']} {_name(above, by_uid)}" if above else f"whose {re.sub('-[^-]*$', '', owner['name'])} is gone"
