#!/usr/bin/python
# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report the baseline of a service and what a user config would change."""

from __future__ import annotations

DOCUMENTATION = r"""
module: motor_config_baseline_info
short_description: Show the baseline of a MindIE Motor service
version_added: 0.1.0
description:
  - Reads the baseline that the cluster holds, its record of success, and whether the live instances fit it.
  - With a user config it also says which paths differ, sorted by what changing them takes.
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
    description:
      - Namespace of the service (its C(job_id)).
      - Needed unless O(user_config) or O(user_config_content) is given.
    type: str
  user_config:
    description: Path of a C(user_config.json) to compare with, read where the module runs.
    type: path
  user_config_content:
    description: The user config itself, as text or mapping, instead of O(user_config).
    type: raw
  overrides:
    description:
      - Values that replace keys of C(motor_deploy_config) of the user config, for example from an inventory.
      - Known keys are those of C(motor_deploy_config), such as C(job_id), C(p_instances_num) or C(image_name).
    type: dict

seealso:
  - module: ascend.mindie.motor_config_baseline
author:
  - ascend.mindie contributors (@ascend-mindie)
"""

EXAMPLES = r"""
- name: Show the baseline
  ascend.mindie.motor_config_baseline_info:
    namespace: mindie-motor

- name: Show what a new configuration would change
  ascend.mindie.motor_config_baseline_info:
    user_config: /srv/mindie/user_config.json
"""

RETURN = r"""
baseline:
  description: The baseline.
  returned: success
  type: dict
  contains:
    namespace:
      description: Namespace of the service.
      type: str
      sample: mindie-motor
    standing:
      description: V(absent), V(deployer), V(applied) or V(unfinished), as in M(ascend.mindie.motor_service_info).
      type: str
      sample: applied
    counts:
      description: Instances per engine role that the baseline asks for.
      type: dict
      sample: {"prefill": 2, "decode": 1}
    drift:
      description: Engine roles whose live count differs from the baseline, with both numbers.
      type: dict
      sample: {"prefill": {"baseline": 2, "live": 1}}
    user_config:
      description: The user config, secrets replaced by marks.
      type: dict
      sample: {}
    applied:
      description: The record of success (digests, counts, revision, when, by whom); empty when there is none.
      type: dict
      sample: {"revision": 3}
    damage:
      description: Why the user config of the baseline cannot be read; empty when it can.
      type: str
      sample: ""
    history:
      description: The last ten records of success, the newest first. O(ascend.mindie.motor_service#module:revision) goes back to one.
      type: list
      elements: dict
      contains:
        revision:
          description: Number of the record.
          type: int
          sample: 3
        at:
          description: When it was made (RFC 3339).
          type: str
          sample: "2026-08-01T09:30:00Z"
        by:
          description: By whom, as user and host.
          type: str
          sample: me@host
        why:
          description: The verb, and what it was for.
          type: str
          sample: "scale: record the counts prefill 4, decode 2"
        counts:
          description: Instances per engine role.
          type: dict
          sample: {"prefill": 4, "decode": 2}
changes:
  description: How the given user config differs from the baseline.
  returned: when a user config was given and a baseline exists
  type: dict
  contains:
    counts:
      description: Engine roles whose count differs, with the old and the new number.
      type: dict
      sample: {"prefill": [2, 4]}
    updatable:
      description: Paths that M(ascend.mindie.motor_config_baseline) may change.
      type: list
      elements: str
      sample: ["motor_controller_config.logging_config.log_level"]
    restart:
      description: Paths that pods read only when they start.
      type: list
      elements: str
      sample: ["motor_deploy_config.image_name"]
    not_allowed:
      description: Paths that would make another service of it.
      type: list
      elements: str
      sample: ["motor_deploy_config.deploy_mode"]

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

from ansible_collections.ascend.mindie.plugins.module_utils import _entry_given, _entry_module, _entry_observe
from ansible_collections.ascend.mindie.plugins.module_utils._cluster import history
from ansible_collections.ascend.mindie.plugins.module_utils._motor.report import baseline_report


def show(module: Any) -> dict[str, Any]:
    """Parse, observe, report."""
    given = _entry_given.given_config(module)
    service = _entry_observe.Observer(module, _entry_given.namespace_of(module, given), given, absent_ok=True)
    snapshot = service.observe()
    report = baseline_report(snapshot, given, history.revisions(service.api, service.namespace, module.warn))
    return {"changed": False, "requests": service.api.requests, **report}


def main() -> None:
    """Run the module."""
    _entry_module.run_module(
        _entry_given.CONFIG_SPEC,
        show,
        mutually_exclusive=[("user_config", "user_config_content")],
        required_one_of=[("namespace", "user_config", "user_config_content")],
    )


if __name__ == "__main__":
    main()
