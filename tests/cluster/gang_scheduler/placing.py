# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which node suits a pod. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from ..kube_client import Obj
from . import resources
from .resources import NPU, Amounts

_BLOCKING = ("NoSchedule", "NoExecute")


def objection(pod: Obj, node: Obj, free: Mapping[str, Fraction], wanted: Amounts) -> str:
    """Why a pod cannot go to a node, as schedulers say it; empty when it can."""
    if node["spec"].get("unschedulable"):
        return "node(s) were unschedulable"
    for taint in node["spec"].get("taints") or ():
        if taint["effect"] in _BLOCKING and not any(_tolerates(row, taint) for row in pod["spec"].get("tolerations") or ()):
            return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
    labels = node["metadata"].get("labels") or {}
    selector = pod["spec"].get("nodeSelector") or {}
    if not selector.items() <= labels.items() or not _fits_affinity(pod, labels):
        return "node(s) didn't match Pod's node affinity/selector"
    missing = resources.short_of(wanted, free)
    return f"Insufficient {missing[0]}" if missing else ""


def choose(pod: Obj, nodes: Mapping[str, Obj], free: Mapping[str, Amounts]) -> tuple[str, str]:
    """The node that a pod goes to, or an empty name and why there is none.

    Of the nodes that suit, it is the first of those with the fewest NPUs left, so that nodes fill up one after the other.
    """
    wanted = resources.of_pod(pod)
    wanted = {name: value for name, value in wanted.items() if value}
    reasons: dict[str, int] = {}
    best: tuple[Fraction, int, str] | None = None
    for order, (name, node) in enumerate(nodes.items()):
        reason = objection(pod, node, free[name], wanted)
        if reason:
            reasons[reason] = reasons.get(reason, 0) + 1
            continue
        rank = (free[name].get(NPU, Fraction(0)), order, name)
        best = rank if best is None else min(best, rank)
    if best:
        return best[2], ""
    told = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    return "", f"0/{len(nodes)} nodes are available: {told}."


def _tolerates(toleration: Obj, taint: Obj) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return bool(toleration.get("key") == taint["key"] and toleration.get("value", "") == taint.get("value", ""))


def _fits_affinity(pod: Obj, labels: Mapping[str, str]) -> bool:
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    return any(all(_matches(row, labels) for row in term.get("matchExpressions") or ()) for term in required["nodeSelectorTerms"])


def _matches(expression: Obj, labels: Mapping[str, str]) -> bool:
    value, operator, values = labels.get(expression["key"]), expression["operator"], expression.get("values") or []
    if operator in ("Exists", "DoesNotExist"):
        return bool((value is not None) == (operator == "Exists"))
    if operator in ("In", "NotIn"):
        return bool((value in values) == (operator == "In"))
    if value is None:
        return False
    return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])
