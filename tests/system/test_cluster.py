# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The test cluster keeps its promises: pods and nodes behave as asked, users have their rights, and nothing is left running."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster, build, stages
from tests.cluster.kube_client import wait_for

ROOT = Path(__file__).parents[2]
NAMESPACES = itertools.count(1)
STAND_INS = {"infer-operator", "ascend-operator", "gang-scheduler"}
PROGRAMS = {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "egress", *STAND_INS}
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


@pytest.fixture(scope="module")
def small() -> Iterator[Cluster]:
    """A cluster whose nodes may be taken down."""
    with Cluster(a2_nodes=2, a3_nodes=1, cpu_nodes=1) as running:
        yield running


@pytest.fixture
def pods(small: Cluster) -> Pods:
    return Pods(small, small.create_namespace(f"pods-{next(NAMESPACES)}"))


class Pods:
    """Pods of a namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.base = f"/api/v1/namespaces/{namespace}/pods"

    def create(self, name: str = "one", node: str | None = None, **annotations: str) -> None:
        given = {f"fake/{key.replace('_', '-')}": value for key, value in annotations.items()}
        spec: dict[str, Any] = {"containers": [{"name": "main", "image": "registry.example/main:1"}]}
        if node:
            spec["nodeSelector"] = {"kubernetes.io/hostname": node}
        metadata = {"name": name, "labels": {"app": "test"}, "annotations": given}
        status, answer = self.cluster.request("POST", self.base, {"metadata": metadata, "spec": spec})
        assert status == 201, answer

    def annotate(self, name: str = "one", **annotations: str | None) -> None:
        self.cluster.annotate_pod(self.namespace, name, {f"fake/{key.replace('_', '-')}": value for key, value in annotations.items()})

    def get(self, name: str = "one") -> dict[str, Any]:
        status, answer = self.cluster.request("GET", f"{self.base}/{name}")
        return dict(answer) if status == 200 else {}

    def status(self, name: str = "one") -> dict[str, Any]:
        return dict(self.get(name).get("status") or {})

    def container(self, name: str = "one") -> dict[str, Any]:
        return dict((self.status(name).get("containerStatuses") or [{}])[0])

    def ready(self, name: str = "one") -> bool:
        return true(self.status(name), "Ready")

    def wait(self, what: str, seconds: float = 10, name: str = "one") -> None:
        checks = {"Ready": lambda: self.ready(name), "gone": lambda: not self.get(name)}
        wait_for(checks.get(what, lambda: self.status(name).get("phase") == what), seconds, f"pod {what}")

    def delete(self, name: str = "one") -> None:
        assert self.cluster.request("DELETE", f"{self.base}/{name}")[0] == 200


def true(status: dict[str, Any], kind: str) -> bool:
    return any(row["type"] == kind and row["status"] == "True" for row in status.get("conditions") or ())


def test_a_pod_runs_and_stops(pods: Pods) -> None:
    pods.create()
    pods.wait("Ready", 5)
    status = pods.status()
    assert status["phase"] == "Running" and status["podIP"] and status["hostIP"] and pods.container()["ready"]
    assert "running" in pods.container()["state"] and pods.container()["restartCount"] == 0
    pods.delete()
    pods.wait("gone", 3)


def test_ready_after(pods: Pods) -> None:
    pods.create(ready_after="2s")
    pods.wait("Running", 5)
    started = time.monotonic()
    assert not pods.ready()
    pods.wait("Ready", 6)
    assert 1.5 < time.monotonic() - started < 5


def test_never_ready(pods: Pods) -> None:
    pods.create(never_ready="true")
    pods.wait("Running", 5)
    time.sleep(1)
    assert not pods.ready() and pods.status()["phase"] == "Running" and not pods.container()["ready"]


def test_a_live_pod_loses_readiness_and_gets_it_back(pods: Pods) -> None:
    pods.create()
    pods.wait("Ready", 5)
    pods.annotate(never_ready="true")
    wait_for(lambda: not pods.ready(), 5, "lost readiness")
    assert pods.status()["phase"] == "Running" and pods.container()["restartCount"] == 0
    pods.annotate(never_ready=None)
    pods.wait("Ready", 5)


def test_fail(pods: Pods) -> None:
    pods.create(fail="3")
    pods.wait("Failed", 5)
    assert pods.container()["state"]["terminated"]["exitCode"] == 3 and not pods.ready()


def test_image_pull_error(pods: Pods) -> None:
    pods.create(image_pull_error="true")
    wait_for(lambda: "waiting" in pods.container().get("state", {}), 5, "waiting container")
    waiting = pods.container()["state"]["waiting"]
    assert waiting["reason"] == "ImagePullBackOff" and "registry.example/main:1" in waiting["message"]
    assert pods.status()["phase"] == "Pending" and not pods.ready()
    pods.annotate(image_pull_error=None)
    pods.wait("Ready", 5)


def test_crash_loop(pods: Pods) -> None:
    pods.create(crash_loop="7")
    reasons: set[str] = set()

    def twice() -> bool:
        container = pods.container()
        reasons.add(container.get("state", {}).get("waiting", {}).get("reason", ""))
        return int(container.get("restartCount", 0)) >= 2

    wait_for(twice, 12, "two restarts")
    assert "CrashLoopBackOff" in reasons and not pods.ready() and pods.status()["phase"] == "Running"
    assert pods.container()["lastState"]["terminated"]["exitCode"] == 7
    events = pods.cluster.get(f"/api/v1/namespaces/{pods.namespace}/events")["items"]
    assert "BackOff" in {event["reason"] for event in events}


def test_stop_after(pods: Pods) -> None:
    pods.create(stop_after="2s")
    pods.wait("Ready", 5)
    pods.delete()
    started = time.monotonic()
    assert pods.get()["metadata"]["deletionTimestamp"]
    pods.wait("gone", 6)
    assert 1 < time.monotonic() - started < 5


def test_pods_of_a_deployment_behave_as_asked(pods: Pods) -> None:
    """Through an admission policy: the template stays as it is, other pods are left alone."""
    pods.cluster.behave(pods.namespace, {"app": "test"}, {"fake/fail": "4"})
    template = {"metadata": {"labels": {"app": "test"}}, "spec": {"containers": [{"name": "main", "image": "main"}]}}
    body = {"metadata": {"name": "app"}, "spec": {"selector": {"matchLabels": {"app": "test"}}, "template": template}}
    path = f"/apis/apps/v1/namespaces/{pods.namespace}/deployments"
    assert pods.cluster.request("POST", path, body)[0] == 201

    def failed() -> bool:
        return any(pod["status"]["phase"] == "Failed" for pod in pods.cluster.get(f"{pods.base}?labelSelector=app%3Dtest")["items"])

    wait_for(failed, 10, "failed pod")
    assert "annotations" not in pods.cluster.get(f"{path}/app")["spec"]["template"]["metadata"]
    pods.cluster.request("DELETE", f"{path}/app")


def test_both_schedulers_place_pods_by_their_npus(pods: Pods) -> None:
    for scheduler, node in (("default-scheduler", "a2"), ("volcano", "a3")):
        npus = {"huawei.com/Ascend910": "8" if node == "a2" else "16"}
        container = {"name": "main", "image": "main", "resources": {"requests": npus, "limits": npus}}
        chip = {"a2": "module-910b-8", "a3": "module-a3-16"}[node]
        spec = {"schedulerName": scheduler, "nodeSelector": {"accelerator-type": chip}, "containers": [container]}
        for name in (f"{node}-first", f"{node}-second", f"{node}-third"):
            assert pods.cluster.request("POST", pods.base, {"metadata": {"name": name}, "spec": spec})[0] == 201
        pods.wait("Ready", 10, f"{node}-first")

    def placed() -> list[str]:
        return sorted(pod["spec"]["nodeName"] for pod in pods.cluster.get(pods.base)["items"] if "nodeName" in pod["spec"])

    wait_for(lambda: placed() == ["a2-0", "a2-1", "a3-0"], 10, "as many pods as there are NPUs for")
    for pod in pods.cluster.get(pods.base)["items"]:
        pods.delete(pod["metadata"]["name"])


def test_a_node_goes_down_and_comes_back(pods: Pods) -> None:
    def node_ready() -> bool:
        return true(pods.cluster.get("/api/v1/nodes/a2-1")["status"], "Ready")

    pods.create("here", node="a2-1")
    pods.wait("Ready", 5, "here")
    assert node_ready()
    pods.cluster.down_node("a2-1")
    wait_for(lambda: not node_ready(), 25, "NotReady node")
    wait_for(lambda: not pods.ready("here"), 5, "pod that is not Ready")
    pods.delete("here")
    time.sleep(0.5)
    assert pods.get("here")["metadata"]["deletionTimestamp"], "nobody is there to stop it"
    pods.cluster.up_node("a2-1")
    wait_for(node_ready, 15, "Ready node")
    pods.wait("gone", 5, "here")


def test_users_have_exactly_their_rights(small: Cluster, pods: Pods) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    reader = small.user_kubeconfig("reader", rules, pods.namespace)
    assert refusal(reader, pods.base) == ""
    assert "Forbidden" in refusal(reader, f"/api/v1/namespaces/{pods.namespace}/secrets")
    assert "Forbidden" in refusal(reader, "/api/v1/namespaces/default/pods")
    assert "Forbidden" in refusal(small.user_kubeconfig("nobody"), pods.base)
    everywhere = small.user_kubeconfig("everywhere", rules)
    assert refusal(everywhere, "/api/v1/namespaces/default/pods") == ""


def test_wrong_credentials_are_refused(small: Cluster) -> None:
    assert "x509" in refusal(small.wrong_ca_kubeconfig(), "/api/v1/namespaces/default/pods")
    assert "Unauthorized" in refusal(small.wrong_token_kubeconfig(), "/api/v1/namespaces/default/pods")


def refusal(kubeconfig: str, path: str) -> str:
    """What kubectl says when it is refused; empty when it is not."""
    command = [str(build.control_plane() / "kubectl"), "--kubeconfig", kubeconfig, "get", "--raw", path]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=20)
    return done.stderr if done.returncode else ""


def test_secrets_of_the_cluster_are_private(small: Cluster) -> None:
    private = [path for path in small.directory.iterdir() if path.suffix in (".key", ".csv") or path.name.startswith("kubeconfig")]
    assert len(private) > 3 and all(path.stat().st_mode & 0o077 == 0 for path in private)


@pytest.fixture(scope="module")
def running() -> Iterator[dict[signal.Signals, tuple[subprocess.Popen[str], Path]]]:
    """Clusters of `python -m tests.cluster up`, at once, one for each way to end."""
    command = [sys.executable, "-m", "tests.cluster", "up", "--a2-nodes", "1", "--a3-nodes", "0", "--cpu-nodes", "0"]
    started = {end: subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for end in ENDS}
    try:
        found = {}
        for end, process in started.items():
            assert process.stdout
            line = process.stdout.readline()
            kubeconfig = re.search(r"KUBECONFIG=(\S+)", line)
            assert kubeconfig, line
            found[end] = process, Path(kubeconfig[1])
        yield found
    finally:
        for process in started.values():
            process.terminate()
            process.wait(30)
            if process.stdout:
                process.stdout.close()


def test_clusters_run_beside_each_other(running: dict[signal.Signals, tuple[subprocess.Popen[str], Path]], small: Cluster) -> None:
    kubeconfigs = [small.kubeconfig, *(str(path) for _process, path in running.values())]
    for kubeconfig in kubeconfigs:
        command = [str(build.control_plane() / "kubectl"), "--kubeconfig", kubeconfig, "get", "--raw", "/api/v1/nodes"]
        nodes = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=20).stdout)["items"]
        assert len(nodes) == (4 if kubeconfig == small.kubeconfig else 1)


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.name)
def test_nothing_is_left_after(
    running: dict[signal.Signals, tuple[subprocess.Popen[str], Path]], end: signal.Signals, small: Cluster
) -> None:
    process, kubeconfig = running[end]
    children = children_of(process.pid)
    assert len(children) == len(PROGRAMS)
    # The stand-in for the Ascend Operator is restarted by a process of its own when a scaling rule has killed it.
    below = [pid for child in children for pid in children_of(child)]
    assert len(below) == 1
    children += below
    process.send_signal(end)
    assert process.wait(30) == (-signal.SIGKILL if end is signal.SIGKILL else 0)
    wait_for(lambda: not any(map(alive, children)), 10, "the end of all programs")
    assert kubeconfig.parent.exists() == (end is signal.SIGKILL), "only kill -9 may leave files"
    if end is signal.SIGKILL:
        remove(kubeconfig.parent)
    assert all(alive(pid) for pid in small.pids.values())


def remove(directory: Path) -> None:
    for path in sorted(directory.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    directory.rmdir()


def children_of(parent: int) -> list[int]:
    """Process ids of direct children (every program is one)."""
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _stat(pid)[1:2] == [str(parent)]]


def alive(pid: int) -> bool:
    """Whether a process runs: a zombie, which waits for somebody to read its exit code, does not."""
    return _stat(pid)[:1] not in ([], ["Z"], ["X"])


def _stat(pid: int) -> list[str]:
    """State, parent and so on."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def test_down_ends_everything_and_may_be_repeated() -> None:
    cluster = Cluster(a2_nodes=0, a3_nodes=0, cpu_nodes=0)
    with cluster:
        pids = list(cluster.pids.values())
        assert len(pids) == 5 and all(map(alive, pids))
    cluster.down()
    assert not any(map(alive, pids)) and not cluster.directory.exists()


def test_a_program_that_ends_at_once_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a time-out but the program and its last words; nothing stays behind."""
    monkeypatch.setattr(stages, "documents", lambda: "not: [a stage")
    cluster = Cluster(a2_nodes=1, a3_nodes=0, cpu_nodes=0)
    started = time.monotonic()
    try:
        with pytest.raises(RuntimeError, match="kwok ended with"):
            cluster.up()
        pids = list(cluster.pids.values())
    finally:
        cluster.down()
    assert time.monotonic() - started < 25 and not any(map(alive, pids)) and not cluster.directory.exists()
