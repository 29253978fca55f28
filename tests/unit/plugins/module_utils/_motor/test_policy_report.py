# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is told of the autoscaling of a service: each problem by its word, with a remedy, and nothing where all is well."""

from __future__ import annotations

import copy
from fractions import Fraction
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import policy_report, policy_words
from ansible_collections.ascend.mindie.plugins.module_utils._motor.policy_report import Answer, Provider
from ansible_collections.ascend.mindie.plugins.module_utils._motor.scaling_policy import frozen
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot

LABEL = "infer.huawei.com/"
WAITING = "num_requests_waiting"
METRIC = {"type": "External", "external": {"metric": {"name": WAITING}, "target": {"type": "AverageValue", "averageValue": "5"}}}
POLICY = {"type": "HPA", "spec": {"minReplicas": 1, "maxReplicas": 4, "metrics": [METRIC]}}
FINE = [
    {"type": "AbleToScale", "status": "True", "reason": "ReadyForNewScale", "message": "recommended size matches current size"},
    {"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound", "message": "valid"},
    {"type": "ScalingLimited", "status": "False", "reason": "DesiredWithinRange", "message": "within"},
]
READ = {("prefill", WAITING): Answer(Fraction(8))}


def mean(kind: str = "Value") -> dict[str, Any]:
    field = "value" if kind == "Value" else "averageValue"
    return {"type": "External", "external": {"metric": {"name": "kv_cache_usage_perc"}, "target": {"type": kind, field: "800m"}}}


def pod(index: int, number: int = 0, *, ready: bool = True) -> dict[str, Any]:
    labels = {f"{LABEL}instanceset-name": "prefill", f"{LABEL}instanceset-index": str(index)}
    conditions = [{"type": "Ready", "status": str(ready)}]
    metadata = {"name": f"vllm-0-prefill-{index}-{number}", "labels": labels, "uid": f"{index}-{number}"}
    return {"kind": "Pod", "metadata": metadata, "spec": {}, "status": {"phase": "Running", "conditions": conditions}}


def provider(*, ours: bool = True, available: bool = True, allowed: bool = True, there: bool = True) -> Provider:
    if not allowed or not there:
        return Provider(None, allowed)
    labels = {"app.kubernetes.io/managed-by": "ascend.mindie"} if ours else {}
    condition = {"type": "Available", "status": str(available), "message": "all checks passed" if available else "no endpoints"}
    service = {"namespace": "mindie-system", "name": "mindie-metrics-adaptor"}
    return Provider({"metadata": {"labels": labels}, "spec": {"service": service}, "status": {"conditions": [condition]}})


def snapshot(
    policy: dict[str, Any] | None = None,
    *,
    count: int = 2,
    pods: int = 1,
    scaler: dict[str, Any] | None = None,
    conditions: list[dict[str, Any]] | None = None,
    told: str = "",
    without: str = "",
) -> Snapshot:
    """A set with prefill instances under a policy. `scaler` is the spec of its autoscaler where it is not as the policy says."""
    policy = copy.deepcopy(POLICY if policy is None else policy)
    role = {"name": "prefill", "replicas": count, "spec": {"replicas": pods, "template": {}}, "scalingPolicy": policy}
    if without == "policy":
        del role["scalingPolicy"]
    status = {"replicas": count, "readyReplicas": count, "scalingResourceStatus": {"message": told}}
    metadata = {"name": "vllm-0-prefill", "labels": {f"{LABEL}instanceset-name": "prefill"}}
    instance_set = {"kind": "InstanceSet", "metadata": metadata, "spec": {"replicas": count}, "status": status}
    target = {"apiVersion": "mindcluster.huawei.com/v1", "kind": "InstanceSet", "name": "vllm-0-prefill"}
    spec = {**copy.deepcopy(scaler or policy.get("spec") or {}), "scaleTargetRef": target}
    hpa = {
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "vllm-0-prefill-scaler"},
        "spec": spec,
        "status": {"desiredReplicas": count, "conditions": FINE if conditions is None else conditions},
    }
    return Snapshot(
        namespace="chat",
        backend="infer_service_set",
        base_name="vllm",
        config_map={"metadata": {"name": "motor-config"}},
        infer_service_set={"metadata": {"name": "vllm"}, "spec": {"template": {"roles": [role]}}} if without != "set" else None,
        instance_sets=(instance_set,),
        autoscalers=() if without == "scaler" else (hpa,),
        pods=tuple(pod(index, number) for index in range(count) for number in range(pods)),
    )


def told(
    live: Snapshot, answers: dict[tuple[str, str], Answer] | None = None, serving: Provider | None = None, **more: Any
) -> dict[str, Any]:
    found = policy_report.subjects(live)
    asked = {"adaptor": "managed", **more}
    return policy_report.report(live, found, READ if answers is None else answers, serving or provider(), **asked)


def words(report: dict[str, Any]) -> list[str]:
    return [problem["problem"] for problem in report["problems"]]


def test_where_all_is_well_it_works_and_says_what_would_be_done() -> None:
    report = told(snapshot())
    assert report["works"] and report["problems"] == []
    (row,) = report["engine_roles"]
    assert (row["min"], row["max"], row["instances"], row["ready"], row["desired"]) == (1, 4, 2, 2, 2)
    assert row["now"]["count"] == 2 and row["autoscaler"] == "vllm-0-prefill-scaler"
    assert all(condition["good"] and condition["words"] for condition in row["conditions"])
    text = "\n".join(report["table"])
    assert "Autoscaling of chat works" in text and "ceil(8 / 5) = 2" in text and "5 AverageValue" in text


PROBLEMS: dict[str, tuple[str, dict[str, Any]]] = {
    "no set": ("WrongBackend", {"live": snapshot(without="set")}),
    "no policy": ("NoPolicy", {"live": snapshot(without="policy")}),
    "a policy of another type": ("WrongType", {"live": snapshot({"type": "KEDA", "spec": {}})}),
    "a policy that is being switched off": ("BeingSwitchedOff", {"live": snapshot(frozen(POLICY, 2))}),
    "no autoscaler": ("NoAutoscaler", {"live": snapshot(without="scaler", told="failed to unmarshal HPA spec")}),
    "an autoscaler of an earlier policy": ("StaleAutoscaler", {"live": snapshot(scaler={**POLICY["spec"], "maxReplicas": 9})}),
    "an autoscaler with other metrics": ("StaleAutoscaler", {"live": snapshot(scaler={**POLICY["spec"], "metrics": [mean()]})}),
    "more than the limit": ("OutsideLimits", {"live": snapshot(count=6)}),
    "nobody": ("NoApiService", {"live": snapshot(), "serving": provider(there=False)}),
    "not available": ("ApiServiceUnavailable", {"live": snapshot(), "serving": provider(available=False)}),
    "somebody else": ("NotOurs", {"live": snapshot(), "serving": provider(ours=False)}),
    "no data": ("MetricUnreadable", {"live": snapshot(), "answers": {("prefill", WAITING): Answer(None, "stale", 503)}}),
    "not enough is known yet": (
        "NotKnownYet",
        {"live": snapshot(), "answers": {("prefill", WAITING): Answer(None, "5 s", 503, "TooShort")}},
    ),
    "unknown": ("MetricUnknown", {"live": snapshot(), "answers": {("prefill", WAITING): Answer(None, "no such metric", 404)}}),
    "not allowed": ("NotAllowed", {"live": snapshot(), "answers": {("prefill", WAITING): Answer(None, "forbidden", 403)}}),
    "a mean as a total": ("WrongTarget", {"live": snapshot({**POLICY, "spec": {**POLICY["spec"], "metrics": [mean("AverageValue")]}})}),
    "several pods": ("PodsNotInstances", {"live": snapshot({**POLICY, "spec": {**POLICY["spec"], "metrics": [mean()]}}, pods=2)}),
    "the maximum": ("AtMaximum", {"live": snapshot(conditions=[{**FINE[2], "status": "True", "reason": "TooManyReplicas"}])}),
    "not looked at": ("NotLookedAt", {"live": snapshot(conditions=[])}),
    "a condition": (
        "ConditionFalse",
        {"live": snapshot(conditions=[{"type": "AbleToScale", "status": "False", "reason": "FailedGetScale", "message": "gone"}])},
    ),
}


@pytest.mark.parametrize("name", list(PROBLEMS))
def test_each_problem_is_told_with_a_remedy(name: str) -> None:
    word, case = PROBLEMS[name]
    answers = case.get("answers") or {**READ, ("prefill", "kv_cache_usage_perc"): Answer(Fraction(1, 2))}
    report = told(case["live"], answers, case.get("serving"))
    assert words(report) == [word]
    (problem,) = report["problems"]
    assert problem["remedy"] == policy_words.REMEDIES[word] and problem["message"]
    assert report["works"] == (word in policy_words.NOTES)
    assert any(line.startswith(word) for line in report["table"]) and f"  {problem['remedy']}" in report["table"]


def test_a_problem_that_the_operator_explains_has_its_words() -> None:
    (problem,) = told(snapshot(without="scaler", told="failed to unmarshal HPA spec"))["problems"]
    assert problem["message"] == "failed to unmarshal HPA spec" and problem["engine_role"] == "prefill"


def test_an_old_definition_is_why_there_is_no_policy() -> None:
    assert words(told(snapshot(without="policy"), knows_policies=False)) == ["NoPolicy", "PolicyUnknown"]
    assert words(told(snapshot(without="policy"), knows_policies=True)) == ["NoPolicy"]


def test_another_provider_is_as_good_when_it_is_the_one_to_use() -> None:
    report = told(snapshot(), serving=provider(ours=False), adaptor="existing")
    assert report["works"] and report["provider"]["whose"] == "other"


def test_who_may_not_see_the_provider_is_not_told_that_there_is_none() -> None:
    report = told(snapshot(), serving=provider(allowed=False))
    assert report["works"] and (report["provider"]["whose"], report["provider"]["available"]) == ("unknown", None)


def test_a_missing_value_is_told_once_and_not_by_the_condition_again() -> None:
    failed = [FINE[0], {"type": "ScalingActive", "status": "False", "reason": "FailedGetExternalMetric", "message": "x" * 1000}]
    report = told(snapshot(conditions=failed), {("prefill", WAITING): Answer(None, "no data", 503)})
    assert words(report) == ["MetricUnreadable"] and max(len(line) for line in report["table"]) < 200
    assert report["engine_roles"][0]["now"]["reason"] == "NoMetric"


def test_values_that_hpa_has_not_seen_yet_are_no_condition_to_mend() -> None:
    failed = [FINE[0], {"type": "ScalingActive", "status": "False", "reason": "FailedGetExternalMetric", "message": f"{'x' * 1000}: why"}]
    report = told(snapshot(conditions=failed))
    assert words(report) == ["NotLookedAt"] and not report["works"]
    assert report["problems"][0]["message"].endswith(": why") and max(len(line) for line in report["table"]) < 300


def test_who_may_not_read_metrics_goes_by_what_hpa_says() -> None:
    """Nothing that may not be read is taken for well, nor for ill."""
    failed = [FINE[0], {"type": "ScalingActive", "status": "False", "reason": "FailedGetExternalMetric", "message": "none"}]
    forbidden = {("prefill", WAITING): Answer(None, "forbidden", 403)}
    assert told(snapshot(), forbidden)["works"]
    report = told(snapshot(conditions=failed), forbidden)
    assert sorted(words(report)) == ["ConditionFalse", "NotAllowed"] and not report["works"]


@pytest.mark.parametrize(("there", "status", "word"), [(True, 503, "ApiServiceUnavailable"), (False, 404, "NoApiService")])
def test_where_nobody_serves_metrics_none_of_them_is_to_blame(there: bool, status: int, word: str) -> None:
    failed = [FINE[0], {"type": "ScalingActive", "status": "False", "reason": "FailedGetExternalMetric", "message": "none"}]
    answers = {("prefill", WAITING): Answer(None, f"HTTP {status}, and no JSON", status)}
    report = told(snapshot(conditions=failed), answers, provider(available=False, there=there))
    assert words(report) == [word] and report["engine_roles"][0]["metrics"][0]["problem"]


def test_hpa_that_has_computed_nothing_yet_does_not_want_0_instances() -> None:
    live = snapshot()
    live.autoscalers[0]["status"]["desiredReplicas"] = 0
    report = told(live)
    assert report["engine_roles"][0]["desired"] is None
    text = "\n".join(report["table"])
    assert "HPA has not decided anything yet" in text and "HPA wants" not in text


def test_policies_that_are_not_set_yet_need_no_autoscaler() -> None:
    live = snapshot(without="policy")
    found = policy_report.subjects(live, {"prefill": POLICY})
    report = policy_report.report(live, found, READ, provider(), adaptor="managed", live=False)
    assert report["problems"] == []
    assert report["engine_roles"][0]["now"]["count"] == 2
    assert policy_report.subjects(live, {"decode": POLICY}) == (), "the set has no such role"


def test_metrics_are_asked_for_as_hpa_asks() -> None:
    own = {f"{LABEL}role-name": "other", "team": "a"}
    assert policy_report.selector("prefill", own) == {
        f"{LABEL}inferservice-name": "vllm-0",
        f"{LABEL}inferserviceset-name": "vllm",
        f"{LABEL}role-name": "other",
        "team": "a",
    }


@pytest.mark.parametrize(
    "spec", [{}, {"maxReplicas": "four"}, {"maxReplicas": 2, "metrics": [{"type": "External"}]}, {"maxReplicas": 2, "metrics": 3}]
)
def test_a_policy_that_no_server_would_take_is_survived(spec: dict[str, Any]) -> None:
    report = told(snapshot({"type": "HPA", "spec": spec}, without="scaler"))
    assert words(report)[0] == "NoAutoscaler" and report["engine_roles"][0]["now"] is None
