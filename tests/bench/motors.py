# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many services of InferServiceSets as the adaptor sees them, and a process that plays all of their coordinators."""

from __future__ import annotations

import json
import multiprocessing
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any, Self

from tests.cluster.egress import FORWARD, SLICES
from tests.cluster.infer_operator import objects
from tests.cluster.kube_client import CONFIG_MAPS, PODS, SERVICES, KubeClient, Obj, Resource, wait_for
from tests.support.autoscaling import CONFIGS
from tests.support.coordinator import INFERENCE, METRICS, Coordinator, Stage, endpoints_of
from tests.support.engines import Endpoint, Load
from tests.support.infer_services import role

NAMESPACES = Resource("v1", "Namespace", "namespaces", namespaced=False)
EACH = 4
# How often a coordinator collects unless it is told otherwise (seconds).
REUSE = 3.0
ENGINES = ("prefill", "decode")
COORDINATOR_APP = "mindie-motor-coordinator"
PATIENCE = 120.0


def namespace_of(number: int) -> str:
    """The namespace of a service."""
    return f"bench-{number:03}"


def create(client: KubeClient, count: int, node: str) -> None:
    """So many services, each with `EACH` instances of prefill and of decode on one pod each. All pods are on one fake server."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: _create(client, namespace_of(number), node), range(count)))


def _create(client: KubeClient, namespace: str, node: str) -> None:
    client.create(NAMESPACES, {"metadata": {"name": namespace}})
    config = json.loads((CONFIGS / "user_config.json").read_text())
    config["motor_deploy_config"].update(job_id=namespace, p_instances_num=EACH, d_instances_num=EACH)
    data = {"user_config.json": json.dumps(config, indent=2)}
    client.create(CONFIG_MAPS, {"metadata": {"name": "motor-config", "namespace": namespace}, "data": data})
    services = [_service(name, port) for name, port in (("infer", INFERENCE), ("obs", METRICS))]
    roles = [role("coordinator", 1, kind="Deployment", services=services), *(role(name, EACH) for name in ENGINES)]
    body = {"apiVersion": objects.GROUP_VERSION, "kind": "InferServiceSet", "metadata": {"name": "vllm", "namespace": namespace}}
    client.create(objects.INFER_SERVICE_SETS, {**body, "spec": {"replicas": 1, "template": {"roles": roles}}})
    for service in services:
        metadata = {"name": f"{service['name']}-vllm-0-coordinator", "namespace": namespace}
        client.create(SERVICES, {"metadata": metadata, "spec": service["spec"]})
    client.create(PODS, _pod(namespace, "coordinator", 0, node, {"app": COORDINATOR_APP}))
    for name in ENGINES:
        for index in range(EACH):
            client.create(PODS, _pod(namespace, name, index, node, {"app": "vllm"}))


def _service(name: str, port: int) -> Obj:
    return {
        "name": f"{COORDINATOR_APP}-{name}",
        "spec": {"selector": {"app": COORDINATOR_APP}, "ports": [{"port": port, "targetPort": port}]},
    }


def _pod(namespace: str, engine_role: str, index: int, node: str, labels: Mapping[str, str]) -> Obj:
    own = {
        objects.SERVICE_NAME: "vllm-0",
        objects.ROLE_NAME: engine_role,
        objects.INSTANCE_INDEX: str(index),
        objects.MANAGED: "true",
    }
    container = {"name": "main", "image": "registry.example/motor:1"}
    spec = {"nodeName": node, "containers": [container], "automountServiceAccountToken": False}
    name = f"vllm-0-{engine_role}-{index}-0"
    return {"metadata": {"name": name, "namespace": namespace, "labels": {**labels, **own}}, "spec": spec}


def pods(client: KubeClient, count: int) -> dict[str, list[Obj]]:
    """All pods by namespace, as soon as each has an address and is ready."""

    def found() -> dict[str, list[Obj]]:
        by_namespace: dict[str, list[Obj]] = {namespace_of(number): [] for number in range(count)}
        for pod in client.list(PODS)["items"]:
            conditions = {row["type"]: row["status"] for row in pod.get("status", {}).get("conditions") or ()}
            if pod["metadata"]["namespace"] in by_namespace and conditions.get("Ready") == "True":
                by_namespace[pod["metadata"]["namespace"]].append(pod)
        return by_namespace

    def all_ready() -> dict[str, list[Obj]]:
        seen = found()
        return seen if all(len(items) == 1 + len(ENGINES) * EACH for items in seen.values()) else {}

    result: dict[str, list[Obj]] = wait_for(all_ready, PATIENCE, "all pods are ready", 1.0)
    wait_for(lambda: _reachable(client) >= 2 * count, PATIENCE, "all coordinators are known by their Services", 1.0)
    return result


def _reachable(client: KubeClient) -> int:
    slices = client.list(SLICES)["items"]
    return sum(bool(item.get("endpoints")) for item in slices if item["metadata"]["name"].startswith(COORDINATOR_APP))


class Played:
    """All coordinators in a process of its own. Use as a context manager."""

    def __init__(self, client: KubeClient, found: Mapping[str, Sequence[Obj]]) -> None:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        endpoints = {namespace: endpoints_of(items) for namespace, items in found.items()}
        self._pipe = ours
        self._process = context.Process(target=_play, args=(theirs, endpoints), daemon=True)
        self._client, self._found = client, found

    def __enter__(self) -> Self:
        self._process.start()
        ports: Mapping[str, str] = self._pipe.recv()
        for namespace, items in self._found.items():
            (name,) = [pod["metadata"]["name"] for pod in items if pod["metadata"]["labels"]["app"] == COORDINATOR_APP]
            self._client.patch(PODS, namespace, name, {"metadata": {"annotations": {FORWARD: ports[namespace]}}})
        return self

    def __exit__(self, *dummy: object) -> None:
        self._pipe.send("end")
        self._process.join(10)


def _play(pipe: Connection, endpoints: Mapping[str, Sequence[Endpoint]]) -> None:
    chance = random.Random(1)
    with Stage() as stage:
        pipe.send({namespace: stage.play(_coordinator(found, chance)) for namespace, found in endpoints.items()})
        while not pipe.poll():
            time.sleep(0.5)


def _coordinator(found: Iterable[Endpoint], chance: random.Random) -> Coordinator:
    members = tuple(found)
    coordinator = Coordinator(lambda: members, reuse=REUSE)
    coordinator.loads = {"prefill": _load(chance, generation_tokens=1), "decode": _load(chance)}
    return coordinator


def _load(chance: random.Random, **more: Any) -> Load:
    return Load(chance.randrange(40), chance.randrange(400), chance.random(), chance.uniform(5, 40), **more)
