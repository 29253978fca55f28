# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The installed adaptor seen from outside: what the API server passes on, what its pods say to others, and its certificate."""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from tests.cluster import Cluster
from tests.cluster.kube_client import KubeClient, wait_for
from tests.cluster.pod_runner import RunningPod
from tests.support import autoscaling
from tests.support.autoscaling import API_PORT, API_SERVICE, GROUP, HTTP_PORT, NAME, PATIENCE

API = f"/apis/{GROUP}"
LABEL = "infer.huawei.com/"


class Adaptor(autoscaling.Adaptor):
    """One installation, in a namespace of its own; a cluster has place for one. Use as a context manager."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        super().__init__(cluster, KubeClient.from_kubeconfig(cluster.kubeconfig), namespace)

    def __enter__(self) -> Adaptor:
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.request("DELETE", API_SERVICE)  # whatever happened: what nobody answers keeps namespaces from being deleted
        self.runner.stop()

    def read(self, namespace: str, metric: str, selector: str, *, token: str | None = None) -> tuple[int, Any]:
        """What the API server answers to who reads a metric."""
        path = f"{API}/namespaces/{namespace}/{quote(metric)}?{urlencode({'labelSelector': selector})}"
        return self.cluster.request("GET", path, token=token)

    def metric(self, namespace: str, metric: str, engine_role: str) -> tuple[int, Any]:
        """As an autoscaler that the Infer Operator has made reads it."""
        return self.read(namespace, metric, selector(engine_role))

    def until_value(self, namespace: str, metric: str, engine_role: str, wanted: str) -> None:
        """Wait until the value is written so; the error has the last answer."""
        last: list[Any] = []

        def there() -> bool:
            last[:] = self.metric(namespace, metric, engine_role)
            return bool(last[0] == 200 and last[1]["items"][0]["value"] == wanted)

        try:
            wait_for(there, PATIENCE, f"{metric} of {engine_role} in {namespace} is {wanted}")
        except TimeoutError as error:
            raise AssertionError(f"{error}; last answer: {json.dumps(last)}; logs: {self.logs()[-3000:]}") from error

    def secret(self) -> dict[str, str]:
        """The files of its certificate."""
        found = self.cluster.get(f"/api/v1/namespaces/{self.namespace}/secrets/{NAME}")["data"]
        return {name: base64.b64decode(value).decode() for name, value in found.items()}

    def plain(self, pod: RunningPod, path: str) -> tuple[int, str]:
        """What a pod answers in plain HTTP."""
        return _answer(f"http://{pod.address}:{HTTP_PORT}{path}", None, {})

    def direct(self, pod: RunningPod, path: str = API, *, certificate: tuple[Path, Path] | None = None, **headers: str) -> tuple[int, Any]:
        """What a pod answers to who asks it past the API server. Raises OSError when it does not even shake hands."""
        context = ssl.create_default_context(cadata=self.secret()["ca.crt"])
        context.check_hostname = False  # it is asked by its address
        if certificate:
            context.load_cert_chain(*certificate)
        status, text = _answer(f"https://{pod.address}:{API_PORT}{path}", context, headers)
        return status, json.loads(text)

    def shown(self, pod: RunningPod) -> str:
        """The certificate that a pod shows just now, as PEM."""
        return ssl.get_server_certificate((pod.address, API_PORT), timeout=10)


def selector(engine_role: str) -> str:
    """The labels that the Infer Operator puts into the metrics of its autoscalers."""
    names = {"inferservice-name": "vllm-0", "inferserviceset-name": "vllm", "role-name": engine_role}
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
