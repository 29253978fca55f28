# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What differs between backends: the user config, what a service is deployed from, and which workloads are its instances."""

from __future__ import annotations

import copy
import json
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.ascend_operator.objects import ASCEND_JOBS
from tests.cluster.kube_client import DEPLOYMENTS, STATEFUL_SETS, Resource

from .verbs import DEPLOYMENT_BACKEND, JOB_BACKEND, SET_BACKEND, Wish

EXAMPLES = Path(__file__).parents[2] / "examples"
RELEASE = EXAMPLES / "release-2026-05"
MODES = {DEPLOYMENT_BACKEND: "multi_deployment", SET_BACKEND: "infer_service_set"}
# The lowest node ports are those that the server itself takes last.
FIRST_NODE_PORT = 30020
SMALL = {"p_pod_npu_num": 2, "d_pod_npu_num": 2}
PARALLEL = {"dp_size": 1, "tp_size": 2, "pp_size": 1}
JOB_ROLES = ("prefill", "decode", "controller", "coordinator")


class MotorService:
    """A service of Deployments or of an InferServiceSet, made from a release. `number` is that of the lane."""

    def __init__(self, backend: str, number: int) -> None:
        self._backend, self._number = backend, number
        self.workloads: Resource = DEPLOYMENTS if backend == DEPLOYMENT_BACKEND else STATEFUL_SETS
        self.control = "mindie-motor-"

    @cached_property
    def _sample(self) -> dict[str, Any]:
        config: dict[str, Any] = json.loads((EXAMPLES / "configs" / MODES[self._backend] / "user_config.json").read_text())
        config["motor_deploy_config"].update(SMALL)
        for section in ("motor_engine_prefill_config", "motor_engine_decode_config"):
            config[section]["model_config"]["parallel_config"] = PARALLEL
        return config

    def user_config(self, namespace: str, wish: Wish) -> dict[str, Any]:
        """The user config of a wish."""
        config = copy.deepcopy(self._sample)
        config["motor_deploy_config"].update(
            job_id=namespace, p_instances_num=wish.prefill, d_instances_num=wish.decode, image_name=wish.image
        )
        config["motor_controller_config"]["logging_config"]["log_level"] = wish.level
        return config

    def sources(self, wish: Wish) -> dict[str, Any]:
        """Options of motor_service beside the user config that a service of this wish is deployed with."""
        env = EXAMPLES / "configs" / MODES[self._backend] / "env.json"
        # The lanes choose at the same time, so each has a port of its own where the server does not choose.
        ports = "auto" if self._backend == DEPLOYMENT_BACKEND else {"mindie-motor-infer": FIRST_NODE_PORT + self._number}
        return {"env": str(env), "release": str(RELEASE), "node_ports": ports}

    def sources_of_past(self, wish: Wish) -> dict[str, Any]:
        """The same for going back to a revision that was like this wish."""
        return {}

    def name(self, role: str, index: int) -> str:
        """The workload of an engine instance."""
        return f"vllm-{role[0]}{index}" if self._backend == DEPLOYMENT_BACKEND else f"vllm-0-{role}-{index}"


class JobService:
    """A service of AscendJobs, made from job templates that are given as documents."""

    def __init__(self, backend: str, number: int) -> None:
        self.workloads = ASCEND_JOBS
        self.control = "mindie-ms-"

    @cached_property
    def _sample(self) -> dict[str, Any]:
        config: dict[str, Any] = json.loads((EXAMPLES / "ascend_jobs" / "user_config.json").read_text())
        config["motor_deploy_config"].update(SMALL, hardware_type="800I_A3")
        return config

    @cached_property
    def _templates(self) -> dict[str, list[Any]]:
        return {role: list(yaml.safe_load_all((EXAMPLES / "ascend_jobs" / f"{role}.yaml").read_text())) for role in JOB_ROLES}

    def user_config(self, namespace: str, wish: Wish) -> dict[str, Any]:
        """The user config of a wish, whose log level and image are elsewhere."""
        config = copy.deepcopy(self._sample)
        config["motor_deploy_config"].update(job_id=namespace, p_instances_num=wish.prefill, d_instances_num=wish.decode)
        return config

    def sources(self, wish: Wish) -> dict[str, Any]:
        """Options of motor_service beside the user config that a service of this wish is deployed with."""
        templates = copy.deepcopy(self._templates)
        for document in (document for documents in templates.values() for document in documents):
            for spec in (document["spec"].get("replicaSpecs") or {}).values() if document["kind"] == "AscendJob" else ():
                spec["template"]["spec"]["containers"][0]["image"] = wish.image
        return {"job_templates": templates}

    def sources_of_past(self, wish: Wish) -> dict[str, Any]:
        """The same for going back to a revision that was like this wish."""
        return self.sources(wish)

    def name(self, role: str, index: int) -> str:
        """The workload of an engine instance."""
        return f"mindie-server-{role[0]}{index}"


Service = MotorService | JobService
SERVICES: dict[str, type[MotorService] | type[JobService]] = {
    DEPLOYMENT_BACKEND: MotorService,
    SET_BACKEND: MotorService,
    JOB_BACKEND: JobService,
}
