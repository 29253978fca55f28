# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the coordinator of a service answers, and how: its ports, Services, TLS switches, how often it collects metrics, and of what."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from .ownership import CONTROL_APP

COORDINATOR = "coordinator"
# Where it serves inference and the list of models; where it has its metrics, in releases that have them.
INFERENCE_PORT, METRICS_PORT = 1025, 1027
# The families that count requests in an engine, without the engine's prefix: what they are called by one engine or the other.
RUNNING = ("num_requests_running", "num_running_reqs")
WAITING = ("num_requests_waiting", "num_queue_reqs")
# How the list of models names the counts of the instances that get requests.
_ROUTABLE = {"prefill": "p_instances_num", "decode": "d_instances_num"}
_SUFFIX = {INFERENCE_PORT: "infer", METRICS_PORT: "obs"}
_TLS = {INFERENCE_PORT: "infer_tls_config", METRICS_PORT: "mgmt_tls_config"}
# What a Service can be called. The API server takes any text as the name of an entry in a role, also one that leads elsewhere.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
# How often it collects (seconds), unless its configuration says otherwise; a collection itself takes a moment.
_REUSE_SECONDS = 3.0
_MOMENT = 1.0


def service_name(port: int) -> str:
    """The Service of a port, of a service that consists of Deployments."""
    return f"{CONTROL_APP[COORDINATOR]}-{_SUFFIX[port]}"


def set_service_name(port: int, roles: Iterable[Mapping[str, Any]], infer_service: str) -> str:
    """The Service of a port, of a set with these roles: the operator names it after the entry in the role and the InstanceSet."""
    entries = (entry for role in roles if role["name"] == COORDINATOR for entry in role.get("services") or ())
    those = (entry for entry in entries if any(row.get("port") == port for row in entry["spec"].get("ports") or ()))
    names = (entry["name"] for entry in those if _NAME.fullmatch(entry["name"]))
    return f"{next(names, service_name(port))}-{infer_service}-{COORDINATOR}"


def scheme(user_config: Mapping[str, Any], port: int) -> str:
    """`https` where the user config switches TLS on for a port, else `http`."""
    return "https" if _value(user_config, "motor_deploy_config", "tls_config", _TLS[port], "enable_tls") is True else "http"


def collection_seconds(user_config: Mapping[str, Any]) -> float:
    """How far apart two looks have to be to see two collections."""
    found = _value(user_config, "motor_coordinator_config", "prometheus_metrics_config", "reuse_time")
    given = isinstance(found, (int, float)) and not isinstance(found, bool) and found > 0
    return (float(found) if given else _REUSE_SECONDS) + _MOMENT


def _value(data: Any, *path: str) -> Any:
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def routable(models: str | bytes) -> dict[str, int] | None:
    """The instances that get requests, by engine role, as the list of models tells; None when it does not."""
    try:
        entry = json.loads(models)["data"][0]
        found = {role: entry[key] for role, key in _ROUTABLE.items()}
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return found if all(isinstance(count, int) and not isinstance(count, bool) and count >= 0 for count in found.values()) else None
