# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One cluster: brings up the programs of the control plane, nodes and CRDs, and takes them down again."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import secrets
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import yaml

from tests.tools.environment import COLLECTIONS

from . import build, certificates, flags, nodes, processes, stages
from .gang_scheduler.scheduler import QUEUE, QUEUES

CRDS = Path(__file__).parent / "crds"
ROOT = Path(__file__).parents[2]
ASCEND_OPERATOR, GANG_SCHEDULER = "ascend-operator", "gang-scheduler"
STOP_ORDER = (
    "infer-operator",
    ASCEND_OPERATOR,
    GANG_SCHEDULER,
    "kwok",
    "kube-scheduler",
    "kube-controller-manager",
    "egress",
    "kube-apiserver",
    "etcd",
)


class Cluster:
    """A control plane on free ports. Use it as a context manager; everything it started is stopped by pid at the end.

    `crds`: install those written for the tests (the default with an operator), none, or these files.
    `ascend_operator`: run the stand-ins for the Ascend Operator and for gang scheduling, which then places all pods whose schedulerName is
    `volcano`, in `sessions` of so many seconds; `enqueue_always`: let PodGroups in whatever is free;
    `reschedule`: delete the pods of instances that a fault has hit, as Huawei's plugin for Volcano does. A rule can kill the Ascend Operator;
    `restart_after` starts it again after so many seconds, as often as it takes.
    """

    def __init__(
        self,
        directory: str | Path | None = None,
        *,
        a2_nodes: int = 2,
        a3_nodes: int = 8,
        cpu_nodes: int = 1,
        infer_operator: bool = False,
        egress: bool = False,
        crds: bool | Sequence[Path] | None = None,
        flap: bool = False,
        ascend_operator: bool = False,
        sessions: float = 1.0,
        enqueue_always: bool = False,
        reschedule: bool = False,
        restart_after: float | None = None,
    ) -> None:
        self._temporary = directory is None
        self.directory = Path(directory or tempfile.mkdtemp(prefix="mindie-"))
        self._counts = {"a2": a2_nodes, "a3": a3_nodes, "cpu": cpu_nodes}
        self._infer_operator, self._egress, self._flap = infer_operator, egress, flap
        self._ascend_operator, self._restart_after = ascend_operator, restart_after
        self._gang: dict[str, Any] = {"sessions": sessions, "enqueue_always": enqueue_always, "reschedule": reschedule}
        self._crds = infer_operator or ascend_operator if crds is None else crds
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._token = secrets.token_hex(16)
        self._authority: certificates.Authority | None = None
        self._etcd = ""
        self.url = ""
        self.ca_file = self.directory / "ca.crt"
        self.kubeconfig = str(self.directory / "kubeconfig")

    @classmethod
    def attached(cls, kubeconfig: str | Path, directory: Path) -> Self:
        """A cluster that another process runs, as its administrator's kubeconfig describes it; files are written to `directory`."""
        config = yaml.safe_load(Path(kubeconfig).read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        found = cls(directory)
        found.url, found._token, found.kubeconfig = cluster["server"], user["token"], str(kubeconfig)
        found.ca_file.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
        return found

    def __enter__(self) -> Self:
        try:
            self.up()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def up(self) -> None:
        """Start everything and wait until nodes are Ready and pods can be made."""
        programs = build.control_plane()
        self.directory.mkdir(parents=True, exist_ok=True)
        self._authority = certificates.write_all(self.directory)
        self._write_inputs()
        self._start_servers(programs)
        self._wait("the API server", lambda: self._get_text("/readyz") == "ok", 60)
        if self._crds:
            self.apply_crds(CRDS if self._crds is True else self._crds)
        self._start_controllers(programs)
        for generation, count in self._counts.items():
            for index in range(count):
                self._must("POST", "/api/v1/nodes", nodes.make(generation, index))
        self._wait("Ready nodes", self._nodes_ready, 30)
        self._wait("the default ServiceAccount", lambda: self._found("/api/v1/namespaces/default/serviceaccounts/default"), 30)
        if self._infer_operator:
            arguments = ["-m", "tests.cluster.infer_operator", "--kubeconfig", self.kubeconfig]
            self._python("infer-operator", [*arguments, *(["--flap"] if self._flap else [])])
        if self._ascend_operator:
            self.start_gang_scheduler()
            self.restart_ascend_operator()
            queue = f"/apis/{QUEUES.api_version}/{QUEUES.plural}/{QUEUE}"
            self._wait("Volcano's queue", lambda: self._found(queue), 30)

    def down(self) -> None:
        """Stop what was started, in order, and remove the temporary directory."""
        for name in STOP_ORDER:
            process = self._processes.pop(name, None)
            if process:
                processes.stop(process)
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def start_gang_scheduler(self, **changed: Any) -> None:
        """Run the stand-in for Volcano's scheduler (again), perhaps with other `sessions`, `enqueue_always` or `reschedule`."""
        self.stop_program(GANG_SCHEDULER)
        settings = {**self._gang, **changed}
        arguments = ["-m", "tests.cluster.gang_scheduler", "--kubeconfig", self.kubeconfig, "--period", str(settings["sessions"])]
        arguments += ["--enqueue", "always" if settings["enqueue_always"] else "fitting"]
        self._python(GANG_SCHEDULER, [*arguments, *(["--reschedule"] if settings["reschedule"] else [])])

    def restart_ascend_operator(self, *, restart_after: float | None = None) -> None:
        """Run the stand-in for the Ascend Operator, again if it has run before."""
        self.stop_program(ASCEND_OPERATOR)
        pause = self._restart_after if restart_after is None else restart_after
        arguments = ["-m", "tests.cluster.ascend_operator", "--kubeconfig", self.kubeconfig]
        self._python(ASCEND_OPERATOR, [*arguments, *([] if pause is None else ["--restart-after", str(pause)])])

    def stop_program(self, name: str) -> None:
        """Stop one program, if it runs."""
        process = self._processes.pop(name, None)
        if process:
            processes.stop(process)

    def restart_api_server(self) -> None:
        """The API server dies without a word, and another one comes up at its address."""
        self._processes["kube-apiserver"].kill()
        self._processes["kube-apiserver"].wait()
        self._start_api_server()
        self._wait("the API server", lambda: self._get_text("/readyz") == "ok", 60)

    def exit_status(self, name: str, seconds: float = 0.0) -> int | None:
        """How a program ended by itself, within so many seconds; None when it still runs."""
        try:
            return self._processes[name].wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def log(self, name: str) -> str:
        """What a program has written so far."""
        return (self.directory / f"{name}.log").read_text(errors="replace")

    @property
    def pids(self) -> dict[str, int]:
        """Process ids by program."""
        return {name: process.pid for name, process in self._processes.items()}

    @property
    def etcd(self) -> str:
        """URL of etcd, for who has more to write than the API server takes in a short time."""
        return self._etcd

    @property
    def egress_port(self) -> int:
        """Port of the HTTP proxy for programs that run as pods."""
        return int((self.directory / "egress.port").read_text())

    def request(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json", token: str | None = None
    ) -> tuple[int, Any]:
        """One request as administrator (or with another token): HTTP status and decoded body."""
        headers = {"Authorization": f"Bearer {token or self._token}", "Content-Type": content_type, "Accept": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        context = ssl.create_default_context(cafile=str(self.ca_file))
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
        try:
            with opener.open(request, timeout=30) as answer:
                status, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text.decode("utf-8", "replace")

    def get(self, path: str) -> Any:
        """The decoded body of a GET that must succeed."""
        return self._must("GET", path)

    def create_namespace(self, name: str) -> str:
        """A namespace whose default ServiceAccount exists already."""
        self._must("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        self._wait(f"ServiceAccount of {name}", lambda: self._found(f"/api/v1/namespaces/{name}/serviceaccounts/default"), 30)
        return name

    def apply_crds(self, source: str | Path | Sequence[Path]) -> None:
        """Install the CRDs of a folder or of files and wait until they are served."""
        files = sorted(Path(source).glob("*.y*ml")) if isinstance(source, (str, Path)) else list(source)
        for file in files:
            for crd in yaml.safe_load_all(file.read_text()):
                if crd:
                    self._must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
                    group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
                    path = f"/apis/{group}/{crd['spec']['versions'][0]['name']}/{plural}"
                    self._wait(f"CRD {plural}", lambda path=path: self.request("GET", path)[0] == 200, 30)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run the real kubectl as administrator and return what it prints."""
        command = [str(build.control_plane() / "kubectl"), "--kubeconfig", self.kubeconfig, *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=True).stdout

    def user_kubeconfig(self, name: str, rules: list[dict[str, Any]] | None = None, namespace: str | None = None) -> str:
        """A kubeconfig of a user with exactly these RBAC rules: in one namespace, or (None) in the whole cluster."""
        assert self._authority
        certificate, key = self._authority.issue(name)
        if rules:
            kind = "Role" if namespace else "ClusterRole"
            base = "/apis/rbac.authorization.k8s.io/v1" + (f"/namespaces/{namespace}" if namespace else "")
            self._must("POST", f"{base}/{kind.lower()}s", {"metadata": {"name": name}, "rules": rules})
            binding = {
                "metadata": {"name": name},
                "subjects": [{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}],
                "roleRef": {"kind": kind, "name": name, "apiGroup": "rbac.authorization.k8s.io"},
            }
            self._must("POST", f"{base}/{kind.lower()}bindings", binding)
        user = {"client-certificate-data": _base64(certificate), "client-key-data": _base64(key)}
        return self.write_kubeconfig(f"kubeconfig-{name}", user=user)

    def wrong_ca_kubeconfig(self) -> str:
        """A kubeconfig that trusts another authority."""
        return self.write_kubeconfig("kubeconfig-wrong-ca", ca=(self.directory / "front-ca.crt").read_bytes())

    def wrong_token_kubeconfig(self) -> str:
        """A kubeconfig with a token the server does not know."""
        return self.write_kubeconfig("kubeconfig-wrong-token", user={"token": "not-a-token"})

    def write_kubeconfig(
        self, name: str, *, user: Mapping[str, str] | None = None, server: str | None = None, ca: bytes | None = None
    ) -> str:
        """Write a kubeconfig beside the administrator's, with some of its parts replaced."""
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "test",
                    "cluster": {
                        "server": server or self.url,
                        "certificate-authority-data": _base64(ca or self.ca_file.read_bytes()),
                    },
                }
            ],
            "users": [{"name": "user", "user": dict(user or {"token": self._token})}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user"}}],
            "current-context": "test",
        }
        path = self.directory / name
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(content))
        return str(path)

    def behave(self, namespace: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
        """Give pods with these labels, when they are created in the namespace, annotations of `stages`.

        The API server itself does it (an admission policy), so that neither templates nor timing change. Returns the policy's name.
        """
        name = f"behave-{secrets.token_hex(4)}"
        pairs = ", ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in annotations.items())
        expression = f"Object{{metadata: Object.metadata{{annotations: {{{pairs}}}}}}}"
        policy = {
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                    "objectSelector": {"matchLabels": dict(labels)},
                    "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
                },
                "reinvocationPolicy": "Never",
                "failurePolicy": "Fail",
                "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}],
            },
        }
        base = "/apis/admissionregistration.k8s.io/v1"
        self._must("POST", f"{base}/mutatingadmissionpolicies", policy)
        self._must("POST", f"{base}/mutatingadmissionpolicybindings", {"metadata": {"name": name}, "spec": {"policyName": name}})
        self._wait("the admission policy", lambda: annotations.items() <= self._annotated(namespace, labels).items(), 30)
        return name

    def stop_behaving(self, namespace: str, policy: str) -> None:
        """New pods no longer get the annotations of a policy of `behave` (live ones keep theirs)."""
        base = "/apis/admissionregistration.k8s.io/v1"
        before = self._annotated(namespace, {})
        for kind in ("mutatingadmissionpolicybindings", "mutatingadmissionpolicies"):
            self._must("DELETE", f"{base}/{kind}/{policy}")
        self._wait("the end of the admission policy", lambda: self._annotated(namespace, {}) != before, 30)

    def _annotated(self, namespace: str, labels: Mapping[str, str]) -> dict[str, str]:
        """The annotations that a new pod with these labels gets."""
        probe = {
            "metadata": {"generateName": "probe-", "labels": dict(labels)},
            "spec": {"containers": [{"name": "probe", "image": "probe"}]},
        }
        made = self.request("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", probe)[1]
        return dict((made.get("metadata") or {}).get("annotations") or {})

    def annotate_pod(self, namespace: str, name: str, annotations: Mapping[str, str | None]) -> None:
        """Change the behaviour of a live pod (None takes an annotation off)."""
        body = {"metadata": {"annotations": dict(annotations)}}
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        self._must("PATCH", path, body, content_type="application/merge-patch+json")

    def down_node(self, name: str) -> None:
        """The node dies: no heartbeats, its pods neither start nor stop."""
        self._label_node(name, None)

    def up_node(self, name: str) -> None:
        """The node comes back."""
        self._label_node(name, "true")

    def _label_node(self, name: str, value: str | None) -> None:
        body = {"metadata": {"labels": {nodes.MANAGED: value}}}
        self._must("PATCH", f"/api/v1/nodes/{name}", body, content_type="application/merge-patch+json")

    def _write_inputs(self) -> None:
        tokens = self.directory / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text(f'{self._token},admin,admin,"system:masters"\n')
        (self.directory / "stages.yaml").write_text(stages.documents())
        schedulers = ["default-scheduler", *([] if self._ascend_operator else ["volcano"])]
        profiles = [{"schedulerName": name} for name in schedulers]
        scheduler = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": self.kubeconfig, "qps": 500, "burst": 1000},
            "leaderElection": {"leaderElect": False},
            "profiles": profiles,
        }
        (self.directory / "scheduler.yaml").write_text(yaml.safe_dump(scheduler))
        transport = {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": str(self.directory / "egress.sock")}}}
        selector = {
            "apiVersion": "apiserver.k8s.io/v1beta1",
            "kind": "EgressSelectorConfiguration",
            "egressSelections": [{"name": "cluster", "connection": transport}],
        }
        (self.directory / "egress.yaml").write_text(yaml.safe_dump(selector))

    def _start_servers(self, programs: Path) -> None:
        port, client, peer = processes.free_port(), processes.free_port(), processes.free_port()
        self.url = f"https://127.0.0.1:{port}"
        self.write_kubeconfig("kubeconfig")
        if self._egress:
            arguments = ["-m", "tests.cluster.egress", "--kubeconfig", self.kubeconfig, "--socket", str(self.directory / "egress.sock")]
            self._python("egress", [*arguments, "--port", "0", "--port-file", str(self.directory / "egress.port")])
        self._etcd = f"http://127.0.0.1:{client}"
        self._start("etcd", [str(programs / "etcd"), *flags.etcd(self._etcd, f"http://127.0.0.1:{peer}", self.directory)])
        self._start_api_server()

    def _start_api_server(self) -> None:
        port = int(self.url.rpartition(":")[2])
        self._start("kube-apiserver", [str(build.control_plane() / "kube-apiserver"), *flags.api_server(self._etcd, port, self._egress)])

    def _start_controllers(self, programs: Path) -> None:
        name = "kube-controller-manager"
        self._start(name, [str(programs / name), f"--kubeconfig={self.kubeconfig}", *flags.CONTROLLER_MANAGER])
        self._start("kube-scheduler", [str(programs / "kube-scheduler"), "--config=scheduler.yaml", "--secure-port=0"])
        kwok = ["--kubeconfig", self.kubeconfig, "--manage-nodes-with-label-selector", f"{nodes.MANAGED}=true", "--config", "stages.yaml"]
        kwok += ["--node-lease-duration-seconds", "10", "--node-ip", "10.240.255.1", "--cidr", "10.244.0.0/16", "-v", "WARN"]
        self._start("kwok", [str(programs / "kwok"), *kwok])

    def _start(self, name: str, command: list[str], environment: dict[str, str] | None = None) -> None:
        settings = dict(environment or os.environ, HOME=str(self.directory))
        self._processes[name] = processes.start(name, command, self.directory, settings)

    def _python(self, name: str, arguments: list[str]) -> None:
        self._start(name, [sys.executable, *arguments], dict(os.environ, PYTHONPATH=f"{ROOT}{os.pathsep}{COLLECTIONS}"))

    def _get_text(self, path: str) -> str:
        with contextlib.suppress(OSError):
            return str(self.request("GET", path)[1])
        return ""

    def _found(self, path: str) -> bool:
        return self.request("GET", path)[0] == 200

    def _nodes_ready(self) -> bool:
        ready = 0
        for node in self.get("/api/v1/nodes")["items"]:
            conditions = node["status"].get("conditions") or ()
            tainted = any(taint["key"] == "node.kubernetes.io/not-ready" for taint in node["spec"].get("taints") or ())
            ready += not tainted and any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
        return ready == sum(self._counts.values())

    def _must(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        status, answer = self.request(method, path, body, **options)
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {answer}")
        return answer

    def _wait(self, what: str, check: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not check():
            for name, process in self._processes.items():
                if process.poll() is not None and name != ASCEND_OPERATOR:  # a scaling rule may have killed that one
                    log = (self.directory / f"{name}.log").read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"{name} ended with {process.returncode} while waiting for {what}:\n{log}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"no sign of {what} within {seconds:g} s; logs are in {self.directory}")
            time.sleep(0.05)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
