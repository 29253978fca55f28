# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks the AscendJobs beside a scaling rule, one by one: whether the operator accepts, counts and restarts them as they are meant to be."""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .capacity_model import Server, Shape
from .findings import Finding
from .job_facts import GROUP_LABEL, RETRIES_LABEL, RULE_LABEL, TASK_LABEL, Census, failed_for_good
from .ownership import ENGINE_JOB_APP
from .rank_tables import rank_table_name
from .rule_codes import finding
from .rule_reader import Reading, integer
from .scaling_rule import decide
from .workloads import ASCEND_JOB, JOB_LABEL, pod_count

Object = Mapping[str, Any]

FRAMEWORK_LABEL = "framework"
FRAMEWORKS = ("pytorch", "mindspore", "tensorflow")
# Restarts are counted over the whole life of a job; what is used up in months is too few.
FEW_RESTARTS = 1000
_ALIKE = 0.6
# Comparing takes a while, and of hundreds of names some are always alike.
_MOST_WORDS = 100


@dataclass(frozen=True)
class LiveTask:
    """What is live beside a rule. What is empty or None is not known, and not checked.

    `jobs`, `pod_groups`, `pods` are those of the namespace. `rule` is the ConfigMap, `rule_names` are the scaling rules of the
    namespace, `rank_tables` the names of ConfigMaps `rings-config-*`, `controllers` the pods of Motor's controller, `groups` the group
    of each engine role, `task` the jobID. `servers` are all that there are, `shapes` what an instance of each group is like.
    `intent_open`: a change of ours is not finished.
    """

    namespace: str
    rule_name: str
    jobs: tuple[Object, ...]
    pod_groups: tuple[Object, ...]
    pods: tuple[Object, ...] = ()
    rule: Object | None = None
    rule_names: tuple[str, ...] | None = None
    rank_tables: frozenset[str] | None = None
    controllers: tuple[Object, ...] = ()
    servers: tuple[Server, ...] = ()
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    task: str = ""
    intent_open: bool = False

    def called(self) -> str:
        """The rule in messages."""
        return f"ConfigMap {self.namespace}/{self.rule_name}"

    def staying(self) -> list[Object]:
        """The jobs that are not being deleted."""
        return [job for job in self.jobs if not job["metadata"].get("deletionTimestamp")]

    def ours(self) -> list[Object]:
        """Those of them that name the rule."""
        return [job for job in self.staying() if labels(job).get(RULE_LABEL) == self.rule_name]


@dataclass(frozen=True)
class Task:
    """The jobs that are counted together: those of one jobID, by group, and how many instances run."""

    name: str
    jobs: Mapping[str, list[Object]]
    running: Mapping[str, int]


def labels(obj: Object) -> Mapping[str, str]:
    """Its labels."""
    return obj["metadata"].get("labels") or {}


def called(obj: Object, kind: str = ASCEND_JOB) -> str:
    """An object in messages."""
    return f"{kind} {obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"


def nearest(word: str, words: Iterable[str]) -> str:
    """The one that is most like `word`, to be put behind it; "" when none is."""
    among = list(words)
    near = difflib.get_close_matches(word, among, n=1, cutoff=_ALIKE) if len(among) <= _MOST_WORDS else ()
    return f' (nearest: "{near[0]}")' if near else ""


def tasks(live: LiveTask, census: Census) -> list[Task]:
    """The tasks that share the rule, the one that is meant (or has most jobs) first."""
    jobs: dict[str, dict[str, list[Object]]] = defaultdict(lambda: defaultdict(list))
    number: Counter[str] = Counter({live.task: len(live.jobs) + 1}) if live.task else Counter()
    for job in live.ours():
        own = labels(job)
        if TASK_LABEL in own and GROUP_LABEL in own:
            jobs[own[TASK_LABEL]][own[GROUP_LABEL]].append(job)
            number[own[TASK_LABEL]] += 1
    ordered = sorted(number, key=lambda name: (-number[name], name))
    return [Task(name, jobs[name], census.running(live.rule_name, name)) for name in ordered]


def check(reading: Reading, live: LiveTask, among: Iterable[Task], census: Census) -> Iterator[Finding]:
    """Everything that there is to say about single jobs. `among` are the `tasks`."""
    counts = {task.name: task.running for task in among}
    with_pods = {labels(pod).get(JOB_LABEL) for pod in live.pods}
    for job in live.staying():
        if labels(job).get(RULE_LABEL) != live.rule_name:
            yield from _stranger(job, live, counts)
            continue
        name = called(job)
        if GROUP_LABEL in labels(job) and TASK_LABEL in labels(job):
            yield from _in_rule(job, name, reading, counts[labels(job)[TASK_LABEL]])
        else:
            yield from _incomplete(job, name)
        own = census.pod_group(job)
        yield from _accepted(job, name)
        yield from _pod_group(job, name, own, has_pods=job["metadata"]["name"] in with_pods)
        yield from _restarts(job, name)
        wanted = rank_table_name(job["metadata"]["name"])
        if live.rank_tables is not None and wanted not in live.rank_tables:
            yield finding("R616", f"{name} has no ConfigMap {wanted}{nearest(wanted, live.rank_tables)}", name=name)


def _in_rule(job: Object, name: str, reading: Reading, counts: Mapping[str, int]) -> Iterator[Finding]:
    """A job with all labels, against the groups of the rule."""
    group = labels(job)[GROUP_LABEL]
    if not reading.tiers:
        return
    largest = reading.tiers[0]
    decision = decide(reading.tiers, counts, group)
    near = "" if group in largest else nearest(group, largest) or f" (it has {', '.join(sorted(largest))})"
    if decision.crashes:
        yield finding(
            "R601", f'{name} is of group "{group}", which tier {decision.tier} lacks{near}', tier=decision.tier, group=group, name=name
        )
    elif group not in largest:
        yield finding("R602", f'{name} is of group "{group}", which the rule lacks{near}', group=group, name=name)
    elif pod_count(job) != largest[group].servers:
        message = f"{name} has {pod_count(job)} pods, server_num_per_group of its group is {largest[group].servers}"
        yield finding("R621", message, group=group, name=name)


def _incomplete(job: Object, name: str) -> Iterator[Finding]:
    for label in (GROUP_LABEL, TASK_LABEL):
        if label not in labels(job):
            others = [other for other in labels(job) if other not in (RULE_LABEL, GROUP_LABEL, TASK_LABEL)]
            yield finding("R603", f"{name} has no label {label}{nearest(label, others)}", name=name)


def _stranger(job: Object, live: LiveTask, counts: Mapping[str, Any]) -> Iterator[Finding]:
    """A job that does not name the rule, though it seems to belong to it."""
    own, name = labels(job), called(job)
    rule = own.get(RULE_LABEL)
    same_task = own.get(TASK_LABEL) in counts and own.get("app") == ENGINE_JOB_APP
    if rule is None:
        if same_task:
            yield finding(
                "R613", f"{name} has no label {RULE_LABEL}{nearest(RULE_LABEL, [key for key in own if key != GROUP_LABEL])}", name=name
            )
    elif rule not in (live.rule_names or ()):
        near = nearest(rule, [live.rule_name])
        if near or same_task:
            yield finding("R612", f'{name} names the scaling rule "{rule}"{near}', name=name)


def _accepted(job: Object, name: str) -> Iterator[Finding]:
    """What makes the operator refuse or give up a job."""
    own = labels(job)
    framework = own.get(FRAMEWORK_LABEL)
    if framework not in FRAMEWORKS:
        wrong = f"the framework {framework!r}{nearest(framework, FRAMEWORKS)}" if framework else f"no label {FRAMEWORK_LABEL}"
        yield finding("R604", f"{name} has {wrong}", name=name)
    failed = failed_for_good(job)
    if failed:
        yield finding("R619", f"{name} has failed for good: {failed}", name=name)


def _pod_group(job: Object, name: str, pod_group: Object | None, *, has_pods: bool) -> Iterator[Finding]:
    if pod_group is None:
        # A job that has failed loses its PodGroup and may keep pods.
        if has_pods and not failed_for_good(job):
            yield finding("R615", f"{name} has pods and no PodGroup", name=name)
        return
    for label in (RULE_LABEL, TASK_LABEL, GROUP_LABEL):
        now, then = labels(job).get(label), labels(pod_group).get(label)
        if now != then:
            message = f"{name} has {label} {_shown(now)}, its PodGroup {pod_group['metadata']['name']} has {_shown(then)}"
            yield finding("R614", message, group=labels(job).get(GROUP_LABEL), name=name)


def _shown(label: str | None) -> str:
    return "none" if label is None else f'"{label}"'


def _restarts(job: Object, name: str) -> Iterator[Finding]:
    """How often a job comes back before it has failed for good."""
    text = labels(job).get(RETRIES_LABEL)
    retries = integer(text) if text else 0  # the operator takes an empty label for none
    if retries is None:
        yield finding("R606", f'{name} has {RETRIES_LABEL} "{text}"', name=name)
        return
    if retries <= 0:
        yield finding("R618", f"{name} has {f'{RETRIES_LABEL} {text}' if text else f'no label {RETRIES_LABEL}'}", name=name)
    limit = ((job.get("spec") or {}).get("runPolicy") or {}).get("backoffLimit")
    key, limit = (RETRIES_LABEL, retries) if limit is None else ("backoffLimit", int(limit))
    if 0 < limit < FEW_RESTARTS:
        yield finding("R617", f"{name} has {key} {limit}: it has failed for good at restart {limit + 1}", name=name)
