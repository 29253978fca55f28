# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a scaling rule is given."""

from __future__ import annotations


class ModuleDocFragment:
    """Options of the modules for scaling rules."""

    DOCUMENTATION = r"""
options:
  name:
    description: Name of the ConfigMap with the rule, which the label C(mind-cluster/scaling-rule) of AscendJobs names.
    type: str
    default: scaling-rule
  rule:
    description:
      - The rule as JSON text or as a mapping, or the manifest of its whole ConfigMap as YAML or JSON text or as a mapping.
      - JSON text is read as strictly as the Ascend Operator reads it, so its numbers are texts (V("2")).
      - In a mapping (and in YAML that is the rule itself) whole numbers may be given as such (V(2)). Fractions and booleans are refused, with their path.
      - Name and namespace of a manifest have to be those of the options.
    type: raw
  rule_file:
    description: Path of a file with the rule, read where the module runs. What may be in it is the same as for O(rule) as text.
    type: path
  relaxed:
    description:
      - Whether the JSON text may have comments (C(#) and C(//), to the end of the line), as the samples of MindCluster's documentation do.
      - They are taken away before anything else.
      - A bracket at the end of a comment counts as code when the text is no JSON without it and is JSON with it, which a warning tells.
      - What is written to the cluster never has comments.
    type: bool
    default: false
  synthesize:
    description:
      - Make the rule from the number of servers and what is wanted, rather than give it.
      - The full size has to fit on the servers. When it does not, the error says what does.
      - The group of prefill comes first in every tier, as Motor's controller counts positions.
      - All numbers are whole ones.
    type: dict
    suboptions:
      servers:
        description: How many servers there are for the service.
        type: raw
        required: true
      hardware:
        description: Generation of the servers. V(A2) has 8 NPUs per server, V(A3) has 16.
        type: str
        choices: [A2, A3]
      npus_per_server:
        description: NPUs of one server. Needed unless O(synthesize.hardware) is given.
        type: raw
      instances:
        description:
          - The full size, that is the wanted number of instances.
          - Needed unless O(synthesize.steps) is given.
        type: dict
        suboptions:
          prefill:
            description: Prefill instances, from 1 to 96.
            type: raw
          decode:
            description: Decode instances, from 1 to 96.
            type: raw
      pods_per_instance:
        description: Pods of one instance, which is what C(server_num_per_group) of the rule says. 1 where left out.
        type: dict
        suboptions:
          prefill:
            description: Pods of a prefill instance.
            type: raw
          decode:
            description: Pods of a decode instance.
            type: raw
      npus_per_pod:
        description: NPUs of one pod. Those of a whole server where left out.
        type: dict
        suboptions:
          prefill:
            description: NPUs of a pod of a prefill instance.
            type: raw
          decode:
            description: NPUs of a pod of a decode instance.
            type: raw
      groups:
        description: Names of the groups, which the label C(mind-cluster/group-name) of AscendJobs names.
        type: dict
        suboptions:
          prefill:
            description: Group of the prefill instances. V(group0) where left out.
            type: str
          decode:
            description: Group of the decode instances. V(group1) where left out.
            type: str
      keep_decode:
        description:
          - Whether all decode instances are in every tier, so that prefill instances alone give way. Motor's own generator does so.
          - With V(false) both give way in turn, so that their ratio stays close to that of O(synthesize.instances).
          - Has no meaning with O(synthesize.steps).
        type: bool
        default: true
      minimum:
        description: The smallest service that is still worth running, which is the last tier. One instance of each engine role where left out.
        type: dict
        suboptions:
          prefill:
            description: Prefill instances of the last tier.
            type: raw
          decode:
            description: Decode instances of the last tier. With O(synthesize.keep_decode=true) these are all of them.
            type: raw
      steps:
        description:
          - The tiers themselves, the full size first. Left out, each tier has one instance less than the one before.
          - No step may have more instances of an engine role than the one before, or fewer than O(synthesize.minimum).
        type: list
        elements: dict
        suboptions:
          prefill:
            description: Prefill instances of this tier.
            type: raw
          decode:
            description: Decode instances of this tier.
            type: raw
"""
