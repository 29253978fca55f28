# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb `deploy`: bring a service into being, or converge a live one without restarting a pod."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from . import baseline, counts, owners
from .choice import Choice
from .compare import differences, merged
from .errors import InputError, Refused
from .guard import unfinished_verb
from .instances import ENGINE_ROLES
from .manifests import Rendered
from .manifests.identity import keep_identity
from .ownership import is_ours
from .plan import GONE, Plan, Step, Write, create, delete, update
from .plan_config import refuse_restart
from .record import USER_CONFIG_KEY, with_data
from .state import Snapshot, is_deleted, service_state
from .user_config import UserConfig

VERB = "deploy"
_WORKLOADS = frozenset({"Deployment", "InferServiceSet"})
_REFERRING = _WORKLOADS | {"ClusterRoleBinding"}
# Claims hold data: they are created, never pruned.
_KEPT = frozenset({"PersistentVolumeClaim"})


def plan_deploy(
    snapshot: Snapshot,
    config: UserConfig,
    rendered: Rendered | None,
    stored: UserConfig | None,
    namespace: Mapping[str, Any] | None = None,
    choice: Choice | None = None,
) -> Plan:
    """Plan the service that `config` describes. `rendered` may be None for a live service (its scripts and objects stay);
    `namespace` is a Namespace to create first; `choice` says which instances may go. An autoscaler's count stays as it is.
    """
    if choice:
        choice.require_known(tuple(config.counts))
    if stored is None:
        return _fresh(snapshot, config, _needed(snapshot, rendered), namespace)
    changes = baseline.compare(stored.data, config.data)
    refuse_restart(snapshot, changes)
    state = service_state(snapshot)
    wanted, notices = counts.keep_owned(state, _engine_counts(config))
    data = _data(snapshot, config, rendered, changed=bool(changes.counts or changes.updatable))
    updates = _converge(snapshot, rendered) if rendered else ()
    steps: list[Step] = []
    if changes.updatable:
        steps.append(Step("update motor-config", (_config_write(snapshot, data, f"update {', '.join(changes.updatable)}"),)))
    steps.extend(_object_steps(snapshot, updates))
    if not _creates_set(updates):
        templates = {(role, index): obj for role, index, obj in rendered.instances} if rendered else {}
        steps.extend(counts.steps(snapshot, state, wanted, templates, choice))
    unfinished = unfinished_verb(snapshot) is not None
    return Plan(
        verb=VERB,
        namespace=snapshot.namespace,
        steps=tuple(steps),
        counts=wanted,
        counts_before=state.counts(),
        data=data,
        record=any(step.writes for step in steps) or unfinished or data != (snapshot.config_map or {}).get("data"),
        why_record="record that the service is as its configuration says",
        settles=not (steps and counts.only_shrink(steps)) or unfinished,
        notices=notices,
    )


def _needed(snapshot: Snapshot, rendered: Rendered | None) -> Rendered:
    if rendered is None:
        raise InputError(f"release is needed: no service is deployed in {snapshot.namespace} yet", source="release", path="release")
    return rendered


def _fresh(snapshot: Snapshot, config: UserConfig, rendered: Rendered, namespace: Mapping[str, Any] | None) -> Plan:
    steps = [Step("create the namespace", (create(namespace, "the namespace is missing"),))] if namespace else []
    config_map = with_data(rendered.config_map, rendered.config_map["data"])
    steps.append(Step("write motor-config", (create(config_map, "pods read it when they start"),)))
    updates = _converge(snapshot, rendered)
    steps.extend(_object_steps(snapshot, updates))
    if not _creates_set(updates):
        templates = {(role, index): obj for role, index, obj in rendered.instances}
        steps.extend(counts.steps(snapshot, service_state(snapshot), _engine_counts(config), templates))
    return Plan(
        verb=VERB,
        namespace=snapshot.namespace,
        steps=tuple(steps),
        counts=_engine_counts(config),
        data=dict(rendered.config_map["data"]),
        record=True,
        why_record="record that the service is as its configuration says",
    )


def _object_steps(snapshot: Snapshot, writes: tuple[Write, ...]) -> list[Step]:
    """What pods and bindings refer to comes first: the server lets only an administrator bind a role that is not there yet.
    A workload that is still being deleted, and pods that an InferServiceSet has left, are waited for before it is created anew.
    """
    going = {(obj["kind"], obj["metadata"]["name"]) for obj in _live_objects(snapshot) if _is_going(obj)}
    waits = [Step("wait for workloads that are being deleted", until=GONE, always=True)]
    first = tuple(write for write in writes if write.kind not in _REFERRING)
    then = tuple(write for write in writes if write.kind in _REFERRING)
    steps = [Step(title, part) for title, part in (("what workloads need", first), ("workloads", then)) if part]
    again = any(write.verb == "create" and (write.kind, write.name) in going for write in writes)
    return [*waits, *steps] if again or (_creates_set(writes) and service_state(snapshot).leaving()) else steps


def _engine_counts(config: UserConfig) -> dict[str, int]:
    """Counts of instances of their own; in single_container all of them live in one pod."""
    return {} if config.deploy_mode == "single_container" else dict(config.counts)


def _data(snapshot: Snapshot, config: UserConfig, rendered: Rendered | None, *, changed: bool) -> dict[str, str]:
    """What `motor-config` will hold. Scripts that differ would need new pods."""
    live = dict((snapshot.config_map or {}).get("data") or {})
    if rendered:
        wanted = dict(rendered.config_map["data"])
        scripts = sorted(key for key in {*live, *wanted} - {USER_CONFIG_KEY} if live.get(key) != wanted.get(key))
        if scripts:
            _refuse_objects(snapshot, [f"ConfigMap motor-config: data[{key}]" for key in scripts])
    if changed:
        live[USER_CONFIG_KEY] = config.text
    return live


def _config_write(snapshot: Snapshot, data: Mapping[str, str], why: str) -> Write:
    return update(with_data(snapshot.config_map or {}, data), why)


def _converge(snapshot: Snapshot, rendered: Rendered) -> tuple[Write, ...]:
    """Create what is missing, update what differs without a restart, prune what is no longer wanted."""
    live = {(obj["kind"], obj["metadata"]["name"]): obj for obj in _live_objects(snapshot) if not _is_going(obj)}
    writes: list[Write] = []
    restarts: list[str] = []
    for obj in [*rendered.objects, *(obj for _role, _index, obj in rendered.instances)]:
        key = (obj["kind"], obj["metadata"]["name"])
        found = live.get(key)
        if found is None:
            writes.extend([create(obj, "it is missing")] if obj in rendered.objects else [])
            continue
        wanted = keep_identity(_with_live_counts(snapshot, obj, found), found)
        paths = differences(wanted, found)
        restarts.extend(f"{key[0]} {key[1]}: {path}" for path in paths if _restarts(key[0], path))
        if paths:
            writes.append(update(merged(wanted, found), f"{', '.join(paths)} differs"))
    if restarts:
        _refuse_objects(snapshot, restarts)
    return (*writes, *_prune(snapshot, rendered))


def _refuse_objects(snapshot: Snapshot, paths: list[str]) -> None:
    raise Refused(
        f"Cannot converge the live service {snapshot.namespace} without restarting pods: {'; '.join(paths)}. "
        "Undo this change of config, env or release, or remove the service and deploy it anew.",
        reason="RestartNeeded",
        paths=tuple(paths),
    )


def _restarts(kind: str, path: str) -> bool:
    """True when this field reaches running pods only through a restart."""
    return kind in _WORKLOADS and path.startswith("spec")


def _with_live_counts(snapshot: Snapshot, obj: Mapping[str, Any], live: Mapping[str, Any]) -> Mapping[str, Any]:
    """With the live counts where they are not this step's: those of engine roles of an InferServiceSet change by their own
    steps, and the pods of a Deployment that has an autoscaler are the autoscaler's.
    """
    if obj["kind"] == "Deployment" and owners.scaled(snapshot.autoscalers, "Deployment", obj["metadata"]["name"]):
        return {**obj, "spec": {**obj["spec"], "replicas": live["spec"].get("replicas", 1)}}
    if obj["kind"] != "InferServiceSet":
        return obj
    current = {role["name"]: role.get("replicas") for role in live["spec"]["template"]["roles"]}
    wanted: dict[str, Any] = copy.deepcopy(dict(obj))
    for role in wanted["spec"]["template"]["roles"]:
        if role["name"] in ENGINE_ROLES and role["name"] in current:
            role["replicas"] = current[role["name"]]
    return wanted


def _prune(snapshot: Snapshot, rendered: Rendered) -> tuple[Write, ...]:
    wanted = {(obj["kind"], obj["metadata"]["name"]) for obj in rendered.objects}
    engines = {instance.name for instance in service_state(snapshot).instances}
    gone = []
    for obj in _live_objects(snapshot):
        key = (obj["kind"], obj["metadata"]["name"])
        if is_ours(obj) and key not in wanted and key[0] not in _KEPT and not (key[0] == "Deployment" and key[1] in engines):
            gone.append(delete(key[0], obj, "it is no longer wanted"))
    return tuple(gone)


def _live_objects(snapshot: Snapshot) -> list[Any]:
    found = [*snapshot.deployments, *snapshot.others.values()]
    return [*found, snapshot.infer_service_set] if snapshot.infer_service_set else found


def _is_going(obj: Mapping[str, Any]) -> bool:
    """True for a workload that was deleted and is there until its pods are gone."""
    return obj["kind"] in _WORKLOADS and is_deleted(obj)


def _creates_set(writes: tuple[Write, ...]) -> bool:
    """The InferServiceSet is new, so its counts are right from the start."""
    return any(write.kind == "InferServiceSet" and write.verb == "create" for write in writes)
