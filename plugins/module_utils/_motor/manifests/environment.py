# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment of env.json, as shell functions that the startup scripts call."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..json_reader import Document
from ..release import SHAPE_2026_05, SHAPE_2026_07
from ..shell_environment import COMMON, MF_STORE, OF_2026_05, OF_2026_07, OF_EACH_RELEASE, PREFILL_SECTION, UNION_SECTION, function
from .context import Context

SINGLE_CONTAINER_SCRIPT = "all_combine_in_single_container.sh"
_FUNCTIONS = {SHAPE_2026_05: (*OF_EACH_RELEASE, *OF_2026_05), SHAPE_2026_07: (*OF_EACH_RELEASE, *OF_2026_07)}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def functions(context: Context) -> Iterator[tuple[str, str, str]]:
    """`(script, function name, function text)` for every function that the scripts of this release call.

    In a single container one script plays all roles. Raises InputError for a value that no shell variable can have.
    """
    common = _common(context)
    for name, section, script in (COMMON, *_FUNCTIONS[context.release.shape], MF_STORE):
        own = {} if section == COMMON[1] else _section(context.env, _effective(context.env, section))
        combined = context.in_one_pod and (name, section, script) not in (COMMON, MF_STORE)
        yield (SINGLE_CONTAINER_SCRIPT if combined else script), name, function(name, {**common, **own})


def _common(context: Context) -> dict[str, Any]:
    """Variables of every function. An absent north platform is the word None, which the scripts expect."""
    return {
        **_section(context.env, COMMON[1]),
        "ENGINE_TYPE": context.config.engine_type or "Unknown",
        "MODEL_NAME": context.model_name or "Unknown",
        "NORTH_PLATFORM": context.section("north_config").get("name"),
        "SERVICE_ID": context.service_id,
    }


def _effective(env: Document | None, section: str) -> str:
    """Union engines take the environment of prefill when they have none of their own."""
    if section == UNION_SECTION and (env is None or env.value((section,)) is None):
        return PREFILL_SECTION
    return section


def _section(env: Document | None, name: str) -> Mapping[str, Any]:
    if env is None:
        return {}
    found = env.value((name,)) or {}
    if not isinstance(found, dict):
        raise env.error((name,), "an object with variables is needed here: write {...}")
    for key, value in found.items():
        if not _NAME.fullmatch(key):
            raise env.error((name, key), "this is no name of a shell variable: write letters, digits and _")
        if isinstance(value, (dict, list)):
            raise env.error((name, key), "a shell variable holds no list or object: write a string")
    return found
