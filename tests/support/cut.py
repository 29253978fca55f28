# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots of objects that are cut as programs keep them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._motor.kept import KEPT
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot

Object = Mapping[str, Any]


def cut(snapshot: Snapshot) -> Snapshot:
    """The snapshot as a program has it."""
    return replace(
        snapshot,
        config_map=_one("ConfigMap", snapshot.config_map),
        lease=_one("Lease", snapshot.lease),
        deployments=_all("Deployment", snapshot.deployments),
        pods=_all("Pod", snapshot.pods),
        autoscalers=tuple(KEPT[item["kind"]](item) for item in snapshot.autoscalers),
        infer_service_set=_one("InferServiceSet", snapshot.infer_service_set),
        instance_sets=_all("InstanceSet", snapshot.instance_sets),
        others={key: KEPT["ConfigMap"](item) for key, item in snapshot.others.items() if key[0] == "ConfigMap"},
        nodes={name: _one("Node", node) for name, node in snapshot.nodes.items()},
        workloads=(),
        jobs=_all("AscendJob", snapshot.jobs),
        pod_groups=_all("PodGroup", snapshot.pod_groups),
        rule=_one("ConfigMap", snapshot.rule),
    )


def _one(kind: str, obj: Object | None) -> Object | None:
    return None if obj is None else KEPT[kind](obj)


def _all(kind: str, objects: tuple[Object, ...]) -> tuple[Object, ...]:
    return tuple(map(KEPT[kind], objects))
