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
      - Of AscendJobs those that make no pods (held by the scaling rule, or waiting for NPUs) go first in either case, as they serve nobody and may keep
        NPUs from others.
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
  wait_idle:
    description:
      - Wait until the instances that go are idle before the first of them is deleted. V({}) takes the defaults. Left out, nothing is waited for.
      - An instance is idle when the metrics of the coordinator (port 1027, C(type=dp)) show no running and no waiting request on any of its
        endpoints, in two different collections. What they do not show is unknown, and unknown is not idle.
      - This is best effort. Nothing can make Motor stop giving requests to an instance and let the running ones end, so that a request that arrives
        between the last look and the deletion is replayed on another instance, or cut. Instances are never paused first, as it is the pause that
        cuts. A coordinator whose collection fails goes on showing what it saw last.
      - Releases without port 1027, and services without its Service, have no such metrics; then O(wait_idle.on_timeout) decides at once.
      - Needs the right to get C(services/proxy). The time counts towards O(wait_timeout), and passes also with O(wait=false).
    type: dict
    suboptions:
      timeout:
        description: How long to wait, in seconds.
        type: int
        default: 300
      on_timeout:
        description:
          - What to do with instances that are not idle in time.
          - V(continue) deletes them all the same, as Motor itself would. V(fail) ends the task before any of them is deleted.
        type: str
        choices: [continue, fail]
        default: continue
"""
