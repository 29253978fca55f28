#!/usr/bin/python
# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Render a service of AscendJobs as manifests."""

from __future__ import annotations

DOCUMENTATION = r"""
module: motor_manifests_info
short_description: Render a service of AscendJobs as manifests
version_added: 0.1.0
description:
  - Makes of job templates and counts what M(ascend.mindie.motor_service) would create in an empty namespace, and checks it.
  - Nothing is created, no connection is opened, and the Python library kubernetes is not needed.
  - Only for services with C(deploy_mode=ascend_jobs).
  - Applied as they are, the manifests are a service that has no record of success yet. M(ascend.mindie.motor_service) with the same options
    waits until it is complete and makes the record.
extends_documentation_fragment:
  - ascend.mindie.auth
  - ascend.mindie.jobs
  - ascend.mindie.attributes
  - ascend.mindie.attributes.actiongroup_motor
attributes:
  check_mode:
    support: full
    description: Changes nothing, and asks no cluster.
  diff_mode:
    support: N/A
    description: Changes nothing.
  idempotent:
    support: full
    description: The same options give the same manifests.
options:
  namespace:
    description: Namespace of the service. When it is given, it has to be the C(job_id) of the user config.
    type: str
  user_config:
    description:
      - Path of the C(user_config.json), read where the module runs.
      - Needed unless O(user_config_content) is given.
    type: path
  user_config_content:
    description: The user config itself, as text or mapping, instead of O(user_config).
    type: raw
  overrides:
    description: Values that replace keys of C(motor_deploy_config) of the user config.
    type: dict
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
        description: Instances of a hybrid service, which AscendJobs cannot be.
        type: raw
      encode:
        description: Encode instances, of which AscendJobs have none.
        type: raw
  accelerator_type:
    description:
      - Value of the node label C(accelerator-type) of the servers.
      - With one that ends with C(super-pod), A3 servers are scheduled by super pods. Left out, it is as each template says.
    type: str
  job_templates:
    required: true

seealso:
  - module: ascend.mindie.motor_service
  - module: ascend.mindie.motor_scaling_rule_info
author:
  - ascend.mindie contributors (@ascend-mindie)
"""

EXAMPLES = r"""
- name: Render a service
  ascend.mindie.motor_manifests_info:
    user_config: /srv/mindie/user_config.json
    job_templates:
      prefill: /srv/mindie/jobs/prefill.yaml
      decode: /srv/mindie/jobs/decode.yaml
      controller: /srv/mindie/jobs/controller.yaml
      coordinator: /srv/mindie/jobs/coordinator.yaml
  register: rendered
  delegate_to: localhost

- name: Write the manifests into a file for kubectl
  ansible.builtin.copy:
    content: "{{ rendered.text }}"
    dest: /srv/mindie/manifests/mindie.yaml
    mode: "0600"
  delegate_to: localhost
"""

RETURN = r"""
namespace:
  description: Namespace of all manifests.
  returned: success
  type: str
  sample: mindie
manifests:
  description:
    - The objects, in the order in which they are to be created. The scaling rule comes first, then what jobs need, the jobs of controller and
      coordinator, the rank tables and jobs of decode instances, and those of prefill instances.
    - The namespace itself is not among them.
  returned: success
  type: list
  elements: dict
  sample: [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "scaling-rule", "namespace": "mindie"}}]
text:
  description: RV(manifests) as one YAML text, which C(kubectl apply -f) takes.
  returned: success
  type: str
  sample: "---\napiVersion: v1\nkind: ConfigMap\n"
findings:
  description: What the checks of the scaling rule and of the jobs have found, the worst first.
  returned: success
  type: list
  elements: dict
  contains:
    code:
      description: What kind of finding this is. Codes never change their meaning.
      type: str
      sample: R617
    severity:
      description: V(error), V(warning) or V(note).
      type: str
      sample: warning
    message:
      description: What is wrong, and where.
      type: str
      sample: "AscendJob mindie/mindie-server-p0 has backoffLimit 3: it has failed for good at restart 4"
    effect:
      description: What comes of it.
      type: str
      sample: The operator gives the job up.
    remedy:
      description: What to do.
      type: str
      sample: Leave the limit out.
    line:
      description: Line of the place in the rule, where it is about one.
      type: int
      sample: 9
    column:
      description: Column of the place.
      type: int
      sample: 7
    path:
      description: The place in the rule.
      type: str
      sample: ""
    tier:
      description: Index of the tier, where it is about one.
      type: int
      sample: 1
    group:
      description: Name of the group, where it is about one.
      type: str
      sample: group0
    name:
      description: The object that it is about, empty for the rule itself.
      type: str
      sample: AscendJob mindie/mindie-server-p0
reason:
  description: Why the module failed, one word that playbooks can test.
  returned: failure
  type: str
  sample: InvalidInput
"""

from ansible_collections.ascend.mindie.plugins.module_utils import _entry_manifests
from ansible_collections.ascend.mindie.plugins.module_utils._entry_module import run_module


def main() -> None:
    """Run the module."""
    run_module(
        _entry_manifests.SPEC,
        _entry_manifests.show,
        mutually_exclusive=[("user_config", "user_config_content")],
        required_one_of=[("user_config", "user_config_content")],
        check_k8s=False,
    )


if __name__ == "__main__":
    main()
