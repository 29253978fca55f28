# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shell functions that set the environment of pods, as the deployer writes them into the startup scripts, and what they were made from."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

# Function, section of env.json, script.
COMMON = ("set_common_env", "motor_common_env", "common.sh")
MF_STORE = ("set_mf_store_env", "motor_mf_store_env", "mf_store.sh")
UNION_SECTION = "motor_engine_union_env"
PREFILL_SECTION = "motor_engine_prefill_env"
OF_EACH_RELEASE = (
    ("set_controller_env", "motor_controller_env", "controller.sh"),
    ("set_coordinator_env", "motor_coordinator_env", "coordinator.sh"),
    ("set_prefill_env", PREFILL_SECTION, "engine.sh"),
    ("set_decode_env", "motor_engine_decode_env", "engine.sh"),
    ("set_kv_conductor_env", "motor_kv_conductor_env", "kv_conductor.sh"),
)
OF_2026_05 = (("set_kv_pool_env", "motor_kv_cache_pool_env", "kv_pool.sh"),)
OF_2026_07 = (
    ("set_kv_store_env", "motor_kv_cache_store_env", "kv_cache_store.sh"),
    ("set_encode_env", "motor_engine_encode_env", "engine.sh"),
    ("set_union_env", UNION_SECTION, "engine.sh"),
)

_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("`", "\\`"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
_UNESCAPED = {escaped: char for char, escaped in _ESCAPES}
_ESCAPED = re.compile("|".join(re.escape(escaped) for escaped in _UNESCAPED))
_WORDS = {"None": None, "True": True, "False": False}
_BLOCK = re.compile(r"^function (set_[a-z_]+_env)\(\) \{\n(.*?)^\}[ \t]*(?:\n|\Z)", re.MULTILINE | re.DOTALL)
_EXPORT = re.compile(r"    export ([A-Za-z_][A-Za-z0-9_]*)=(.*)")
# What the deployer adds to the variables of env.json.
_ADDED = frozenset({"ENGINE_TYPE", "MODEL_NAME", "NORTH_PLATFORM", "SERVICE_ID"})
_SECTIONS = {name: section for name, section, dummy in (*OF_EACH_RELEASE, *OF_2026_05, *OF_2026_07, MF_STORE)}


def function(name: str, variables: Mapping[str, Any]) -> str:
    """The text of one function, in the form that the deployer writes and reads again (and with its line end)."""
    lines = [f"    export {key}={_value(value)}" for key, value in variables.items()]
    return "\n".join([f"function {name}() {{", *lines, "}", ""])


def inject(script: str, name: str, text: str) -> str:
    """The script with a function: in the place of the one it has under that name, else in front of everything."""
    start = re.search(rf"^function {re.escape(name)}\(\).*\n", script, re.MULTILINE)
    end = re.compile(r"^}[ \t]*(\n|\Z)", re.MULTILINE).search(script, start.end()) if start else None
    if start is None or end is None:
        return text + script
    return script[: start.start()] + text + script[end.end() :]


def read(data: Mapping[str, str]) -> dict[str, dict[str, Any]] | None:
    """The env.json that the functions in the scripts of a `motor-config` were made from, as far as it makes a difference.

    Variables that the deployer adds are left out. None when there are no such functions, or they were not written by a deployer.
    """
    found = {name: body for text in data.values() for name, body in _BLOCK.findall(text)}
    try:
        variables = {name: dict(_variable(line) for line in body.splitlines()) for name, body in found.items()}
    except ValueError:
        return None
    common = variables.get(COMMON[0])
    if common is None:
        return None
    env = {COMMON[1]: {key: value for key, value in common.items() if key not in _ADDED}}
    for name, section in _SECTIONS.items():
        own = {key: value for key, value in variables.get(name, {}).items() if key not in common or common[key] != value}
        if own:
            env[section] = own
    return env


def without_functions(data: Mapping[str, str]) -> dict[str, str]:
    """The scripts as the release has them."""
    return {key: _BLOCK.sub("", text) for key, text in data.items() if key.endswith(".sh")}


def _variable(line: str) -> tuple[str, Any]:
    """The inverse of one line of a function. Raises ValueError for any other line."""
    match = _EXPORT.fullmatch(line)
    if match is None:
        raise ValueError(line)
    name, token = match.groups()
    if not token.startswith('"'):
        return name, _WORDS[token] if token in _WORDS else json.loads(token)
    return name, _ESCAPED.sub(lambda found: _UNESCAPED[found[0]], token[1:-1])


def _value(value: Any) -> str:
    """A value as the deployer writes it. `$` is not escaped: `$NAME` and `$(...)` are evaluated in the container, and people use that."""
    if not isinstance(value, str):
        return str(value)
    for char, escaped in _ESCAPES:
        value = value.replace(char, escaped)
    return f'"{value}"'
