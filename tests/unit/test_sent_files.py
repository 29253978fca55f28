# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every file that a module imports is read, sent and compiled for each task: what the two modules that run most often need is listed here.

A file that is missing here costs each run about as much as it has lines: does the module need it, or only something that lies next to what
it needs?
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.tools.environment import COLLECTIONS

PREFIX = "ansible_collections.ascend.mindie.plugins."

LOOKING_AT_A_SERVICE = {
    "": "_entry_module _entry_observe",
    "_cluster.": "api connection fence module observe retry transport",
    "_motor.": """
        config_rules config_warnings digests drift errors fields guard hardware instances job_facts job_settings
        json_reader kinds owners ownership pods rank_tables record rule_reader scaling_rule siblings sizes state
        storage_rules stored user_config workloads
    """,
}
CHANGING_ITS_COUNTS = {
    "": "_entry _entry_given _inputs",
    "_cluster.": "aside diagnosis execute history idle lock progress signals steps waiting watch writes",
    "_motor.": """
        ascend_jobs baseline choice compare counts deployments drain events faults generation history idle
        infer_service_set plan plan_remove plan_rollback plan_scale readiness report rule_object rule_resize secrets
        shell_environment terminal timeline
    """,
}


def names(*groups: dict[str, str]) -> set[str]:
    return {f"{package}{name}" for group in groups for package, found in group.items() for name in found.split()}


def imported(module: str) -> set[str]:
    """What is there after nothing but this module was imported; packages are left out."""
    code = (
        f"import json, sys, {PREFIX}modules.{module}; print(json.dumps([n for n, m in sys.modules.items() if not hasattr(m, '__path__')]))"
    )
    settings = {**os.environ, "PYTHONPATH": str(COLLECTIONS)}
    done = subprocess.run([sys.executable, "-c", code], env=settings, capture_output=True, text=True, check=True)
    utils = f"{PREFIX}module_utils."
    return {name.removeprefix(utils) for name in json.loads(done.stdout) if name.startswith(utils)}


def test_looking_at_a_service_needs_nothing_that_changes_one() -> None:
    assert imported("motor_service_info") == names(LOOKING_AT_A_SERVICE)


def test_scaling_needs_nothing_that_renders_deploys_or_reads_releases() -> None:
    assert imported("motor_instance_scale") == names(LOOKING_AT_A_SERVICE, CHANGING_ITS_COUNTS)
