# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a Service of type NodePort answers from outside the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Object = Mapping[str, Any]


def node_port_of(service: Object | None, port: int) -> int | None:
    """The node port of one port of a Service, or None when it has none."""
    ports = ((service or {}).get("spec") or {}).get("ports") or ()
    return next((int(row["nodePort"]) for row in ports if row.get("port") == port and row.get("nodePort")), None)


def address_of(nodes: Iterable[Object]) -> str:
    """The address of a server that is ready, the first by name; "" when there is none."""
    for node in sorted(nodes, key=lambda found: str(found["metadata"]["name"])):
        status = node.get("status") or {}
        ready = any(row.get("type") == "Ready" and row.get("status") == "True" for row in status.get("conditions") or ())
        address = next((row["address"] for row in status.get("addresses") or () if row.get("type") == "InternalIP"), "")
        if ready and address:
            return str(address)
    return ""
