# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The KV tier that engines share, as the other parts of the rendering see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .context import Context


@dataclass(frozen=True)
class KvTier:
    """`file` is its template, `role` its role in the InferServiceSet; the environments go to its own pod, to engines, and to the
    coordinator; `ports` are those of its Service, in the template's order.
    """

    file: str
    role: str
    master: str
    enabled: bool
    own_env: Mapping[str, str] = field(default_factory=dict)
    engine_env: Mapping[str, str] = field(default_factory=dict)
    coordinator_env: Mapping[str, str] = field(default_factory=dict)
    ports: tuple[int, ...] = ()


def required(context: Context, section: str, key: str) -> str:
    """A value that the KV tier does not start without, as text. Raises InputError when it is missing."""
    found = context.section(section).get(key)
    if found is None:
        raise context.error((section, key), "this key is missing: the KV tier does not start without it")
    return str(found)
