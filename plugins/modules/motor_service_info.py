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
  - Shows the engine instances of a service, its controller and coordinator, what its baseline says, and the tiers of its scaling rules.
    Changes nothing.
  - For each instance that does not run it says what it waits for. With O(servers) this includes how many NPUs are missing.
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
  servers:
    description:
      - Also show the servers of the cluster and their NPUs. Takes two more requests, and the right to list nodes.
      - Without the right to list the pods of all namespaces, only those of this one are counted, with a warning.
    type: bool
    default: false

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

- name: Show how many NPUs an instance lacks, and what the servers have
  ascend.mindie.motor_service_info:
    namespace: mindie-motor
    servers: true
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
      description: How instances exist, V(deployments), V(infer_service_set) or V(ascend_jobs); V(any) when nothing says so.
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
            - V(running), V(starting), V(pending), V(held), V(failed), V(terminating), V(missing), V(surplus) or V(foreign).
            - V(pending) is one that waits for NPUs, V(held) one whose scaling rule does not let it start now.
            - V(missing) is one that the baseline has and the cluster lacks, V(surplus) one beyond the baseline.
          type: str
          sample: running
        reason:
          description: Why it is not running.
          type: str
          sample: "its PodGroup is Pending: it needs 8 NPUs on one server, the largest free room is 4 on a2-003"
        since:
          description: When the readiness of its pods last changed, or without pods, when it was made or deleted (RFC 3339).
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
          description: NPUs that its pods ask for, those included that are still to come.
          type: int
          sample: 16
        group:
          description: Its group in the scaling rule, empty without one.
          type: str
          sample: group0
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

    baseline:
      description: Instances per engine role that the service last reached in full, none when nothing says so.
      type: dict
      sample: {"prefill": 4, "decode": 2}
    drift:
      description:
        - What differs from the baseline, names of instances under C(missing), C(surplus), C(altered) and C(foreign).
        - What an unfinished change has left is no drift.
      type: dict
      sample: {"missing": ["vllm-p1"], "surplus": [], "altered": [], "foreign": []}
    hold:
      description: Whether C(motor-config) has the annotation C(ascend.mindie/hold), so that no program repairs anything.
      type: bool
      sample: false
    hold_text:
      description: What somebody wrote into that annotation.
      type: str
      sample: ""
    unfinished:
      description: The verb of a change that has begun and not ended, empty when there is none.
      type: str
      sample: ""
    lock:
      description: Who holds the lock of the service, C(holder), for which C(verb), and C(since) when; none when nobody does.
      type: dict
      sample: {"holder": "ops@host", "verb": "scale", "since": "2026-08-01T09:30:00.000000Z"}
    tasks:
      description: The AscendJobs of one scaling rule and one C(jobID), which the Ascend Operator counts together.
      type: list
      elements: dict
      contains:
        rule:
          description: Name of the scaling rule, a ConfigMap.
          type: str
          sample: scaling-rule
        task:
          description: The label C(jobID).
          type: str
          sample: mindie-motor
        present:
          description: Whether the ConfigMap is there. Without it every job is held.
          type: bool
          sample: true
        readable:
          description: Whether the operator can read the rule. Otherwise every job is held.
          type: bool
          sample: true
        crashes:
          description: Whether a job has a group that is not in every tier, which crashes the operator for the whole cluster when it comes to that.
          type: bool
          sample: false
        crashing_jobs:
          description: The jobs that do.
          type: list
          elements: str
          sample: []
        tiers:
          description: The instances of each group that the tiers ask for, the full size first.
          type: list
          elements: dict
          sample: [{"group0": 2, "group1": 1}, {"group0": 1, "group1": 1}]
        running:
          description: Running instances by group, as the operator counts them (PodGroups in phase C(Running)).
          type: dict
          sample: {"group0": 1, "group1": 1}
        groups:
          description: The engine role of each group.
          type: dict
          sample: {"group0": "prefill", "group1": "decode"}
        tier_now:
          description: Index of the largest tier all of whose instances run, none when not even those of the smallest one do.
          type: int
          sample: 1
        tier_possible:
          description:
            - Index of the largest tier that the healthy servers have room for, what the task has of them included and left where it is.
            - None when they have room for none, and without O(servers).
          type: int
          sample: 0
        findings:
          description:
            - What checks of the rule and of its jobs have found.
            - The keys are those of RV(ascend.mindie.motor_scaling_rule_info#module:findings).
          type: list
          elements: dict
          sample: []

servers:
  description: The servers with NPUs.
  returned: when O(servers) was asked for
  type: list
  elements: dict
  contains:
    name:
      description: Name of the node.
      type: str
      sample: a2-003
    npus:
      description: NPUs that it has.
      type: int
      sample: 8
    healthy:
      description: NPUs that it offers; none while it is not Ready.
      type: int
      sample: 8
    used:
      description: NPUs of pods that have started, those that are being stopped included.
      type: int
      sample: 4
    reserved:
      description: NPUs of pods that are bound to it and have not started yet.
      type: int
      sample: 0
    free:
      description: NPUs that are left for new pods; none while it is not Ready or is cordoned.
      type: int
      sample: 4
    ready:
      description: Whether it is Ready.
      type: bool
      sample: true
    cordoned:
      description: Whether it is marked so that it takes no new pods.
      type: bool
      sample: false
    super_pod:
      description: The super pod that it belongs to, empty when it does not say.
      type: str
      sample: "0"
    since:
      description: When its readiness last changed (RFC 3339).
      type: str
      sample: "2026-08-01T09:30:00Z"
    pods:
      description: >-
        The pods that have NPUs of it, each with C(namespace), C(name), C(instance), C(npus) and C(state)
        (V(starting), V(running), V(unready) or V(terminating)).
      type: list
      elements: dict
      sample: [{"namespace": "chat", "name": "mindie-server-p0-master-0", "instance": "mindie-server-p0", "npus": 4, "state": "running"}]
npus:
  description:
    - The sums over all servers, C(servers), C(npus), C(healthy), C(used), C(reserved) and C(free).
    - C(enqueued) are NPUs of jobs that the scheduler has let in and that have no pods yet, C(enqueued_jobs) these jobs.
      The scheduler may count them as taken, though no server does.
  returned: when O(servers) was asked for
  type: dict
  sample: {"servers": 2, "npus": 16, "healthy": 16, "used": 12, "reserved": 0, "free": 4, "enqueued": 0, "enqueued_jobs": []}
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

from ansible_collections.ascend.mindie.plugins.module_utils import _entry_info, _entry_module


def main() -> None:
    """Run the module."""
    _entry_module.run_module(_entry_info.SPEC, _entry_info.show)


if __name__ == "__main__":
    main()
