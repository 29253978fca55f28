# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb `deploy`: bring a service into being, or converge a live one; pods are restarted only when that is allowed."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from . import baseline, counts, deployments, generation, replace, siblings
from .choice import Choice
from .converge import OTHER_START, WORKLOADS, Convergence, Outdated, converge, is_going, live_objects, marked
from .errors import InputError, Refused
from .guard import DEPLOY as VERB
from .guard import unfinished_verb
from .job_facts import BACKEND as JOBS
from .job_facts import failed_for_good
from .plan import GONE, Plan, Step, Subject, Write, create, update
from .plan_config import refuse_not_allowed, refuse_restart
from .plan_remove import belongs
from .record import USER_CONFIG_KEY, applied_of, with_data
from .rendered import Rendered
from .state import ServiceState, Snapshot, service_state
from .user_config import UserConfig

_REFERRING = WORKLOADS | {"ClusterRoleBinding"}
_WHY_NEW_SET = "new pods are to differ; the operator never changes the ones that run"
_MADE_ANEW = "It never comes back by itself: set allow_restart: true to have it made anew, or remove it (order: unhealthy_first)."
_WHY_RECORD = "record that the service is as its configuration says"


def plan_deploy(
    snapshot: Snapshot,
    config: UserConfig,
    rendered: Rendered | None,
    stored: UserConfig | None,
    namespace: Mapping[str, Any] | None = None,
    choice: Choice | None = None,
    *,
    allow_restart: bool = False,
) -> Plan:
    """Plan the service that `config` describes. `rendered` may be None for a live service (its scripts and objects stay);
    `namespace` is a Namespace to create first; `choice` says which instances may go. An autoscaler's count stays as it is.

    A service that was never reached in full may be restarted without asking: nobody relies on it yet.
    """
    if choice:
        choice.require_known(tuple(config.counts))
    if stored is None:
        return _fresh(snapshot, config, _needed(snapshot, rendered), namespace, allow_restart=allow_restart)
    changes = baseline.compare(stored.data, config.data)
    refuse_not_allowed(snapshot, changes)
    restart = allow_restart or _never_reached(snapshot)
    if not restart:
        refuse_restart(snapshot, changes)
    data, early = _data(snapshot, config, rendered, changes)
    value = generation.generation(data)
    state = service_state(snapshot)
    wanted, notices = counts.keep_owned(state, _engine_counts(config))
    rendered = _with_live_indexes(snapshot, rendered, counts.change(state, wanted, choice), state)
    found = converge(snapshot, rendered, value) if rendered else Convergence()
    outdated = _outdated(snapshot, found, value)
    _refuse_old(snapshot, rendered, value)
    failed = _failed_jobs(snapshot, outdated)
    if restart:
        outdated = (*outdated, *failed)
    else:
        _refuse_objects(snapshot, _reasons(snapshot, data, (*found.outdated, *outdated)))
        notices = (*notices, *(f"AscendJob {item.name}: {item.why}. {_MADE_ANEW}" for item in failed))
    steps = [
        *([Step("update motor-config", (_config_write(snapshot, data, early),))] if early else []),
        *_object_steps(snapshot, (*found.writes, *found.prune)),
        *([Step("change the InferServiceSet", (update(found.new_set, _WHY_NEW_SET),))] if found.new_set else []),
        *_instance_steps(snapshot, state, wanted, _marked_templates(rendered, value), choice, outdated, value, found),
    ]
    unfinished = unfinished_verb(snapshot) is not None
    return Plan(
        verb=VERB,
        namespace=snapshot.namespace,
        steps=tuple(steps),
        counts=wanted,
        counts_before=state.counts(),
        data=data,
        record=any(step.writes for step in steps) or unfinished or data != (snapshot.config_map or {}).get("data"),
        why_record=_WHY_RECORD,
        settles=not (steps and counts.only_shrink(steps)) or unfinished,
        notices=notices,
    )


def _fresh(snapshot: Snapshot, config: UserConfig, rendered: Rendered, namespace: Mapping[str, Any] | None, *, allow_restart: bool) -> Plan:
    """There is no baseline; workloads that are there all the same are taken over, those that differ only when they may be restarted."""
    steps = [Step("create the namespace", (create(namespace, "the namespace is missing"),))] if namespace else []
    data = dict(rendered.config_map["data"])
    value = generation.generation(data)
    steps.append(Step("write motor-config", (create(with_data(rendered.config_map, data), "pods read it when they start"),)))
    found = converge(snapshot, rendered, value)
    outdated = _outdated(snapshot, found, value)
    if not allow_restart:
        _refuse_objects(snapshot, _differing((*found.outdated, *outdated)))
    steps.extend(_object_steps(snapshot, (*found.writes, *found.prune)))
    steps.extend([Step("change the InferServiceSet", (update(found.new_set, _WHY_NEW_SET),))] if found.new_set else [])
    state = service_state(snapshot)
    steps.extend(_instance_steps(snapshot, state, _engine_counts(config), _marked_templates(rendered, value), None, outdated, value, found))
    return Plan(
        verb=VERB,
        namespace=snapshot.namespace,
        steps=tuple(steps),
        counts=_engine_counts(config),
        data=data,
        record=True,
        why_record=_WHY_RECORD,
    )


def _instance_steps(
    snapshot: Snapshot,
    state: ServiceState,
    wanted: Mapping[str, int],
    templates: counts.Templates,
    choice: Choice | None,
    outdated: Sequence[Outdated],
    value: str,
    found: Convergence,
) -> list[Step]:
    """Shrink, grow, then replace what is outdated of what stays."""
    if _creates_set(found.writes):
        return []
    steps = list(counts.steps(snapshot, state, wanted, templates, choice))
    writes = [write for step in steps for write in step.writes]
    gone = {removal.name for write in writes for removal in write.removed}
    staying = [item for item in outdated if item.name not in gone]
    created = [replace.subject(write.body) for write in writes if write.verb == "create" and write.kind in WORKLOADS]
    steps.extend(
        replace.steps(snapshot, staying, [*created, *_starting(snapshot, found, {*gone, *(item.name for item in staying)})], value)
    )
    if unfinished_verb(snapshot):
        steps.extend(replace.unfinished_rollouts(snapshot, staying))
    return steps


def _starting(snapshot: Snapshot, found: Convergence, others: Collection[str]) -> list[Subject]:
    """Workloads of the service that are as wanted and do not run yet: what an interrupted run has replaced last."""
    current = snapshot.workloads if snapshot.backend == "infer_service_set" else found.current
    staying = (live for live in current if live["metadata"]["name"] not in others)
    return [replace.subject(live) for live in staying if replace.is_starting(snapshot, live)]


def _outdated(snapshot: Snapshot, found: Convergence, value: str) -> tuple[Outdated, ...]:
    if snapshot.backend == "infer_service_set":
        return replace.outdated_children(snapshot, found.new_set or snapshot.infer_service_set, value)
    return found.outdated


def _failed_jobs(snapshot: Snapshot, outdated: Sequence[Outdated]) -> tuple[Outdated, ...]:
    """AscendJobs that the operator has given up. What is left of one keeps its NPUs, so it is made anew like one that is outdated."""
    known = {item.name for item in outdated}
    jobs = ((job, failed_for_good(job)) for job in snapshot.jobs if belongs(job) and not is_going(job))
    return tuple(
        Outdated(job, (), siblings.cleaned(job), f"it has failed for good ({why})")
        for job, why in jobs
        if why and job["metadata"]["name"] not in known
    )


def _with_live_indexes(snapshot: Snapshot, rendered: Rendered | None, todo: counts.CountChange, state: ServiceState) -> Rendered | None:
    """Rendered are the indexes from 0; instances that stay under other ones are to be alike."""
    if rendered is None or snapshot.backend == "infer_service_set":
        return rendered
    known = {(role, index) for role, index, _obj in rendered.instances}
    templates = {role: obj for role, _index, obj in reversed(rendered.instances)}
    others = tuple(
        (role, instance.index, deployments.clone(template, snapshot, role, instance.index))
        for role, template in templates.items()
        for instance in state.live(role)
        if (role, instance.index) not in known and instance.index not in todo.remove.get(role, ())
    )
    return dataclasses.replace(rendered, instances=(*rendered.instances, *others))


def _marked_templates(rendered: Rendered | None, value: str) -> counts.Templates:
    return {(role, index): marked(obj, value) for role, index, obj in rendered.instances} if rendered else {}


def _never_reached(snapshot: Snapshot) -> bool:
    """Our own service whose first deployment has never ended."""
    return unfinished_verb(snapshot) == VERB and applied_of(snapshot.config_map) is None


def _needed(snapshot: Snapshot, rendered: Rendered | None) -> Rendered:
    if rendered is None:
        source = _source(snapshot)
        raise InputError(f"{source} is needed: no service is deployed in {snapshot.namespace} yet", source=source, path=source)
    return rendered


def _source(snapshot: Snapshot) -> str:
    """The option that says what workloads are made from."""
    return "job_templates" if snapshot.backend == JOBS else "release"


def _object_steps(snapshot: Snapshot, writes: tuple[Write, ...]) -> list[Step]:
    """What pods and bindings refer to comes first: the server lets only an administrator bind a role that is not there yet.
    A workload that is still being deleted, and pods that an InferServiceSet has left, are waited for before it is created anew.
    """
    going = {(obj["kind"], obj["metadata"]["name"]) for obj in live_objects(snapshot) if is_going(obj)}
    waits = [Step("wait for workloads that are being deleted", until=GONE, always=True)]
    first = tuple(write for write in writes if write.kind not in _REFERRING)
    then = tuple(write for write in writes if write.kind in _REFERRING)
    steps = [Step(title, part) for title, part in (("what workloads need", first), ("workloads", then)) if part]
    again = any(write.verb == "create" and (write.kind, write.name) in going for write in writes)
    return [*waits, *steps] if again or (_creates_set(writes) and service_state(snapshot).leaving()) else steps


def _engine_counts(config: UserConfig) -> dict[str, int]:
    """Counts of instances of their own; in single_container all of them live in one pod."""
    return {} if config.deploy_mode == "single_container" else dict(config.counts)


def _data(snapshot: Snapshot, config: UserConfig, rendered: Rendered | None, changes: baseline.Changes) -> tuple[dict[str, str], str]:
    """What `motor-config` will hold, and why it has to be written before anything else ("" when it need not be)."""
    live = dict((snapshot.config_map or {}).get("data") or {})
    data = {**(dict(rendered.config_map["data"]) if rendered else live), USER_CONFIG_KEY: live.get(USER_CONFIG_KEY, "")}
    if changes:
        data[USER_CONFIG_KEY] = config.text
    paths = [*changes.updatable, *changes.restart, *_scripts(snapshot, data)]
    return data, f"update {', '.join(paths)}" if paths else ""


def _scripts(snapshot: Snapshot, data: Mapping[str, str]) -> list[str]:
    """Scripts that differ: pods run them only when they start."""
    live = (snapshot.config_map or {}).get("data") or {}
    names = sorted(key for key in {*live, *data} - {USER_CONFIG_KEY} if live.get(key) != data.get(key))
    return [f"ConfigMap motor-config: data[{name}]" for name in names]


def _config_write(snapshot: Snapshot, data: Mapping[str, str], why: str) -> Write:
    return update(with_data(snapshot.config_map or {}, data), why)


def _reasons(snapshot: Snapshot, data: Mapping[str, str], outdated: Sequence[Outdated]) -> list[str]:
    """What takes a restart, each once; scripts that differ say why every workload has another start."""
    scripts = _scripts(snapshot, data)
    return [*scripts, *_differing(outdated, unless=OTHER_START if scripts else "")]


def _differing(outdated: Sequence[Outdated], unless: str = "") -> list[str]:
    """In what workloads differ, each once, but for one path."""
    found = (f"{item.live['kind']} {item.name}: {path}" for item in outdated for path in item.paths if path != unless)
    return list(dict.fromkeys(found))


def _refuse_old(snapshot: Snapshot, rendered: Rendered | None, value: str) -> None:
    """Without a release there is nothing to make new workloads from."""
    unmarked = generation.of_baseline(snapshot.config_map)
    ours = [obj for obj in snapshot.own_workloads if belongs(obj)]
    old = [obj for obj in (*ours, *snapshot.workloads) if generation.is_other(obj["metadata"], unmarked, value)]
    if rendered is None and old:
        source = _source(snapshot)
        wrong = f"{source} is needed: instances of {snapshot.namespace} have to be replaced, and are made from its templates"
        raise InputError(wrong, source=source, path=source)


def _refuse_objects(snapshot: Snapshot, paths: Sequence[str]) -> None:
    if not paths:
        return
    raise Refused(
        f"Cannot converge the live service {snapshot.namespace} without restarting pods: {'; '.join(paths)}. "
        "Set allow_restart: true to replace its instances one after the other, or undo this change of config, env or release.",
        reason="RestartNeeded",
        paths=tuple(paths),
    )


def _creates_set(writes: tuple[Write, ...]) -> bool:
    """The InferServiceSet is new, so its counts are right from the start."""
    return any(write.kind == "InferServiceSet" and write.verb == "create" for write in writes)
