# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shows the autoscaling of a service, or what HPA would do with given numbers, for which no connection is opened."""

from __future__ import annotations

from typing import Any

from ._motor import what_if
from ._motor.errors import InputError
from ._motor.policy_reader import read_policies
from ._motor.policy_report import EXISTING, MANAGED

SPEC: dict[str, Any] = {
    "namespace": {"type": "str"},
    "adaptor": {"type": "str", "choices": [MANAGED, EXISTING], "default": MANAGED},
    "policies": {"type": "dict"},
    "what_if": {
        "type": "dict",
        "options": {
            "instances": {"type": "dict"},
            "pods_per_instance": {"type": "dict"},
            "values": {"type": "dict"},
            "past": {"type": "dict"},
            "recorded": {"type": "list", "elements": "path"},
            "seconds": {"type": "float", "default": 30.0},
        },
    },
}


def show(module: Any) -> dict[str, Any]:
    """Look and report."""
    params = module.params
    given = None
    if params["policies"] is not None:
        given = {role: policy.scaling_policy() for role, policy in read_policies(params["policies"]).items()}
    if params["namespace"]:
        if params["what_if"] is not None:
            raise InputError.at("with a namespace the numbers are those of the cluster: leave what_if out", source="what_if")
        module.requires("kubernetes")
        from . import _entry_policy_live  # only now a cluster is needed, and the library kubernetes with it

        return _entry_policy_live.show(module, given)
    if params["what_if"] is None or given is None:
        raise InputError.at("give the namespace of a service, or policies and what_if", source="namespace")
    wish = what_if.read(params["what_if"], given)
    recorded = [_text(path) for path in params["what_if"].get("recorded") or ()]
    return {"changed": False, "autoscaling": what_if.evaluate(given, wish, recorded), "requests": 0}


def _text(path: str) -> str:
    from ._inputs import read_text  # the only reader of files

    return read_text("what_if.recorded", path)
