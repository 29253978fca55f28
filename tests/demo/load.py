# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The chapter on autoscaling: requests come, decode grows; they go, and decode shrinks again.

The adaptor runs as its role installs it, and HPA is the real one. The coordinator is played: a decode instance makes four completions at
once, each in a second, and what comes beyond that waits. The requests are sent to it by its Service, as clients in the cluster do.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console

from tests.support.autoscaling import CACHE, CONFIGS, EXAMPLES, IMAGE, NAMESPACE, QUICK, Scene, Service
from tests.support.coordinator import INFERENCE
from tests.support.playbooks import PlaybookFailed, run

from . import load_picture

SERVICE_NAMESPACE = "demo-load"
LOOK = (
    f"get hpa,instancesets,pods -n {SERVICE_NAMESPACE}",
    f"get --raw '/apis/external.metrics.k8s.io/v1beta1/namespaces/{SERVICE_NAMESPACE}/num_requests_waiting?labelSelector="
    "infer.huawei.com/inferservice-name=vllm-0,infer.huawei.com/inferserviceset-name=vllm,infer.huawei.com/role-name=decode'",
)
PICTURE = CACHE / "demo" / "autoscaling.html"
MANY, FEW = 32, 4
PEAK = 4
POLL = 0.25
PATIENCE = 60.0
# One instance more within three seconds at most, so that one can see it grow; on a real cluster an instance takes minutes to load.
POLICIES: dict[str, Any] = {
    "decode": {
        "min": 1,
        "max": 5,
        "metrics": [{"name": "num_requests_waiting", "target": 4}],
        "scale_out": {"steps": [{"type": "Pods", "value": 1, "period": 3}]},
        "scale_in": {"window": 5},
    },
    "prefill": {"min": 1, "max": 2, "preset": "queue"},
}


@dataclass(frozen=True)
class Moment:
    """What there was at one time: seconds since the first one, what happened, requests of decode, its instances, and seconds per request."""

    at: float
    happened: str
    running: int
    waiting: int
    wanted: int
    ready: int
    prefill: int
    latency: float | None


class Clients:
    """Send requests, as many at once as `at_once` says, each as soon as the one before it is answered. Use as a context manager."""

    def __init__(self, proxy_port: int, host: str) -> None:
        self._proxy_port, self._host = proxy_port, host
        self.at_once = 0
        self.answered = 0
        self._seconds: deque[tuple[float, float]] = deque(maxlen=1000)
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(number,), daemon=True) for number in range(MANY)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ending.set()

    def latency(self, last: float = 2.0) -> float | None:
        """The mean of what was answered within so many seconds."""
        since = time.monotonic() - last
        found = [seconds for at, seconds in list(self._seconds) if at >= since]
        return sum(found) / len(found) if found else None

    def _work(self, number: int) -> None:
        while not self._ending.wait(0.05):
            while number < self.at_once and not self._ending.is_set():
                started = time.monotonic()
                if self._send():
                    self.answered += 1
                    self._seconds.append((time.monotonic(), time.monotonic() - started))

    def _send(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._proxy_port, timeout=60)
        body = json.dumps({"model": "sample-8b", "messages": [{"role": "user", "content": "Hello"}]})
        try:
            url = f"http://{self._host}:{INFERENCE}/v1/chat/completions"
            connection.request("POST", url, body, {"Content-Type": "application/json"})
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


@dataclass
class Chapter:
    """Plays the chapter and keeps what was seen."""

    console: Console
    scene: Scene
    moments: list[Moment] = field(default_factory=list)
    _started: float = 0.0
    _tell: str = ""

    def play(self) -> list[Moment]:
        """Deploy, switch autoscaling on, let requests come and go. Raises PlaybookFailed when the service does not follow."""
        service = self._deploy()
        self._switch_on(service)
        host = f"mindie-motor-coordinator-infer-vllm-0-coordinator.{SERVICE_NAMESPACE}.svc"
        with Clients(self.scene.cluster.egress_port, host) as clients:
            self._until(service, clients, lambda now: now.at >= 2, "")
            self._tell, clients.at_once = f"{MANY} clients come", MANY
            self._until(service, clients, lambda now: now.ready == now.wanted == PEAK, f"{PEAK} decode instances serve")
            settled = self.moments[-1].at
            self._until(service, clients, lambda now: now.at >= settled + 5, "")
            self._tell, clients.at_once = f"all but {FEW} of them go", FEW
            self._until(service, clients, lambda now: now.ready == now.wanted == 1, "1 decode instance serves")
            alone = self.moments[-1].at
            self._until(service, clients, lambda now: now.at >= alone + 3, "")
        return self.moments

    def _deploy(self) -> Service:
        service = Service(self.scene, SERVICE_NAMESPACE)
        service.config["motor_deploy_config"].update(p_instances_num=1, d_instances_num=1)
        service.coordinator.slots, service.coordinator.seconds = 4, 1.0
        self._run(
            "autoscaling: deploy 1P1D",
            "deploy",
            mindie_user_config_content=service.config,
            mindie_env=str(CONFIGS / "env.json"),
            mindie_release=str(EXAMPLES / "release-2026-07"),
            mindie_node_ports="auto",
            mindie_create_namespace=True,
            mindie_wait_timeout=60,
        )
        service.serve()
        return service

    def _switch_on(self, service: Service) -> None:
        self.scene.adaptor.follow()
        settings = {f"mindie_adaptor_{name}": value for name, value in {**QUICK, "image": IMAGE, "namespace": NAMESPACE}.items()}
        self._run(
            "autoscaling: install the adaptor and set the policies",
            "autoscale",
            mindie_namespace=service.namespace,
            mindie_scaling_policies=POLICIES,
            mindie_adaptor_create_namespace=True,
            **settings,
        )
        self.scene.adaptor.settle()

    def _run(self, what: str, playbook: str, **variables: Any) -> None:
        hosts = {SERVICE_NAMESPACE: variables}
        clusters = {"here": {name: value for name, value in variables.items() if name.startswith("mindie_adaptor_")}}
        inventory = {"all": {"children": {"motor_services": {"hosts": hosts}, "motor_clusters": {"hosts": clusters}}}}
        with self.console.status(what):
            outcome = run(playbook, inventory, self.scene.cluster.kubeconfig)
        self.console.print(f"  {what} ({outcome.seconds:.1f} s)", highlight=False)

    def _until(self, service: Service, clients: Clients, done: Callable[[Moment], bool], reached: str) -> None:
        """Look until `done`, and keep what was seen. What is told goes with the first moment after it."""
        deadline = time.monotonic() + PATIENCE
        while True:
            now = self._look(service, clients, "")
            end = done(now)
            happened = "; ".join(filter(None, (self._tell, reached if end else "")))
            self._tell = ""
            self._keep(Moment(**{**now.__dict__, "happened": happened}))
            if end:
                return
            if time.monotonic() > deadline:
                raise PlaybookFailed(f"after {PATIENCE:.0f} s this is not so: {reached}; HPA: {service.conditions('decode')}")
            time.sleep(POLL)

    def _keep(self, now: Moment) -> None:
        before = self.moments[-1] if self.moments else None
        self.moments.append(now)
        if now.happened or before is None or (now.wanted, now.ready) != (before.wanted, before.ready):
            told = f"  [{now.happened}]" if now.happened else ""
            counted = f"{now.running} requests run, {now.waiting} wait; decode {now.ready} of {now.wanted}, prefill {now.prefill}"
            self.console.print(f"  autoscaling: {now.at:5.1f} s  {counted}{told}", markup=False, highlight=False)

    def _look(self, service: Service, clients: Clients, happened: str) -> Moment:
        now = time.monotonic()
        self._started = self._started or now
        coordinator = service.coordinator
        counts = service.count("decode"), service.ready("decode"), service.ready("prefill")
        return Moment(now - self._started, happened, coordinator.running, coordinator.waiting, *counts, clients.latency())


def start() -> Scene:
    """The stage of the chapter. Not set yet."""
    return Scene(a3_nodes=10)


def draw(moments: list[Moment], path: Path = PICTURE) -> Path:
    """Write the picture as a page of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(load_picture.page(moments), encoding="utf-8")
    return path
