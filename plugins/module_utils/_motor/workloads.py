# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Deployments, StatefulSets and AscendJobs have in common: pods that they make from templates, found by labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .pods import npus

ASCEND_JOB = "AscendJob"
# The Ascend Operator puts it on the pods of a job.
JOB_LABEL = "training.kubeflow.org/job-name"


def replica_specs(job: Mapping[str, Any]) -> Mapping[str, dict[str, Any]]:
    """The replica types of an AscendJob (`Master`, `Worker`), those without pods included."""
    found: Mapping[str, dict[str, Any]] = (job.get("spec") or {}).get("replicaSpecs") or {}
    return found


def pod_count(workload: Mapping[str, Any]) -> int:
    """How many pods it is to have. A number that is not there is 1, as the API server has it."""
    if workload["kind"] == ASCEND_JOB:
        return sum(_replicas(spec) for spec in replica_specs(workload).values())
    return _replicas(workload["spec"])


def total_npus(workload: Mapping[str, Any]) -> int:
    """NPUs that all its pods together ask for."""
    if workload["kind"] == ASCEND_JOB:
        specs: Iterable[Mapping[str, Any]] = replica_specs(workload).values()
    else:
        specs = [workload["spec"]]
    return sum(_replicas(spec) * npus(spec["template"]) for spec in specs if (spec.get("template") or {}).get("spec"))


def pod_labels(workload: Mapping[str, Any]) -> Mapping[str, str]:
    """The labels by which its pods are found."""
    if workload["kind"] == ASCEND_JOB:
        return {JOB_LABEL: workload["metadata"]["name"]}
    found: Mapping[str, str] = workload["spec"]["selector"].get("matchLabels") or {}
    return found


def pod_templates(workload: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The templates that it makes pods from, each with its path in the object."""
    if workload["kind"] == ASCEND_JOB:
        for kind, spec in replica_specs(workload).items():
            if spec.get("template"):
                yield f"spec.replicaSpecs.{kind}.template", spec["template"]
    else:
        yield "spec.template", workload["spec"]["template"]


def first_template(workload: Mapping[str, Any]) -> Mapping[str, Any]:
    """The template of its first pod; {} when it has none."""
    found: Mapping[str, Any] = next((found for dummy, found in pod_templates(workload)), {})
    return found


def template_labels(workload: Mapping[str, Any]) -> Mapping[str, str]:
    """The labels of its pods, as its first template has them."""
    return (first_template(workload).get("metadata") or {}).get("labels") or {}


def _replicas(spec: Mapping[str, Any]) -> int:
    found = spec.get("replicas")
    return 1 if found is None else int(found)
