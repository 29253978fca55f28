# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make demo`: deploy a sample service in both modes, scale it, change a log level, run again, predict; then show it all.

The last chapters have a cluster of their own, in which a server of a service of AscendJobs fails and returns: by day, when somebody is at
hand, and at night, without and with the rescheduling watcher. In another one requests come and go, and a service follows them.

KEEP=1 leaves the clusters up until Ctrl-C. K8S_AUTH_KUBECONFIG names another cluster to use (its requests are not counted then); no
server of it is made to fail, so there are no last chapters.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.cluster import Cluster, build
from tests.cluster.fault_proxy import FaultProxy
from tests.support.playbooks import Outcome, PlaybookFailed, run, services

from . import elastic, load, night, show

EXAMPLES = Path(__file__).parents[2] / "examples"
MODES = {"multi_deployment": "demo-deployments", "infer_service_set": "demo-infer-set"}
LOOK = ("get pods -A -o wide", f"get deployments,configmaps,leases -n {MODES['multi_deployment']}", "get inferservicesets -A")


class Target:
    """The cluster that the demo works on, and how many requests it got."""

    def __init__(self, kubeconfig: str, proxy: FaultProxy | None) -> None:
        self.kubeconfig = kubeconfig
        self._proxy = proxy

    def counted(self) -> tuple[int, int]:
        """Requests and writes since the last call."""
        if self._proxy is None:
            return 0, 0
        counts = len(self._proxy.requests), len(self._proxy.mutating())
        self._proxy.clear()
        return counts


@contextlib.contextmanager
def target(console: Console) -> Iterator[tuple[Target, Cluster | None]]:
    """The cluster named in the environment, or one of our own."""
    given = os.environ.get("K8S_AUTH_KUBECONFIG")
    if given:
        yield Target(given, None), None
        return
    build.control_plane()
    started = time.monotonic()
    with console.status("starting etcd, API server, controllers, scheduler and fake A2/A3 nodes"):
        cluster = Cluster(a2_nodes=2, a3_nodes=16, cpu_nodes=1, infer_operator=True).__enter__()
    try:
        console.print(f"A real control plane with 2 A2 and 16 A3 nodes is up after {time.monotonic() - started:.1f} s.")
        with FaultProxy(cluster) as proxy:
            yield Target(proxy.kubeconfig, proxy), cluster
    finally:
        cluster.down()


class Tour:
    """One service through all steps."""

    def __init__(self, console: Console, where: Target, mode: str) -> None:
        self._console, self._where, self._mode = console, where, mode
        self._name = MODES[mode]
        self._config: dict[str, Any] = json.loads((EXAMPLES / "configs" / mode / "user_config.json").read_text())
        self._config["motor_deploy_config"]["job_id"] = self._name
        self.steps: list[show.Step] = []

    def walk(self) -> dict[str, Any]:
        """All steps; returns the service as it is in the end."""
        self._step("deploy 2P1D", "deploy")
        self._step("scale to 4P2D", "scale", prefill=4, decode=2)
        self._step("scale to 1P1D", "scale", prefill=1, decode=1)
        self._config["motor_deploy_config"].update(p_instances_num=1, d_instances_num=1)
        self._config["motor_controller_config"]["logging_config"]["log_level"] = "DEBUG"
        self._step("log level DEBUG", "update_config")
        outcome = self._step("the same again", "deploy")
        if outcome.actions:
            raise PlaybookFailed(f"the second run was not unchanged: {outcome.actions}")
        self._step("plan for 3P1D (check mode)", "scale", check=True, prefill=3, decode=1)
        return outcome.service

    def _step(self, title: str, playbook: str, *, check: bool = False, **instances: int) -> Outcome:
        variables = {
            "mindie_user_config_content": copy.deepcopy(self._config),
            "mindie_env": str(EXAMPLES / "configs" / self._mode / "env.json"),
            "mindie_release": str(EXAMPLES / "release-2026-07"),
            "mindie_node_ports": "auto",
            "mindie_create_namespace": True,
            "mindie_wait_timeout": 60,
        }
        if instances:
            variables["mindie_instances"] = instances
        with self._console.status(f"{self._mode}: {title}"):
            outcome = run(playbook, services(**{self._name: variables}), self._where.kubeconfig, check=check)
        requests, writes = self._where.counted()
        what = ("would " if check else "") + show.summary(outcome.actions)
        self.steps.append(show.Step(title, what, outcome.seconds, requests, writes))
        self._console.print(f"  {self._mode}: {title}: {what} ({outcome.seconds:.1f} s, {requests} requests)")
        return outcome


def last_chapter(console: Console, cluster: Cluster) -> None:
    """A server fails and returns; what was seen is shown."""
    chapter = elastic.Chapter(console, cluster)
    moments = chapter.play()
    console.print()
    show.tiers(console, chapter.rule)
    show.foretold(console, chapter.foretold)
    show.timeline(console, moments, elastic.PREFIX)
    console.print(
        "Operator and scheduler are stand-ins, made after what was observed of the real ones. What Motor's controller and a person do on a\n"
        "real cluster, the demo did: the line says so. All else went by itself: the rule held prefill until decode had its server."
    )


def nights(console: Console, cluster: Cluster) -> None:
    """The same server fails again while nobody is at hand, without and with the watcher."""
    console.print("\nThe same at night, when nobody is at hand: first without, then with the rescheduling watcher.")
    found = [night.NightChapter(console, cluster).night(None)]
    with console.status("installing the watcher with its role, and running its pods"):
        watcher = night.installed(cluster)
    with watcher:
        found.append(night.NightChapter(console, cluster).night(watcher))
    console.print()
    show.nights(console, found, night.ABSENT)


def with_the_load(console: Console, scene: load.Scene) -> None:
    """Requests come and go, and decode follows; what was seen is a picture."""
    console.print("\nAutoscaling: requests come, and go again.")
    chapter = load.Chapter(console, scene)
    picture = load.draw(chapter.play())
    console.print(f"Load and instances over time are drawn in {os.path.relpath(picture)} (open it in a browser).", highlight=False)
    console.print(
        "The coordinator is played, and instances are ready at once; HPA, the aggregation layer and the adaptor are the real ones."
    )


def stay(console: Console, commands: dict[Cluster, tuple[str, ...]]) -> None:
    """KEEP=1: say how to look at the clusters, and wait for Ctrl-C."""
    if not commands or os.environ.get("KEEP", "") in ("", "0"):
        return
    kubectl = build.control_plane() / "kubectl"
    console.print("\nThe clusters stay up. Look at them in another terminal:", style="bold")
    for cluster, lines in commands.items():
        for arguments in lines:
            console.print(f"  {kubectl} --kubeconfig {cluster.kubeconfig} {arguments}", soft_wrap=True)
    console.print("Ctrl-C stops them.")
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()


def main() -> int:
    """Walk both modes, show what was done and what there is; then the last chapters."""
    console = Console(width=None if sys.stdout.isatty() else 150)
    started = time.monotonic()
    try:
        with target(console) as (where, cluster):
            tours = {mode: Tour(console, where, mode) for mode in MODES}
            services = {mode: tour.walk() for mode, tour in tours.items()}
            for mode, tour in tours.items():
                console.print()
                show.steps(console, mode, tour.steps)
                show.service(console, mode, services[mode])
            with contextlib.ExitStack() as open_clusters:
                looks: dict[Cluster, tuple[str, ...]] = {}
                if cluster:
                    second = open_clusters.enter_context(elastic.start())
                    last_chapter(console, second)
                    nights(console, second)
                    scene = open_clusters.enter_context(load.start())
                    with_the_load(console, scene)
                    looks = {cluster: LOOK, second: elastic.LOOK, scene.cluster: load.LOOK}
                console.print(f"\nAll of it took {time.monotonic() - started:.0f} s.")
                stay(console, looks)
    except PlaybookFailed as failed:
        console.print(f"[red]{failed}[/]")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
