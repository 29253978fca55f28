# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A service in a namespace of its own, driven by the real modules through the counting proxy."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.cluster.fault_proxy import FaultProxy
from tests.functional.rules import Rules
from tests.support.modules import run_module

EXAMPLES = Path(__file__).parents[2] / "examples"
RELEASE = EXAMPLES / "release-2026-05"
# A lock that a run could not give back is free after two seconds.
QUICK = {"wait_timeout": 60, "lock_duration": 2}
MODES = {"deployments": "multi_deployment", "infer_service_set": "infer_service_set"}


class Driver:
    """Runs modules on one service and shows what the cluster then holds."""

    def __init__(self, cluster: Cluster, proxy: FaultProxy, namespace: str, backend: str) -> None:
        self.cluster, self.proxy, self.namespace, self.backend = cluster, proxy, namespace, backend
        folder = EXAMPLES / "configs" / MODES[backend]
        self.config: dict[str, Any] = json.loads((folder / "user_config.json").read_text())
        self.env: dict[str, Any] = json.loads((folder / "env.json").read_text())
        self.config["motor_deploy_config"]["job_id"] = namespace

    def with_config(self, *path: str, value: Any) -> dict[str, Any]:
        """A copy of the user config with one key set."""
        config = copy.deepcopy(self.config)
        section = config
        for key in path[:-1]:
            section = section.setdefault(key, {})
        section[path[-1]] = value
        return config

    def run(self, module: str, **options: Any) -> dict[str, Any]:
        """Run a module through the proxy, whose list of requests starts anew."""
        self.proxy.clear()
        return run_module(module, **{"kubeconfig": self.proxy.kubeconfig, **options})

    def deploy(self, config: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        """motor_service with the sample release."""
        given = {"user_config_content": config or self.config, "env_content": self.env, "release": str(RELEASE)}
        return self.run("motor_service", **{**given, "node_ports": "auto", **QUICK, **options})

    def scale(self, *, prefill: int, decode: int, **options: Any) -> dict[str, Any]:
        """motor_instance_scale by counts alone."""
        instances = {"prefill": prefill, "decode": decode}
        return self.run("motor_instance_scale", **{"namespace": self.namespace, "instances": instances, **QUICK, **options})

    def remove(self, **options: Any) -> dict[str, Any]:
        """motor_service, state absent."""
        return self.run("motor_service", namespace=self.namespace, state="absent", **{**QUICK, **options})

    def get(self, kind: str, api: str = "apps/v1") -> dict[str, dict[str, Any]]:
        """Objects of the namespace by name."""
        prefix = f"/api/{api}" if "/" not in api else f"/apis/{api}"
        items = self.cluster.get(f"{prefix}/namespaces/{self.namespace}/{kind}")["items"]
        return {item["metadata"]["name"]: item for item in items}

    def workloads(self) -> dict[str, tuple[str, int]]:
        """uid and generation of each engine workload."""
        kind = "deployments" if self.backend == "deployments" else "statefulsets"
        found = {name: item for name, item in self.get(kind).items() if not name.startswith("mindie-motor-")}
        return {name: (item["metadata"]["uid"], item["metadata"]["generation"]) for name, item in found.items()}

    def name(self, role: str, index: int) -> str:
        """Name of an engine workload."""
        return f"vllm-{role[0]}{index}" if self.backend == "deployments" else f"vllm-0-{role}-{index}"

    def motor_config(self) -> dict[str, Any]:
        """The live motor-config."""
        return self.get("configmaps", "v1")["motor-config"]

    def mutating(self) -> list[tuple[str, str]]:
        """Method and last part of the path of each request that changed something, the Lease, Events of long waits and the history left out."""
        requests = [request for request in self.proxy.mutating() if "/controllerrevisions" not in request.path]
        found = [(request.method, request.path.rsplit("/", 1)[-1]) for request in requests]
        return [pair for pair in found if pair[1] not in ("ascend-mindie", "leases", "events")]


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[FaultProxy]:
    """A proxy in front of the API server that counts requests and can misbehave."""
    with FaultProxy(cluster) as running:
        yield running


@pytest.fixture(params=list(MODES))
def driver(request: pytest.FixtureRequest, cluster: Cluster, proxy: FaultProxy, namespace: str) -> Driver:
    """A driver for each backend."""
    return Driver(cluster, proxy, namespace, request.param)


@pytest.fixture
def on_deployments(cluster: Cluster, proxy: FaultProxy, namespace: str) -> Driver:
    """A driver for the backend `deployments` alone."""
    return Driver(cluster, proxy, namespace, "deployments")


@pytest.fixture
def on_set(cluster: Cluster, proxy: FaultProxy, namespace: str) -> Driver:
    """A driver for the backend `infer_service_set` alone."""
    return Driver(cluster, proxy, namespace, "infer_service_set")


@pytest.fixture
def rules(cluster: Cluster, proxy: FaultProxy, namespace: str) -> Rules:
    """The scaling rule of a namespace of its own."""
    return Rules(cluster, proxy, namespace)
