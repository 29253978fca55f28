# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where AscendJobs come from, and how they are named and grouped."""

from __future__ import annotations


class ModuleDocFragment:
    """Options of services of AscendJobs."""

    DOCUMENTATION = r"""
options:
  job_templates:
    description:
      - Where the AscendJobs of a service with C(deploy_mode=ascend_jobs) come from, and only of such a service. Needed for a new service, in
        place of a release; without it a live one keeps the jobs that it has.
      - Each is a path, or the documents themselves, with one AscendJob, and beside it Services and ConfigMaps that are created with it.
      - Image, command, volumes, probes and what else the job says stay as they are. Set are names, labels, the scheduling policy, replicas,
        NPUs and the rank table C(rings-config-<job>), which the pods mount when the template mounts one.
      - Other objects that the pods need, such as ConfigMaps with boot scripts, may be kept elsewhere.
    type: dict
    suboptions:
      prefill:
        description: The job of a prefill instance.
        type: raw
      decode:
        description: The job of a decode instance.
        type: raw
      controller:
        description: The job of the controller. It is created when it is absent, never scaled, and has no scaling rule.
        type: raw
      coordinator:
        description: The job of the coordinator, with its Services. It is created when it is absent, never scaled, and has no scaling rule.
        type: raw
  scaling_rule:
    description:
      - Name of the ConfigMap with the scaling rule of the AscendJobs. The rule is made, and with every change of counts made to fit, before jobs
        come or go. Tiers that somebody else wrote stay as far as the counts allow.
      - The default is what the live service has, and C(scaling-rule) for a new one. It cannot be changed on a live service.
    type: str
  groups:
    description:
      - Group of each engine role in the scaling rule. The group of prefill comes first in the rule, as the Motor controller reads it by position.
      - The default is what the live service has, and V(group0) and V(group1) for a new one. It cannot be changed on a live service.
    type: dict
    suboptions:
      prefill:
        description: Group of prefill instances.
        type: str
      decode:
        description: Group of decode instances.
        type: str
  name_prefix:
    description:
      - What the names of the AscendJobs begin with; V(mindie-server) makes C(mindie-server-p0).
      - The default is what the live service has, and V(mindie-server) for a new one. It cannot be changed on a live service.
    type: str
"""
