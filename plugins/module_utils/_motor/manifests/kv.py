# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The KV tier (pool or store, as the release has it) and the KV conductor."""

from __future__ import annotations

from collections.abc import Mapping

from .. import release
from . import addresses, kv_pool, kv_store, pod
from .context import Context
from .draft import Draft
from .kv_tier import KvTier
from .placement import place_in_namespace
from .ports import set_ports

CONDUCTOR_SECTION = "kv_conductor_config"
CONDUCTOR_ROLE = "kv-conductor"


def tier(context: Context) -> KvTier:
    """The KV tier of this release."""
    return kv_store.tier(context) if context.is_2026_07 else kv_pool.tier(context)


def conductor_port(context: Context) -> int | None:
    """The conductor's port, or None when it is off: `http_server_port` must be there and not 0."""
    found: int | None = context.section(CONDUCTOR_SECTION).get("http_server_port")
    return found or None


def conductor_host(context: Context) -> str:
    """The host name of the conductor's Service."""
    return addresses.host(context, release.KV_CONDUCTOR, CONDUCTOR_ROLE)


def objects(context: Context) -> list[tuple[str, Draft]]:
    """Deployments and Services of the tier and of the conductor where they are Deployments of ours, as `(component, object)`."""
    found = tier(context)
    made = []
    if found.enabled:
        made += [(found.role, draft) for draft in _standing_alone(context, found.file, found.own_env, found.ports)]
    conductor = conductor_port(context)
    if conductor:
        made += [
            (CONDUCTOR_ROLE, draft)
            for draft in _standing_alone(context, release.KV_CONDUCTOR, _conductor_env(context, found), (conductor,))
        ]
    return made


def fill_roles(context: Context, roles: Draft) -> None:
    """The roles of the tier and of the conductor in the InferServiceSet: there in any case, with no instance when they are off."""
    found = tier(context)
    conductor = conductor_port(context)
    _fill_role(context, roles.at(found.role), enabled=found.enabled, env=found.own_env, ports=found.ports)
    _fill_role(
        context,
        roles.at(CONDUCTOR_ROLE),
        enabled=conductor is not None,
        env=_conductor_env(context, found) if conductor else {},
        ports=(conductor,) if conductor else (),
    )


def _conductor_env(context: Context, found: KvTier) -> dict[str, str]:
    return {found.master: addresses.host(context, found.file, found.role)}


def _fill_role(context: Context, role: Draft, *, enabled: bool, env: Mapping[str, str], ports: tuple[int, ...]) -> None:
    role.set(("replicas",), 1 if enabled else 0)
    template = role.at("spec", "template")
    pod.set_image(context, template)
    if enabled:
        pod.add_env(template, env)
        set_ports(role.at("services", 0), ports)


def _standing_alone(context: Context, file: str, env: Mapping[str, str], ports: tuple[int, ...]) -> list[Draft]:
    drafts = context.drafts(file)
    for draft in drafts:
        place_in_namespace(context, draft)
        if draft.data["kind"] == "Service":
            set_ports(draft, ports)
        else:
            template = draft.at("spec", "template")
            pod.set_image(context, template)
            pod.add_env(template, env)
    return drafts
