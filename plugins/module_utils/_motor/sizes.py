# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much `motor-config` can hold."""

from __future__ import annotations

from collections.abc import Mapping

from .errors import InputError
from .record import USER_CONFIG_KEY

# The API server adds up the values of a ConfigMap's data, in bytes, and refuses more (ValidateConfigMap).
LIMIT = 1 << 20


def check_size(data: Mapping[str, str], *, source: str) -> None:
    """Raise InputError, with sizes in bytes, when `data` is more than a ConfigMap can hold."""
    sizes = {key: len(value.encode()) for key, value in data.items()}
    total, config = sum(sizes.values()), sizes.get(USER_CONFIG_KEY, 0)
    if total <= LIMIT:
        return
    parts = f"{config} bytes" if total == config else f"{config} bytes, which with {total - config} bytes of scripts makes {total}"
    wrong = f"{USER_CONFIG_KEY} has {parts}: motor-config, a ConfigMap, holds at most {LIMIT} bytes (1 MiB); make the user config smaller"
    raise InputError.at(wrong, source=source)
