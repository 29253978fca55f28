# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the scaling rule says of a job whose pods are missing. How a rule is read and decided is the collection's own code,
which agrees with all that was recorded of the operator's."""

from __future__ import annotations

from ansible_collections.ascend.mindie.plugins.module_utils._motor import rule_reader, scaling_rule

from ..kube_client import CONFIG_MAPS, Informer, KubeClient, Obj
from . import objects


class Crash(Exception):
    """The operator looks up a group that the tier does not have, and dies of it."""


class Gate:
    """Asks the rule anew each time."""

    def __init__(self, client: KubeClient, pod_groups: Informer) -> None:
        self._client = client
        self._pod_groups = pod_groups

    def refusal(self, job: Obj) -> str:
        """Why the job may not create pods (for the log alone), or an empty text. Raises Crash."""
        labels, namespace = objects.labels_of(job), job["metadata"]["namespace"]
        rule = labels.get(objects.RULE)
        if rule is None:
            return ""
        found = self._client.get(CONFIG_MAPS, namespace, rule)
        if found is None:
            return f'get scaling rule failed: configmaps "{rule}" not found'
        try:
            reading = rule_reader.read_data(found.get("data") or {}, source=f"ConfigMap {namespace}/{rule}")
        except rule_reader.RuleError as error:
            return f"get scaling rule failed: {error}"
        running: dict[str, int] = {}
        for group in self._siblings(namespace, rule, labels[objects.JOB_ID]):
            name = objects.labels_of(group).get(objects.RULE_GROUP)
            if name is None:
                return f"pod group {group['metadata']['name']} has no group name"
            if (group.get("status") or {}).get("phase") == "Running":
                running[name] = running.get(name, 0) + 1
        decision = scaling_rule.decide(reading.tiers, running, labels[objects.RULE_GROUP])
        if decision.crashes:
            raise Crash(decision.why)
        return "" if decision.create else f"current state {running}: {decision.why}"

    def _siblings(self, namespace: str, rule: str, job_id: str) -> list[Obj]:
        wanted = {objects.RULE: rule, objects.JOB_ID: job_id}.items()
        return [
            row
            for row in self._pod_groups.items()
            if row["metadata"]["namespace"] == namespace and wanted <= objects.labels_of(row).items()
        ]
