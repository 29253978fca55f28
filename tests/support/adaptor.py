# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The metrics adaptor as it is installed: its pods run as processes, from the objects that the role has made, and are asked through the API server."""

from __future__ import annotations

import base64
import json
import os
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from tests.cluster import Cluster
from tests.cluster.kube_client import KubeClient, wait_for
from tests.cluster.pod_runner import PodRunner, RunningPod
from tests.support import playbooks
from tests.tools.environment import ROOT

CACHE = Path(os.environ.get("MINDIE_CACHE", ROOT / ".cache"))
IMAGE = "registry.example/mindie/motor:26.0"
NAME, PORT, PLAIN_PORT = "mindie-metrics-adaptor", 8443, 8080
GROUP, VERSION = "external.metrics.k8s.io", "v1beta1"
API = f"/apis/{GROUP}/{VERSION}"
API_SERVICE = f"/apis/apiregistration.k8s.io/v1/apiservices/{VERSION}.{GROUP}"
LABEL = "infer.huawei.com/"
PATIENCE = 30.0


class Adaptor:
    """One installation in a namespace of its own; a cluster has place for one. Use as a context manager."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.client = KubeClient.from_kubeconfig(cluster.kubeconfig)
        self.runner = PodRunner(self.client, CACHE, proxy=f"127.0.0.1:{cluster.egress_port}")
        self._followed = False

    def __enter__(self) -> Adaptor:
        return self

    def __exit__(self, *_: object) -> None:
        self.unregister()
        self.runner.stop()

    def unregister(self) -> None:
        """Whatever happened: without it, namespaces could not be deleted when nobody answers any more."""
        self.cluster.request("DELETE", API_SERVICE)

    def play(self, *, check: bool = False, kubeconfig: str | None = None, **variables: Any) -> playbooks.Outcome:
        """Run the playbook `adaptor`; the variables' prefix is added."""
        given = {"namespace": self.namespace, "image": IMAGE, "create_namespace": True, "wait": False, **variables}
        hosts = {"here": {f"mindie_adaptor_{name}": value for name, value in given.items()}}
        inventory = {"all": {"children": {"motor_clusters": {"hosts": hosts}}}}
        return playbooks.run("adaptor", inventory, kubeconfig or str(self.cluster.kubeconfig), check=check)

    def install(self, *namespaces: str, **variables: Any) -> playbooks.Outcome:
        """Install it for these namespaces, and start its pods."""
        self.follow()
        done = self.play(namespaces=list(namespaces), **variables)
        self.settle(variables.get("replicas", 2))
        return done

    def follow(self) -> None:
        """Start its pods as they come, and stop them as they go."""
        if not self._followed:
            self._followed = True
            self.runner.follow(self.namespace, f"app.kubernetes.io/component={NAME}")

    def settle(self, wanted: int = 2) -> None:
        """Wait until so many pods run, and the API server reaches them."""
        wait_for(lambda: len(self.pods()) == wanted, PATIENCE, "the pods of the adaptor run")
        for pod in self.pods():
            pod.wait_port(PORT)
        wait_for(self.available, PATIENCE, "the API is available")

    def pods(self) -> list[RunningPod]:
        """The pods that run."""
        return [pod for (namespace, dummy), pod in sorted(self.runner.pods.items()) if namespace == self.namespace and pod.alive()]

    def available(self) -> bool:
        """Whether the API server passes the API on, by its own account."""
        status, found = self.cluster.request("GET", API_SERVICE)
        conditions = (found.get("status") or {}).get("conditions") or () if status == 200 else ()
        return any(row["type"] == "Available" and row["status"] == "True" for row in conditions)

    def read(self, namespace: str, metric: str, selector: str, *, token: str | None = None) -> tuple[int, Any]:
        """What the API server answers to who reads a metric."""
        path = f"{API}/namespaces/{namespace}/{quote(metric)}?{urlencode({'labelSelector': selector})}"
        return self.cluster.request("GET", path, token=token)

    def metric(self, namespace: str, metric: str, engine_role: str, service: str = "vllm") -> tuple[int, Any]:
        """As an autoscaler that the Infer Operator has made reads it."""
        return self.read(namespace, metric, selector(engine_role, service))

    def until_value(self, namespace: str, metric: str, engine_role: str, service: str = "vllm", timeout: float = PATIENCE) -> str:
        """Wait until there is a value, and return it as it is written; the error has the last answer."""
        last: list[Any] = []

        def there() -> bool:
            last[:] = self.metric(namespace, metric, engine_role, service)
            return bool(last[0] == 200)

        try:
            wait_for(there, timeout, f"{metric} of {engine_role} in {namespace}")
        except TimeoutError as error:
            raise AssertionError(f"{error}; last answer: {json.dumps(last)}; logs: {self.logs()[-3000:]}") from error
        (item,) = last[1]["items"]
        return str(item["value"])

    def secret(self) -> dict[str, bytes]:
        """The files of its certificate."""
        found = self.cluster.get(f"/api/v1/namespaces/{self.namespace}/secrets/{NAME}")["data"]
        return {name: base64.b64decode(value) for name, value in found.items()}

    def plain(self, pod: RunningPod, path: str) -> tuple[int, str]:
        """What a pod answers in plain HTTP."""
        return _answer(f"http://{pod.address}:{PLAIN_PORT}{path}", None, {})

    def direct(self, pod: RunningPod, path: str = API, *, certificate: tuple[Path, Path] | None = None, **headers: str) -> tuple[int, Any]:
        """What a pod answers to who asks it and not the API server. Raises OSError when it does not even shake hands."""
        context = ssl.create_default_context(cadata=self.secret()["ca.crt"].decode())
        context.check_hostname = False  # it is asked by its address
        if certificate:
            context.load_cert_chain(*certificate)
        status, text = _answer(f"https://{pod.address}:{PORT}{path}", context, headers)
        return status, json.loads(text)

    def logs(self) -> str:
        """What all pods have written."""
        return "\n".join(pod.log() for pod in self.runner.pods.values())


def selector(engine_role: str, service: str = "vllm") -> str:
    """The labels that the Infer Operator puts into the metrics of its autoscalers."""
    names = {"inferservice-name": f"{service}-0", "inferserviceset-name": service, "role-name": engine_role}
    return ",".join(f"{LABEL}{name}={value}" for name, value in names.items())


def _answer(url: str, context: ssl.SSLContext | None, headers: dict[str, str]) -> tuple[int, str]:
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if context:
        handlers.append(urllib.request.HTTPSHandler(context=context))
    try:
        with urllib.request.build_opener(*handlers).open(urllib.request.Request(url, headers=headers), timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except urllib.error.URLError as error:
        raise error.reason if isinstance(error.reason, OSError) else error from None
