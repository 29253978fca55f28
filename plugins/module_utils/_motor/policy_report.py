# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What there is to say of the autoscaling of a service: its policies, whether their metrics have values, what HPA would do now, and what is wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from . import hpa, owners, scaling_policy
from . import pods as pod_facts
from .instances import INFER_SERVICE_SET_NAME
from .load_metrics import find
from .ownership import MANAGED_BY, MANAGER
from .policy_words import NO_VALUE, NOTES, Problem, conditions, table
from .state import INFER_LABEL, Object, Snapshot, infer_roles, instance_pods, instance_set_of

GROUP, VERSION = "external.metrics.k8s.io", "v1beta1"
API_SERVICE = f"{VERSION}.{GROUP}"
MANAGED, EXISTING = "managed", "existing"
OURS, FOREIGN, NOBODY, UNKNOWN = "ours", "other", "nobody", "unknown"
FORBIDDEN = 403
# So much of a message of HPA, which has a selector of many lines before what matters.
_TAIL = 160
# What the adaptor says while it does not know enough yet. It passes by itself.
PASSING = frozenset({"NotYet", "Joining", "TooShort"})
_COUNTED = ("minReplicas", "maxReplicas", "metrics", "behavior")


@dataclass(frozen=True)
class Answer:
    """What the API of external metrics answered. `problem` says why there is no value; `status` is the HTTP status, if any; `cause` is the
    one word of the adaptor.
    """

    value: Fraction | None
    problem: str = ""
    status: int | None = None
    cause: str = ""


@dataclass(frozen=True)
class Provider:
    """Who serves external metrics. `allowed` is False when the APIService may not be read."""

    api_service: Object | None
    allowed: bool = True

    @property
    def whose(self) -> str:
        """`ours`, `other`, `nobody`, or `unknown`."""
        if not self.allowed:
            return UNKNOWN
        if self.api_service is None:
            return NOBODY
        labels = self.api_service["metadata"].get("labels") or {}
        return OURS if labels.get(MANAGED_BY) == MANAGER else FOREIGN

    @property
    def available(self) -> bool | None:
        """Whether the API server reaches it; None when that is not known."""
        if not self.allowed:
            return None
        condition = self._condition()
        return self.api_service is not None and (condition is None or condition.get("status") == "True")

    def to_dict(self) -> dict[str, Any]:
        """Plain data for results."""
        spec = ((self.api_service or {}).get("spec") or {}).get("service") or {}
        service = f"{spec['namespace']}/{spec['name']}" if spec.get("name") else ""
        message = str((self._condition() or {}).get("message") or "")
        return {"name": API_SERVICE, "whose": self.whose, "available": self.available, "service": service, "message": message}

    def _condition(self) -> Mapping[str, Any] | None:
        rows = ((self.api_service or {}).get("status") or {}).get("conditions") or ()
        return next((row for row in rows if row.get("type") == "Available"), None)


@dataclass(frozen=True)
class Subject:
    """The autoscaling of one engine role as it is in the cluster. `spec` is what decides now: that of the live autoscaler, else of the policy."""

    engine_role: str
    policy: Mapping[str, Any]
    scaler: Object | None
    instance_set: Object | None
    counts: hpa.Counts
    ready: int
    pods_per_instance: int = 1
    spec: Mapping[str, Any] = field(default_factory=dict)

    def targets(self) -> tuple[hpa.Target, ...]:
        """The metrics of the autoscaler, with the labels by which each is looked up."""
        return _autoscaler(self.spec).targets


def subjects(snapshot: Snapshot, given: Mapping[str, Mapping[str, Any]] | None = None) -> tuple[Subject, ...]:
    """The engine roles of the service that have a policy, of whatever type. `given` are policies to look at instead, by engine role."""
    roles = {str(role["name"]): role for role in infer_roles(snapshot)}
    policies = {name: scaling_policy.policy_of(role) for name, role in roles.items()} if given is None else given
    return tuple(_subject(snapshot, roles[name], policy, given is None) for name, policy in policies.items() if policy and name in roles)


def selector(engine_role: str, given: Mapping[str, str]) -> dict[str, str]:
    """The labels with which HPA looks a metric up: those that the Infer Operator adds, and those of the policy, which go before."""
    injected = {
        f"{INFER_LABEL}inferservice-name": f"{INFER_SERVICE_SET_NAME}-0",
        f"{INFER_LABEL}inferserviceset-name": INFER_SERVICE_SET_NAME,
        f"{INFER_LABEL}role-name": engine_role,
    }
    return {**injected, **given}


def report(
    snapshot: Snapshot,
    found: Sequence[Subject],
    answers: Mapping[tuple[str, str], Answer],
    provider: Provider,
    *,
    adaptor: str,
    knows_policies: bool | None = None,
    live: bool = True,
) -> dict[str, Any]:
    """The whole report. `answers` are by engine role and metric; `knows_policies`: whether the CRD has scalingPolicy (None: not asked);
    `live`: whether the policies are in the cluster, so that there are to be autoscalers.
    """
    problems = [*_service_problems(snapshot, found, knows_policies)]
    if found:
        problems.extend(_provider_problems(provider, adaptor))
    rows = []
    for subject in found:
        rows.append(_row(subject, answers))
        problems.extend(_subject_problems(subject, answers, rows[-1], live=live, served=provider.available is not False))
    said = [problem.to_dict() for problem in problems]
    working = bool(found) and not any(problem.problem not in NOTES for problem in problems)
    head = (_headline(snapshot.namespace, provider, working),)
    return {
        "namespace": snapshot.namespace,
        "works": working,
        "provider": provider.to_dict(),
        "engine_roles": rows,
        "problems": said,
        "table": table(rows, said, head),
    }


def evaluated(
    engine_role: str, spec: Mapping[str, Any], answers: Mapping[str, Answer], counts: hpa.Counts, past: hpa.Past
) -> dict[str, Any]:
    """What HPA would do by this spec with these numbers, in the form of a row of the report."""
    scaler = _autoscaler(spec)
    return {
        "engine_role": engine_role,
        "min": scaler.low,
        "max": scaler.high,
        "instances": counts.wanted,
        "ready": counts.there,
        "desired": None,
        "metrics": _metrics(scaler, answers),
        "conditions": [],
        "now": _now(scaler, answers, counts, past),
    }


def _headline(namespace: str, provider: Provider, working: bool) -> str:
    who = {OURS: "the adaptor", FOREIGN: "another provider", NOBODY: "nobody", UNKNOWN: "a provider"}[provider.whose]
    state = {True: "available", False: "not available", None: "not known whether available"}[provider.available]
    return f"Autoscaling of {namespace} {'works' if working else 'does not work'}; external metrics are served by {who} ({state})"


def _subject(snapshot: Snapshot, role: Object, policy: Mapping[str, Any], live: bool) -> Subject:
    name = str(role["name"])
    instance_set = instance_set_of(snapshot, name)
    scaler = _scaler(snapshot, instance_set) if live else None
    pods = [pod for (engine_role, dummy), found in instance_pods(snapshot).items() if engine_role == name for pod in found]
    ready = sum(_counts_as_ready(pod) for pod in pods)
    spec, status = (instance_set or {}).get("spec") or {}, (instance_set or {}).get("status") or {}
    counts = hpa.Counts(int(spec.get("replicas") or 0), int(status.get("replicas") or 0), ready if pods else None)
    decides = scaler["spec"] if scaler else policy.get("spec") or {}
    per_instance = int((role.get("spec") or {}).get("replicas") or 1)
    return Subject(name, policy, scaler, instance_set, counts, int(status.get("readyReplicas") or 0), per_instance, decides)


def _scaler(snapshot: Snapshot, instance_set: Object | None) -> Object | None:
    name = instance_set["metadata"]["name"] if instance_set else ""
    return next((scaler for scaler in snapshot.autoscalers if owners.target_of(scaler) == (owners.INSTANCE_SET, name)), None)


def _counts_as_ready(pod: Object) -> bool:
    """As HPA counts them: running and ready, those that are stopping included."""
    return (pod.get("status") or {}).get("phase") == "Running" and pod_facts.is_ready(pod)


def _autoscaler(spec: Mapping[str, Any]) -> hpa.Autoscaler:
    try:
        return hpa.autoscaler(spec)
    except (KeyError, TypeError, ValueError, AttributeError):  # somebody wrote a policy by hand that the server would refuse
        return hpa.Autoscaler(0, 0, ())


def _metrics(scaler: hpa.Autoscaler, answers: Mapping[str, Answer]) -> list[dict[str, Any]]:
    found = []
    for target in scaler.targets:
        answer = answers.get(target.metric) or Answer(None, target.unsupported or "it was not looked at")
        found.append(
            {
                "name": target.metric,
                "target": hpa.shown(target.amount),
                "target_type": target.kind,
                "value": None if answer.value is None else float(answer.value),
                "problem": "" if answer.value is not None else answer.problem,
            }
        )
    return found


def _now(scaler: hpa.Autoscaler, answers: Mapping[str, Answer], counts: hpa.Counts, past: hpa.Past) -> dict[str, Any]:
    given = [answers.get(target.metric) or Answer(None, "it was not looked at") for target in scaler.targets]
    readings = [hpa.Reading(answer.value, answer.problem) for answer in given]
    decision = hpa.decide(scaler, readings, counts, past)
    words = decision.words
    window = scaler.scale_in.window if scaler.scale_in else hpa.SCALE_IN_WINDOW
    if decision.reason == hpa.SCALED_IN and window:
        words = f"{words}; it scales in when nothing more was wanted for {window} s"
    proposals = [{"metric": p.metric, "count": p.count, "ratio": _plain(p.ratio), "words": p.words} for p in decision.proposals]
    return {"count": decision.count, "computed": decision.computed, "reason": decision.reason, "words": words, "proposals": proposals}


def _plain(ratio: float | None) -> float | None:
    """JSON has neither infinities nor NaN."""
    return round(ratio, 6) if ratio is not None and math.isfinite(ratio) else None


def _row(subject: Subject, answers: Mapping[tuple[str, str], Answer]) -> dict[str, Any]:
    own = {metric: answer for (role, metric), answer in answers.items() if role == subject.engine_role}
    row = evaluated(subject.engine_role, subject.spec, own, subject.counts, hpa.Past())
    status = (subject.scaler or {}).get("status") or {}
    limits = scaling_policy.limits(subject.policy) or (None, None)
    return {
        **row,
        "min": limits[0],
        "max": limits[1],
        "ready": subject.ready,
        # It is 0 until HPA has computed something for the first time.
        "desired": status.get("desiredReplicas") or None,
        "autoscaler": subject.scaler["metadata"]["name"] if subject.scaler else "",
        "last_scaled": str(status.get("lastScaleTime") or ""),
        "conditions": conditions(subject.scaler),
        "now": row["now"] if _reads(subject.spec) else None,
    }


def _reads(spec: Mapping[str, Any]) -> bool:
    """Whether the formula can be evaluated at all."""
    return _autoscaler(spec).high > 0


def _service_problems(snapshot: Snapshot, found: Sequence[Subject], knows_policies: bool | None) -> Iterator[Problem]:
    if snapshot.config_map is None and snapshot.infer_service_set is None:
        yield Problem("NotDeployed", f"namespace {snapshot.namespace} has no service")
    elif snapshot.infer_service_set is None:
        yield Problem("WrongBackend", f"the service in {snapshot.namespace} has no InferServiceSet")
    elif not found:
        yield Problem("NoPolicy", f"no engine role of the service in {snapshot.namespace} has a scaling policy")
    if knows_policies is False:
        yield Problem("PolicyUnknown", "the cluster does not know scalingPolicy, and drops it silently")


def _provider_problems(provider: Provider, adaptor: str) -> Iterator[Problem]:
    if provider.whose == NOBODY:
        yield Problem("NoApiService", f"there is no APIService {API_SERVICE}: no autoscaler of external metrics can work in this cluster")
    elif provider.available is False:
        yield Problem("ApiServiceUnavailable", f"APIService {API_SERVICE}: {provider.to_dict()['message'] or 'it is not available'}")
    if provider.whose == FOREIGN and adaptor == MANAGED:
        yield Problem("NotOurs", f"APIService {API_SERVICE} belongs to {provider.to_dict()['service'] or 'somebody else'}")


def _subject_problems(
    subject: Subject, answers: Mapping[tuple[str, str], Answer], row: Mapping[str, Any], *, live: bool, served: bool
) -> Iterator[Problem]:
    """`served`: whether somebody may serve metrics. Where nobody does, each of them has no value for that reason, which is told already."""
    role = subject.engine_role
    if subject.policy.get("type") != owners.POLICY_TYPE:
        yield Problem("WrongType", f"the policy has type {subject.policy.get('type') or 'none'}, which the operator does not know", role)
        return
    if scaling_policy.is_frozen(subject.policy):
        yield Problem("BeingSwitchedOff", "the policy is frozen: the count stays as it is", role)
        return
    if live:
        told = [answer for (engine_role, dummy), answer in answers.items() if engine_role == role and answer.problem]
        valued = not told and all((role, target.metric) in answers for target in subject.targets())
        yield from _scaler_problems(subject, row, reasons_known=any(answer.status != FORBIDDEN for answer in told), valued=valued)
    for target in subject.targets():
        yield from _target_problems(role, target, several=subject.pods_per_instance > 1)
        if served:
            yield from _answer_problems(role, target, answers.get((role, target.metric)))


def _scaler_problems(subject: Subject, row: Mapping[str, Any], *, reasons_known: bool, valued: bool) -> Iterator[Problem]:
    """`reasons_known`: the answer for a metric says itself why there is no value; `valued`: there are values of all metrics."""
    role, status = subject.engine_role, (subject.instance_set or {}).get("status") or {}
    told = str((status.get("scalingResourceStatus") or {}).get("message") or "")
    if subject.scaler is None:
        yield Problem("NoAutoscaler", told or "there is no HorizontalPodAutoscaler for the policy", role)
        return
    if not _taken_over(subject):
        yield Problem(
            "StaleAutoscaler", f"{subject.scaler['metadata']['name']} is not as the policy says" + (f": {told}" if told else ""), role
        )
    low, high = row["min"], row["max"]
    if low is not None and high is not None and not low <= subject.counts.wanted <= high:
        yield Problem("OutsideLimits", f"{subject.counts.wanted} instances are not within {low} and {high}", role)
    if not row["conditions"]:
        yield Problem("NotLookedAt", f"HPA has not looked at {subject.scaler['metadata']['name']} yet", role)
    for condition in row["conditions"]:
        if condition["reason"] == "TooManyReplicas" and not condition["good"]:
            yield Problem("AtMaximum", f"more than {high} instances are wanted", role)
        elif not condition["good"] and condition["reason"] == NO_VALUE and valued:
            # At its last look there was none. Should that be true at the next one, too, HPA is told something else, and why is at the end.
            yield Problem("NotLookedAt", f"HPA has not seen yet that each metric has a value: ...{condition['message'][-_TAIL:]}", role)
        elif not condition["good"] and condition["type"] != "ScalingLimited" and not (condition["reason"] == NO_VALUE and reasons_known):
            yield Problem("ConditionFalse", f"{condition['type']}: {condition['words']}", role)


def _taken_over(subject: Subject) -> bool:
    """Whether the live autoscaler says what the policy says; the server adds defaults and the operator adds labels."""
    wanted, live = subject.policy.get("spec") or {}, (subject.scaler or {}).get("spec") or {}
    if any(key in wanted and wanted[key] != live.get(key) for key in _COUNTED[:2]):
        return False
    one, other = _autoscaler(wanted), _autoscaler(live)
    return [(t.metric, t.kind, t.amount) for t in one.targets] == [(t.metric, t.kind, t.amount) for t in other.targets]


def _target_problems(role: str, target: hpa.Target, *, several: bool) -> Iterator[Problem]:
    metric = find(target.metric)
    if metric is not None and target.kind and metric.target_type != target.kind:
        wrong = f"{target.metric} is {'a total' if metric.target_type == hpa.AVERAGE_VALUE else 'a mean'}, and is compared as {target.kind}"
        yield Problem("WrongTarget", wrong, role, target.metric)
    if target.kind == hpa.VALUE and several:
        yield Problem("PodsNotInstances", "its target type is Value, and the instances have several pods each", role, target.metric)


def _answer_problems(role: str, target: hpa.Target, answer: Answer | None) -> Iterator[Problem]:
    if answer is None or answer.value is not None:
        return
    kind = {404: "MetricUnknown", FORBIDDEN: "NotAllowed"}.get(answer.status or 0, "MetricUnreadable")
    kind = "NotKnownYet" if answer.cause in PASSING else kind
    yield Problem(kind, answer.problem, role, target.metric)
