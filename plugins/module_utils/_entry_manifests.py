# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Renders a service of AscendJobs as manifests, for which no connection is opened."""

from __future__ import annotations

from typing import Any

from . import _inputs
from ._entry_given import CONFIG_SPEC, INSTANCES_SPEC, given_config, given_counts, namespace_of
from ._entry_jobs import SPEC as JOBS_SPEC
from ._entry_jobs import JobTemplates
from ._entry_rule import warn_of
from ._motor import job_settings
from ._motor.errors import InputError
from ._motor.job_facts import BACKEND
from ._motor.prepared import prepare
from ._motor.user_config import with_counts

SPEC: dict[str, Any] = {
    **CONFIG_SPEC,
    **INSTANCES_SPEC,
    "accelerator_type": {"type": "str"},
    **JOBS_SPEC,
    "job_templates": {**JOBS_SPEC["job_templates"], "required": True},
}


def show(module: Any) -> dict[str, Any]:
    """Parse, render, check, report."""
    params = module.params
    config = given_config(module)
    if config is None:
        raise InputError("user_config is needed", source="user_config", path="user_config")
    namespace_of(module, config)
    if config.backend != BACKEND:
        wrong = f"manifests are prepared for deploy mode {BACKEND} alone, this user config has deploy mode {config.deploy_mode}"
        raise InputError.at(f"{wrong}: deploy it with motor_service", source="user_config", path="motor_deploy_config.deploy_mode")
    counts = given_counts(module)
    config = with_counts(config, counts) if counts else config
    settings = job_settings.given(params["scaling_rule"], params["groups"], params["name_prefix"], job_settings.DEFAULTS)
    rendered = JobTemplates(module, config).rendered(settings)
    if rendered is None:  # an empty mapping
        raise InputError("job_templates is needed: AscendJobs are made from them", source="job_templates", path="job_templates")
    prepared = prepare(config, rendered, settings)
    warn_of(module, prepared.findings)
    manifests = [dict(manifest) for manifest in prepared.manifests]
    return {
        "changed": False,
        "namespace": config.namespace,
        "manifests": manifests,
        "text": _inputs.yaml_text(manifests),
        "findings": [finding.to_dict() for finding in prepared.findings],
    }
