# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was seen of a service at one moment, as plain objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from . import job_facts
from .job_settings import DEFAULTS, JobSettings
from .ownership import CONFIG_MAP
from .rule_reader import DATA_KEY
from .workloads import ASCEND_JOB

Object = Mapping[str, Any]
# Nothing says how the service is built: look for both kinds of workloads.
ANY_BACKEND = "any"
SCALER = "HorizontalPodAutoscaler"


@dataclass(frozen=True)
class Build:
    """How a service is made: its backend, what the names of its instances begin with, and how AscendJobs are grouped."""

    backend: str
    base_name: str
    settings: JobSettings = DEFAULTS


@dataclass(frozen=True)
class Snapshot:
    """Plain objects as the API server holds them, read at one moment. `None` for a kind that the server does not know.

    `nodes` has only those that pods which are not Ready run on; the value is None for one that is gone. `revision` is the
    history of the last record, read only when no live instance is left to copy. `workloads` are those
    that the Infer Operator made; they are read only when some may have to be replaced. `jobs` are AscendJobs, `rule` is the
    ConfigMap with their scaling rule. `versions` says as of which resourceVersion kinds were listed.
    """

    namespace: str
    backend: str
    base_name: str
    config_map: Object | None = None
    lease: Object | None = None
    deployments: tuple[Object, ...] = ()
    pods: tuple[Object, ...] = ()
    autoscalers: tuple[Object, ...] = ()
    infer_service_set: Object | None = None
    instance_sets: tuple[Object, ...] = ()
    others: Mapping[tuple[str, str], Object] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, Object | None] = field(default_factory=dict)
    revision: Object | None = None
    workloads: tuple[Object, ...] = ()
    jobs: tuple[Object, ...] = ()
    pod_groups: tuple[Object, ...] = ()
    rule: Object | None = None
    settings: JobSettings = DEFAULTS

    def with_object(self, obj: Object) -> Snapshot:
        """The snapshot after the server has stored `obj`."""
        kind, name = obj["kind"], obj["metadata"]["name"]
        if kind == "ConfigMap" and name == CONFIG_MAP:
            return replace(self, config_map=obj)
        if kind == "ConfigMap" and DATA_KEY in (obj.get("data") or {}):
            return replace(self, rule=obj)
        if kind == "InferServiceSet":
            return replace(self, infer_service_set=obj)
        if kind == "Deployment":
            return replace(self, deployments=(*_without(self.deployments, name), obj))
        if kind == ASCEND_JOB:
            return replace(self, jobs=(*_without(self.jobs, name), obj))
        return replace(self, others={**self.others, (kind, name): obj})

    def without(self, kind: str, name: str) -> Snapshot:
        """The snapshot after the server has deleted an object."""
        if kind == "ConfigMap" and name == CONFIG_MAP:
            return replace(self, config_map=None)
        kept = tuple(found for found in self.workloads if (found["kind"], found["metadata"]["name"]) != (kind, name))
        if len(kept) < len(self.workloads):
            return replace(self, workloads=kept)
        if kind == "InferServiceSet":
            return replace(self, infer_service_set=None)
        if kind == "Deployment":
            return replace(self, deployments=_without(self.deployments, name))
        if kind == ASCEND_JOB:
            return replace(self, jobs=_without(self.jobs, name))
        if kind == "ConfigMap" and self.rule and self.rule["metadata"]["name"] == name:
            return replace(self, rule=None)
        return replace(self, others={key: obj for key, obj in self.others.items() if key != (kind, name)})

    def watched(self, *, health: bool, scaling: bool = False) -> Mapping[str, tuple[Object, ...]]:
        """What tells how the service changes, by kind: that its pods go, or (`health`) also whether it comes to run; or (`scaling`) what
        becomes of its scaling policies.
        """
        if scaling:
            return {"InstanceSet": self.instance_sets, SCALER: tuple(found for found in self.autoscalers if found["kind"] == SCALER)}
        found = {"Pod": self.pods}
        if self.backend == "infer_service_set" and health:
            found["InstanceSet"] = self.instance_sets
        if self.backend == job_facts.BACKEND:
            found["PodGroup"] = self.pod_groups
            found.update({ASCEND_JOB: self.jobs} if health else {})
        return found

    def refreshed(self, seen: Mapping[str, tuple[Object, ...]]) -> Snapshot:
        """With what watches have seen since. Jobs come and go by our own writes, of which a watch may hear late: only their state is taken."""
        newest = {job["metadata"]["uid"]: job for job in seen.get(ASCEND_JOB, ())}
        return replace(
            self,
            pods=seen.get("Pod", self.pods),
            autoscalers=(*(found for found in self.autoscalers if found["kind"] not in seen), *seen.get(SCALER, ())),
            instance_sets=seen.get("InstanceSet", self.instance_sets),
            pod_groups=seen.get("PodGroup", self.pod_groups),
            jobs=tuple(newest.get(job["metadata"]["uid"], job) for job in self.jobs),
        )

    def rule_named(self, name: str) -> Object | None:
        """The ConfigMap of a scaling rule, or None."""
        if self.rule is not None and self.rule["metadata"]["name"] == name:
            return self.rule
        return self.others.get(("ConfigMap", name))

    @property
    def own_workloads(self) -> tuple[Object, ...]:
        """Workloads that we make ourselves, Deployments or AscendJobs: one is one instance, or a control role."""
        return self.deployments + self.jobs


def _without(objects: tuple[Object, ...], name: str) -> tuple[Object, ...]:
    return tuple(found for found in objects if found["metadata"]["name"] != name)
