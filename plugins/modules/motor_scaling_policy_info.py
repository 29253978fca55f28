#!/usr/bin/python
# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Show the autoscaling of a service, and what HPA would do."""

from __future__ import annotations

DOCUMENTATION = r"""
module: motor_scaling_policy_info
short_description: Show whether a MindIE Motor service is scaled by its load, and what HPA would do now
version_added: 0.1.0
description:
  - Shows the scaling policies of a service, reads each of their metrics as HPA does, and computes by the formula of HPA what it would do with these
    values. What does not work is told with its reason and a remedy. Changes nothing.
  - With O(what_if) no cluster is needed. O(policies) are evaluated on given numbers, or on recorded metrics of a coordinator.
extends_documentation_fragment:
  - ascend.mindie.auth
  - ascend.mindie.attributes
  - ascend.mindie.attributes.actiongroup_motor
attributes:
  check_mode:
    support: full
    description: Sends no request that changes anything; rights to read are enough.
  diff_mode:
    support: N/A
    description: Changes nothing.
  idempotent:
    support: full
    description: A second run changes nothing and writes nothing.
options:
  namespace:
    description:
      - Namespace of the service (its C(job_id)).
      - Left out, O(policies) and O(what_if) are needed, and no connection is opened.
    type: str
  adaptor:
    description:
      - Who is to serve the metrics. V(managed) is the adaptor of this collection; an APIService of somebody else is a problem then.
      - V(existing) is another provider (KEDA, prometheus-adapter). All that counts is whether it serves what the policies need.
    type: str
    choices: [managed, existing]
    default: managed
  policies:
    description:
      - Policies to look at instead of those in the cluster, by engine role, as in O(ascend.mindie.motor_scaling_policy#module:policies).
      - With O(namespace) this tells before a policy is set whether its metrics have values.
    type: dict
  what_if:
    description: Numbers on which O(policies) are evaluated. Not together with O(namespace).
    type: dict
    suboptions:
      instances:
        description: How many instances of each engine role there are. Needed for each engine role of O(policies).
        type: dict
      pods_per_instance:
        description: How many pods an instance of an engine role has, 1 unless told otherwise. All are taken to be ready.
        type: dict
      values:
        description:
          - >-
            Values by engine role and metric, for example V({"prefill": {"num_requests_waiting": 20}}).
          - A metric that is left out has no value, as if the adaptor could not read it, unless O(what_if.recorded) has one.
        type: dict
      past:
        description:
          - >-
            What HPA remembers, by engine role. C(wanted) are counts that it computed, each with C(count) and C(ago) (seconds), for stabilisation
            windows. C(changed) are changes that it made, each with C(by) (negative when instances went) and C(ago), for the steps.
          - Left out, it remembers nothing.
        type: dict
      recorded:
        description:
          - Paths of one or two recorded answers of a coordinator to C(/metrics?type=dp), the older one first, read where the module runs.
          - Rates and quantiles need two.
        type: list
        elements: path
      seconds:
        description: How many seconds lie between the two of O(what_if.recorded).
        type: float
        default: 30.0
notes:
  - HPA remembers what it wanted before, and the module cannot see that. Where a stabilisation window is open, RV(autoscaling.engine_roles) tells it in
    C(conditions), as HPA itself says it, and C(now) is what HPA would do without its memory.
seealso:
  - module: ascend.mindie.motor_scaling_policy
  - module: ascend.mindie.motor_load
author:
  - ascend.mindie contributors (@ascend-mindie)
"""

EXAMPLES = r"""
- name: See whether a service is scaled by its load
  ascend.mindie.motor_scaling_policy_info:
    namespace: mindie-motor
  register: found

- name: Show the table
  ansible.builtin.debug:
    msg: "{{ found.autoscaling.table }}"

- name: See what HPA would do with twenty requests that wait, without a cluster
  ascend.mindie.motor_scaling_policy_info:
    policies:
      prefill:
        min: 1
        max: 4
        metrics:
          - {name: num_requests_waiting, target: 5}
    what_if:
      instances: {prefill: 2}
      values:
        prefill: {num_requests_waiting: 20}
"""

RETURN = r"""
autoscaling:
  description: What there is to say of the autoscaling of the service.
  returned: success
  type: dict
  contains:
    namespace:
      description: Namespace of the service.
      returned: with O(namespace)
      type: str
      sample: mindie-motor
    works:
      description: Whether the service is scaled by its load, that is whether there is a policy and no problem that stops it.
      returned: with O(namespace)
      type: bool
      sample: true
    provider:
      description:
        - Who serves external metrics. C(name) of the APIService, C(whose) it is (V(ours), V(other), V(nobody), V(unknown)), whether it is C(available),
          the C(service) behind it and the C(message) of the API server.
      returned: with O(namespace)
      type: dict
      sample: {"name": "v1beta1.external.metrics.k8s.io", "whose": "ours", "available": true, "service": "mindie-system/mindie-metrics-adaptor",
               "message": "all checks passed"}
    engine_roles:
      description: Each engine role with a policy.
      type: list
      elements: dict
      contains:
        engine_role:
          description: V(prefill), V(decode) or V(union).
          type: str
          sample: prefill
        min:
          description: The fewest instances.
          type: int
          sample: 1
        max:
          description: The most instances.
          type: int
          sample: 4
        instances:
          description: Instances that are wanted now.
          type: int
          sample: 2
        ready:
          description: Instances that are ready.
          type: int
          sample: 2
        desired:
          description: Instances that HPA has last decided on, none before it has decided for the first time.
          type: int
          sample: 2
        autoscaler:
          description: Name of the HorizontalPodAutoscaler.
          returned: with O(namespace)
          type: str
          sample: vllm-0-prefill-scaler
        last_scaled:
          description: When HPA last changed the count (RFC 3339).
          returned: with O(namespace)
          type: str
          sample: "2026-08-01T09:30:00Z"
        metrics:
          description: >-
            The metrics of the policy, each with C(name), C(target), C(target_type), C(value) (none without one), and the C(problem) why there is none.
          type: list
          elements: dict
          sample: [{"name": "num_requests_waiting", "target": "5", "target_type": "AverageValue", "value": 8.0, "problem": ""}]
        conditions:
          description: >-
            The conditions of the HorizontalPodAutoscaler, each with C(type), C(status), C(reason), C(message), C(since), what it means in C(words), and
            whether that is C(good).
          type: list
          elements: dict
          sample: [{"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound", "message": "the HPA was able to ...",
                    "words": "it computes with metrics that have values", "good": true, "since": "2026-08-01T09:30:00Z"}]
        now:
          description: >-
            What HPA would do now by its formula, the C(count) it would set, the count that was C(computed) before limits and steps, one word (C(reason)),
            why in C(words), and the C(proposals) of the metrics.
          type: dict
          sample: {"count": 2, "computed": 2, "reason": "Stays", "words": "num_requests_waiting: 8 in all, 5 per instance wanted: ceil(8 / 5) = 2",
                   "proposals": [{"metric": "num_requests_waiting", "count": 2, "ratio": 0.8, "words": "num_requests_waiting: ..."}]}
    problems:
      description: >-
        What does not work or is not as meant, each with one word (C(problem)), C(message), C(engine_role) and C(metric) where it is about one, and
        what to do (C(remedy)).
      type: list
      elements: dict
      sample: [{"problem": "MetricUnreadable", "message": "HTTP 503: ...", "engine_role": "prefill", "metric": "num_requests_waiting",
                "remedy": "Mend what the message says. Until then nothing is scaled in."}]
    table:
      description: All of it as lines of text.
      type: list
      elements: str
      sample: ["Autoscaling of mindie-motor works; external metrics are served by the adaptor (available)"]
reason:
  description: Why the module failed, one word that playbooks can test.
  returned: failure
  type: str
  sample: InvalidInput
requests:
  description: Requests that were sent to the API server.
  returned: success
  type: int
  sample: 11
"""

from ansible_collections.ascend.mindie.plugins.module_utils._entry_module import run_module
from ansible_collections.ascend.mindie.plugins.module_utils._entry_policy_info import SPEC, show


def main() -> None:
    """Run the module."""
    run_module(SPEC, show, check_k8s=False)


if __name__ == "__main__":
    main()
