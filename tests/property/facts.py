# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is true in a world, worked out from its objects without the code under test."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping

from tests.cluster.ascend_operator.objects import JOB_NAME, RULE_GROUP, replicas
from tests.property import ascend
from tests.property.ascend import JOB
from tests.property.world import ENGINE_ROLES, INFER, RANK_TABLE, RULE, Obj, Pod, World, pods_of

COUNT_KEYS = {"prefill": "p_instances_num", "decode": "d_instances_num", "union": "hybrid_instances_num"}
# Backends whose instances are workloads that we make ourselves.
KINDS = {"deployments": "Deployment", "ascend_jobs": JOB}
LETTERS = dict(zip("pdue", ENGINE_ROLES, strict=True))


def named(world: World, name: str) -> tuple[str, int] | None:
    """Engine role and index of the workload of an instance."""
    base, dummy, suffix = name.rpartition("-")
    return (LETTERS[suffix[0]], int(suffix[1:])) if base == world.base_name and suffix[:1] in LETTERS and suffix[1:].isdigit() else None


def is_engine(world: World, deployment: Obj) -> bool:
    """Whether this workload is an engine instance, not just named as one."""
    name = deployment["metadata"]["name"]
    if deployment["kind"] == JOB:
        return named(world, name) is not None
    return named(world, name) is not None and deployment["spec"]["selector"]["matchLabels"].get("app") == name


def namesake(world: World, role: str, index: int) -> bool:
    """Whether something that is no instance has the name of this one."""
    found = world.objects.get(("Deployment", f"{world.base_name}-{role[0]}{index}"))
    return found is not None and not is_engine(world, found)


def engine_workloads(world: World) -> dict[tuple[str, int], Obj]:
    """Workloads of instances that exist and are not being deleted."""
    found = {}
    for (kind, name), obj in sorted(world.objects.items()):
        place = named(world, name) if kind == KINDS.get(world.backend) else None
        if place and is_engine(world, obj) and "deletionTimestamp" not in obj["metadata"]:
            found[place] = obj
    return found


def engine_pods(world: World) -> dict[tuple[str, int], list[Pod]]:
    """Pods of instances, leaving ones included."""
    found = defaultdict(list)
    for pod in world.pods.values():
        place = _place(world, pod)
        if place:
            found[place].append(pod)
    return found


def _place(world: World, pod: Pod) -> tuple[str, int] | None:
    if world.backend in KINDS:
        return named(world, pod.labels.get("app" if world.backend == "deployments" else JOB_NAME, ""))
    if pod.labels.get(f"{INFER}instanceset-index", "") == "":
        return None
    role = pod.labels.get(f"{INFER}instanceset-name", "")
    return (role, int(pod.labels[f"{INFER}instanceset-index"])) if role in ENGINE_ROLES else None


def set_roles(world: World) -> dict[str, Obj]:
    """Engine roles of the InferServiceSet."""
    for (kind, _name), obj in world.objects.items():
        if kind == "InferServiceSet" and "deletionTimestamp" not in obj["metadata"]:
            return {role["name"]: role for role in obj["spec"]["template"]["roles"] if role["name"] in ENGINE_ROLES}
    return {}


def wanted_pods(world: World) -> dict[tuple[str, int], int]:
    """Every instance that exists and is to stay, with the number of its pods."""
    if world.backend in KINDS:
        return {place: _pods(obj) for place, obj in engine_workloads(world).items()}
    return {(name, index): pods_of(role) for name, role in set_roles(world).items() for index in range(int(role.get("replicas") or 0))}


def _pods(workload: Obj) -> int:
    return len(replicas(workload)) if workload["kind"] == JOB else int(workload["spec"].get("replicas", 1))


def counts(world: World) -> dict[str, int]:
    """Instances that exist and are to stay, by engine role."""
    found = dict.fromkeys(ENGINE_ROLES, 0)
    for role, _index in wanted_pods(world):
        found[role] += 1
    return found


def asked(world: World, npus: Mapping[str, int]) -> int:
    """NPUs that pods hold or will ask for as soon as controllers look. `npus`: per pod, by engine role."""
    pods, wanted = engine_pods(world), wanted_pods(world)
    total = 0
    for place in {*pods, *wanted}:
        there = pods.get(place, [])
        # A StatefulSet or AscendJob makes a pod anew only when the old one of its name is gone.
        holding = [pod for pod in there if pod.left is None] if world.backend == "deployments" else there
        missing = max(0, wanted.get(place, 0) - len(holding))
        total += (len(there) + missing) * npus[place[0]]
    return total


def evicted(world: World, npus: Mapping[str, int]) -> int:
    """NPUs of pods that stop although their instances stay (others take their place): nobody waits for them."""
    stopping = {
        place: sum(pod.left is not None for pod in pods) for place, pods in engine_pods(world).items() if place in wanted_pods(world)
    }
    return sum(number * npus[role] for (role, _index), number in stopping.items())


def leaving(world: World) -> set[tuple[str, int]]:
    """Instances that go: nothing wants them, but pods, a PodGroup or a marked workload are left."""
    found = {place for place in (*engine_pods(world), *pod_groups(world)) if place not in wanted_pods(world)}
    for (kind, name), obj in world.objects.items():
        place = named(world, name) if kind == KINDS.get(world.backend) else None
        if place and is_engine(world, obj) and "deletionTimestamp" in obj["metadata"]:
            found.add(place)
    return found


def pod_groups(world: World) -> dict[tuple[str, int], Obj]:
    """PodGroups of instances, those of jobs that are gone included."""
    found = {named(world, ascend.owner_of(group)["name"]): group for group in world.pod_groups.values()}
    return {place: group for place, group in found.items() if place}


def occupied(world: World, role: str, index: int) -> str:
    """What stands in the way of a new instance with this index, or ""."""
    if world.backend in KINDS:
        for (kind, name), obj in world.objects.items():
            if kind == KINDS[world.backend] and named(world, name) == (role, index):
                return f"{kind} {obj['metadata']['name']} exists"
    if (role, index) in pod_groups(world):
        return "its PodGroup is left"
    pods = engine_pods(world).get((role, index))
    return f"{len(pods)} pods are left" if pods else ""


def shortfall(world: World, wanted: Mapping[str, int], *, healthy: bool = True) -> str:
    """Why the service does not run (or, unless `healthy`, is not there) with these counts, or ""."""
    found = counts(world)
    for role in ENGINE_ROLES:
        if found[role] != wanted.get(role, 0):
            return f"{role}: {found[role]} instances, {wanted.get(role, 0)} wanted"
    pods = engine_pods(world)
    for place, number in wanted_pods(world).items():
        ready = sum(pod.ready and pod.left is None for pod in pods.get(place, []))
        if healthy and ready < number:
            return f"{place}: {ready} of {number} pods ready"
    if leaving(world):
        return f"{leaving(world)} are still going"
    return ""


def record_fits(world: World) -> bool:
    """Whether motor-config says that its data were reached in full."""
    config_map = world.objects.get(("ConfigMap", "motor-config"))
    return config_map is not None and claims_success(config_map)


def by_deployer(world: World) -> bool:
    """Whether motor-config is as Motor's own deployer left it: it then tells what was reached, too."""
    metadata = world.objects["ConfigMap", "motor-config"]["metadata"]
    return not any(key.startswith("app.kubernetes.io/") for key in metadata.get("labels") or {})


def claims_success(config_map: Obj) -> bool:
    """Whether this motor-config carries a record that fits its data."""
    text = (config_map["metadata"].get("annotations") or {}).get("ascend.mindie/applied")
    digest = hashlib.sha256(config_map["data"].get("user_config.json", "").encode()).hexdigest()
    return bool(text) and json.loads(text)["sha256"]["config"] == digest


def recorded_by(obj: Obj) -> str:
    """The run that wrote the record of success on this object."""
    text = (obj["metadata"].get("annotations") or {}).get("ascend.mindie/applied")
    return str(json.loads(text)["run"]) if text else ""


def images(world: World) -> set[str]:
    """Images that pods of engine instances run."""
    return {box["image"] for pods in engine_pods(world).values() for pod in pods for box in pod.containers}


def stored_images(world: World) -> set[str]:
    """The image of the stored user config, or (AscendJobs) of the workloads."""
    if world.backend == "ascend_jobs":
        specs = (spec for job in world.jobs() for spec in job["spec"]["replicaSpecs"].values())
        return {box["image"] for spec in specs for box in spec["template"]["spec"]["containers"]}
    if not has_baseline(world):
        return set()
    return {json.loads(world.objects["ConfigMap", "motor-config"]["data"]["user_config.json"])["motor_deploy_config"]["image_name"]}


def has_baseline(world: World) -> bool:
    """Whether there is a motor-config."""
    return ("ConfigMap", "motor-config") in world.objects


def healthy(world: World, place: tuple[str, int]) -> bool:
    """Whether all pods of an instance are ready, and (AscendJobs) its PodGroup has noticed."""
    if world.backend == "ascend_jobs" and ascend.phase(pod_groups(world).get(place, {})) != ascend.RUNNING:
        return False
    pods = engine_pods(world).get(place, [])
    return sum(pod.ready and pod.left is None for pod in pods) >= wanted_pods(world).get(place, 1)


def has_drift(world: World) -> bool:
    """Whether the live instances are not those of the baseline, in number or (as anything may have been edited by hand) in content."""
    found = counts(world)
    return any(found[role] != count for role, count in baseline(world).items())


def baseline(world: World) -> dict[str, int]:
    """The counts that the stored user config says."""
    deploy = json.loads(world.objects["ConfigMap", "motor-config"]["data"]["user_config.json"])["motor_deploy_config"]
    return {role: deploy[key] for role, key in COUNT_KEYS.items() if key in deploy}


def rule_numbers(world: World) -> dict[str, int]:
    """How many instances of each group the first tier of the live rule asks for; {} when there is no rule."""
    rule = world.objects.get(("ConfigMap", RULE))
    tiers = json.loads(rule["data"]["elastic_scaling.json"])["elastic_scaling_list"] if rule else []
    return {row["group_name"]: int(row["group_num"]) for row in tiers[0]["group_list"]} if tiers else {}


def group_sizes(world: World) -> dict[str, int]:
    """How many AscendJobs of each group exist and are to stay."""
    found: dict[str, int] = defaultdict(int)
    for job in engine_workloads(world).values() if world.backend == "ascend_jobs" else ():
        found[job["metadata"]["labels"][RULE_GROUP]] += 1
    return dict(found)


def stray_rank_tables(world: World) -> set[str]:
    """Rank tables whose job is gone."""
    names = {name for kind, name in world.objects if kind == JOB}
    tables = {name for kind, name in world.objects if kind == "ConfigMap" and name.startswith(RANK_TABLE)}
    return {name for name in tables if name.removeprefix(RANK_TABLE) not in names}


def has_rank_table(world: World, job_name: str) -> bool:
    """Whether the rank table of a job is there."""
    return ("ConfigMap", RANK_TABLE + job_name) in world.objects
