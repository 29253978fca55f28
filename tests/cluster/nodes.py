# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fake nodes as MindCluster labels them."""

from __future__ import annotations

import json
from typing import Any

MANAGED = "fake/managed"

_COMMON = {
    "accelerator": "huawei-Ascend910",
    "workerselector": "dls-worker-node",
    "node-role.kubernetes.io/worker": "worker",
    "host-arch": "huawei-arm",
    "nodeDEnable": "on",
    "mind-cluster/npu-chip-memory": "64G",
    "huawei.com/driver.version": "25.5.0",
}
_GENERATIONS: dict[str, dict[str, str]] = {
    "a2": {
        "accelerator-type": "module-910b-8",
        "server-usage": "infer",
        "servertype": "Ascend910-20",
        "node.kubernetes.io/npu.chip.name": "910B4",
    },
    "a3": {
        "accelerator-type": "module-a3-16",
        "servertype": "Ascend910-24",
        "node.kubernetes.io/npu.chip.name": "Ascend910",
        "huawei.com/topotree.superpodid": "0",
    },
    "cpu": {},
}
_NPUS = {"a2": 8, "a3": 16, "cpu": 0}


def make(generation: str, index: int) -> dict[str, Any]:
    """A node of a generation (`a2`, `a3` or `cpu`), status included; kwok makes it Ready."""
    name, npus = f"{generation}-{index}", _NPUS[generation]
    address = f"10.240.{list(_NPUS).index(generation)}.{index + 1}"
    labels = {MANAGED: "true", "kubernetes.io/hostname": name, "kubernetes.io/arch": "arm64", "kubernetes.io/os": "linux"}
    capacity = {"cpu": "192", "memory": "1536Gi", "pods": "250", "ephemeral-storage": "1000Gi"}
    annotations = {}
    if npus:
        labels.update(_COMMON, **_GENERATIONS[generation])
        capacity["huawei.com/Ascend910"] = str(npus)
        devices = {f"Ascend910-{card}": {"IP": f"10.250.{index}.{card + 1}", "SuperDeviceID": card} for card in range(npus)}
        annotations = {"baseDeviceInfos": json.dumps(devices), "product-serial-number": f"SN{generation}{index:04d}"}
        if generation == "a3":
            annotations.update(superPodID="0", serverIndex=str(index))
    else:
        labels["masterselector"] = "dls-master-node"
    addresses = [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "status": {"capacity": capacity, "allocatable": capacity, "addresses": addresses},
    }
