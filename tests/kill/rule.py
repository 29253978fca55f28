# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The live scaling rule, checked as `motor_scaling_rule_info` checks it, at any moment of a change."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.ascend.mindie.plugins.module_utils._motor.findings import ERROR, NOTE
from ansible_collections.ascend.mindie.plugins.module_utils._motor.job_facts import BACKEND, RULE_LABEL
from ansible_collections.ascend.mindie.plugins.module_utils._motor.job_settings import DEFAULTS
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_cluster import live_findings, servers
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_lint import lint_data
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot
from tests.cluster.ascend_operator.objects import ASCEND_JOBS, POD_GROUPS
from tests.cluster.kube_client import CONFIG_MAPS, PODS, KubeClient

from .picture import LEASES

NAME = DEFAULTS.scaling_rule
SMALLER = "R624"


@dataclass(frozen=True)
class Checked:
    """`linted`: there was a rule. `smaller`: it asked for fewer instances than ran. No problem means that it is as it has to be."""

    problems: tuple[str, ...] = ()
    linted: bool = False
    smaller: bool = False


def check(client: KubeClient, namespace: str, *, done: bool) -> Checked:
    """At no moment an error, and a rule smaller than what runs only while a change is open; when all is `done`, not even a warning."""
    # Jobs come first: what is listed later may be newer, and a rule or a rank table is there before its job.
    jobs = tuple(client.list(ASCEND_JOBS, namespace)["items"])
    config_maps = {item["metadata"]["name"]: item for item in client.list(CONFIG_MAPS, namespace)["items"]}
    rule = config_maps.get(NAME)
    if rule is None:
        named = [job["metadata"]["name"] for job in jobs if RULE_LABEL in job["metadata"]["labels"]]
        return Checked((f"there is no scaling rule, but {', '.join(named)}",) if named else ())
    snapshot = Snapshot(
        namespace,
        BACKEND,
        DEFAULTS.name_prefix,
        config_map=config_maps.get("motor-config"),
        lease=client.get(LEASES, namespace, "ascend-mindie"),
        pods=tuple(client.list(PODS, namespace)["items"]),
        others={("ConfigMap", name): item for name, item in config_maps.items()},
        jobs=jobs,
        pod_groups=tuple(client.list(POD_GROUPS, namespace)["items"]),
        rule=rule,
    )
    lint = lint_data(rule.get("data") or {}, source=f"ConfigMap {NAME}")
    findings = (*lint.findings, *live_findings(snapshot, NAME, lint.reading, servers(snapshot, NAME)))
    grave = [one for one in findings if one.severity == ERROR or (one.severity != NOTE and (done or one.code == SMALLER))]
    problems = tuple(f"scaling rule: {one.code} {one.severity}: {one.message}" for one in grave)
    return Checked(problems, True, any(one.code == SMALLER for one in findings))
