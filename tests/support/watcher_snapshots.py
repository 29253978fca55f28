# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots of AscendJobs for tests of the watcher: as they look in every state, without a cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._motor import scaling_rule
from ansible_collections.ascend.mindie.plugins.module_utils._motor.job_settings import DEFAULTS
from ansible_collections.ascend.mindie.plugins.module_utils._motor.record import with_applied
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_reader import DATA_KEY, Size
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot

Object = dict[str, Any]
NAMESPACE, RULE = "chat", "scaling-rule"
FAILED = [{"type": "Failed", "status": "True", "reason": "JobFailed", "message": "pod failed"}]
INVALID = [{"type": "Failed", "status": "True", "reason": "JobValidFailed", "message": "no jobID"}]


def labels(group: str) -> dict[str, str]:
    return {"mind-cluster/scaling-rule": RULE, "jobID": NAMESPACE, "mind-cluster/group-name": group}


def job(name: str, group: str = "group0", **metadata: Any) -> Object:
    conditions = metadata.pop("conditions", [])
    found = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "resourceVersion": "7", "labels": labels(group), **metadata}
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"huawei.com/Ascend910": "8"}}}]}}
    specs = {"Master": {"replicas": 1, "template": template}}
    kind = {"apiVersion": "mindxdl.gitee.com/v1", "kind": "AscendJob"}
    return {**kind, "metadata": found, "spec": {"replicaSpecs": specs}, "status": {"conditions": conditions}}


def pod_group(name: str, phase: str, group: str = "group0") -> Object:
    owner = {"kind": "AscendJob", "name": name, "uid": f"uid-{name}"}
    metadata = {
        "name": f"{name}-uid-{name}",
        "namespace": NAMESPACE,
        "uid": f"pg-{name}",
        "ownerReferences": [owner],
        "labels": labels(group),
    }
    return {"metadata": metadata, "status": {"phase": phase}}


def pod(name: str, *, node: str = "node-0", leaving: bool = False, ready: bool = True, **metadata: Any) -> Object:
    found = {
        "name": f"{name}-master-0",
        "namespace": NAMESPACE,
        "uid": f"pod-{name}",
        "resourceVersion": "9",
        "labels": {"training.kubeflow.org/job-name": name, "app": "mindie-ms-server"},
        **metadata,
    }
    if leaving:
        found |= {"deletionTimestamp": "2026-11-30T10:00:00Z", "deletionGracePeriodSeconds": 30}
    spec = {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"huawei.com/Ascend910": "8"}}}]}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": found, "spec": spec, "status": status}


def node(name: str, *, ready: str = "True", npus: int = 8, since: str = "2026-11-30T09:00:00Z") -> Object:
    status = {
        "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": since}],
        "allocatable": {"huawei.com/Ascend910": str(npus)},
    }
    return {"metadata": {"name": name, "uid": name}, "spec": {}, "status": {**status, "capacity": status["allocatable"]}}


def rule(*tiers: Mapping[str, int], text: str | None = None, version: str = "5") -> Object:
    written = scaling_rule.write([{group: Size(number, 1) for group, number in tier.items()} for tier in tiers]) if text is None else text
    return {
        "kind": "ConfigMap",
        "metadata": {"name": RULE, "namespace": NAMESPACE, "uid": "rule", "resourceVersion": version},
        "data": {DATA_KEY: written},
    }


def motor_config(prefill: int, decode: int, **annotations: str) -> Object:
    counts = {"p_instances_num": prefill, "d_instances_num": decode}
    deploy = {"job_id": NAMESPACE, "deploy_mode": "ascend_jobs", "hardware_type": "800I-A2-32G", **counts}
    sizes = {"p_pod_npu_num": 8, "d_pod_npu_num": 8, "single_p_instance_pod_num": 1, "single_d_instance_pod_num": 1}
    data = {"user_config.json": json.dumps({"motor_deploy_config": {**deploy, **sizes}})}
    metadata = {"name": "motor-config", "namespace": NAMESPACE, "uid": "cm", "resourceVersion": "3"}
    bare = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    made = with_applied(bare, data, {"prefill": prefill, "decode": decode}, at="2026-11-30T09:00:00Z", by="me", run="r")
    made["metadata"]["annotations"].update(annotations)
    return made


def lease(holder: str = "", intent: Mapping[str, Any] | None = None) -> Object:
    annotations = {"ascend.mindie/intent": json.dumps(intent)} if intent else {}
    return {"metadata": {"name": "ascend-mindie", "namespace": NAMESPACE, "annotations": annotations}, "spec": {"holderIdentity": holder}}


def snapshot(*, config_maps: list[Object], **parts: Any) -> Snapshot:
    by_name = {item["metadata"]["name"]: item for item in config_maps}
    nodes = {item["metadata"]["name"]: item for item in parts.pop("nodes", [node("node-0"), node("node-1")])}
    given = {key: tuple(value) if isinstance(value, list) else value for key, value in parts.items()}
    return Snapshot(
        namespace=NAMESPACE,
        backend="ascend_jobs",
        base_name=DEFAULTS.name_prefix,
        config_map=by_name.get("motor-config"),
        rule=by_name.get(RULE),
        others={("ConfigMap", name): item for name, item in by_name.items()},
        nodes=nodes,
        **given,
    )
