# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that must not change without need: JOB_NAME, label `job-name`, SERVICE_ID."""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .draft import Draft

JOB_NAME = "JOB_NAME"
LABEL = "job-name"
SUFFIX_LENGTH = 8

_SERVICE_ID = re.compile(r'^\s*export SERVICE_ID="([^"]*)"\s*$', re.MULTILINE)


def instance_suffix(template: Mapping[str, Any]) -> str:
    """Eight hexadecimal digits that tell one generation of an instance from the next: of the pod template without its names.

    Equal for all instances of an engine role, so that an instance cloned from a sibling is the one that rendering gives.
    """
    bare = copy.deepcopy(dict(template))
    bare["metadata"].get("labels", {}).pop("app", None)
    for container in bare["spec"]["containers"]:
        container["env"] = [item for item in container.get("env") or () if item["name"] != JOB_NAME]
    text = json.dumps(bare, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:SUFFIX_LENGTH]


def set_job_name(deployment: Draft, job_name: str) -> None:
    """JOB_NAME in the pods, and the label of the same value on the Deployment."""
    deployment.set(("metadata", "labels", LABEL), job_name)
    deployment.set(("spec", "template", "spec", "containers", 0, "env", JOB_NAME, "value"), job_name)


def keep_identity(rendered: Mapping[str, Any], live: Mapping[str, Any]) -> dict[str, Any]:
    """The rendered object with the names of the live one: JOB_NAME and label `job-name` are never changed on what exists."""
    kept: dict[str, Any] = copy.deepcopy(dict(rendered))
    if "spec" not in kept or not isinstance(kept["spec"], dict):
        return kept
    live_labels = live["metadata"].get("labels") or {}
    labels = kept["metadata"].get("labels") or {}
    if LABEL in labels:
        del labels[LABEL]
        if LABEL in live_labels:
            labels[LABEL] = live_labels[LABEL]
    live_templates = dict(_pod_templates(live))
    for role, template in _pod_templates(kept):
        if role in live_templates:
            _keep_job_names(template, live_templates[role])
    return kept


def service_id_of(config_map: Mapping[str, Any] | None) -> str | None:
    """SERVICE_ID of a live `motor-config`, or None: it names the log directories, so it stays as long as the service does."""
    text = ((config_map or {}).get("data") or {}).get("common.sh", "")
    found = _SERVICE_ID.search(text)
    return found[1] if found else None


def _pod_templates(obj: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """`(role, pod template)` of a workload ("" for a Deployment) or of every role of an InferServiceSet."""
    template = obj["spec"].get("template") or {}
    for role in template.get("roles") or ():
        if "template" in (role.get("spec") or {}):
            yield role["name"], role["spec"]["template"]
    if "spec" in template:
        yield "", template


def _keep_job_names(template: Mapping[str, Any], live: Mapping[str, Any]) -> None:
    names = {}
    for container in live["spec"].get("containers") or ():
        for item in container.get("env") or ():
            if item["name"] == JOB_NAME:
                names[container["name"]] = item
    for container in template["spec"]["containers"]:
        found = names.get(container["name"])
        if found:
            container["env"] = [copy.deepcopy(found) if item["name"] == JOB_NAME else item for item in container.get("env") or ()]
