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
  unschedulable_timeout:
    description:
      - For how many seconds pods of new instances may be unschedulable before the wait ends.
      - Left out, that is waited for as long as for anything else.
      - What does not end by itself ends the wait early in any case, with the reason of every instance. That is an image that cannot be
        pulled, a container that was restarted at least three times and crashes on, a configuration that is not there, pods that the server
        refuses for 15 seconds (a quota), and a Deployment past its progress deadline whose containers have started.
      - Troubles of instances that were there before and that the task does not touch are told, but do not end the wait.
    type: int
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

    ON_FAILURE = r"""
options:
  on_failure:
    description:
      - What to do when the wait ends without success, because instances cannot run or because O(wait_timeout) is over.
      - V(keep) undoes nothing. Run the task again to go on.
      - V(rollback) goes back to the counts of the baseline. Instances that were created are removed, instances that were removed are created
        again, and a user config that was written already is restored. A service that was never reached in full is removed, its claims stay.
      - The task fails in any case. Rolling back may take up to O(wait_timeout) once more.
    type: str
    choices: [keep, rollback]
    default: keep
"""
