# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the objects of a service live: its namespace, or the whole cluster under a name of its own."""

from __future__ import annotations

from ..errors import InputError
from ..kinds import KINDS
from ..ownership import INSTANCE
from .context import Context
from .draft import Draft
from .ports import set_node_ports


def place_in_namespace(context: Context, draft: Draft) -> None:
    """Put an object into the service's namespace. Cluster-scoped ones carry it in their name, so that services do not share them."""
    kind = draft.data["kind"]
    if kind not in KINDS:
        raise InputError.at(f"a service has no objects of kind {kind}: remove the document", source=draft.place)
    if not KINDS[kind].namespaced:
        draft.set(("metadata", "name"), f"{draft.get('metadata', 'name')}-{context.namespace}")
        draft.set(("metadata", "labels", INSTANCE), context.namespace)
    else:
        draft.set(("metadata", "namespace"), context.namespace)
    if kind == "ClusterRoleBinding":
        draft.set(("roleRef", "name"), f"{draft.get('roleRef', 'name')}-{context.namespace}")
        for index in range(len(draft.get("subjects") or ())):
            draft.set(("subjects", index, "namespace"), context.namespace)
    if kind == "Service":
        draft.drop("status")
        set_node_ports(context, draft.data["metadata"]["name"], draft)
