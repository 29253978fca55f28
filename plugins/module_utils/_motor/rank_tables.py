# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rank tables: the ConfigMap `rings-config-<job>` that the Ascend Operator writes the ranks of an instance into.

It has to be there before the job (the operator remembers that there is none), nothing owns it, and the pods of the job mount it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .job_facts import TASK_LABEL
from .ownership import metadata_labels
from .workloads import pod_templates

RANK_TABLE_PREFIX = "rings-config-"
RING = {"ring-controller.atlas": "ascend-910b"}
RANKS_KEY = "hccl.json"
_INITIAL = '{"status": "initializing"}'
# ClusterD demands exactly one of two labels on a rank table; these are the values of Motor's own script.
_DEPLOY_SERVER = {"prefill": "2", "decode": "1"}


def rank_table(job: Mapping[str, Any], role: str) -> dict[str, Any]:
    """The ConfigMap that the operator writes the ranks of a job into."""
    labels = {TASK_LABEL: job["metadata"]["labels"][TASK_LABEL], **RING, "mx-consumer-cim": "true"}
    labels["grt-group/deploy-server"] = _DEPLOY_SERVER[role]
    name = rank_table_name(job["metadata"]["name"])
    metadata = {"name": name, "namespace": job["metadata"]["namespace"], "labels": {**labels, **metadata_labels(role)}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {RANKS_KEY: _INITIAL}}


def initial(table: Mapping[str, Any]) -> dict[str, Any]:
    """A rank table as it was before the operator wrote into it."""
    return {**table, "data": {**(table.get("data") or {}), RANKS_KEY: _INITIAL}}


def rank_table_name(job_name: str) -> str:
    """`rings-config-<job>`."""
    return f"{RANK_TABLE_PREFIX}{job_name}"


def set_name(job: dict[str, Any], name: str) -> None:
    """Name a job; its pods mount the rank table of that name."""
    job["metadata"]["name"] = name
    for volume in rank_table_volumes(job):
        volume["configMap"]["name"] = rank_table_name(name)


def rank_table_volumes(job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The volumes of the pods that hold a rank table."""
    for dummy, pod in pod_templates(job):
        for volume in (pod.get("spec") or {}).get("volumes") or ():
            if is_rank_table(volume):
                yield volume


def is_rank_table(volume: Mapping[str, Any]) -> bool:
    """True for a volume that holds a rank table."""
    return str((volume.get("configMap") or {}).get("name", "")).startswith(RANK_TABLE_PREFIX)
