# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The user config that a live `motor-config` holds, and the counts of the baseline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import json_reader
from .errors import InputError
from .record import APPLIED, DEPLOYER, USER_CONFIG_KEY, applied_of, standing
from .user_config import UserConfig, parse

_DAMAGED = "the baseline is damaged. Adopt the live service with the user_config that it runs with (motor_config_baseline, state: adopted)"


def stored_config(config_map: Mapping[str, Any] | None) -> UserConfig | None:
    """The user config that a live `motor-config` holds; None when there is no `motor-config`. Raises InputError when it is damaged."""
    if config_map is None:
        return None
    where = f"ConfigMap {config_map['metadata']['namespace']}/{config_map['metadata']['name']}"
    text = (config_map.get("data") or {}).get(USER_CONFIG_KEY)
    if text is None:
        raise _damaged(f"{where} has no {USER_CONFIG_KEY}: {_DAMAGED}", where, USER_CONFIG_KEY)
    try:
        return parse(json_reader.read(text, source=f"{where} {USER_CONFIG_KEY}"))
    except InputError as error:
        message = f"{error.message}: {_DAMAGED}"
        place = (error.path, error.line, error.column)
        raise _damaged(message, error.source, *place) from error


def _damaged(message: str, source: str, path: str, line: int | None = None, column: int | None = None) -> InputError:
    return InputError(message, reason="BaselineDamaged", source=source, path=path, line=line, column=column)


def readable_config(config_map: Mapping[str, Any] | None) -> UserConfig | None:
    """As `stored_config`, but None when it is damaged, too."""
    try:
        return stored_config(config_map)
    except InputError:
        return None


def baseline_counts(config_map: Mapping[str, Any] | None) -> dict[str, int] | None:
    """Instances per engine role that the service last reached in full: of the record, or what Motor's own deployer wrote.

    None when nothing says so: no service, an unfinished change, a user config that cannot be read.
    """
    found = standing(config_map)
    if found == APPLIED:
        counts = (applied_of(config_map) or {}).get("counts") or {}
        return {str(role): int(count) for role, count in counts.items()}
    config = readable_config(config_map) if found == DEPLOYER else None
    if config is None:
        return None
    return dict(config.counts) if config.scalable else {}
