# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/benchmark.md: budgets, comparison and all numbers of one run."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.tools.environment import COLLECTIONS

from .measure import Result, Results

UP, DOWN, UNCHANGED = "1 -> 16", "16 -> 1", "unchanged"
# Objects that scaling from 1 to 16 creates.
CREATED = 15
# Seconds of the budgets are those of a machine on which a play of one ping takes so long; on a slower one they grow with that.
REFERENCE_PING = 0.77
_GO_MOD = Path(__file__).parents[1] / "cluster" / "go" / "go.mod"
_WHO = {
    "ours": "`motor_instance_scale`",
    "list": "`kubernetes.core.k8s`, one task, a list",
    "loop": "`kubernetes.core.k8s`, a loop",
    "patch": "`kubernetes.core.k8s_json_patch`",
    "ping": "`ansible.builtin.ping`",
}

HEAD = """\
# Benchmark

`make bench` wrote this page. It scales a service from 1 to 16 prefill instances and back, and lets kubernetes.core do the same to the
API server, in the same run and with rounds interleaved. Numbers are medians. Each run is a process of its own with a cold discovery cache.
Every request passes a proxy that counts it and adds the latency. Seconds depend on the machine; requests do not.

{machine}

![Seconds, requests and CPU seconds of each way to scale](benchmark.svg)

The peers only send objects: they do not look at what is there, take no lock, check no count, keep no record of success, and cannot be
resumed. They create and delete exactly the Deployments that `motor_instance_scale` made, or change the same field of the InferServiceSet.
With `wait: true` all return when the new instances are ready, or when the pods of removed ones are gone (`wait_sleep: 1`, and deletion in
the foreground, for `kubernetes.core.k8s`). Nothing of kubernetes.core can tell when an InferServiceSet has the instances that were asked for,
so there is no such row.
"""


@dataclass(frozen=True)
class Machine:
    """What it was measured on. `load` is the load average of one minute before the run."""

    cores: int
    python: str
    ansible: str
    client: str
    kubernetes_core: str
    kubernetes: str
    load: float
    rounds: int

    @classmethod
    def this(cls, rounds: int) -> Machine:
        """This machine, now."""
        found = re.search(r"k8s\.io/kubernetes v(\S+)", _GO_MOD.read_text())
        return cls(
            cores=os.cpu_count() or 1,
            python=platform.python_version(),
            ansible=version("ansible-core"),
            client=version("kubernetes"),
            kubernetes_core=_installed_collection(),
            kubernetes=found[1] if found else "unknown",
            load=round(os.getloadavg()[0], 1),
            rounds=rounds,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"Measured on {self.cores} cores that client, proxy and the whole control plane share, over loopback: Kubernetes {self.kubernetes}, "
            f"ansible-core {self.ansible}, kubernetes.core {self.kubernetes_core}, client library kubernetes {self.client}, Python {self.python}. "
            f"The load average before the run was {self.load}."
        )


@dataclass(frozen=True)
class Budget:
    """A promise, the number that was measured, and the limit."""

    what: str
    measured: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def kept(self) -> bool:
        """Whether the promise holds."""
        if self.at_most is not None and self.measured > self.at_most:
            return False
        return self.at_least is None or self.measured >= self.at_least

    def row(self) -> str:
        """One line of the table."""
        limit = f"at most {self.at_most:.3g}" if self.at_most is not None else f"at least {self.at_least:g}"
        measured = f"{self.measured:.2f}".rstrip("0").rstrip(".")
        return f"| {self.what} | {f'{limit} {self.unit}'.rstrip()} | {measured} | {'ok' if self.kept else '**missed**'} |"


def slowness(results: Results) -> float:
    """How much longer a play of one ping takes here than where the budgets were set. A promise in seconds is never made stricter: on a
    machine that starts Python faster, an API server with 20 ms of latency answers no sooner.
    """
    return max(1.0, ping_seconds(results) / REFERENCE_PING)


def ping_seconds(results: Results) -> float:
    """How long a play of one ping takes here."""
    return results.get(backend="", who="ping", what="ping", latency=20).wall


def budgets(results: Results) -> list[Budget]:
    """The budgets of the design, and how far ahead of kubernetes.core we want to be."""
    md: dict[str, Any] = {"backend": "deployments", "latency": 20}
    up, alone = results.get(**md, who="ours", what=UP), results.get(**md, who="ours", what=UP, process="module")
    listed, loop = results.get(**md, who="list", what=UP), results.get(**md, who="loop", what=UP)
    ping, again = results.get(backend="", who="ping", what="ping", latency=20), results.get(**md, who="ours", what=UNCHANGED)
    slower = slowness(results)
    found = [
        Budget("1 -> 16 Deployments at 20 ms: requests", up.requests, "", at_most=CREATED + 12),
        Budget("1 -> 16 Deployments at 20 ms: module process", alone.wall, "s", at_most=0.7 * slower),
        Budget("1 -> 16 Deployments at 20 ms: playbook", up.wall, "s", at_most=1.5 * slower),
        Budget("unchanged second run at 20 ms: requests", again.requests, "", at_most=9),
        Budget("unchanged second run at 20 ms: playbook, above a ping", again.wall - ping.wall, "s", at_most=0.6 * slower),
    ]
    for what in (UP, DOWN):
        change = results.get(backend="infer_service_set", latency=20, who="ours", what=what)
        found.append(Budget(f"{what} in an InferServiceSet: requests", change.requests, "", at_most=14))
    ahead = "1 -> 16 Deployments at 20 ms: how far ahead of"
    return [
        *found,
        Budget(f"{ahead} one task with a list, seconds", listed.wall / up.wall, "times", at_least=1),
        Budget(f"{ahead} one task with a list, requests", listed.requests / up.requests, "times", at_least=1),
        Budget(f"{ahead} a loop, seconds", loop.wall / up.wall, "times", at_least=5),
    ]


def write(results: Results, machine: Machine) -> str:
    """The page."""
    scale = (
        f"Seconds were promised for a machine on which a play of one `ansible.builtin.ping` takes {REFERENCE_PING} s. Here it takes "
        f"{ping_seconds(results):.2f} s. On a machine where it takes longer, the limits in seconds are longer by the same factor (here "
        f"{slowness(results):.2f}). They never get stricter than they were promised: a faster machine does not make the latency of an API server "
        "shorter."
    )
    lines = [HEAD.format(machine=machine), "## Budgets", "", scale, "", "| what | budget | measured | |", "|---|---|---|---|"]
    lines += [budget.row() for budget in budgets(results)]
    for backend, title in (("deployments", "Deployments"), ("infer_service_set", "InferServiceSet")):
        for wait in (False, True):
            lines += ["", f"## {title}, `wait: {str(wait).lower()}`", ""]
            lines += _table(results, backend, wait)
    return "\n".join([*lines, ""])


def _table(results: Results, backend: str, wait: bool) -> Iterator[str]:
    yield "| what | latency | who | wall | fastest to slowest | CPU | requests | rounds |"
    yield "|---|---|---|---|---|---|---|---|"
    for result in sorted(results, key=_order):
        case = result.case
        if case.who == "ping" or case.backend != backend or case.wait != wait:
            continue
        yield _row(result)
        if case.what == UNCHANGED:
            yield _row(results.get(backend="", who="ping", what="ping", latency=case.latency))


def _order(result: Result) -> tuple[int, int, int, bool]:
    """By work, latency and peer."""
    case = result.case
    return (
        (UP, DOWN, UNCHANGED, "ping").index(case.what),
        case.latency,
        list(_WHO).index(case.who),
        case.process == "module",
    )


def _row(result: Result) -> str:
    case, (low, high) = result.case, result.spread
    who = _WHO[case.who] + (", the module process alone" if case.process == "module" else "")
    cells = [case.what, f"{case.latency} ms", who, f"{result.wall:.2f} s", f"{low:.2f} to {high:.2f} s", f"{result.cpu:.2f} s"]
    return f"| {' | '.join([*cells, str(result.requests), str(len(result.runs))])} |"


def _installed_collection() -> str:
    manifest = COLLECTIONS / "ansible_collections" / "kubernetes" / "core" / "MANIFEST.json"
    found: str = json.loads(manifest.read_text())["collection_info"]["version"]
    return found
