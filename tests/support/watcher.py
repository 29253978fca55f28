# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The watcher as it is installed: its pods run as processes, from the objects that the role has made, and are asked over HTTP."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cluster import Cluster
from tests.cluster.kube_client import KubeClient, wait_for
from tests.cluster.pod_runner import PodRunner, RunningPod
from tests.support import playbooks
from tests.tools.environment import ROOT

CACHE = Path(os.environ.get("MINDIE_CACHE", ROOT / ".cache"))
IMAGE = "registry.example/mindie/motor:26.0"
NAME, PORT = "mindie-watcher", 8080
ACTS = ("nudge", "release_stuck", "recreate_failed", "restore_missing")
PATIENCE = 30.0


class Watcher:
    """One installation in a namespace of its own. Use as a context manager. `through` is the kubeconfig of a fault proxy for its pods."""

    def __init__(self, cluster: Cluster, namespace: str, *, through: str | None = None) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.client = KubeClient.from_kubeconfig(cluster.kubeconfig)
        self.runner = PodRunner(self.client, CACHE, through=through)

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.runner.stop()

    def play(self, *, check: bool = False, kubeconfig: str | None = None, **variables: Any) -> playbooks.Outcome:
        """Run the playbook `watcher`; the variables' prefix is added."""
        given = {"namespace": self.namespace, "image": IMAGE, "create_namespace": True, "wait": False, **variables}
        hosts = {"here": {f"mindie_watcher_{name}": value for name, value in given.items()}}
        inventory = {"all": {"children": {"motor_clusters": {"hosts": hosts}}}}
        return playbooks.run("watcher", inventory, kubeconfig or str(self.cluster.kubeconfig), check=check)

    def install(self, *namespaces: str, acts: tuple[str, ...] = ACTS, **variables: Any) -> playbooks.Outcome:
        """Install it for these namespaces, with these acts, and start its pods."""
        done = self.play(namespaces=list(namespaces), **{act: act in acts for act in ACTS}, **variables)
        self.runner.follow(self.namespace, f"app.kubernetes.io/component={NAME}")
        self._settle(variables.get("replicas", 2))
        return done

    def revive(self) -> None:
        """Replace the pods whose program has ended, as a kubelet starts containers again, and wait until as many run as are wanted."""
        for (namespace, name), pod in list(self.runner.pods.items()):
            if namespace == self.namespace and not pod.alive():
                self.cluster.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}")
        self._settle(2)

    def _settle(self, wanted: int) -> None:
        wait_for(lambda: len(self.pods()) == wanted, PATIENCE, "the pods of the watcher run")
        for pod in self.pods():
            pod.wait_port(PORT)
        wait_for(self.leader, PATIENCE, "one of them leads")
        wait_for(lambda: self.state()["program"]["synced"], PATIENCE, "the leader has listed everything")

    def pods(self) -> list[RunningPod]:
        """The pods that run."""
        return [pod for (namespace, dummy), pod in sorted(self.runner.pods.items()) if namespace == self.namespace and pod.alive()]

    def leader(self) -> RunningPod | None:
        """The pod that leads, by its own account."""
        return next((pod for pod in self.pods() if self._leads(pod)), None)

    def _leads(self, pod: RunningPod) -> bool:
        try:
            return bool(self.asked(pod, "/state.json")["program"]["leading"])
        except OSError:  # it ends just now
            return False

    def asked(self, pod: RunningPod, path: str) -> Any:
        """What a pod answers, JSON decoded where it is that."""
        with urllib.request.urlopen(f"http://{pod.address}:{PORT}{path}", timeout=10) as answer:
            text = answer.read().decode()
        return json.loads(text) if path.endswith((".json", "z")) else text

    def state(self) -> dict[str, Any]:
        """The report of the leader, or of any pod while none leads."""
        pod = self.leader() or self.pods()[0]
        found: dict[str, Any] = self.asked(pod, "/state.json")
        return found

    def service(self, namespace: str) -> dict[str, Any]:
        """The report on one service."""
        found = (service for service in self.state()["services"] if service["namespace"] == namespace)
        return next(found, {"instances": [], "tasks": []})

    def instances(self, namespace: str) -> dict[str, tuple[str, str]]:
        """State and reason of each instance."""
        return {item["name"]: (item["state"], item["reason"]) for item in self.service(namespace)["instances"]}

    def until(self, namespace: str, what: str, seen: Callable[[dict[str, tuple[str, str]]], Any], timeout: float = PATIENCE) -> Any:
        """Wait until the instances are so; the message has the last ones seen."""
        last: dict[str, tuple[str, str]] = {}

        def check() -> Any:
            last.clear()
            last.update(self.instances(namespace))
            return seen(last)

        try:
            return wait_for(check, timeout, what)
        except TimeoutError as error:
            raise AssertionError(f"{error}; seen last: {json.dumps(last, indent=1)}; repairs: {self.repairs(namespace)}") from error

    def until_running(self, namespace: str, *names: str, timeout: float = PATIENCE) -> None:
        """Wait until these instances run (all of them, when none is named)."""
        self.until(
            namespace,
            f"{', '.join(names) or 'all instances'} running",
            lambda seen: seen and all(seen.get(name, ("", ""))[0] == "running" for name in names or seen),
            timeout,
        )

    def repairs(self, namespace: str, pod: RunningPod | None = None) -> list[tuple[str, str, str]]:
        """Act, name and outcome of the last repairs of a service that the leader (or another pod) has made, the first one first."""
        found = self.asked(pod, "/state.json") if pod else self.state()
        return [(item["act"], item["name"], item["outcome"]) for item in reversed(found["repairs"]) if item["namespace"] == namespace]

    def events(self, namespace: str) -> list[tuple[str, str, str]]:
        """Events of the watcher: the object, the reason and the message, oldest first."""
        items = self.cluster.get(f"/api/v1/namespaces/{namespace}/events")["items"]
        own = [item for item in items if str(item.get("reportingInstance", "")).startswith(f"{NAME}/")]
        own.sort(key=lambda item: item["metadata"]["creationTimestamp"])
        return [(item["involvedObject"]["name"], item["reason"], item["message"]) for item in own]

    def signal(self, pod: RunningPod, number: signal.Signals) -> None:
        """Send a signal to the program of a pod."""
        for process in pod.processes.values():
            process.send_signal(number)

    def logs(self) -> str:
        """What all pods have written."""
        return "\n".join(pod.log() for pod in self.runner.pods.values())


def count(items: list[tuple[str, str, str]], *beginning: str) -> int:
    """How many begin like this."""
    return sum(item[: len(beginning)] == beginning for item in items)
