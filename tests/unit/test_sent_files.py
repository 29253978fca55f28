# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every file that a module imports is read, sent and compiled for each task: what the two modules that run most often need is listed here.

A file that is missing here costs each run about as much as it has lines: does the module need it, or only something that lies next to what
it needs?
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.tools.environment import ROOT

PLUGINS = ROOT / "plugins"
OURS = "ansible_collections.ascend.mindie.plugins."

# What both need.
SEEING = {
    "": "_entry_module _entry_observe",
    "_cluster.": "api connection fence module observe retry transport",
    "_motor.": """
        config_rules config_warnings digests drift errors fields guard hardware instances job_facts job_settings
        json_reader kinds owners ownership pods rank_tables record remembered rule_object rule_reader scaling_rule siblings sizes
        snapshot state storage_rules stored user_config workloads
    """,
}
EXPLAINING = {
    "": "_entry_info",
    "_cluster.": "servers",
    "_motor.": """
        capacity capacity_failures capacity_growth capacity_model capacity_room findings overview overview_details
        overview_tasks rule_cluster rule_codes rule_jobs rule_keys rule_lint rule_live rule_relaxed servers shortage
    """,
}
CHANGING = {
    "": "_entry _entry_given _inputs",
    "_cluster.": "aside diagnosis execute history idle lock progress signals steps waiting watch writes",
    "_motor.": """
        ascend_jobs baseline choice compare coordinator counts deployments drain events exposition faults generation history idle
        infer_service_set plan plan_remove plan_rollback plan_scale readiness report rule_resize secrets
        shell_environment terminal timeline
    """,
}


def names(*groups: dict[str, str]) -> set[str]:
    return {f"{package}{name}" for group in groups for package, found in group.items() for name in found.split()}


def sent_with(module: str) -> set[str]:
    """Our files that are sent with a module: what it imports, what that imports, and so on, be it only when a function is called."""
    found: set[Path] = set()
    left = [PLUGINS / "modules" / f"{module}.py"]
    while left:
        path = left.pop()
        new = set(imported(path)) - found
        found |= new
        left.extend(new)
    return {".".join(path.relative_to(PLUGINS / "module_utils").with_suffix("").parts) for path in found}


def imported(path: Path) -> Iterator[Path]:
    """The files of ours that one file names in its imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or not (node.level or str(node.module).startswith(OURS)):
            continue
        folder = path.parents[node.level - 1] if node.level else PLUGINS
        package = folder.joinpath(*str(node.module or "").removeprefix(OURS).split("."))
        names = {package.with_suffix(".py"), *(package / f"{alias.name}.py" for alias in node.names)}
        yield from (file for file in names if file.is_file())


def test_looking_at_a_service_needs_nothing_that_changes_one() -> None:
    assert sent_with("motor_service_info") == names(SEEING, EXPLAINING)


def test_scaling_needs_nothing_that_renders_deploys_or_explains() -> None:
    assert sent_with("motor_instance_scale") == names(SEEING, CHANGING)
