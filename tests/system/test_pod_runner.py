# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program runs as its pod says, and is reached as in a cluster: through the API server and through other pods."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import Cluster
from tests.cluster.kube_client import (
    CONFIG_MAPS,
    PODS,
    SECRETS,
    SERVICES,
    KubeClient,
    KubeError,
    Obj,
    Resource,
    wait_for,
)
from tests.cluster.pod_runner import PodRunner, PodRunnerError, RunningPod, find_python

REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("MINDIE_CACHE", REPOSITORY / ".cache"))
NAMESPACE = "programs"
PORT = 8000
SERVICE_ACCOUNTS = Resource("v1", "ServiceAccount", "serviceaccounts")
NAMESPACES = Resource("v1", "Namespace", "namespaces", namespaced=False)
RBAC = "rbac.authorization.k8s.io/v1"
DEPLOYMENTS = Resource("apps/v1", "Deployment", "deployments")

PROGRAM = """
import http.server, json, os, sys, urllib.parse, urllib.request
import kubernetes

kubernetes.config.load_incluster_config()
api = kubernetes.client.CoreV1Api()


def attempt(call):
    try:
        return call()
    except kubernetes.client.ApiException as error:
        return error.status
    except OSError as error:
        return str(error)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        namespace = os.environ["POD_NAMESPACE"]
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        if self.path.startswith("/fetch?"):
            body = attempt(lambda: urllib.request.urlopen(query["url"][0], timeout=5).read().decode())
        else:
            body = {
                "path": self.path,
                "arguments": sys.argv[1:],
                "environment": dict(os.environ),
                "setting": open("/etc/program/setting.txt").read(),
                "mode": oct(os.stat("/etc/program/setting.txt").st_mode & 0o777),
                "secret": open("/etc/secret/key").read(),
                "labels": open("/etc/podinfo/labels").read(),
                "maps": attempt(lambda: [m.metadata.name for m in api.list_namespaced_config_map(namespace).items]),
                "secrets": attempt(lambda: len(api.list_namespaced_secret(namespace).items)),
            }
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        print(args, flush=True)


print("serving", flush=True)
http.server.ThreadingHTTPServer((os.environ["POD_IP"], 8000), Handler).serve_forever()
"""


def rendered_pod(name: str, **more: object) -> Obj:
    """A pod whose program comes out of a ConfigMap, as the collection installs its programs."""
    container = {
        "name": "program",
        "image": "registry.example/python:3.11",
        "command": ["python3", "-u", "/app/program.py"],
        "args": ["--name=$(POD_NAME)", "--literal=$$(POD_NAME)", "$(UNKNOWN)"],
        "env": [
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
            {"name": "SETTING", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "setting.txt"}}},
            {"name": "ABSENT", "valueFrom": {"secretKeyRef": {"name": "none", "key": "x", "optional": True}}},
            {"name": "COMBINED", "value": "$(POD_NAMESPACE)/$(POD_NAME)"},
        ],
        "envFrom": [{"prefix": "FROM_", "secretRef": {"name": "secret"}}],
        "resources": {"limits": {"memory": "256Mi"}},
        "volumeMounts": [
            {"name": "app", "mountPath": "/app"},
            {"name": "settings", "mountPath": "/etc/program"},
            {"name": "secret", "mountPath": "/etc/secret"},
            {"name": "podinfo", "mountPath": "/etc/podinfo"},
        ],
        "securityContext": {"readOnlyRootFilesystem": True},
    }
    labels_file = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    spec = {
        "serviceAccountName": "reader",
        "terminationGracePeriodSeconds": 5,
        "containers": [{**container, **more}],
        "volumes": [
            {"name": "app", "configMap": {"name": "program"}},
            {"name": "settings", "configMap": {"name": "settings", "defaultMode": 0o440}},
            {"name": "secret", "secret": {"secretName": "secret"}},
            {"name": "podinfo", "downwardAPI": {"items": [labels_file]}},
        ],
    }
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {"app": "program"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def install(client: KubeClient) -> None:
    """Namespace, files, a service account that may list ConfigMaps and nothing else, and a Service."""
    client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    own = {"namespace": NAMESPACE}
    client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "reader", **own}})
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]
    client.create(Resource(RBAC, "Role", "roles"), {"metadata": {"name": "reader", **own}, "rules": rules})
    binding = {
        "metadata": {"name": "reader", **own},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": NAMESPACE}],
    }
    client.create(Resource(RBAC, "RoleBinding", "rolebindings"), binding)
    client.create(CONFIG_MAPS, {"metadata": {"name": "program", **own}, "data": {"program.py": PROGRAM}})
    client.create(CONFIG_MAPS, {"metadata": {"name": "settings", **own}, "data": {"setting.txt": "first"}})
    client.create(SECRETS, {"metadata": {"name": "secret", **own}, "stringData": {"key": "hidden"}})
    port = {"name": "http", "port": 80, "targetPort": PORT}
    client.create(SERVICES, {"metadata": {"name": "web", **own}, "spec": {"selector": {"app": "program"}, "ports": [port]}})
    root_ca = "kube-root-ca.crt"
    wait_for(lambda: client.get(CONFIG_MAPS, NAMESPACE, root_ca), 20, f"ConfigMap {root_ca}")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(egress=True) as running:
        yield running


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> KubeClient:
    made = KubeClient.from_kubeconfig(cluster.kubeconfig)
    install(made)
    return made


@pytest.fixture(scope="module")
def runner(cluster: Cluster, client: KubeClient) -> Iterator[PodRunner]:
    with PodRunner(client, CACHE, proxy=f"127.0.0.1:{cluster.egress_port}") as made:
        yield made


@pytest.fixture(scope="module")
def pod(client: KubeClient, runner: PodRunner) -> RunningPod:
    client.create(PODS, rendered_pod("one"))
    running = runner.start(NAMESPACE, "one")
    running.wait_port(PORT)
    return running


def through_api(client: KubeClient, what: str, path: str = "/") -> Obj:
    """GET through the proxy of the API server; retried while its endpoints are not known yet."""

    def get() -> Obj | None:
        try:
            return client.request("GET", f"/api/v1/namespaces/{NAMESPACE}/{what}/proxy{path}")
        except KubeError as error:
            if error.status != 503:
                raise
            return None

    answer: Obj = wait_for(get, 15, f"an answer of {what}")
    return answer


def fetched(client: KubeClient, url: str) -> str:
    """What the program gets when it asks for a URL by itself, or its error."""
    return str(through_api(client, "pods/one:8000", f"/fetch?url={urllib.parse.quote(url, safe='')}"))


@pytest.mark.parametrize("what", ["pods/one:8000", "services/web:80", "services/web:http"])
def test_program_is_reached_through_the_api_server(client: KubeClient, pod: RunningPod, what: str) -> None:
    assert through_api(client, what, "/some/path?x=1")["path"] == "/some/path?x=1"


def test_program_has_exactly_the_environment_and_arguments_of_its_spec(client: KubeClient, pod: RunningPod) -> None:
    seen = through_api(client, "pods/one:8000")
    assert seen["arguments"] == ["--name=one", "--literal=$(POD_NAME)", "$(UNKNOWN)"]
    environment = seen["environment"]
    assert environment["POD_IP"] == pod.address and pod.address.startswith("127.")
    assert (environment["MEMORY"], environment["SETTING"], environment["FROM_key"]) == ("256", "first", "hidden")
    assert environment["COMBINED"] == f"{NAMESPACE}/one"
    machine = {"PATH", "HOME", "HOSTNAME", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}
    spec = {"POD_IP", "POD_NAME", "POD_NAMESPACE", "MEMORY", "SETTING", "FROM_key", "COMBINED"}
    service = {name for name in environment if name.startswith("KUBERNETES_SERVICE_")}
    # LC_CTYPE is set by Python itself where no locale is.
    assert set(environment) - {"LC_CTYPE"} == machine | spec | service


def test_program_reads_its_files(client: KubeClient, pod: RunningPod) -> None:
    seen = through_api(client, "pods/one:8000")
    assert (seen["setting"], seen["mode"], seen["secret"]) == ("first", "0o440", "hidden")
    assert seen["labels"] == 'app="program"'


def test_program_has_the_rights_of_its_service_account_and_no_others(client: KubeClient, pod: RunningPod) -> None:
    seen = through_api(client, "pods/one:8000")
    assert {"program", "settings"} <= set(seen["maps"])
    assert seen["secrets"] == 403


def test_files_change_as_a_kubelet_changes_them(client: KubeClient, runner: PodRunner, pod: RunningPod) -> None:
    client.patch(CONFIG_MAPS, NAMESPACE, "settings", {"data": {"setting.txt": "second"}})
    runner.refresh(pod)
    seen = through_api(client, "pods/one:8000")
    assert (seen["setting"], seen["environment"]["SETTING"]) == ("second", "first")
    client.patch(CONFIG_MAPS, NAMESPACE, "settings", {"data": {"setting.txt": "first"}})
    runner.refresh(pod)


@pytest.mark.parametrize("host", ["web", f"web.{NAMESPACE}", f"web.{NAMESPACE}.svc.cluster.local", "cluster address"])
def test_program_reaches_services_by_name_and_address(client: KubeClient, pod: RunningPod, host: str) -> None:
    through_api(client, "services/web:80")
    if host == "cluster address":
        host = (client.get(SERVICES, NAMESPACE, "web") or {})["spec"]["clusterIP"]
    text = fetched(client, f"http://{host}/there")
    assert json.loads(text)["path"] == "/there"


def test_program_reaches_pods_by_their_address_in_the_cluster(client: KubeClient, pod: RunningPod) -> None:
    address = (client.get(PODS, NAMESPACE, "one") or {})["status"]["podIP"]
    assert not address.startswith("127.")
    text = fetched(client, f"http://{address}:{PORT}/there")
    assert json.loads(text)["path"] == "/there"


@pytest.mark.parametrize("target", ["http://203.0.113.7/", "http://nowhere.example/", "http://web:81/"])
def test_unknown_targets_are_refused_and_never_dialled(client: KubeClient, pod: RunningPod, target: str) -> None:
    assert "502" in fetched(client, target)


def test_connect_of_the_tcp_listener_knows_pods_only(cluster: Cluster, client: KubeClient, pod: RunningPod) -> None:
    proxy = urllib.request.ProxyHandler({"https": f"http://127.0.0.1:{cluster.egress_port}"})
    with pytest.raises(urllib.error.URLError, match="502"):
        urllib.request.build_opener(proxy).open("https://203.0.113.7/", timeout=5)
    address = (client.get(PODS, NAMESPACE, "one") or {})["status"]["podIP"]
    # The program speaks no TLS: that the handshake fails shows that the tunnel stands.
    with pytest.raises(urllib.error.URLError, match=r"SSL|EOF|wrong version"):
        urllib.request.build_opener(proxy).open(f"https://{address}:{PORT}/", timeout=5)


def test_pod_without_a_runner_is_no_target(client: KubeClient) -> None:
    client.create(PODS, rendered_pod("idle"))
    wait_for(lambda: (client.get(PODS, NAMESPACE, "idle") or {}).get("status", {}).get("podIP"), 20, "an address")
    with pytest.raises(KubeError, match="502"):
        client.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods/idle:8000/proxy/")
    client.delete(PODS, NAMESPACE, "idle")


def test_replicas_have_addresses_of_their_own_and_are_followed(client: KubeClient, runner: PodRunner) -> None:
    pod = rendered_pod("unused")
    labels = {"app": "replicas"}
    template = {"metadata": {"labels": labels}, "spec": {**pod["spec"], "restartPolicy": "Always"}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    client.create(DEPLOYMENTS, {"metadata": {"name": "replicas", "namespace": NAMESPACE}, "spec": spec})
    runner.follow(NAMESPACE, "app=replicas")

    def running() -> list[RunningPod]:
        return [row for (dummy, name), row in runner.pods.items() if name.startswith("replicas-")]

    wait_for(lambda: len(running()) == 2, 20, "two running pods")
    pods = running()
    for row in pods:
        row.wait_port(PORT)
    assert len({row.address for row in pods}) == 2
    client.patch(DEPLOYMENTS, NAMESPACE, "replicas", {"spec": {"replicas": 0}})
    ended = [process.poll for row in pods for process in row.processes.values()]
    wait_for(lambda: all(poll() is not None for poll in ended), 20, "processes have ended")
    assert running() == []


def test_stop_lets_the_program_end_by_itself(client: KubeClient, runner: PodRunner) -> None:
    code = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit('bye')); print('up', flush=True); time.sleep(9)"
    client.create(PODS, rendered_pod("stopping", command=["python3", "-c", code]))
    running = runner.start(NAMESPACE, "stopping")
    wait_for(lambda: "up" in running.log(), 10, "program is up")
    started = time.monotonic()
    running.stop()
    assert time.monotonic() - started < 4
    assert running.log().endswith("bye\n") and running.processes["program"].returncode == 1
    client.delete(PODS, NAMESPACE, "stopping")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"command": ["/no/such/program"]}, "cannot start /no/such/program"),
        ({"command": []}, "has no command"),
        ({"envFrom": [{"configMapRef": {"name": "absent"}}]}, "ConfigMap absent not found"),
    ],
)
def test_pod_that_cannot_start_says_why(client: KubeClient, runner: PodRunner, change: Obj, message: str) -> None:
    client.create(PODS, rendered_pod("broken", **change))
    with pytest.raises(PodRunnerError, match=message):
        runner.start(NAMESPACE, "broken")
    client.delete(PODS, NAMESPACE, "broken", gracePeriodSeconds=0)
    wait_for(lambda: client.get(PODS, NAMESPACE, "broken") is None, 20, "pod is gone")


def test_programs_run_on_python_3_11_where_the_machine_has_one(runner: PodRunner) -> None:
    dummy, version = find_python()
    done = subprocess.run(["python3.11", "-c", ""], capture_output=True, check=False) if _has("python3.11") else None
    wanted = "3.11" if done and done.returncode == 0 else f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert version == wanted


def _has(name: str) -> bool:
    return any(Path(folder, name).exists() for folder in os.environ.get("PATH", "").split(os.pathsep))
