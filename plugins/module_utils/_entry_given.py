# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What options give of a service: its user config, its namespace, counts of instances. Nothing here needs a cluster."""

from __future__ import annotations

from typing import Any

from . import _inputs
from ._motor import secrets
from ._motor.errors import InputError
from ._motor.instances import ENGINE_ROLES
from ._motor.json_reader import Path
from ._motor.user_config import UserConfig, override, parse, validate_count

CONFIG_SPEC: dict[str, Any] = {
    "namespace": {"type": "str"},
    "user_config": {"type": "path"},
    "user_config_content": {"type": "raw"},
    "overrides": {"type": "dict"},
}
INSTANCES_SPEC: dict[str, Any] = {
    "instances": {"type": "dict", "options": {role: {"type": "raw"} for role in ENGINE_ROLES}},
}


def given_config(module: Any) -> UserConfig | None:
    """The user config of the options, or None when none was given."""
    document = _inputs.read_user_config(module.params["user_config"], module.params["user_config_content"])
    hide_secrets(module, module.params["overrides"], document and document.data)
    if document is None:
        return None
    overrides: dict[Path, Any] = {("motor_deploy_config", key): value for key, value in (module.params["overrides"] or {}).items()}
    return parse(override(document, overrides, source="overrides") if overrides else document)


def hide_secrets(module: Any, *given: Any) -> None:
    """Have Ansible put asterisks in the place of these secrets in all that it shows, the options at -vvv included."""
    # As kubernetes.core does with its own; its module class has no other way.
    module._module.no_log_values.update(value for data in given for value in secrets.values(data))


def namespace_of(module: Any, config: UserConfig | None) -> str:
    """The namespace: option or `job_id` (of the user config, or overridden), which must agree."""
    option = module.params["namespace"]
    if config is None and not option:
        option = (module.params["overrides"] or {}).get("job_id")
    if config is None and not option:
        raise InputError("namespace is needed (or user_config, whose job_id names it)", source="namespace", path="namespace")
    if config is not None and option and option != config.namespace:
        raise InputError(
            f"namespace is {option}, but motor_deploy_config.job_id of the user config is {config.namespace}: make them equal or leave namespace out",
            source="namespace",
            path="namespace",
        )
    return option or str(config.namespace if config else "")


def given_counts(module: Any) -> dict[str, int]:
    """The option `instances` as strict integers; engine roles that were not named are left out."""
    given = module.params["instances"] or {}
    return {role: validate_count(count, source="instances", engine_role=role) for role, count in given.items() if count is not None}
