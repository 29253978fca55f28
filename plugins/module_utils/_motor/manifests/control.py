# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller and coordinator."""

from __future__ import annotations

from .. import release
from ..ownership import CONTROL_ROLES
from . import kv, pod
from .addresses import motor_services
from .context import Context
from .draft import Draft
from .placement import place_in_namespace

CONTROLLER, COORDINATOR = CONTROL_ROLES
_FILES = {CONTROLLER: release.CONTROLLER, COORDINATOR: release.COORDINATOR}


def objects(context: Context) -> list[tuple[str, Draft]]:
    """The objects of both control roles as `(control role, object)`, in the templates' order."""
    made = []
    for role in CONTROL_ROLES:
        for draft in context.drafts(_FILES[role]):
            place_in_namespace(context, draft)
            if draft.data["kind"] == "Deployment":
                _deployment(context, role, draft)
            made.append((role, draft))
    return made


def fill(context: Context, role: str, workload: Draft) -> None:
    """What both backends set: `workload` has `spec.replicas` and `spec.template`."""
    if context.standby(role):
        workload.set(("spec", "replicas"), 2)
    template = workload.at("spec", "template")
    pod.set_image(context, template)
    pod.add_env(template, {"ROLE": role, "JOB_NAME": job_name(context, role), **motor_services(context)})
    if role == COORDINATOR:
        pod.add_env(template, _coordinator_env(context))
    pod.set_resolver(context, template)


def job_name(context: Context, role: str) -> str:
    """JOB_NAME of a control pod: constant per service, so that lock and state in etcd outlive a new deployment."""
    return f"{context.namespace}-{role}"


def _deployment(context: Context, role: str, draft: Draft) -> None:
    draft.set(("metadata", "labels", "job-name"), job_name(context, role))
    fill(context, role, draft)
    template = draft.at("spec", "template")
    pod.set_log_dir(context, template, f"motor_{role}_config")
    if role == COORDINATOR:
        pod.add_host_path(template, pod.WEIGHT_MOUNT, pod.weight_mount_path(context))


def _coordinator_env(context: Context) -> dict[str, str]:
    found = dict(kv.tier(context).coordinator_env)
    if kv.conductor_port(context):
        found["KV_CONDUCTOR_SERVICE"] = kv.conductor_host(context)
    port = (context.section("motor_engine_prefill_config").get("engine_config") or {}).get("disaggregation_bootstrap_port")
    if port:
        found["DISAGGREGATION_BOOTSTRAP_PORT"] = str(port)
    return found
