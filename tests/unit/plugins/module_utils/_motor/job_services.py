# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small services of AscendJobs as the API server would show them, for tests of pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._motor import scaling_rule
from ansible_collections.ascend.mindie.plugins.module_utils._motor.job_facts import GROUP_LABEL, RULE_LABEL, TASK_LABEL
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_reader import DATA_KEY, Size
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot

NAMESPACE, RULE, NPU = "chat", "scaling-rule", "huawei.com/Ascend910"
BORN, READY, DEAD, STOP = "2026-11-30T08:00:00Z", "2026-11-30T09:00:00Z", "2026-11-30T10:00:00Z", "2026-11-30T11:00:30Z"
Obj = dict[str, Any]


def name(short: str) -> str:
    """`p0` is `mindie-server-p0`."""
    return f"mindie-server-{short}"


def group_of(short: str) -> str:
    """Prefill is group g0, decode g1."""
    return {"p": "g0", "d": "g1"}[short[0]]


def job(short: str, *, group: str | None = "", rule: str = RULE, pods: int = 1, npus: int = 8, **metadata: Any) -> Obj:
    """An AscendJob; `group` None takes the label off."""
    labels = {"framework": "pytorch", "fault-retry-times": "10000", RULE_LABEL: rule, TASK_LABEL: NAMESPACE}
    labels |= {} if group is None else {GROUP_LABEL: group or group_of(short)}
    template = {"spec": {"containers": [{"name": "ascend", "resources": {"requests": {NPU: str(npus)}}}]}}
    specs: Obj = {"Master": {"replicas": 1, "template": template}}
    if pods > 1:
        specs["Worker"] = {"replicas": pods - 1, "template": template}
    own = {"name": name(short), "namespace": NAMESPACE, "uid": f"uid-{short}", "creationTimestamp": BORN, "labels": labels}
    return {"kind": "AscendJob", "metadata": {**own, **metadata}, "spec": {"replicaSpecs": specs}, "status": {}}


def failed(found: Obj, why: str = "a pod failed") -> Obj:
    """The job, given up by the operator."""
    row = {"type": "Failed", "status": "True", "reason": "JobFailed", "message": why, "lastTransitionTime": DEAD}
    return {**found, "status": {"conditions": [{"type": "Running", "status": "True"}, row]}}


def pod_group(found: Obj, phase: str) -> Obj:
    """The PodGroup of a job."""
    metadata = found["metadata"]
    owner = {"kind": "AscendJob", "name": metadata["name"], "uid": metadata["uid"]}
    template = next(iter(found["spec"]["replicaSpecs"].values()))["template"]
    requests = template["spec"]["containers"][0]["resources"]["requests"]
    pods = sum(spec["replicas"] for spec in found["spec"]["replicaSpecs"].values())
    return {
        "kind": "PodGroup",
        "metadata": {
            "name": f"{metadata['name']}-{metadata['uid']}",
            "namespace": NAMESPACE,
            "labels": metadata["labels"],
            "ownerReferences": [owner],
        },
        "spec": {"minResources": {NPU: str(int(requests[NPU]) * pods)}},
        "status": {"phase": phase} if phase else {},
    }


def pod(found: Obj, node: str = "", number: int = 0, *, ready: bool = True, leaving: bool = False, **status: Any) -> Obj:
    """A pod of a job, Ready unless `node` is empty."""
    metadata = found["metadata"]
    kind = "master" if number == 0 else "worker"
    own: Obj = {
        "name": f"{metadata['name']}-{kind}-{max(0, number - 1)}",
        "namespace": NAMESPACE,
        "labels": {"app": "mindie-ms-server", "training.kubeflow.org/job-name": metadata["name"]},
        "creationTimestamp": BORN,
        "ownerReferences": [{"kind": "AscendJob", "name": metadata["name"], "uid": metadata["uid"], "controller": True}],
    }
    if leaving:
        own |= {"deletionTimestamp": STOP, "deletionGracePeriodSeconds": 30}
    spec = {**next(iter(found["spec"]["replicaSpecs"].values()))["template"]["spec"], **({"nodeName": node} if node else {})}
    running = bool(node) and ready
    conditions = [{"type": "Ready", "status": str(running), "lastTransitionTime": READY}]
    shown = {"phase": "Running" if running else "Pending", "conditions": conditions, **status}
    return {"kind": "Pod", "metadata": own, "spec": spec, "status": shown}


def node(called: str, *, npus: int = 8, healthy: int | None = None, ready: str = "True", super_pod: str = "", **spec: Any) -> Obj:
    """A server, which turned to what it is at DEAD."""
    labels = {"huawei.com/topotree.superpodid": super_pod} if super_pod else {}
    conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": DEAD}]
    status = {"capacity": {NPU: str(npus)}, "allocatable": {NPU: str(npus if healthy is None else healthy)}, "conditions": conditions}
    return {"kind": "Node", "metadata": {"name": called, "labels": labels}, "spec": spec, "status": status}


def rule(*tiers: tuple[int, int], text: str | None = None, called: str = RULE) -> Obj:
    """A rule with so many instances of g0 and g1 in each tier, or with any text."""
    written = scaling_rule.write([{"g0": Size(prefill, 1), "g1": Size(decode, 1)} for prefill, decode in tiers])
    data = {DATA_KEY: written if text is None else text}
    return {"kind": "ConfigMap", "metadata": {"name": called, "namespace": NAMESPACE}, "data": data}


def snapshot(
    jobs: Iterable[Obj], groups: Iterable[Obj] = (), pods: Iterable[Obj] = (), *, rules: Iterable[Obj] = (), **fields: Any
) -> Snapshot:
    """A namespace with these objects, of whose nodes all are known."""
    nodes = {found["metadata"]["name"]: found for found in fields.pop("nodes", ())}
    others = {("ConfigMap", found["metadata"]["name"]): found for found in rules}
    return Snapshot(
        NAMESPACE,
        "ascend_jobs",
        "mindie-server",
        jobs=tuple(jobs),
        pod_groups=tuple(groups),
        pods=tuple(pods),
        rule=others.get(("ConfigMap", RULE)),
        others=others,
        nodes=nodes,
        **fields,
    )
