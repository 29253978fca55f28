# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One snapshot of a scaling rule and of what it decides about, reads in parallel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .._motor.instances import base_name
from .._motor.ownership import CONFIG_MAP, LEASE
from .._motor.state import ANY_BACKEND, Snapshot
from .api import Api, ApiError

READERS = 8


def observe_rule(api: Api, namespace: str, name: str, warn: Callable[[str], None]) -> Snapshot:
    """The rule ConfigMap `name`, the jobs beside it, and the servers of the cluster.

    A cluster that does not know AscendJobs or PodGroups has none of them. `warn` is told when servers may not be read.
    """
    with ThreadPoolExecutor(READERS) as pool:
        listed = pool.submit(api.list_objects, "ConfigMap", namespace)
        lease = pool.submit(api.get, "Lease", namespace, LEASE)
        jobs = pool.submit(api.list_if_known, "AscendJob", namespace)
        pod_groups = pool.submit(api.list_if_known, "PodGroup", namespace)
        pods = pool.submit(api.list_objects, "Pod", namespace)
        nodes = pool.submit(_nodes, api, warn)
        config_maps = {found["metadata"]["name"]: found for found in listed.result().items}
        return Snapshot(
            namespace=namespace,
            backend=ANY_BACKEND,
            base_name=base_name(""),
            config_map=config_maps.get(CONFIG_MAP),
            lease=lease.result(),
            pods=pods.result().items,
            jobs=jobs.result().items,
            pod_groups=pod_groups.result().items,
            rule=config_maps.get(name),
            others={("ConfigMap", found): obj for found, obj in config_maps.items()},
            nodes=nodes.result(),
        )


def _nodes(api: Api, warn: Callable[[str], None]) -> Mapping[str, Mapping[str, Any] | None]:
    """All nodes. They belong to the whole cluster, and a rule can be written without the right to read them."""
    try:
        return {node["metadata"]["name"]: node for node in api.list_objects("Node", None).items}
    except ApiError as error:
        if error.status != 403:
            raise
        warn(f"Whether the servers can hold the tiers of the rule is not checked: {error}")
        return {}
