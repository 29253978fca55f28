# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a module that writes waits."""

from __future__ import annotations


class ModuleDocFragment:
    """Options of the modules that change a service."""

    DOCUMENTATION = r"""
options:
  wait:
    description:
      - Whether to wait until the service is complete and stays so.
      - With V(false) the module returns after its last write. Instances that make room for others are waited for in any case.
    type: bool
    default: true
  wait_timeout:
    description:
      - How long to wait, in seconds. What was seen last is part of the error message.
    type: int
    default: 1800
  lock_timeout:
    description:
      - How long to wait, in seconds, for another run that is changing the same service.
    type: int
    default: 30
  lock_duration:
    description:
      - Seconds for which the lock is held without being renewed, at least 1. It is renewed three times as often.
      - A run that dies without giving the lock back keeps others waiting for this long.
    type: int
    default: 15
"""
