# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random cases: a service as it may be found, what is wished of it, and what happens meanwhile.

A new option of a verb is a new field of `Wish`, passed on in `planner`; a new thing that others do is a function in `events.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import yaml
from hypothesis import strategies as st

from ansible_collections.ascend.mindie.plugins.module_utils._motor import faults, json_reader
from ansible_collections.ascend.mindie.plugins.module_utils._motor.choice import Choice
from ansible_collections.ascend.mindie.plugins.module_utils._motor.job_settings import DEFAULTS
from ansible_collections.ascend.mindie.plugins.module_utils._motor.manifests.ascend_jobs import ROLES as JOB_ROLES
from ansible_collections.ascend.mindie.plugins.module_utils._motor.manifests.ascend_jobs import Template, render_jobs, template
from ansible_collections.ascend.mindie.plugins.module_utils._motor.ownership import metadata_labels
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan import Plan
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_config import plan_update
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_deploy import plan_deploy
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_remove import plan_remove
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_scale import plan_scale
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rank_tables import rank_table
from ansible_collections.ascend.mindie.plugins.module_utils._motor.record import with_applied
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rendered import Rendered
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_resize import for_counts
from ansible_collections.ascend.mindie.plugins.module_utils._motor.scaling_rule import write
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot
from ansible_collections.ascend.mindie.plugins.module_utils._motor.user_config import UserConfig, parse
from tests.property import events, facts
from tests.property.world import NAMESPACE, Obj, World
from tests.unit.plugins.module_utils._motor import releases

BACKENDS = {"deployments": "multi_deployment", "infer_service_set": "infer_service_set", "ascend_jobs": "ascend_jobs"}
JOBS = "ascend_jobs"
MOST = 4
IMAGES = ("registry.example/motor:1", "registry.example/motor:2")
INDEXES = 6


@dataclass(frozen=True)
class Wish:
    """What one task asks for. `omit_owned`: counts that an autoscaler owns are left out. `same_counts`: of the baseline, for update_config."""

    verb: str
    counts: tuple[tuple[str, int], ...]
    log_level: str = "INFO"
    omit_owned: bool = False
    same_counts: bool = True
    claims: bool = False
    order: str = "highest_index"
    protect: tuple[tuple[str, int], ...] = ()
    on_drift: str = "repair"
    during_fault: bool = True
    image: str = IMAGES[0]
    allow_restart: bool = False


@dataclass(frozen=True)
class Start:
    """A service as it is found. `live` and `going` are indexes by engine role; the baseline may say other counts."""

    baseline: tuple[tuple[str, int], ...]
    live: tuple[tuple[str, tuple[int, ...]], ...]
    going: tuple[tuple[str, int], ...] = ()
    by_deployer: bool = False
    owned: tuple[str, ...] = ()
    happened: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Case:
    """Where it begins (None: nothing is deployed), the wishes one after the other, and the script of what happens.

    Each item of the script is used at one moment of a run: `("go", n)`, `("stop", n)`, `("abandon", n)` (the next wish comes
    before this one is done) or an event.
    """

    backend: str
    hybrid: bool
    start: Start | None
    wishes: tuple[Wish, ...]
    script: tuple[tuple[str, int], ...] = ()
    stopping: int = 1
    seed: int = 0


ROLES = {False: ("prefill", "decode"), True: ("union",)}
_PICK = st.integers(0, 11)
_SCRIPT = st.lists(st.tuples(st.sampled_from(("go", "go", "stop", "stop", "abandon", *events.EVENTS)), _PICK), min_size=5, max_size=16)
_HAPPENED = st.lists(st.tuples(st.sampled_from(("pod_broken", "namesake_added", "pod_evicted")), _PICK), max_size=1)
_ANY_VERB = ("scale", "scale", "scale", "deploy", "deploy", "update_config", "remove")
# Pods of AscendJobs read nothing of motor-config, so that there is nothing to update.
_VERBS = {jobs: st.sampled_from([verb for verb in _ANY_VERB if not jobs or verb != "update_config"]) for jobs in (False, True)}
_CHANGING = st.sets(st.integers(0, INDEXES - 1), max_size=MOST).map(lambda found: tuple(sorted(found)))
_SETS_OF_INDEXES = {
    "deployments": _CHANGING,
    JOBS: _CHANGING,
    "infer_service_set": st.integers(0, MOST).map(lambda count: tuple(range(count))),
}


def _per_role(roles: tuple[str, ...], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.tuples(*(st.tuples(st.just(role), values) for role in roles))


_COUNTS = {hybrid: _per_role(roles, st.integers(1, MOST)) for hybrid, roles in ROLES.items()}


def _wishes(hybrid: bool, jobs: bool) -> st.SearchStrategy[Wish]:
    return st.builds(
        Wish,
        verb=_VERBS[jobs],
        counts=_COUNTS[hybrid],
        log_level=st.sampled_from(("INFO", "DEBUG")),
        omit_owned=st.booleans(),
        same_counts=st.sampled_from((True, True, False)),
        claims=st.booleans(),
        order=st.sampled_from(("highest_index", "highest_index", "unhealthy_first")),
        protect=st.lists(st.tuples(st.sampled_from(ROLES[hybrid]), st.integers(0, INDEXES - 1)), max_size=2).map(tuple),
        on_drift=st.sampled_from(("repair", "repair", "repair", "fail")),
        during_fault=st.sampled_from((True, True, False)),
        image=st.sampled_from((*IMAGES, IMAGES[0], IMAGES[0])),
        allow_restart=st.booleans(),
    )


_WISHES = {(hybrid, jobs): st.lists(_wishes(hybrid, jobs), min_size=1, max_size=3).map(tuple) for hybrid in ROLES for jobs in (False, True)}
_GOING = st.lists(st.tuples(st.integers(0, 1), st.integers(0, INDEXES - 1)), max_size=2, unique=True)


def _start(roles: tuple[str, ...], backend: str, *parts: Any) -> Start:
    baseline, live, going, by_deployer, owned, happened = parts
    taken = {(role, index) for role, indexes in live for index in indexes}
    places = {(roles[number % len(roles)], index) for number, index in going} - taken if backend != "infer_service_set" else set()
    if backend == JOBS:  # no other deployer makes one, and no autoscaler knows AscendJobs
        by_deployer, owned = False, 1
    return Start(baseline, live, tuple(sorted(places)), by_deployer, roles[:1] if owned == 0 else (), tuple(happened))


def _cases_of(backend: str, hybrid: bool, deployed: bool) -> st.SearchStrategy[Case]:
    live = _per_role(ROLES[hybrid], _SETS_OF_INDEXES[backend])
    start = partial(_start, ROLES[hybrid], backend)
    starts = st.builds(start, _COUNTS[hybrid], live, _GOING, st.booleans(), st.integers(0, 4), _HAPPENED) if deployed else st.none()
    made = partial(Case, backend, hybrid)
    return st.builds(made, starts, _WISHES[hybrid, backend == JOBS], _SCRIPT.map(tuple), st.integers(1, 3), st.integers(0, 999))


# Hybrid services (not of AscendJobs) and empty namespaces are the rarer cases.
_MIX = ((False, True), (False, True), (False, True), (False, False), (True, True), (True, False))


def cases(backend: str) -> st.SearchStrategy[Case]:
    """Cases of one backend."""
    mix = [(hybrid, deployed) for hybrid, deployed in _MIX if not hybrid or backend != JOBS]
    strategies = {kind: _cases_of(backend, *kind) for kind in set(mix)}
    return st.sampled_from(mix).flatmap(strategies.__getitem__)


@cache
def config_of(
    backend: str, hybrid: bool, counts: tuple[tuple[str, int], ...], log_level: str = "INFO", image: str = IMAGES[0]
) -> UserConfig:
    """A user config."""
    if backend == JOBS:
        numbers = {facts.COUNT_KEYS[role]: count for role, count in counts}
        return releases.config({"motor_engine_prefill_config": None}, deploy_mode=JOBS, image_name=None, **numbers)
    sections = {} if log_level == "INFO" else {"motor_controller_config": {"logging_config": {"log_level": log_level}}}
    deploy = {facts.COUNT_KEYS[role]: count for role, count in counts}
    base = releases.hybrid(deploy_mode=BACKENDS[backend]) if hybrid else releases.config(deploy_mode=BACKENDS[backend])
    data = {**base.data, **sections}
    data["motor_deploy_config"] = {**data["motor_deploy_config"], **deploy, "image_name": image}
    return parse(json_reader.from_mapping(data, "user_config"))


@cache
def rendered_of(
    backend: str, hybrid: bool, counts: tuple[tuple[str, int], ...], log_level: str = "INFO", image: str = IMAGES[0]
) -> Rendered:
    """The objects of its service."""
    if backend == JOBS:
        return render_jobs(config_of(backend, hybrid, counts), _templates(image), DEFAULTS, super_pod=None)
    return releases.rendered(config_of(backend, hybrid, counts, log_level, image))


@cache
def _templates(image: str) -> dict[str, Template]:
    found = {}
    for role in JOB_ROLES:
        documents = list(yaml.safe_load_all((releases.EXAMPLES / "ascend_jobs" / f"{role}.yaml").read_text()))
        for spec in (spec for obj in documents for spec in obj["spec"].get("replicaSpecs", {}).values()):
            spec["template"]["spec"]["containers"][0]["image"] = image
        found[role] = template(documents, f"job_templates.{role}")
    return found


@cache
def _parsed(text: str) -> UserConfig:
    return parse(json_reader.read(text, source="motor-config"))


def npus_of(case: Case) -> dict[str, int]:
    """NPUs per pod."""
    config = config_of(case.backend, case.hybrid, case.wishes[0].counts)
    return {role: int(number or 0) for role, number in config.npus_per_pod.items()}


def planner(case: Case, wish: Wish, world: World) -> Callable[[Snapshot], Plan]:
    """The real planner of the wish, as a module would call it."""
    counts, image = wish.counts, wish.image
    if wish.verb == "update_config" and facts.has_baseline(world):
        counts = tuple(facts.baseline(world).items()) if wish.same_counts else wish.counts
        (image,) = facts.stored_images(world)
    config = config_of(case.backend, case.hybrid, counts, wish.log_level, image)
    protected = {role: frozenset(index for of, index in wish.protect if of == role) for role, _index in wish.protect}
    choice = Choice(order=wish.order, protect=protected)

    def plan(snapshot: Snapshot) -> Plan:
        stored = _parsed(snapshot.config_map["data"]["user_config.json"]) if snapshot.config_map else None
        if wish.verb == "remove":
            return plan_remove(snapshot, claims=wish.claims)
        if wish.verb == "deploy":
            rendered = rendered_of(case.backend, case.hybrid, counts, wish.log_level, image)
            return plan_deploy(snapshot, config, rendered, stored, None, choice, allow_restart=wish.allow_restart)
        if stored is None:
            stored = config
        if wish.verb == "update_config":
            return plan_update(snapshot, stored, config)
        found = plan_scale(snapshot, stored, wanted_counts(wish, world), choice=choice, on_drift=wish.on_drift)
        return faults.checked(snapshot, found, allowed=wish.during_fault)

    return plan


def wanted_counts(wish: Wish, world: World) -> dict[str, int]:
    """The counts that the task gives."""
    owned = owned_roles(world) if wish.omit_owned else set()
    return {role: count for role, count in wish.counts if role not in owned}


def owned_roles(world: World) -> set[str]:
    """Engine roles whose counts an autoscaler owns (one whose Deployment or InferServiceSet is gone owns nothing)."""
    scalers = [obj for (kind, _name), obj in world.objects.items() if kind == "HorizontalPodAutoscaler"]
    targets = {obj["metadata"]["name"].removeprefix("by-load-"): obj["spec"]["scaleTargetRef"] for obj in scalers}
    there = {role for role, target in targets.items() if (target["kind"], target["name"]) in world.objects}
    if world.backend in facts.KINDS:
        return there
    return set(targets) if facts.set_roles(world) else set()


def build(case: Case) -> World:
    """The world in which the case begins."""
    config = config_of(case.backend, case.hybrid, case.wishes[0].counts)
    world = World(case.backend, config.base_name, stopping=case.stopping, seed=case.seed)
    if case.start:
        _populate(world, case, case.start)
    return world


def _populate(world: World, case: Case, start: Start) -> None:
    config = config_of(case.backend, case.hybrid, start.baseline)
    rendered = rendered_of(case.backend, case.hybrid, start.baseline)
    live = dict(start.live)
    for obj in rendered.objects:
        world.create(_bare(_with_counts(obj, live), start.by_deployer))
    most = tuple((role, INDEXES) for role in live)
    templates = {(role, index): obj for role, index, obj in rendered_of(case.backend, case.hybrid, most).instances}
    for role, index in itertools.chain(((role, index) for role, taken in start.live for index in taken), start.going):
        if templates:
            _create_instance(world, role, _bare(templates[role, index], start.by_deployer))
    if case.backend == JOBS:
        world.create(_rule(config))
    _store_config(world, rendered.config_map, config, start)
    for _tick in range(2):
        world.tick()
    for role, index in start.going:
        world.delete(facts.KINDS[case.backend], f"{world.base_name}-{role[0]}{index}")
    for role in start.owned:
        events.add_autoscaler(world, role)
    for name, pick in start.happened:
        events.EVENTS[name](world, pick)


def _create_instance(world: World, role: str, workload: Obj) -> None:
    if world.backend == JOBS:
        world.create(rank_table(workload, role))
    world.create(workload)


def _rule(config: UserConfig) -> Obj:
    """The scaling rule of the baseline."""
    numbers = {DEFAULTS.groups[role]: count for role, count in config.counts.items()}
    servers = {DEFAULTS.groups[role]: pods or 1 for role, pods in config.pods_per_instance.items()}
    metadata = {"name": DEFAULTS.scaling_rule, "namespace": NAMESPACE, "labels": metadata_labels("scaling-rule")}
    data = {"elastic_scaling.json": write(for_counts(numbers, servers, DEFAULTS.groups["prefill"]))}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _store_config(world: World, config_map: Obj, config: UserConfig, start: Start) -> None:
    found = world.create(_bare(config_map, start.by_deployer))
    if not start.by_deployer:
        world.replace(with_applied(found, found["data"], config.counts, at="2026-01-01T00:00:00Z", by="me", run="run-0"))


def _bare(obj: Mapping[str, Any], by_deployer: bool) -> Obj:
    """The object as it is, or without our labels, as Motor's own deployer makes it."""
    if not by_deployer:
        return dict(obj)
    labels = {key: value for key, value in (obj["metadata"].get("labels") or {}).items() if not key.startswith("app.kubernetes.io/")}
    metadata = {**obj["metadata"], "labels": labels}
    if obj["kind"] in ("ClusterRole", "ClusterRoleBinding"):
        metadata["name"] = obj["metadata"]["name"].removesuffix(f"-{NAMESPACE}")
    return {**obj, "metadata": metadata}


def _with_counts(obj: Obj, live: Mapping[str, tuple[int, ...]]) -> Obj:
    if obj["kind"] != "InferServiceSet":
        return obj
    template = obj["spec"]["template"]
    roles = [{**role, "replicas": len(live[role["name"]])} if role["name"] in live else role for role in template["roles"]]
    return {**obj, "spec": {**obj["spec"], "template": {**template, "roles": roles}}}
