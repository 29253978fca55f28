# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Deploy mode single_container: controller, coordinator and all engines in one pod."""

from __future__ import annotations

from .. import release
from ..hardware import SUPER_POD_BLOCK
from . import kv, pod, storage
from .context import Context
from .draft import Draft
from .engine import select_nodes, set_generation, set_npus
from .placement import place_in_namespace

COMPONENT = "single-container"
ROLE = "SINGLE_CONTAINER"


def objects(context: Context) -> list[tuple[str, Draft]]:
    """Deployment and Service. Standby, conductor and log directories do not apply, as with the deployer."""
    name = f"{context.namespace}-single-container"
    deployment = context.draft(release.SINGLE_CONTAINER, "Deployment")
    deployment.set(("metadata", "name"), name)
    deployment.set(("metadata", "namespace"), context.namespace)
    for path in (("metadata", "labels"), ("spec", "selector", "matchLabels"), ("spec", "template", "metadata", "labels")):
        deployment.set((*path, "app"), name)
    _fill(context, deployment)
    service = context.draft(release.SINGLE_CONTAINER, "Service")
    service.set(("metadata", "name"), f"{context.namespace}-coordinator-service")
    service.set(("metadata", "labels", "app"), name)
    service.set(("spec", "selector", "app"), name)
    place_in_namespace(context, service)
    return [(COMPONENT, deployment), (COMPONENT, service)]


def _fill(context: Context, deployment: Draft) -> None:
    template = deployment.at("spec", "template")
    # All instances share these NPUs, whatever their counts are.
    npus = max(context.config.npus_per_pod[role] or 1 for role in context.config.counts)
    pod.set_image(context, template)
    set_npus(context, template, npus)
    select_nodes(context, template)
    pod.set_weight_mount(context, template)
    pod.add_env(template, {"ROLE": ROLE, "JOB_NAME": f"{context.namespace}-{ROLE}"})
    pod.add_env(template, kv.tier(context).own_env)
    storage.mount(context, template)
    set_generation(context, template)
    annotated = deployment if context.is_2026_05 else template
    if context.hardware.generation == "A2":
        annotated.drop("metadata", "annotations")
    else:
        annotated.set(("metadata", "annotations", SUPER_POD_BLOCK), str(npus))
