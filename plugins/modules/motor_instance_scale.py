#!/usr/bin/python
# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change the counts of engine instances of one service."""

from __future__ import annotations

DOCUMENTATION = r"""
module: motor_instance_scale
short_description: Change the number of instances of a MindIE Motor service
version_added: 0.1.0
description:
  - Brings the engine instances of a live service to the wanted counts, and changes nothing else.
  - Compares the wanted counts with the live instances. Surplus instances are removed first (O(order) and O(protect) say which); when all of
    their pods are gone, missing instances are created, decode before prefill. Instances that stay are not touched.
  - A task that only removes instances succeeds when their pods are gone, however ill they or the remaining ones are.
  - An engine role with an autoscaler (a HorizontalPodAutoscaler or ScaledObject on its InstanceSet, or on the workload of one of its instances) has its
    count from there. Another count for this engine role is refused, naming the autoscaler and what to edit; the other engine roles can be scaled.
  - Of a service of AscendJobs the scaling rule is made to fit first, both ways. A live rule that the Ascend Operator would refuse is an error.
  - New instances are copies of a live sibling, so neither the release nor local files are needed.
  - The new counts are recorded in the ConfigMap C(motor-config) last. A run that was interrupted is finished by running the task again.
extends_documentation_fragment:
  - ascend.mindie.auth
  - ascend.mindie.drift
  - ascend.mindie.wait
  - ascend.mindie.wait.on_failure
  - ascend.mindie.scale_in
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
  namespace:
    description:
      - Namespace of the service (its C(job_id)).
      - Needed unless O(user_config) or O(user_config_content) is given.
    type: str
  user_config:
    description:
      - Path of the C(user_config.json) with the new counts, read where the module runs.
      - It may differ from the baseline in counts only.
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
      - Wanted number of instances for every engine role of the service. Overrides the counts of the user config.
      - An engine role that an autoscaler owns may be left out; any other missing count is an error.
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

notes:
  - Rights needed to read are get and list on configmaps, leases, deployments (or inferservicesets and instancesets), pods and
    horizontalpodautoscalers of the namespace. See the guide on rights for those needed to change.
seealso:
  - module: ascend.mindie.motor_service
  - module: ascend.mindie.motor_service_info
author:
  - ascend.mindie contributors (@ascend-mindie)
"""

EXAMPLES = r"""
- name: Scale a service to four prefill and two decode instances
  ascend.mindie.motor_instance_scale:
    namespace: mindie-motor
    instances:
      prefill: 4
      decode: 2

- name: Scale a service as its configuration file says
  ascend.mindie.motor_instance_scale:
    user_config: /srv/mindie/user_config.json

- name: Remove what does not run first, and keep the first two prefill instances whatever happens
  ascend.mindie.motor_instance_scale:
    namespace: mindie-motor
    instances:
      prefill: 2
      decode: 1
    order: unhealthy_first
    protect:
      prefill: [0, 1]

- name: Give the instance that goes two minutes to end its requests, and leave it alone when it does not
  ascend.mindie.motor_instance_scale:
    namespace: mindie-motor
    instances:
      prefill: 2
      decode: 1
    wait_idle:
      timeout: 120
      on_timeout: fail

- name: Do not wait until the new instances run
  ascend.mindie.motor_instance_scale:
    namespace: mindie-motor
    instances:
      prefill: 1
      decode: 1
    wait: false
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

removed:
  description:
    - The instances that went for good, and why these and no others; in check mode those that would go.
    - Of an InferServiceSet they are the highest indexes, which its operator removes.
    - The keys are those of RV(ascend.mindie.motor_service#module:removed).
  returned: success
  type: list
  elements: dict

drained:
  description:
    - What the instances that went were doing when they were deleted, as far as it is known.
    - The keys are those of RV(ascend.mindie.motor_service#module:drained).
  returned: when O(wait_idle) is given
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

rolled_back:
  description: Whether the service is again as its baseline says, with O(on_failure=rollback).
  returned: failure, when the wait ended without success
  type: bool
  sample: true

requests:
  description: Requests that were sent to the API server.
  returned: success
  type: int
  sample: 14
"""

from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils import _entry, _entry_given, _entry_module
from ansible_collections.ascend.mindie.plugins.module_utils._motor import faults
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan import Plan
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_scale import plan_scale
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot
from ansible_collections.ascend.mindie.plugins.module_utils._motor.stored import stored_config


def scale(module: Any) -> dict[str, Any]:
    """Parse, observe, plan, execute, report."""
    given = _entry_given.given_config(module)
    namespace = _entry_given.namespace_of(module, given)
    wanted = {**(given.counts if given else {}), **_entry_given.given_counts(module)}
    choice = _entry.given_choice(module)
    service = _entry.Service(module, namespace, given)

    def planner(snapshot: Snapshot) -> Plan:
        plan = plan_scale(snapshot, stored_config(snapshot.config_map), wanted, given, choice, on_drift=module.params["on_drift"])
        return faults.checked(snapshot, plan, allowed=module.params["allow_during_fault"])

    return service.converge(planner)


def main() -> None:
    """Run the module."""
    _entry_module.run_module(
        {
            **_entry_given.CONFIG_SPEC,
            **_entry_given.INSTANCES_SPEC,
            **_entry.DRIFT_SPEC,
            **_entry.WAIT_SPEC,
            **_entry.ON_FAILURE_SPEC,
            **_entry.SCALE_IN_SPEC,
        },
        scale,
        mutually_exclusive=[("user_config", "user_config_content")],
        required_one_of=[("instances", "user_config", "user_config_content")],
    )


if __name__ == "__main__":
    main()
