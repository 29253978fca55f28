# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reconciling one AscendJob."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Mapping

from ..kube_client import CONFIG_MAPS, PODS, SERVICES, Key, Obj
from . import conditions, objects, validation
from .gate import Gate
from .rank_table import RankTables
from .view import View, now

LOG = logging.getLogger(__name__)

BUDGETS = ("volcano-system", "vcjob-fault-npu-cm", "remain-retry-times")
GROUP_RETRY = 1.0
"""A job whose PodGroup waits is looked at once a second."""


class Again(Exception):
    """Look at this job again after so many seconds; no failure."""

    def __init__(self, after: float) -> None:
        super().__init__(f"again in {after} s")
        self.after = after


class Held(Exception):
    """The job's pods cannot be created now: a failure like any other."""


class Jobs:
    """The reconciler. ``versions`` counts the generations of pods that each job lost, as long as this process lives."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._gate = Gate(view.client, view.pod_groups)
        self._tables = RankTables(view.client)
        self.versions: dict[str, int] = {}

    def lost(self, pod: Obj) -> None:
        """A pod is gone. The first one of a generation begins the next."""
        uid = next((row["uid"] for row in pod["metadata"].get("ownerReferences") or () if row["kind"] == objects.ASCEND_JOBS.kind), "")
        version = self.versions.get(uid, 0)
        if objects.labels_of(pod).get(objects.VERSION) == str(version):
            self.versions[uid] = version + 1

    def reconcile(self, key: Key) -> None:
        """Do the next things for a job. Raises Again, Held, Crash, and KubeError for a failed write."""
        job = self._view.jobs.get(*key)
        if job is None or "deletionTimestamp" in job["metadata"]:
            return
        policy = ((job["spec"].get("runPolicy") or {}).get("schedulingPolicy") or {}).get("queue") or ""
        problem = validation.invalid(job, {policy} if self._view.queue_exists(policy) else set())
        if problem and not conditions.is_over(job):
            self._refuse(job, *problem)
        elif conditions.is_over(job):
            self._clean_up(job)
        elif problem is None and not self._exhausted(job):
            self._run(job)

    def _refuse(self, job: Obj, reason: str, message: str) -> None:
        """End a job; one that nothing was said of yet shows that it was created, which other jobs are never seen with."""
        self._view.tell(job, "Warning", reason, message)
        if not conditions.rows(job):
            created = conditions.with_condition([], conditions.CREATED, "JobCreated", f"Job {job['metadata']['name']} is create.", now())
            job = {**job, "status": {**(job.get("status") or {}), "conditions": created}}
        self._finish(job, "JobValidFailed", f"{reason}: {message}")

    def _exhausted(self, job: Obj) -> bool:
        limit = objects.restart_limit(job)
        if 0 < limit < self.versions.get(job["metadata"]["uid"], 0):
            message = f"Job {job['metadata']['name']} has failed because it has reached the specified backoff limit"
            self._finish(job, "JobFailed", message)
            return True
        return False

    def _run(self, job: Obj) -> None:
        namespace, name = job["metadata"]["namespace"], job["metadata"]["name"]
        group = self._view.pod_groups.get(namespace, objects.pod_group_name(job))
        if group is None:
            group = self._view.create(objects.POD_GROUPS, objects.pod_group(job)) or {}
        phase = (group.get("status") or {}).get("phase") or ""
        if phase == "":
            self._wait(job, "PodGroupNotInitialized", f"podgroup of job {name} is not initialized, volcano-scheduler is maybe not running")
        if phase == "Pending":
            self._wait(job, "PodGroupPending", "the cluster resource is not enough")
        if self._view.services.get(namespace, objects.service_name(job)) is None:
            self._view.create(SERVICES, objects.service(job))
        self._create_missing(job)
        pods = self._view.pods_of(job)
        self._tables.fill(job, pods, self.versions.get(job["metadata"]["uid"], 0))
        self._evaluate(job, pods)

    def _wait(self, job: Obj, reason: str, message: str) -> None:
        self._write(job, conditions.CREATED, reason, message, lastReconcileTime=now())
        raise Again(GROUP_RETRY)

    def _create_missing(self, job: Obj) -> None:
        """Per replica type, in no particular order; the rule is asked for each type anew."""
        present = self._view.pods_of(job)
        kinds = list(objects.replica_specs(job))
        random.shuffle(kinds)
        server = None
        for kind in kinds:
            missing = [row for row in objects.replicas(job) if row.type == kind and row.key not in present]
            refusal = self._gate.refusal(job) if missing else ""
            if refusal:
                LOG.warning("%s/%s: %s", job["metadata"]["namespace"], job["metadata"]["name"], refusal)
                message = f"job {job['metadata']['namespace']}/{job['metadata']['name']} can't create pod, try later"
                self._write(job, conditions.CREATED, "PodCreateFailed", message)
                raise Held(message)
            for row in missing:
                server = self._server() if server is None else server
                self._view.create_pod(objects.pod(job, row, self.versions.get(job["metadata"]["uid"], 0), server))

    def _server(self) -> str:
        """The address of ClusterD, empty where there is none."""
        found = self._view.client.get(SERVICES, "mindx-dl", "clusterd-grpc-svc") or {}
        return str((found.get("spec") or {}).get("clusterIP") or "")

    def _evaluate(self, job: Obj, pods: Mapping[tuple[str, str], Obj]) -> None:
        """One running pod is enough for Running; one failed pod is enough for the end."""
        counts = {kind: {"active": 0, "succeeded": 0, "failed": 0} for kind in objects.replica_specs(job)}
        names = {"Running": "active", "Succeeded": "succeeded", "Failed": "failed"}
        for pod in pods.values():
            kind = next((kind for kind in counts if kind.lower() == objects.labels_of(pod)[objects.REPLICA_TYPE]), "")
            name = names.get((pod.get("status") or {}).get("phase", ""))
            if kind and name:
                counts[kind][name] += 1
        sums = {name: sum(row[name] for row in counts.values()) for name in names.values()}
        shown = {kind: {name: count for name, count in row.items() if count} for kind, row in counts.items()}
        name = job["metadata"]["name"]
        if sums["failed"] and not self._may_retry(job):
            self._finish(job, "JobFailed", f"AscendJob {name} has failed because {sums['failed']} pod(s) failed", shown)
        elif sums["failed"]:
            self._write(job, conditions.RESTARTING, "JobRestarting", f"AscendJob {name} is restarting", shown)
        elif sums["active"]:
            self._write(job, conditions.RUNNING, "JobRunning", f"AscendJob {name} is running.", shown)
        elif pods and sums["succeeded"] == len(pods):
            self._write(job, conditions.SUCCEEDED, "JobSucceeded", f"AscendJob {name} successfully completed.", shown, completionTime=now())
        else:
            self._view.write_status(job, self._status(job, shown))

    def _may_retry(self, job: Obj) -> bool:
        """Whether both the job and Volcano's NPU plugin grant another start."""
        retries = objects.labels_of(job).get(objects.RETRIES, "")
        if not retries.isdigit() or int(retries) == 0:
            return False
        namespace, name, key = BUDGETS
        found = self._view.client.get(CONFIG_MAPS, namespace, name) or {}
        budgets = json.loads((found.get("data") or {}).get(key) or "{}")
        budget = budgets.get(f"{job['metadata']['namespace']}/{objects.pod_group_name(job)}") or {}
        return int(budget.get("Times", 0)) >= 1

    def _finish(self, job: Obj, reason: str, message: str, counts: Mapping[str, Obj] | None = None) -> None:
        LOG.info("%s/%s failed: %s", job["metadata"]["namespace"], job["metadata"]["name"], message)
        self._write(job, conditions.FAILED, reason, message, counts, completionTime=now())

    def _clean_up(self, job: Obj) -> None:
        """The PodGroup and pods that never started go; pods that run stay."""
        for pod in self._view.pods_of(job).values():
            if (pod.get("status") or {}).get("phase") == "Pending" and "deletionTimestamp" not in pod["metadata"]:
                self._view.delete(PODS, pod)
        group = self._view.pod_groups.get(job["metadata"]["namespace"], objects.pod_group_name(job))
        if group is not None and self._view.delete(objects.POD_GROUPS, group):
            self._view.tell(job, "Normal", "JobTerminated", "Job has been terminated. Deleting PodGroup")
            self._view.tell(job, "Normal", "SuccessfulDeletePodGroup", f"Deleted PodGroup: {group['metadata']['name']}")

    def _write(self, job: Obj, kind: str, reason: str, message: str, counts: Mapping[str, Obj] | None = None, **times: str) -> None:
        new = self._status(job, counts)
        new["conditions"] = conditions.with_condition(new["conditions"], kind, reason, message, now())
        new.update(times)
        self._view.write_status(job, new)

    @staticmethod
    def _status(job: Obj, counts: Mapping[str, Obj] | None) -> Obj:
        old: Obj = job.get("status") or {}
        known = old.get("replicaStatuses") or {kind: {} for kind in objects.replica_specs(job)}
        # A merge patch takes away only what is null.
        merged = {kind: {**dict.fromkeys(known.get(kind) or {}), **row} for kind, row in counts.items()} if counts else known
        return {"startTime": now(), **old, "conditions": conditions.rows(job), "replicaStatuses": merged}
