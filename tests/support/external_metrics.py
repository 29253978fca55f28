# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""External metrics whose values a test sets, served to the real HPA controller through the aggregation layer.

It is no adaptor: there is no coordinator behind it. A metric without a value is an error of the API, as that of an adaptor without data.
"""

from __future__ import annotations

import http.server
import json
import ssl
import threading
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from urllib.parse import parse_qs, unquote, urlsplit

from tests.cluster import Cluster
from tests.cluster.certificates import Authority
from tests.cluster.egress import FORWARD
from tests.cluster.kube_client import PODS, SERVICES, KubeClient, KubeError, Obj, Resource, wait_for

GROUP, VERSION = "external.metrics.k8s.io", "v1beta1"
API_SERVICES = Resource("apiregistration.k8s.io/v1", "APIService", "apiservices", namespaced=False)
NAMESPACES = Resource("v1", "Namespace", "namespaces", namespaced=False)
ROLE = "infer.huawei.com/role-name"
NAME, NAMESPACE = "test-metrics", "test-metrics"
PORT = 8443
LONGEST_HOLD = 20.0


class ExternalMetrics(AbstractContextManager["ExternalMetrics"]):
    """`values[namespace, engine role, metric]` is what HPA is told, as a quantity. `asked` are (namespace, metric, label selector)."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self._client = KubeClient.from_kubeconfig(cluster.kubeconfig)
        self._directory = directory
        self.values: dict[tuple[str, str, str], str] = {}
        self.asked: list[tuple[str, str, str]] = []
        self._holds: dict[str, threading.Event] = {}

    def __enter__(self) -> ExternalMetrics:
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        certificate, key = Authority.new(NAME).issue(NAME, server=True)
        files = self._directory / "metrics.crt", self._directory / "metrics.key"
        for file, content in zip(files, (certificate, key), strict=True):
            file.write_bytes(content)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*files)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self._register()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """The APIService goes first: while its server does not answer, no namespace can be deleted."""
        self._client.delete(API_SERVICES, "", f"{VERSION}.{GROUP}")
        wait_for(lambda: not self._served(), 20, "the API is gone")
        self._server.shutdown()
        self._server.server_close()
        self._client.delete(NAMESPACES, "", NAMESPACE)

    def set(self, namespace: str, engine_role: str, metric: str, value: str | None) -> None:
        """What HPA is told from now on; None: there is no value."""
        key = (namespace, engine_role, metric)
        if value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value

    def hold(self, namespace: str) -> threading.Event:
        """Queries from this namespace get no answer until the event is set: HPA's pass is under way for as long."""
        self._holds[namespace] = threading.Event()
        return self._holds[namespace]

    def _register(self) -> None:
        client, labels = self._client, {"app": NAME}
        client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        container = {"name": "main", "image": "registry.example/any:1", "ports": [{"containerPort": PORT}]}
        forward = {FORWARD: f"{PORT}=127.0.0.1:{self._server.server_port}"}
        metadata = {"name": NAME, "namespace": NAMESPACE, "labels": labels, "annotations": forward}
        client.create(PODS, {"metadata": metadata, "spec": {"containers": [container], "terminationGracePeriodSeconds": 0}})
        spec = {"selector": labels, "ports": [{"name": "https", "port": 443, "targetPort": PORT}]}
        client.create(SERVICES, {"metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": spec})
        api: Obj = {"group": GROUP, "version": VERSION, "groupPriorityMinimum": 100, "versionPriority": 100}
        api.update(insecureSkipTLSVerify=True, service={"name": NAME, "namespace": NAMESPACE, "port": 443})
        client.create(API_SERVICES, {"metadata": {"name": f"{VERSION}.{GROUP}"}, "spec": api})
        wait_for(self._served, 30, "external metrics are served")

    def _served(self) -> bool:
        try:
            self._client.request("GET", f"/apis/{GROUP}/{VERSION}")
        except KubeError:
            return False
        return True

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        served = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                status, body = served.answer(self.path)
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Be quiet."""

        return Handler

    def answer(self, target: str) -> tuple[int, Obj]:
        """Status and body for one GET."""
        url = urlsplit(target)
        parts = url.path.strip("/").split("/")
        if len(parts) < 6:
            metric = {"name": "*", "singularName": "", "namespaced": True, "kind": "ExternalMetricValueList", "verbs": ["get"]}
            return 200, {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{GROUP}/{VERSION}", "resources": [metric]}
        namespace, metric_name = parts[4], unquote(parts[5])
        selector = (parse_qs(url.query).get("labelSelector") or [""])[0]
        self.asked.append((namespace, metric_name, selector))
        if namespace in self._holds:
            self._holds[namespace].wait(LONGEST_HOLD)
        labels = dict(pair.split("=", 1) for pair in selector.split(",") if "=" in pair)
        value = self.values.get((namespace, labels.get(ROLE, ""), metric_name))
        if value is None:
            message = f"there is no value of {metric_name}"
            return 503, {
                "kind": "Status",
                "apiVersion": "v1",
                "status": "Failure",
                "reason": "ServiceUnavailable",
                "code": 503,
                "message": message,
            }
        item = {"metricName": metric_name, "metricLabels": labels, "timestamp": "2026-01-01T00:00:00Z", "value": value}
        return 200, {"kind": "ExternalMetricValueList", "apiVersion": f"{GROUP}/{VERSION}", "metadata": {}, "items": [item]}
