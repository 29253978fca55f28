# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks a scaling rule against what is live: its jobs, their PodGroups, the servers, and the controllers that read it.

What is found at single jobs is in `rule_jobs.py`; here is what concerns the rule as a whole.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from . import rule_jobs
from .capacity import impossible_tiers
from .capacity_model import Server, Shape
from .errors import InputError
from .findings import NOTE, WARNING, Finding, by_severity
from .job_facts import GROUP_LABEL, RULE_LABEL, TASK_LABEL, Census
from .rule_codes import finding
from .rule_jobs import LiveTask, Object, Task, nearest
from .rule_object import CHANGED
from .rule_reader import NAME, Reading, Sizes
from .scaling_rule import may_count

__all__ = ["LiveTask", "lint_live"]

_PREFILL, _DECODE = "prefill", "decode"
# More are not laid out in every order.
_MOST_GROUPS = 4
_ROLE_IN_NAME = re.compile(r"-([pd])[0-9]+$")
_ROLE = {"p": _PREFILL, "d": _DECODE}


def lint_live(reading: Reading, live: LiveTask) -> tuple[Finding, ...]:
    """Check an accepted rule against what is live, the worst first. Nothing is found where `live` does not know."""
    counting = [index for index, counts in enumerate(may_count(reading.tiers)) if counts]
    census = Census(live.pod_groups)
    tasks = rule_jobs.tasks(live, census)
    found = [*_unnamed(live, tasks), *rule_jobs.check(reading, live, tasks, census)]
    if counting:
        for task in tasks:
            found += [*_surplus(reading, live, task), *_apart(reading.tiers[counting[-1]], live, tasks, task)]
            found += _short(reading, live, task, counting)
        found += [*_room(reading, live, counting), *_order(reading, live)]
    return by_severity([*found, *_old_readers(live)])


def _unnamed(live: LiveTask, tasks: Sequence[Task]) -> Iterator[Finding]:
    known = {task.name for task in tasks}
    for group in live.pod_groups:
        labels = rule_jobs.labels(group)
        if labels.get(RULE_LABEL) == live.rule_name and labels.get(TASK_LABEL) in known and GROUP_LABEL not in labels:
            name = rule_jobs.called(group, "PodGroup")
            yield finding("R605", f"{name} has no label {GROUP_LABEL}{nearest(GROUP_LABEL, labels)}", name=name)


def _surplus(reading: Reading, live: LiveTask, task: Task) -> Iterator[Finding]:
    """A rule smaller than what runs is on its way while a change is going on."""
    for group, size in reading.tiers[0].items():
        if task.running.get(group, 0) > size.number:
            message = f'{task.running[group]} instances of group "{group}" run, the first tier asks for {size.number}'
            severity = NOTE if live.intent_open else WARNING
            yield finding("R624", message, severity=severity, tier=0, group=group, name=live.called())


def _apart(smallest: Sizes, live: LiveTask, tasks: Sequence[Task], task: Task) -> Iterator[Finding]:
    """A few jobs with another jobID belong to the others; two whole tasks may well share a rule."""
    main = tasks[0].name
    if task.name == main or all(len(task.jobs.get(group, ())) >= size.number for group, size in smallest.items()):
        return
    near = nearest(task.name, [main]) or f' (the others: "{main}")'
    for job in (job for found in task.jobs.values() for job in found):
        name = rule_jobs.called(job)
        yield finding("R611", f'{name} has the {TASK_LABEL} "{task.name}"{near}', group=rule_jobs.labels(job)[GROUP_LABEL], name=name)


def _short(reading: Reading, live: LiveTask, task: Task, counting: Sequence[int]) -> Iterator[Finding]:
    """The smallest tier that asks for more instances of a group than there are jobs."""
    for index in reversed(counting if task.jobs else ()):
        short = [(group, size.number) for group, size in reading.tiers[index].items() if size.number > len(task.jobs.get(group, ()))]
        if short:
            grave = index == counting[-1] and not live.intent_open
            for group, number in short:
                message = f'tier {index} asks for {number} instances of group "{group}", there are {len(task.jobs.get(group, ()))} jobs'
                yield finding("R625", message, severity=WARNING if grave else NOTE, tier=index, group=group, name=live.called())
            return


def _room(reading: Reading, live: LiveTask, counting: Sequence[int]) -> Iterator[Finding]:
    """Tiers that do not fit even when all servers are well and empty."""
    if not live.servers:
        return
    npus, no_room = [server.npus for server in live.servers], _no_room(reading.tiers, counting, live)
    for index in reversed(counting):
        wrong = _too_large(reading.tiers[index], live.shapes, npus) or no_room.get(index, "")
        if wrong:
            code = "R623" if index == counting[-1] else "R622"
            yield finding(code, f"tier {index}: {wrong}", tier=index, name=live.called())
            if code == "R623":
                return


def _too_large(tier: Sizes, shapes: Mapping[str, Shape], servers: Sequence[int]) -> str:
    """Why the pods of a tier cannot be on these servers (NPUs of each), or "": what is said is sure, what is not said may still be."""
    pods: Counter[int] = Counter()
    for group, size in tier.items():
        if group in shapes:
            pods[shapes[group].npus_per_pod] += max(0, size.number) * shapes[group].pods
    total = sum(npus * number for npus, number in pods.items())
    if total > sum(servers):
        return f"it needs {total} NPUs, the servers have {sum(servers)}"
    for least in sorted(npus for npus in pods if npus):
        wanted = sum(number for npus, number in pods.items() if npus >= least)
        places = sum(npus // least for npus in servers)
        if wanted > places:
            return f"it has {wanted} pods of at least {least} NPUs, the servers have room for {places}"
    return ""


def _no_room(tiers: Sequence[Sizes], counting: Sequence[int], live: LiveTask) -> dict[int, str]:
    """The same by laying out all instances, which knows of super pods, by tier; for as many groups as a service has."""
    judged = [index for index in counting if len(tiers[index]) <= _MOST_GROUPS]
    whole = [Server(server.name, server.npus, server.super_pod) for server in live.servers]
    try:
        found = impossible_tiers(whole, list(live.shapes.values()), [tiers[index] for index in judged])
    except InputError:
        return {}
    return {judged[place]: "its instances find no room beside each other" for place in found}


def _order(reading: Reading, live: LiveTask) -> Iterator[Finding]:
    """Motor's controller takes the first two entries of the first tier for prefill and decode."""
    role_of = _roles(live)
    order = [entry.texts.get(NAME, "") for entry in reading.decoded[0].entries()]
    for position, (group, role) in enumerate(zip(order, (_PREFILL, _DECODE), strict=False)):
        found = role_of.get(group)
        if found is not None and found != role:
            message = f'group "{group}" with the {found} jobs stands at place {position + 1}, where the {role} group is expected'
            yield finding("R626", message, tier=0, group=group, name=live.called())


def _roles(live: LiveTask) -> dict[str, str]:
    """The engine role of each group: as told, else by the names of its jobs when they agree."""
    if live.groups:
        return {group: role for role, group in live.groups.items()}
    found: dict[str, set[str]] = defaultdict(set)
    for job in live.ours():
        match = _ROLE_IN_NAME.search(job["metadata"]["name"])
        if match:
            found[rule_jobs.labels(job).get(GROUP_LABEL, "")].add(_ROLE[match[1]])
    return {group: next(iter(roles)) for group, roles in found.items() if len(roles) == 1}


def _old_readers(live: LiveTask) -> Iterator[Finding]:
    changed = _changed(live.rule)
    for pod in live.controllers:
        started = _time((pod.get("status") or {}).get("startTime") or pod["metadata"].get("creationTimestamp"))
        if changed and started and started < changed and _mounts_file(pod, live.rule_name):
            name = rule_jobs.called(pod, "Pod")
            wrong = f"{name} runs since {started.isoformat()}, the rule was changed at {changed.isoformat()}"
            yield finding("R701", wrong, name=name)


def _changed(rule: Object | None) -> datetime | None:
    """When the data of the rule were written last."""
    metadata = (rule or {}).get("metadata") or {}
    told = _time((metadata.get("annotations") or {}).get(CHANGED))
    if told:
        return told
    times = [_time(entry.get("time")) for entry in metadata.get("managedFields") or () if "f:data" in (entry.get("fieldsV1") or {})]
    known = [time for time in (*times, _time(metadata.get("creationTimestamp"))) if time]
    return max(known, default=None)


def _time(text: str | None) -> datetime | None:
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo else None


def _mounts_file(pod: Object, rule_name: str) -> bool:
    """Whether a container of the pod mounts a single file of the ConfigMap, which is never refreshed."""
    spec = pod.get("spec") or {}
    volumes = {volume["name"] for volume in spec.get("volumes") or () if (volume.get("configMap") or {}).get("name") == rule_name}
    mounts = [mount for container in spec.get("containers") or () for mount in container.get("volumeMounts") or ()]
    return any(mount.get("name") in volumes and (mount.get("subPath") or mount.get("subPathExpr")) for mount in mounts)
