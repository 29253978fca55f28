# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fault proxy counts exactly, streams, and makes each fault, in front of a real API server."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import urllib3

from tests.cluster import Cluster, build
from tests.cluster.fault_proxy import FaultProxy, Request
from tests.cluster.http_stream import LONGEST_HEAD
from tests.cluster.kube_client import CONFIG_MAPS, NODES, KubeClient, KubeError, read_watch, wait_for

BROKEN = (urllib3.exceptions.HTTPError, OSError)
ROOT = Path(__file__).parents[2]
WRITER = """
import sys
from tests.cluster.kube_client import CONFIG_MAPS, KubeClient
client = KubeClient.from_kubeconfig(sys.argv[1])
for number in range(5):
    client.create(CONFIG_MAPS, {"metadata": {"namespace": sys.argv[2], "name": f"step-{number}"}})
"""


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[FaultProxy]:
    with FaultProxy(cluster) as running:
        yield running


@pytest.fixture
def client(proxy: FaultProxy) -> KubeClient:
    return KubeClient.from_kubeconfig(proxy.kubeconfig)


@pytest.fixture
def direct(cluster: Cluster) -> KubeClient:
    return KubeClient.from_kubeconfig(cluster.kubeconfig)


def config_map(namespace: str, name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"namespace": namespace, "name": name}, "data": data}


def seen(proxy: FaultProxy) -> list[tuple[str, str, str, int]]:
    return [(row.method, row.kind_of_resource, row.name, row.status) for row in proxy.requests]


class Watch:
    """A watch of a namespace's ConfigMaps, read in a thread."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        version = client.list(CONFIG_MAPS, namespace)["metadata"]["resourceVersion"]
        self.answer = client.open_watch(CONFIG_MAPS, namespace, version)
        self.events: list[tuple[str, str]] = []
        self.raw: list[dict[str, Any]] = []
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        with contextlib.suppress(*BROKEN):
            for event in read_watch(self.answer):
                self.raw.append(event)
                self.events.append((event["type"], event["object"].get("metadata", {}).get("name", "")))

    @property
    def ended(self) -> bool:
        return not self.thread.is_alive()

    def wait(self, number: int) -> None:
        wait_for(lambda: len(self.events) >= number, 5, f"{number} events", 0.005)

    def close(self) -> None:
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            self.answer.shutdown()


def test_requests_are_recorded_as_they_were(proxy: FaultProxy, client: KubeClient, namespace: str) -> None:
    client.create(CONFIG_MAPS, config_map(namespace, "one"))
    client.patch(CONFIG_MAPS, namespace, "one", {"data": {"a": "1"}})
    client.list(CONFIG_MAPS, namespace, limit="5")
    assert client.get(CONFIG_MAPS, namespace, "two") is None
    client.delete(CONFIG_MAPS, namespace, "one")
    expected = [("POST", "", 201), ("PATCH", "one", 200), ("GET", "", 200), ("GET", "two", 404), ("DELETE", "one", 200)]
    assert seen(proxy) == [(method, "configmaps", name, status) for method, name, status in expected]
    listed = proxy.requests[2]
    assert listed.query == {"limit": ["5"]} and listed.path == f"/api/v1/namespaces/{namespace}/configmaps"
    assert listed.user_agent.startswith("python-urllib3") and listed.namespace == namespace
    assert all(0 < row.seconds < 5 for row in proxy.requests)
    assert [row.started for row in proxy.requests] == sorted(row.started for row in proxy.requests)
    assert [row.method for row in proxy.mutating()] == ["POST", "PATCH", "DELETE"]
    proxy.clear()
    assert proxy.requests == []


def test_only_changes_count_as_mutating(proxy: FaultProxy, client: KubeClient, namespace: str) -> None:
    path = CONFIG_MAPS.path(namespace)
    client.request("POST", f"{path}?dryRun=All", config_map(namespace, "dry"))
    assert client.get(CONFIG_MAPS, namespace, "dry") is None
    attributes = {"verb": "get", "resource": "pods", "namespace": namespace}
    client.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": {"resourceAttributes": attributes}})
    client.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": namespace}})
    client.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    client.create(CONFIG_MAPS, config_map(namespace, "wet"))
    client.delete(CONFIG_MAPS, namespace, "wet", dryRun=["All"])
    assert client.get(CONFIG_MAPS, namespace, "wet")
    assert [(row.method, row.path) for row in proxy.mutating()] == [("POST", path)]
    assert [row.dry_run for row in proxy.requests].count(True) == 2


@pytest.mark.parametrize(
    ("path", "kind", "name", "namespace"),
    [
        ("/api/v1/namespaces/ns/pods/p/status", "pods/status", "p", "ns"),
        ("/apis/apps/v1/namespaces/ns/deployments/d/scale", "deployments/scale", "d", "ns"),
        ("/apis/apps/v1/deployments", "deployments", "", ""),
        ("/api/v1/namespaces/ns", "namespaces", "ns", ""),
        ("/api/v1/nodes/a2-0", "nodes", "a2-0", ""),
        ("/api/v1/namespaces/ns/services/s/proxy/a/b", "services/proxy/a/b", "s", "ns"),
        ("/apis/apps/v1", "", "", ""),
        ("/readyz", "", "", ""),
    ],
)
def test_paths_are_understood(path: str, kind: str, name: str, namespace: str) -> None:
    request = Request("GET", path, {})
    assert (request.kind_of_resource, request.name, request.namespace) == (kind, name, namespace)


def test_one_connection_serves_many_requests(proxy: FaultProxy, client: KubeClient) -> None:
    for dummy in range(20):
        client.get(NODES, "", "cpu-0")
    (pool,) = [client._pool.connection_from_url(client.url)]
    assert pool.num_connections == 1 and len(proxy.requests) == 20


def test_eight_clients_are_counted_exactly_and_fast(proxy: FaultProxy, namespace: str) -> None:
    def work(number: int) -> None:
        own = KubeClient.from_kubeconfig(proxy.kubeconfig)
        own.create(CONFIG_MAPS, config_map(namespace, f"of-{number}"))
        for dummy in range(48):
            own.get(CONFIG_MAPS, namespace, f"of-{number}")
        own.delete(CONFIG_MAPS, namespace, f"of-{number}")

    started = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    rate = 400 / (time.monotonic() - started)
    assert len(proxy.requests) == 400 and len(proxy.mutating()) == 16
    assert {row.status for row in proxy.requests} == {200, 201}
    print(f"{rate:.0f} requests a second")
    assert rate > 100, f"{rate:.0f} requests a second"


def test_big_bodies_pass_both_ways(proxy: FaultProxy, client: KubeClient, namespace: str) -> None:
    big = "x" * 900_000
    client.create(CONFIG_MAPS, config_map(namespace, "big", a=big))
    found = client.get(CONFIG_MAPS, namespace, "big")
    assert found and found["data"] == {"a": big}
    assert len(json.loads(proxy.requests[0].body)["data"]["a"]) == len(big) < LONGEST_HEAD


def test_kubectl_works_through_it(proxy: FaultProxy, cluster: Cluster, namespace: str) -> None:
    command = [
        str(build.control_plane() / "kubectl"),
        "--kubeconfig",
        proxy.kubeconfig,
        "--cache-dir",
        str(cluster.directory / "discovery"),
    ]
    subprocess.run([*command, "-n", namespace, "create", "configmap", "made", "--from-literal=a=1"], check=True, capture_output=True)
    (made,) = proxy.mutating()
    assert (made.kind_of_resource, made.status) == ("configmaps", 201) and made.user_agent.startswith("kubectl/")


def test_watches_stream(proxy: FaultProxy, client: KubeClient, direct: KubeClient, namespace: str) -> None:
    watch = Watch(client, namespace)
    for number in range(3):
        started = time.monotonic()
        direct.create(CONFIG_MAPS, config_map(namespace, f"event-{number}"))
        watch.wait(number + 1)
        assert watch.events[-1] == ("ADDED", f"event-{number}") and time.monotonic() - started < 1
    request = proxy.requests[-1]
    assert request.watch and request.status == 200 and request.open
    watch.close()
    wait_for(lambda: not request.open, 5, "the end of a watch whose client has gone")


def test_latency_is_added(proxy: FaultProxy, client: KubeClient) -> None:
    client.get(NODES, "", "cpu-0")
    proxy.latency = 0.2
    client.get(NODES, "", "cpu-0")
    fast, slow = proxy.requests
    assert fast.seconds < 0.2 <= slow.seconds < 1


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (409, "Conflict"),
        (410, "Expired"),
        (422, "Invalid"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
    ],
)
def test_statuses(proxy: FaultProxy, client: KubeClient, direct: KubeClient, namespace: str, status: int, reason: str) -> None:
    fault = proxy.fault(method="PATCH", path=r"/configmaps/one$", nth=2, status=status)
    client.create(CONFIG_MAPS, config_map(namespace, "one", a="0"))
    client.patch(CONFIG_MAPS, namespace, "one", {"data": {"a": "1"}})
    with pytest.raises(KubeError) as caught:
        client.patch(CONFIG_MAPS, namespace, "one", {"data": {"a": "2"}})
    assert (caught.value.status, caught.value.reason) == (status, reason)
    assert (direct.get(CONFIG_MAPS, namespace, "one") or {})["data"] == {"a": "1"}
    client.patch(CONFIG_MAPS, namespace, "one", {"data": {"a": "3"}})
    assert [row.status for row in proxy.requests] == [201, 200, status, 200] and fault.seen == 3


def test_too_many_requests_says_when_to_come_back(proxy: FaultProxy, client: KubeClient) -> None:
    headers = {"Authorization": f"Bearer {client.token}"}
    for given, expected in ((None, "1"), (7, "7")):
        proxy.heal()
        proxy.fault(status=429, retry_after=given, headers={"X-Test": "yes"})
        answer = client._pool.request("GET", f"{client.url}/api/v1/nodes/cpu-0", headers=headers)
        assert (answer.status, answer.headers["Retry-After"], answer.headers["X-Test"]) == (429, expected, "yes")
        details = answer.json()["details"]
        assert details == {"name": "cpu-0", "kind": "nodes", "retryAfterSeconds": int(expected)}


def test_a_creation_conflicts_as_existing(proxy: FaultProxy, client: KubeClient, namespace: str) -> None:
    proxy.fault(method="POST", status=409)
    with pytest.raises(KubeError) as caught:
        client.create(CONFIG_MAPS, config_map(namespace, "one"))
    assert caught.value.reason == "AlreadyExists"


@pytest.mark.parametrize(("drop", "done"), [("before", False), ("after", True)])
def test_dropped_connections(proxy: FaultProxy, client: KubeClient, direct: KubeClient, namespace: str, drop: str, done: bool) -> None:
    proxy.fault(method="POST", path="/configmaps$", nth=1, drop=drop)
    with pytest.raises(BROKEN):
        client.create(CONFIG_MAPS, config_map(namespace, "one"))
    assert (direct.get(CONFIG_MAPS, namespace, "one") is not None) is done
    assert seen(proxy) == [("POST", "configmaps", "", 201 if done else 0)]
    client.create(CONFIG_MAPS, config_map(namespace, "two"))


def test_delay_of_one_request_does_not_hold_up_others(proxy: FaultProxy, client: KubeClient) -> None:
    proxy.fault(path="/nodes/cpu-0$", delay=0.5)
    slow = threading.Thread(target=client.get, args=(NODES, "", "cpu-0"))
    slow.start()
    wait_for(lambda: len(proxy.requests) == 1, 5, "the slow request", 0.005)
    client.get(NODES, "", "cpu-1")
    assert slow.is_alive()
    slow.join()
    assert proxy.requests[0].seconds >= 0.5 > proxy.requests[1].seconds


@pytest.mark.parametrize("size", [0, 40])
def test_cut_watch(proxy: FaultProxy, client: KubeClient, direct: KubeClient, namespace: str, size: int) -> None:
    proxy.fault(watch=True, nth=1, cut=size)
    first = Watch(client, namespace)
    direct.create(CONFIG_MAPS, config_map(namespace, "one"))
    wait_for(lambda: first.ended, 5, "the end of the watch")
    assert first.events == []
    second = Watch(client, namespace)
    direct.create(CONFIG_MAPS, config_map(namespace, "two"))
    second.wait(1)
    assert second.events == [("ADDED", "two")] and proxy.cut_watches() == 1
    wait_for(lambda: second.ended, 5, "the end of the second watch")
    assert proxy.cut_watches() == 0


def test_silent_watch(proxy: FaultProxy, client: KubeClient, direct: KubeClient, namespace: str) -> None:
    proxy.fault(watch=True, nth=1, silence=0)
    silent, open_one = Watch(client, namespace), Watch(client, namespace)
    direct.create(CONFIG_MAPS, config_map(namespace, "one"))
    open_one.wait(1)
    assert silent.events == [] and not silent.ended
    silent.close()
    request = next(row for row in proxy.requests if row.watch)
    wait_for(lambda: not request.open, 5, "the end of the silent watch")
    open_one.close()


def test_an_expired_watch_ends_with_an_event(proxy: FaultProxy, client: KubeClient, namespace: str) -> None:
    proxy.fault(path="/configmaps$", watch=True, status=410)
    made = Watch(client, namespace)
    wait_for(lambda: made.ended, 5, "the end of the watch")
    (event,) = made.raw
    assert event["type"] == "ERROR" and proxy.requests[-1].status == 200
    assert [event["object"][key] for key in ("kind", "status", "reason", "code")] == ["Status", "Failure", "Expired", 410]


@pytest.mark.parametrize(("when", "there"), [("before", False), ("after", True)])
def test_calls(proxy: FaultProxy, client: KubeClient, direct: KubeClient, namespace: str, when: str, there: bool) -> None:
    """Before: the server knows nothing yet. After: it has done the request, and the client waits for the answer still."""
    found: list[bool] = []
    answered = threading.Event()

    def look(request: Request) -> None:
        assert request.kind_of_resource == "configmaps"
        found.append(direct.get(CONFIG_MAPS, namespace, "one") is not None)
        assert not answered.wait(0.1)

    proxy.fault(mutating=True, nth=1, call=look, when=when)
    client.get(CONFIG_MAPS, namespace, "one")
    client.create(CONFIG_MAPS, config_map(namespace, "one"))
    answered.set()
    client.create(CONFIG_MAPS, config_map(namespace, "two"))
    assert found == [there]


@pytest.mark.parametrize(("when", "steps"), [("before", 2), ("after", 3)])
def test_a_client_killed_at_a_request(proxy: FaultProxy, direct: KubeClient, namespace: str, when: str, steps: int) -> None:
    """Killed at its third write, the client has done exactly two or three."""
    started: list[subprocess.Popen[bytes]] = []
    ready = threading.Event()

    def kill(_request: Request) -> None:
        assert ready.wait(5)
        started[0].send_signal(signal.SIGKILL)
        started[0].wait()

    proxy.fault(mutating=True, nth=3, call=kill, when=when, drop=when)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    started.append(subprocess.Popen([sys.executable, "-c", WRITER, proxy.kubeconfig, namespace], env=environment))
    ready.set()
    assert started[0].wait(20) == -signal.SIGKILL
    wait_for(lambda: not proxy.requests[-1].open, 5, "the end of the third request")
    names = {row["metadata"]["name"] for row in direct.list(CONFIG_MAPS, namespace)["items"]}
    assert names - {"kube-root-ca.crt"} == {f"step-{number}" for number in range(steps)} and len(proxy.mutating()) == 3


def test_failures_of_calls_come_out(cluster: Cluster) -> None:
    def fail(_request: Request) -> None:
        raise LookupError("from the call")

    proxy = FaultProxy(cluster).__enter__()
    proxy.fault(call=fail)
    KubeClient.from_kubeconfig(proxy.kubeconfig).get(NODES, "", "cpu-0")
    with pytest.raises(LookupError, match="from the call"):
        proxy.__exit__(None)


@pytest.mark.parametrize("wrong", [{"drop": "never"}, {"when": "later"}])
def test_wrong_faults_are_refused(proxy: FaultProxy, wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="neither"):
        proxy.fault(**wrong)


def test_other_users_come_through(cluster: Cluster, namespace: str) -> None:
    """A user with a client certificate keeps exactly its rights; a wrong token stays wrong."""
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]
    of_user = cluster.user_kubeconfig(f"reader-{namespace}", rules, namespace)
    with FaultProxy(cluster, kubeconfig=of_user) as proxy:
        assert ask(proxy, f"/api/v1/namespaces/{namespace}/configmaps") == 200
        assert ask(proxy, f"/api/v1/namespaces/{namespace}/secrets") == 403
    with FaultProxy(cluster, kubeconfig=cluster.wrong_token_kubeconfig()) as proxy:
        assert ask(proxy, f"/api/v1/namespaces/{namespace}/configmaps") == 401


def ask(proxy: FaultProxy, path: str) -> int:
    command = [str(build.control_plane() / "kubectl"), "--kubeconfig", proxy.kubeconfig, "get", "--raw", path]
    subprocess.run(command, check=False, capture_output=True, timeout=20)
    (status,) = {row.status for row in proxy.requests if row.path == path}
    proxy.clear()
    return status


def test_nothing_is_left(cluster: Cluster, direct: KubeClient, namespace: str) -> None:
    """Thread, files and connections end with the proxy, though a watch is open."""
    before = {path.name for path in cluster.directory.iterdir()}
    with FaultProxy(cluster) as proxy:
        watch = Watch(KubeClient.from_kubeconfig(proxy.kubeconfig), namespace)
        wait_for(lambda: proxy.requests[-1].status == 200, 5, "the watch")
        assert "fault-proxy" in threads()
    wait_for(lambda: watch.ended, 5, "the end of the watch")
    assert {path.name for path in cluster.directory.iterdir()} == before and "fault-proxy" not in threads()


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate()]
