# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances go when there are too many."""

from __future__ import annotations


class ModuleDocFragment:
    """Options of the modules that remove instances."""

    DOCUMENTATION = r"""
options:
  order:
    description:
      - Which instances go first when there are too many.
      - V(highest_index) removes from the highest index down.
      - V(unhealthy_first) removes instances that do not run first (failed ones, then pending ones, then starting ones), and only then running ones,
        in each case from the highest index down.
      - An InferServiceSet always removes its highest indexes. Where others were to go, the task is refused, naming what would go instead.
    type: str
    choices: [highest_index, unhealthy_first]
    default: highest_index
  protect:
    description:
      - Instances that must not be removed, as lists of indexes per engine role.
      - The task is refused before anything is written when more instances are protected than may remain, and for an InferServiceSet also when a
        protected instance is one of its highest indexes that are to go.
    type: dict
    suboptions:
      prefill:
        description: Indexes of prefill instances, integers from 0.
        type: list
        elements: raw
      decode:
        description: Indexes of decode instances, integers from 0.
        type: list
        elements: raw
      union:
        description: Indexes of instances of a hybrid service, integers from 0.
        type: list
        elements: raw
      encode:
        description: Indexes of encode instances, integers from 0.
        type: list
        elements: raw
"""
