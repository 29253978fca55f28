# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which objects the Ascend Operator derives: names, labels, owners, environment. Pure functions on plain data."""

from __future__ import annotations

import copy
import dataclasses

from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_reader import integer

from ..gang_scheduler import resources
from ..gang_scheduler.scheduler import POD_GROUPS, QUEUES
from ..gang_scheduler.session import GROUP_NAME
from ..kube_client import Obj, Resource

__all__ = ["GROUP_NAME", "POD_GROUPS", "QUEUES"]

GROUP_VERSION = "mindxdl.gitee.com/v1"
ASCEND_JOBS = Resource(GROUP_VERSION, "AscendJob", "ascendjobs")

RULE = "mind-cluster/scaling-rule"
RULE_GROUP = "mind-cluster/group-name"
JOB_ID = "jobID"
RETRIES = "fault-retry-times"
FRAMEWORK = "framework"
APPS = ("mindie-ms-controller", "mindie-ms-coordinator", "mindie-ms-server")

KUBEFLOW = "training.kubeflow.org/"
JOB_NAME = KUBEFLOW + "job-name"
REPLICA_TYPE = KUBEFLOW + "replica-type"
REPLICA_INDEX = KUBEFLOW + "replica-index"
VERSION = "version"
CONTAINER = "ascend"
CLUSTERD = "clusterd-grpc-svc.mindx-dl.svc.cluster.local"
PORT = {"name": "ascendjob-port", "port": 2222, "targetPort": 2222}


@dataclasses.dataclass(frozen=True)
class Replica:
    """One pod that a job should have."""

    type: str
    index: int
    rank: int

    @property
    def key(self) -> tuple[str, str]:
        """By which labels a pod is found."""
        return self.type.lower(), str(self.index)


def labels_of(obj: Obj) -> dict[str, str]:
    """The labels of an object."""
    return dict(obj["metadata"].get("labels") or {})


def replica_specs(job: Obj) -> dict[str, Obj]:
    """Replica types in the order of ranks: those that lead a job before its workers."""
    specs: dict[str, Obj] = (job.get("spec") or {}).get("replicaSpecs") or {}
    return dict(sorted(specs.items(), key=lambda row: row[0] == "Worker"))


def count_of(spec: Obj) -> int:
    """How many pods of a type; one unless said otherwise."""
    return int(spec.get("replicas", 1))


def replicas(job: Obj) -> list[Replica]:
    """All pods that a job should have."""
    rows = [(kind, index) for kind, spec in replica_specs(job).items() for index in range(count_of(spec))]
    return [Replica(kind, index, rank) for rank, (kind, index) in enumerate(rows)]


def pod_group_name(job: Obj) -> str:
    """The name of a job's PodGroup."""
    return f"{job['metadata']['name']}-{job['metadata']['uid']}"


def service_name(job: Obj) -> str:
    """The name of a job's Service."""
    leader = next(iter(replica_specs(job)), "Master").lower()
    return f"{job['metadata']['name']}-{leader}-0"


def restart_limit(job: Obj) -> int:
    """How many generations of pods may be lost; -1 for any number, which a label that is no integer stands for."""
    limit = _backoff_limit(job)
    if limit is None:
        limit = integer(labels_of(job).get(RETRIES, ""))
    return limit if limit and limit > 0 else -1


def is_dropped(job: Obj) -> bool:
    """Whether the event of the job's creation is lost on a label that is no integer; an empty one is none."""
    label = labels_of(job).get(RETRIES)
    return bool(label) and _backoff_limit(job) is None and integer(str(label)) is None


def _backoff_limit(job: Obj) -> int | None:
    found: int | None = ((job.get("spec") or {}).get("runPolicy") or {}).get("backoffLimit")
    return found


def _scheduling(job: Obj) -> Obj:
    policy: Obj = ((job.get("spec") or {}).get("runPolicy") or {}).get("schedulingPolicy") or {}
    return policy


def _child(job: Obj, name: str) -> Obj:
    owner = {
        "apiVersion": GROUP_VERSION,
        "kind": ASCEND_JOBS.kind,
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {"metadata": {"name": name, "namespace": job["metadata"]["namespace"], "ownerReferences": [owner]}}


def pod_group(job: Obj) -> Obj:
    """The PodGroup; labels and annotations are the job's of this moment, and never again."""
    policy, specs = _scheduling(job), replica_specs(job)
    group = _child(job, pod_group_name(job))
    group.update(apiVersion=POD_GROUPS.api_version, kind=POD_GROUPS.kind)
    for field in ("labels", "annotations"):
        group["metadata"][field] = dict(job["metadata"].get(field) or {})
    templates = [spec["template"]["spec"] for spec in specs.values() for dummy in range(count_of(spec))]
    binary = resources.in_powers_of_two(templates)
    asked = resources.total(map(resources.of_template, templates))
    computed = {name: resources.canonical(value, binary=name in binary) for name, value in asked.items()}
    group["spec"] = {
        "minMember": policy.get("minAvailable") or len(replicas(job)),
        "minTaskMember": {kind.lower(): count_of(spec) for kind, spec in specs.items()},
        "queue": policy.get("queue") or "default",
        "minResources": policy.get("minResources") or computed,
    }
    if policy.get("priorityClass"):
        group["spec"]["priorityClassName"] = policy["priorityClass"]
    return group


def service(job: Obj) -> Obj:
    """The Service of the leading pod."""
    made = _child(job, service_name(job))
    leader = next(iter(replica_specs(job)), "Master").lower()
    selector = {JOB_NAME: job["metadata"]["name"], REPLICA_TYPE: leader, REPLICA_INDEX: "0"}
    made["metadata"]["labels"] = {**_own_labels(job), REPLICA_TYPE: leader, REPLICA_INDEX: "0"}
    made["spec"] = {"selector": selector, "ports": [dict(PORT)]}
    return made


def _own_labels(job: Obj) -> dict[str, str]:
    name = job["metadata"]["name"]
    return {KUBEFLOW + "operator-name": "ascendjob-controller", JOB_NAME: name, "group-name": "mindxdl.gitee.com", "job-name": name}


def pod(job: Obj, replica: Replica, version: int, server: str) -> Obj:
    """One pod. The job's own labels do not reach it, only those of the template."""
    spec = job["spec"]["replicaSpecs"][replica.type]
    template = copy.deepcopy(spec.get("template") or {})
    given = template.get("metadata") or {}
    made = _child(job, f"{job['metadata']['name']}-{replica.type.lower()}-{replica.index}")
    labels = {**(given.get("labels") or {}), **_own_labels(job), VERSION: str(version)}
    labels.update({REPLICA_TYPE: replica.type.lower(), REPLICA_INDEX: str(replica.index)})
    if replica.type != "Worker":
        labels[KUBEFLOW + "job-role"] = "master"
    own = {GROUP_NAME: pod_group_name(job), "volcano.sh/task-spec": replica.type.lower(), "hccl/rankIndex": str(replica.rank)}
    made["metadata"].update(labels=labels, annotations={**(given.get("annotations") or {}), **own})
    made["spec"] = template["spec"]
    made["spec"]["restartPolicy"] = spec.get("restartPolicy") or "Never"
    made["spec"]["schedulerName"] = job["spec"].get("schedulerName") or "volcano"
    for container in made["spec"]["containers"]:
        if container["name"] == CONTAINER:
            container["env"] = [*(container.get("env") or []), *_environment(job, server)]
    return made


def _environment(job: Obj, server: str) -> list[dict[str, str]]:
    """What a pod of an inference task is told."""
    labels = labels_of(job)
    if labels.get("app") not in APPS or not labels.get(JOB_ID):
        return []
    told = {
        "MINDX_TASK_ID": labels[JOB_ID],
        "APP_TYPE": labels["app"],
        "MINDX_SERVER_IP": server,
        "MINDX_SERVER_DOMAIN": CLUSTERD,
    }
    return [{"name": name, "value": value} for name, value in told.items()]
