# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the AscendJobs of a service are named and grouped: an annotation of `motor-config`, so that later runs need no options.

`ascend.mindie/ascend-jobs` is JSON: `{"scaling_rule": .., "groups": {engine_role: ..}, "name_prefix": ..}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from .errors import InputError
from .instances import DEFAULT_ENGINE_TYPE, base_name

ANNOTATION = "ascend.mindie/ascend-jobs"
# Motor's controller reads the rule by position: prefill first.
ENGINE_ROLES = ("prefill", "decode")
DEFAULT_GROUPS = MappingProxyType({"prefill": "group0", "decode": "group1"})
DEFAULT_RULE = "scaling-rule"
DEFAULT_PREFIX = base_name(DEFAULT_ENGINE_TYPE)

_LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
# `<prefix>-p15-worker-1023` and `<prefix>-p15-master-0` name pods and a Service.
MAX_PREFIX = 63 - len("-p15-worker-1023")
MAX_RULE = 63


@dataclass(frozen=True)
class JobSettings:
    """`scaling_rule` is the name of the ConfigMap, `groups` has the group of each engine role in the order of the rule."""

    scaling_rule: str = DEFAULT_RULE
    groups: Mapping[str, str] = field(default_factory=lambda: DEFAULT_GROUPS)
    name_prefix: str = DEFAULT_PREFIX

    def annotation(self) -> str:
        """The value of the annotation."""
        return json.dumps({**self.__dict__, "groups": dict(self.groups)}, sort_keys=True)


DEFAULTS = JobSettings()


def read(config_map: Mapping[str, Any] | None) -> JobSettings:
    """What `motor-config` says; the defaults, which are those of Motor's own script, where it says nothing."""
    text = ((config_map or {}).get("metadata", {}).get("annotations") or {}).get(ANNOTATION)
    try:
        found = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return DEFAULTS
    return JobSettings(**found) if _is_known(found) else DEFAULTS


def _is_known(found: Any) -> bool:
    """Whether settings are what `annotation` writes, and not what somebody else wrote in its place."""
    if not isinstance(found, dict) or not set(found) <= set(JobSettings.__dataclass_fields__):
        return False
    groups, names = found.get("groups", DEFAULT_GROUPS), (found.get("scaling_rule", ""), found.get("name_prefix", ""))
    told = isinstance(groups, Mapping) and set(groups) == set(ENGINE_ROLES)
    return told and all(isinstance(name, str) for name in (*names, *groups.values()))


def of_service(config_map: Mapping[str, Any] | None) -> JobSettings | None:
    """As `read`; None where `motor-config` says nothing."""
    return read(config_map) if ANNOTATION in ((config_map or {}).get("metadata", {}).get("annotations") or {}) else None


def given(scaling_rule: str | None, groups: Mapping[str, str | None] | None, name_prefix: str | None, live: JobSettings) -> JobSettings:
    """The options, and for those left out what the live service has. Raises InputError for what cannot be a name or label."""
    chosen = {role: (groups or {}).get(role) or live.groups[role] for role in ENGINE_ROLES}
    for role, group in chosen.items():
        if not _LABEL.fullmatch(group):
            raise InputError.at(f"{group!r} cannot be the value of a label", source="groups", path=f"groups.{role}")
    if len(set(chosen.values())) < len(chosen):
        raise InputError.at(
            f"every engine role needs a group of its own, not twice {chosen['prefill']!r}", source="groups", path="groups.decode"
        )
    settings = JobSettings(scaling_rule or live.scaling_rule, chosen, name_prefix or live.name_prefix)
    _require_name(settings.scaling_rule, "scaling_rule", MAX_RULE)
    _require_name(settings.name_prefix, "name_prefix", MAX_PREFIX)
    return settings


def _require_name(name: str, option: str, longest: int) -> None:
    if not _NAME.fullmatch(name):
        wrong = f"{name!r} cannot be a name: write lower-case letters, digits and -, beginning and ending with a letter or digit"
        raise InputError.at(wrong, source=option, path=option)
    if len(name) > longest:
        raise InputError.at(f"{len(name)} characters are too long: write at most {longest}", source=option, path=option)
