# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose idleness a plan waits for before it deletes, and where the coordinator shows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .choice import Removal, WaitIdle
from .idle import IdleWait, Victim
from .instances import INFER_SERVICE_SET_NAME
from .ownership import CONTROL_APP
from .pods import is_leaving
from .state import Snapshot, infer_roles, instance_name_of, instance_pods
from .stored import readable_config

COORDINATOR = "coordinator"
# Where the coordinator has its metrics, in releases that have them.
METRICS_PORT = 1027
_SERVICE = f"{CONTROL_APP[COORDINATOR]}-obs"
# How often the coordinator collects (seconds), unless its configuration says otherwise; a collection itself takes a moment.
_REUSE_SECONDS = 3.0
_MOMENT = 1.0


def before(snapshot: Snapshot, removals: Mapping[str, Iterable[Removal]], option: WaitIdle) -> IdleWait:
    """What to wait for before these instances are deleted."""
    config = readable_config(snapshot.config_map)
    data: Mapping[str, Any] = config.data if config else {}
    victims = tuple(
        Victim(gone.engine_role, gone.index, gone.name, _addresses(snapshot, gone)) for found in removals.values() for gone in found
    )
    scheme = "https:" if _switched_on(data, "motor_deploy_config", "tls_config", "mgmt_tls_config", "enable_tls") else "http:"
    return IdleWait(
        victims=victims,
        service=f"{scheme}{_service(snapshot)}:{METRICS_PORT}",
        timeout=option.timeout,
        on_timeout=option.on_timeout,
        collection=_reuse(data) + _MOMENT,
    )


def _addresses(snapshot: Snapshot, gone: Removal) -> tuple[str, ...]:
    """Addresses of the pods of an instance that may be serving requests."""
    if snapshot.backend == "infer_service_set":
        pods = instance_pods(snapshot).get((gone.engine_role, gone.index), [])
    else:
        pods = [pod for pod in snapshot.pods if instance_name_of(snapshot, pod) == gone.name]
    serving = (pod.get("status") or {} for pod in pods if not is_leaving(pod))
    return tuple(status["podIP"] for status in serving if status.get("phase") == "Running" and status.get("podIP"))


def _service(snapshot: Snapshot) -> str:
    """The Service of the metrics port. Of a set, the operator names it after the entry in the role and the InstanceSet."""
    if snapshot.backend != "infer_service_set":
        return _SERVICE
    entries = (entry for role in infer_roles(snapshot) if role["name"] == COORDINATOR for entry in role.get("services") or ())
    names = (entry["name"] for entry in entries if any(port.get("port") == METRICS_PORT for port in entry["spec"].get("ports") or ()))
    return f"{next(names, _SERVICE)}-{INFER_SERVICE_SET_NAME}-0-{COORDINATOR}"


def _reuse(data: Mapping[str, Any]) -> float:
    found = _value(data, "motor_coordinator_config", "prometheus_metrics_config", "reuse_time")
    return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) and found > 0 else _REUSE_SECONDS


def _switched_on(data: Mapping[str, Any], *path: str) -> bool:
    return _value(data, *path) is True


def _value(data: Any, *path: str) -> Any:
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data
