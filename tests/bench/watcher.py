# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m tests.bench.watcher`: the rescheduling watcher beside 1,000 and 10,000 AscendJobs; writes docs/benchmark_watcher.md.

The program runs as the role installs it. `python -m tests.bench.watcher NAME...` measures some of the scenes again; the page has the last
run of each.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.tools.environment import COLLECTIONS, ROOT

if str(COLLECTIONS) not in sys.path:
    sys.path.insert(0, str(COLLECTIONS))

from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_recreate import NUDGED
from tests.cluster import Cluster
from tests.cluster.ascend_operator.objects import ASCEND_JOBS
from tests.cluster.fault_proxy import FaultProxy
from tests.cluster.gang_scheduler.scheduler import POD_GROUPS
from tests.cluster.kube_client import CONFIG_MAPS, PODS, Informer, KubeClient, Obj, wait_for
from tests.cluster.pod_runner import PodRunner, RunningPod, find_python
from tests.support.watcher import ACTS, CACHE, NAME, PORT, Watcher

from . import fleet

PAGE = ROOT / "docs" / "benchmark_watcher.md"
RAW = CACHE / "bench" / "watcher.json"
NAMESPACE = "mindie-system"
SAMPLES = 200
# Nudges have a budget of four per second.
SPACING = (0.27, 0.33)
# Five times as often as by default, so that lists are among what is measured.
RELIST_EVERY = 60
REST_SECONDS = 60.0
PATIENCE = 300.0
# What is held for so long is told by Events.
TOLD_SECONDS = 12.0
DECISIONS = "motor_watcher_decision_seconds"
CONTROLLERS = ("kube-scheduler", "kwok", "kube-controller-manager")
HEAD = """\
# Benchmark: rescheduling watcher

`make bench` wrote this page. The watcher was installed by its role for all namespaces, with all acts switched on and one replica, and ran
as a process from the objects that the role had made: the zip application on Python {python} with nothing but the client library, as the
pod's ServiceAccount. It watched the API server of a test cluster: etcd, API server, program and benchmark shared {cores} cores.
Nothing else ran in the cluster: no operator, no scheduler, no controllers.

Objects look like those of MindCluster, with what the server keeps of who wrote which field, and were written straight into etcd.
Per AscendJob there are a PodGroup, a pod of 2 NPUs (but for one job in 32, which the rule holds) and a rank table. A service has 32 jobs, a
rule with 16 tiers and a `motor-config`, and a namespace of its own; where all jobs are in one namespace, each 32 of them
have a rule of their own. There are {servers} A3 servers.

An event is the PodGroup of a decode instance that comes to run, so that the rule allows the job that was held for its sake. Its time begins
when the API server has answered the change of the PodGroup, and ends when another watch sees that the watcher has patched the job; thus two
trips over a watch and the request are part of it. It is measured {samples} times for each row, at random moments about 0.3 s apart. There are
two other changes for each event. The watcher's own times (`{decisions}`, of all changes) begin when it hears of a change, and end when it has
decided.

Everything is listed again every {relist} s, five times as often as by default; this goes on while events are measured, and is
part of the minute of rest. Such a list has the metadata of all objects; what has changed without a word is read by itself.
{load}
"""


@dataclass(frozen=True)
class Scene:
    """What is there, and what is promised: seconds from an event to its decision at most for 99 of 100."""

    name: str
    title: str
    jobs: int
    budget: float
    entries: Callable[[], Iterable[fleet.Entry]]
    targets: tuple[tuple[str, str], ...]


def _spread(name: str, title: str, count: int, budget: float) -> Scene:
    targets = tuple((fleet.namespace_of(number), "") for number in range(count))
    return Scene(name, title, count * fleet.JOBS_PER_SERVICE, budget, lambda: fleet.services(0, count), targets)


def _together(count: int) -> Scene:
    targets = tuple((fleet.namespace_of(0), fleet.task_of(number) if number else "") for number in range(count))
    return Scene("one", "1,000 jobs in one namespace", count * fleet.JOBS_PER_SERVICE, 0.2, lambda: fleet.one_service(count), targets)


SCENES = (
    _spread("thousand", "1,000 jobs of 32 services", 32, 0.2),
    _together(32),
    _spread("many", "10,000 jobs of 313 services", 313, 0.5),
)
SERVERS = 10_016 * fleet.NPUS // fleet.NPUS_PER_NODE
# Budgets of all scenes.
RELIST_SECONDS, MEGABYTES = 2.0, 200.0


@dataclass
class Measured:
    """What came out for one scene. Times in seconds, memory in MB."""

    scene: Scene
    start: float = 0.0
    events: list[float] = field(default_factory=list)
    decisions: Mapping[str, float] = field(default_factory=dict)
    relists: dict[str, float] = field(default_factory=dict)
    peak: float = 0.0
    memory: float = 0.0
    cpu: float = 0.0
    loads: list[float] = field(default_factory=list)
    requests: Counter[str] = field(default_factory=Counter)

    def dump(self) -> dict[str, Any]:
        """Plain data; the scene is told by its name."""
        return {**self.__dict__, "scene": self.scene.name}

    @classmethod
    def load(cls, stored: Mapping[str, Any]) -> Measured:
        """What `dump` has made."""
        scene = next(scene for scene in SCENES if scene.name == stored["scene"])
        return cls(**{**stored, "scene": scene, "requests": Counter(stored["requests"])})

    def event(self, share: float) -> float:
        """A percentile of the seconds from an event to its nudge."""
        return percentile(self.events, share)

    def decision(self, share: float) -> float:
        """A percentile of the watcher's own seconds; an upper bound, as it counts them by these."""
        total = max(self.decisions.values(), default=0.0)
        found = (float(bound) for bound, count in self.decisions.items() if count >= share * total and total)
        return min(found, default=float("nan"))


def percentile(values: Iterable[float], share: float) -> float:
    """The least value that is not below so many of them."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


class Nudges(Informer):
    """Sees when jobs are nudged, by a watch of its own."""

    def __init__(self, client: KubeClient) -> None:
        super().__init__(client, ASCEND_JOBS, self._seen)
        self.at: dict[tuple[str, str], float] = {}

    def _seen(self, before: Obj | None, after: Obj | None) -> None:
        if before and after and _cause(before) != _cause(after):
            self.at[after["metadata"]["namespace"], after["metadata"]["name"]] = time.monotonic()


def _cause(job: Obj) -> str:
    return str((job["metadata"].get("annotations") or {}).get(NUDGED, ""))


class Bench:
    """One cluster and one installation of the watcher, for all scenes."""

    def __init__(self, cluster: Cluster, watcher: Watcher, console: Console) -> None:
        self._cluster, self._watcher, self._console = cluster, watcher, console
        self._client = watcher.client
        self._etcd = fleet.Etcd(cluster.etcd)
        self._pod = ""

    def install(self) -> None:
        """Install the watcher; then nothing but the API server is left running."""
        acts = dict.fromkeys(ACTS, True)
        self._watcher.play(namespaces=["*"], replicas=1, relist_every=RELIST_EVERY, **acts)
        selector = {"labelSelector": f"app.kubernetes.io/component={NAME}"}

        def placed() -> str:
            found = self._client.list(PODS, NAMESPACE, **selector)["items"]
            return next((pod["metadata"]["name"] for pod in found if pod.get("status", {}).get("podIP")), "")

        self._pod = wait_for(placed, 60.0, "a pod of the watcher has a place")
        for program in CONTROLLERS:
            self._cluster.stop_program(program)

    def measure(self, scene: Scene) -> Measured:
        """All of one scene."""
        found = Measured(scene, loads=[os.getloadavg()[0]])
        self._etcd.clear(fleet.PREFIXES)
        count = self._etcd.put((*fleet.servers(SERVERS), *scene.entries()))
        self._say(f"{scene.title}: {count} objects")
        wait_for(lambda: len(self._names(scene)) == scene.jobs, PATIENCE, "the API server has all jobs", 0.5)
        with self._running(self._watcher.runner) as (pod, began):
            found.start = time.monotonic() - began
            self._say(f"  all listed and leading after {found.start:.1f} s")
            self._settle(pod)
            before = decisions_of(pod)
            found.events = self._events(scene)
            after = decisions_of(pod)
            found.decisions = {bound: after[bound] - before[bound] for bound in after}
            found.relists = {row["kind"]: row["relist_seconds"] for row in state(pod)["watches"]}
            found.peak, found.memory = memory_of(pod, "VmHWM"), memory_of(pod, "VmRSS")
            found.loads.append(os.getloadavg()[0])
        self._rest(found)
        found.loads.append(os.getloadavg()[0])
        return found

    def _names(self, scene: Scene) -> list[str]:
        namespaces = sorted({namespace for namespace, dummy in scene.targets})
        found = self._client.list(ASCEND_JOBS, namespaces[0] if len(namespaces) == 1 else "", resourceVersion="0")["items"]
        return [item["metadata"]["name"] for item in found]

    @contextmanager
    def _running(self, runner: PodRunner) -> Iterator[tuple[RunningPod, float]]:
        began = time.monotonic()
        pod = runner.start(NAMESPACE, self._pod)
        try:
            pod.wait_port(PORT, PATIENCE)
            wait_for(lambda: asked(pod, "/healthz").get("leading") and asked(pod, "/healthz").get("ready"), PATIENCE, "it leads", 0.02)
            yield pod, began
        finally:
            pod.stop()
            runner.pods.clear()
            (CACHE / "bench").mkdir(parents=True, exist_ok=True)
            (CACHE / "bench" / "watcher.log").write_text(pod.log())

    def _settle(self, pod: RunningPod) -> None:
        """Wait until it has told what is new, and has described everything, which shows in that it has nothing to do."""
        time.sleep(TOLD_SECONDS)
        quiet = 0
        while quiet < 3:
            before = cpu_of(pod)
            time.sleep(1.0)
            quiet = quiet + 1 if cpu_of(pod) - before < 0.1 else 0

    def _events(self, scene: Scene) -> list[float]:
        """Seconds from the event to the nudge, `SAMPLES` times."""
        nudges, chance, found = Nudges(self._client), random.Random(1), []
        nudges.start()
        if not nudges.synced.wait(PATIENCE):
            raise TimeoutError("the watch of the benchmark has no list")
        for number in range(SAMPLES):
            time.sleep(chance.uniform(*SPACING))
            found.append(self._event(nudges, *scene.targets[number % len(scene.targets)], number))
        nudges.stop()
        return found

    def _event(self, nudges: Nudges, namespace: str, task: str, number: int) -> float:
        job = (namespace, fleet.job_name(task, "p", fleet.LAST))
        group = fleet.pod_group_name(namespace, task, "d", fleet.LAST)
        # Another version of the rule is another reason to nudge.
        turn = {"metadata": {"annotations": {"bench/turn": str(number)}}}
        self._client.patch(CONFIG_MAPS, namespace, f"{task}{fleet.RULE}", turn)
        time.sleep(0.1)
        nudges.at.pop(job, None)
        self._client.patch(POD_GROUPS, namespace, group, {"status": {"phase": "Running"}})
        began = time.monotonic()
        wait_for(lambda: job in nudges.at, 30.0, f"{job} is nudged", 0.001)
        self._client.patch(POD_GROUPS, namespace, group, {"status": {"phase": "Inqueue"}})
        return nudges.at[job] - began

    def _rest(self, found: Measured) -> None:
        """A minute in which nothing happens, through a proxy that counts."""
        with ExitStack() as stack:
            proxy = stack.enter_context(FaultProxy(self._cluster))
            runner = stack.enter_context(PodRunner(self._client, CACHE, through=proxy.kubeconfig))
            pod, dummy = stack.enter_context(self._running(runner))
            self._settle(pod)
            proxy.clear()
            began, before = time.monotonic(), cpu_of(pod)
            time.sleep(REST_SECONDS)
            found.cpu = (cpu_of(pod) - before) * 60.0 / (time.monotonic() - began)
            found.requests = Counter(_verb(request) for request in proxy.requests)
            found.peak, found.memory = max(found.peak, memory_of(pod, "VmHWM")), max(found.memory, memory_of(pod, "VmRSS"))

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False)


def _verb(request: Any) -> str:
    verb = "watch" if request.watch else {"GET": "get" if request.name else "list"}.get(request.method, request.method.lower())
    return f"{verb} {request.kind_of_resource}"


def asked(pod: RunningPod, path: str) -> Any:
    """What the watcher answers; nothing while it does not."""
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"http://{pod.address}:{PORT}{path}", timeout=30) as answer:
            text = answer.read().decode()
    except OSError:
        return {}
    return text if path == "/metrics" else json.loads(text)


def state(pod: RunningPod) -> Any:
    """The report."""
    return asked(pod, "/state.json")


def decisions_of(pod: RunningPod) -> dict[str, float]:
    """The watcher's own decisions by upper bound."""
    rows = re.findall(rf'^{DECISIONS}_bucket{{le="([^"]+)"}} (\S+)$', asked(pod, "/metrics"), re.MULTILINE)
    return {bound.replace("+Inf", "inf"): float(count) for bound, count in rows}


def _process(pod: RunningPod) -> Path:
    (process,) = pod.processes.values()
    return Path(f"/proc/{process.pid}")


def cpu_of(pod: RunningPod) -> float:
    """Seconds of CPU, user and system."""
    fields = (_process(pod) / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(pod: RunningPod, name: str) -> float:
    """Memory in MB: VmRSS is what it has, VmHWM the most it ever had."""
    found = re.search(rf"^{name}:\s+(\d+) kB", (_process(pod) / "status").read_text(), re.MULTILINE)
    if not found:
        raise ValueError(f"the kernel tells no {name}")
    return int(found[1]) / 1024


def budgets(measured: Measured) -> Iterator[tuple[str, str, str, bool]]:
    """What, limit, what was measured, whether it is kept."""
    scene, slowest = measured.scene, max(measured.relists.values())
    relist = max(measured.relists, key=lambda kind: measured.relists[kind])
    yield (
        "event to decision, p99",
        f"{scene.budget * 1000:.0f} ms",
        f"{measured.event(0.99) * 1000:.0f} ms",
        measured.event(0.99) <= scene.budget,
    )
    yield "slowest regular list", f"{RELIST_SECONDS:g} s", f"{slowest:.2f} s ({relist})", slowest <= RELIST_SECONDS
    yield "memory, most ever", f"{MEGABYTES:g} MB", f"{measured.peak:.0f} MB", measured.peak <= MEGABYTES


def page(results: list[Measured]) -> str:
    """docs/benchmark_watcher.md."""
    loads = "; ".join(f"{one.scene.title}: {', '.join(f'{load:.1f}' for load in one.loads)}" for one in results)
    lines = [
        HEAD.format(
            python=find_python()[1],
            cores=os.cpu_count() or 1,
            servers=f"{SERVERS:,}",
            samples=SAMPLES,
            decisions=DECISIONS,
            relist=RELIST_EVERY,
            load=f"Load averages before, after events and after the minute of rest: {loads}.",
        ),
        "| what is there | what | budget | measured | |",
        "|---|---|---|---|---|",
    ]
    for measured in results:
        for what, limit, value, kept in budgets(measured):
            lines.append(f"| {measured.scene.title} | {what} | {limit} | {value} | {'ok' if kept else '**missed**'} |")
    lines += ["", "## All numbers", "", *_table(results), "", "## Requests in a minute of rest", ""]
    lines += [f"* {measured.scene.title}: {_requests(measured.requests)}" for measured in results]
    return "\n".join([*lines, ""])


def _table(results: list[Measured]) -> Iterator[str]:
    yield "| | " + " | ".join(measured.scene.title for measured in results) + " |"
    yield "|---|" + "---|" * len(results)
    rows: list[tuple[str, Callable[[Measured], str]]] = [
        ("event to decision: p50", lambda one: f"{one.event(0.5) * 1000:.0f} ms"),
        ("p90", lambda one: f"{one.event(0.9) * 1000:.0f} ms"),
        ("p99", lambda one: f"{one.event(0.99) * 1000:.0f} ms"),
        ("the slowest", lambda one: f"{max(one.events) * 1000:.0f} ms"),
        ("the watcher's own times: p50", lambda one: f"up to {one.decision(0.5) * 1000:.0f} ms"),
        ("p99", lambda one: f"up to {one.decision(0.99) * 1000:.0f} ms"),
        ("from the start of the process until it leads and has listed everything", lambda one: f"{one.start:.1f} s"),
        *(
            (f"regular list of all {kind}s", lambda one, kind=kind: f"{one.relists[kind]:.2f} s")
            for kind in ("AscendJob", "PodGroup", "Pod", "ConfigMap", "Node")
        ),
        ("memory: most ever", lambda one: f"{one.peak:.0f} MB"),
        ("memory: at last", lambda one: f"{one.memory:.0f} MB"),
        ("CPU in a minute of rest", lambda one: f"{one.cpu:.1f} s"),
        ("requests in a minute of rest", lambda one: str(one.requests.total())),
    ]
    for what, value in rows:
        yield f"| {what} | " + " | ".join(map(value, results)) + " |"


def _requests(counted: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(counted.items(), key=lambda item: (-item[1], item[0])))


def run(names: Iterable[str], console: Console) -> list[Measured]:
    """Measure the scenes with these names (none: all)."""
    wanted = [scene for scene in SCENES if scene.name in names] or list(SCENES)
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(a2_nodes=0, a3_nodes=0, cpu_nodes=1, crds=True))
        watcher = stack.enter_context(Watcher(cluster, NAMESPACE))
        bench = Bench(cluster, watcher, console)
        bench.install()
        results = []
        for scene in wanted:
            results.append(bench.measure(scene))
            console.print("\n".join(_table(results[-1:])), highlight=False)
            console.print(_requests(results[-1].requests), highlight=False)
        return results


def main(names: Iterable[str] = ()) -> None:
    """Measure, print, and write the page when all scenes were measured at some time."""
    console = Console(width=160)
    stored = json.loads(RAW.read_text()) if names and RAW.exists() else {}
    stored.update({measured.scene.name: measured.dump() for measured in run(names, console)})
    RAW.parent.mkdir(parents=True, exist_ok=True)
    RAW.write_text(json.dumps(stored))
    text = page([Measured.load(stored[scene.name]) for scene in SCENES if scene.name in stored])
    console.print(text, highlight=False)
    if len(stored) == len(SCENES):
        PAGE.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
