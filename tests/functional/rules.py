# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A namespace with a scaling rule and jobs that name it, driven by the real modules through the counting proxy."""

from __future__ import annotations

import json
from typing import Any

from tests.cluster import Cluster
from tests.cluster.fault_proxy import FaultProxy
from tests.cluster.kube_client import wait_for
from tests.support.modules import run_module

KEY = "elastic_scaling.json"
# A lock that a run could not give back is free after two seconds.
QUICK = {"lock_duration": 2}


def mapping(prefill: int, decode: int, servers: int = 1) -> dict[str, Any]:
    """The rule that gives up one prefill instance after the other, as an inventory would have it."""
    tiers = [{"group0": number, "group1": decode} for number in range(prefill, 0, -1)]
    rows = [
        [{"group_name": group, "group_num": number, "server_num_per_group": servers} for group, number in tier.items()] for tier in tiers
    ]
    return {"version": "1.0", "elastic_scaling_list": [{"group_list": row} for row in rows]}


def text_of(rule: dict[str, Any]) -> str:
    """What of a rule of numbers is written to the cluster."""
    written = json.loads(json.dumps(rule), parse_int=str)
    return json.dumps(written, indent=2) + "\n"


TWO_TIERS = text_of(mapping(2, 1))

# As in the sample of MindCluster's documentation: comments, and one of them has the bracket of a group at its end.
DOCUMENTED = """apiVersion: v1
data:
  elastic_scaling.json: |      # The name of the key is fixed
    {
      "version": "1.0",        # Fixed
      "elastic_scaling_list": [    # From full size down
        {
          "group_list": [          # The first ratio                {
              "group_name": "group0",      # Any name
              "group_num": "2",            # Never more further down
              "server_num_per_group": "2"  # The same further down
            },
            {
              "group_name": "group1",
              "group_num": "1",
              "server_num_per_group": "2"
            }
          ]
        },
        {
          "group_list": [          # The second ratio
            {
              "group_name": "group0",
              "group_num": "1",
              "server_num_per_group": "2"
            },
            {
              "group_name": "group1",
              "group_num": "1",
              "server_num_per_group": "2"
            }
          ]
        }
      ]
    }
kind: ConfigMap
metadata:
  name: scaling-rule           # Any name
  namespace: mindie-service    # That of the jobs
"""


class Rules:
    """The rule `scaling-rule` of one namespace."""

    def __init__(self, cluster: Cluster, proxy: FaultProxy, namespace: str) -> None:
        self.cluster, self.proxy, self.namespace = cluster, proxy, namespace
        self._maps = f"/api/v1/namespaces/{namespace}/configmaps"
        self._jobs = f"/apis/mindxdl.gitee.com/v1/namespaces/{namespace}/ascendjobs"
        self._leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"

    def options(self, **options: Any) -> dict[str, Any]:
        """Options of a run through the proxy."""
        return {"kubeconfig": self.proxy.kubeconfig, "namespace": self.namespace, **QUICK, **options}

    def run(self, **options: Any) -> dict[str, Any]:
        """Run the module; the proxy's list of requests starts anew."""
        self.proxy.clear()
        return run_module("motor_scaling_rule", **self.options(**options))

    def apply(self, rule: Any, **options: Any) -> dict[str, Any]:
        """Have a rule applied."""
        return self.run(rule=rule, **options)

    def remove(self, **options: Any) -> dict[str, Any]:
        """Have the rule removed."""
        return self.run(state="absent", **options)

    def info(self, **options: Any) -> dict[str, Any]:
        """Look at the rule."""
        self.proxy.clear()
        return run_module("motor_scaling_rule_info", kubeconfig=self.proxy.kubeconfig, namespace=self.namespace, **options)

    def live(self) -> dict[str, Any] | None:
        """The ConfigMap as it is."""
        status, found = self.cluster.request("GET", f"{self._maps}/scaling-rule")
        return found if status == 200 else None

    def text(self) -> str | None:
        """The text of the live rule."""
        return ((self.live() or {}).get("data") or {}).get(KEY)

    def tiers(self) -> list[dict[str, int]]:
        """Instances by group, tier by tier, of the live rule."""
        tiers = json.loads(self.text() or "{}")["elastic_scaling_list"]
        return [{group["group_name"]: int(group["group_num"]) for group in tier["group_list"]} for tier in tiers]

    def version(self) -> str:
        """What changes with every write."""
        return str((self.live() or {})["metadata"]["resourceVersion"])

    def put(self, text: str, *, labels: dict[str, str] | None = None, more: dict[str, str] | None = None) -> None:
        """Somebody else writes the rule."""
        body = {"metadata": {"name": "scaling-rule", "labels": labels or {}}, "data": {KEY: text, **(more or {})}}
        exists = self.live() is not None
        path = f"{self._maps}/scaling-rule" if exists else self._maps
        status, answer = self.cluster.request("PUT" if exists else "POST", path, body)
        assert status in (200, 201), answer

    def job(self, name: str, *, group: str, rule: str = "scaling-rule", pods: int = 1, npus: int = 16, **labels: str) -> dict[str, Any]:
        """Create an AscendJob as it should be but for what is asked for."""
        own = {
            "framework": "pytorch",
            "app": "mindie-ms-server",
            "jobID": self.namespace,
            "fault-scheduling": "force",
            "fault-retry-times": "10000",
            "mind-cluster/scaling-rule": rule,
            "mind-cluster/group-name": group,
            **labels,
        }
        resources = {"requests": {"huawei.com/Ascend910": str(npus)}, "limits": {"huawei.com/Ascend910": str(npus)}}
        template = {"metadata": {"labels": own}, "spec": {"containers": [{"name": "ascend", "image": "motor", "resources": resources}]}}
        replicas = {"Master": {"replicas": 1, "template": template}, "Worker": {"replicas": pods - 1, "template": template}}
        body = {
            "apiVersion": "mindxdl.gitee.com/v1",
            "kind": "AscendJob",
            "metadata": {"name": name, "labels": own},
            "spec": {"schedulerName": "volcano", "replicaSpecs": replicas},
        }
        table = {"metadata": {"name": f"rings-config-{name}", "labels": {"jobID": self.namespace}}, "data": {"hccl.json": "{}"}}
        for path, created in ((self._maps, table), (self._jobs, body)):
            status, answer = self.cluster.request("POST", path, created)
            assert status == 201, answer
        return answer

    def phase(self, job: str) -> str:
        """The phase of the PodGroup of a job, "" without one."""
        groups = self.cluster.get(f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{self.namespace}/podgroups")["items"]
        found = [group for group in groups if any(owner["name"] == job for owner in group["metadata"].get("ownerReferences", ()))]
        return str((found[0].get("status") or {}).get("phase", "")) if found else ""

    def until(self, job: str, phase: str) -> None:
        """Wait for a phase of the PodGroup of a job."""
        wait_for(lambda: self.phase(job) == phase, 30, f"{job} {phase}")

    def controller(self, name: str) -> None:
        """A pod of Motor's controller, which mounts the rule as a single file."""
        mounts = [{"name": "rule", "mountPath": "/conf/elastic_scaling.json", "subPath": KEY}]
        spec = {
            "containers": [{"name": "ascend", "image": "motor", "volumeMounts": mounts}],
            "volumes": [{"name": "rule", "configMap": {"name": "scaling-rule"}}],
        }
        body = {"metadata": {"name": name, "labels": {"app": "mindie-ms-controller", "jobID": self.namespace}}, "spec": spec}
        status, answer = self.cluster.request("POST", f"/api/v1/namespaces/{self.namespace}/pods", body)
        assert status == 201, answer

    def delete_jobs(self, *names: str) -> None:
        """Delete AscendJobs."""
        for name in names:
            assert self.cluster.request("DELETE", f"{self._jobs}/{name}")[0] == 200

    def lock(self, holder: str) -> None:
        """Somebody holds the lock, for a minute."""
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 60}
        assert self.cluster.request("POST", self._leases, {"metadata": {"name": "ascend-mindie"}, "spec": spec})[0] == 201

    def leave_intent(self, verb: str) -> None:
        """A run of this verb was ended before it was done."""
        intent = {"verb": verb, "from": {}, "to": {}, "by": "me", "run": "1", "started": "2026-08-01T09:30:00Z"}
        body = {"metadata": {"name": "ascend-mindie", "annotations": {"ascend.mindie/intent": json.dumps(intent)}}, "spec": {}}
        path = f"{self._leases}/ascend-mindie"
        status, answer = self.cluster.request("PATCH", path, body, content_type="application/merge-patch+json")
        if status == 404:
            status, answer = self.cluster.request("POST", self._leases, body)
        assert status in (200, 201), answer
