# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One snapshot of a service, reads in parallel."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeAlias

from .._motor.job_facts import BACKEND as JOBS
from .._motor.owners import has_policy
from .._motor.ownership import CONFIG_MAP, INSTANCE, LEASE, PART_OF, PRODUCT
from .._motor.snapshot import SCALER
from .._motor.state import ANY_BACKEND, Build, Snapshot, doubtful_nodes, infer_roles
from .._motor.workloads import ASCEND_JOB
from .api import Api, ApiError, ObjectList

READERS = 8
MADE_BY_OPERATOR = "infer.huawei.com/ascend-infer-operator=true"
JOBS_GROUP = "mindxdl.gitee.com"
KEDA_GROUP = "keda.sh"

# What tells how a service is made, from `motor-config` or None.
Understand: TypeAlias = "Callable[[Mapping[str, Any] | None], Build]"


def observe(
    api: Api,
    namespace: str,
    understand: Understand,
    warn: Callable[[str], None],
    others: Iterable[str] = (),
    children: Callable[[Snapshot], bool] | None = None,
) -> Snapshot:
    """Read what the service consists of. `warn` is told of what may not be read and is not needed;
    `others` names further kinds to list (Service, ServiceAccount, ClusterRole, ...);
    `children` decides on the first snapshot whether the workloads that the Infer Operator made have to be read, too.
    """
    with ThreadPoolExecutor(READERS) as pool:
        config_map = pool.submit(api.get, "ConfigMap", namespace, CONFIG_MAP)
        lease = pool.submit(api.get, "Lease", namespace, LEASE)
        pods = pool.submit(api.list_objects, "Pod", namespace)
        scalers = [pool.submit(api.list_if_known, SCALER, namespace)]
        groups = pool.submit(lambda: api.groups)
        listed = {kind: pool.submit(_list_kind, api, kind, namespace) for kind in others}
        build: Build = understand(config_map.result())
        workloads = _workloads(pool, api, namespace, build.backend)
        if KEDA_GROUP in groups.result():
            scalers.append(pool.submit(api.list_if_known, "ScaledObject", namespace))
        snapshot = Snapshot(
            namespace=namespace,
            backend=build.backend,
            base_name=build.base_name,
            settings=build.settings,
            config_map=config_map.result(),
            lease=lease.result(),
            pods=pods.result().items,
            versions={"Pod": pods.result().resource_version, SCALER: scalers[0].result().resource_version},
            autoscalers=tuple(item for scaler in scalers for item in scaler.result().items),
            others={(kind, item["metadata"]["name"]): item for kind, found in listed.items() for item in found.result().items},
            **_workload_fields(workloads),
        )
    if build.backend == JOBS or (build.backend == ANY_BACKEND and JOBS_GROUP in api.groups):
        snapshot = with_jobs(api, snapshot)
    if any(has_policy(role) for role in infer_roles(snapshot)):
        snapshot = _with_instance_sets(api, snapshot)
    if children and snapshot.infer_service_set and children(snapshot):
        snapshot = replace(snapshot, workloads=_children(api, namespace))
    return replace(snapshot, nodes=_nodes(api, doubtful_nodes(snapshot), warn))


def with_jobs(api: Api, snapshot: Snapshot) -> Snapshot:
    """With AscendJobs, PodGroups, and the ConfigMaps of the namespace, one of which is the scaling rule."""
    rule = snapshot.settings.scaling_rule
    read = Api.list_objects if snapshot.backend == JOBS else Api.list_if_known
    kinds = (ASCEND_JOB, "PodGroup", "ConfigMap")
    with ThreadPoolExecutor(len(kinds)) as pool:
        jobs, pod_groups, config_maps = pool.map(lambda kind: read(api, kind, snapshot.namespace), kinds)
    by_name = {item["metadata"]["name"]: item for item in config_maps.items}
    found = {("ConfigMap", name): item for name, item in by_name.items() if name not in (CONFIG_MAP, rule)}
    versions = {ASCEND_JOB: jobs.resource_version, "PodGroup": pod_groups.resource_version}
    return replace(
        snapshot,
        jobs=jobs.items,
        pod_groups=pod_groups.items,
        rule=by_name.get(rule),
        others={**snapshot.others, **found},
        versions={**snapshot.versions, **versions},
    )


def _with_instance_sets(api: Api, snapshot: Snapshot) -> Snapshot:
    """With the InstanceSets, which say how many instances there are to be where an autoscaler decides that. Waiting reads them by itself."""
    found = api.list_objects("InstanceSet", snapshot.namespace)
    return replace(snapshot, instance_sets=found.items, versions={**snapshot.versions, "InstanceSet": found.resource_version})


def _children(api: Api, namespace: str) -> tuple[Mapping[str, Any], ...]:
    with ThreadPoolExecutor(2) as pool:
        listed = [pool.submit(api.list_objects, kind, namespace, MADE_BY_OPERATOR) for kind in ("StatefulSet", "Deployment")]
        return tuple(item for found in listed for item in found.result().items)


def _nodes(api: Api, names: Collection[str], warn: Callable[[str], None]) -> dict[str, Mapping[str, Any] | None]:
    """These nodes, in one request. Nodes belong to the whole cluster, and a service can be run without the right to read them."""
    try:
        if len(names) == 1:
            return {name: api.get("Node", None, name) for name in names}
        items = api.list_objects("Node", None).items if names else ()
    except ApiError as error:
        if error.status != 403:
            raise
        warn(f"Whether servers are Ready is not known, so pods on a server that is not do not count as a fault: {error}")
        return {}
    found = {item["metadata"]["name"]: item for item in items}
    return {name: found.get(name) for name in names}


# Without a hint, a cluster that does not know InferServiceSets has none of them.
_KINDS: dict[str, dict[str, Callable[[Api, str, str], ObjectList]]] = {
    "deployments": {"Deployment": Api.list_objects},
    "infer_service_set": {"InferServiceSet": Api.list_objects},
    JOBS: {},
    ANY_BACKEND: {"Deployment": Api.list_objects, "InferServiceSet": Api.list_if_known},
}


def _workloads(pool: ThreadPoolExecutor, api: Api, namespace: str, backend: str) -> dict[str, Future[ObjectList]]:
    return {kind: pool.submit(read, api, kind, namespace) for kind, read in _KINDS[backend].items()}


def _workload_fields(workloads: Mapping[str, Future[ObjectList]]) -> dict[str, Any]:
    found = {kind: future.result() for kind, future in workloads.items()}
    nothing = ObjectList((), "")
    return {
        "deployments": found.get("Deployment", nothing).items,
        "infer_service_set": next(iter(found.get("InferServiceSet", nothing).items), None),
    }


def _list_kind(api: Api, kind: str, namespace: str) -> ObjectList:
    """Cluster-scoped kinds belong to a service by label."""
    if kind in ("ClusterRole", "ClusterRoleBinding"):
        return api.list_objects(kind, None, f"{PART_OF}={PRODUCT},{INSTANCE}={namespace}")
    return api.list_objects(kind, namespace)
