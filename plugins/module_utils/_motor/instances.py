# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Engine roles and the names of engine instances, as Motor's own deployer writes them."""

from __future__ import annotations

import re
from types import MappingProxyType

ENGINE_ROLES = ("prefill", "decode", "union", "encode")
LETTER = MappingProxyType({"prefill": "p", "decode": "d", "union": "u", "encode": "e"})
ENGINE_ROLE_OF_LETTER = MappingProxyType({letter: engine_role for engine_role, letter in LETTER.items()})

# The deployer names the InferServiceSet after its template, whatever the engine is.
INFER_SERVICE_SET_NAME = "vllm"

# Names are known for these engines only; the deployer gives all others the base name of mindie-llm.
BASE_NAMES = MappingProxyType({"vllm": "vllm", "mindie-llm": "mindie-server", "sglang": "sglang"})
DEFAULT_ENGINE_TYPE = "mindie-llm"

# Indexes are written without leading zeros; [0-9] because \d would take digits of other scripts.
_SUFFIX = re.compile(r"-([pdue])(0|[1-9][0-9]*)")


def base_name(engine_type: str) -> str:
    """What the names of the instances begin with: `vllm`, `sglang`, or `mindie-server` (also for an absent engine type, "")."""
    return BASE_NAMES.get(engine_type, BASE_NAMES[DEFAULT_ENGINE_TYPE])


def instance_name(base_name: str, engine_role: str, index: int) -> str:
    """The name of one instance, which is the name of its Deployment: `instance_name("vllm", "prefill", 0)` is `vllm-p0`."""
    return f"{base_name}-{LETTER[engine_role]}{index}"


def parse_instance_name(name: str, base_name: str) -> tuple[str, int] | None:
    """The inverse of `instance_name`: `(engine_role, index)`, or None when the name is not one of this base name."""
    if not name.startswith(f"{base_name}-"):
        return None
    match = _SUFFIX.fullmatch(name, len(base_name))
    return (ENGINE_ROLE_OF_LETTER[match[1]], int(match[2])) if match else None
