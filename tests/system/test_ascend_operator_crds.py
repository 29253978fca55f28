# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""AscendJobs and PodGroups under the real CRDs: the stand-ins work, and ours accept what the real ones accept."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster import Cluster
from tests.cluster.ascend_operator import objects
from tests.cluster.cluster import CRDS
from tests.cluster.kube_client import KubeClient, Obj
from tests.support.ascend_jobs import Fleet, Task

SHARED = Path(os.environ.get("MINDIE_SHARED", Path(__file__).resolve().parents[3] / "shared")) / "upstream"
ASCEND_JOBS = SHARED / "crds" / "2026-08" / "ascendjobs.mindxdl.gitee.com.yaml"
KINDS = ("podgroups.scheduling", "queues.scheduling", "jobs.batch")  # the Ascend Operator watches Volcano's own jobs, too
VOLCANO = [SHARED / "crds" / "volcano-v1.12.0" / f"{kind}.volcano.sh.yaml" for kind in KINDS]
SAMPLES = ("server", "controller", "coordinator")

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="needs the recorded data of ../shared (MINDIE_SHARED)")


@pytest.fixture(scope="module")
def real() -> Iterator[Cluster]:
    """A cluster with the real kinds, and ours in another group."""
    with Cluster(a2_nodes=0, a3_nodes=0, cpu_nodes=1, ascend_operator=True, sessions=0.25, crds=[ASCEND_JOBS, *VOLCANO]) as running:
        ours = yaml.safe_load((CRDS / "ascendjobs.yaml").read_text())
        ours["metadata"]["name"], ours["spec"]["group"] = "ascendjobs.ours.test", "ours.test"
        ours["spec"]["names"]["shortNames"] = ["oursjob"]
        copied = running.directory / "ours.yaml"
        copied.write_text(yaml.safe_dump(ours))
        running.apply_crds([copied])
        yield running


def test_jobs_run_and_are_held_under_the_real_crds(real: Cluster) -> None:
    client = KubeClient.from_kubeconfig(real.kubeconfig)
    fleet, task = Fleet(real, client), Task(client, real.create_namespace("task"))
    fleet.add(4)
    task.rule({"g0": 1, "g1": 1})
    task.job("p0", pods=2)
    task.job("d0", "g1")
    task.wait_running("p0", "d0")
    task.job("p1")
    task.wait_reason("p1", "PodCreateFailed")
    assert (task.phase("p1"), task.pods("p1")) == ("Inqueue", {})
    task.wait_reason("p0", "JobRunning", "Running")
    assert task.get("p0")["status"]["replicaStatuses"] == {"Master": {"active": 1}, "Worker": {"active": 1}}
    task.delete("p0")
    task.clear()


def sample(name: str) -> Obj:
    """The AscendJob of a recorded sample."""
    documents = yaml.safe_load_all((SHARED / "samples" / "ascendjob" / f"{name}.yaml").read_text(encoding="utf-8"))
    found: Obj = next(row for row in documents if row and row.get("kind") == "AscendJob")
    return found


@pytest.mark.parametrize("name", SAMPLES)
def test_recorded_jobs_are_accepted_by_our_crd_and_the_real_one(real: Cluster, name: str) -> None:
    client = KubeClient.from_kubeconfig(real.kubeconfig)
    stored = []
    for group in (objects.GROUP_VERSION.partition("/")[0], "ours.test"):
        body = copy.deepcopy(sample(name))
        body["apiVersion"], body["metadata"]["namespace"] = f"{group}/v1", "default"
        path = f"/apis/{group}/v1/namespaces/default/ascendjobs?dryRun=All&fieldValidation=Strict"
        stored.append(client.request("POST", path, body)["spec"])
    for spec in stored:
        assert spec["runPolicy"] == sample(name)["spec"]["runPolicy"] and set(spec) == set(sample(name)["spec"])
        assert {kind: row["template"]["metadata"] for kind, row in spec["replicaSpecs"].items()} == {
            kind: row["template"]["metadata"] for kind, row in sample(name)["spec"]["replicaSpecs"].items()
        }
