# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The InferServiceSet: all roles of a service in one object."""

from __future__ import annotations

from .. import release
from ..instances import ENGINE_ROLES
from ..ownership import CONTROL_ROLES
from . import control, engine, kv
from .context import Context
from .draft import Draft
from .placement import place_in_namespace
from .ports import set_node_ports

COMPONENT = "infer-service-set"
KIND = "InferServiceSet"


def objects(context: Context) -> list[tuple[str, Draft]]:
    """ServiceAccount, ClusterRole, ClusterRoleBinding and the InferServiceSet, in the template's order."""
    made = []
    for draft in context.drafts(release.INFER_SERVICE_SET):
        place_in_namespace(context, draft)
        is_set = draft.data["kind"] == KIND
        if is_set:
            _fill(context, draft)
        made.append((COMPONENT if is_set else control.CONTROLLER, draft))
    return made


def _fill(context: Context, draft: Draft) -> None:
    name = draft.data["metadata"]["name"]
    roles = draft.at("spec", "template", "roles")
    for control_role in CONTROL_ROLES:
        control.fill(context, control_role, roles.at(control_role))
    for engine_role in ENGINE_ROLES:
        if context.config.counts.get(engine_role):
            engine.fill_role(context, engine_role, roles.at(engine_role), name)
        elif roles.get(engine_role):
            roles.set((engine_role, "replicas"), 0)
    kv.fill_roles(context, roles)
    for role in roles.data:
        for service in role.get("services") or ():
            set_node_ports(context, service["name"], Draft(service, draft.place))
