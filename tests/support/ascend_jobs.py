# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""AscendJobs for tests of the Ascend Operator's stand-in, their nodes, and what a client sees of them."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterable
from typing import Any

from tests.cluster import Cluster, nodes
from tests.cluster.ascend_operator import objects
from tests.cluster.gang_scheduler.resources import NPU
from tests.cluster.kube_client import CONFIG_MAPS, EVENTS, NODES, PODS, SERVICES, KubeClient, KubeError, Obj, Resource, wait_for
from tests.support.infer_services import Recorder

RULE = "scaling-rule"
PATIENCE = 30.0


class Fleet:
    """The NPU nodes of a cluster, which one test has for itself."""

    def __init__(self, cluster: Cluster, client: KubeClient) -> None:
        self._cluster, self._client = cluster, client
        self.names: list[str] = []

    def add(self, count: int = 1, generation: str = "a2") -> None:
        """More nodes, ready to be used."""
        fresh = [nodes.make(generation, len(self.names) + number) for number in range(count)]
        for node in fresh:
            self._client.create(NODES, node)
            self.names.append(node["metadata"]["name"])
        wait_for(lambda: all(map(self.ready, self.names[-count:])), PATIENCE, "new nodes ready")

    def ready(self, name: str) -> bool:
        """Whether pods may go there."""
        node = self._client.get(NODES, "", name) or {"spec": {}, "status": {}}
        true = {row["type"] for row in node["status"].get("conditions") or () if row["status"] == "True"}
        return "Ready" in true and not node["spec"].get("taints")

    def die(self, name: str) -> None:
        """The node stops; what the cluster makes of it takes its time."""
        self._cluster.down_node(name)

    def back(self, name: str) -> None:
        """The node works again."""
        self._cluster.up_node(name)

    def clear(self) -> None:
        """Take all nodes away."""
        for name in self.names:
            self._client.delete(NODES, "", name)
        self.names.clear()


class Task:
    """One inference task: AscendJobs of one rule and jobID in a namespace of its own."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self.client, self.namespace = client, namespace

    def rule(self, *tiers: dict[str, int], name: str = RULE) -> None:
        """Put a rule in place: the number of instances by group, the full size first."""
        rows = [[{"group_name": group, "group_num": str(n), "server_num_per_group": "1"} for group, n in tier.items()] for tier in tiers]
        self.rule_text(json.dumps({"version": "1.0", "elastic_scaling_list": [{"group_list": row} for row in rows]}), name)

    def rule_text(self, text: str, name: str = RULE) -> None:
        """Put any text in place of a rule."""
        body = {"metadata": {"name": name, "namespace": self.namespace}, "data": {"elastic_scaling.json": text}}
        try:
            self.client.create(CONFIG_MAPS, body)
        except KubeError as error:
            if error.status != 409:
                raise
            self.client.patch(CONFIG_MAPS, self.namespace, name, {"data": body["data"]})

    def rings(self, job: str) -> None:
        """The rank table that goes before a job."""
        labels = {
            "jobID": self.namespace,
            "ring-controller.atlas": "ascend-910b",
            "mx-consumer-cim": "true",
            "grt-group/deploy-server": "2",
        }
        metadata = {"name": f"rings-config-{job}", "namespace": self.namespace, "labels": labels}
        self.client.create(CONFIG_MAPS, {"metadata": metadata, "data": {"hccl.json": '{"status":"initializing"}'}})

    def job(self, name: str, group: str = "g0", **settings: Any) -> Obj:
        """Create an AscendJob; see `body`."""
        return self.client.create(objects.ASCEND_JOBS, self.body(name, group, **settings))

    def body(
        self, name: str, group: str = "g0", *, pods: int = 1, npus: int = 8, labels: dict[str, str | None] | None = None, **more: Any
    ) -> Obj:
        """An AscendJob that obeys the rule. ``labels`` are changed (None takes one off); ``annotations`` are those of pods;
        ``policy`` are fields of the runPolicy."""
        given: dict[str, str | None] = {
            "framework": "pytorch",
            "app": "mindie-ms-server",
            "jobID": self.namespace,
            "ring-controller.atlas": "ascend-910b",
            "fault-retry-times": "10000",
            objects.RULE: RULE,
            objects.RULE_GROUP: group,
            **(labels or {}),
        }
        container: Obj = {"name": "ascend", "image": "registry.example/mindie:1"}
        if npus:
            container["resources"] = {"requests": {NPU: npus, "cpu": "16", "memory": "64Gi"}, "limits": {NPU: npus}}
        pod_labels = {"app": "mindie-ms-server", "jobID": self.namespace}
        template = {
            "metadata": {"labels": pod_labels, "annotations": more.get("annotations", {})},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
        }
        specs = {"Master": {"replicas": 1, "restartPolicy": "Never", "template": template}}
        if pods > 1:
            specs["Worker"] = {**specs["Master"], "replicas": pods - 1}
        return {
            "apiVersion": objects.GROUP_VERSION,
            "kind": objects.ASCEND_JOBS.kind,
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": {key: value for key, value in given.items() if value is not None},
            },
            "spec": {
                "schedulerName": "volcano",
                "successPolicy": "AllWorkers",
                "runPolicy": {"schedulingPolicy": {"minAvailable": pods, "queue": "default"}, **more.get("policy", {})},
                "replicaSpecs": specs,
            },
        }

    def all(self, resource: Resource) -> dict[str, Obj]:
        """The objects of a kind by name."""
        return {row["metadata"]["name"]: row for row in self.client.list(resource, self.namespace)["items"]}

    def get(self, name: str) -> Obj:
        """An AscendJob."""
        found = self.client.get(objects.ASCEND_JOBS, self.namespace, name)
        assert found is not None, f"no AscendJob {name}"
        return found

    def delete(self, name: str) -> None:
        """Delete an AscendJob."""
        assert self.client.delete(objects.ASCEND_JOBS, self.namespace, name)

    def nudge(self, name: str, value: str = "now") -> None:
        """Change an annotation of an AscendJob."""
        self.client.patch(objects.ASCEND_JOBS, self.namespace, name, {"metadata": {"annotations": {"nudge": value}}})

    def group(self, name: str) -> Obj | None:
        """The PodGroup of the AscendJob of this name that lives now."""
        return self.client.get(objects.POD_GROUPS, self.namespace, objects.pod_group_name(self.get(name)))

    def phase(self, name: str) -> str:
        """The phase of its PodGroup: none, empty, Pending, Inqueue, Running, Unknown."""
        found = self.group(name)
        return "none" if found is None else str((found.get("status") or {}).get("phase") or "")

    def two_tiers(self) -> None:
        """The rule of two prefill and one decode, one prefill where that does not fit."""
        self.rule({"g0": 2, "g1": 1}, {"g0": 1, "g1": 1})

    def two_and_one(self) -> None:
        """Both prefill jobs and the decode job under that rule, running."""
        self.two_tiers()
        for name, group in (("p0", "g0"), ("p1", "g0"), ("d0", "g1")):
            self.rings(name)
            self.job(name, group)
        self.wait_running("p0", "p1", "d0")

    def pods(self, name: str) -> dict[str, Obj]:
        """The pods of an AscendJob by name."""
        return {key: pod for key, pod in self.all(PODS).items() if objects.labels_of(pod).get(objects.JOB_NAME) == name}

    def delete_pod(self, name: str, seconds: int | None = None) -> None:
        """Delete a pod, by force with 0 seconds."""
        options = {} if seconds is None else {"gracePeriodSeconds": seconds}
        assert self.client.delete(PODS, self.namespace, name, **options)

    def conditions(self, name: str) -> list[tuple[str, str, str]]:
        """Type, status and reason of each condition of an AscendJob, in their order."""
        rows = (self.get(name).get("status") or {}).get("conditions") or []
        return [(row["type"], row["status"], row["reason"]) for row in rows]

    def reason(self, name: str, kind: str = "Created") -> str:
        """The reason of a true condition; empty without one."""
        return next((reason for found, status, reason in self.conditions(name) if (found, status) == (kind, "True")), "")

    def events(self, name: str) -> set[tuple[str, str]]:
        """Type and reason of the events of an AscendJob."""
        return {(row["type"], row["reason"]) for row in self.all(EVENTS).values() if row["involvedObject"]["name"] == name}

    def wait_phase(self, phase: str, *names: str, timeout: float = PATIENCE) -> None:
        """Wait until the PodGroups of jobs are in a phase."""
        wait_for(lambda: {self.phase(name) for name in names} == {phase}, timeout, f"PodGroups of {', '.join(names)} {phase}")

    def wait_running(self, *names: str, timeout: float = PATIENCE) -> None:
        """Wait until jobs run in truth."""
        self.wait_phase("Running", *names, timeout=timeout)

    def wait_reason(self, name: str, reason: str, kind: str = "Created", timeout: float = PATIENCE) -> None:
        """Wait for the reason of a true condition."""
        wait_for(lambda: self.reason(name, kind) == reason, timeout, f"{name} {kind}/{reason}")

    def stays(self, check: Callable[[], Any], seconds: float = 1.5) -> None:
        """Watch for some time that something holds: six sessions of the gang scheduler in the tests of the stand-ins."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert check()
            time.sleep(0.05)

    def running(self, *names: str) -> bool:
        """Whether the PodGroups of all these jobs run now."""
        return all(self.phase(name) == "Running" for name in names)

    def clear(self) -> None:
        """Leave nothing behind, whatever nodes are dead."""
        for resource in (objects.ASCEND_JOBS, objects.POD_GROUPS, SERVICES, PODS):
            for name in self.all(resource):
                with contextlib.suppress(KubeError):
                    self.client.delete(resource, self.namespace, name, gracePeriodSeconds=0)
        wait_for(lambda: not self.all(PODS), PATIENCE, "the end of all pods")


def uids(found: Iterable[Obj]) -> set[str]:
    """Which objects these are."""
    return {row["metadata"]["uid"] for row in found}


def phases(seen: Recorder, name: str) -> list[str]:
    """The phases of a job's PodGroup in their order, each change once."""
    found: list[str] = []
    for kind, row, obj in seen.rows:
        if kind == "PodGroup" and row.startswith(f"{name}-") and obj:
            phase = (obj.get("status") or {}).get("phase", "")
            if not found or found[-1] != phase:
                found.append(phase)
    return found


def in_phase(name: str, phase: str) -> Callable[[str, str, Obj | None], bool]:
    """A state that `Recorder.first` looks for."""
    return lambda kind, row, obj: (
        kind == "PodGroup" and row.startswith(f"{name}-") and ((obj or {}).get("status") or {}).get("phase") == phase
    )
