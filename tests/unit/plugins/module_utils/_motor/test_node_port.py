# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a Service answers from outside."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor.node_port import address_of, node_port_of


def node(name: str, address: str, *, ready: bool = True, kind: str = "InternalIP") -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": str(ready)}]
    return {"metadata": {"name": name}, "status": {"conditions": conditions, "addresses": [{"type": kind, "address": address}]}}


def test_the_first_server_that_is_ready_and_has_an_address() -> None:
    nodes = [node("c", "10.0.0.3"), node("a", "10.0.0.1", ready=False), node("b", "b", kind="Hostname"), node("d", "10.0.0.4")]
    assert address_of(nodes) == "10.0.0.3"
    assert address_of(nodes[1:3]) == "" and address_of([{"metadata": {"name": "new"}}]) == ""


@pytest.mark.parametrize(
    ("service", "port"),
    [
        ({"spec": {"ports": [{"port": 1026, "nodePort": 31026}, {"port": 1025, "nodePort": 31025}]}}, 31025),
        ({"spec": {"ports": [{"port": 1025}]}}, None),
        ({"spec": {}}, None),
        (None, None),
    ],
)
def test_the_node_port_of_one_port(service: dict[str, Any] | None, port: int | None) -> None:
    assert node_port_of(service, 1025) == port
