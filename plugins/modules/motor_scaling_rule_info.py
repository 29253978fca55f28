#!/usr/bin/python
# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show what a scaling rule says, decides and survives: live, or for a given rule without any cluster."""

from __future__ import annotations

DOCUMENTATION = r"""
module: motor_scaling_rule_info
short_description: Show, check and simulate the scaling rule of AscendJobs
version_added: 0.1.0
description:
  - Reads the rule of a namespace, checks it, and says for each AscendJob that names it whether it may create pods now, and if not why.
  - With O(simulate) it says which tier is left, and which instances are held, when servers fail.
  - Without O(namespace) it does the same for the rule that O(rule), O(rule_file) or O(synthesize) gives, for the servers and counts that O(inventory) and
    O(running) tell. Then no connection is opened, and the Python library kubernetes is not needed.
  - With O(namespace) and a rule it says what would be if that rule was applied there.
extends_documentation_fragment:
  - ascend.mindie.auth
  - ascend.mindie.rule
  - ascend.mindie.attributes
  - ascend.mindie.attributes.actiongroup_motor
attributes:
  check_mode:
    support: full
    description: Changes nothing; rights to read are enough.
  diff_mode:
    support: N/A
    description: Changes nothing.
  idempotent:
    support: full
    description: Changes nothing.
options:
  namespace:
    description:
      - Namespace of the rule.
      - Left out, everything is done without a cluster.
    type: str
  inventory:
    description:
      - The servers that there are. Left out, they are those of O(synthesize).
      - Only without O(namespace), with which the servers are those of the cluster. Needed for O(simulate) unless there is O(synthesize).
    type: dict
    suboptions:
      servers:
        description:
          - The number of servers, or a list of them.
          - Each server of a list is a name, or a mapping with C(name), and with C(npus) (those of O(inventory.hardware) where left out),
            C(super_pod) (a text), C(usable) (V(true) where left out) and C(used) (NPUs that something else has, 0 where left out).
        type: raw
        required: true
      hardware:
        description: Generation of the servers. V(A2) has 8 NPUs per server, V(A3) has 16.
        type: str
        choices: [A2, A3]
      npus_per_server:
        description: NPUs of one server, instead of O(inventory.hardware).
        type: raw
  shapes:
    description:
      - How many pods and NPUs an instance of each group has.
      - Left out for a group, it is as the AscendJobs of the group say, or O(synthesize), or else C(server_num_per_group) pods of a whole server each.
    type: list
    elements: dict
    suboptions:
      group:
        description: Name of the group.
        type: str
        required: true
      pods:
        description: Pods of one instance.
        type: int
        required: true
      npus_per_pod:
        description: NPUs of one pod.
        type: int
        required: true
      sp_block:
        description: NPUs of an instance that have to lie in one super pod, or 0.
        type: int
        default: 0
  running:
    description:
      - Running instances by group, for the tier that counts now. Groups that are left out have none.
      - Only without O(namespace).
    type: dict
  simulate:
    description: Let servers fail, in every combination. V({}) takes the defaults.
    type: dict
    suboptions:
      failures:
        description: How many servers fail at most.
        type: int
        default: 1
  html:
    description:
      - Whether to return the simulation as an HTML page with pictures, too. It needs O(simulate).
      - Modules of this collection write no files. M(ansible.builtin.copy) writes it.
    type: bool
    default: false
  language:
    description: Language of the page, English or Chinese.
    type: str
    choices: [en, zh]
    default: en

seealso:
  - module: ascend.mindie.motor_scaling_rule
author:
  - ascend.mindie contributors (@ascend-mindie)
"""

EXAMPLES = r"""
- name: Show the rule, and which jobs may create pods
  ascend.mindie.motor_scaling_rule_info:
    namespace: mindie-motor

- name: Check a rule without a cluster
  ascend.mindie.motor_scaling_rule_info:
    rule_file: /srv/mindie/elastic_scaling.json

- name: See what is left when up to two of eight servers fail
  ascend.mindie.motor_scaling_rule_info:
    rule_file: /srv/mindie/elastic_scaling.json
    inventory: {servers: 8, hardware: A3}
    simulate: {failures: 2}
    html: true
  register: simulated
  delegate_to: localhost
"""

RETURN = r"""
rule:
  description: The rule.
  returned: success
  type: dict
  contains:
    namespace:
      description: Its namespace, empty without a cluster.
      type: str
      sample: mindie-motor
    name:
      description: Name of its ConfigMap.
      type: str
      sample: scaling-rule
    present:
      description: Whether there is one. One that the operator refuses is there, and has no text, groups and tiers here.
      type: bool
      sample: true
    text:
      description: The rule as M(ascend.mindie.motor_scaling_rule) would write it, strict JSON.
      type: str
      sample: "{...}"
    groups:
      description: The groups in their order, by which Motor's controller reads the rule.
      type: list
      elements: str
      sample: ["group0", "group1"]
    tiers:
      description: For each tier, from full size down, the number of instances of each group and the servers of one instance.
      type: list
      elements: dict
      sample: [{"group0": {"number": 2, "servers": 1}, "group1": {"number": 1, "servers": 2}}]
findings:
  description: What the checks have found, the worst first.
  returned: success, or when a rule cannot be simulated because of errors among them
  type: list
  elements: dict
  contains:
    code:
      description: What kind of finding this is. Codes never change their meaning.
      type: str
      sample: R201
    severity:
      description: V(error) for a rule that holds every job or may crash the operator, else V(warning) or V(note).
      type: str
      sample: error
    message:
      description: What is wrong, and where.
      type: str
      sample: "rule, line 9, column 7: tier 1 omits group1"
    effect:
      description: What comes of it.
      type: str
      sample: The Ascend Operator crashes.
    remedy:
      description: What to do.
      type: str
      sample: Add the group to the tier.
    line:
      description: Line of the place in the text that was given, none for a mapping and for what is no matter of the text.
      type: int
      sample: 9
    column:
      description: Column of the place.
      type: int
      sample: 7
    path:
      description: The place in the document.
      type: str
      sample: elastic_scaling_list[1].group_list[0]
    tier:
      description: Index of the tier, where it is about one.
      type: int
      sample: 1
    group:
      description: Name of the group, where it is about one.
      type: str
      sample: group1
    name:
      description: The object that it is about, empty for the rule itself.
      type: str
      sample: AscendJob mindie-motor/mindie-server-p0
tasks:
  description: What runs of each inference task that names the rule, and what follows. Without a cluster there is one, without a C(job_id).
  returned: success
  type: list
  elements: dict
  contains:
    job_id:
      description: The label C(jobID) that its jobs have in common.
      type: str
      sample: mindie-motor
    running:
      description: Running instances by group, as the operator counts them (PodGroups in phase C(Running)).
      type: dict
      sample: {"group0": 1, "group1": 1}
    tier:
      description: Index of the tier that counts now, V(-1) when every tier is satisfied, none when the operator refuses the rule.
      type: int
      sample: 0
    tier_now:
      description: Index of the largest tier all of whose instances run, none when not even those of the smallest one do.
      type: int
      sample: 1
    tier_possible:
      description:
        - Index of the largest tier that the healthy servers have room for, what the task has of them included and left where it is.
        - None when they have room for none, or when servers or the size of instances are not known.
      type: int
      sample: 0
jobs:
  description: Whether each AscendJob that names the rule may create pods now. Without a cluster, whether one more job of each group might.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the job, empty without a cluster.
      type: str
      sample: mindie-server-p1
    group:
      description: Its group.
      type: str
      sample: group0
    job_id:
      description: Its label C(jobID).
      type: str
      sample: mindie-motor
    may_create:
      description: Whether the operator lets it create pods.
      type: bool
      sample: false
    crashes:
      description: Whether the operator crashes when it looks at this job.
      type: bool
      sample: false
    why:
      description: Why, in plain words.
      type: str
      sample: tier 1 has its 1 instances of group0 and waits for group1 (0 of 1)
simulation:
  description: What is left when servers fail.
  returned: when O(simulate) was given
  type: dict
  contains:
    servers:
      description: The servers that can fail, with C(name), C(npus), C(super_pod), C(usable) and C(used).
      type: list
      elements: dict
      sample: [{"name": "server-0", "npus": 16, "super_pod": "", "usable": true, "used": 0}]
    shapes:
      description: What an instance of each group is like, with C(group), C(count), C(pods), C(npus_per_pod) and C(sp_block).
      type: list
      elements: dict
      sample: [{"group": "group0", "count": 2, "pods": 1, "npus_per_pod": 16, "sp_block": 0}]
    tiers:
      description: The tiers, as in RV(rule.tiers).
      type: list
      elements: dict
      sample: []
    instances:
      description: The instances before any failure, with C(group), C(name), C(npus_per_pod) and the server of each pod (C(pods)).
      type: list
      elements: dict
      sample: [{"group": "group0", "name": "group0-0", "pods": ["server-0"], "npus_per_pod": 16}]
    levels:
      description:
        - One entry for each number of failures from 0 on, with C(failures), the number of C(combinations) of servers, all C(outcomes) from the worst one
          on, the C(worst) and the C(typical) (median) one, and the mean number of running instances by group (C(expected)).
        - An outcome has the C(tier) that is reached (none when not even the smallest one is), what is C(running), the C(combinations) that lead there and their
          C(share), the instances that are C(held) and why, the groups in the order in which they grow again (C(regrows)), an example (failing C(servers),
          instances that are C(lost) with them, and those C(given_up) for decode), and whether the operator C(crashes).
      type: list
      elements: dict
      sample: [{"failures": 0, "combinations": 1}]
    critical:
      description: The servers whose failure alone does the most harm.
      type: list
      elements: str
      sample: ["server-2"]
    keep_decode:
      description: Whether Motor's controller is taken to end prefill instances while decode is short.
      type: bool
      sample: true
    shrinks:
      description: The group whose instances it ends.
      type: str
      sample: group0
    keeps:
      description: The group for which it does so.
      type: str
      sample: group1
html:
  description: The simulation as a page of its own, with pictures of servers, NPUs and tiers.
  returned: when O(html) was asked for
  type: str
  sample: "<!DOCTYPE html>..."
reason:
  description: Why the module failed, one word that playbooks can test.
  returned: failure
  type: str
  sample: InvalidInput
requests:
  description: Requests that were sent to the API server.
  returned: success
  type: int
  sample: 7
"""

from ansible_collections.ascend.mindie.plugins.module_utils import _entry_rule_info
from ansible_collections.ascend.mindie.plugins.module_utils._entry_module import run_module


def main() -> None:
    """Run the module."""
    run_module(_entry_rule_info.SPEC, _entry_rule_info.show, mutually_exclusive=[_entry_rule_info.WAYS], check_k8s=False)


if __name__ == "__main__":
    main()
