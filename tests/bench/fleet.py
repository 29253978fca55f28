# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many services of AscendJobs as they look in a cluster of MindCluster, written straight into etcd.

Each service has 16 prefill and 16 decode instances of one pod, a rule, a `motor-config`, PodGroups, pods and rank tables. All run but two:
the last decode instance has its pod while its PodGroup does not run yet, and for its sake the last prefill instance is held.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import urllib.request
from collections.abc import Iterable, Iterator
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._motor import scaling_rule
from ansible_collections.ascend.mindie.plugins.module_utils._motor.record import with_applied
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_reader import DATA_KEY, Size
from tests.cluster import nodes
from tests.cluster.ascend_operator import objects

Obj = dict[str, Any]
Entry = tuple[str, Obj]
EACH = 16
JOBS_PER_SERVICE = 2 * EACH
NPUS, NPUS_PER_NODE = 2, 16
GROUPS = {"p": "group0", "d": "group1"}
RULE = "scaling-rule"
AT = "2026-11-30T09:00:00Z"
NPU = "huawei.com/Ascend910"
# etcd takes this many operations, and this many bytes, in one request.
OPERATIONS, LONGEST = 100, 1_000_000
LAST = EACH - 1


class Etcd:
    """Writes objects where the API server will find them."""

    def __init__(self, url: str) -> None:
        self._url = url

    def put(self, entries: Iterable[Entry]) -> int:
        """Write objects by key; returns how many."""
        count, rows, size = 0, [], 0
        for key, obj in entries:
            text = json.dumps(obj, separators=(",", ":")).encode()
            if rows and (len(rows) == OPERATIONS or size + len(text) > LONGEST):
                self._send("txn", {"success": rows})
                rows, size = [], 0
            rows.append({"requestPut": {"key": _text(key.encode()), "value": _text(text)}})
            size += len(text)
            count += 1
        if rows:
            self._send("txn", {"success": rows})
        return count

    def clear(self, prefixes: Iterable[str]) -> None:
        """Delete everything below these keys."""
        for prefix in prefixes:
            end = prefix[:-1].encode() + bytes([ord(prefix[-1]) + 1])
            self._send("deleterange", {"key": _text(prefix.encode()), "range_end": _text(end)})

    def _send(self, verb: str, body: Any) -> None:
        request = urllib.request.Request(f"{self._url}/v3/kv/{verb}", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
            answer.read()


# Nothing of the watcher itself is below any of these.
PREFIXES = (
    "/registry/mindxdl.gitee.com/ascendjobs/",
    "/registry/scheduling.volcano.sh/podgroups/",
    "/registry/pods/bench-",
    "/registry/configmaps/bench-",
    "/registry/events/bench-",
    "/registry/minions/bench-",
    "/registry/namespaces/bench-",
)


def namespace_of(number: int) -> str:
    """The namespace of a service."""
    return f"bench-{number:04}"


def task_of(number: int) -> str:
    """What jobs of a service are called by, where several share a namespace."""
    return f"t{number:02}-"


def services(first: int, last: int) -> Iterator[Entry]:
    """Services in a namespace each."""
    for number in range(first, last):
        namespace = namespace_of(number)
        yield _namespace(namespace)
        yield _motor_config(namespace)
        yield from _task(namespace, number, "", RULE)


def one_service(count: int) -> Iterator[Entry]:
    """So many inference tasks in one namespace, each with a rule of its own; the first one is that of `motor-config`."""
    namespace = namespace_of(0)
    yield _namespace(namespace)
    yield _motor_config(namespace)
    for number in range(count):
        yield from _task(namespace, number, task_of(number) if number else "", f"{task_of(number) if number else ''}{RULE}")


def servers(count: int) -> Iterator[Entry]:
    """Ready A3 servers."""
    for index in range(count):
        node = nodes.make("a3", index)
        name = node["metadata"]["name"] = f"bench-{index:04}"
        node["metadata"]["labels"]["kubernetes.io/hostname"] = name
        node["spec"] = {}
        node["status"]["conditions"] = [
            {
                "type": kind,
                "status": str(kind == "Ready"),
                "reason": f"Kubelet{kind}",
                "message": "as it should be",
                **_times("lastHeartbeatTime"),
            }
            for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
        ]
        node["status"]["images"] = [{"names": [f"registry.example/image-{number}:1"], "sizeBytes": 10**9} for number in range(20)]
        yield f"/registry/minions/{name}", _stored(node, "kwok")


def job_name(task: str, role: str, index: int) -> str:
    """The name of an AscendJob."""
    return f"{task}mindie-server-{role}{index}"


def pod_group_name(namespace: str, task: str, role: str, index: int) -> str:
    """The name of the PodGroup of an AscendJob."""
    name = job_name(task, role, index)
    return f"{name}-{_uid('AscendJob', namespace, name)}"


def _task(namespace: str, number: int, task: str, rule: str) -> Iterator[Entry]:
    tiers = [{GROUPS["p"]: Size(prefill, 1), GROUPS["d"]: Size(EACH, 1)} for prefill in range(EACH, 0, -1)]
    yield _config_map(namespace, rule, {DATA_KEY: scaling_rule.write(tiers)})
    for role in "pd":
        for index in range(EACH):
            yield from _instance(namespace, number, task, rule, role, index)


def _instance(namespace: str, number: int, task: str, rule: str, role: str, index: int) -> Iterator[Entry]:
    name = job_name(task, role, index)
    labels = {
        "framework": "pytorch",
        objects.JOB_ID: task.rstrip("-") or namespace,
        objects.RULE: rule,
        objects.RULE_GROUP: GROUPS[role],
        "app": "mindie-ms-server",
    }
    job = _job(namespace, name, labels)
    yield f"/registry/mindxdl.gitee.com/ascendjobs/{namespace}/{name}", job
    phase = "Inqueue" if index == LAST else "Running"
    group = _pod_group(job, phase)
    yield f"/registry/scheduling.volcano.sh/podgroups/{namespace}/{group['metadata']['name']}", group
    yield _config_map(namespace, f"rings-config-{name}", {"hccl.json": '{"status": "initializing"}'})
    if (role, index) != ("p", LAST):
        server = (number * JOBS_PER_SERVICE + EACH * (role == "d") + index) * NPUS // NPUS_PER_NODE
        yield f"/registry/pods/{namespace}/{name}-master-0", _pod(job, f"bench-{server:04}")


def _namespace(name: str) -> Entry:
    found = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "spec": {"finalizers": ["kubernetes"]}}
    return f"/registry/namespaces/{name}", _stored({**found, "status": {"phase": "Active"}}, "kubectl")


def _config_map(namespace: str, name: str, data: dict[str, str]) -> Entry:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}
    return f"/registry/configmaps/{namespace}/{name}", _stored(obj, "kubectl")


def _motor_config(namespace: str) -> Entry:
    counts = {"p_instances_num": EACH, "d_instances_num": EACH, "single_p_instance_pod_num": 1, "single_d_instance_pod_num": 1}
    sizes = {"p_pod_npu_num": NPUS, "d_pod_npu_num": NPUS, "hardware_type": "800I_A3"}
    config = {"motor_deploy_config": {"job_id": namespace, "deploy_mode": "ascend_jobs", **counts, **sizes}}
    bare = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "motor-config", "namespace": namespace}}
    data = {"user_config.json": json.dumps(config, indent=2), "boot.sh": "#!/bin/bash\n" + "# what pods start with\n" * 400}
    made = with_applied(bare, data, {"prefill": EACH, "decode": EACH}, at=AT, by="bench", run="bench")
    return f"/registry/configmaps/{namespace}/motor-config", _stored(copy.deepcopy(dict(made)), "ansible")


def _job(namespace: str, name: str, labels: dict[str, str]) -> Obj:
    container = {
        "name": "ascend",
        "image": "registry.example/mindie/motor:26.0",
        "command": ["/bin/bash", "-c", "/mnt/configmap/boot.sh"],
        "env": [{"name": f"SETTING_{number}", "value": "some value of a setting"} for number in range(12)],
        "resources": {"requests": {"cpu": "16", "memory": "64Gi", NPU: str(NPUS)}, "limits": {"cpu": "64", NPU: str(NPUS)}},
        "volumeMounts": [{"name": f"volume-{number}", "mountPath": f"/mnt/volume-{number}"} for number in range(6)],
    }
    volumes = [{"name": f"volume-{number}", "hostPath": {"path": f"/mnt/volume-{number}", "type": ""}} for number in range(6)]
    spec = {"containers": [container], "volumes": volumes, "schedulerName": "volcano", "terminationGracePeriodSeconds": 30}
    spec |= {"nodeSelector": {"accelerator": "huawei-Ascend910"}, "restartPolicy": "Never", "automountServiceAccountToken": False}
    template = {"metadata": {"labels": labels}, "spec": spec}
    policy = {"schedulingPolicy": {"minAvailable": 1, "queue": "default"}, "cleanPodPolicy": "Running"}
    conditions = [
        {"type": kind, "status": "True", "reason": f"Job{kind}", "message": f"{name} is {kind}", **_times("lastUpdateTime")}
        for kind in ("Created", "Running")
    ]
    job = {
        "apiVersion": "mindxdl.gitee.com/v1",
        "kind": "AscendJob",
        "metadata": {"name": name, "namespace": namespace, "labels": {**labels, "fault-retry-times": "10000"}},
        "spec": {"replicaSpecs": {"Master": {"replicas": 1, "restartPolicy": "Never", "template": template}}, "runPolicy": policy},
        "status": {"conditions": conditions, "replicaStatuses": {"Master": {"active": 1}}, "startTime": AT},
    }
    return _stored(job, "ansible")


def _pod_group(job: Obj, phase: str) -> Obj:
    metadata = job["metadata"]
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {**_owned(job), "name": f"{metadata['name']}-{metadata['uid']}", "labels": dict(metadata["labels"])},
        "spec": {"minMember": 1, "queue": "default", "minResources": {NPU: str(NPUS), "cpu": "16"}, "minTaskMember": {"Master": 1}},
        "status": {"phase": phase, "running": int(phase == "Running"), "conditions": [{"type": "Scheduled", "status": "True"}]},
    }
    return _stored(group, "manager")


def _pod(job: Obj, node: str) -> Obj:
    template, metadata = job["spec"]["replicaSpecs"]["Master"]["template"], job["metadata"]
    labels = {
        **template["metadata"]["labels"],
        objects.JOB_NAME: metadata["name"],
        objects.REPLICA_TYPE: "master",
        objects.REPLICA_INDEX: "0",
    }
    conditions = [
        {"type": kind, "status": "True", **_times("lastProbeTime")} for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ]
    container = template["spec"]["containers"][0]
    running = {"name": "ascend", "image": container["image"], "imageID": "sha256:0", "ready": True, "restartCount": 0, "started": True}
    tolerations = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"} for key in ("not-ready", "unreachable")
    ]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**_owned(job), "name": f"{metadata['name']}-master-0", "labels": labels},
        "spec": {**copy.deepcopy(template["spec"]), "nodeName": node, "tolerations": tolerations, "dnsPolicy": "ClusterFirst"},
        "status": {
            "phase": "Running",
            "conditions": conditions,
            "containerStatuses": [{**running, "state": {"running": {"startedAt": AT}}, "lastState": {}}],
            "podIP": "10.244.0.1",
            "hostIP": "10.240.0.1",
            "startTime": AT,
            "qosClass": "Burstable",
        },
    }
    return _stored(pod, "manager")


def _owned(job: Obj) -> Obj:
    metadata = job["metadata"]
    owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "name": metadata["name"], "uid": metadata["uid"], "controller": True}
    return {"namespace": metadata["namespace"], "ownerReferences": [owner]}


def _stored(obj: Obj, manager: str) -> Obj:
    """As the API server would have stored it."""
    metadata = obj["metadata"]
    metadata |= {"uid": _uid(obj["kind"], metadata.get("namespace", ""), metadata["name"]), "creationTimestamp": AT, "generation": 1}
    written = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "status")}
    entry = {"manager": manager, "operation": "Update", "apiVersion": obj["apiVersion"], "time": AT, "fieldsType": "FieldsV1"}
    metadata["managedFields"] = [{**entry, "fieldsV1": _fields(written)}]
    if obj.get("status"):
        metadata["managedFields"].append({**entry, "fieldsV1": _fields({"status": obj["status"]}), "subresource": "status"})
    return obj


def _fields(value: Any) -> Any:
    return {f"f:{key}": _fields(below) for key, below in value.items()} if isinstance(value, dict) else {}


def _times(*more: str) -> dict[str, str]:
    return dict.fromkeys(("lastTransitionTime", *more), AT)


def _uid(kind: str, namespace: str, name: str) -> str:
    text = hashlib.sha256(f"{kind}/{namespace}/{name}".encode()).hexdigest()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:32]))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
