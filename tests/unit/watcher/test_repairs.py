# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the watcher repairs, and what it leaves alone: tables of snapshots."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from rescheduling_watcher import repairs
from rescheduling_watcher.repairs import Decisions, decide_repairs, timed
from rescheduling_watcher.settings import ACTS, Settings

from ansible_collections.ascend.mindie.plugins.module_utils._motor import hands_off
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import Refused
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_recreate import NUDGED
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_recreate import plan_recreate as recreation
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot
from tests.support.watcher_snapshots import (
    FAILED,
    INVALID,
    NAMESPACE,
    job,
    lease,
    motor_config,
    node,
    pod,
    pod_group,
    rule,
    snapshot,
)

P0, P1, P2, D0 = "mindie-server-p0", "mindie-server-p1", "mindie-server-p2", "mindie-server-d0"
TIERS = ({"group0": 2, "group1": 1}, {"group0": 1, "group1": 1})
ON = Settings(namespaces=(NAMESPACE,), acts=dict.fromkeys(ACTS, True))


def decide(seen: Snapshot, *, held_for: float = 1000.0, settings: Settings = ON, room: str = "") -> Decisions:
    """The decisions when everything that is so has been so for `held_for` seconds."""
    return decide_repairs(seen, dict.fromkeys(timed(seen), held_for), settings, lambda dummy: room, "watcher/")


def acts(found: Decisions) -> list[tuple[str, str]]:
    return [(repair.act, repair.name) for repair in found.repairs]


def task(*, p1: dict[str, Any] | None = None, d0: str = "Running", **parts: Any) -> Snapshot:
    """p0 and d0 run, p1 is held: it has a PodGroup and no pod."""
    given = {
        "config_maps": [rule(*TIERS)],
        "jobs": [job(P0), p1 or job(P1), job(D0, "group1")],
        "pod_groups": [pod_group(P0, "Running"), pod_group(P1, "Inqueue"), pod_group(D0, d0, "group1")],
        "pods": [pod(P0), pod(D0, node="node-1")],
    }
    return snapshot(**{**given, **parts})


def test_a_held_job_that_the_rule_allows_now_is_nudged_once() -> None:
    (repair,) = decide(task()).repairs
    assert (repair.act, repair.name, repair.uid, repair.version) == ("nudge", P1, f"uid-{P1}", "7")
    assert "tier 0 asks for 2 instances of group0, 1 run" in repair.why
    nudged = task(p1=job(P1, annotations={NUDGED: repair.cause}))
    assert not decide(nudged, held_for=29.0).repairs, (
        "the same cause is not nudged for twice while the operator's own attempt is still to come"
    )
    assert acts(decide(nudged, held_for=31.0)) == [("nudge", P1)]
    assert decide(nudged, held_for=31.0).repairs[0].cause != repair.cause, "what is written again has to differ: else nobody hears of it"
    edited = replace(nudged, others={**nudged.others, ("ConfigMap", "scaling-rule"): rule(*TIERS, version="6")})
    assert acts(decide(edited)) == [("nudge", P1)], "another version of the rule is another cause"


def test_nudges_for_the_same_cause_come_ever_later() -> None:
    cause, waits = "", []
    for dummy in range(25):
        seen = task(p1=job(P1, annotations={NUDGED: cause}) if cause else job(P1))
        waits.append(decide(seen, held_for=0.0).due)
        (repair,) = decide(seen, held_for=1e4).repairs
        assert repair.cause != cause or len(waits) > 20
        cause = repair.cause
    assert waits[:4] == [3.0, 30.0, 60.0, 90.0] and waits[-1] == 600.0


@pytest.mark.parametrize("garbage", ["#", "#5", "5/0/2#", "5/0/2#x", "5/0/2#-1", "5/0/2#9999999999999", "\n", "5/0/2#\u0665"])
def test_a_mark_that_somebody_else_wrote_does_no_harm(garbage: str) -> None:
    found = decide(task(p1=job(P1, annotations={NUDGED: garbage})), held_for=1e4)
    assert acts(found) == [("nudge", P1)]


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (task(d0="Pending"), "the rule does not allow it"),
        (task(pod_groups=[pod_group(P0, "Running"), pod_group(P1, "Pending"), pod_group(D0, "Running", "group1")]), "it waits for NPUs"),
        (task(pods=[pod(P0), pod(P1), pod(D0)]), "it has its pod"),
        (task(pods=[pod(P0), pod(P1, leaving=True), pod(D0)]), "its old pod is still there"),
        (task(p1=job(P1, deletionTimestamp="2026-11-30T10:00:00Z")), "it is being deleted"),
        (task(config_maps=[rule(text="{")]), "the rule is broken"),
        (task(config_maps=[]), "there is no rule"),
        (task(p1=job(P1, "other")), "the operator would crash"),
    ],
)
def test_other_jobs_are_not_nudged(seen: Snapshot, why: str) -> None:
    assert ("nudge", P1) not in acts(decide(seen)), why


def test_a_job_that_was_held_for_a_moment_only_is_left_to_the_operator() -> None:
    found = decide(task(), held_for=1.0)
    assert not found.repairs and found.due == 2.0


def test_no_more_jobs_are_nudged_than_the_tier_asks_for() -> None:
    tiers = ({"group0": 3, "group1": 1}, {"group0": 1, "group1": 1})
    jobs = [job(P0), job(P1), job(P2), job("mindie-server-p3"), job(D0, "group1")]
    held = [pod_group(name, "Inqueue") for name in (P1, P2, "mindie-server-p3")]
    seen = task(config_maps=[rule(*tiers)], jobs=jobs, pod_groups=[pod_group(P0, "Running"), *held, pod_group(D0, "Running", "group1")])
    assert acts(decide(seen)) == [("nudge", P1), ("nudge", P2)], "all that are looked at before the first one runs would start"
    starting = replace(seen, pods=(*seen.pods, pod("mindie-server-p3", ready=False)))
    assert acts(decide(starting)) == [("nudge", P1)], "one that has its pod already is one of those asked for"


STUCK = {"pods": [pod(P0, leaving=True), pod(D0, node="node-1")]}


@pytest.mark.parametrize("ready", ["False", "Unknown"])
def test_a_pod_on_a_server_that_is_not_ready_for_long_is_released(ready: str) -> None:
    seen = task(**STUCK, nodes=[node("node-0", ready=ready), node("node-1")])
    (repair,) = [repair for repair in decide(seen, held_for=301.0).repairs if repair.act == "release_stuck"]
    assert (repair.kind, repair.name, repair.uid) == ("Pod", f"{P0}-master-0", f"pod-{P0}")
    early = decide(seen, held_for=200.0)
    assert "release_stuck" not in dict(acts(early)) and early.due == 100.0


def test_a_pod_on_a_server_that_is_merely_slow_is_left_alone() -> None:
    assert "release_stuck" not in dict(acts(decide(task(**STUCK), held_for=1e6)))


def test_a_server_that_was_ready_in_between_is_waited_for_anew() -> None:
    """Also when that was not seen: what it says of itself is another time."""
    before = task(**STUCK, nodes=[node("node-0", ready="Unknown", since="2026-11-30T10:00:00Z"), node("node-1")])
    after = task(**STUCK, nodes=[node("node-0", ready="Unknown", since="2026-11-30T10:04:00Z"), node("node-1")])
    assert "release_stuck" in dict(acts(decide(before)))
    found = decide_repairs(after, dict.fromkeys(timed(before), 1000.0), ON, lambda dummy: "", "watcher/")
    assert "release_stuck" not in dict(acts(found)) and found.due == 300.0


def test_a_pod_that_stays_is_never_released() -> None:
    seen = task(nodes=[node("node-0", ready="Unknown"), node("node-1")])
    assert "release_stuck" not in dict(acts(decide(seen, held_for=1e6)))


def test_a_pod_has_its_grace_period_even_when_the_server_was_dead_before() -> None:
    seen = task(**STUCK, nodes=[node("node-0", ready="Unknown"), node("node-1")])
    ages = {**dict.fromkeys(timed(seen), 1000.0), ("leaving", f"pod-{P0}"): 10.0}
    found = decide_repairs(seen, ages, ON, lambda dummy: "", "watcher/")
    assert "release_stuck" not in dict(acts(found)) and found.due == 20.0


def failed(**parts: Any) -> Snapshot:
    given = {"p1": job(P1, conditions=FAILED), "pod_groups": [pod_group(P0, "Running"), pod_group(D0, "Running", "group1")]}
    return task(**{**given, **parts})


def test_a_job_that_has_failed_for_good_is_created_again() -> None:
    assert acts(decide(failed())) == [("recreate_failed", P1)]
    assert decide(failed(), held_for=1.0).due == 4.0


@pytest.mark.parametrize(
    ("name", "labels", "again"),
    [
        ("resnet", {}, False),
        ("resnet", {"app": "resnet", "jobID": "x"}, False),
        ("resnet", {"app": "mindie-ms-server"}, True),
        ("mindie-motor-controller", {"app": "mindie-ms-controller"}, True),
        ("other", {"mind-cluster/scaling-rule": "scaling-rule", "jobID": NAMESPACE, "mind-cluster/group-name": "group0"}, True),
        (P1, {}, True),
    ],
)
def test_jobs_that_do_not_serve_are_nobodys_to_create_again(name: str, labels: dict[str, str], again: bool) -> None:
    """A training job that has failed is left as it is, whoever else is in its namespace."""
    found = decide(failed(p1=job(name, conditions=FAILED, labels=labels)))
    assert acts(found) == ([("recreate_failed", name)] if again else []) and (again or not found.waiting)


@pytest.mark.parametrize(
    ("seen", "room", "why"),
    [
        (failed(), "no room", "no room"),
        (failed(p1=job(P1, conditions=INVALID)), "", "refuses it as it is"),
        (failed(config_maps=[rule({"group0": 1, "group1": 1})]), "", "every tier of the rule is satisfied"),
        (failed(config_maps=[]), "", "missing or broken"),
        (failed(jobs=[job(P0, deletionTimestamp="x"), job(P1, conditions=FAILED), job(D0, "group1")]), "", "is being deleted"),
        (failed(lease=lease("alice/1")), "", "held by alice/1"),
        (failed(config_maps=[rule(*TIERS), motor_config(2, 1)], lease=lease(intent={"verb": "scale"})), "", "earlier scale has not ended"),
        (failed(config_maps=[rule(*TIERS), motor_config(1, 1)]), "", "there are more"),
        (failed(config_maps=[rule(*TIERS), motor_config(2, 1, **{"ascend.mindie/hold": "I am at it"})]), "", "I am at it"),
    ],
)
def test_a_failed_job_is_left_alone_and_the_reason_is_known(seen: Snapshot, room: str, why: str) -> None:
    found = decide(seen, room=room)
    assert not found.repairs and why in found.waiting[f"recreate_failed {NAMESPACE}/{P1}"]
    assert found.obstacles == found.waiting and not decide(failed(), held_for=1.0).obstacles, "what is not due yet has no obstacle"


def test_a_dead_watchers_lock_is_no_obstacle_to_the_next_one() -> None:
    intent = {"verb": "recreate", "run": "x"}
    assert acts(decide(failed(config_maps=[rule(*TIERS), motor_config(2, 1)], lease=lease("watcher/pod-1/run", intent))))


def test_a_recreation_that_was_cut_off_is_gone_on_with() -> None:
    full = replace(failed(), config_map=motor_config(2, 1))
    kept = recreation(full, P1, "watcher/").steps[0].writes[0].body
    cut_off = replace(full, jobs=(job(P0), job(D0, "group1")), others={**full.others, ("ConfigMap", kept["metadata"]["name"]): kept})
    assert acts(decide(cut_off)) == [("recreate_failed", P1)]
    titles = [step.title for step in recreation(cut_off, P1, "watcher/").steps]
    assert titles == [f"stop {P1}", f"create {P1} again", "forget the old specification"]
    again = replace(cut_off, jobs=(*cut_off.jobs, job(P1, uid="another")))
    assert [step.title for step in recreation(again, P1, "watcher/").steps] == ["forget the old specification"]


def cut_off_recreation(**parts: Any) -> Snapshot:
    """The specification of a failed job is kept, and the job is deleted."""
    full = replace(failed(), config_map=motor_config(2, 1))
    kept = recreation(full, P1, "watcher/").steps[0].writes[0].body
    given = {"jobs": (job(P0), job(D0, "group1")), "others": {**full.others, ("ConfigMap", kept["metadata"]["name"]): kept}}
    return replace(full, **{**given, **parts})


def test_while_the_old_pods_hang_no_try_is_spent_on_the_job_that_waits_for_them() -> None:
    hanging = cut_off_recreation(pods=(pod(P0), pod(P1, leaving=True), pod(D0)))
    found = decide(hanging)
    assert not found.repairs and f"{P1}-master-0" in found.waiting[f"recreate_failed {NAMESPACE}/{P1}"]
    with pytest.raises(Refused, match="still stopping") as refused:
        recreation(hanging, P1, "watcher/")
    assert refused.value.reason == hands_off.HANDS_OFF
    other = cut_off_recreation(jobs=(job(P0, deletionTimestamp="x"), job(D0, "group1")))
    assert not decide(other).repairs


def test_what_was_changed_since_a_job_was_kept_is_kept_first() -> None:
    """A watcher was killed between keeping and deleting, and somebody edits the job: the edit is not undone."""
    edited = job(P1, conditions=FAILED)
    edited["spec"]["runPolicy"] = {"backoffLimit": 3}
    kept, stop, start, dummy = recreation(cut_off_recreation(jobs=(job(P0), edited, job(D0, "group1"))), P1, "watcher/").steps
    assert [write.verb for write in kept.writes] == ["update"]
    assert start.writes[0].body["spec"] == edited["spec"]
    assert stop.writes[0].preconditions == {"uid": f"uid-{P1}", "resourceVersion": "7"}, "an edit from now on is noticed, too"


def test_a_job_that_has_not_failed_is_not_deleted_for_what_is_kept_of_it() -> None:
    well = cut_off_recreation(jobs=(job(P0), job(P1), job(D0, "group1")))
    assert [step.title for step in recreation(well, P1, "watcher/").steps] == ["forget the old specification"]


def garbage(text: str | None) -> Snapshot:
    """Something else in place of what was kept."""
    seen = cut_off_recreation()
    (key,) = [key for key in seen.others if key[1].startswith(hands_off.KEPT_PREFIX)]
    data = {} if text is None else {"job.json": text}
    return replace(seen, others={**seen.others, key: {**seen.others[key], "data": data}})


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{",
        "[]",
        "{}",
        "[" * 100_000,
        json.dumps({**job(P1), "kind": "Pod"}),
        json.dumps(job(P1, namespace="kube-system")),
        json.dumps(job(P0)),
        json.dumps({**job(P1), "apiVersion": "v1"}),
        json.dumps({**job(P1), "metadata": None}),
    ],
)
def test_nothing_but_the_job_itself_is_created_from_what_is_kept(text: str | None) -> None:
    """Whoever may write ConfigMaps in a namespace must not have other things created by the watcher, or elsewhere."""
    with pytest.raises(Refused, match="does not hold the specification"):
        recreation(garbage(text), P1, "watcher/")


@pytest.mark.parametrize(
    "annotations", [{}, {hands_off.JOB: P1}, {hands_off.JOB: P1, hands_off.OLD_UID: "other"}, {hands_off.OLD_UID: "x"}]
)
def test_what_only_has_the_name_of_something_kept_keeps_nobody_from_anything(annotations: dict[str, str]) -> None:
    stray = {"kind": "ConfigMap", "metadata": {"name": f"{hands_off.KEPT_PREFIX}x", "namespace": NAMESPACE, "annotations": annotations}}
    assert acts(decide(missing(motor_config(2, 1), stray))) == [("restore_missing", "motor-config")]


def test_what_was_scaled_in_meanwhile_is_not_created_again() -> None:
    full = replace(failed(), config_map=motor_config(2, 1))
    kept = recreation(full, P1, "watcher/").steps[0].writes[0].body
    smaller = {**full.others, ("ConfigMap", kept["metadata"]["name"]): kept}
    gone = replace(full, config_map=motor_config(1, 1), jobs=(job(P0), job(D0, "group1")), others=smaller)
    assert [step.title for step in recreation(gone, P1, "watcher/").steps] == ["forget the old specification"]


def test_the_specification_is_kept_before_the_job_goes_and_has_nothing_of_the_server() -> None:
    marked = job(P1, conditions=FAILED, annotations={NUDGED: "x", "mine": "y"}, generation=4, creationTimestamp="t")
    steps = recreation(failed(p1=marked), P1, "watcher/").steps
    assert [write.verb for step in steps for write in step.writes] == ["create", "delete", "create", "delete"]
    made = steps[2].writes[0].body
    assert set(made["metadata"]) == {"name", "namespace", "labels", "annotations"} and made["metadata"]["annotations"] == {"mine": "y"}
    assert "status" not in made and made["spec"] == marked["spec"]
    assert hands_off.kept(snapshot(config_maps=[steps[0].writes[0].body])).keys() == {P1}


def missing(*config_maps: Any, **parts: Any) -> Snapshot:
    given = {"jobs": [job(P0), job(D0, "group1")], "pod_groups": [pod_group(P0, "Running"), pod_group(D0, "Running", "group1")]}
    return task(**{**given, "config_maps": [rule(*TIERS), *(config_maps or [motor_config(2, 1)])], **parts})


def test_an_instance_of_the_baseline_that_is_not_there_is_restored() -> None:
    (repair,) = decide(missing()).repairs
    assert repair.act == "restore_missing" and P1 in repair.why
    assert decide(missing(), held_for=45.0).due == 15.0


def unfinished() -> dict[str, Any]:
    made = motor_config(2, 1)
    return {**made, "data": {**made["data"], "boot.sh": "changed"}}


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (missing(motor_config(2, 1, **{"ascend.mindie/hold": ""})), "ascend.mindie/hold"),
        (missing(lease=lease("alice/1")), "held by alice/1"),
        (missing(lease=lease(holder="", intent={"verb": "scale"})), None),
        (missing(pods=[pod(P0), pod(P1, leaving=True), pod(D0)]), "still stopping"),
        (missing(jobs=[], pods=[], pod_groups=[]), "as if somebody was removing it"),
        (missing(unfinished()), None),
        (missing(motor_config(1, 1)), None),
    ],
)
def test_nothing_is_restored_while_somebody_else_is_at_it(seen: Snapshot, why: str | None) -> None:
    found = decide(seen)
    assert not found.repairs
    assert found.waiting == {} if why is None else why in found.waiting[f"restore_missing {NAMESPACE}/motor-config"]


@pytest.mark.parametrize("act", ACTS)
def test_an_act_that_is_switched_off_is_never_done(act: str) -> None:
    off = replace(ON, acts={**ON.acts, act: False})
    for seen in (task(), task(**STUCK, nodes=[node("node-0", ready="Unknown"), node("node-1")]), failed(), missing()):
        assert act not in dict(acts(decide(seen, settings=off)))
        assert not decide(seen, settings=replace(ON, acts=dict.fromkeys(ACTS, False))).repairs


def test_every_repair_has_a_key_of_its_own() -> None:
    found = [decide(seen).repairs[0].key for seen in (task(), failed(), missing())]
    assert len(set(found)) == 3
    assert repairs.Repair("nudge", "a", "AscendJob", "b", "").key == "nudge a/b"


def test_a_job_is_not_created_again_beside_one_that_is_being_deleted() -> None:
    """Not even when that began after the decision."""
    full = replace(
        failed(jobs=[job(P0, deletionTimestamp="x"), job(P1, conditions=FAILED), job(D0, "group1")]), config_map=motor_config(2, 1)
    )
    with pytest.raises(Refused, match=f"still being deleted: {P0}"):
        recreation(full, P1, "watcher/")
