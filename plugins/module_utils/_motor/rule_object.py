# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ConfigMap that holds a scaling rule, as it is made and as it is changed."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from .errors import Refused
from .ownership import metadata_labels
from .rule_reader import DATA_KEY

COMPONENT = "scaling-rule"
# When the rule was changed last; without it, the server's own fields tell.
CHANGED = "ascend.mindie/changed"


def made(name: str, namespace: str, text: str) -> dict[str, Any]:
    """A new one."""
    metadata = {"name": name, "namespace": namespace, "labels": metadata_labels(COMPONENT)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {DATA_KEY: text}}


def changed(live: Mapping[str, Any], text: str) -> dict[str, Any]:
    """A live one with another rule. It carries no time of an earlier change. Raises Refused when nothing can change it."""
    found: dict[str, Any] = copy.deepcopy(dict(live))
    if found.get("immutable"):
        name = f"{found['metadata'].get('namespace', '')}/{found['metadata']['name']}"
        message = f"Cannot change ConfigMap {name}: it is immutable. Delete it and run the task again."
        raise Refused(message, reason="Immutable")
    annotations = found["metadata"].get("annotations") or {}
    found["metadata"]["annotations"] = {key: value for key, value in annotations.items() if key != CHANGED}
    found["data"] = {**(found.get("data") or {}), DATA_KEY: text}
    return found
