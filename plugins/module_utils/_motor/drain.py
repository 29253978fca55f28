# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose idleness a plan waits for before it deletes, and where the coordinator shows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from . import coordinator
from .choice import Removal, WaitIdle
from .coordinator import METRICS_PORT
from .idle import IdleWait, Victim
from .instances import INFER_SERVICE_SET_NAME
from .pods import is_leaving
from .state import Snapshot, infer_roles, instance_name_of, instance_pods
from .stored import readable_config


def before(snapshot: Snapshot, removals: Mapping[str, Iterable[Removal]], option: WaitIdle) -> IdleWait:
    """What to wait for before these instances are deleted."""
    config = readable_config(snapshot.config_map)
    data: Mapping[str, Any] = config.data if config else {}
    victims = tuple(
        Victim(gone.engine_role, gone.index, gone.name, _addresses(snapshot, gone)) for found in removals.values() for gone in found
    )
    scheme = coordinator.scheme(data, METRICS_PORT)
    return IdleWait(
        victims=victims,
        service=f"{scheme}:{_service(snapshot)}:{METRICS_PORT}",
        timeout=option.timeout,
        on_timeout=option.on_timeout,
        collection=coordinator.collection_seconds(data),
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
    """The Service of the metrics port."""
    if snapshot.backend != "infer_service_set":
        return coordinator.service_name(METRICS_PORT)
    return coordinator.set_service_name(METRICS_PORT, infer_roles(snapshot), f"{INFER_SERVICE_SET_NAME}-0")
