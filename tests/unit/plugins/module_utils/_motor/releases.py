# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small Motor releases of both shapes, with every template: what the rendering touches and no more."""

from __future__ import annotations

from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._motor.release import SCRIPTS, SHAPE_2026_05, SHAPE_2026_07, Release, understand

SHAPES = (SHAPE_2026_05, SHAPE_2026_07)
FILES = dict[str, Any]


def metadata(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "namespace": "template", "labels": {"app": name}, **more}


def service(name: str, app: str, *ports: dict[str, Any]) -> dict[str, Any]:
    kind = "NodePort" if any("nodePort" in port for port in ports) else "ClusterIP"
    spec = {"ports": [{**port, "targetPort": port["port"]} for port in ports], "selector": {"app": app}, "type": kind}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {**metadata(name), "labels": {"app": app}}, "spec": spec, "status": {}}


def template(app: str, role: str | None = None, *volumes: str) -> dict[str, Any]:
    env = [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    container = {
        "name": app,
        "image": "template:1",
        "env": [*env, *([{"name": "ROLE", "value": role}] if role else [])],
        "volumeMounts": [{"name": name, "mountPath": f"/mnt/{name}"} for name in volumes],
    }
    pod = {"containers": [container], "volumes": [{"name": name, "hostPath": {"path": f"/mnt/{name}"}} for name in volumes]}
    return {"metadata": {"labels": {"app": app}}, "spec": pod}


def engine_template() -> dict[str, Any]:
    made = template("mindie-server", None, "weight-mount", "plog-path")
    made["metadata"]["labels"]["ring-controller.atlas"] = "ascend-910b"
    npus = {"huawei.com/Ascend910": 1}
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1", **npus}, "limits": dict(npus)}
    made["spec"]["containers"][0]["securityContext"] = {"allowPrivilegeEscalation": False}
    made["spec"]["nodeSelector"] = {"accelerator": "huawei-Ascend910", "accelerator-type": "module-910b-8"}
    made["spec"]["volumes"].append({"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "4Gi"}})
    return made


def deployment(app: str, pod: dict[str, Any], **more: Any) -> dict[str, Any]:
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": app}}, "template": pod}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(app, **more), "spec": spec}


def engine_deployment(shape: str) -> dict[str, Any]:
    annotations = {"annotations": {"sp-block": "xxxx"}} if shape == SHAPE_2026_05 else {}
    made = deployment("mindie-server", engine_template(), **annotations)
    made["metadata"]["labels"].update({"ring-controller.atlas": "ascend-910b", "job-name": "xxxx"})
    return made


def rbac() -> list[dict[str, Any]]:
    api = "rbac.authorization.k8s.io"
    account = {"kind": "ServiceAccount", "name": "motor", "namespace": "template"}
    role_ref = {"apiGroup": api, "kind": "ClusterRole", "name": "motor-role"}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "motor", "namespace": "template"}},
        {"apiVersion": f"{api}/v1", "kind": "ClusterRole", "metadata": {"name": "motor-role"}, "rules": []},
        {
            "apiVersion": f"{api}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "motor-binding"},
            "subjects": [account],
            "roleRef": role_ref,
        },
    ]


INFER, MANAGEMENT, OBSERVABILITY = {"port": 1025, "nodePort": 31015}, {"port": 1026}, {"port": 1027, "nodePort": 31017}
COORDINATOR_PORTS = {
    SHAPE_2026_05: {"coordinator-service": MANAGEMENT, "coordinator-infer": INFER},
    SHAPE_2026_07: {"coordinator-infer": INFER, "coordinator-mgmt": MANAGEMENT, "coordinator-obs": OBSERVABILITY},
}
KV_PORTS = {SHAPE_2026_05: (50088,), SHAPE_2026_07: (50088, 50089, 50090)}
KV = {SHAPE_2026_05: ("kv-pool", "kvp-master", "kv_pool"), SHAPE_2026_07: ("kv-store", "kvs-master", "kv_store")}


def role(name: str, pod: dict[str, Any], services: tuple[dict[str, Any], ...] = (), replicas: int = 1) -> dict[str, Any]:
    entries = [{"name": found["metadata"]["name"], "spec": found["spec"]} for found in services]
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": pod["metadata"]["labels"]["app"]}}, "template": pod}
    return {"name": name, "replicas": replicas, "workload": {}, "spec": spec, **({"services": entries} if entries else {})}


def infer_service_set(shape: str) -> dict[str, Any]:
    kv, kv_service, kv_role = KV[shape]
    coordinators = tuple(service(name, "coordinator", port) for name, port in COORDINATOR_PORTS[shape].items())
    engines = ("prefill", "decode") if shape == SHAPE_2026_05 else ("encode", "prefill", "decode", "union")
    roles = [
        role("controller", template("controller"), (service("controller-service", "controller", MANAGEMENT),)),
        role("coordinator", template("coordinator"), coordinators),
        *(role(name, engine_template(), replicas=4) for name in engines),
        role(kv, template(kv, kv_role), (service(kv_service, kv, *({"port": port} for port in KV_PORTS[shape])),), 0),
        role("kv-conductor", template("kv-conductor", "kv_conductor"), (service("kv-conductor", "kv-conductor", {"port": 13333}),), 0),
    ]
    meta = {"name": "vllm", "namespace": "template", "labels": {}, "annotations": {}}
    return {
        "apiVersion": "mindcluster.huawei.com/v1",
        "kind": "InferServiceSet",
        "metadata": meta,
        "spec": {"replicas": 1, "template": {"roles": roles}},
    }


def templates(shape: str) -> FILES:
    """Documents by template, as they are read from a release's `yaml_template`."""
    kv, kv_service, kv_role = KV[shape]
    kv_ports = tuple({"port": port} for port in KV_PORTS[shape])
    found: FILES = {
        "controller_template.yaml": [
            *rbac(),
            deployment("controller", template("controller", None, "plog-path")),
            service("controller-service", "controller", MANAGEMENT),
        ],
        "coordinator_template.yaml": [
            deployment("coordinator", template("coordinator", None, "plog-path")),
            *(service(name, "coordinator", port) for name, port in COORDINATOR_PORTS[shape].items()),
        ],
        "engine_template.yaml": [engine_deployment(shape)],
        "infer_service_template.yaml": [None, *rbac(), infer_service_set(shape)],
        "single_container_template.yaml": [engine_deployment(shape), service("infer", "coordinator", INFER)],
        ("kv_pool_template.yaml" if shape == SHAPE_2026_05 else "kv_cache_store_template.yaml"): [
            deployment(kv, template(kv, kv_role)),
            service(kv_service, kv, *kv_ports),
        ],
        "kv_conductor_template.yaml": [
            deployment("kv-conductor", template("kv-conductor", "kv_conductor")),
            service("kv-conductor", "kv-conductor", {"port": 13333}),
        ],
        "mf_store_template.yaml": [deployment("mf-store", template("mf-store", "mf_store")), service("mf-store", "mf-store", {"port": 50089})],
    }
    if shape == SHAPE_2026_07:
        claim = {"accessModes": ["ReadWriteMany"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}
        pvc = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "store", "namespace": "template"}, "spec": claim}
        found["storage_pvc_template.yaml"] = [pvc]
    return found


def files(shape: str) -> FILES:
    """The files of a release, as they are handed to `understand`."""
    scripts = {path: f"#!/bin/bash\n# {key}\n" for key, path in SCRIPTS[shape].items()}
    return {**scripts, **{f"yaml_template/{name}": documents for name, documents in templates(shape).items()}}


def release(shape: str) -> Release:
    """A whole release."""
    return understand(files(shape), source=f"release {shape}")
