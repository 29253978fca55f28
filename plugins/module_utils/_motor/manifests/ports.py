# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ports of Services: those that the user config decides, and the node ports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..digests import sha256
from ..errors import InputError
from .context import AUTO, Context
from .draft import Draft

# The server knows its own range of node ports and refuses what lies outside.
MAX_PORT = 65535
# The default range of node ports of a Kubernetes server.
FIRST_NODE_PORT, LAST_NODE_PORT = 30000, 32767
# So many of the lowest ones it leaves to those who choose for themselves (a sixteenth of the range or 16 to 128, whichever fits).
KEPT_FOR_CHOICE = 86


def set_node_ports(context: Context, name: str, service: Draft) -> None:
    """The node ports of one Service (or Service entry of a role), `service` having its `spec`."""
    wanted = context.node_ports
    for index in range(len(service.get("spec", "ports") or ())):
        path = ("spec", "ports", index)
        if service.get(*path, "nodePort") is None or wanted is None:
            continue
        if wanted == AUTO:
            service.drop(*path, "nodePort")
        elif not isinstance(wanted, str) and name in wanted:
            service.set((*path, "nodePort"), wanted[name])


def set_ports(service: Draft, ports: Iterable[int]) -> None:
    """The ports of a Service, in the order of its template."""
    for index, port in enumerate(ports):
        service.set(("spec", "ports", index, "port"), port)
        service.set(("spec", "ports", index, "targetPort"), port)


def check_node_ports(context: Context, exposed: Iterable[str]) -> None:
    """Raise InputError when `node_ports` is none of what it may be, or names a Service that has no node port."""
    wanted = context.node_ports
    names = sorted(exposed)
    if wanted is None or wanted == AUTO:
        return
    if isinstance(wanted, str):
        raise InputError.at(f'write "{AUTO}", or a port for each of: {", ".join(names)}', source="node_ports")
    for name, port in wanted.items():
        if name not in names:
            raise InputError.at(
                f"this service has no such Service with a node port (it has: {', '.join(names)})", source="node_ports", path=name
            )
        if isinstance(port, bool) or not isinstance(port, int) or not 0 < port <= MAX_PORT:
            raise InputError.at(f"{port!r} is no port: write a whole number from 1 to {MAX_PORT}", source="node_ports", path=name)


def exposed_services(objects: Iterable[Mapping[str, Any]]) -> list[str]:
    """Names of the Services (and Service entries of roles) that have node ports."""
    found = []
    for obj in objects:
        spec = obj.get("spec") or {}
        if obj["kind"] == "Service" and _has_node_port(spec):
            found.append(obj["metadata"]["name"])
        for role in (spec.get("template") or {}).get("roles") or ():
            found += [service["name"] for service in role.get("services") or () if _has_node_port(service.get("spec") or {})]
    return found


def _has_node_port(spec: Mapping[str, Any]) -> bool:
    return any("nodePort" in port for port in spec.get("ports") or ())


def choose_node_ports(exposed: Iterable[str], live: Mapping[str, Any] | None, used: Iterable[int], namespace: str) -> dict[str, int]:
    """A node port for each Service entry of an InferServiceSet: the one of the live set, else one that is free.

    The Infer Operator makes a Service of type NodePort only when its port is given, so the server cannot choose there, and makes none of a
    set's Services when one port is taken. The search begins where the namespace says, so that services which are deployed side by
    side seldom meet, and among those ports that the server itself takes last.
    """
    kept = dict(_live_node_ports(live or {}))
    taken = {*used, *kept.values()}
    begin = int(sha256(namespace), 16) % KEPT_FOR_CHOICE
    chosen_first = [FIRST_NODE_PORT + (begin + step) % KEPT_FOR_CHOICE for step in range(KEPT_FOR_CHOICE)]
    free = (port for port in (*chosen_first, *range(FIRST_NODE_PORT + KEPT_FOR_CHOICE, LAST_NODE_PORT + 1)) if port not in taken)
    chosen = {name: kept[name] if name in kept else next(free, None) for name in sorted(exposed)}
    if None in chosen.values():
        raise InputError.at(f"every node port from {FIRST_NODE_PORT} to {LAST_NODE_PORT} is taken: give the ports", source="node_ports")
    return {name: port for name, port in chosen.items() if port is not None}


def _live_node_ports(infer_service_set: Mapping[str, Any]) -> Iterable[tuple[str, int]]:
    for role in ((infer_service_set.get("spec") or {}).get("template") or {}).get("roles") or ():
        for service in role.get("services") or ():
            ports = [port["nodePort"] for port in (service.get("spec") or {}).get("ports") or () if port.get("nodePort")]
            if ports:
                yield service["name"], ports[0]
