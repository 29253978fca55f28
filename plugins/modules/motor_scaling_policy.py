#!/usr/bin/python
# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Have the counts of engine roles follow the load, or not any more."""

from __future__ import annotations

DOCUMENTATION = r"""
module: motor_scaling_policy
short_description: Scale the instances of a MindIE Motor service by their load
version_added: 0.1.0
description:
  - Sets or removes scaling policies of a live service. The Infer Operator (MindCluster since 26.1) makes a HorizontalPodAutoscaler (HPA) for each engine
    role with a policy, which then has its count.
  - HPA reads the metrics of a policy from the external metrics API (C(external.metrics.k8s.io)), which an adaptor has to serve.
  - Switching a policy on or off changes no count by itself. A policy whose limits the live count is not within is refused (see O(outside)).
  - With O(state=absent) HPA is first told to leave the count alone. When it has heard that, which takes up to its sync period (15 seconds, unless
    the cluster has another one), the count of that moment is written to the InferServiceSet together with the removal, and to the user config.
  - Deploying the service again keeps its policies. While an engine role has one, M(ascend.mindie.motor_instance_scale) refuses another count for it.
    To scale by hand all the same, set O(outside=scale) and limits that leave HPA no choice.
  - A fault of an instance is told and keeps nothing from being written. HPA does not wait until it is over.
  - Refused before anything is written are services of other backends, clusters whose CRD has no C(scalingPolicy) or that do not serve autoscaling/v2,
    and policies that HPA, the Infer Operator or the API server would take wrongly.
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
    description: Shows the policies.
  idempotent:
    support: full
    description: A second run changes nothing and writes nothing.
options:
  namespace:
    description: Namespace of the service (its C(job_id)).
    type: str
    required: true
  state:
    description:
      - V(present) sets the policies of O(policies), and leaves those of other engine roles as they are.
      - V(absent) removes the policies of O(engine_roles).
    type: str
    choices: [present, absent]
    default: present
  policies:
    description:
      - Policies by engine role. Router, controller and coordinator are never scaled by load.
      - Needed with O(state=present).
    type: dict
    suboptions:
      prefill:
        description:
          - The policy of prefill instances.
        type: dict
        suboptions: &policy
          min:
            description: Least number of instances, an integer from 1 to 16.
            type: raw
            required: true
          max:
            description: Most instances, an integer from 1 to 16.
            type: raw
            required: true
          preset:
            description:
              - A choice of metrics with targets. V(queue) is C(num_requests_waiting) 5 for each instance; the others have that and more.
              - V(cache) adds C(kv_cache_usage_perc_sum) 0.8.
              - V(latency) adds C(time_to_first_token_seconds_p95) 0.5 for prefill, C(time_per_output_token_seconds_p95) 0.05 and
                C(e2e_request_latency_seconds_p95) 2 for decode, and all of these for union.
              - V(throughput) adds C(prompt_tokens_per_second) for prefill and C(generation_tokens_per_second) for the others. What one instance can
                do depends on model and NPUs, so C(metrics) has to give that target.
              - A metric that C(metrics) has takes the place of the same metric of the preset.
            type: str
            choices: [queue, cache, latency, throughput]
          metrics:
            description:
              - The metrics that the count follows. HPA takes the largest count that any of them asks for, and removes no instance while one of them
                has no value.
              - At least one metric is needed, here or by C(preset).
            type: list
            elements: dict
            suboptions:
              name:
                description:
                  - The name, with or without C(vllm:) or C(motor:).
                  - The metrics of the adaptor are listed in the guide on autoscaling.
                type: str
                required: true
              target:
                description:
                  - What HPA compares it with, a number or quantity above 0 such as V(5), V(0.8) or V(500m), with at most three decimal places.
                  - For a total (requests, tokens per second) this is what one instance is to have, for a mean, ratio or latency the value itself.
                type: raw
                required: true
              target_type:
                description:
                  - How HPA compares. V(AverageValue) is for totals of all instances, V(Value) for what does not grow with their number.
                  - Left out, it is what fits the metric. The other one is refused, as HPA would then scale in or out for ever.
                  - V(Value) is refused for instances of several pods, as HPA then multiplies by the pods.
                type: str
                choices: [Value, AverageValue]
              foreign:
                description:
                  - Whether another provider than the adaptor of this collection serves the metric. The name is then used as it is.
                  - Needed, together with C(target_type), for a metric that is not known here.
                type: bool
                default: false
          scale_out:
            description:
              - How fast instances are added.
              - Left out with a metric of type V(Value), it is one instance within 300 seconds. For these HPA multiplies by the instances that are
                ready, and those that still load their weights are, so that it would double again and again what is on its way.
            type: dict
            suboptions:
              window:
                description:
                  - The stabilisation window in seconds, from 0 to 3600. HPA takes the smallest count that it wanted within it; its default is 0.
                type: raw
              steps:
                description:
                  - How much the count may change within a time. Left out, HPA's defaults hold, which are
                    4 instances or 100 percent within 15 seconds, whichever is more.
                type: list
                elements: dict
                suboptions: &step
                  type:
                    description: V(Pods) for a number of instances, V(Percent) for a part of those that there are.
                    type: str
                    choices: [Pods, Percent]
                    required: true
                  value:
                    description: So many instances, or so many percent of them, an integer from 1 to 1000.
                    type: raw
                    required: true
                  period:
                    description: Within so many seconds, an integer from 1 to 1800.
                    type: raw
                    required: true
              select: &select
                description:
                  - Which of several steps holds, that of the largest change (V(Max)) or of the smallest (V(Min)). V(Disabled) allows no change
                    in this direction. Left out, it is V(Max).
                type: str
                choices: [Max, Min, Disabled]
          scale_in:
            description:
              - How fast instances are removed. The highest indexes go.
            type: dict
            suboptions:
              window:
                description:
                  - The stabilisation window in seconds, from 0 to 3600. HPA takes the largest count that it wanted within it; its default is 300.
                type: raw
              steps:
                description:
                  - How much the count may change within a time. Left out, HPA's defaults hold, which are
                    100 percent within 15 seconds.
                type: list
                elements: dict
                suboptions: *step
              select: *select
      decode:
        description:
          - The policy of decode instances.
        type: dict
        suboptions: *policy
      union:
        description:
          - The policy of the instances of a hybrid service.
        type: dict
        suboptions: *policy
  engine_roles:
    description:
      - Whose policies are removed with O(state=absent). Left out, all that there are.
    type: list
    elements: str
    choices: [prefill, decode, union]
  outside:
    description:
      - What to do when the live count of an engine role is not within the limits of its policy.
      - V(refuse) writes nothing. The message has the count and both limits.
      - V(scale) sets the policy all the same, and HPA brings the count within the limits. That is the way to scale by hand under a policy.
    type: str
    choices: [refuse, scale]
    default: refuse
  check_capacity:
    description:
      - Whether to refuse policies under which there may be more instances than the servers have NPUs for.
      - NPUs of other services count as used. Who may not read nodes is told that this was not checked.
    type: bool
    default: true
seealso:
  - module: ascend.mindie.motor_scaling_policy_info
  - module: ascend.mindie.motor_instance_scale
author:
  - ascend.mindie contributors (@ascend-mindie)
"""

EXAMPLES = r"""
- name: Scale prefill and decode instances by their load
  ascend.mindie.motor_scaling_policy:
    namespace: mindie-motor
    policies:
      prefill:
        min: 1
        max: 4
        preset: latency
      decode:
        min: 2
        max: 6
        metrics:
          - name: num_requests_waiting
            target: 5
          - name: generation_tokens_per_second
            target: 2500

- name: Remove at most one instance in two minutes, and only after ten quiet minutes
  ascend.mindie.motor_scaling_policy:
    namespace: mindie-motor
    policies:
      decode:
        min: 2
        max: 6
        preset: queue
        scale_in:
          window: 600
          steps:
            - type: Pods
              value: 1
              period: 120

- name: Have exactly three decode instances for now, without taking the policy away
  ascend.mindie.motor_scaling_policy:
    namespace: mindie-motor
    outside: scale
    policies:
      decode:
        min: 3
        max: 3
        preset: queue

- name: Keep the counts as they are now
  ascend.mindie.motor_scaling_policy:
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

policies:
  description:
    - C(scalingPolicy) of each engine role that has one, as the InferServiceSet has it after the work; in check mode as it is now.
  returned: success
  type: dict
  sample:
    prefill:
      type: HPA
      spec:
        minReplicas: 1
        maxReplicas: 4
        metrics:
          - type: External
            external:
              metric:
                name: num_requests_waiting
              target:
                type: AverageValue
                averageValue: "5"

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
  description:
    - Why the module failed, one word that playbooks can test.
    - V(NotAutoscalable), V(SeveralServices), V(PolicyUnknown) and V(AutoscalingMissing) say that service or cluster cannot be scaled by load.
    - V(WrongTargetType), V(UnknownMetric), V(MinAboveMax), V(OutsideLimits), V(TooFewNpus) and V(NoSuchRole) say what is wrong with a policy.
  returned: failure
  type: str
  sample: OutsideLimits

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
    - The keys are those of RV(ascend.mindie.motor_service#module:timeline).
  returned: always, when something was written
  type: list
  elements: dict

requests:
  description: Requests that were sent to the API server.
  returned: success
  type: int
  sample: 18
"""

from ansible_collections.ascend.mindie.plugins.module_utils import _entry_module, _entry_policy


def main() -> None:
    """Run the module."""
    _entry_module.run_module(_entry_policy.POLICY_SPEC, _entry_policy.run)


if __name__ == "__main__":
    main()
