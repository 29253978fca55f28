# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the instances of an engine role have in common: which one is like the others, and which were altered."""

from __future__ import annotations

import copy
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from . import digests
from .instances import parse_instance_name
from .rank_tables import RANK_TABLE_PREFIX, is_rank_table
from .remembered import remembered
from .workloads import ASCEND_JOB, replica_specs

Object = Mapping[str, Any]

# What the server or kubectl wrote on an object and must not be carried over to another one.
_SERVER_METADATA = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences", "selfLink")
_SERVER_ANNOTATIONS = ("kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision")
# Set by `kubectl rollout restart`: it makes new pods, not other ones.
_RESTARTED = "kubectl.kubernetes.io/restartedAt"
_JOB_NAME = "JOB_NAME"
# The digests of a specification, with and without the number of pods.
WITH_PODS, WITHOUT_PODS = "specification", "specification_without_pods"
# Lists whose order means nothing.
_UNORDERED = frozenset({"containers", "initContainers", "env", "ports", "volumeMounts", "volumes", "tolerations"})


def by_role(deployments: Iterable[Object], base_name: str) -> dict[str, list[tuple[int, Object]]]:
    """Workloads that are engine instances and are to stay, by engine role, each with its index, lowest first."""
    found: dict[str, list[tuple[int, Object]]] = defaultdict(list)
    for deployment in deployments:
        parsed = parse_instance_name(deployment["metadata"]["name"], base_name)
        if parsed and not deployment["metadata"].get("deletionTimestamp") and is_engine(deployment):
            found[parsed[0]].append((parsed[1], deployment))
    return {role: sorted(items, key=lambda item: item[0]) for role, items in found.items()}


def is_engine(deployment: Object) -> bool:
    """Whether a Deployment selects its pods as an engine instance does: by its own name. AscendJobs find theirs by no choice."""
    if deployment["kind"] == ASCEND_JOB:
        return True
    labels = deployment["spec"]["selector"].get("matchLabels") or {}
    return bool(labels.get("app") == deployment["metadata"]["name"])


def usual(deployments: Iterable[Object]) -> Object | None:
    """The first of the Deployments that has the specification which most of them have; None when there is none."""
    items = [(deployment, specification(deployment)) for deployment in deployments]
    most = _most_frequent(text for dummy, text in items)
    return next((deployment for deployment, text in items if text == most), None)


def _most_frequent(texts: Iterable[str]) -> str:
    """Of texts that are equally frequent, the first one."""
    found = Counter(texts).most_common(1)
    return found[0][0] if found else ""


def cleaned(deployment: Object) -> dict[str, Any]:
    """The Deployment as somebody wrote it, without what the server made of it."""
    obj: dict[str, Any] = {key: deployment[key] for key in ("apiVersion", "kind")}
    obj["metadata"] = {key: copy.deepcopy(value) for key, value in deployment["metadata"].items() if key not in _SERVER_METADATA}
    annotations = {k: v for k, v in (obj["metadata"].pop("annotations", None) or {}).items() if k not in _SERVER_ANNOTATIONS}
    if annotations:
        obj["metadata"]["annotations"] = annotations
    obj["spec"] = copy.deepcopy(deployment["spec"])
    return obj


def altered(deployments: Iterable[Object], base_name: str, scaled: Iterable[str] = ()) -> frozenset[str]:
    """Names of instances that differ from most of their siblings. `scaled`: engine roles whose pods an autoscaler counts."""
    names: set[str] = set()
    for role, items in by_role(deployments, base_name).items():
        texts = {deployment["metadata"]["name"]: digest(deployment, pods=role not in scaled) for dummy, deployment in items}
        most = _most_frequent(texts.values())
        names.update(name for name, text in texts.items() if text != most)
    return frozenset(names)


def digest(deployment: Object, *, pods: bool = True) -> str:
    """A digest of the specification, with or without the number of pods; one that was cut off is known by it."""
    return digests.of(deployment).get(WITH_PODS if pods else WITHOUT_PODS) or digests.sha256(specification(deployment, pods=pods))


def specification(deployment: Object, *, pods: bool = True) -> str:
    """What makes one instance differ from another, as text: the spec without the names of the instance.

    Needed to compare what one API server stored, which writes quantities and defaults alike.
    """
    spec = deployment["spec"]
    bare = _unnamed_job(spec) if deployment["kind"] == ASCEND_JOB else _unnamed(spec if pods else {**spec, "replicas": None})
    return _plain_text(json.dumps(bare, sort_keys=True))


def _unnamed(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of a Deployment without the names of the instance, and without what a restart leaves behind."""
    selector, template = spec["selector"], spec["template"]
    metadata, pod = template.get("metadata") or {}, template["spec"]
    containers = [
        {**container, "env": [item for item in container.get("env") or () if item.get("name") != _JOB_NAME]}
        for container in pod.get("containers") or ()
    ]
    return {
        **spec,
        "selector": {**selector, "matchLabels": _without(selector.get("matchLabels"), "app")},
        "template": {
            **template,
            "metadata": {
                **metadata,
                "labels": _without(metadata.get("labels"), "app"),
                "annotations": _without(metadata.get("annotations"), _RESTARTED),
            },
            "spec": {**pod, "containers": containers},
        },
    }


def _without(values: Mapping[str, Any] | None, key: str) -> dict[str, Any]:
    return {name: value for name, value in (values or {}).items() if name != key}


def _unnamed_job(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of an AscendJob without the name of its rank table, all that its siblings do not share."""
    bare: dict[str, Any] = {**spec, "replicaSpecs": {kind: dict(one) for kind, one in replica_specs({"spec": spec}).items()}}
    for one in bare["replicaSpecs"].values():
        pod = (one.get("template") or {}).get("spec") or {}
        if pod.get("volumes"):
            one["template"] = {**one["template"], "spec": {**pod, "volumes": [_unnamed_volume(volume) for volume in pod["volumes"]]}}
    return bare


def _unnamed_volume(volume: Mapping[str, Any]) -> Mapping[str, Any]:
    if is_rank_table(volume):
        return {**volume, "configMap": {**volume["configMap"], "name": RANK_TABLE_PREFIX}}
    return volume


@remembered
def _plain_text(spec: str) -> str:
    """See `_plain`; thousands of siblings have few specifications."""
    return json.dumps(_plain(json.loads(spec), ""), sort_keys=True)


def _plain(value: Any, key: str) -> Any:
    """Without what holds nothing, and with lists in one order where their order means nothing."""
    if isinstance(value, dict):
        plain = {name: _plain(item, name) for name, item in value.items()}
        return {name: item for name, item in plain.items() if item not in (None, "", [], {})}
    if isinstance(value, list):
        items = [_plain(item, "") for item in value]
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True)) if key in _UNORDERED else items
    return value
