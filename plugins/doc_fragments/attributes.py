# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the attributes of the modules mean."""

from __future__ import annotations


class ModuleDocFragment:
    """Attributes of every module, and the action group."""

    DOCUMENTATION = r"""
attributes:
  check_mode:
    description: Can run in C(check_mode), predict whether something would change, and change nothing.
  diff_mode:
    description: Says what changed, or would change in C(check_mode), when run in diff mode.
  idempotent:
    description: Run again with the same options it changes nothing, unless something else changed the service in between.
"""

    ACTIONGROUP_MOTOR = r"""
options: {}
attributes:
  action_group:
    description: Use C(group/ascend.mindie.motor) in C(module_defaults) to set the options that reach the cluster for all modules of this collection at once.
    support: full
    membership:
      - ascend.mindie.motor
"""
