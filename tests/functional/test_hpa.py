# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the formula says of HPA is what the real controller of HorizontalPodAutoscalers does."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import hpa
from ansible_collections.ascend.mindie.plugins.module_utils._motor.compare import quantity
from tests.cluster import Cluster
from tests.cluster.infer_operator import objects
from tests.cluster.kube_client import PODS, KubeClient, KubeError, Obj, wait_for
from tests.support.external_metrics import ExternalMetrics
from tests.support.infer_services import AUTOSCALERS, Service, role

WAITING, KV = "num_requests_waiting", "kv_cache_usage_perc"
NOW = {"scaleDown": {"stabilizationWindowSeconds": 0}}
# The controller looks every two seconds; a value that changes nothing is looked at twice at least.
TWO_LOOKS = 5.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(infer_operator=True, egress=True) as running:
        yield running


@pytest.fixture(scope="module")
def metrics(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExternalMetrics]:
    with ExternalMetrics(cluster, Path(tmp_path_factory.mktemp("metrics"))) as serving:
        yield serving


@pytest.fixture
def service(cluster: Cluster) -> Iterator[Service]:
    made = Service(KubeClient.from_kubeconfig(cluster.kubeconfig))
    yield made
    with contextlib.suppress(KubeError):
        made.client.delete(objects.INFER_SERVICE_SETS, made.namespace, "vllm")


def total(target: str, name: str = WAITING) -> Obj:
    return {"type": "External", "external": {"metric": {"name": name}, "target": {"type": "AverageValue", "averageValue": target}}}


def mean(target: str, name: str = KV) -> Obj:
    return {"type": "External", "external": {"metric": {"name": name}, "target": {"type": "Value", "value": target}}}


@dataclass
class Stage:
    """One InferServiceSet whose prefill instances follow the metrics of a test."""

    service: Service
    metrics: ExternalMetrics
    spec: dict[str, Any]

    def start(self, count: int, pods: int = 1, **values: str) -> None:
        """The set with so many instances, complete, and an autoscaler that has looked once and is content."""
        self.tell(**values)
        prefill = role("prefill", count, scalingPolicy={"type": "HPA", "spec": self.spec})
        prefill["spec"]["replicas"] = pods
        self.service.create(prefill)
        self.service.wait_complete(count)
        wait_for(lambda: self.reason("ScalingActive") == "ValidMetricFound", 20, "the autoscaler has looked")

    def tell(self, **values: str | None) -> None:
        for name, value in values.items():
            self.metrics.set(self.service.namespace, "prefill", name, value)

    def count(self) -> int:
        return int((self.service.get(objects.INSTANCE_SETS, "vllm-0-prefill") or {})["spec"]["replicas"])

    def counts(self) -> hpa.Counts:
        item = self.service.get(objects.INSTANCE_SETS, "vllm-0-prefill") or {}
        pods = self.service.all(PODS).values()
        ready = sum(any(row["type"] == "Ready" and row["status"] == "True" for row in pod["status"].get("conditions", ())) for pod in pods)
        return hpa.Counts(item["spec"]["replicas"], item["status"]["replicas"], ready)

    def said(self, past: hpa.Past | None = None, **values: str | None) -> hpa.Decision:
        """What our formula says of these values. The controller of the test cluster has a window of five seconds."""
        readings = [hpa.Reading(_number(values.get(row["external"]["metric"]["name"])), "none") for row in self.spec["metrics"]]
        return hpa.decide(hpa.autoscaler(self.spec, scale_in_window=5), readings, self.counts(), past, scale_in_window=5)

    def reason(self, kind: str) -> str:
        found = (self.service.get(AUTOSCALERS, "vllm-0-prefill-scaler") or {}).get("status", {}).get("conditions", [])
        return next((str(row["reason"]) for row in found if row["type"] == kind), "")

    def done(self, before: int, wanted: int) -> int:
        """The count after one move, or after two looks that moved nothing."""
        if wanted == before:
            time.sleep(TWO_LOOKS)
        else:
            wait_for(lambda: self.count() != before, 15, f"the autoscaler moves from {before}")
        return self.count()


def _number(value: str | None) -> Fraction | None:
    return None if value is None else quantity(value)


CASES: Sequence[tuple[str, dict[str, Any], int, int, dict[str, str], dict[str, str | None], str]] = (
    ("a total rises", {"metrics": [total("5")]}, 2, 1, {WAITING: "10"}, {WAITING: "20"}, hpa.SCALED_OUT),
    ("a total within a tenth", {"metrics": [total("5")]}, 2, 1, {WAITING: "10"}, {WAITING: "11"}, hpa.STAYS),
    ("a total just beyond a tenth", {"metrics": [total("5")]}, 2, 1, {WAITING: "10"}, {WAITING: "11001m"}, hpa.SCALED_OUT),
    ("a total falls", {"metrics": [total("5")], "behavior": NOW}, 4, 1, {WAITING: "20"}, {WAITING: "11"}, hpa.SCALED_IN),
    ("a mean falls", {"metrics": [mean("800m")], "behavior": NOW}, 4, 1, {KV: "0.8"}, {KV: "0.4"}, hpa.SCALED_IN),
    ("a mean counts pods", {"metrics": [mean("800m")]}, 2, 2, {KV: "0.8"}, {KV: "0.6"}, hpa.SCALED_OUT),
    ("a mean as AverageValue", {"metrics": [total("0.8", KV)], "behavior": NOW}, 3, 1, {KV: "2.4"}, {KV: "0.79"}, hpa.SCALED_IN),
    ("without behavior four at most", {"metrics": [total("5")], "maxReplicas": 12}, 1, 1, {WAITING: "5"}, {WAITING: "500"}, hpa.SCALED_OUT),
    (
        "the highest of two",
        {"metrics": [total("5"), mean("800m")]},
        2,
        1,
        {WAITING: "10", KV: "0.8"},
        {WAITING: "5", KV: "1.2"},
        hpa.SCALED_OUT,
    ),
    (
        "the other one is lost, and less is wanted",
        {"metrics": [total("5"), mean("800m")], "behavior": NOW},
        3,
        1,
        {WAITING: "15", KV: "0.8"},
        {WAITING: "5", KV: None},
        hpa.NO_METRIC,
    ),
    (
        "the other one is lost, and more is wanted",
        {"metrics": [total("5"), mean("800m")]},
        2,
        1,
        {WAITING: "10", KV: "0.8"},
        {WAITING: "15", KV: None},
        hpa.SCALED_OUT,
    ),
    (
        "frozen",
        {"metrics": [total("5")], "behavior": {"scaleUp": {"selectPolicy": "Disabled"}, "scaleDown": {"selectPolicy": "Disabled"}}},
        2,
        1,
        {WAITING: "10"},
        {WAITING: "30"},
        hpa.STAYS,
    ),
)


@pytest.mark.parametrize(("name", "spec", "count", "pods", "calm", "then", "reason"), CASES, ids=[case[0] for case in CASES])
def test_the_formula_says_what_the_controller_does(
    service: Service,
    metrics: ExternalMetrics,
    name: str,
    spec: dict[str, Any],
    count: int,
    pods: int,
    calm: dict[str, str],
    then: dict[str, str | None],
    reason: str,
) -> None:
    stage = Stage(service, metrics, {"minReplicas": 1, "maxReplicas": 8, **spec})
    stage.start(count, pods, **calm)
    said = stage.said(**then)
    assert said.reason == reason, said.words
    stage.tell(**then)
    assert stage.done(count, said.count) == said.count, said.words
    if reason == hpa.NO_METRIC:
        assert stage.reason("ScalingActive") == "FailedGetExternalMetric"


def test_steps_hold_back_until_their_period_is_over(service: Service, metrics: ExternalMetrics) -> None:
    steps = [{"type": "Pods", "value": 2, "periodSeconds": 12}]
    stage = Stage(
        service, metrics, {"minReplicas": 1, "maxReplicas": 8, "metrics": [total("5")], "behavior": {"scaleUp": {"policies": steps}}}
    )
    stage.start(1, **{WAITING: "5"})
    stage.tell(**{WAITING: "100"})
    wait_for(lambda: stage.count() == 3, 15, "the first step is made")
    moved = time.monotonic()
    assert stage.said(hpa.Past(changes=((1.0, 2),)), **{WAITING: "100"}).count == 3
    wait_for(lambda: stage.count() != 3, 30, "the second step is made")
    assert time.monotonic() - moved >= 11
    assert (
        stage.count()
        == 5
        == hpa.decide(hpa.autoscaler(stage.spec), [hpa.Reading(Fraction(100))], hpa.Counts(3, 3, 3), hpa.Past(changes=((13.0, 2),))).count
    )


def test_the_window_keeps_what_was_wanted_within_it(service: Service, metrics: ExternalMetrics) -> None:
    window = 12
    behavior = {"scaleDown": {"stabilizationWindowSeconds": window}}
    stage = Stage(service, metrics, {"minReplicas": 1, "maxReplicas": 8, "metrics": [total("5")], "behavior": behavior})
    stage.start(4, **{WAITING: "20"})
    stage.tell(**{WAITING: "10"})
    fell = time.monotonic()
    wait_for(lambda: stage.reason("AbleToScale") == "ScaleDownStabilized", 10, "the controller says that it waits")
    assert stage.said(hpa.Past(recommendations=((window - 1.0, 4),)), **{WAITING: "10"}).count == 4 == stage.count()
    wait_for(lambda: stage.count() != 4, 30, "the window is over")
    assert time.monotonic() - fell >= window - TWO_LOOKS, "what was wanted last before the fall may be some looks old"
    assert stage.count() == 2


@pytest.mark.parametrize(("limits", "count"), [((1, 2), 2), ((4, 6), 4)])
def test_limits_are_kept_at_once_even_without_a_value(
    service: Service, metrics: ExternalMetrics, limits: tuple[int, int], count: int
) -> None:
    stage = Stage(service, metrics, {"minReplicas": 1, "maxReplicas": 8, "metrics": [total("5")]})
    stage.start(3, **{WAITING: "15"})
    stage.tell(**{WAITING: None})
    stage.spec = {**stage.spec, "minReplicas": limits[0], "maxReplicas": limits[1]}
    assert stage.said(**{WAITING: None}).count == count
    service.patch("scalingPolicy", {"type": "HPA", "spec": stage.spec})
    wait_for(lambda: stage.count() == count, 15, "the limits are kept")
