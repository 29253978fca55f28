# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""User config, env and release become the objects of a service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..json_reader import Document
from ..ownership import metadata_labels
from ..release import Release
from ..rendered import Rendered
from ..user_config import UserConfig
from . import control, engine, infer_service_set, kv, mf_store, single_container, storage
from .config_map import config_map
from .context import Context, NodePorts
from .draft import Draft
from .ports import check_node_ports, exposed_services

# Pods need these; what is not named comes after workloads.
_ORDER = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "PersistentVolumeClaim", "Deployment", "InferServiceSet", "Service")


def render(
    config: UserConfig,
    env: Document | None,
    release: Release,
    *,
    service_id: str,
    accelerator_type: str | None = None,
    node_ports: NodePorts = None,
) -> Rendered:
    """The objects of the service that `config` describes. Depends on nothing but its arguments.

    `env` is the env.json (None: no variables of the user), `service_id` names the log directories (keep the one of a live
    service, `identity.service_id_of`), `accelerator_type` is the node label where the cluster was asked for it. `node_ports`:
    None takes the templates' ports, "auto" lets the server choose free ones, a mapping `{Service name: port}` sets some.
    Raises InputError: what the release cannot do, fields that a template lacks, values of `env` that are no shell values.
    """
    context = Context(config, env, release, service_id, accelerator_type, node_ports)
    engine.check(context)
    drafts = [*_parts(context), *storage.objects(context)]
    objects = sorted((_labelled(component, draft) for component, draft in drafts), key=_creation_order)
    check_node_ports(context, exposed_services(objects))
    instances = () if context.in_set or context.in_one_pod else engine.deployments(context)
    return Rendered(
        config_map(context),
        tuple(objects),
        tuple((engine_role, index, _labelled(engine_role, draft)) for engine_role, index, draft in instances),
    )


def _parts(context: Context) -> list[tuple[str, Draft]]:
    if context.in_one_pod:
        return single_container.objects(context)
    if context.in_set:
        return [*infer_service_set.objects(context), *mf_store.objects(context)]
    return [*control.objects(context), *kv.objects(context), *mf_store.objects(context)]


def _labelled(component: str, draft: Draft) -> dict[str, Any]:
    for label, value in metadata_labels(component).items():
        draft.set(("metadata", "labels", label), value)
    found: dict[str, Any] = draft.data
    return found


def _creation_order(obj: Mapping[str, Any]) -> int:
    kind = obj["kind"]
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER)
