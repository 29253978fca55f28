#!/usr/bin/python
# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Deploy, converge or remove one service."""

from __future__ import annotations

DOCUMENTATION = r"""
module: motor_service
short_description: Deploy, converge or remove a MindIE Motor service
version_added: 0.1.0
description:
  - Brings one service to what its C(user_config.json), C(env.json) and Motor release say.
  - Over a live service it changes exactly what differs. Counts of instances are scaled, keys of the white list are updated in the ConfigMap
    C(motor-config), objects that are no longer wanted are removed by label.
  - With C(deploy_mode=ascend_jobs) the service consists of AscendJobs of MindCluster's Ascend Operator, one for each instance, made from
    O(job_templates). Their scaling rule is made to fit the counts before jobs come or go, both ways, and each job has its rank table.
  - The count of an engine role that an autoscaler owns is kept as it is, with a warning where another one is configured.
  - What would restart pods is refused with the exact paths, and nothing is written.
  - The record of success is written last. A run that was interrupted is finished by running the task again, from any machine.
extends_documentation_fragment:
  - ascend.mindie.auth
  - ascend.mindie.drift
  - ascend.mindie.wait
  - ascend.mindie.wait.on_failure
  - ascend.mindie.scale_in
  - ascend.mindie.jobs
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
      - V(present) deploys or converges the service.
      - V(absent) removes all of it and waits until its pods are gone. The namespace stays, claims stay unless O(remove_claims=true).
    type: str
    choices: [present, absent]
    default: present
  namespace:
    description:
      - Namespace of the service (its C(job_id)).
      - Needed unless O(user_config) or O(user_config_content) is given.
    type: str
  user_config:
    description:
      - Path of the C(user_config.json), read where the module runs.
      - Needed for O(state=present) unless O(user_config_content) or O(revision) is given.
    type: path
  user_config_content:
    description: The user config itself, as text or mapping, instead of O(user_config).
    type: raw
  overrides:
    description:
      - Values that replace keys of C(motor_deploy_config) of the user config, for example from an inventory.
      - Known keys are those of C(motor_deploy_config), such as C(job_id), C(p_instances_num) or C(image_name).
    type: dict
  revision:
    description:
      - Go back to this revision of the history instead of giving a user config; M(ascend.mindie.motor_config_baseline_info) lists those that are kept.
      - Its user config is converged to like any other one, so what pods read only when they start needs O(allow_restart=true) and O(release).
      - Its environment is taken, too, when O(release) is given and neither O(env) nor O(env_content) is. Where it differs from that of now,
        O(release) is needed.
      - Secrets are not kept. Their values are taken from the current C(motor-config); a secret that has changed since is refused with its path.
      - Needs O(namespace).
    type: int
  env:
    description: Path of the C(env.json), read where the module runs. Needed together with O(release).
    type: path
  env_content:
    description: The environment itself, as text or mapping, instead of O(env).
    type: raw
  release:
    description:
      - Path of the deployer directory of a Motor release (with C(yaml_template/), C(startup/), C(probe/)), read where the module runs.
      - Needed for a new service. Left out for a live one, its scripts and objects are kept.
    type: path
  instances:
    description: Wanted number of instances per engine role. Overrides the counts of the user config.
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
  node_ports:
    description:
      - Node ports of the Services, for clusters with more than one Motor service.
      - V(release) keeps those of the release, V(auto) lets the cluster choose, a mapping of Service name to port sets them.
    type: raw
    default: release
  accelerator_type:
    description: Value of the node label C(accelerator-type) that engine pods select. The default follows C(hardware_type).
    type: str
  allow_restart:
    description:
      - Whether pods of a live service may be replaced, which a new image, a new release, a changed environment or any key of the user config
        that pods read only when they start asks for.
      - Instances are replaced one after the other, at most one of each engine role at a time, each only when the one before is Ready; the
        control roles follow. Of a standby pair the standby pod is replaced first, then the master. Nothing is surged, as NPU nodes are full.
      - Without it such a change is refused, and the message names what differs.
      - A service whose first deployment has never ended is replaced without asking.
    type: bool
    default: false
  create_namespace:
    description: Whether to create the namespace when it is missing.
    type: bool
    default: false
  remove_claims:
    description: Whether O(state=absent) also deletes the PersistentVolumeClaims of the service, and so their data.
    type: bool
    default: false

seealso:
  - module: ascend.mindie.motor_instance_scale
  - module: ascend.mindie.motor_config_baseline
  - module: ascend.mindie.motor_service_info
  - module: ascend.mindie.motor_manifests_info
author:
  - ascend.mindie contributors (@ascend-mindie)
"""

EXAMPLES = r"""
- name: Deploy a service
  ascend.mindie.motor_service:
    user_config: /srv/mindie/user_config.json
    env: /srv/mindie/env.json
    release: /srv/motor/examples/deployer

- name: See what deploying would change
  ascend.mindie.motor_service:
    user_config: /srv/mindie/user_config.json
    env: /srv/mindie/env.json
    release: /srv/motor/examples/deployer
  check_mode: true
  diff: true

- name: Deploy a second service on the same cluster
  ascend.mindie.motor_service:
    user_config: /srv/other/user_config.json
    env: /srv/other/env.json
    release: /srv/motor/examples/deployer
    node_ports: auto
    create_namespace: true

- name: Deploy a service of AscendJobs
  ascend.mindie.motor_service:
    user_config: /srv/mindie/user_config.json
    job_templates:
      prefill: /srv/mindie/jobs/prefill.yaml
      decode: /srv/mindie/jobs/decode.yaml
      controller: /srv/mindie/jobs/controller.yaml
      coordinator: /srv/mindie/jobs/coordinator.yaml

- name: Remove a service, keep its claims
  ascend.mindie.motor_service:
    namespace: mindie-motor
    state: absent

- name: Go back to the third record of success
  ascend.mindie.motor_service:
    namespace: mindie-motor
    revision: 3
    release: /srv/motor/examples/deployer
    allow_restart: true
"""

RETURN = r"""
actions:
  description:
    - The writes that were made, in order; in check mode those that would be made.
    - The Lease that serves as lock is listed only when it is removed with the service.
  returned: success
  type: list
  elements: dict
  contains:
    verb:
      description: V(create), V(update) or V(delete).
      type: str
      sample: create
    kind:
      description: Kind of the object.
      type: str
      sample: Deployment
    namespace:
      description: Namespace of the object, empty for cluster-scoped kinds.
      type: str
      sample: mindie-motor
    name:
      description: Name of the object.
      type: str
      sample: vllm-p1
    why:
      description: Why the write is needed.
      type: str
      sample: prefill instance 1 is missing

removed:
  description:
    - The instances that went for good, and why these and no others; in check mode those that would go.
    - Of an InferServiceSet they are the highest indexes, which its operator removes.
  returned: success
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
      sample: 1
    name:
      description: Name of the instance.
      type: str
      sample: vllm-p1
    why:
      description: Why this instance was chosen.
      type: str
      sample: highest index

drained:
  description: What the instances that went were doing when they were deleted, as far as it is known.
  returned: when O(wait_idle) is given
  type: list
  elements: dict
  contains:
    engine_role:
      description: V(prefill), V(decode), V(union) or V(encode).
      type: str
      sample: decode
    index:
      description: Index within the engine role.
      type: int
      sample: 1
    name:
      description: Name of the instance.
      type: str
      sample: vllm-d1
    idle:
      description: Whether it was found idle.
      type: bool
      sample: false
    running:
      description: Requests it was working on, empty when that is not known.
      type: int
      sample: 3
    waiting:
      description: Requests that were waiting there, empty when that is not known.
      type: int
      sample: 0
    problem:
      description: Why nothing is known.
      type: str
      sample: ""
    seconds:
      description: How long was waited.
      type: float
      sample: 12.0

service:
  description:
    - The service as seen after the work; in check mode as it is now.
    - C(namespace), C(backend), C(standing), C(counts), C(owners), C(instances) and C(control)
      are as in RV(ascend.mindie.motor_service_info#module:service), which has more.
  returned: success
  type: dict

drift:
  description: How the instances differed from the baseline before the work, by name.
  returned: success
  type: dict
  contains:
    missing:
      description: Instances that the baseline has and the cluster lacked.
      type: list
      elements: str
      sample: ["vllm-p1"]
    surplus:
      description: Instances beyond the baseline.
      type: list
      elements: str
      sample: []
    altered:
      description: Instances unlike most of their siblings.
      type: list
      elements: str
      sample: []
    foreign:
      description: Workloads that bear the name of an instance and are none.
      type: list
      elements: str
      sample: []

reason:
  description: Why the module failed, one word that playbooks can test.
  returned: failure
  type: str
  sample: RestartNeeded

failed_instances:
  description: What cannot run when the wait ended without success.
  returned: failure, when the wait ended without success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the instance or control role.
      type: str
      sample: vllm-p3
    engine_role:
      description: Engine role of the instance, or the name of the control role.
      type: str
      sample: prefill
    index:
      description: Index within the engine role; none for a control role.
      type: int
      sample: 3
    reason:
      description: What keeps it from running.
      type: str
      sample: "pod vllm-p3-7d9c5-x2k4p: ImagePullBackOff: Back-off pulling image"

timeline:
  description:
    - What happened while the task ran, one entry for every change of state of an instance or control role, and for every step.
    - After 200 entries it is cut, which the last entry says.
  returned: always, when something was written
  type: list
  elements: dict
  contains:
    at:
      description: Seconds since the start of the change.
      type: float
      sample: 12.4
    step:
      description: Step in which it happened.
      type: str
      sample: create prefill instances
    name:
      description: Name of the instance or control role; empty when the step itself started or ended.
      type: str
      sample: vllm-p3
    state:
      description: State of the instance or control role, V(gone), or V(started) and V(ended) for a step.
      type: str
      sample: running
    reason:
      description: Why it is not running.
      type: str
      sample: ""

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
from ansible_collections.ascend.mindie.plugins.module_utils._entry_deploy import Deployment
from ansible_collections.ascend.mindie.plugins.module_utils._entry_jobs import SPEC
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_remove import plan_remove


def converge(module: Any) -> dict[str, Any]:
    """Parse, observe, plan, execute, report."""
    if module.params["state"] == "absent":
        namespace = _entry_given.namespace_of(module, _entry_given.given_config(module))
        service = _entry.Service(module, namespace, others=_entry.OBJECT_KINDS, absent_ok=True)
        return service.converge(lambda snapshot: plan_remove(snapshot, claims=module.params["remove_claims"]))
    deployment = Deployment(module)
    return deployment.service.converge(deployment.plan)


def main() -> None:
    """Run the module."""
    spec = {
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        **_entry_given.CONFIG_SPEC,
        **_entry_given.INSTANCES_SPEC,
        **_entry.DRIFT_SPEC,
        **_entry.WAIT_SPEC,
        **_entry.ON_FAILURE_SPEC,
        **_entry.SCALE_IN_SPEC,
        "revision": {"type": "int"},
        "env": {"type": "path"},
        "env_content": {"type": "raw"},
        "release": {"type": "path"},
        "node_ports": {"type": "raw", "default": "release"},
        "accelerator_type": {"type": "str"},
        **SPEC,
        "allow_restart": {"type": "bool", "default": False},
        "create_namespace": {"type": "bool", "default": False},
        "remove_claims": {"type": "bool", "default": False},
    }
    _entry_module.run_module(
        spec,
        converge,
        mutually_exclusive=[("user_config", "user_config_content", "revision"), ("overrides", "revision"), ("env", "env_content")],
        required_if=[("state", "present", ("user_config", "user_config_content", "revision"), True)],
    )


if __name__ == "__main__":
    main()
