# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time of day as Kubernetes writes it. It is shown, and decides nothing."""

from __future__ import annotations

import time


def rfc3339(seconds: float) -> str:
    """Seconds since the epoch as `2026-11-30T15:00:00Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
