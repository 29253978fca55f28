# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each bug that plans must not have is planted once, and the property test has to find it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from ansible_collections.ascend.mindie.plugins.module_utils._motor import (
    ascend_jobs,
    choice,
    counts,
    deployments,
    plan_deploy,
    plan_scale,
    readiness,
    state,
)
from ansible_collections.ascend.mindie.plugins.module_utils._motor import replace as rolling
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan import Plan, Step, update
from ansible_collections.ascend.mindie.plugins.module_utils._motor.record import with_applied
from tests.property import cases as generated
from tests.property import runner
from tests.property.cases import BACKENDS, JOBS, Case, cases
from tests.property.runner import Story

EXAMPLES = 1500


def found(backend: str) -> str:
    """What the property test says of a planted bug ("" when it does not notice it)."""

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(cases(backend))
    def holds(case: Case) -> None:
        Story(case).play()

    try:
        holds()
    except AssertionError as error:
        return str(error) or "assertion failed"
    return ""


def replanned(monkeypatch: pytest.MonkeyPatch, change: Callable[[Any, Plan], Plan]) -> None:
    """Every plan of the verb scale is changed by `change(snapshot, plan)`."""
    real = generated.plan_scale
    monkeypatch.setattr(generated, "plan_scale", lambda snapshot, *args, **kwargs: change(snapshot, real(snapshot, *args, **kwargs)))


def resteps(monkeypatch: pytest.MonkeyPatch, change: Callable[[list[Step]], list[Step]]) -> None:
    """The steps that change counts are changed by `change`."""
    real = counts.steps
    monkeypatch.setattr(counts, "steps", lambda *args, **kwargs: tuple(change(list(real(*args, **kwargs)))))


def record_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def recorded(snapshot: Any, plan: Plan) -> Plan:
        if not plan.record or not plan.steps:
            return plan
        done = with_applied(snapshot.config_map, plan.data or {}, plan.counts, at="", by="", run="early")
        return replace(plan, steps=(Step("record", (update(done, "too early"),)), *plan.steps), record=False)

    replanned(monkeypatch, recorded)


def record_never(monkeypatch: pytest.MonkeyPatch) -> None:
    replanned(monkeypatch, lambda dummy, plan: replace(plan, record=False))


def interrupted_run_never_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_scale, "unfinished_verb", lambda snapshot: None)
    monkeypatch.setattr(plan_deploy, "unfinished_verb", lambda snapshot: None)


def grow_first(monkeypatch: pytest.MonkeyPatch) -> None:
    resteps(monkeypatch, lambda steps: steps[::-1])


def grow_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    resteps(monkeypatch, lambda steps: [replace(step, until="") for step in steps])


def stopping_instances_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    resteps(monkeypatch, lambda steps: [step for step in steps if step.writes])


def pods_taken_for_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    for until in ("gone", "reduced"):
        monkeypatch.setitem(runner.UNTIL, until, lambda snapshot, wanted: readiness.Verdict(True, ""))


def unready_taken_for_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "settled", lambda snapshot, wanted: readiness.Verdict(True, ""))


def index_reuse(monkeypatch: pytest.MonkeyPatch) -> None:
    real = counts.change

    def change(*args: Any) -> counts.CountChange:
        todo = real(*args)
        return replace(todo, add={role: tuple(range(len(indexes))) for role, indexes in todo.add.items()})

    monkeypatch.setattr(counts, "change", change)


def lowest_index_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_order", lambda found, chosen: lambda instance: (0, -instance.index))


def protection_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    real = counts.victims
    monkeypatch.setattr(counts, "victims", lambda found, role, surplus, chosen: real(found, role, surplus, replace(chosen, protect={})))


def health_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    real = counts.victims
    order = choice.HIGHEST_INDEX
    monkeypatch.setattr(counts, "victims", lambda found, role, surplus, chosen: real(found, role, surplus, replace(chosen, order=order)))


def owner_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state.count_owners, "find", lambda *args: {})


def namesake_taken_for_an_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "is_engine", lambda deployment: True)


def uid_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleting by name alone hits what somebody else has made under the same name meanwhile."""
    real = deployments.delete
    monkeypatch.setattr(deployments, "delete", lambda *args, **kwargs: replace(real(*args, **kwargs), preconditions={}))


def replaces_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    real = rolling.steps

    def steps(*args: Any) -> tuple[Step, ...]:
        found = real(*args)
        if not found:
            return ()
        deletes = tuple(write for step in found for write in step.writes if write.verb == "delete")
        creates = tuple(write for step in found for write in step.writes if write.verb == "create")
        subjects = tuple(subject for step in found for subject in step.subjects)
        last = replace(found[-1], subjects=subjects, until="running")
        return (replace(last, writes=deletes, until="gone"), replace(last, writes=creates)) if creates else (replace(last, writes=deletes),)

    monkeypatch.setattr(rolling, "steps", steps)


def other_indexes_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_deploy, "_with_live_indexes", lambda snapshot, rendered, todo, found: rendered)


def more_than_counts_written(monkeypatch: pytest.MonkeyPatch) -> None:
    real = plan_scale.with_counts

    class Compact:
        def __init__(self, config: Any) -> None:
            self.text = json.dumps(config.data)

    monkeypatch.setattr(plan_scale, "with_counts", lambda config, wanted: Compact(real(config, wanted)))


def jobs_before_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    resteps(monkeypatch, lambda steps: sorted(steps, key=lambda step: step.title == ascend_jobs.RULE_STEP))


def rule_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ascend_jobs, "rule_steps", lambda *args: ())


def group_left_out_of_smaller_tiers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in rules that crash the operator."""
    real = ascend_jobs.write

    def write(tiers: Any) -> str:
        document = json.loads(real(tiers))
        for tier in document["elastic_scaling_list"][1:]:
            del tier["group_list"][0]
        return json.dumps(document)

    monkeypatch.setattr(ascend_jobs, "write", write)


def pod_groups_taken_for_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name is free as soon as job and pods are gone."""
    real = state.job_facts.facts
    monkeypatch.setattr(state.job_facts, "facts", lambda *args: (fact for fact in real(*args) if fact.pods or not fact.leaving))


def rank_table_after_job(monkeypatch: pytest.MonkeyPatch) -> None:
    resteps(monkeypatch, lambda steps: sorted(steps, key=lambda step: "rank tables" in step.title))


def rank_tables_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ascend_jobs, "delete_rank_table", lambda *args: ())
    monkeypatch.setattr(ascend_jobs, "left_over", lambda snapshot: ())


def prefill_before_decode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "GROW_ORDER", counts.GROW_ORDER[::-1])


def held_jobs_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_spare", lambda found, instance: False)


# What the property test says; which of these comes first depends on the case that it finds first.
ROOM = "there is room for|pods are left|are still going|recorded too early"
ENDLESS = "does not end|the record says otherwise|still refused after|the baseline says"
SAYS = {
    record_first: "recorded too early",
    record_never: ENDLESS,
    interrupted_run_never_recorded: ENDLESS,
    grow_first: f"{ROOM}|though nobody else wrote",
    grow_without_waiting: ROOM,
    pods_taken_for_gone: ROOM,
    unready_taken_for_settled: "recorded too early",
    protection_ignored: "is protected",
    owner_ignored: "an autoscaler owns|InvalidInput",
    more_than_counts_written: "more than counts",
    replaces_all_at_once: "are not ready at once|there is room for|pods are left|exists",
}
# Bugs that only this backend can have.
ON_DEPLOYMENTS = {
    stopping_instances_not_waited_for: ROOM,
    index_reuse: "exists|pods are left",
    lowest_index_goes: "goes, .* stays",
    health_ignored: "goes, .* stays",
    namesake_taken_for_an_instance: "is not an instance|exists|waits in vain",
    uid_not_checked: "not bound",
    other_indexes_left_as_they_are: "another image are left",
}
# And only this one.
ON_JOBS = {
    jobs_before_rule: "before the rule",
    rule_left_as_it_is: "before the rule|the rule asks for",
    group_left_out_of_smaller_tiers: "the scaling rule is wrong",
    pod_groups_taken_for_gone: "its PodGroup is left|still going",
    rank_table_after_job: "before its rank table",
    rank_tables_left: "without a job|though nobody else wrote",
    prefill_before_decode: "comes before .* decode",
    held_jobs_stay: "makes no pods and stays",
}
# What the backends have in common is tried on AscendJobs where these go another way.
SHARED = {grow_without_waiting, pods_taken_for_gone, unready_taken_for_settled, replaces_all_at_once}
PLANTED = [
    *((bug, backend) for bug in SAYS for backend in BACKENDS if backend != JOBS or bug in SHARED),
    *((bug, "deployments") for bug in ON_DEPLOYMENTS),
    *((bug, JOBS) for bug in (*ON_JOBS, index_reuse, uid_not_checked)),
]


@pytest.mark.parametrize(("bug", "backend"), PLANTED, ids=lambda value: getattr(value, "__name__", value))
def test_the_property_test_finds(monkeypatch: pytest.MonkeyPatch, bug: Callable[[pytest.MonkeyPatch], None], backend: str) -> None:
    bug(monkeypatch)
    said = found(backend)
    expected = {**SAYS, **ON_DEPLOYMENTS, **ON_JOBS}[bug]
    assert re.search(expected, said), f"{bug.__name__} goes unnoticed, or something else was found: {said!r}"
