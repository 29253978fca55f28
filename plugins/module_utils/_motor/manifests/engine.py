# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Engine instances: one Deployment each, or a role of the InferServiceSet. The pod template is made alike for both."""

from __future__ import annotations

from .. import release
from ..config_rules import DEPLOY, ENGINE_SECTIONS
from ..hardware import SUPER_POD_BLOCK
from ..instances import LETTER, instance_name
from . import kv, mf_store, pod, storage
from .addresses import motor_services
from .context import Context
from .draft import Draft
from .identity import instance_suffix, set_job_name

SCHEDULE_POLICY = "huawei.com/schedule_policy"
# The resource that templates ask for.
TEMPLATE_RESOURCE = "huawei.com/Ascend910"


def deployments(context: Context) -> list[tuple[str, int, Draft]]:
    """One Deployment per instance, as `(engine_role, index, object)`."""
    return [(role, index, _deployment(context, role, index)) for role, count in context.config.counts.items() for index in range(count)]


def fill_role(context: Context, engine_role: str, role: Draft, set_name: str) -> None:
    """An engine role of the InferServiceSet that has instances."""
    role.set(("replicas",), context.config.counts[engine_role])
    role.set(("spec", "replicas"), context.config.pods_per_instance[engine_role] or 1)
    role.set(("spec", "selector", "matchLabels", "app"), set_name)
    template = role.at("spec", "template")
    template.set(("metadata", "labels", "app"), set_name)
    _fill(context, engine_role, template, f"{context.namespace}-{set_name}")
    if context.is_2026_07 or context.hardware.generation == "A3":
        _set_sp_block(template, (context.config.pods_per_instance[engine_role] or 1) * _npus(context, engine_role))


def _deployment(context: Context, engine_role: str, index: int) -> Draft:
    draft = context.draft(release.ENGINE, "Deployment")
    name = instance_name(context.config.base_name, engine_role, index)
    draft.set(("metadata", "name"), name)
    draft.set(("metadata", "namespace"), context.namespace)
    for path in (("metadata", "labels"), ("spec", "selector", "matchLabels"), ("spec", "template", "metadata", "labels")):
        draft.set((*path, "app"), name)
    pods = context.config.pods_per_instance[engine_role]
    if pods:
        draft.set(("spec", "replicas"), pods)
    template = draft.at("spec", "template")
    _fill(context, engine_role, template, "")
    pod.set_log_dir(context, template, "motor_nodemanger_config")
    if context.config.engine_type == "sglang":
        template.set((*pod.CONTAINER, "securityContext"), {"privileged": True})
    if context.hardware.generation == "A2":
        (draft if context.is_2026_05 else template).drop("metadata", "annotations")
    else:
        # Shape 2026-05 has it on the Deployment itself.
        _set_sp_block(draft if context.is_2026_05 else template, (pods or 1) * _npus(context, engine_role))
    if context.hardware.generation == "A5":
        draft.drop("metadata", "labels", "ring-controller.atlas")
    set_job_name(draft, f"{context.namespace}-{LETTER[engine_role]}{index}-{instance_suffix(template.data)}")
    return draft


def _fill(context: Context, engine_role: str, template: Draft, job_name: str) -> None:
    """What both backends set in the pod template."""
    pod.set_image(context, template)
    template.set((*pod.CONTAINER, "name"), context.config.base_name)
    set_npus(context, template, _npus(context, engine_role))
    select_nodes(context, template)
    _select_card(context, engine_role, template)
    pod.set_weight_mount(context, template)
    env = {"ROLE": engine_role, "JOB_NAME": job_name, **motor_services(context), **kv.tier(context).engine_env}
    pod.add_env(template, env)
    if context.uses_mf_store:
        pod.add_env(template, mf_store.engine_env(context))
        own_address = {"name": "SGLANG_HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
        template.add((*pod.CONTAINER, "env"), own_address)
    storage.mount(context, template)
    set_generation(context, template)


def set_npus(context: Context, template: Draft, npus: int) -> None:
    """NPUs of the container, requested and limited alike."""
    for bound in ("requests", "limits"):
        path = (*pod.CONTAINER, "resources", bound)
        if context.hardware.resource != TEMPLATE_RESOURCE:
            template.drop(*path, TEMPLATE_RESOURCE)
        template.set((*path, context.hardware.resource), npus)


def select_nodes(context: Context, template: Draft) -> None:
    """Select servers of the hardware type. `accelerator_type` is what the cluster's nodes carry, where that is known."""
    template.set(("spec", "nodeSelector", "accelerator"), context.hardware.accelerator)
    template.set(("spec", "nodeSelector", "accelerator-type"), context.accelerator_type or context.hardware.accelerator_type)


def set_generation(context: Context, template: Draft) -> None:
    """What servers of generation A5 need besides."""
    hardware = context.hardware
    if hardware.generation != "A5":
        return
    context.since_2026_07((*DEPLOY, "hardware_type"), hardware.hardware_type)
    template.drop("metadata", "labels", "ring-controller.atlas")
    template.set(("metadata", "annotations", SCHEDULE_POLICY), hardware.schedule_policy)
    if hardware.super_pod:
        template.set(("metadata", "labels", "inferserviceid"), context.namespace)
    pod.add_host_path(template, "host-lib64", "/usr/lib64")
    pod.add_host_path(template, "hixlep", "/etc/hixlep")
    pod.set_resolver(context, template)


def _set_sp_block(draft: Draft, npus: int) -> None:
    """The size of the logical super pod in NPUs: all of the instance. What the template sets stays, but for a placeholder."""
    if draft.get("metadata", "annotations", SUPER_POD_BLOCK) in (None, "xxxx"):
        draft.set(("metadata", "annotations", SUPER_POD_BLOCK), str(npus))


def _select_card(context: Context, engine_role: str, template: Draft) -> None:
    """Prefill and decode on different cards, where the user config asks for it."""
    if not context.deploy_value("enable_pd_heterogeneous") or engine_role not in ("prefill", "decode"):
        return
    context.since_2026_07((*DEPLOY, "enable_pd_heterogeneous"), "enable_pd_heterogeneous")
    default = {"prefill": "Ascend950PR", "decode": "Ascend950DT"}[engine_role]
    label = context.deploy_value("pd_heterogeneous_label_key") or "card_type"
    value = context.deploy_value(f"pd_heterogeneous_{engine_role}_label_value") or default
    template.set(("spec", "nodeSelector", label), value)


def _npus(context: Context, engine_role: str) -> int:
    return context.config.npus_per_pod[engine_role] or 1


def check(context: Context) -> None:
    """Raise InputError when the release has no engines of a role that the user config asks for."""
    for engine_role in ("union", "encode"):
        if context.config.counts.get(engine_role):
            context.since_2026_07((ENGINE_SECTIONS[engine_role],), f"engine role {engine_role}")
