# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The API `external.metrics.k8s.io/v1beta1`: what is answered to which request, in the form that Kubernetes expects.

Each engine role of each service is one series, with the labels that the Infer Operator puts into the selectors of its autoscalers. HPA
adds up all that it gets, so that an answer has one series, or is an error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import parse_qs, unquote, urlsplit

from ansible_collections.ascend.mindie.plugins.module_utils._cluster.program_shell import rfc3339
from ansible_collections.ascend.mindie.plugins.module_utils._motor import load_metrics
from ansible_collections.ascend.mindie.plugins.module_utils._motor.load import Found, NoValue

from . import label_selector
from .book import ROLE_LABEL, SERVICE_LABEL
from .label_selector import BadSelector, Requirement

GROUP, VERSION = "external.metrics.k8s.io", "v1beta1"
KIND = "ExternalMetricValueList"
ROOT = f"/apis/{GROUP}/{VERSION}"
# What is asked for, for counting: discovery, a value, or something that is not there.
DISCOVERY, VALUE, OTHER = "discovery", "value", "other"
# So many names are listed in an error.
MOST_NAMED = 20

_REASONS = {
    HTTPStatus.BAD_REQUEST: "BadRequest",
    HTTPStatus.UNAUTHORIZED: "Unauthorized",
    HTTPStatus.FORBIDDEN: "Forbidden",
    HTTPStatus.NOT_FOUND: "NotFound",
    HTTPStatus.METHOD_NOT_ALLOWED: "MethodNotAllowed",
    HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailable",
}


class Loads(Protocol):
    """Where values come from."""

    def series(self, namespace: str) -> Sequence[Mapping[str, str]]:
        """The labels of every engine role of every service in a namespace. Raises NoValue as long as that is not known."""

    def value(self, namespace: str, labels: Mapping[str, str], metric: str) -> Found:
        """The value of one of them, `at` a time of day in seconds since the epoch. Raises NoValue."""


@dataclass(frozen=True)
class Reply:
    """An answer: status, the object, what was asked for, and for a value that there is not, why, in one word."""

    status: int
    body: Mapping[str, Any]
    asked: str = OTHER
    reason: str = ""


class _Refusal(Exception):
    def __init__(self, status: HTTPStatus, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.status, self.message, self.reason = status, message, reason


def reply(target: str, loads: Loads) -> Reply:
    """The answer to a GET."""
    parts = urlsplit(target)
    known = _DISCOVERY.get(parts.path.rstrip("/"))
    if known is not None:
        return Reply(HTTPStatus.OK, known, DISCOVERY)
    words = parts.path.removeprefix(f"{ROOT}/").split("/")
    if not parts.path.startswith(f"{ROOT}/") or len(words) != 3 or words[0] != "namespaces" or not all(words):
        return Reply(HTTPStatus.NOT_FOUND, status(HTTPStatus.NOT_FOUND, f"the server could not find {parts.path}"))
    try:
        items = _items(unquote(words[1]), unquote(words[2]), parse_qs(parts.query, keep_blank_values=True), loads)
    except _Refusal as refusal:
        return Reply(refusal.status, status(refusal.status, refusal.message, refusal.reason), VALUE, refusal.reason)
    return Reply(HTTPStatus.OK, {"kind": KIND, "apiVersion": f"{GROUP}/{VERSION}", "metadata": {}, "items": items}, VALUE)


def status(code: int, message: str, reason: str = "") -> dict[str, Any]:
    """An error as Kubernetes writes it. `reason` is one word of ours, for programs."""
    found = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "code": int(code)}
    found["reason"] = _REASONS.get(HTTPStatus(code), "InternalError")
    if reason:
        found["details"] = {"causes": [{"reason": reason, "message": message}]}
    return found


def quantity(value: float) -> str:
    """A value as Kubernetes reads it, to the thousandth, what is left rounded up as Kubernetes does: `12`, `800m`, `1m`."""
    thousandths = math.ceil(round(value * 1000, 6))
    return str(thousandths // 1000) if thousandths % 1000 == 0 else f"{thousandths}m"


def _items(namespace: str, name: str, query: Mapping[str, Sequence[str]], loads: Loads) -> list[dict[str, Any]]:
    if query.get("watch", ["false"])[-1] not in ("false", "0", ""):
        raise _Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "values cannot be watched: read them")
    selector = _selector(query.get("labelSelector", [""]))
    metric = load_metrics.find(name)
    if metric is None:
        raise _Refusal(HTTPStatus.NOT_FOUND, _unknown_metric(name), "UnknownMetric")
    who = "anything"
    try:
        labels = _chosen(namespace, selector, loads.series(namespace))
        who = _name(labels)
        found = loads.value(namespace, labels, metric.name)
    except NoValue as error:
        message = f"no value of {metric.name} for {who} in namespace {namespace[:100]}: {error.message}"
        raise _Refusal(HTTPStatus.SERVICE_UNAVAILABLE, message, error.reason) from error
    return [{"metricName": name, "metricLabels": dict(labels), "timestamp": rfc3339(found.at), "value": quantity(found.value)}]


def _selector(given: Sequence[str]) -> tuple[Requirement, ...]:
    try:
        return tuple(requirement for text in given for requirement in label_selector.read(text))
    except BadSelector as error:
        raise _Refusal(HTTPStatus.BAD_REQUEST, f"labelSelector is no label selector: {error}", "BadSelector") from error


def _unknown_metric(name: str) -> str:
    like = load_metrics.suggestions(name)
    names = f"did you mean {', '.join(like)}?" if like else f"there are {', '.join(sorted(load_metrics.METRICS))}"
    return f"the adaptor has no metric {name[:100]!r}; {names}"


def _chosen(namespace: str, selector: tuple[Requirement, ...], there: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
    """The one series that is meant."""
    chosen = [labels for labels in there if label_selector.matches(selector, labels)]
    if len(chosen) > 1:
        wrong = f"labelSelector fits {_named(chosen)}: HPA would add them up, so name one, by {', '.join(chosen[0])}"
        raise _Refusal(HTTPStatus.BAD_REQUEST, wrong, "BadSelector")
    if not chosen:
        known = f"it has {_named(there)}" if there else "it has none, or the adaptor does not look into it"
        wrong = f"no service in namespace {namespace[:100]!r} has an engine role with these labels; {known}"
        raise _Refusal(HTTPStatus.NOT_FOUND, wrong, "UnknownService")
    return chosen[0]


def _named(series: Sequence[Mapping[str, str]]) -> str:
    names = [_name(labels) for labels in series[:MOST_NAMED]]
    more = len(series) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _name(labels: Mapping[str, str]) -> str:
    return f"{labels[ROLE_LABEL]} of {labels[SERVICE_LABEL]}"


def _group() -> dict[str, Any]:
    version = {"groupVersion": f"{GROUP}/{VERSION}", "version": VERSION}
    return {"name": GROUP, "versions": [version], "preferredVersion": version}


def _resources() -> dict[str, Any]:
    rows = [{"name": name, "singularName": "", "namespaced": True, "kind": KIND, "verbs": ["get"]} for name in sorted(load_metrics.METRICS)]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{GROUP}/{VERSION}", "resources": rows}


_DISCOVERY: Mapping[str, Mapping[str, Any]] = {
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group()]},
    f"/apis/{GROUP}": {"kind": "APIGroup", "apiVersion": "v1", **_group()},
    ROOT: _resources(),
}
