# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The watch of a program ends with what a fresh list says, whatever happens to it, and its listener has heard of every change."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._cluster import api as apis
from ansible_collections.ascend.mindie.plugins.module_utils._cluster import metadata_list
from ansible_collections.ascend.mindie.plugins.module_utils._cluster import watch as watches
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.client import connect_program
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.watch import Watch
from tests.cluster import Cluster
from tests.cluster.fault_proxy import AFTER, BEFORE, FaultProxy, Request

PATH = "/configmaps$"
SILENT = 1.0
# Far longer than anything here takes, however busy the machine is.
PATIENCE = 30.0
Show = Callable[[str], None]
Seen = dict[tuple[str, str], tuple[str, str]]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "FIRST_PAUSE", 0.1)


def identity(obj: Any) -> tuple[tuple[str, str], tuple[str, str]]:
    metadata = obj["metadata"]
    return (metadata["namespace"], metadata["name"]), (metadata["uid"], metadata["resourceVersion"])


class Listener:
    """What a listener knows who only hears of changes."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, Any]] = []
        self.known: Seen = {}
        self.gone: set[str] = set()
        self.troubles: list[Exception] = []

    def hear(self, old: Any, new: Any) -> None:
        try:
            self._hear(old, new)
        except (AssertionError, KeyError) as error:
            self.troubles.append(error)
            raise

    def _hear(self, old: Any, new: Any) -> None:
        self.told.append((old, new))
        if old is not None:
            key, seen = identity(old)
            assert self.known.pop(key) == seen, "what is said to have been there was there"
            if new is None:
                self.gone.add(seen[0])
            else:
                assert int(identity(new)[1][1]) > int(seen[1]), "nothing goes back to what it was before"
        if new is not None:
            key, seen = identity(new)
            assert key not in self.known, "what is said to be new is new"
            assert seen[0] not in self.gone, "what went does not come back"
            self.known[key] = seen


class Watched:
    """A watch of a namespace's ConfigMaps through the proxy, beside the truth."""

    def __init__(self, cluster: Cluster, proxy: FaultProxy, namespace: str, **options: Any) -> None:
        self.cluster, self.proxy, self.namespace = cluster, proxy, namespace
        self.path = f"/api/v1/namespaces/{namespace}/configmaps"
        self.changed, self.listener = threading.Event(), Listener()
        given = {"silent": SILENT, "relist_every": 300.0, "lasting": (), "on_change": self.listener.hear, **options}
        self.watch = Watch(connect_program(proxy.kubeconfig), "ConfigMap", namespace, self.changed, relist_form=metadata_list.FORM, **given)
        self.until_true()

    def put(self, name: str, text: str = "") -> None:
        """Make or change a ConfigMap past the proxy."""
        body = {"metadata": {"name": name}, "data": {"text": text}}
        if self.cluster.request("POST", self.path, body)[0] == 409:
            assert self.cluster.request("PUT", f"{self.path}/{name}", body)[0] == 200

    def take(self, name: str) -> None:
        assert self.cluster.request("DELETE", f"{self.path}/{name}")[0] == 200

    def truth(self) -> Seen:
        return dict(identity(item) for item in self.cluster.get(self.path)["items"])

    def cached(self) -> Seen:
        return dict(identity(item) for item in self.watch.objects())

    def until_true(self) -> float:
        """Wait until the cache and the listener say what a fresh list says; returns the seconds that took."""
        began = time.monotonic()
        while True:
            assert self.listener.troubles == []
            if self.watch.health.synced and self.truth() == self.cached() == self.listener.known:
                return time.monotonic() - began
            assert time.monotonic() - began < PATIENCE, (self.watch.health, self.truth(), self.cached(), self.listener.known)
            time.sleep(0.02)

    def until(self, done: Callable[[], bool]) -> None:
        began = time.monotonic()
        while not done():
            assert time.monotonic() - began < PATIENCE, self.watch.health
            time.sleep(0.02)

    def change_all(self) -> None:
        """Something comes, something changes, something goes, and something goes and comes back as another one."""
        self.put("new")
        self.put("changed", "after")
        self.take("gone")
        self.take("again")
        self.put("again")

    def asked(self, *, watch: bool) -> list[Request]:
        return [request for request in self.proxy.requests if request.path == self.path and request.watch is watch]


@pytest.fixture
def watched(cluster: Cluster, proxy: FaultProxy, namespace: str) -> Iterator[Watched]:
    """A watch that has seen what `change_all` needs."""
    found = Watched(cluster, proxy, namespace)
    for name in ("changed", "gone", "again"):
        found.put(name)
    found.until_true()
    yield found
    found.watch.stop()


GOES_ON: list[dict[str, Any]] = [
    {"silence": 0},
    {"silence": 300},
    {"cut": 0},
    {"cut": 300},
    {"drop": "before"},
    {"drop": "after"},
    {"status": 429, "retry_after": 1},
    {"status": 503},
]
LISTS: list[dict[str, Any]] = [{"status": 410, "plain": True}, {"status": 410}, {"status": 500}, {"status": 504}]


@pytest.mark.parametrize("fault", [*GOES_ON, *LISTS], ids=str)
def test_two_watches_in_a_row_go_wrong_and_nothing_is_missed(watched: Watched, fault: dict[str, Any], show: Show) -> None:
    for number in (1, 2):
        watched.proxy.fault(watch=True, path=PATH, nth=number, **fault)
    assert watched.proxy.cut_watches()
    watched.change_all()
    seconds = watched.until_true()
    health = watched.watch.health
    assert health.restarts >= 1 and health.synced and not health.unknown and health.objects == len(watched.truth())
    if fault in GOES_ON:
        assert health.relists == 1 and len(watched.asked(watch=False)) == 1, "nothing is listed again"
        versions = [int(request.query["resourceVersion"][0]) for request in watched.asked(watch=True)]
        assert versions[0] < versions[1] <= versions[-1], "it goes on where it was"
    else:
        assert health.relists >= 2, "what was missed cannot be told by a watch"
    watched.take("new")
    watched.until_true()
    show(f"{fault} twice: all is known again after {seconds:.1f} s (pauses begin with 0.1 s, silence is given up after {SILENT:g} s)")


def test_deletions_that_were_never_told_are_found_by_the_regular_list(
    cluster: Cluster, proxy: FaultProxy, namespace: str, show: Show
) -> None:
    proxy.fault(watch=True, path=PATH, lose='"type":"DELETED"')
    watched = Watched(cluster, proxy, namespace, relist_every=2.0, silent=PATIENCE)
    for name in ("changed", "gone", "again"):
        watched.put(name)
    watched.until_true()
    lost = identity(next(item for item in watched.watch.objects() if item["metadata"]["name"] == "gone"))
    watched.change_all()
    watched.until(lambda: any(item["metadata"]["name"] == "new" for item in watched.watch.objects()))
    assert lost in watched.cached().items(), "the watch itself does not know"
    seconds = watched.until_true()
    (gone,) = [old for old, new in watched.listener.told if new is None and identity(old) == lost]
    assert gone["metadata"]["name"] == "gone"
    assert watched.watch.health.relists >= 2 and watched.watch.health.restarts == 0
    watched.watch.stop()
    show(f"lists every 2 s, lost deletions found after {seconds:.1f} s")


class Held:
    """Holds the next request that lists, or the next one that watches, until it is let go."""

    def __init__(self, watched: Watched, *, watch: bool, when: str = BEFORE) -> None:
        self._there, self._go = threading.Event(), threading.Event()
        watched.proxy.fault(path=PATH, watch=watch, nth=1, call=self._hold, when=when)

    def wait(self) -> None:
        assert self._there.wait(PATIENCE)

    def let_go(self) -> None:
        self._go.set()

    def _hold(self, request: Request) -> None:
        self._there.set()
        self._go.wait(PATIENCE)


def list_taken_over(watched: Watched, held: Held) -> None:
    """Let a list go, and wait until it is taken over; it knows everything."""
    before = watched.watch.health.relists
    held.let_go()
    watched.until(lambda: watched.watch.health.relists > before)
    assert watched.cached() == watched.truth() == watched.listener.known


def told_while_the_list_is_on_its_way(watched: Watched) -> None:
    """The list was answered before the changes that the watch has told of."""
    listing = Held(watched, watch=False, when=AFTER)
    listing.wait()
    watched.change_all()
    watched.until_true()
    list_taken_over(watched, listing)


def listed_before_it_is_told(watched: Watched) -> None:
    """The watch tells, step by step, what the list knows already."""
    listing, watching = Held(watched, watch=False), Held(watched, watch=True)
    listing.wait()
    watching.wait()
    for number in range(3):
        watched.put("changed", str(number))
    watched.change_all()
    list_taken_over(watched, listing)
    watching.let_go()


def half_told_before_the_list(watched: Watched) -> None:
    """Of two changes the watch has told the first one, and the list knows both."""
    listing = Held(watched, watch=False)
    listing.wait()
    watched.put("changed", "first")
    watched.until_true()
    watching = Held(watched, watch=True)
    watched.proxy.cut_watches()
    watching.wait()
    watched.put("changed", "second")
    watched.take("gone")
    list_taken_over(watched, listing)
    watching.let_go()


@pytest.mark.parametrize("race", [told_while_the_list_is_on_its_way, listed_before_it_is_told, half_told_before_the_list])
def test_nothing_goes_back_to_what_it_was_when_list_and_watch_overtake_each_other(
    cluster: Cluster, proxy: FaultProxy, namespace: str, race: Callable[[Watched], None]
) -> None:
    watched = Watched(cluster, proxy, namespace, relist_every=1.0, silent=PATIENCE)
    for name in ("changed", "gone", "again"):
        watched.put(name)
    watched.until_true()
    race(watched)
    watched.put("after")
    watched.until(lambda: any(item["metadata"]["name"] == "after" for item in watched.watch.objects()))
    watched.until_true()
    watched.watch.stop()


def test_an_api_server_that_dies_and_comes_back(tmp_path_factory: pytest.TempPathFactory, show: Show) -> None:
    with Cluster(a2_nodes=0, a3_nodes=0, cpu_nodes=0) as alone, FaultProxy(alone) as proxy:
        watched = Watched(alone, proxy, alone.create_namespace("mindie-restart"))
        for name in ("changed", "gone", "again"):
            watched.put(name)
        watched.until_true()
        died = time.monotonic()
        alone.restart_api_server()
        back = time.monotonic() - died
        watched.change_all()
        watched.until_true()
        seconds = time.monotonic() - died
        assert watched.watch.health.restarts >= 1
        watched.watch.stop()
    show(f"an API server that is back after {back:.1f} s: all is known after {seconds:.1f} s")


@pytest.mark.parametrize("jump", [86400.0, -86400.0])
def test_a_clock_that_jumps_by_a_day_changes_nothing(watched: Watched, monkeypatch: pytest.MonkeyPatch, jump: float) -> None:
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + jump)
    watched.put("new")
    watched.until_true()
    watched.proxy.fault(watch=True, path=PATH, nth=1, silence=0)
    watched.proxy.cut_watches()
    watched.change_all()
    watched.until_true()
    assert watched.watch.health.relists == 1 and watched.watch.health.restarts <= 3


def test_pauses_grow_while_the_server_refuses(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "FIRST_PAUSE", 0.2)
    watched.put("heard")  # a word of the server is what sets the pause back
    watched.until_true()
    fault = watched.proxy.fault(watch=True, path=PATH, status=503)
    watched.proxy.cut_watches()
    watched.until(lambda: fault.seen >= 5)
    times = [request.started for request in watched.asked(watch=True)][1:6]
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses[-1] > 2 * pauses[0], "0.2, 0.4, 0.8, 1.6 s, a quarter more or less"
    assert "503" in watched.watch.health.errors
    watched.proxy.heal()
    watched.until(lambda: watched.watch.health.errors == "")


def test_more_is_waited_when_the_server_asks_for_it(watched: Watched) -> None:
    watched.proxy.fault(watch=True, path=PATH, nth=1, status=429, retry_after=2)
    watched.proxy.cut_watches()
    watched.until(lambda: len(watched.asked(watch=True)) >= 3)
    first, second = (request.started for request in watched.asked(watch=True)[1:3])
    assert second - first >= 2 * 0.75


def test_each_page_is_cut_before_the_next_is_asked_for(
    cluster: Cluster, proxy: FaultProxy, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apis, "PAGE", 2)
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    for number in range(5):
        cluster.request("POST", path, {"metadata": {"name": f"c{number}"}, "data": {"much": "x"}})
    proxy.fault(path=PATH, watch=False, nth=2, status=429)  # a page that is refused is asked for again, not the whole list
    asked: list[int] = []

    def keep(obj: Any) -> Any:
        asked.append(sum(1 for request in proxy.requests if request.path == path and not request.watch and request.status == 200))
        return {"metadata": obj["metadata"], "kind": obj["kind"]}

    watched = Watched(cluster, proxy, namespace, keep=keep)
    assert asked == [1, 1, 2, 2, 3, 3] and len(watched.asked(watch=False)) == 4
    watched.put("later")
    watched.until_true()
    assert all(set(item) == {"metadata", "kind"} and item["kind"] == "ConfigMap" for item in watched.watch.objects())
    watched.watch.stop()


def test_one_watch_of_the_whole_cluster_sees_all_namespaces(cluster: Cluster, proxy: FaultProxy, namespace: str) -> None:
    changed = threading.Event()
    other = cluster.create_namespace(f"{namespace}-other")
    selected = Watch(connect_program(proxy.kubeconfig), "ConfigMap", None, changed, relist_every=300.0, field_selector="metadata.name=mine")
    try:
        for place in (namespace, other):
            cluster.request("POST", f"/api/v1/namespaces/{place}/configmaps", {"metadata": {"name": "mine"}})
        began = time.monotonic()
        while {identity(item)[0] for item in selected.objects()} != {(namespace, "mine"), (other, "mine")}:
            assert time.monotonic() - began < PATIENCE, selected.health
            time.sleep(0.02)
    finally:
        selected.stop()
        cluster.request("DELETE", f"/api/v1/namespaces/{other}")


def test_a_right_that_is_given_later_is_found(cluster: Cluster, proxy: FaultProxy, namespace: str) -> None:
    kubeconfig = cluster.user_kubeconfig(f"{namespace}-later")
    watch = Watch(connect_program(kubeconfig), "ConfigMap", namespace, threading.Event(), relist_every=300.0, lasting=())
    began = time.monotonic()
    while not watch.health.errors:
        assert time.monotonic() - began < PATIENCE
        time.sleep(0.02)
    assert "403" in watch.health.errors and not watch.synced and not watch.health.unknown and watch.failed is None
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}]
    cluster.user_kubeconfig(f"{namespace}-later", rules, namespace)
    while not (watch.synced and watch.objects()):
        assert time.monotonic() - began < PATIENCE, watch.health
        time.sleep(0.02)
    assert watch.health.errors == ""
    watch.stop()


CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "scaledobjects.keda.sh"},
    "spec": {
        "group": "keda.sh",
        "scope": "Namespaced",
        "names": {"kind": "ScaledObject", "plural": "scaledobjects"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


def test_a_kind_that_comes_later_is_found_and_one_that_goes_has_no_objects(
    cluster: Cluster, proxy: FaultProxy, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watches, "LASTING_PAUSE", 0.5)
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    listener = Listener()
    api = connect_program(proxy.kubeconfig)
    watch = Watch(api, "ScaledObject", namespace, threading.Event(), relist_every=300.0, lasting=(), on_change=listener.hear)

    def until(done: Callable[[], bool]) -> None:
        began = time.monotonic()
        while not done():
            assert time.monotonic() - began < PATIENCE, watch.health
            time.sleep(0.02)

    until(lambda: watch.health.unknown)
    assert watch.health.synced and watch.objects() == () and watch.health.restarts == 0
    assert cluster.request("POST", definitions, CRD)[0] == 201
    try:
        until(lambda: watch.health.synced and not watch.health.unknown)
        body = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "one"}}
        until(lambda: cluster.request("POST", f"/apis/keda.sh/v1alpha1/namespaces/{namespace}/scaledobjects", body)[0] == 201)
        until(lambda: len(watch.objects()) == 1)
        proxy.fault(path="/scaledobjects$", status=404)
        proxy.cut_watches()
        until(lambda: watch.health.unknown)
        assert watch.objects() == () and listener.known == {}
        listener.gone.clear()  # the fault did not tell the truth
        proxy.heal()
        until(lambda: len(watch.objects()) == len(listener.known) == 1)
    finally:
        cluster.request("DELETE", f"{definitions}/scaledobjects.keda.sh")
    until(lambda: watch.health.unknown)
    assert watch.objects() == () and listener.known == {}
    watch.stop()
