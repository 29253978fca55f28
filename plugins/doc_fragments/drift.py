# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of a service that is not as its baseline says, or not healthy."""

from __future__ import annotations


class ModuleDocFragment:
    """Options of the modules that change counts of instances."""

    DOCUMENTATION = r"""
options:
  on_drift:
    description:
      - What to do when the live instances are not those of the baseline, the user config that the service last reached in full.
      - V(repair) goes for the wanted counts whatever there is now. Missing instances are created, surplus ones removed.
      - V(fail) changes nothing and names each instance that is missing, surplus, or altered (unlike its siblings).
      - V(adopt) takes the live instances as the new baseline for engine roles for which just the count of the baseline is wanted, and records them.
        Name the adopted counts in the user config or O(instances) afterwards, else the next run goes back to the counts that it finds there.
      - Altered instances, and those of somebody else, are reported and never touched.
      - What an unfinished change has left is no drift; running its task again finishes it.
    type: str
    choices: [repair, fail, adopt]
    default: repair
  allow_during_fault:
    description:
      - Whether instances may be added while an instance that stays is faulty, because a pod of it has failed, crashes again and again,
        or is on a node that is not ready.
      - Such an instance may soon need the NPUs that new ones would take. Bringing back what the baseline has, and removing, are always allowed.
    type: bool
    default: false
"""
