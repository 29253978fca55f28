# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m tests.bench.adaptor`: the metrics adaptor beside 50 services, read 200 times a second; writes docs/benchmark_adaptor.md.

The program runs as the role installs it.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from rich.console import Console

from tests.cluster import Cluster
from tests.cluster.infer_operator.objects import PREFIX
from tests.cluster.kube_client import NODES, KubeClient, wait_for
from tests.cluster.pod_runner import find_python
from tests.support.autoscaling import API_PORT, CACHE, GROUP, IMAGE, NAMESPACE, Adaptor
from tests.tools.environment import ROOT

from . import motors
from .watcher import cpu_of, memory_of, percentile

PAGE = ROOT / "docs" / "benchmark_adaptor.md"
RAW = CACHE / "bench" / "adaptor.json"
SERVICES, RATE = 50, 200
SECONDS = 60.0
# Rates and quantiles are over so many seconds; before they have passed it does not have all that it will have.
WINDOW = 60.0
THREADS = 16
PATIENCE = 120.0
CONTROLLERS = ("kube-scheduler", "kwok", "kube-controller-manager")
METRICS = (
    "num_requests_waiting",
    "vllm:kv_cache_usage_perc",
    "motor:generation_tokens_per_second",
    "prompt_tokens_total",
    "time_to_first_token_seconds_p95",
    "time_per_output_token_seconds_p99",
)
THROUGH, DIRECTLY = "through the API server", "directly"
# The budgets: 99 of 100 answers within so many seconds, and MB.
P99, MEGABYTES = 0.05, 150.0
HEAD = """\
# Benchmark: metrics adaptor

`make bench` wrote this page. The adaptor was installed by its role for all namespaces, with its default settings and two replicas, and ran as two
processes from the objects that the role had made: the zip application on Python {python} with nothing but the client library, as the
pods' ServiceAccount. It looked at the coordinators of {services} services, each in a namespace of its own, every 5 s. API server, etcd, both
replicas, the coordinators and the benchmark shared {cores} cores. Nothing else ran in the cluster: no operator, no scheduler, no controllers.

The coordinators are played. Each has {each} prefill and {each} decode instances with one endpoint each, collects every 3 s, and answers with about
{size} kB: all that engines tell, with their histograms.

Values are read {rate} times a second for {seconds:.0f} s, of services, engine roles and metrics by chance, among them rates and quantiles over 60 s:
{metrics}. The times of the requests are set beforehand; an answer's time begins then, even if it could not be sent yet. First they go
through the API server and its aggregation layer, as those of HPA do, then to the pods directly with the certificate of the aggregation layer.
Load averages before, after the minute without reads, and at the end: {loads}.

| what | budget | measured | |
|---|---|---|---|
"""


@dataclass
class Reads:
    """What came out of one way to read: seconds of each answer, statuses, and CPU seconds per replica and minute meanwhile."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    took: float = 0.0
    cpu: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.seconds) / self.took if self.took else 0.0


@dataclass
class Measured:
    """Everything. Memory in MB, CPU in seconds per minute, one number per replica."""

    reads: dict[str, Reads] = field(default_factory=dict)
    peak: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    rest: list[float] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)
    size: float = 0.0
    scrape: float = 0.0
    start: float = 0.0

    def dump(self) -> dict[str, Any]:
        """Plain data."""
        return {**self.__dict__, "reads": {way: found.__dict__ for way, found in self.reads.items()}}

    @classmethod
    def load(cls, stored: Mapping[str, Any]) -> Measured:
        """What `dump` has made."""
        reads = {way: Reads(**{**found, "statuses": Counter(found["statuses"])}) for way, found in stored["reads"].items()}
        return cls(**{**stored, "reads": reads})


class Reader:
    """Reads values at fixed times over connections that stay open. `connect` makes the next one."""

    def __init__(self, connect: Callable[[], http.client.HTTPSConnection], headers: Mapping[str, str]) -> None:
        self._connect, self._headers = connect, headers
        self._next, self._lock = 0, threading.Lock()
        self._chance = random.Random(2)

    def read(self, seconds: float) -> Reads:
        """Read for so long."""
        found, total = Reads(), int(seconds * RATE)
        targets = [self._target() for dummy in range(total)]
        started = time.monotonic() + 0.5
        self._next = 0
        threads = [threading.Thread(target=self._work, args=(targets, started, found)) for dummy in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found.took = time.monotonic() - started
        return found

    def _target(self) -> str:
        namespace = motors.namespace_of(self._chance.randrange(SERVICES))
        labels = {"inferservice-name": "vllm-0", "inferserviceset-name": "vllm", "role-name": self._chance.choice(motors.ENGINES)}
        if labels["role-name"] == "prefill":
            metric = self._chance.choice([name for name in METRICS if "output_token" not in name])
        else:
            metric = self._chance.choice(METRICS)
        selector = ",".join(f"{PREFIX}{label}={value}" for label, value in labels.items())
        return f"/apis/{GROUP}/namespaces/{namespace}/{quote(metric)}?labelSelector={quote(selector)}"

    def _work(self, targets: list[str], started: float, found: Reads) -> None:
        connection = self._connect()
        while True:
            with self._lock:
                number, self._next = self._next, self._next + 1
            if number >= len(targets):
                break
            due = started + number / RATE
            time.sleep(max(0.0, due - time.monotonic()))
            status = self._ask(connection, targets[number])
            found.seconds.append(time.monotonic() - due)
            with self._lock:
                found.statuses[status] += 1
        connection.close()

    def _ask(self, connection: http.client.HTTPSConnection, target: str) -> str:
        try:
            connection.request("GET", target, headers=dict(self._headers))
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            return type(error).__name__
        if answer.status == 200:
            return "200"
        causes = json.loads(body).get("details", {}).get("causes") or [{}]
        return f"{answer.status} {causes[0].get('reason', '')}".strip()


class Bench:
    """One cluster, one installation."""

    def __init__(self, cluster: Cluster, client: KubeClient, adaptor: Adaptor, console: Console) -> None:
        self._cluster, self._client, self._adaptor, self._console = cluster, client, adaptor, console

    def measure(self) -> Measured:
        """All of it; the coordinators are played already."""
        found = Measured(loads=[os.getloadavg()[0]])
        began = time.monotonic()
        self._adaptor.follow()
        self._adaptor.play(namespaces=["*"], image=IMAGE, create_namespace=True, replicas=2)
        self._adaptor.settle()
        for program in CONTROLLERS:
            self._cluster.stop_program(program)
        wait_for(lambda: all(self._complete(pod) for pod in self._adaptor.pods()), PATIENCE, "every service has been looked at", 0.5)
        found.start = time.monotonic() - began
        self._say(f"every service has been looked at after {found.start:.1f} s")
        time.sleep(WINDOW + 10)
        found.rest = self._cpu(lambda: time.sleep(SECONDS))
        found.loads.append(os.getloadavg()[0])
        found.size = self._mean("scrape_bytes") / 1000
        found.scrape = self._mean("scrape_seconds")
        self._say(f"CPU without reads: {found.rest} s a minute; {found.size:.0f} kB a look, {found.scrape * 1000:.0f} ms")
        for way, reader in ((THROUGH, self._through()), (DIRECTLY, self._directly())):
            self._read(found, way, reader)
        found.peak = [memory_of(pod, "VmHWM") for pod in self._adaptor.pods()]
        found.memory = [memory_of(pod, "VmRSS") for pod in self._adaptor.pods()]
        found.loads.append(os.getloadavg()[0])
        return found

    def _read(self, found: Measured, way: str, reader: Reader) -> None:
        reader.read(2.0)  # connections are opened

        def read() -> None:
            found.reads[way] = reader.read(SECONDS)

        used = self._cpu(read)
        found.reads[way].cpu = used
        reads = found.reads[way]
        self._say(f"{way}: {reads.rate:.0f}/s, p99 {percentile(reads.seconds, 0.99) * 1000:.1f} ms, {dict(reads.statuses)}")

    def _complete(self, pod: Any) -> bool:
        text = self._adaptor.metrics(pod)
        ages = [line for line in text.splitlines() if line.startswith("motor_adaptor_scrape_age_seconds{")]
        return len(ages) == SERVICES

    def _mean(self, name: str) -> float:
        lines = self._adaptor.metrics().splitlines()
        values = [float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"motor_adaptor_{name}{{")]
        return sum(values) / len(values)

    def _cpu(self, work: Callable[[], None]) -> list[float]:
        """CPU seconds a minute of each replica while something is done."""
        pods = self._adaptor.pods()
        before, began = [cpu_of(pod) for pod in pods], time.monotonic()
        work()
        minutes = (time.monotonic() - began) / 60
        return [(cpu_of(pod) - old) / minutes for pod, old in zip(pods, before, strict=True)]

    def _through(self) -> Reader:
        url = urlsplit(self._cluster.url)
        context = ssl.create_default_context(cafile=str(self._cluster.ca_file))
        token = f"Bearer {self._client.token}"
        return Reader(
            lambda: http.client.HTTPSConnection(url.hostname or "", url.port, context=context, timeout=30), {"Authorization": token}
        )

    def _directly(self) -> Reader:
        """As the API server asks: with its client certificate, the replicas in turn."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # whose certificate it is is no matter of this measurement
        context.load_cert_chain(self._cluster.directory / "front.crt", self._cluster.directory / "front.key")
        addresses = iter([pod.address for pod in self._adaptor.pods()] * THREADS * 2)
        headers = {"X-Remote-User": "system:serviceaccount:kube-system:horizontal-pod-autoscaler"}
        return Reader(lambda: http.client.HTTPSConnection(next(addresses), API_PORT, context=context, timeout=30), headers)

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False)


def budgets(measured: Measured) -> Iterator[tuple[str, str, str, bool]]:
    """What, limit, what was measured, whether it is kept."""
    for way, reads in measured.reads.items():
        p99, fine = percentile(reads.seconds, 0.99), reads.statuses["200"] == len(reads.seconds)
        yield f"values read {way}", f"{RATE}/s, all of them", f"{reads.rate:.0f}/s, {_failures(reads)}", fine and reads.rate > 0.98 * RATE
        yield f"answer {way}, p99", f"{P99 * 1000:.0f} ms", f"{p99 * 1000:.1f} ms", p99 <= P99
    yield "memory of a replica, most ever", f"{MEGABYTES:g} MB", f"{max(measured.peak):.0f} MB", max(measured.peak) <= MEGABYTES


def _failures(reads: Reads) -> str:
    failed = {status: count for status, count in reads.statuses.items() if status != "200"}
    return ", ".join(f"{count} times {status}" for status, count in sorted(failed.items())) or "all of them"


def page(measured: Measured) -> str:
    """docs/benchmark_adaptor.md."""
    head = HEAD.format(
        python=find_python()[1],
        services=SERVICES,
        cores=os.cpu_count() or 1,
        each=motors.EACH,
        size=round(measured.size),
        rate=RATE,
        seconds=SECONDS,
        metrics=", ".join(f"`{name}`" for name in METRICS),
        loads=", ".join(f"{load:.1f}" for load in measured.loads),
    )
    rows = [f"| {what} | {limit} | {value} | {'ok' if kept else '**missed**'} |" for what, limit, value, kept in budgets(measured)]
    return head + "\n".join([*rows, "", "## All numbers", "", *_table(measured), ""])


def _table(measured: Measured) -> Iterator[str]:
    yield "| answers | p50 | p90 | p99 | the slowest | CPU of the replicas |"
    yield "|---|---|---|---|---|---|"
    for way, reads in measured.reads.items():
        times = [f"{percentile(reads.seconds, share) * 1000:.1f} ms" for share in (0.5, 0.9, 0.99)]
        yield f"| {way} | {' | '.join(times)} | {max(reads.seconds) * 1000:.1f} ms | {_each(reads.cpu, '{:.1f} s')} a minute |"
    yield ""
    yield "| what | measured |"
    yield "|---|---|"
    yield f"| from installing until every service has been looked at | {measured.start:.1f} s |"
    yield f"| one look at a coordinator | {measured.scrape * 1000:.0f} ms, {measured.size:.0f} kB |"
    yield f"| CPU of the replicas while nothing is read | {_each(measured.rest, '{:.1f} s')} a minute |"
    yield f"| memory of the replicas, most ever | {_each(measured.peak, '{:.0f} MB')} |"
    yield f"| memory of the replicas, at last | {_each(measured.memory, '{:.0f} MB')} |"


def _each(numbers: list[float], form: str) -> str:
    return " and ".join(form.format(number) for number in numbers)


def run(console: Console) -> Measured:
    """Set it all up, and measure."""
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(a2_nodes=0, a3_nodes=1, cpu_nodes=1, crds=True, egress=True))
        client = KubeClient.from_kubeconfig(cluster.kubeconfig)
        (node,) = [item["metadata"]["name"] for item in client.list(NODES)["items"] if item["metadata"]["name"].startswith("a3-")]
        motors.create(client, SERVICES, node)
        found = motors.pods(client, SERVICES)
        console.print(f"{SERVICES} services are there", highlight=False)
        adaptor = Adaptor(cluster, client, NAMESPACE)
        stack.callback(adaptor.runner.stop)
        stack.enter_context(motors.Played(client, found))
        return Bench(cluster, client, adaptor, console).measure()


def main() -> None:
    """Measure, print, and write the page."""
    console = Console(width=160)
    measured = run(console)
    RAW.parent.mkdir(parents=True, exist_ok=True)
    RAW.write_text(json.dumps(measured.dump()))
    text = page(Measured.load(json.loads(RAW.read_text())))
    console.print(text, highlight=False)
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
