# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The generation of a workload: a digest of what its pods read when they start, as an annotation on its own metadata.

Pods read the user config and the scripts of `motor-config` once. A workload whose annotation differs from the wanted generation
was started with something else. One without (made by Motor's own deployer) was started with the baseline.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from . import baseline
from .record import APPLIED, DEPLOYER, USER_CONFIG_KEY, applied_of, standing

ANNOTATION = "ascend.mindie/generation"
LENGTH = 16


def generation(data: Mapping[str, str]) -> str:
    """The generation of pods that start with this data of `motor-config`; counts and keys that a running service reloads do not matter."""
    scripts = {key: value for key, value in data.items() if key != USER_CONFIG_KEY}
    text = data.get(USER_CONFIG_KEY, "")
    try:
        config = baseline.read_at_start(json.loads(text))
    except ValueError:
        config = text
    content = json.dumps([config, scripts], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:LENGTH]


def of_baseline(config_map: Mapping[str, Any] | None) -> str:
    """The generation that workloads without the annotation have, "" when nothing tells."""
    if standing(config_map) in (DEPLOYER, APPLIED):
        return generation((config_map or {}).get("data") or {})
    return str((applied_of(config_map) or {}).get("generation") or "")


def is_other(metadata: Mapping[str, Any], unmarked: str, value: str) -> bool:
    """True when a workload with these metadata was started with another generation than `value`.

    `unmarked` is that of workloads without the annotation. Where nothing tells, nothing is restarted.
    """
    own = str((metadata.get("annotations") or {}).get(ANNOTATION) or unmarked)
    return bool(own) and own != value


def is_marked(metadata: Mapping[str, Any]) -> bool:
    """True for metadata with the annotation."""
    return ANNOTATION in (metadata.get("annotations") or {})


def mark(metadata: dict[str, Any], value: str) -> None:
    """Write the annotation into the metadata of a workload that is about to be made."""
    metadata["annotations"] = {**(metadata.get("annotations") or {}), ANNOTATION: value}
