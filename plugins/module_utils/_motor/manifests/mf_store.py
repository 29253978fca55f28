# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The mf-store, through which sglang engines find each other."""

from __future__ import annotations

from .. import release
from . import pod
from .context import Context
from .draft import Draft
from .placement import place_in_namespace

COMPONENT = "mf-store"


def objects(context: Context) -> list[tuple[str, Draft]]:
    """Deployment and Service, in every deploy mode: engines do not start without it."""
    if not context.uses_mf_store or context.in_one_pod:
        return []
    drafts = context.drafts(release.MF_STORE)
    for draft in drafts:
        place_in_namespace(context, draft)
        if draft.data["kind"] == "Deployment":
            template = draft.at("spec", "template")
            pod.set_image(context, template)
            pod.add_env(template, {"ASCEND_MF_STORE_PORT": str(_port(context))})
    return [(COMPONENT, draft) for draft in drafts]


def engine_env(context: Context) -> dict[str, str]:
    """What sglang engines need to reach it."""
    name = context.template(release.MF_STORE, "Service").data["metadata"]["name"]
    protocol = "device_rdma" if context.hardware.generation == "A2" else "sdma"
    return {"ASCEND_MF_STORE_URL": f"tcp://{context.host(name)}:{_port(context)}", "ASCEND_MF_TRANSFER_PROTOCOL": protocol}


def _port(context: Context) -> int:
    return int(context.template(release.MF_STORE, "Service").at("spec", "ports", 0, "port").data)
