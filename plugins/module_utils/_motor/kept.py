# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects cut to what the state of services is made of, so that a program can hold those of a whole cluster.

The state of cut objects (`overview.py`) is that of whole ones. Where only the sameness of something matters, its digest stays
(`digests.py`). Nothing can be written or copied from a cut object: whoever changes the cluster reads the whole object again.

Parts are shared between the objects that have them alike: cut objects must never be changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from sys import intern
from types import MappingProxyType
from typing import Any

from . import digests, siblings
from .hardware import SUPER_POD_BLOCK
from .ownership import CONFIG_MAP, JOB_APP
from .pods import NPU_RESOURCES
from .rank_tables import RANK_TABLE_PREFIX
from .record import USER_CONFIG_KEY, fingerprint
from .rule_reader import DATA_KEY
from .servers import SUPER_POD_ANNOTATION
from .workloads import ASCEND_JOB, pod_count, total_npus

Object = Mapping[str, Any]
Tree = Any

# A tree says what is kept: ALL of a value, the keys of a mapping, a tree of one entry (in a list) for lists, ANY_KEY for all keys.
ALL = None
ANY_KEY = "*"


_OWN_ANNOTATIONS = "ascend.mindie/"
_ANNOTATIONS = frozenset({SUPER_POD_BLOCK, SUPER_POD_ANNOTATION})
_METADATA = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_OWNER: Tree = dict.fromkeys(("kind", "name", "uid", "controller"))

_NPUS: Tree = dict.fromkeys(NPU_RESOURCES)
_CONDITION: Tree = dict.fromkeys(("type", "status", "reason", "message", "lastTransitionTime"))
_ASKING: Tree = {"resources": {"requests": _NPUS}}
_CONTAINER: Tree = {"name": ALL, "image": ALL, **_ASKING}
_TEMPLATE: Tree = {"spec": {"containers": [_ASKING]}}
_CONTAINER_STATUS: Tree = {
    "restartCount": ALL,
    "state": {"waiting": {"reason": ALL, "message": ALL}, "terminated": {"reason": ALL, "exitCode": ALL}},
    "lastState": {"terminated": {"exitCode": ALL}},
}

_POD: Tree = {
    "spec": {"nodeName": ALL, "containers": [_CONTAINER]},
    "status": {
        "phase": ALL,
        "reason": ALL,
        "startTime": ALL,
        "conditions": [_CONDITION],
        "initContainerStatuses": [_CONTAINER_STATUS],
        "containerStatuses": [_CONTAINER_STATUS],
    },
}
# Of Motor's controller it matters whether it mounts a single file of the rule.
_MOUNTS: Tree = {"spec": {"volumes": [{"name": ALL, "configMap": {"name": ALL}}]}}
_MOUNTS["spec"]["containers"] = [{**_ASKING, "volumeMounts": [dict.fromkeys(("name", "subPath", "subPathExpr"))]}]
_CONTROLLER: Tree = {**_POD, "spec": {**_POD["spec"], **_MOUNTS["spec"]}}

_ROLE: Tree = {
    "name": ALL,
    "replicas": ALL,
    "scalingPolicy": {"type": ALL},
    "spec": {"replicas": ALL, "template": {"spec": {"containers": [_CONTAINER]}}},
}

_JOB: Tree = {
    "spec": {"replicaSpecs": {ANY_KEY: {"replicas": ALL, "template": _TEMPLATE}}, "runPolicy": {"backoffLimit": ALL}},
    "status": {"conditions": [_CONDITION]},
}
_DEPLOYMENT: Tree = {
    "spec": {"replicas": ALL, "selector": {"matchLabels": ALL}, "template": _TEMPLATE},
    "status": {"conditions": [_CONDITION]},
}
_NODE: Tree = {
    "spec": {"unschedulable": ALL},
    "status": {"capacity": _NPUS, "allocatable": _NPUS, "conditions": [_CONDITION]},
}
_POD_GROUP: Tree = {"spec": {"minResources": _NPUS}, "status": {"phase": ALL}}
_LEASE: Tree = {"spec": ALL}
_INFER_SERVICE_SET: Tree = {"spec": {"template": {"roles": [_ROLE]}}}
_INSTANCE_SET: Tree = {"spec": {"replicas": ALL}}
_AUTOSCALER: Tree = {"spec": {"scaleTargetRef": dict.fromkeys(("apiVersion", "kind", "name"))}}


def _pod(obj: Object) -> Object:
    labels = obj["metadata"].get("labels") or {}
    return _cut(obj, _CONTROLLER if labels.get("app") == JOB_APP["controller"] else _POD)


def _job(obj: Object) -> Object:
    """What cannot be a job (the API server takes more than the operator does) has no pods, so that one does not hide all others."""
    try:
        pod_count(obj), total_npus(obj)
        return _cut_job(obj)
    except (AttributeError, KeyError, TypeError, ValueError):
        return _cut_job({**obj, "spec": {"replicaSpecs": {}}})


def _cut_job(obj: Object) -> Object:
    """Of the conditions only a failure counts, and it is for good."""
    found = _cut(obj, _JOB)
    conditions = (found.get("status") or {}).get("conditions")
    if conditions:
        found["status"] = {"conditions": [row for row in conditions if row.get("type") == "Failed"]}
    return {**found, digests.KEY: {siblings.WITH_PODS: intern(siblings.digest(obj))}}


def _deployment(obj: Object) -> Object:
    kept = {key: siblings.digest(obj, pods=key == siblings.WITH_PODS) for key in (siblings.WITH_PODS, siblings.WITHOUT_PODS)}
    return {**_cut(obj, _DEPLOYMENT), digests.KEY: kept}


def _node(obj: Object) -> Object:
    """Its readiness without the heartbeats, so that a node to which nothing happens stays the same."""
    found = _cut(obj, _NODE)
    conditions = (found.get("status") or {}).get("conditions")
    if conditions:
        found["status"]["conditions"] = [row for row in conditions if row.get("type") == "Ready"]
    return found


def _config_map(obj: Object) -> Object:
    """The user config and digests of `motor-config`, a scaling rule, and of the rest only which keys there are."""
    name, data = obj["metadata"]["name"], obj.get("data") or {}
    found = _cut(obj, {})
    if name.startswith(RANK_TABLE_PREFIX):
        return found
    if name == CONFIG_MAP:
        kept = {USER_CONFIG_KEY: data[USER_CONFIG_KEY]} if USER_CONFIG_KEY in data else {}
        return {**found, "data": kept, digests.KEY: fingerprint(data)}
    if DATA_KEY in data:
        found["metadata"]["managedFields"] = _written(obj)
        return {**found, "data": {DATA_KEY: data[DATA_KEY]}}
    return {**found, "data": dict.fromkeys(data, "")} if data else found


def _written(obj: Object) -> list[Object]:
    """When the data were written, and by whom."""
    fields = obj["metadata"].get("managedFields") or ()
    mine = (entry for entry in fields if "f:data" in (entry.get("fieldsV1") or {}))
    return [{"manager": entry.get("manager", ""), "time": entry.get("time"), "fieldsV1": {"f:data": {}}} for entry in mine]


def _by(tree: Tree) -> Callable[[Object], Object]:
    return lambda obj: _cut(obj, tree)


KEPT: Mapping[str, Callable[[Object], Object]] = MappingProxyType(
    {
        ASCEND_JOB: _job,
        "PodGroup": _by(_POD_GROUP),
        "Pod": _pod,
        "Node": _node,
        "ConfigMap": _config_map,
        "Lease": _by(_LEASE),
        "Deployment": _deployment,
        "InferServiceSet": _by(_INFER_SERVICE_SET),
        "InstanceSet": _by(_INSTANCE_SET),
        "HorizontalPodAutoscaler": _by(_AUTOSCALER),
        "ScaledObject": _by(_AUTOSCALER),
    }
)


def _cut(obj: Object, tree: Tree) -> dict[str, Any]:
    found: dict[str, Any] = {key: obj[key] for key in ("apiVersion", "kind") if key in obj}
    found["metadata"] = _metadata(obj["metadata"])
    for key, below in tree.items():
        if key in obj:
            value = _selected(obj[key], below)
            # What was asked for is the same for many, what became of it is not.
            found[key] = _spec(value) if key == "spec" else value
    return found


def _metadata(metadata: Object) -> dict[str, Any]:
    found = {key: metadata[key] for key in _METADATA if key in metadata}
    if metadata.get("namespace"):
        found["namespace"] = intern(metadata["namespace"])
    if metadata.get("labels"):
        found["labels"] = {intern(key): intern(value) for key, value in metadata["labels"].items()}
    annotations = metadata.get("annotations") or {}
    kept = {intern(key): text for key, text in annotations.items() if key in _ANNOTATIONS or key.startswith(_OWN_ANNOTATIONS)}
    if kept:
        found["annotations"] = kept
    if metadata.get("ownerReferences"):
        found["ownerReferences"] = _selected(metadata["ownerReferences"], [_OWNER])
    return found


def _selected(value: Any, tree: Tree) -> Any:
    if tree is ALL:
        return intern(value) if isinstance(value, str) and len(value) < 64 else value
    if isinstance(tree, list):
        return [_selected(item, tree[0]) for item in value or ()]
    if not isinstance(value, dict):
        return value
    if ANY_KEY in tree:
        return {intern(key): _selected(item, tree[ANY_KEY]) for key, item in value.items()}
    return {key: _selected(value[key], below) for key, below in tree.items() if key in value}


def _spec(spec: Any) -> Any:
    """Its parts, each shared with all objects that have the same."""
    if not isinstance(spec, dict):
        return spec
    return {key: _shared(json.dumps(part)) if isinstance(part, (dict, list)) else part for key, part in spec.items()}


@lru_cache(maxsize=512)
def _shared(text: str) -> Any:
    return json.loads(text)
