#!/usr/bin/python
# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report one service: its instances, control pods and record of success."""

from __future__ import annotations

DOCUMENTATION = r"""
module: motor_service_info
short_description: Show a MindIE Motor service
version_added: 0.1.0
description:
  - Shows the engine instances of a service, its controller and coordinator, and what its baseline says. Changes nothing.
extends_documentation_fragment:
  - ascend.mindie.auth
  - ascend.mindie.attributes
  - ascend.mindie.attributes.actiongroup_motor
attributes:
  check_mode:
    support: full
    description: Predicts with the same plan and sends no request that changes anything; rights to read are enough.
  diff_mode:
    support: N/A
    description: Changes nothing.
  idempotent:
    support: full
    description: A second run changes nothing and writes nothing.
options:
  namespace:
    description: Namespace of the service (its C(job_id)).
    type: str
    required: true

seealso:
  - module: ascend.mindie.motor_service
author:
  - ascend.mindie contributors (@ascend-mindie)
"""

EXAMPLES = r"""
- name: Show a service
  ascend.mindie.motor_service_info:
    namespace: mindie-motor
  register: found
"""

RETURN = r"""
service:
  description: The service as seen now.
  returned: success
  type: dict
  contains:
    namespace:
      description: Namespace of the service.
      type: str
      sample: mindie-motor
    backend:
      description: How instances exist, V(deployments) or V(infer_service_set).
      type: str
      sample: deployments
    standing:
      description:
        - What the ConfigMap C(motor-config) says of the service.
        - V(absent), no service. V(deployer), made by Motor's own deployer. V(applied), as recorded. V(unfinished), a change has not ended.
      type: str
      sample: applied
    counts:
      description: Live instances per engine role.
      type: dict
      sample: {"prefill": 4, "decode": 2}
    owners:
      description: The autoscaler of each engine role whose count is its own.
      type: dict
      sample: {"prefill": "HorizontalPodAutoscaler vllm-0-prefill-scaler"}
    instances:
      description: The engine instances.
      type: list
      elements: dict
      contains:
        engine_role:
          description: V(prefill), V(decode), V(union) or V(encode).
          type: str
          sample: prefill
        index:
          description: Index within the engine role.
          type: int
          sample: 0
        name:
          description: Name of the instance.
          type: str
          sample: vllm-p0
        state:
          description:
            - V(running), V(starting), V(pending), V(failed), V(terminating), V(missing), V(surplus) or V(foreign).
            - V(missing) is one that the baseline has and the cluster lacks, V(surplus) one beyond the baseline.
          type: str
          sample: running
        reason:
          description: Why it is not running.
          type: str
          sample: ""
        since:
          description: When its readiness last changed (RFC 3339).
          type: str
          sample: "2026-08-01T09:30:00Z"
        pods:
          description: Pods it consists of.
          type: int
          sample: 1
        pods_ready:
          description: Pods that are ready.
          type: int
          sample: 1
        nodes:
          description: Nodes its pods run on.
          type: list
          elements: str
          sample: ["node-1"]
        npus:
          description: NPUs that its pods ask for.
          type: int
          sample: 16
        altered:
          description: Whether it differs from most of its siblings, or its pods from the set that they belong to.
          type: bool
          sample: false
    control:
      description: Controller and coordinator; each works when at least one pod is ready.
      type: list
      elements: dict
      contains:
        name:
          description: Name of the control role.
          type: str
          sample: controller
        pods:
          description: Pods there are.
          type: int
          sample: 1
        pods_ready:
          description: Pods that are ready.
          type: int
          sample: 1
        reason:
          description: Why no pod is ready.
          type: str
          sample: ""
        nodes:
          description: Nodes its pods run on.
          type: list
          elements: str
          sample: ["node-1"]
        since:
          description: Since when a pod is ready (RFC 3339).
          type: str
          sample: "2026-08-01T09:30:00Z"

reason:
  description: Why the module failed, one word that playbooks can test.
  returned: failure
  type: str
  sample: RestartNeeded
requests:
  description: Requests that were sent to the API server.
  returned: success
  type: int
  sample: 14
"""

from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils import _entry, _entry_module
from ansible_collections.ascend.mindie.plugins.module_utils._motor.drift import reported


def show(module: Any) -> dict[str, Any]:
    """Observe and report."""
    service = _entry.Service(module, module.params["namespace"], absent_ok=True)
    state = reported(service.observe())
    return {"changed": False, "service": state.to_dict(), "requests": service.api.requests}


def main() -> None:
    """Run the module."""
    _entry_module.run_module({"namespace": {"type": "str", "required": True}}, show)


if __name__ == "__main__":
    main()
