# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replacing AscendJobs: the name of an instance is used again only when nothing of the old one is left."""

from __future__ import annotations

from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._motor import readiness, replace
from ansible_collections.ascend.mindie.plugins.module_utils._motor.converge import Outdated
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan import GONE, RUNNING, Step
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rank_tables import rank_table
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot

from .test_manifests_ascend_jobs import config, jobs, rendered

JOB, CONTROL = "mindie-server-p0", "mindie-ms-controller"


def live(name: str) -> dict[str, Any]:
    """A job as the server holds it."""
    made = rendered(config())
    job = {**jobs(made), **{obj["metadata"]["name"]: obj for obj in made.objects}}[name]
    return {**job, "metadata": {**job["metadata"], "uid": f"uid-{name}"}}


def snapshot(*found: dict[str, Any], **fields: Any) -> Snapshot:
    return Snapshot("mindie", "ascend_jobs", "mindie-server", jobs=found, **fields)


def rounds(shot: Snapshot, *outdated: dict[str, Any]) -> tuple[Step, ...]:
    return replace.steps(shot, [Outdated(job, ("spec",), job) for job in outdated], (), "new")


def pod_group(job: dict[str, Any]) -> dict[str, Any]:
    """A PodGroup that was let in and has no pods: the scaling rule holds its job."""
    owner = {"kind": "AscendJob", "name": job["metadata"]["name"], "uid": job["metadata"]["uid"]}
    metadata = {"name": f"{owner['name']}-{owner['uid']}", "ownerReferences": [owner], "labels": job["metadata"]["labels"]}
    return {"kind": "PodGroup", "metadata": metadata, "status": {"phase": "Inqueue"}}


def test_a_held_job_comes_anew_only_when_its_pod_group_is_gone() -> None:
    job = live(JOB)
    shot = snapshot(job, pod_groups=(pod_group(job),))
    stop = rounds(shot, job)[0]
    assert stop.until == GONE
    after = shot.without("AscendJob", JOB)
    assert not readiness.gone(after, {}).done, "the PodGroup still holds NPUs"
    assert readiness.gone(after.refreshed({"PodGroup": ()}), {}).done


def test_a_job_goes_with_its_rank_table_and_comes_after_a_new_one() -> None:
    job = live(JOB)
    table = rank_table(job, "prefill")
    table["metadata"]["uid"] = "uid-table"
    steps = rounds(snapshot(job, others={("ConfigMap", table["metadata"]["name"]): table}), job)
    assert [[(write.verb, write.kind) for write in step.writes] for step in steps] == [
        [("delete", "AscendJob"), ("delete", "ConfigMap")],
        [("create", "ConfigMap")],
        [("create", "AscendJob")],
    ]
    assert {write.propagation for write in steps[0].writes} == {"Background"}


def test_the_pods_of_a_control_role_go_before_it_comes_anew() -> None:
    job = live(CONTROL)
    stop, start = rounds(snapshot(job), job)
    assert stop.until == RUNNING and [subject.ready for subject in stop.subjects] == [0], "none of the old pods may be left"
    assert [write.kind for write in start.writes] == ["AscendJob"]
