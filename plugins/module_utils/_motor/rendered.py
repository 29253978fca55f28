# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a service is made of, before it is compared with what is live."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Rendered:
    """The objects of a service. All of them carry our labels on their own metadata, never on pod templates.

    `config_map` is the whole `motor-config`; `objects` is everything else but engine instances, in the order of creation;
    `instances` are `(engine_role, index, Deployment)`, none for an InferServiceSet or a single container.
    """

    config_map: dict[str, Any]
    objects: tuple[dict[str, Any], ...]
    instances: tuple[tuple[str, int, dict[str, Any]], ...]
