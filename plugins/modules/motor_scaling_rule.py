#!/usr/bin/python
# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a scaling rule that the Ascend Operator understands, or remove one that nobody needs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: motor_scaling_rule
short_description: Write or remove the scaling rule of AscendJobs
version_added: 0.1.0
description:
  - A scaling rule (a ConfigMap with C(elastic_scaling.json)) tells MindCluster's Ascend Operator which AscendJobs of an inference task may create pods,
    so that a service goes on with fewer instances when servers fail.
  - The rule is checked first, by itself and against the jobs, PodGroups and servers that are there. One with an error is never applied. The message
    has a code, place, effect and remedy for each error; all codes are in the collection's C(docs/scaling_rule.md).
  - What is written is strict JSON, and for the same rule the same bytes however it was given. A live rule that says the same to its readers is left as it is.
  - The rule is replaced in one write, and only when nobody wrote meanwhile, so that there is no gap in which jobs are held.
extends_documentation_fragment:
  - ascend.mindie.auth
  - ascend.mindie.rule
  - ascend.mindie.attributes
  - ascend.mindie.attributes.actiongroup_motor
attributes:
  check_mode:
    support: full
    description: Predicts with the same plan and sends no request that changes anything; rights to read are enough.
  diff_mode:
    support: full
    description: Shows the rule before and after as it is written by this module. A live rule that the operator refuses is shown as it is.
  idempotent:
    support: full
    description: A second run changes nothing and writes nothing.
options:
  state:
    description:
      - V(present) writes the rule that O(rule), O(rule_file) or O(synthesize) gives.
      - V(absent) removes it. That is refused while AscendJobs name the rule, as none of them could create a pod any more.
    type: str
    choices: [present, absent]
    default: present
  namespace:
    description: Namespace of the rule and of the AscendJobs that name it. The operator looks for a rule in the namespace of the job only.
    type: str
    required: true
  lock_timeout:
    description: As O(ascend.mindie.motor_service#module:lock_timeout).
    type: int
    default: 30
  lock_duration:
    description: As O(ascend.mindie.motor_service#module:lock_duration).
    type: int
    default: 15

seealso:
  - module: ascend.mindie.motor_scaling_rule_info
author:
  - ascend.mindie contributors (@ascend-mindie)
"""

EXAMPLES = r"""
- name: Two prefill instances and a decode instance, one of which may go
  ascend.mindie.motor_scaling_rule:
    namespace: mindie-motor
    rule:
      version: "1.0"
      elastic_scaling_list:
        - group_list:
            - {group_name: group0, group_num: 2, server_num_per_group: 1}
            - {group_name: group1, group_num: 1, server_num_per_group: 2}
        - group_list:
            - {group_name: group0, group_num: 1, server_num_per_group: 1}
            - {group_name: group1, group_num: 1, server_num_per_group: 2}

- name: Apply the manifest of a rule with comments in it
  ascend.mindie.motor_scaling_rule:
    namespace: mindie-motor
    rule_file: /srv/mindie/scaling_rule.yaml
    relaxed: true

- name: The rule for eight A3 servers
  ascend.mindie.motor_scaling_rule:
    namespace: mindie-motor
    synthesize:
      servers: 8
      hardware: A3
      instances: {prefill: 4, decode: 2}
      pods_per_instance: {prefill: 1, decode: 2}

- name: Remove the rule after its jobs
  ascend.mindie.motor_scaling_rule:
    namespace: mindie-motor
    state: absent
"""

RETURN = r"""
actions:
  description:
    - The writes that were made, in order; in check mode those that would be made.
    - The keys are those of RV(ascend.mindie.motor_service#module:actions).
  returned: success
  type: list
  elements: dict

rule:
  description:
    - The rule after the work; in check mode as it would be.
    - The keys are those of RV(ascend.mindie.motor_scaling_rule_info#module:rule).
  returned: success
  type: dict

findings:
  description:
    - What the checks have found, the worst first, also when the rule was refused because of it. Warnings are shown besides.
    - The keys are those of RV(ascend.mindie.motor_scaling_rule_info#module:findings).
  returned: success, or when there is an error among them
  type: list
  elements: dict

reason:
  description: Why the module failed, one word that playbooks can test.
  returned: failure
  type: str
  sample: RuleRefused

paths:
  description: Names of the AscendJobs that name the rule, when it cannot be removed because of them.
  returned: failure, with RV(reason=RuleInUse)
  type: list
  elements: str
  sample: ["mindie-server-p0"]

requests:
  description: Requests that were sent to the API server.
  returned: success
  type: int
  sample: 10
"""

from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils import _entry_rule
from ansible_collections.ascend.mindie.plugins.module_utils._entry_module import run_module
from ansible_collections.ascend.mindie.plugins.module_utils._entry_rule_live import Rules
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError


def converge(module: Any) -> dict[str, Any]:
    """Read, check, observe, plan, execute, report."""
    params = module.params
    checked = _entry_rule.checked_rule(module)
    absent = params["state"] == "absent"
    if absent and checked is not None:
        raise InputError.at("state: absent needs no rule: name it only", source="state")
    wanted = checked and checked.strict()
    rules = Rules(module, params["namespace"], params["name"])
    return rules.apply(checked, wanted) if wanted else rules.remove()


def main() -> None:
    """Run the module."""
    run_module(
        {
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "namespace": {"type": "str", "required": True},
            **_entry_rule.RULE_SPEC,
            "lock_timeout": {"type": "int", "default": 30},
            "lock_duration": {"type": "int", "default": 15},
        },
        converge,
        mutually_exclusive=[_entry_rule.WAYS],
        required_if=[("state", "present", _entry_rule.WAYS, True)],
    )


if __name__ == "__main__":
    main()
