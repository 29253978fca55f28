#!/usr/bin/python
# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Put a service under load and report how it was scaled."""

from __future__ import annotations

DOCUMENTATION = r"""
module: motor_load
short_description: Send requests to a MindIE Motor service and watch it scale out and back in
version_added: 0.1.0
description:
  - Sends requests to a service, so many at once, and looks at the instances of its engine roles each second, until all that were added are gone again.
  - Reports when the first instance was added, when all were ready, when the service was back at its counts, and what became of the requests.
  - Nothing is written to the cluster. The load itself is real, so use it with care on a service that others use.
extends_documentation_fragment:
  - ascend.mindie.auth
  - ascend.mindie.attributes
  - ascend.mindie.attributes.actiongroup_motor
attributes:
  check_mode:
    support: full
    description: Says where requests would be sent to, and sends none.
  diff_mode:
    support: N/A
    description: Changes no objects.
  idempotent:
    support: none
    description: Each run sends its requests.
options:
  namespace:
    description: Namespace of the service (its C(job_id)).
    type: str
    required: true
  requests:
    description: How many requests are sent, from 1 to 1000000.
    type: int
    default: 100
  concurrency:
    description: How many are under way at a time, from 1 to 1000.
    type: int
    default: 8
  via:
    description:
      - How the service is reached without O(url).
      - V(proxy) goes through the API server to the Service of the coordinator. It needs the right to create C(services/proxy), and no other way into
        the cluster. The API server carries all of it, so keep O(concurrency) moderate.
      - V(node_port) goes to the node port of that Service, at the first server that is ready. It needs the rights to get Services and to list nodes.
    type: str
    choices: [proxy, node_port]
    default: proxy
  url:
    description: Where to send to instead, such as V(http://10.0.0.7:31015).
    type: str
  path:
    description: Path of the requests.
    type: str
    default: /v1/chat/completions
  model:
    description: Name of the model. Left out, it is what the service says in C(/v1/models), or else its user config.
    type: str
  body:
    description:
      - Body of each request. C(model) is added where it is missing.
      - Left out, it is a short question with at most 16 tokens to answer.
    type: dict
  service_api_key:
    description: API key of the service, where it wants one. Not with O(via=proxy), as the API server does not pass keys on.
    type: str
  api_key_header:
    description: Header that has the key. In C(Authorization) it comes after C(Bearer).
    type: str
    default: Authorization
  verify:
    description: Whether to check the certificate of a service that speaks TLS. With O(via=proxy) the API server decides that.
    type: bool
    default: true
  ca:
    description: Certificates, as PEM text, of the authorities that vouch for it. Those of the system, unless told otherwise.
    type: str
  timeout:
    description: How long to wait for each answer, in seconds, from 1 to 3600.
    type: int
    default: 300
  watch_timeout:
    description:
      - For how many seconds to look at the instances in all, from 1 to 86400. Requests that are left then are not sent.
      - HPA waits for the stabilisation window, 300 seconds unless the policy says otherwise, before it scales in.
    type: int
    default: 1200
  grace:
    description: For how many seconds after the last request to wait for instances to be added, where none were, from 0 to 3600.
    type: int
    default: 60
seealso:
  - module: ascend.mindie.motor_scaling_policy
  - module: ascend.mindie.motor_scaling_policy_info
author:
  - ascend.mindie contributors (@ascend-mindie)
"""

EXAMPLES = r"""
- name: See a service scale out and back in
  ascend.mindie.motor_load:
    namespace: mindie-motor
    requests: 2000
    concurrency: 40
  register: done

- name: Show the times
  ansible.builtin.debug:
    msg: "{{ done.load.table }}"

- name: Send to the service itself, with a key
  ascend.mindie.motor_load:
    namespace: mindie-motor
    via: node_port
    service_api_key: "{{ vaulted_key }}"
"""

RETURN = r"""
load:
  description: What was sent, and what it has done.
  returned: success, and when interrupted
  type: dict
  contains:
    to:
      description: Where requests were sent to.
      type: str
      sample: Service mindie-motor/mindie-motor-coordinator-infer-vllm-0-coordinator by the API server
    requests:
      description: Requests that were to be sent.
      type: int
      sample: 2000
    concurrency:
      description: Requests under way at a time.
      type: int
      sample: 40
    sent:
      description: Requests that have ended.
      type: int
      sample: 2000
    failed:
      description: Those that were not answered, or with an error.
      type: int
      sample: 3
    outcomes:
      description: How often which outcome. V(ok), V(HTTP 503) and the like, V(timeout), V(no answer), V(error in the answer), V(no JSON).
      type: dict
      sample: {"ok": 1997, "HTTP 503": 3}
    messages:
      description: What the first request with each outcome but V(ok) said.
      type: dict
      sample: {"HTTP 503": "{\"detail\":\"Service is not available\"}"}
    seconds:
      description: For how many seconds requests were sent.
      type: float
      sample: 210.3
    per_second:
      description: Requests per second.
      type: float
      sample: 9.5
    latency:
      description: Seconds until requests were answered, C(p50), C(p95), C(p99), C(mean) and C(longest), of those that were answered well.
      type: dict
      sample: {"p50": 3.9, "p95": 7.2, "p99": 9.0, "mean": 4.2, "longest": 9.8}
    scaling:
      description: >-
        Each engine role, with its instances C(before), the C(most) that were wanted, and those C(after) all. C(first_scale_out), C(all_ready) and
        C(back_in) are seconds since the first request, none when it did not happen.
      type: list
      elements: dict
      sample: [{"engine_role": "decode", "before": 1, "most": 4, "after": 1, "first_scale_out": 18.0, "all_ready": 312.0, "back_in": 534.0}]
    timeline:
      description: >-
        Each change of the instances that are wanted and ready, with C(seconds) since the first request, C(engine_role), C(wanted) and C(ready).
        The first 200 of them.
      type: list
      elements: dict
      sample: [{"seconds": 18.0, "engine_role": "decode", "wanted": 2, "ready": 1}]
    watched:
      description: For how many seconds the instances were looked at.
      type: float
      sample: 534.2
    settled:
      description: Whether the service was back at its counts in the end.
      type: bool
      sample: true
    table:
      description: All of it as lines of text.
      type: list
      elements: str
      sample: ["2000 requests in 210.3 s, 40 at a time, 3 failed; HTTP 503: 3"]
reason:
  description: Why the module failed, one word that playbooks can test.
  returned: failure
  type: str
  sample: NoModel
requests:
  description: Requests that were sent to the API server, those that it passed on to the service included.
  returned: success
  type: int
  sample: 541
"""

from ansible_collections.ascend.mindie.plugins.module_utils._entry_load import SPEC, put_under_load
from ansible_collections.ascend.mindie.plugins.module_utils._entry_module import run_module


def main() -> None:
    """Run the module."""
    run_module(SPEC, put_under_load)


if __name__ == "__main__":
    main()
