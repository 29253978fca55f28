# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stage of autoscaling: services whose coordinators tests play, policies by the module, and the adaptor as its role installs it.

All else is what a cluster has: the controller of HorizontalPodAutoscalers, the aggregation layer, and the stand-in for the Infer Operator.
"""

from __future__ import annotations

import copy
import itertools
import json
import os
import signal
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from tests.tools.environment import COLLECTIONS, ROOT

if str(COLLECTIONS) not in sys.path:
    sys.path.insert(0, str(COLLECTIONS))

from ansible_collections.ascend.mindie.plugins.module_utils._motor.user_config import COUNT_KEYS
from tests.cluster import Cluster
from tests.cluster.egress import FORWARD
from tests.cluster.infer_operator.objects import INSTANCE_SETS, PREFIX, ROLE_NAME
from tests.cluster.kube_client import PODS, KubeClient, Obj, wait_for
from tests.cluster.pod_runner import PodRunner, RunningPod
from tests.support import playbooks
from tests.support.coordinator import Coordinator, Stage, endpoints_of
from tests.support.infer_services import AUTOSCALERS
from tests.support.modules import run_module

CACHE = Path(os.environ.get("MINDIE_CACHE", ROOT / ".cache"))
EXAMPLES = ROOT / "examples"
CONFIGS = EXAMPLES / "configs" / "infer_service_set"
IMAGE = "registry.example/mindie/motor:26.0"
NAME, NAMESPACE = "mindie-metrics-adaptor", "mindie-system"
API_PORT, HTTP_PORT = 8443, 8080
GROUP = "external.metrics.k8s.io/v1beta1"
API_SERVICE = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.external.metrics.k8s.io"
# What takes a minute on a real cluster (seconds). HPA looks every two seconds here.
QUICK = {"interval": 0.5, "window": 4, "stale_after": 2, "frozen_after": 4, "timeout": 1, "largest": 1 << 20}
REUSE = 0.5
SYNC = 2.0
PATIENCE = 30.0
_NUMBERS = itertools.count(1)


def policy(low: int, high: int, target: float = 4, *, metric: str = "num_requests_waiting", window: int = 0, **more: Any) -> dict[str, Any]:
    """A policy on one metric that scales in after so many seconds."""
    return {"min": low, "max": high, "metrics": [{"name": metric, "target": target}], "scale_in": {"window": window}, **more}


class Service:
    """One service with a coordinator that is played, in a namespace of its own."""

    def __init__(self, scene: Scene, namespace: str, example: str = CONFIGS.name) -> None:
        self.scene, self.cluster, self.namespace = scene, scene.cluster, namespace
        folder = EXAMPLES / "configs" / example
        self.config: dict[str, Any] = json.loads((folder / "user_config.json").read_text())
        self.env: dict[str, Any] = json.loads((folder / "env.json").read_text())
        self.config["motor_deploy_config"]["job_id"] = namespace
        self.config["motor_coordinator_config"]["prometheus_metrics_config"] = {"reuse_time": REUSE}
        self.coordinator = Coordinator(lambda: endpoints_of(self.pods()), reuse=REUSE)

    def run(self, module: str, **options: Any) -> dict[str, Any]:
        """Run a module on the service."""
        return run_module(module, kubeconfig=self.cluster.kubeconfig, **options)

    def deploy(self, *, prefill: int = 1, decode: int = 1, union: int = 1, **options: Any) -> dict[str, Any]:
        """Deploy it, or deploy it again."""
        counts = {COUNT_KEYS[role]: count for role, count in (("prefill", prefill), ("decode", decode), ("union", union))}
        section = self.config["motor_deploy_config"]
        section.update({key: count for key, count in counts.items() if key in section})
        given = {"user_config_content": self.config, "env_content": self.env, "release": str(EXAMPLES / "release-2026-07")}
        usual = {"node_ports": "auto", "create_namespace": True, "wait_timeout": 60}
        return self.run("motor_service", **{**given, **usual, **options})

    def scale(self, **instances: int) -> dict[str, Any]:
        """motor_instance_scale."""
        return self.run("motor_instance_scale", namespace=self.namespace, instances=instances, wait_timeout=60)

    def policies(self, **policies: dict[str, Any]) -> dict[str, Any]:
        """Set policies, by engine role."""
        return self.run("motor_scaling_policy", namespace=self.namespace, policies=policies, wait_timeout=60)

    def pods(self) -> list[Obj]:
        """All live pods of the namespace."""
        return list(self.scene.client.list(PODS, self.namespace)["items"])

    def serve(self) -> None:
        """Play the coordinator behind the live coordinator pod, as soon as that has an address."""
        ports = self.scene.stage.play(self.coordinator)

        def placed() -> str:
            found = (pod for pod in self.pods() if pod["metadata"]["labels"].get(ROLE_NAME) == "coordinator")
            return next((pod["metadata"]["name"] for pod in found if pod.get("status", {}).get("podIP")), "")

        pod = wait_for(placed, PATIENCE, f"the coordinator pod of {self.namespace} has an address")
        self.cluster.annotate_pod(self.namespace, pod, {FORWARD: ports})

    def node_ports(self) -> list[int]:
        """The node ports that it has."""
        items = self.cluster.get(f"/api/v1/namespaces/{self.namespace}/services")["items"]
        return [port["nodePort"] for item in items for port in item["spec"]["ports"] if "nodePort" in port]

    def instance_set(self, engine_role: str) -> Obj:
        """The InstanceSet of an engine role."""
        found = self.scene.client.get(INSTANCE_SETS, self.namespace, f"vllm-0-{engine_role}")
        return found or {"spec": {}, "status": {}}

    def count(self, engine_role: str) -> int:
        """How many instances are wanted now."""
        return int(self.instance_set(engine_role)["spec"].get("replicas", 0))

    def ready(self, engine_role: str) -> int:
        """How many instances run."""
        return int(self.instance_set(engine_role)["status"].get("readyReplicas", 0))

    def until(self, engine_role: str, count: int, seconds: float = PATIENCE) -> float:
        """Wait until so many instances are wanted and run; returns how long it took."""
        started = time.monotonic()
        what = f"{count} instances of {engine_role} in {self.namespace}"
        try:
            wait_for(lambda: (self.count(engine_role), self.ready(engine_role)) == (count, count), seconds, what)
        except TimeoutError as error:
            raise AssertionError(f"{error}; {self.count(engine_role)} wanted; HPA: {self.conditions(engine_role)}") from error
        return time.monotonic() - started

    def scaler(self, engine_role: str) -> Obj | None:
        """The HorizontalPodAutoscaler of an engine role."""
        return self.scene.client.get(AUTOSCALERS, self.namespace, f"vllm-0-{engine_role}-scaler")

    def conditions(self, engine_role: str) -> dict[str, tuple[str, str, str]]:
        """What HPA says of it: status, reason and message of each condition."""
        rows = (self.scaler(engine_role) or {}).get("status", {}).get("conditions") or ()
        return {row["type"]: (row["status"], row["reason"], row["message"]) for row in rows}

    def until_active(self, engine_role: str, status: str, seconds: float = PATIENCE) -> str:
        """Wait until HPA has (or, `False`, has not) a value to go by; returns its message."""

        def seen() -> str:
            found = self.conditions(engine_role).get("ScalingActive")
            return found[2] if found and found[0] == status else ""

        try:
            return str(wait_for(seen, seconds, f"ScalingActive={status} of {engine_role} in {self.namespace}"))
        except TimeoutError as error:
            raise AssertionError(f"{error}; HPA: {self.conditions(engine_role)}") from error

    def read(self, metric: str, engine_role: str, name: str = "vllm") -> tuple[int, Any]:
        """Status and answer of the API server for a metric, asked as HPA asks."""
        return self.cluster.request("GET", self.path(metric, engine_role, name))

    def path(self, metric: str, engine_role: str, name: str = "vllm") -> str:
        """Where HPA asks for a metric."""
        labels = {"inferservice-name": f"{name}-0", "inferserviceset-name": name, "role-name": engine_role}
        selector = ",".join(f"{PREFIX}{label}={value}" for label, value in labels.items())
        return f"/apis/{GROUP}/namespaces/{self.namespace}/{metric}?labelSelector={quote(selector)}"

    def value(self, metric: str, engine_role: str) -> float | None:
        """The value of a metric, None when there is none."""
        status, answer = self.read(metric, engine_role)
        return quantity(answer["items"][0]["value"]) if status == 200 else None


def quantity(text: str) -> float:
    """A quantity as the API writes it."""
    for suffix, factor in (("m", 1e-3), ("k", 1e3), ("M", 1e6), ("G", 1e9)):
        if text.endswith(suffix):
            return float(text[: -len(suffix)]) * factor
    return float(text)


class Adaptor:
    """One installation of the adaptor: its pods run as processes, from the objects that the role has made."""

    def __init__(self, cluster: Cluster, client: KubeClient, namespace: str = NAMESPACE) -> None:
        self.cluster, self.client, self.namespace = cluster, client, namespace
        self.runner = PodRunner(client, CACHE, proxy=f"127.0.0.1:{cluster.egress_port}")
        self._followed = False

    def play(self, *, check: bool = False, **variables: Any) -> playbooks.Outcome:
        """Run the playbook `adaptor`; the variables' prefix is added."""
        given = {"namespace": self.namespace, "wait_timeout": 60, **variables}
        hosts = {"here": {f"mindie_adaptor_{name}": value for name, value in given.items()}}
        return playbooks.run("adaptor", {"all": {"children": {"motor_clusters": {"hosts": hosts}}}}, self.cluster.kubeconfig, check=check)

    def install(self, *namespaces: str, **variables: Any) -> playbooks.Outcome:
        """Install it for these namespaces, run its pods, and wait until the API server is answered."""
        self.follow()
        done = self.play(namespaces=list(namespaces), **{"image": IMAGE, "create_namespace": True, **QUICK, **variables})
        self.settle(variables.get("replicas", 2))
        return done

    def follow(self) -> None:
        """From now on run its pods."""
        if not self._followed:
            self.runner.follow(self.namespace, f"app.kubernetes.io/component={NAME}")
            self._followed = True

    def remove(self) -> playbooks.Outcome:
        """Remove it with the same playbook."""
        return self.play(state="absent")

    def settle(self, wanted: int = 2) -> None:
        """Wait until so many pods serve, and the API server reaches them."""
        wait_for(lambda: len(self.pods()) == wanted, PATIENCE, "the pods of the adaptor run")
        for pod in self.pods():
            pod.wait_port(API_PORT)
            pod.wait_port(HTTP_PORT)
        wait_for(self.available, PATIENCE, "the APIService is available")

    def available(self) -> bool:
        """Whether the API server says that it is answered."""
        status, found = self.cluster.request("GET", API_SERVICE)
        conditions = found.get("status", {}).get("conditions") or () if status == 200 else ()
        return any(row["type"] == "Available" and row["status"] == "True" for row in conditions)

    def pods(self) -> list[RunningPod]:
        """The pods whose program runs."""
        return [pod for (namespace, dummy), pod in sorted(self.runner.pods.items()) if namespace == self.namespace and pod.alive()]

    def metrics(self, pod: RunningPod | None = None) -> str:
        """What a pod tells Prometheus."""
        with urllib.request.urlopen(f"http://{(pod or self.pods()[0]).address}:{HTTP_PORT}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    def signal(self, number: signal.Signals, pods: Iterable[RunningPod] | None = None) -> None:
        """Send a signal to the programs of pods (all)."""
        for pod in self.pods() if pods is None else pods:
            for process in pod.processes.values():
                process.send_signal(number)

    def delete(self, pods: Iterable[RunningPod] | None = None) -> None:
        """Delete pods (all, be they alive or not) at once; the Deployment makes others."""
        for pod in list(self.runner.pods.values() if pods is None else pods):
            self.client.delete(PODS, pod.namespace, pod.name, gracePeriodSeconds=0)

    def logs(self) -> str:
        """What all pods have written."""
        return "\n".join(pod.log() for pod in self.runner.pods.values())


class Scene:
    """A cluster with all of it. Use as a context manager; `install` after the services that it looks after are there."""

    def __init__(self, *, a3_nodes: int = 40, cluster: Cluster | None = None) -> None:
        self._own = cluster is None
        self.cluster = cluster or Cluster(a2_nodes=0, a3_nodes=a3_nodes, cpu_nodes=1, infer_operator=True, egress=True)
        self.stage = Stage()
        self.services: list[Service] = []

    def __enter__(self) -> Self:
        if self._own:
            self.cluster.__enter__()
        self.stage.__enter__()
        self.client = KubeClient.from_kubeconfig(self.cluster.kubeconfig)
        self.adaptor = Adaptor(self.cluster, self.client)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.adaptor.runner.stop()
        self.stage.__exit__(kind, error, trace)
        if self._own:
            self.cluster.down()

    def service(self, namespace: str = "", *, example: str = CONFIGS.name, **counts: int) -> Service:
        """Deploy one more service, and play its coordinator."""
        return self.crowd(1, namespace=namespace, example=example, **counts)[0]

    def crowd(self, number: int, *, namespace: str = "", example: str = CONFIGS.name, **counts: int) -> list[Service]:
        """Deploy so many services, and play their coordinators."""
        made = [Service(self, namespace or f"chat-{next(_NUMBERS)}", example) for dummy in range(number)]
        for service in made:
            done = service.deploy(wait=number == 1, **counts)
            assert not done.get("failed"), done["msg"]
            # The next one takes the lowest node ports that no Service has.
            wait_for(lambda service=service: len(service.node_ports()) == 3, PATIENCE, f"the node ports of {service.namespace} are taken")
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda service: service.serve(), made))
        self.services += made
        return made


def hold(services: Iterable[tuple[Service, str]], seconds: float) -> None:
    """Fail as soon as one of these engine roles has fewer instances than now, within so many seconds."""
    before = {(service.namespace, engine_role): (service, service.count(engine_role)) for service, engine_role in services}
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for (namespace, engine_role), (service, count) in before.items():
            now = service.count(engine_role)
            assert now >= count, f"{engine_role} of {namespace} went from {count} to {now}: {service.conditions(engine_role)}"
        time.sleep(0.2)


def together(work: Iterable[Callable[[], Any]]) -> list[Any]:
    """Do all of it at once."""
    with ThreadPoolExecutor(16) as pool:
        return [done.result() for done in [pool.submit(one) for one in work]]


def changed(config: dict[str, Any], *path: str, value: Any) -> dict[str, Any]:
    """A copy of a user config with one key set."""
    copied = copy.deepcopy(config)
    section = copied
    for key in path[:-1]:
        section = section.setdefault(key, {})
    section[path[-1]] = value
    return copied
