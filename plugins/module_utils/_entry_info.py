# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shows a service and, when asked for, the servers of the cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ._cluster.servers import observe_servers
from ._entry_observe import Observer
from ._motor import servers as server_facts
from ._motor.capacity_model import Server
from ._motor.overview import service_view
from ._motor.state import Snapshot

SPEC: dict[str, Any] = {"namespace": {"type": "str", "required": True}, "servers": {"type": "bool", "default": False}}


def show(module: Any) -> dict[str, Any]:
    """Observe and report."""
    service = Observer(module, module.params["namespace"], absent_ok=True)
    snapshot = service.observe()
    shown: dict[str, Any] = {}
    servers = None
    if module.params["servers"]:
        nodes, pods = observe_servers(service.api, snapshot.pods, module.warn)
        snapshot = replace(snapshot, nodes={node["metadata"]["name"]: node for node in nodes})
        servers, rows = server_facts.servers(nodes, pods), server_facts.servers_view(nodes, pods)
        shown = {"servers": rows, "npus": server_facts.totals(rows, server_facts.enqueued(snapshot.pod_groups, snapshot.pods))}
    return {"changed": False, "service": _report(snapshot, servers), **shown, "requests": service.api.requests}


def _report(snapshot: Snapshot, servers: tuple[Server, ...] | None) -> dict[str, Any]:
    view = service_view(snapshot, servers=servers)
    if view["tasks"]:
        from ._motor.overview_details import detailed  # checks of rules and capacity take a while to import

        return detailed(view, snapshot, servers)
    return view
