#!/usr/bin/python
# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check and store an updated user config of a live service, or take a live service as its own baseline."""

from __future__ import annotations

DOCUMENTATION = r"""
module: motor_config_baseline
short_description: Store an updated user config of a MindIE Motor service, or adopt a service
version_added: 0.1.0
description:
  - With O(state=present) it compares a user config with the baseline that the cluster holds, and stores it when only keys differ that running pods
    read again by themselves (log levels, timeouts, retries, observability, the north interface).
  - Any other difference is refused with the exact paths, and nothing is written.
  - With O(state=adopted) it takes over a service that Motor's own deployer made, or whose baseline has gone wrong. It writes the record of success,
    and touches no workload, so that no pod restarts.
  - Data and record of success are written in one request, and only when nobody wrote meanwhile.
extends_documentation_fragment:
  - ascend.mindie.auth
  - ascend.mindie.wait
  - ascend.mindie.attributes
  - ascend.mindie.attributes.actiongroup_motor
attributes:
  check_mode:
    support: full
    description: Predicts with the same plan and sends no request that changes anything; rights to read are enough.
  diff_mode:
    support: full
    description: Shows counts of instances and the user config; in place of secrets there are digests.
  idempotent:
    support: full
    description: A second run changes nothing and writes nothing.
options:
  state:
    description:
      - V(present) stores O(user_config).
      - V(adopted) takes what is live as the baseline. The C(motor-config) of the cluster has to describe it, or O(user_config) where that one is damaged;
        scripts are kept as they are. What does not fit the live instances is refused, named one by one, and nothing is written.
    type: str
    choices: [present, adopted]
    default: present
  namespace:
    description:
      - Namespace of the service (its C(job_id)).
      - Needed unless O(user_config) or O(user_config_content) is given.
    type: str
  user_config:
    description:
      - Path of the new C(user_config.json), read where the module runs. Needed for O(state=present) unless O(user_config_content) is given.
      - With O(state=adopted), the one that the service runs with. It may differ from that of the cluster in counts only, unless that one is damaged.
    type: path
  user_config_content:
    description: The user config itself, as text or mapping, instead of O(user_config).
    type: raw
  overrides:
    description:
      - Values that replace keys of C(motor_deploy_config) of the user config, for example from an inventory.
      - Known keys are those of C(motor_deploy_config), such as C(job_id), C(p_instances_num) or C(image_name).
    type: dict

  instances:
    description:
      - Only with O(state=adopted). The number of live instances per engine role, in place of the counts of the user config.
      - Needed when the counts of C(motor-config) are not those of the live instances, for example because an earlier change failed halfway.
    type: dict
    suboptions:
      prefill:
        description: Prefill instances, an integer from 1 to 16.
        type: raw
      decode:
        description: Decode instances, an integer from 1 to 16.
        type: raw
      union:
        description: Instances of a hybrid service, an integer from 1 to 16.
        type: raw
      encode:
        description: Encode instances, an integer from 0 to 16.
        type: raw

seealso:
  - module: ascend.mindie.motor_config_baseline_info
  - module: ascend.mindie.motor_service
author:
  - ascend.mindie contributors (@ascend-mindie)
"""

EXAMPLES = r"""
- name: Store a new log level
  ascend.mindie.motor_config_baseline:
    user_config: /srv/mindie/user_config.json

- name: Take over a service that Motor's own deployer made
  ascend.mindie.motor_config_baseline:
    namespace: mindie-motor
    state: adopted

- name: Take over a service of which one prefill instance was never created
  ascend.mindie.motor_config_baseline:
    namespace: mindie-motor
    state: adopted
    instances:
      prefill: 2
      decode: 1
"""

RETURN = r"""
actions:
  description:
    - The writes that were made, in order; in check mode those that would be made.
    - The Lease that serves as lock is listed only when it is removed with the service.
    - The keys are those of RV(ascend.mindie.motor_service#module:actions).
  returned: success
  type: list
  elements: dict

service:
  description:
    - The service as seen after the work; in check mode as it is now.
    - C(namespace), C(backend), C(standing), C(counts), C(owners), C(instances) and C(control)
      are as in RV(ascend.mindie.motor_service_info#module:service), which has more.
  returned: success
  type: dict

drift:
  description:
    - How the instances differed from the baseline before the work, by name.
    - The keys are those of RV(ascend.mindie.motor_service#module:drift).
  returned: success
  type: dict

reason:
  description: Why the module failed, one word that playbooks can test.
  returned: failure
  type: str
  sample: RestartNeeded

failed_instances:
  description:
    - What cannot run when the wait ended without success.
    - The keys are those of RV(ascend.mindie.motor_service#module:failed_instances).
  returned: failure, when the wait ended without success
  type: list
  elements: dict

timeline:
  description:
    - What happened while the task ran, one entry for every change of state of an instance or control role, and for every step.
    - After 200 entries it is cut, which the last entry says.
    - The keys are those of RV(ascend.mindie.motor_service#module:timeline).
  returned: always, when something was written
  type: list
  elements: dict

requests:
  description: Requests that were sent to the API server.
  returned: success
  type: int
  sample: 14
"""

from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils import _entry, _entry_given, _entry_module
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan import Plan
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_adopt import plan_adopt
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_config import plan_update
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot
from ansible_collections.ascend.mindie.plugins.module_utils._motor.stored import stored_config


def store(module: Any) -> dict[str, Any]:
    """Parse, observe, plan, execute, report."""
    given, counts = _entry_given.given_config(module), _entry_given.given_counts(module)
    adopted = module.params["state"] == "adopted"
    if counts and not adopted:
        raise InputError(
            "instances goes with state: adopted only; the counts of a service change with motor_instance_scale", source="instances"
        )
    service = _entry.Service(module, _entry_given.namespace_of(module, given), given, absent_ok=adopted)

    def planner(snapshot: Snapshot) -> Plan:
        if adopted:
            return plan_adopt(snapshot, given, counts)
        return plan_update(snapshot, stored_config(snapshot.config_map), given)

    return service.converge(planner)


def main() -> None:
    """Run the module."""
    _entry_module.run_module(
        {
            "state": {"type": "str", "choices": ["present", "adopted"], "default": "present"},
            **_entry_given.CONFIG_SPEC,
            **_entry_given.INSTANCES_SPEC,
            **_entry.WAIT_SPEC,
        },
        store,
        mutually_exclusive=[("user_config", "user_config_content")],
        required_if=[("state", "present", ("user_config", "user_config_content"), True)],
    )


if __name__ == "__main__":
    main()
