# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The user's job templates become AscendJobs: one per instance, one for each control role, with what MindCluster asks for.

Of a template everything is kept that the user decides (image, command, volumes, probes, resources but NPUs). Names, labels, the
scheduling policy, replicas and NPUs are set here; where MindCluster documents them is said at each.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..hardware import HARDWARE, SUPER_POD_BLOCK, Hardware
from ..instances import instance_name
from ..job_facts import GROUP_LABEL, RETRIES_LABEL, RULE_LABEL, TASK_LABEL
from ..job_settings import ANNOTATION, ENGINE_ROLES, JobSettings
from ..ownership import CONFIG_MAP, CONTROL_ROLES, ENGINE_JOB_APP, JOB_APP, metadata_labels
from ..rank_tables import RANK_TABLE_PREFIX, RING, set_name
from ..record import USER_CONFIG_KEY
from ..rendered import Rendered
from ..rule_reader import integer
from ..user_config import UserConfig
from ..workloads import ASCEND_JOB, pod_templates, replica_specs

ROLES = (*ENGINE_ROLES, *CONTROL_ROLES)
API_VERSION = "mindxdl.gitee.com/v1"
MASTER, WORKER = "Master", "Worker"
# The operator looks for a container of this name.
CONTAINER = "ascend"
POLICY = "huawei.com/schedule_policy"

# A Service of this name gives the coordinator's pods an environment variable that breaks it.
_FORBIDDEN_SERVICE = JOB_APP["coordinator"]
_KINDS_BESIDE = ("Service", "ConfigMap")


@dataclass(frozen=True)
class Template:
    """What the user gave for one engine or control role: the job, other documents of the same file, and its name for errors."""

    job: Mapping[str, Any]
    beside: tuple[Mapping[str, Any], ...]
    source: str


def template(documents: Sequence[Any], source: str) -> Template:
    """Check the documents of a template: one AscendJob, beside it Services and ConfigMaps. Rank tables are left out: they are made anew."""
    found = [_checked(document, source) for document in documents]
    jobs = [document for document in found if document["kind"] == ASCEND_JOB]
    if len(jobs) != 1:
        raise InputError.at(f"there are {len(jobs)} documents of kind {ASCEND_JOB}: give a template with one", source=source)
    beside = tuple(obj for obj in found if obj["kind"] != ASCEND_JOB and not obj["metadata"]["name"].startswith(RANK_TABLE_PREFIX))
    _check_job(jobs[0], source)
    for obj in beside:
        if obj["kind"] == "Service" and obj["metadata"]["name"] == _FORBIDDEN_SERVICE:
            wrong = f"a Service must not be called {_FORBIDDEN_SERVICE}: the variables that Kubernetes makes of it break the coordinator"
            raise InputError.at(wrong, source=source, path="metadata.name")
    return Template(jobs[0], beside, source)


def render_jobs(config: UserConfig, templates: Mapping[str, Template], settings: JobSettings, *, super_pod: bool | None) -> Rendered:
    """All objects of the service but rank tables, which are made with their jobs. `templates` has one of each of ROLES.

    `super_pod`: A3 servers are scheduled by super pods (None: where the template asks for it).
    """
    objects: dict[tuple[str, str], dict[str, Any]] = {}
    for role in ROLES:
        for obj in templates[role].beside:
            objects[obj["kind"], obj["metadata"]["name"]] = _beside(obj, config.namespace, role)
    controls = [_control_job(config, templates[role], role) for role in CONTROL_ROLES]
    instances = [
        (role, index, _engine_job(config, templates[role], settings, role, index, super_pod=super_pod))
        for role in ENGINE_ROLES
        for index in range(config.counts[role])
    ]
    return Rendered(_config_map(config, settings), (*objects.values(), *controls), tuple(instances))


def _config_map(config: UserConfig, settings: JobSettings) -> dict[str, Any]:
    metadata = {"name": CONFIG_MAP, "namespace": config.namespace, "labels": metadata_labels("config")}
    metadata["annotations"] = {ANNOTATION: settings.annotation()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {USER_CONFIG_KEY: config.text}}


def _engine_job(
    config: UserConfig, given: Template, settings: JobSettings, role: str, index: int, *, super_pod: bool | None
) -> dict[str, Any]:
    pods, npus = config.pods_per_instance[role] or 1, config.npus_per_pod[role] or 0
    hardware = HARDWARE[config.hardware_type]
    job = _job(config, given, ENGINE_JOB_APP)
    labels = job["metadata"]["labels"]
    labels.setdefault("fault-scheduling", "force")
    labels.setdefault(RETRIES_LABEL, "10000")
    labels.update({RULE_LABEL: settings.scaling_rule, GROUP_LABEL: settings.groups[role], **metadata_labels(role)})
    _set_policy(job, hardware, pods * npus, super_pod=super_pod)
    _set_replicas(job, pods)
    for dummy, pod in pod_templates(job):
        _set_npus(pod, hardware, npus)
    job["spec"]["runPolicy"]["schedulingPolicy"]["minAvailable"] = pods
    set_name(job, instance_name(settings.name_prefix, role, index))
    return job


def _control_job(config: UserConfig, given: Template, role: str) -> dict[str, Any]:
    job = _job(config, given, JOB_APP[role])
    job["metadata"]["name"] = JOB_APP[role]
    job["metadata"]["labels"].update(metadata_labels(role))
    total = sum(int(spec.get("replicas", 1)) for spec in replica_specs(job).values())
    job["spec"]["runPolicy"]["schedulingPolicy"].setdefault("minAvailable", total)
    return job


def _job(config: UserConfig, given: Template, app: str) -> dict[str, Any]:
    """What all jobs have: the labels by which the operator, Volcano and ClusterD know them, on the job and on its pods."""
    job = copy.deepcopy(dict(given.job))
    metadata = {key: job["metadata"].get(key) for key in ("name", "labels", "annotations") if job["metadata"].get(key)}
    job["metadata"] = {**metadata, "namespace": config.namespace}
    job.pop("status", None)
    known = {"app": app, TASK_LABEL: config.namespace, **RING}
    labels = {key: str(value) for key, value in (metadata.get("labels") or {}).items()}
    job["metadata"]["labels"] = {"framework": "pytorch", **labels, **known}
    spec = job["spec"]
    spec.setdefault("schedulerName", "volcano")
    spec.setdefault("successPolicy", "AllWorkers")
    policy = spec.setdefault("runPolicy", {}).setdefault("schedulingPolicy", {})
    policy.setdefault("queue", "default")
    for dummy, pod in pod_templates(job):
        own = pod.setdefault("metadata", {})
        own["labels"] = {**{key: str(value) for key, value in (own.get("labels") or {}).items()}, **known}
    return job


def _set_policy(job: dict[str, Any], hardware: Hardware, npus: int, *, super_pod: bool | None) -> None:
    """The annotation chooses Volcano's way of scheduling: `sp-block` means something in that of super pods alone."""
    annotations = {key: str(value) for key, value in (job["metadata"].get("annotations") or {}).items()}
    asked = annotations.pop(SUPER_POD_BLOCK, None) is not None or annotations.get(POLICY, "").endswith("-sp")
    by_super_pod = asked if super_pod is None else super_pod
    if hardware.generation == "A2":
        annotations[POLICY] = "chip8-node8"
    else:
        annotations[POLICY] = "chip2-node16-sp" if by_super_pod else "chip2-node16"
        if by_super_pod:
            annotations[SUPER_POD_BLOCK] = str(npus)
    job["metadata"]["annotations"] = annotations


def _set_replicas(job: dict[str, Any], pods: int) -> None:
    """One master, the others workers; a template without workers has them made like the master."""
    specs = job["spec"]["replicaSpecs"]
    specs[MASTER]["replicas"] = 1
    if pods > 1 and WORKER not in specs:
        specs[WORKER] = copy.deepcopy(specs[MASTER])
    if WORKER in specs:
        specs[WORKER]["replicas"] = pods - 1
    for spec in specs.values():
        # Retries after a software fault are documented with Never alone.
        spec.setdefault("restartPolicy", "Never")


def _set_npus(pod: dict[str, Any], hardware: Hardware, npus: int) -> None:
    container = next(item for item in pod["spec"]["containers"] if item["name"] == CONTAINER)
    resources = container.setdefault("resources", {})
    for kind in ("requests", "limits"):
        resources.setdefault(kind, {})[hardware.resource] = npus


def _beside(obj: Mapping[str, Any], namespace: str, role: str) -> dict[str, Any]:
    made = copy.deepcopy(dict(obj))
    labels = {**(made["metadata"].get("labels") or {}), **metadata_labels(role)}
    made["metadata"] = {**made["metadata"], "namespace": namespace, "labels": labels}
    made.pop("status", None)
    return made


def _checked(document: Any, source: str) -> Mapping[str, Any]:
    if not isinstance(document, Mapping) or not isinstance(document.get("metadata"), Mapping) or not document["metadata"].get("name"):
        raise InputError.at("this is no manifest: write kind, metadata.name and spec", source=source)
    kind = document.get("kind")
    if kind not in (ASCEND_JOB, *_KINDS_BESIDE):
        raise InputError.at(
            f"a service has no objects of kind {kind}: create {document['metadata']['name']} yourself", source=source, path="kind"
        )
    return document


def _check_job(job: Mapping[str, Any], source: str) -> None:
    version = job.get("apiVersion")
    if version != API_VERSION:
        raise InputError.at(f"{version} is not known: write {API_VERSION}", source=source, path="apiVersion")
    specs = replica_specs(job)
    if MASTER not in specs:
        raise InputError.at(
            f"this key is missing: the operator needs a {MASTER} with one replica", source=source, path="spec.replicaSpecs.Master"
        )
    unknown = sorted(set(specs) - {MASTER, WORKER})
    if unknown:
        wrong = f"framework pytorch knows {MASTER} and {WORKER} alone"
        raise InputError.at(wrong, source=source, path=f"spec.replicaSpecs.{unknown[0]}")
    for path, pod in pod_templates(job):
        containers = (pod.get("spec") or {}).get("containers") or []
        if not any(isinstance(item, Mapping) and item.get("name") == CONTAINER and item.get("image") for item in containers):
            wrong = f"the operator needs a container called {CONTAINER} with an image"
            raise InputError.at(wrong, source=source, path=f"{path}.spec.containers")
    labels = job["metadata"].get("labels") or {}
    retries = str(labels.get(RETRIES_LABEL, ""))
    if retries and integer(retries) is None:
        wrong = f'"{retries}" is no integer: the operator would never look at the job'
        raise InputError.at(wrong, source=source, path=f"metadata.labels.{RETRIES_LABEL}")
    framework = labels.get("framework", "pytorch")
    if framework != "pytorch":
        raise InputError.at(f"{framework} is not for inference: write pytorch", source=source, path="metadata.labels.framework")
