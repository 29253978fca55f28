# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A service of AscendJobs, driven by the real modules; beside it the stand-ins for the Ascend Operator and for gang scheduling."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tests.cluster import Cluster
from tests.cluster.fault_proxy import FaultProxy

from .conftest import QUICK, Driver

EXAMPLES = Path(__file__).parents[2] / "examples" / "ascend_jobs"
TEMPLATES = {role: str(EXAMPLES / f"{role}.yaml") for role in ("prefill", "decode", "controller", "coordinator")}
JOBS = "mindxdl.gitee.com/v1"
POD_GROUPS = "scheduling.volcano.sh/v1beta1"
# What each pod of the example asks for, so that only NPUs decide where it fits.
RULE = "scaling-rule"


class JobDriver(Driver):
    """As its parent, for deploy mode `ascend_jobs`."""

    def __init__(self, cluster: Cluster, proxy: FaultProxy, namespace: str) -> None:
        self.cluster, self.proxy, self.namespace, self.backend = cluster, proxy, namespace, "ascend_jobs"
        self.env: dict[str, Any] = {}
        self.config = json.loads((EXAMPLES / "user_config.json").read_text())
        self.config["motor_deploy_config"]["job_id"] = namespace

    def deploy(self, config: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        """motor_service with the sample job templates."""
        given = {"user_config_content": config or self.config, "job_templates": TEMPLATES}
        return self.run("motor_service", **{**given, **QUICK, **options})

    def workloads(self) -> dict[str, tuple[str, int]]:
        """uid and generation of each engine job."""
        found = {name: item for name, item in self.jobs().items() if not name.startswith("mindie-ms-")}
        return {name: (item["metadata"]["uid"], item["metadata"]["generation"]) for name, item in found.items()}

    def name(self, role: str, index: int) -> str:
        """Name of an engine job."""
        return f"mindie-server-{role[0]}{index}"

    def jobs(self) -> dict[str, dict[str, Any]]:
        """AscendJobs by name."""
        return self.get("ascendjobs", JOBS)

    def phases(self) -> dict[str, str]:
        """Phase of the PodGroup of each job."""
        groups = self.get("podgroups", POD_GROUPS).values()
        return {group["metadata"]["ownerReferences"][0]["name"]: (group.get("status") or {}).get("phase", "") for group in groups}

    def tiers(self) -> list[tuple[int, ...]]:
        """The live rule: the numbers of each tier, in the order of its groups."""
        text = self.get("configmaps", "v1")[RULE]["data"]["elastic_scaling.json"]
        return [tuple(int(group["group_num"]) for group in tier["group_list"]) for tier in json.loads(text)["elastic_scaling_list"]]

    def rank_tables(self) -> set[str]:
        """Names of the rank tables."""
        return {name for name in self.get("configmaps", "v1") if name.startswith("rings-config-")}


def templates(**changes: str) -> dict[str, Any]:
    """The sample templates as documents, with another image."""
    found: dict[str, Any] = {role: list(yaml.safe_load_all(Path(path).read_text())) for role, path in TEMPLATES.items()}
    for documents in found.values():
        for spec in documents[0]["spec"]["replicaSpecs"].values():
            spec["template"]["spec"]["containers"][0].update(changes)
    return found
