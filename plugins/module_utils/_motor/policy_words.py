# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Autoscaling in words: what conditions of a HorizontalPodAutoscaler mean, what is to be done about problems, and the table that people read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Problem:
    """Why autoscaling does not work, or not as meant. `problem` is one word of `REMEDIES`."""

    problem: str
    message: str
    engine_role: str = ""
    metric: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As a module returns it."""
        return {**asdict(self), "remedy": REMEDIES[self.problem]}


# Each word and what to do.
REMEDIES: Mapping[str, str] = {
    "NotDeployed": "Deploy the service first.",
    "WrongBackend": "Only services of deploy mode infer_service_set can be autoscaled; scale others with motor_instance_scale.",
    "NoPolicy": "Set policies: mindie_scaling_policies and the playbook ascend.mindie.autoscale, or module motor_scaling_policy.",
    "PolicyUnknown": "The custom resource definition of InferServiceSets has no scalingPolicy: install MindCluster 26.1 or later.",
    "WrongType": "Only type HPA is known to the Infer Operator: set the policy again with motor_scaling_policy.",
    "BeingSwitchedOff": "Switching this policy off was interrupted: run motor_scaling_policy with state absent again.",
    "NoAutoscaler": "The Infer Operator makes it: look at its log, at the Events of the InstanceSet, and whether its version is 26.1 or later.",
    "StaleAutoscaler": "The Infer Operator did not take the policy over: look at the Events of the InstanceSet, and set the policy again.",
    "NotLookedAt": "Wait for HPA's next look (15 seconds by default). If it stays so, see whether kube-controller-manager runs.",
    "OutsideLimits": "Nothing is to be done: the autoscaler goes to its limits by itself.",
    "NoApiService": "Install the adaptor (playbook ascend.mindie.adaptor), or another provider of external.metrics.k8s.io.",
    "ApiServiceUnavailable": "Look at the pods of the adaptor and their log, and whether the API server may reach their port 8443 (network policies, "
    "firewalls). No metric has a value until then, and no namespace can be deleted.",
    "NotOurs": "Remove the other provider, or use it: mindie_adaptor=existing, which leaves its APIService alone.",
    "MetricUnknown": "Write a metric that the adaptor has (docs/autoscaling.md), or look at what the other provider is configured to serve.",
    "MetricUnreadable": "Mend what the message says. Until then nothing is scaled in.",
    "NotKnownYet": "Wait: it passes by itself, within a minute with the default settings. Until then nothing is scaled in.",
    "NotAllowed": "Give this user the right to get the resource in question in external.metrics.k8s.io (docs/rbac.md).",
    "WrongTarget": "Give totals the target type AverageValue, and ratios and latencies the target type Value.",
    "PodsNotInstances": "HPA counts pods: use a metric with a target AverageValue, such as kv_cache_usage_perc_sum, for instances of several pods.",
    "ConditionFalse": "Mend what the message says.",
    "AtMaximum": "Raise the maximum of the policy, if the cluster has room, or live with the load.",
}

# Problems that stop autoscaling from working; the others are only worth knowing.
NOTES = frozenset({"OutsideLimits", "AtMaximum", "NotAllowed"})

# Why a condition says that a metric has no value.
NO_VALUE = "FailedGetExternalMetric"

_CONDITIONS: Mapping[tuple[str, str], str] = {
    ("SucceededGetScale", "True"): "it knows the count",
    ("SucceededRescale", "True"): "it has just changed the count",
    ("ReadyForNewScale", "True"): "it can change the count at any time",
    ("ScaleDownStabilized", "True"): "more was wanted within the stabilisation window: it does not scale in yet",
    ("ScaleUpStabilized", "True"): "less was wanted within the stabilisation window: it does not scale out yet",
    ("ValidMetricFound", "True"): "it computes with metrics that have values",
    ("DesiredWithinRange", "False"): "what it computes is within the limits",
    ("TooManyReplicas", "True"): "it would have more than the maximum",
    ("TooFewReplicas", "True"): "it would have less than the minimum",
    ("ScaleUpLimit", "True"): "the steps of scaling out hold it back",
    ("ScaleDownLimit", "True"): "the steps of scaling in hold it back",
    ("ScalingDisabled", "False"): "the count is 0, so that it does nothing",
    (NO_VALUE, "False"): "a metric has no value: nothing is scaled in, and nothing out by that metric",
    ("FailedGetScale", "False"): "it cannot read the count",
    ("FailedUpdateScale", "False"): "it cannot set the count",
    ("AmbiguousSelector", "False"): "another autoscaler scales the same pods",
}
# Types whose False is bad; ScalingLimited is the other way round.
_GOOD_WHEN_TRUE = frozenset({"AbleToScale", "ScalingActive"})


def conditions(autoscaler: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The conditions of a HorizontalPodAutoscaler, each with `good` and its meaning in `words`."""
    found = ((autoscaler or {}).get("status") or {}).get("conditions") or ()
    return [_condition(row) for row in found]


def _condition(row: Mapping[str, Any]) -> dict[str, Any]:
    kind, status, reason, message = (str(row.get(key) or "") for key in ("type", "status", "reason", "message"))
    good = (status == "True") == (kind in _GOOD_WHEN_TRUE)
    words = _CONDITIONS.get((reason, status), "")
    # Which metric that is, and why, is told with the metrics; the message has it amid a selector of many lines.
    if not good and kind in _GOOD_WHEN_TRUE and reason != NO_VALUE:
        words = f"{words}: {message}" if words else message
    since = str(row.get("lastTransitionTime") or "")
    return {"type": kind, "status": status, "reason": reason, "message": message, "words": words or message, "good": good, "since": since}


_HEAD = ("engine role", "metric", "value", "target", "proposes")


def table(engine_roles: Sequence[Mapping[str, Any]], problems: Iterable[Mapping[str, Any]], head: Iterable[str] = ()) -> list[str]:
    """The report as lines of text: each metric in a row, what HPA would do now, and what does not work."""
    rows = [_HEAD, *(row for item in engine_roles for row in _rows(item))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [*head, ""]
    if len(rows) > 1:
        lines.extend("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows)
        lines.insert(len(lines) - len(rows) + 1, "  ".join("-" * width for width in widths))
    for item in engine_roles:
        lines.extend(("", *_summary(item)))
    by_remedy: dict[str, list[str]] = {}
    for problem in problems:
        where = " ".join(text for text in (problem["engine_role"], problem["metric"]) if text)
        by_remedy.setdefault(problem["remedy"], []).append(f"{problem['problem']}{f' ({where})' if where else ''}: {problem['message']}")
    for remedy, said in by_remedy.items():
        lines.extend(("", *said, f"  {remedy}"))
    return lines


def _rows(item: Mapping[str, Any]) -> list[tuple[str, ...]]:
    by_metric = {proposal["metric"]: proposal for proposal in (item["now"] or {}).get("proposals") or ()}
    found: list[tuple[str, ...]] = []
    for metric in item["metrics"]:
        proposes = (by_metric.get(metric["name"]) or {}).get("count")
        shown = "-" if metric["value"] is None else f"{metric['value']:.6g}"
        target = f"{metric['target']} {metric['target_type']}".strip()
        found.append((item["engine_role"], metric["name"], shown, target, "-" if proposes is None else str(proposes)))
    return found


def _summary(item: Mapping[str, Any]) -> list[str]:
    counts = f"{item['engine_role']}: {item['ready']} of {item['instances']} instances ready, limits {item['min']} to {item['max']}"
    undecided = ", HPA has not decided anything yet" if item["conditions"] else ""
    lines = [f"{counts}{undecided}" if item["desired"] is None else f"{counts}, HPA wants {item['desired']}"]
    if item["now"]:
        lines.append(f"  now: {item['now']['count']} ({item['now']['words']})")
    lines.extend(f"  {row['type']} {row['status']}: {row['words']}" for row in item["conditions"])
    return lines
