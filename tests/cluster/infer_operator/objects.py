# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which objects the Infer Operator derives: names, labels, owners, environment. Pure functions on plain data."""

from __future__ import annotations

import copy
from typing import Any

from ..kube_client import Obj, Resource

GROUP_VERSION = "mindcluster.huawei.com/v1"
INFER_SERVICE_SETS = Resource(GROUP_VERSION, "InferServiceSet", "inferservicesets")
INFER_SERVICES = Resource(GROUP_VERSION, "InferService", "inferservices")
INSTANCE_SETS = Resource(GROUP_VERSION, "InstanceSet", "instancesets")
POD_GROUPS = Resource("scheduling.volcano.sh/v1beta1", "PodGroup", "podgroups")

PREFIX = "infer.huawei.com/"
SET_NAME = PREFIX + "inferserviceset-name"
SERVICE_INDEX = PREFIX + "inferservice-index"
SERVICE_NAME = PREFIX + "inferservice-name"
ROLE_NAME = PREFIX + "instanceset-name"
INSTANCE_INDEX = PREFIX + "instanceset-index"
STRATEGY = PREFIX + "priority-scheduling-strategy"
GANG = PREFIX + "gang-schedule"
MANAGED = PREFIX + "ascend-infer-operator"
SERVICE_ID = "inferserviceid"
SCHEDULE_POLICY = "huawei.com/schedule_policy"
GROUP_NAME = "scheduling.k8s.io/group-name"
MANAGED_SELECTOR = f"{MANAGED}=true"


def owner_reference(owner: Obj) -> Obj:
    """A controlling owner that also waits in foreground deletion."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def infer_service(service_set: Obj, index: int) -> Obj:
    """The InferService with this index. The user's labels are not passed on."""
    name = service_set["metadata"]["name"]
    return {
        "apiVersion": GROUP_VERSION,
        "kind": "InferService",
        "metadata": {
            "name": f"{name}-{index}",
            "namespace": service_set["metadata"]["namespace"],
            "labels": {SET_NAME: name, SERVICE_INDEX: str(index)},
            "ownerReferences": [owner_reference(service_set)],
        },
        "spec": service_template(service_set),
    }


def service_template(service_set: Obj) -> Obj:
    """The spec that each InferService of the set gets."""
    template: Obj = service_set.get("spec", {}).get("template", {})
    return template


def instance_set(service: Obj, role: Obj) -> Obj:
    """The InstanceSet of a role. The role's metadata are put on it here, at its creation, and never again."""
    name = service["metadata"]["name"]
    metadata = role.get("metadata", {})
    strategy = service["spec"].get("schedulingStrategy", {}).get("type") or "Parallel"
    labels = {**metadata.get("labels", {}), SERVICE_NAME: name, ROLE_NAME: role["name"], STRATEGY: strategy}
    annotations = dict(metadata.get("annotations", {}))
    template = role.get("spec", {}).get("template", {}).get("metadata", {})
    policy = annotations.get(SCHEDULE_POLICY) or template.get("annotations", {}).get(SCHEDULE_POLICY)
    if policy:
        annotations[SCHEDULE_POLICY] = policy
    if policy and policy.endswith("-sp") and SERVICE_ID not in template.get("labels", {}):
        labels.setdefault(SERVICE_ID, service["metadata"]["uid"])
    return {
        "apiVersion": GROUP_VERSION,
        "kind": "InstanceSet",
        "metadata": {
            "name": f"{name}-{role['name']}",
            "namespace": service["metadata"]["namespace"],
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner_reference(service)],
        },
        "spec": role,
    }


def instance_labels(parent: Obj, index: int | None) -> dict[str, str]:
    """The labels by which workloads, pods and Services of an InstanceSet are found. None: those of no instance."""
    labels = parent["metadata"]["labels"]
    return {
        SERVICE_NAME: labels[SERVICE_NAME],
        ROLE_NAME: labels[ROLE_NAME],
        INSTANCE_INDEX: "" if index is None else str(index),
        MANAGED: "true",
    }


def belongs_to(obj: Obj, parent: Obj) -> bool:
    """Whether an object is one of an InstanceSet's, by labels as the operator looks, not by owner."""
    if obj["metadata"].get("namespace") != parent["metadata"]["namespace"]:
        return False
    labels = obj["metadata"].get("labels", {})
    wanted = instance_labels(parent, None)
    return all(labels.get(key) == wanted[key] for key in (SERVICE_NAME, ROLE_NAME, MANAGED))


def index_of(obj: Obj) -> int | None:
    """The instance that an object belongs to."""
    text = obj["metadata"].get("labels", {}).get(INSTANCE_INDEX, "")
    return int(text) if text.isdecimal() else None


def workload_name(parent: Obj, index: int) -> str:
    """S-i-R-k."""
    labels = parent["metadata"]["labels"]
    return f"{labels[SERVICE_NAME]}-{labels[ROLE_NAME]}-{index}"


def gang_scheduled(parent: Obj) -> bool:
    """Decided by the label that the InstanceSet got at its creation."""
    return bool(parent["metadata"]["labels"].get(GANG) == "true")


def _child(parent: Obj, api_version: str, kind: str, name: str, labels: dict[str, str]) -> Obj:
    metadata = {
        "name": name,
        "namespace": parent["metadata"]["namespace"],
        "labels": labels,
        "annotations": dict(parent["metadata"].get("annotations", {})),
        "ownerReferences": [owner_reference(parent)],
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def workload(parent: Obj, index: int) -> Obj:
    """The Deployment or StatefulSet of one instance."""
    role = parent["spec"]
    kind = role["workload"]["kind"]
    spec = copy.deepcopy(role["spec"])
    template = spec.setdefault("template", {})
    metadata = template.setdefault("metadata", {})
    own = instance_labels(parent, index)
    extra = role.get("metadata", {})
    labels = {**parent["metadata"]["labels"], **extra.get("labels", {}), **own}
    pod_labels = metadata.get("labels", {})
    if kind == "StatefulSet":
        if "fault-scheduling" in pod_labels:
            labels["fault-scheduling"] = pod_labels["fault-scheduling"]
        if SERVICE_ID in parent["metadata"]["labels"]:
            pod_labels = {**pod_labels, SERVICE_ID: parent["metadata"]["labels"][SERVICE_ID]}
        spec["serviceName"] = f"service-{workload_name(parent, index)}"
    metadata["labels"] = {**pod_labels, **own}
    if gang_scheduled(parent):
        metadata["annotations"] = {**metadata.get("annotations", {}), GROUP_NAME: f"pg-{workload_name(parent, index)}"}
    for container in template.get("spec", {}).get("containers", []):
        container["env"] = [*container.get("env", []), *_environment(own)]
    child = _child(parent, role["workload"]["apiVersion"], kind, workload_name(parent, index), labels)
    child["metadata"]["annotations"].update(extra.get("annotations", {}))
    child["spec"] = spec
    return child


def _environment(labels: dict[str, str]) -> list[dict[str, str]]:
    set_name, dummy, service_index = labels[SERVICE_NAME].rpartition("-")
    return [
        {"name": "INSTANCE_INDEX", "value": labels[INSTANCE_INDEX]},
        {"name": "INSTANCE_ROLE", "value": labels[ROLE_NAME]},
        {"name": "INFER_SERVICE_INDEX", "value": service_index},
        {"name": "INFER_SERVICE_NAME", "value": set_name},
    ]


def instance_service(parent: Obj, index: int) -> Obj | None:
    """The Service of one instance: headless for a StatefulSet; a Deployment has one only if its role declares none."""
    headless = parent["spec"]["workload"]["kind"] == "StatefulSet"
    if not headless and parent["spec"].get("services"):
        return None
    labels = instance_labels(parent, index)
    service = _child(parent, "v1", "Service", f"service-{workload_name(parent, index)}", labels)
    port: Obj = {"name": "infer", "port": 8080}
    service["spec"] = {"selector": dict(labels), "ports": [port]}
    if headless:
        service["spec"]["clusterIP"] = "None"
    else:
        port["targetPort"] = 8080
    return service


def declared_service(parent: Obj, declared: Obj) -> Obj:
    """A Service that the role declares. A node port is moved up by the index of the InferService."""
    own = instance_labels(parent, None)
    name = f"{declared['name']}-{own[SERVICE_NAME]}-{own[ROLE_NAME]}"
    service = _child(parent, "v1", "Service", name, {**parent["metadata"]["labels"], **own})
    service["spec"] = copy.deepcopy(declared.get("spec", {}))
    if service["spec"].get("type") == "NodePort":
        offset = int(own[SERVICE_NAME].rpartition("-")[2])
        for port in service["spec"].get("ports", []):
            port["nodePort"] += offset
    return service


def pod_group(parent: Obj, index: int) -> Obj:
    """The PodGroup of one instance when gang scheduling is on: all its pods or none."""
    labels = {**parent["metadata"]["labels"], **instance_labels(parent, index)}
    labels.pop(SERVICE_ID, None)
    group = _child(parent, POD_GROUPS.api_version, "PodGroup", f"pg-{workload_name(parent, index)}", labels)
    group["spec"] = {"minMember": parent["spec"]["spec"].get("replicas", 1)}
    return group


def hpa_managed(parent: Obj) -> bool:
    """Whether an InstanceSet's count is an autoscaler's, so that the role's count no longer matters."""
    return bool(parent["spec"].get("scalingPolicy", {}).get("type") == "HPA")


def autoscaler(parent: Obj) -> Obj:
    """The HorizontalPodAutoscaler of a role with a scaling policy of type HPA."""
    name = parent["metadata"]["name"]
    labels = {**parent["metadata"]["labels"], PREFIX + "scaling-owned-by": name, MANAGED: ""}
    hpa = _child(parent, "autoscaling/v2", "HorizontalPodAutoscaler", f"{name}-scaler", labels)
    spec: Obj = copy.deepcopy(parent["spec"]["scalingPolicy"].get("spec", {}))
    spec["scaleTargetRef"] = {"apiVersion": GROUP_VERSION, "kind": "InstanceSet", "name": name}
    service_name = labels[SERVICE_NAME]
    injected = {
        SERVICE_NAME: service_name,
        SET_NAME: service_name.rpartition("-")[0],
        PREFIX + "role-name": labels[ROLE_NAME],
    }
    for metric in spec.get("metrics", []):
        if metric.get("type") == "External" and "external" in metric:
            selector: Obj = metric["external"].setdefault("metric", {}).setdefault("selector", {})
            selector["matchLabels"] = {**injected, **selector.get("matchLabels", {})}
    hpa["spec"] = spec
    return hpa


def invalid_instance_set(parent: Obj, gang_possible: bool) -> str:
    """Why the operator refuses an InstanceSet (text of its Warning event), or an empty text."""
    spec: Obj = parent.get("spec", {})
    labels = parent["metadata"].get("labels", {})
    replicas = spec.get("replicas")
    if labels.get(GANG) == "true" and not gang_possible:
        return "label gang-schedule is true, but PodGroup not supported now, please check if volcano installed in k8s"
    if replicas is None:
        return "jobSpec is not valid: replicas cannot be nil"
    if replicas < 0:
        return f"jobSpec is not valid: replicas can not be negative num, but but got {replicas}"
    for label in (SERVICE_NAME, ROLE_NAME):
        if label not in labels:
            return f"label <{label}> is missing"
    for service in spec.get("services", []):
        if service.get("spec", {}).get("type") == "NodePort":
            ports: list[Any] = service["spec"].get("ports", [])
            if not all(port.get("nodePort") for port in ports):
                return f"nodePort of service<{service['name']}> should config as non-zero"
    kind = spec.get("workload", {})
    if kind.get("apiVersion") != "apps/v1" or kind.get("kind") not in ("Deployment", "StatefulSet"):
        return f"no handler for workload {kind.get('apiVersion')}/{kind.get('kind')}"
    return "" if spec.get("spec") else "raw extension is empty"
