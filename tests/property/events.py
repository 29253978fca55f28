# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What others do to a service while a plan runs. Each event is a function of the world and of a number that picks its object."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass

from tests.cluster.ascend_operator.objects import replicas
from tests.property import facts
from tests.property.ascend import JOB
from tests.property.world import NAMESPACE, RANK_TABLE, RULE, Obj, Pod, World


@dataclass(frozen=True)
class Effect:
    """`blind`: a run that has observed already does not see it. `npus`: more NPUs than before are asked for, and not by us."""

    blind: bool = False
    npus: int = 0


NOTHING = Effect()
ROLES = {"p": "prefill", "u": "union"}


def instance_deleted(world: World, pick: int) -> Effect:
    """An instance is deleted by hand: its workload, or (InferServiceSet) its pods, which come back."""
    return _delete_instance(world, pick, "Background")


def instance_deleted_slowly(world: World, pick: int) -> Effect:
    """As `instance_deleted`, but the workload stays, marked, until its pods are gone."""
    return _delete_instance(world, pick, "Foreground")


def _delete_instance(world: World, pick: int, propagation: str) -> Effect:
    if world.backend in facts.KINDS:
        found = list(facts.engine_workloads(world).values())
        if not found:
            return NOTHING
        world.delete(facts.KINDS[world.backend], found[pick % len(found)]["metadata"]["name"], propagation=propagation)
        return Effect(blind=True)
    places = list(facts.wanted_pods(world))
    for pod in facts.engine_pods(world)[places[pick % len(places)]] if places else []:
        world.kill(pod)
    return NOTHING


def instance_added(world: World, pick: int) -> Effect:
    """An instance more, made by hand."""
    if world.backend == "infer_service_set":
        return _edit_count(world, pick, 1)
    found = facts.engine_workloads(world)
    if not found:
        return NOTHING
    (role, _index), sibling = list(found.items())[pick % len(found)]
    index = next(number for number in range(99) if not facts.occupied(world, role, number))
    world.create(_renamed(sibling, f"{world.base_name}-{role[0]}{index}"))
    return Effect(blind=True, npus=_npus(sibling))


def count_lowered(world: World, pick: int) -> Effect:
    """Somebody edits the InferServiceSet (other backend: deletes an instance)."""
    return _edit_count(world, pick, -1) if world.backend == "infer_service_set" else instance_deleted(world, pick)


def _edit_count(world: World, pick: int, change: int) -> Effect:
    roles = [name for name, role in facts.set_roles(world).items() if role.get("replicas")]
    if not roles:
        return NOTHING
    found = copy.deepcopy(next(obj for (kind, _name), obj in world.objects.items() if kind == "InferServiceSet"))
    role = next(role for role in found["spec"]["template"]["roles"] if role["name"] == roles[pick % len(roles)])
    role["replicas"] += change
    world.replace(found)
    return Effect(blind=True, npus=max(0, change) * facts.pods_of(role) * pod_npus(role["spec"]["template"]["spec"]))


def set_deleted(world: World, pick: int) -> Effect:
    """Somebody deletes the InferServiceSet, in the background or in the foreground."""
    found = [key for key in world.objects if key[0] == "InferServiceSet"]
    for key in found:
        world.delete(*key, propagation=("Background", "Foreground")[pick % 2])
    return Effect(blind=bool(found))


def namesake_added(world: World, pick: int) -> Effect:
    """A Deployment that is named as an instance and is none (its selector is another one)."""
    if world.backend != "deployments":
        return NOTHING
    letter = "u" if pick % 2 else "p"
    name = f"{world.base_name}-{letter}{next(index for index in range(pick % 4, 99) if not facts.occupied(world, ROLES[letter], index))}"
    template = {"metadata": {"labels": {"app": "else"}}, "spec": {"containers": [{"name": "c"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "else"}}, "template": template}
    world.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
    return Effect(blind=True)


def pod_evicted(world: World, pick: int) -> Effect:
    """A pod is told to stop; another one takes its place (a StatefulSet's later, a Deployment's at once)."""
    pod = _pod(world, pick)
    if pod is None or pod.left is not None:
        return NOTHING
    world.kill(pod)
    return Effect(npus=pod.npus)


def pod_lost(world: World, pick: int) -> Effect:
    """A pod is gone with its node."""
    pod = _pod(world, pick)
    if pod:
        del world.pods[pod.name]
    return NOTHING


def pod_broken(world: World, pick: int) -> Effect:
    """A pod fails and stays so until it is healed."""
    pod = _pod(world, pick)
    if pod:
        pod.broken, pod.ready = True, False
    return NOTHING


def healed(world: World, pick: int) -> Effect:
    """Nothing is broken any more."""
    for pod in world.pods.values():
        pod.broken = False
    return NOTHING


def autoscaler_added(world: World, pick: int) -> Effect:
    """An autoscaler takes a count over."""
    roles = sorted({role for role, _index in facts.wanted_pods(world)})
    if world.backend == "ascend_jobs":
        return NOTHING  # what an autoscaler scales has a number of replicas
    if roles:
        add_autoscaler(world, roles[pick % len(roles)])
    return Effect(blind=True)


def add_autoscaler(world: World, role: str) -> None:
    """An autoscaler of this engine role's count."""
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"{world.base_name}-{role[0]}0"}
    instance_set = {"apiVersion": "mindcluster.huawei.com/v1", "kind": "InstanceSet", "name": f"vllm-0-{role}"}
    spec = {"scaleTargetRef": workload if world.backend == "deployments" else instance_set}
    key = ("HorizontalPodAutoscaler", f"by-load-{role}")
    if key not in world.objects:
        world.create({"kind": key[0], "metadata": {"name": key[1], "namespace": NAMESPACE}, "spec": spec})


def autoscaler_removed(world: World, pick: int) -> Effect:
    """Nobody owns counts any more."""
    for kind, name in list(world.objects):
        if kind == "HorizontalPodAutoscaler":
            world.delete(kind, name)
    return Effect(blind=True)


def config_touched(world: World, pick: int) -> Effect:
    """Somebody annotates motor-config, so that it is no longer the one that was read."""
    found = world.objects.get(("ConfigMap", "motor-config"))
    if found:
        annotations = {**(found["metadata"].get("annotations") or {}), "touched": str(pick)}
        world.replace({**found, "metadata": {**found["metadata"], "annotations": annotations}})
    return Effect(blind=True)


def rule_deleted(world: World, pick: int) -> Effect:
    """Somebody deletes the scaling rule: from then on no job creates pods."""
    world.delete("ConfigMap", RULE)
    return Effect(blind=True)


def rule_shortened(world: World, pick: int) -> Effect:
    """Somebody takes the first tiers off the scaling rule."""
    found = world.objects.get(("ConfigMap", RULE))
    if found is None:
        return NOTHING
    key = "elastic_scaling.json"
    document = json.loads(found["data"][key])
    tiers = document["elastic_scaling_list"]
    document["elastic_scaling_list"] = tiers[pick % len(tiers) :]
    world.replace({**found, "data": {key: json.dumps(document)}})
    return Effect(blind=True)


def _pod(world: World, pick: int) -> Pod | None:
    found = [pod for pods in facts.engine_pods(world).values() for pod in pods]
    return found[pick % len(found)] if found else None


def _renamed(deployment: Obj, name: str) -> Obj:
    """Another instance as Motor's own deployer would make it, or (AscendJob) somebody by hand."""
    if deployment["kind"] == JOB:
        kept = {key: copy.deepcopy(deployment["metadata"].get(key) or {}) for key in ("labels", "annotations")}
        old = RANK_TABLE + deployment["metadata"]["name"]
        spec = json.loads(json.dumps(deployment["spec"]).replace(f'"{old}"', f'"{RANK_TABLE}{name}"'))
        return {**deployment, "metadata": {"name": name, "namespace": NAMESPACE, **kept}, "spec": spec}
    spec = copy.deepcopy(deployment["spec"])
    spec["selector"]["matchLabels"]["app"] = spec["template"]["metadata"]["labels"]["app"] = name
    labels = {**deployment["metadata"]["labels"], "app": name}
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def pod_npus(spec: Obj) -> int:
    """NPUs of a pod with this spec."""
    return Pod("", "", {}, {}, spec).npus


def _npus(deployment: Obj) -> int:
    if deployment["kind"] == JOB:
        specs = deployment["spec"]["replicaSpecs"]
        return sum(pod_npus(specs[replica.type]["template"]["spec"]) for replica in replicas(deployment))
    return int(deployment["spec"].get("replicas", 1)) * pod_npus(deployment["spec"]["template"]["spec"])


EVENTS: dict[str, Callable[[World, int], Effect]] = {
    event.__name__: event
    for event in (
        instance_deleted,
        instance_deleted_slowly,
        instance_added,
        count_lowered,
        set_deleted,
        namesake_added,
        pod_evicted,
        pod_lost,
        pod_broken,
        healed,
        autoscaler_added,
        autoscaler_removed,
        config_touched,
        rule_deleted,
        rule_shortened,
    )
}
