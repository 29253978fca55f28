# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Digests in the place of what was cut off an object (`kept.py`), where only its sameness matters."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

# No kind of object has such a field.
KEY = "digests"


def of(obj: Mapping[str, Any]) -> Mapping[str, str]:
    """The digests that an object carries; none when it is whole."""
    found: Mapping[str, str] = obj.get(KEY) or {}
    return found


def sha256(text: str) -> str:
    """Hexadecimal SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()
