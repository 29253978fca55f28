# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What deploying AscendJobs needs: the user's job templates, and how the jobs are named and grouped."""

from __future__ import annotations

from typing import Any

from . import _inputs
from ._motor import job_settings
from ._motor.errors import InputError, Refused
from ._motor.job_facts import BACKEND
from ._motor.job_settings import JobSettings
from ._motor.manifests.ascend_jobs import ROLES, Template, render_jobs, template
from ._motor.rendered import Rendered
from ._motor.state import Snapshot
from ._motor.user_config import UserConfig

SETTINGS_SPEC: dict[str, Any] = {
    "scaling_rule": {"type": "str"},
    "groups": {"type": "dict", "options": {role: {"type": "str"} for role in job_settings.ENGINE_ROLES}},
    "name_prefix": {"type": "str"},
}
TEMPLATES_SPEC: dict[str, Any] = {
    "job_templates": {"type": "dict", "options": {role: {"type": "raw"} for role in ROLES}},
}
SPEC: dict[str, Any] = {**SETTINGS_SPEC, **TEMPLATES_SPEC}
_ELSEWHERE = ("release", "env", "env_content")


class JobTemplates:
    """The options of AscendJobs, read and checked. For another deploy mode there must be none of them."""

    def __init__(self, module: Any, config: UserConfig) -> None:
        params = module.params
        self._config = config
        self._super_pod = params["accelerator_type"] and params["accelerator_type"].endswith("super-pod")
        self._used = config.backend == BACKEND
        _refuse_strangers(params, config, _ELSEWHERE if self._used else tuple(SPEC))
        self._templates = _read(params["job_templates"]) if params["job_templates"] else None
        if self._templates:
            self.rendered(job_settings.given(params["scaling_rule"], params["groups"], params["name_prefix"], job_settings.DEFAULTS))

    def rendered(self, settings: JobSettings) -> Rendered | None:
        """The objects of the service; None without templates."""
        if self._templates is None:
            return None
        return render_jobs(self._config, self._templates, settings, super_pod=self._super_pod)

    def render(self, snapshot: Snapshot) -> Rendered | None:
        """The objects, with the names and groups that the service has or is to have."""
        return self.rendered(snapshot.settings)

    def refuse_other_settings(self, snapshot: Snapshot) -> None:
        """Names and groups are those that the service was made with: others would make other jobs beside the live ones."""
        live = job_settings.read(snapshot.config_map)
        if not self._used or snapshot.config_map is None or live == snapshot.settings:
            return
        paths = tuple(name for name, value in live.__dict__.items() if value != getattr(snapshot.settings, name))
        was = ", ".join(f"{name}: {getattr(live, name)}" for name in paths)
        raise Refused(
            f"Cannot change {', '.join(paths)} of the live service {snapshot.namespace}, which has {was}: this makes another service of it. "
            "Leave these options out, or remove the service and deploy it anew.",
            reason="NotAllowed",
            paths=paths,
        )


def _refuse_strangers(params: Any, config: UserConfig, options: tuple[str, ...]) -> None:
    for option in options:
        if params.get(option):
            what = "is not for" if config.backend == BACKEND else "is for deploy mode ascend_jobs, not for"
            raise InputError.at(f"this option {what} deploy mode {config.deploy_mode}: leave it out", source=option, path=option)


def _read(option: dict[str, Any]) -> dict[str, Template]:
    missing = [role for role in ROLES if option.get(role) is None]
    if missing:
        raise InputError.at(
            "this template is missing: give one for prefill, decode, controller and coordinator",
            source="job_templates",
            path=f"job_templates.{missing[0]}",
        )
    return {role: template(*_inputs.read_documents(f"job_templates.{role}", option[role])) for role in ROLES}
