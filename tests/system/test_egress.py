# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The egress proxy leads to loopback, by annotations of pods, and nowhere else."""

from __future__ import annotations

import base64
import http.server
import json
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.cluster.egress import ADDRESS, FORWARD
from tests.cluster.kube_client import PODS, SERVICES, KubeClient, KubeError, Obj, Resource, wait_for

NAMESPACE = "default"
API_SERVICES = Resource("apiregistration.k8s.io/v1", "APIService", "apiservices", namespaced=False)
METRICS = "/apis/external.metrics.k8s.io/v1beta1"


class Answers(http.server.BaseHTTPRequestHandler):
    """Says which path was asked for; answers the discovery of an aggregated API."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        metric = {"name": "*", "singularName": "", "namespaced": True, "kind": "ExternalMetricValueList", "verbs": ["get"]}
        body: Obj = {"path": self.path, "user": self.headers.get("X-Remote-User", "")}
        if self.path.startswith("/apis"):
            body = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "external.metrics.k8s.io/v1beta1"}
            body["resources"] = [metric]
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Be quiet."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(egress=True) as running:
        yield running


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> KubeClient:
    return KubeClient.from_kubeconfig(cluster.kubeconfig)


@pytest.fixture
def server() -> Iterator[http.server.ThreadingHTTPServer]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


def pod(client: KubeClient, name: str, **annotations: str) -> Obj:
    """A fake pod that runs, with its address in the cluster."""
    container = {"name": "main", "image": "registry.example/any:1"}
    metadata = {"name": name, "labels": {"app": name}, "namespace": NAMESPACE, "annotations": annotations}
    client.create(PODS, {"metadata": metadata, "spec": {"containers": [container], "terminationGracePeriodSeconds": 0}})

    def placed() -> Obj | None:
        found = client.get(PODS, NAMESPACE, name) or {}
        return found if found.get("status", {}).get("podIP") else None

    made: Obj = wait_for(placed, 20, f"pod {name} has an address")
    return made


def ask(client: KubeClient, what: str) -> Obj:
    return client.request("GET", f"/api/v1/namespaces/{NAMESPACE}/{what}/proxy/x")


def asked(client: KubeClient, what: str) -> Obj:
    """The answer once the proxy has seen the pod."""

    def get() -> Obj | None:
        try:
            return ask(client, what)
        except KubeError as error:
            if error.status != 503:
                raise
            return None

    answer: Obj = wait_for(get, 15, f"an answer of {what}")
    return answer


def test_single_ports_of_a_pod_are_forwarded(client: KubeClient, server: http.server.ThreadingHTTPServer) -> None:
    pod(client, "forward", **{FORWARD: f"1026=127.0.0.1:{server.server_port}"})
    assert asked(client, "pods/forward:1026")["path"] == "/x"
    with pytest.raises(KubeError, match="502"):
        ask(client, "pods/forward:1027")


def test_annotation_of_a_live_pod_counts_at_once_and_ends_with_it(client: KubeClient, server: http.server.ThreadingHTTPServer) -> None:
    pod(client, "late")
    with pytest.raises(KubeError, match="502"):
        ask(client, f"pods/late:{server.server_port}")
    client.patch(PODS, NAMESPACE, "late", {"metadata": {"annotations": {ADDRESS: "127.0.0.1"}}})
    assert asked(client, f"pods/late:{server.server_port}")["path"] == "/x"
    client.delete(PODS, NAMESPACE, "late", gracePeriodSeconds=0)
    wait_for(lambda: client.get(PODS, NAMESPACE, "late") is None, 15, "the pod is gone")
    # Its namesake, perhaps with the same address in the cluster, is not reached over connections left open.
    pod(client, "late")
    with pytest.raises(KubeError, match="502"):
        ask(client, f"pods/late:{server.server_port}")


@pytest.mark.parametrize("address", ["203.0.113.9", "10.240.1.1", "nonsense"])
def test_annotation_that_leads_away_from_loopback_is_ignored(client: KubeClient, address: str) -> None:
    name = f"away-{address.replace('.', '-')}"
    pod(client, name, **{ADDRESS: address, FORWARD: f"81={address}:81"})
    for port in (80, 81):
        with pytest.raises(KubeError, match="502"):
            ask(client, f"pods/{name}:{port}")


def test_open_connections_are_cut_when_their_pod_goes(cluster: Cluster, client: KubeClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        address = pod(client, "cut", **{ADDRESS: "127.0.0.1"})["status"]["podIP"]
        request = f"CONNECT {address}:{port} HTTP/1.1\r\n\r\n".encode()

        def tunnel() -> socket.socket | None:
            made = socket.create_connection(("127.0.0.1", cluster.egress_port), 10)
            made.sendall(request)
            if made.recv(100).startswith(b"HTTP/1.1 200"):
                return made
            made.close()
            return None

        with wait_for(tunnel, 10, "a tunnel") as made:
            peer, dummy = listener.accept()
            with peer:
                peer.sendall(b"hello")
                assert made.recv(100) == b"hello"
                client.delete(PODS, NAMESPACE, "cut", gracePeriodSeconds=0)
                made.settimeout(10)
                assert made.recv(100) == b""


def secure(server: http.server.ThreadingHTTPServer, directory: Path) -> bytes:
    """Serve TLS as NAME.NAMESPACE.svc of a Service; the certificate of the authority."""
    key, certificate = directory / "key.pem", directory / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=metrics", "-addext", "subjectAltName=DNS:metrics.default.svc"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    return certificate.read_bytes()


def test_aggregated_api_is_served_by_a_pod(client: KubeClient, server: http.server.ThreadingHTTPServer, tmp_path: Path) -> None:
    bundle = base64.b64encode(secure(server, tmp_path)).decode()
    pod(client, "metrics", **{ADDRESS: "127.0.0.1"})
    port = {"port": 443, "targetPort": server.server_port}
    body = {"metadata": {"name": "metrics", "namespace": NAMESPACE}, "spec": {"selector": {"app": "metrics"}, "ports": [port]}}
    client.create(SERVICES, body)
    spec = {
        "group": "external.metrics.k8s.io",
        "version": "v1beta1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "caBundle": bundle,
        "service": {"name": "metrics", "namespace": NAMESPACE, "port": 443},
    }
    name = "v1beta1.external.metrics.k8s.io"
    client.create(API_SERVICES, {"metadata": {"name": name}, "spec": spec})
    try:

        def available() -> bool:
            conditions = (client.get(API_SERVICES, "", name) or {}).get("status", {}).get("conditions", [])
            return any(row["type"] == "Available" and row["status"] == "True" for row in conditions)

        wait_for(available, 20, "the aggregated API is available")
        assert client.request("GET", METRICS)["groupVersion"] == "external.metrics.k8s.io/v1beta1"
    finally:
        # Before its server stops, or namespaces cannot be deleted any more.
        client.delete(API_SERVICES, "", name)
