# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small services as the API server would show them, for tests of pure functions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._motor import json_reader
from ansible_collections.ascend.mindie.plugins.module_utils._motor.instances import instance_name
from ansible_collections.ascend.mindie.plugins.module_utils._motor.record import with_applied
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot
from ansible_collections.ascend.mindie.plugins.module_utils._motor.user_config import UserConfig, parse

NAMESPACE = "mindie-test"
NPUS = 16


def user_config(*, prefill: int = 2, decode: int = 1, deploy_mode: str = "multi_deployment", **sections: Any) -> UserConfig:
    """A small valid user config; `sections` are added at the root."""
    data: dict[str, Any] = {
        "motor_deploy_config": {
            "p_instances_num": prefill,
            "d_instances_num": decode,
            "single_p_instance_pod_num": 1,
            "single_d_instance_pod_num": 1,
            "p_pod_npu_num": NPUS,
            "d_pod_npu_num": NPUS,
            "image_name": "registry.example/motor:1",
            "job_id": NAMESPACE,
            "hardware_type": "800I_A3",
            "deploy_mode": deploy_mode,
        },
        "motor_controller_config": {},
        "motor_engine_prefill_config": {"engine_type": "vllm", "engine_config": {}},
        "motor_engine_decode_config": {"engine_type": "vllm", "engine_config": {}},
    }
    return parse(json_reader.read(json.dumps({**data, **sections}, indent=2), source="user_config"))


def config_map(config: UserConfig, *, applied: bool = True, run: str = "run-1") -> dict[str, Any]:
    """`motor-config` with that config, as we (applied) or Motor's own deployer left it."""
    obj = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "motor-config", "namespace": NAMESPACE, "uid": "cm", "resourceVersion": "1"},
        "data": {"user_config.json": config.text, "boot.sh": "#!/bin/sh\n"},
    }
    return with_applied(obj, obj["data"], config.counts, at="2026-01-01T00:00:00Z", by="me", run=run) if applied else obj


def deployment(role: str, index: int, *, pods: int = 1, deleting: bool = False, **metadata: Any) -> dict[str, Any]:
    """The Deployment of one engine instance."""
    name = instance_name("vllm", role, index)
    marks = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {}
    env = [{"name": "ROLE", "value": role}, {"name": "JOB_NAME", "value": f"{NAMESPACE}-{name[5:]}-0123abcd"}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "labels": {"app": name, "job-name": f"{NAMESPACE}-{name[5:]}-0123abcd"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
            **marks,
            **metadata,
        },
        "spec": {
            "replicas": pods,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "vllm", "image": "i", "env": env}]}},
        },
        "status": {"replicas": pods},
    }


def pod(
    app: str, number: int = 0, *, ready: bool = True, leaving: bool = False, status: Mapping[str, Any] | None = None, **labels: str
) -> dict[str, Any]:
    """One pod with this `app` label."""
    marks = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if leaving else {}
    condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": "2026-01-02T00:00:00Z"}
    resources = {"requests": {"huawei.com/Ascend910": str(NPUS)}}
    owners = [{"kind": "ReplicaSet", "name": app, "uid": "rs"}]
    return {
        "metadata": {
            "name": f"{app}-{number}",
            "uid": f"{app}-{number}",
            "labels": {"app": app, **labels},
            "ownerReferences": owners,
            **marks,
        },
        "spec": {"nodeName": f"node-{number}", "containers": [{"name": "c", "resources": resources}]},
        "status": dict(status) if status is not None else {"phase": "Running", "conditions": [condition]},
    }


def control_pods(*, ready: bool = True) -> list[dict[str, Any]]:
    """Controller and coordinator."""
    return [pod("mindie-motor-controller", ready=ready), pod("mindie-motor-coordinator", ready=ready)]


def snapshot(config: UserConfig, live: Iterable[tuple[str, int]], *, applied: bool = True, **fields: Any) -> Snapshot:
    """A service in deployments mode with these instances running."""
    deployments = tuple(deployment(role, index) for role, index in live)
    pods = (*control_pods(), *(pod(item["metadata"]["name"]) for item in deployments))
    base: dict[str, Any] = {"config_map": config_map(config, applied=applied), "deployments": deployments, "pods": pods}
    return Snapshot(NAMESPACE, "deployments", "vllm", **{**base, **fields})


def running(**counts: int) -> list[tuple[str, int]]:
    """`running(prefill=2)` is [("prefill", 0), ("prefill", 1)]."""
    return [(role, index) for role, count in counts.items() for index in range(count)]


def infer_service_set(**counts: int) -> dict[str, Any]:
    """An InferServiceSet with these counts."""
    roles = [{"name": role, "replicas": count, "spec": {"replicas": 1}} for role, count in counts.items()]
    return {
        "apiVersion": "mindcluster.huawei.com/v1",
        "kind": "InferServiceSet",
        "metadata": {"name": "vllm", "namespace": NAMESPACE, "uid": "iss"},
        "spec": {"replicas": 1, "template": {"roles": [{"name": "controller", "replicas": 1}, *roles]}},
    }


def instance_set(role: str, count: int, *, ready: int | None = None, observed: bool = True) -> dict[str, Any]:
    """The InstanceSet of a role."""
    status = {"observedGeneration": 2 if observed else 1, "replicas": count, "readyReplicas": count if ready is None else ready}
    labels = {"infer.huawei.com/instanceset-name": role}
    return {"metadata": {"name": f"vllm-0-{role}", "labels": labels, "generation": 2}, "spec": {"replicas": count}, "status": status}


def set_snapshot(config: UserConfig, *, extra_pods: Iterable[Mapping[str, Any]] = (), **counts: int) -> Snapshot:
    """A service in infer_service_set mode with these instances running."""
    pods = [*control_pods(), *(set_pod(role, index) for role, index in running(**counts)), *extra_pods]
    return Snapshot(
        NAMESPACE,
        "infer_service_set",
        "vllm",
        config_map=config_map(config),
        pods=tuple(pods),
        infer_service_set=infer_service_set(**counts),
        instance_sets=tuple(instance_set(role, count) for role, count in counts.items()),
    )


def set_pod(role: str, index: int, **options: Any) -> dict[str, Any]:
    """A pod of an instance that the Infer Operator made."""
    made = pod("vllm", index, **options)
    made["metadata"]["name"] = made["metadata"]["uid"] = f"vllm-0-{role}-{index}-0"
    made["metadata"]["labels"].update(
        {
            "infer.huawei.com/instanceset-name": role,
            "infer.huawei.com/instanceset-index": str(index),
            "infer.huawei.com/inferservice-name": "vllm-0",
        }
    )
    return made
