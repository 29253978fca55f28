# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb `recreate`: an AscendJob that has failed for good is deleted, and created again from its own specification.

The Ascend Operator never comes back to such a job, and its surviving pods keep their NPUs. The specification is kept in a ConfigMap
from before the job is deleted until it is created again, so that a watcher that is killed in between loses nothing.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from . import job_facts, siblings
from .errors import Refused
from .guard import RECREATE
from .hands_off import HANDS_OFF, JOB, KEPT_PREFIX, OLD_UID, held_by_hand, kept, locked
from .instances import parse_instance_name
from .kinds import KINDS
from .ownership import metadata_labels
from .plan import GONE, RUNNING, Plan, Step, Subject, Write, create, delete, update
from .rank_tables import initial, rank_table_name
from .state import Object, Snapshot, is_deleted, service_state
from .stored import baseline_counts
from .workloads import ASCEND_JOB, JOB_LABEL

COMPONENT = "recreation"
SPEC_KEY = "job.json"
# On a job: for which state of affairs it was nudged last.
NUDGED = "ascend.mindie/nudged"


def plan_recreate(snapshot: Snapshot, name: str, own: str = "") -> Plan:
    """Recreate the job `name`, from wherever an earlier run has come to. Empty when there is nothing (more) to do.

    Raises Refused when somebody else changes the service, or wants it left alone.
    """
    job = next((found for found in snapshot.jobs if found["metadata"]["name"] == name), None)
    steps = _steps(snapshot, name, job, kept(snapshot).get(name))
    why = (held_by_hand(snapshot) or locked(snapshot, own) or still_there(snapshot, name)) if steps else ""
    if why:
        raise Refused(f"Cannot recreate AscendJob {snapshot.namespace}/{name}: {why}.", reason=HANDS_OFF)
    counts = service_state(snapshot).counts()
    # Where no service of ours is, its lock does not stay, either.
    removes = snapshot.config_map is None
    return Plan(RECREATE, snapshot.namespace, steps, counts=counts, counts_before=counts, settles=False, removes=removes)


def still_there(snapshot: Snapshot, name: str) -> str:
    """Whose end has to be waited for before the job `name` is deleted or, where it was deleted already, created again; or ""."""
    leaving = [found["metadata"]["name"] for found in snapshot.jobs if is_deleted(found)]
    if leaving:
        return f"still being deleted: {', '.join(leaving)}"
    if any(found["metadata"]["name"] == name for found in snapshot.jobs):
        return ""
    pods = sorted(pod["metadata"]["name"] for pod in job_facts.pods_by_job(snapshot.pods).get(name, ()))
    return f"still stopping: {', '.join(pods)}" if pods else ""


def _steps(snapshot: Snapshot, name: str, job: Object | None, backup: Object | None) -> tuple[Step, ...]:
    """A job that has not failed, and of which nothing is kept, is none of our business."""
    why = f"AscendJob {name} has failed for good and is created again"
    if backup is not None and (_settled(job, backup) or (job is None and _surplus(snapshot, name))):
        return (_forget(backup),)
    if backup is None and (job is None or not job_facts.failed_for_good(job)):
        return ()
    kept_now, keeping = _keep(name, job, backup, why)
    spec = _specification(kept_now, snapshot.namespace, name)
    start = Step(f"create {name} again", (create(spec, why),))
    return (*keeping, _stop(snapshot, name, job, why), *_reset_ranks(snapshot, name), start, _forget(kept_now))


def _settled(job: Object | None, backup: Object) -> bool:
    """The job was created again already, by us or by somebody else, or it has not failed."""
    return job is not None and (job["metadata"].get("uid") != _annotation(backup, OLD_UID) or not job_facts.failed_for_good(job))


def _keep(name: str, job: Object | None, backup: Object | None, why: str) -> tuple[Object, tuple[Step, ...]]:
    """What is kept of the job as it is now, and how that comes to be; of one that is gone what was kept of it. One of both is there."""
    if job is None:
        return backup or {}, ()
    now = _backup(job)
    if backup is None:
        return now, (Step(f"keep the specification of {name}", (create(now, why),)),)
    if backup.get("data") == now["data"]:
        return backup, ()
    now["metadata"] = backup["metadata"]
    return now, (Step(f"keep the specification of {name} as it is now", (update(now, "the job was changed since it was kept"),)),)


def _specification(backup: Object, namespace: str, name: str) -> Object:
    """The job that is kept. Whoever may write ConfigMaps is not to have anything else created by the watcher."""
    try:
        decoded = json.loads((backup.get("data") or {}).get(SPEC_KEY, ""))
    except (ValueError, RecursionError):
        decoded = None
    spec: dict[str, Any] = decoded if isinstance(decoded, dict) else {}
    metadata = spec.get("metadata")
    wanted = (KINDS[ASCEND_JOB].api_version, ASCEND_JOB, namespace, name)
    if isinstance(metadata, dict) and (spec.get("apiVersion"), spec.get("kind"), metadata.get("namespace"), metadata.get("name")) == wanted:
        return spec
    where = f"ConfigMap {namespace}/{backup['metadata']['name']}"
    message = f"{where} does not hold the specification of AscendJob {namespace}/{name} that it should. Create the job by hand, then delete the ConfigMap."
    raise Refused(message, reason="NotKept")


def _surplus(snapshot: Snapshot, name: str) -> bool:
    """Meanwhile the service was scaled in, or the instance was replaced by one of another name."""
    parsed = parse_instance_name(name, snapshot.base_name)
    baseline = baseline_counts(snapshot.config_map)
    if parsed is None or baseline is None:
        return False
    return len(service_state(snapshot).live(parsed[0])) >= baseline.get(parsed[0], 0)


def _stop(snapshot: Snapshot, name: str, job: Object | None, why: str) -> Step:
    """Delete the job, and wait until its name is free: job, PodGroup and pods are gone."""
    writes = (_as_kept(delete(ASCEND_JOB, job, why), job),) if job else ()
    if parse_instance_name(name, snapshot.base_name):
        return Step(f"stop {name}", writes, until=GONE, always=True)
    old = Subject(name, {JOB_LABEL: name})
    return Step(f"stop {name}", writes, until=RUNNING, subjects=(old,), always=True)


def _as_kept(write: Write, job: Object) -> Write:
    """What somebody changed since the specification was kept is kept first."""
    return replace(write, preconditions={**write.preconditions, "resourceVersion": job["metadata"]["resourceVersion"]})


def _reset_ranks(snapshot: Snapshot, name: str) -> tuple[Step, ...]:
    """The ranks of pods that are gone are not to be read by new ones."""
    table = snapshot.others.get(("ConfigMap", rank_table_name(name)))
    if table is None:
        return ()
    return (Step(f"reset the rank table of {name}", (update(initial(table), f"the ranks of {name} are written into it anew"),)),)


def _forget(backup: Object) -> Step:
    """Its name is that of one job that is gone, so that no other one can be meant."""
    metadata = backup["metadata"]
    write = Write("delete", "ConfigMap", metadata["namespace"], metadata["name"], "the specification is not needed any more")
    return Step("forget the old specification", (write,))


def _backup(job: Object) -> dict[str, Any]:
    """What the server set, or the watcher on the job that goes, is no part of the specification."""
    spec, metadata = siblings.cleaned(job), job["metadata"]
    spec["metadata"].pop("deletionTimestamp", None)
    spec["metadata"].get("annotations", {}).pop(NUDGED, None)
    if metadata.get("ownerReferences"):
        spec["metadata"]["ownerReferences"] = metadata["ownerReferences"]
    kept_as = {
        "name": f"{KEPT_PREFIX}{metadata['uid']}",
        "namespace": metadata["namespace"],
        "labels": metadata_labels(COMPONENT),
        "annotations": {JOB: metadata["name"], OLD_UID: metadata["uid"]},
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": kept_as, "data": {SPEC_KEY: json.dumps(spec, sort_keys=True)}}


def _annotation(obj: Object, name: str) -> str:
    return str((obj["metadata"].get("annotations") or {}).get(name, ""))
