# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The chapter on AscendJobs: a server of a service fails, the service goes on smaller, the server returns, it is whole again.

The Ascend Operator and the scheduler are stand-ins, whose tests reproduce what the real ones do. What nobody stands in for, the demo
does itself, and says so: on a real cluster Motor's controller ends a prefill instance so that decode gets its server, and somebody takes
away the pod that hangs on the dead server.
"""

from __future__ import annotations

import copy
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.cluster import Cluster
from tests.support.playbooks import PlaybookFailed, run, services
from tests.tools.environment import COLLECTIONS

if str(COLLECTIONS) not in sys.path:
    sys.path.insert(0, str(COLLECTIONS))

from tests.support.modules import run_module

EXAMPLES = Path(__file__).parents[2] / "examples" / "ascend_jobs"
NAMESPACE = "demo-ascend-jobs"
SERVERS = 3
LOOK = (f"get ascendjobs,podgroups,pods -n {NAMESPACE} -o wide", f"get configmap scaling-rule -n {NAMESPACE} -o yaml")
PREFIX = "mindie-server-"
POLL = 0.25
# Dead servers are found after ten seconds, their pods evicted five later; a held job looks again after twenty at most.
PATIENCE = 60.0


@dataclass(frozen=True)
class Moment:
    """What there was at one time: seconds since the first one, who did what, the state of each instance, the tier, and why what does not run."""

    at: float
    happened: str
    states: dict[str, str]
    tier: int
    why: dict[str, str]

    def like(self, other: Moment) -> bool:
        """Whether nothing differs but time and words."""
        return (self.states, self.tier) == (other.states, other.tier)


@dataclass
class Chapter:
    """Plays the chapter on a cluster of its own and keeps what was seen."""

    console: Console
    cluster: Cluster
    moments: list[Moment] = field(default_factory=list)
    rule: dict[str, Any] = field(default_factory=dict)
    foretold: dict[str, Any] = field(default_factory=dict)
    _started: float = 0.0
    _tell: str = ""

    def play(self) -> list[Moment]:
        """Deploy, let the server of decode fail, have it back; returns what was seen. Raises PlaybookFailed when it does not recover."""
        self._deploy()
        self._until(lambda now: now.tier == -1, "the whole service runs")
        self.foretold = self._simulate()
        lost = self._server_of("mindie-server-d0")
        self._act(f"server {lost} fails", lambda: self.cluster.down_node(lost))
        self._until(lambda now: self._hangs("mindie-server-d0"), "the pod on the dead server is evicted")
        self._act("the demo, in place of a person: take away the pod that hangs there", lambda: self._force("mindie-server-d0-master-0"))
        self._until(lambda now: now.states["mindie-server-d0"] == "pending", "decode waits for a server")
        self._act("the demo, in place of Motor's controller: end prefill 1", lambda: self._end("mindie-server-p1-master-0"))
        self._until(lambda now: now.states["mindie-server-d0"] == "running" and now.tier == 0, "1 prefill and 1 decode instance serve")
        self._act(f"server {lost} is back", lambda: self.cluster.up_node(lost))
        self._until(lambda now: set(now.states.values()) == {"running"} and now.tier == -1, "2 prefill and 1 decode instance serve again")
        return self.moments

    def _deploy(self) -> None:
        config = json.loads((EXAMPLES / "user_config.json").read_text())
        config["motor_deploy_config"]["job_id"] = NAMESPACE
        variables = {
            "mindie_user_config_content": config,
            "mindie_job_templates": {role: str(EXAMPLES / f"{role}.yaml") for role in ("prefill", "decode", "controller", "coordinator")},
            "mindie_create_namespace": True,
            "mindie_wait_timeout": 60,
        }
        with self.console.status("ascend_jobs: deploy 2P1D, each instance a whole A2 server"):
            run("deploy", services(**{NAMESPACE: variables}), self.cluster.kubeconfig)

    def _act(self, happened: str, act: Callable[[], Any]) -> None:
        self._tell = happened
        act()

    def _until(self, done: Callable[[Moment], bool], what: str) -> None:
        """Look until `done`, and keep every change. What `_act` did is told with the first moment after it."""
        deadline = time.monotonic() + PATIENCE
        with self.console.status(f"ascend_jobs: waiting until {what}"):
            while True:
                now = self._look()
                reached = done(now)
                self._keep(now, what if reached else "")
                if reached:
                    return
                if time.monotonic() > deadline:
                    raise PlaybookFailed(f"after {PATIENCE:.0f} s this is not so: {what}; last seen: {self.moments[-1]}")
                time.sleep(POLL)

    def _keep(self, now: Moment, reached: str) -> None:
        """Keep what differs from the last moment, what somebody did, and what was waited for."""
        happened = "; ".join(filter(None, (self._tell, reached)))
        if happened or not self.moments or not now.like(self.moments[-1]):
            self._tell = ""
            self.moments.append(replace(now, happened=happened))
            self._say(self.moments[-1])

    def _say(self, now: Moment) -> None:
        counted = ", ".join(f"{name.removeprefix(PREFIX)} {state}" for name, state in now.states.items())
        self.console.print(f"  ascend_jobs: {now.at:5.1f} s  {counted}{f'  [{now.happened}]' if now.happened else ''}", markup=False)

    def _look(self) -> Moment:
        asked = {"kubeconfig": self.cluster.kubeconfig, "namespace": NAMESPACE}
        service = run_module("motor_service_info", **asked)["service"]
        rule = run_module("motor_scaling_rule_info", **asked)
        self.rule = copy.deepcopy(rule["rule"])
        states = {item["name"]: item["state"] for item in service["instances"]}
        why = {item["name"]: item["reason"] for item in service["instances"] if item["state"] != "running"}
        (task,) = rule["tasks"]
        now = time.monotonic()
        self._started = self._started or now
        return Moment(now - self._started, "", states, task["tier"], why)

    def _simulate(self) -> dict[str, Any]:
        """What is left when one server fails, whichever it is."""
        asked = {"kubeconfig": self.cluster.kubeconfig, "namespace": NAMESPACE, "simulate": {"failures": 1}}
        level: dict[str, Any] = run_module("motor_scaling_rule_info", **asked)["simulation"]["levels"][1]
        return level

    def _server_of(self, name: str) -> str:
        service = run_module("motor_service_info", kubeconfig=self.cluster.kubeconfig, namespace=NAMESPACE)["service"]
        (node,) = next(item["nodes"] for item in service["instances"] if item["name"] == name)
        return str(node)

    def _hangs(self, job: str) -> bool:
        status, pod = self.cluster.request("GET", f"{_PODS}/{job}-master-0")
        return status == 200 and "deletionTimestamp" in pod["metadata"]

    def _force(self, pod: str) -> None:
        self.cluster.request("DELETE", f"{_PODS}/{pod}", {"gracePeriodSeconds": 0})

    def _end(self, pod: str) -> None:
        self.cluster.request("DELETE", f"{_PODS}/{pod}")


_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


def start() -> Cluster:
    """The cluster of the chapter: as many servers as the service needs, so that none is spare. Not started yet."""
    return Cluster(a2_nodes=SERVERS, a3_nodes=0, cpu_nodes=1, ascend_operator=True)
