# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a user config describes the service that is live: its instances, and what their workloads say of themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from . import siblings
from .config_rules import NPU_KEYS, POD_KEYS
from .instances import BASE_NAMES, ENGINE_ROLES, parse_instance_name
from .pods import npus_of
from .state import ServiceState, Snapshot, infer_roles
from .user_config import COUNT_KEYS, UserConfig
from .workloads import first_template, pod_count

_DEPLOY = "motor_deploy_config"
_CALL = re.compile(r"\bset_[a-z_]+_env\b")
_FUNCTION = re.compile(r"^(?:function\s+)?(set_[a-z_]+_env)\s*\(\)", re.MULTILINE)


@dataclass(frozen=True)
class Misfit:
    """One thing in which config and service differ: the path in the config, and both sides in words."""

    path: str
    said: str

    def __str__(self) -> str:
        return f"{self.path}: {self.said}"


def count_misfits(state: ServiceState, config: UserConfig, counts: Mapping[str, int]) -> list[Misfit]:
    """Engine roles with another number of live instances than `counts` say. Those of an autoscaler may have any number."""
    found = []
    for role in ENGINE_ROLES:
        live, wanted = state.live(role), counts.get(role, 0)
        if len(live) != wanted and role not in state.owners and config.scalable:
            names = f" ({', '.join(instance.name for instance in live)})" if live else ""
            found.append(Misfit(f"{_DEPLOY}.{COUNT_KEYS[role]}", f"{wanted} in the user config, {len(live)} live{names}"))
    return found


def misfits(snapshot: Snapshot, config: UserConfig) -> list[Misfit]:
    """In what the workloads of the service are not as the user config says, apart from counts."""
    found = [
        Misfit(f"{_DEPLOY}.deploy_mode", f"{name} is live, which is none of this user config's instances")
        for name in _other_workloads(snapshot, config)
    ]
    for role, name, spec in _workloads(snapshot, config):
        found.extend(_workload_misfits(config, role, name, spec))
    return found


def lacks_environment(data: Mapping[str, str]) -> bool:
    """True when scripts call functions that set the environment, and not one of these is there.

    That is what scaling from a fresh checkout with Motor's own deployer leaves: pods that start then run without env.json.
    """
    scripts = [text for key, text in data.items() if key.endswith(".sh")]
    defined = {name for text in scripts for name in _FUNCTION.findall(text)}
    called = {name for text in scripts for name in _CALL.findall(text)}
    return bool(called) and not called & defined


def _other_workloads(snapshot: Snapshot, config: UserConfig) -> Iterator[str]:
    """Engine instances of another base name, or Deployments beside an InferServiceSet."""
    own = snapshot.base_name if config.backend != "infer_service_set" and config.scalable else None
    for workload in snapshot.own_workloads:
        name = workload["metadata"]["name"]
        if any(base != own and parse_instance_name(name, base) for base in BASE_NAMES.values()):
            yield f"{workload['kind']} {name}"


def _workloads(snapshot: Snapshot, config: UserConfig) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Engine role, name, and what has `replicas` and `template`, of each engine workload."""
    if config.backend == "infer_service_set":
        for role in infer_roles(snapshot):
            if role["name"] in config.counts and role.get("replicas"):
                yield role["name"], f"role {role['name']} of the InferServiceSet", role.get("spec") or {}
    elif config.scalable:
        for engine_role, items in siblings.by_role(snapshot.own_workloads, snapshot.base_name).items():
            for dummy, workload in items:
                name = f"{workload['kind']} {workload['metadata']['name']}"
                yield engine_role, name, {"replicas": pod_count(workload), "template": first_template(workload)}


def _workload_misfits(config: UserConfig, role: str, name: str, spec: Mapping[str, Any]) -> Iterator[Misfit]:
    containers = ((spec.get("template") or {}).get("spec") or {}).get("containers") or [{}]
    image = containers[0].get("image")
    if image and config.image and image != config.image:
        yield Misfit(f"{_DEPLOY}.image_name", f"{config.image} in the user config, {image} in {name}")
    wanted, pods = config.pods_per_instance.get(role), spec.get("replicas")
    if wanted is not None and pods is not None and pods != wanted:
        yield Misfit(f"{_DEPLOY}.{POD_KEYS[role]}", f"{wanted} in the user config, {pods} in {name}")
    requests = (containers[0].get("resources") or {}).get("requests") or {}
    npus = npus_of(requests)
    asked = config.npus_per_pod.get(role)
    if asked is not None and npus and npus != asked:
        yield Misfit(f"{_DEPLOY}.{NPU_KEYS[role]}", f"{asked} in the user config, {npus} in {name}")
