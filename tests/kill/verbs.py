# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verbs that are ended at every request: what the service is like before and after, and the task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .child import Task

if TYPE_CHECKING:
    from .lane import Lane

MODULES = ("motor_service", "motor_instance_scale", "motor_config_baseline", "motor_scaling_policy")
DEPLOYMENT_BACKEND, SET_BACKEND, JOB_BACKEND = "deployments", "infer_service_set", "ascend_jobs"
# Pods of AscendJobs read nothing of motor-config, and nothing else makes services of them that could be adopted.
MOTOR_BACKENDS = (DEPLOYMENT_BACKEND, SET_BACKEND)
BACKENDS = (*MOTOR_BACKENDS, JOB_BACKEND)


@dataclass(frozen=True)
class Wish:
    """What a service is like: counts, a log level that may be updated, an image that needs a restart. `absent`: there is none;
    `strange`: it is as Motor's own deployer leaves it. `scaled`: prefill has a scaling policy, and so many instances by it (0: no policy).
    """

    prefill: int = 2
    decode: int = 1
    level: str = "INFO"
    image: str = "registry.example/mindie-motor:sample"
    absent: bool = False
    strange: bool = False
    scaled: int = 0

    def counts(self) -> dict[str, int]:
        """Instances per engine role."""
        return {"prefill": self.prefill, "decode": self.decode}


@dataclass(frozen=True)
class Verb:
    """One verb. `task` makes what is run, from the lane and the wish. `chain`: verbs of one chain lead to each other's start.

    `keeps`: instances that stay are not touched. `toggles`: the way back consists of the same requests, so it is killed in turn.
    `past`: the service was like the goal before.
    `always`: on these backends all points are done even when only a part of the rest is. `backends`: those that know the verb.
    """

    name: str
    chain: str
    start: Wish
    goal: Wish
    task: Callable[[Lane, Wish], Task]
    keeps: bool = True
    toggles: bool = False
    past: bool = False
    always: tuple[str, ...] = ()
    backends: tuple[str, ...] = BACKENDS


def _deploy(lane: Lane, goal: Wish) -> Task:
    return lane.deployment(goal)


def _replace(lane: Lane, goal: Wish) -> Task:
    module, options = lane.deployment(goal)
    return module, {**options, "allow_restart": True}


def _scale(lane: Lane, goal: Wish) -> Task:
    return "motor_instance_scale", {"namespace": lane.namespace, "instances": goal.counts()}


def _update(lane: Lane, goal: Wish) -> Task:
    return "motor_config_baseline", {"user_config_content": lane.user_config(goal)}


def _roll_back(lane: Lane, goal: Wish) -> Task:
    return "motor_service", {"namespace": lane.namespace, "revision": lane.revision(goal), **lane.service.sources_of_past(goal)}


def _adopt(lane: Lane, goal: Wish) -> Task:
    return "motor_config_baseline", {"namespace": lane.namespace, "state": "adopted"}


def _autoscale(lane: Lane, goal: Wish) -> Task:
    if not goal.scaled:
        return "motor_scaling_policy", {"namespace": lane.namespace, "state": "absent"}
    return "motor_scaling_policy", {"namespace": lane.namespace, "policies": {"prefill": POLICY}}


def _remove(lane: Lane, goal: Wish) -> Task:
    return "motor_service", {"namespace": lane.namespace, "state": "absent"}


POLICY = {"min": 1, "max": 6, "preset": "queue"}
FEW, MANY, NONE = Wish(prefill=2, decode=2), Wish(prefill=4, decode=4), Wish(absent=True)
VERBS = (
    Verb("scale out", "counts", FEW, MANY, _scale, always=MOTOR_BACKENDS),
    Verb("scale in", "counts", MANY, FEW, _scale, always=MOTOR_BACKENDS),
    Verb("scale both ways", "counts", Wish(prefill=2, decode=4), Wish(prefill=4, decode=2), _scale, always=MOTOR_BACKENDS),
    Verb("update", "config", FEW, replace(FEW, level="DEBUG"), _update, toggles=True, backends=MOTOR_BACKENDS),
    Verb("replace", "image", Wish(), Wish(image="registry.example/mindie-motor:other"), _replace, keeps=False, toggles=True),
    Verb("roll back", "past", Wish(prefill=4, level="DEBUG"), Wish(), _roll_back, past=True),
    Verb("adopt", "config", replace(FEW, strange=True), FEW, _adopt, backends=MOTOR_BACKENDS),
    Verb("deploy", "life", NONE, Wish(), _deploy, always=MOTOR_BACKENDS),
    Verb("remove", "life", Wish(), NONE, _remove),
    Verb("autoscale on", "policies", FEW, replace(FEW, scaled=2), _autoscale, backends=(SET_BACKEND,)),
    # An autoscaler has added two instances, which are to stay.
    Verb("autoscale off", "policies", replace(FEW, scaled=4), Wish(prefill=4, decode=2), _autoscale, backends=(SET_BACKEND,)),
    # The example of MindCluster's documentation.
    Verb("documented scale out", "documented", Wish(), Wish(prefill=3), _scale, always=(JOB_BACKEND,), backends=(JOB_BACKEND,)),
    Verb("documented scale in", "documented", Wish(prefill=3), Wish(prefill=1), _scale, always=(JOB_BACKEND,), backends=(JOB_BACKEND,)),
)
