# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the adaptor answers to which request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import pytest
from metrics_adaptor import api

from ansible_collections.ascend.mindie.plugins.module_utils._motor.load import Found, NoValue
from ansible_collections.ascend.mindie.plugins.module_utils._motor.load_metrics import METRICS

SERVICE, SET, ROLE = (f"infer.huawei.com/{name}" for name in ("inferservice-name", "inferserviceset-name", "role-name"))
ROOT = "/apis/external.metrics.k8s.io/v1beta1"


def labels(role: str, service: str = "chat") -> dict[str, str]:
    return {SERVICE: f"{service}-0", SET: service, ROLE: role}


class Loads:
    """Two services in one namespace, with what a test gives them."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[str, str], float | NoValue] = {("chat", "prefill"): 7.0, ("chat", "decode"): 0.8, ("other", "decode"): 1.0}
        self.asked: list[str] = []
        self.known = True

    def series(self, namespace: str) -> Sequence[Mapping[str, str]]:
        if not self.known:
            raise NoValue("NotYet", "it is not known yet")
        return [labels(role, service) for service, role in self.numbers] if namespace == "ns" else ()

    def value(self, namespace: str, labels: Mapping[str, str], metric: str) -> Found:
        self.asked.append(metric)
        found = self.numbers[labels[SET], labels[ROLE]]
        if isinstance(found, NoValue):
            raise found
        return Found(found, 1_800_000_000.0, 1, 1)


@pytest.fixture
def loads() -> Loads:
    return Loads()


def read(loads: Loads, metric: str = "num_requests_waiting", selector: str = f"{SET}=chat,{ROLE}=prefill", more: str = "") -> api.Reply:
    return api.reply(f"{ROOT}/namespaces/ns/{metric}?labelSelector={quote(selector)}{more}", loads)


def test_a_value_is_a_list_of_one_with_name_labels_time_and_quantity(loads: Loads) -> None:
    reply = read(loads)
    assert (reply.status, reply.asked, reply.reason) == (200, api.VALUE, "")
    assert reply.body == {
        "kind": "ExternalMetricValueList",
        "apiVersion": "external.metrics.k8s.io/v1beta1",
        "metadata": {},
        "items": [
            {
                "metricName": "num_requests_waiting",
                "metricLabels": labels("prefill"),
                "timestamp": "2027-01-15T08:00:00Z",
                "value": "7",
            }
        ],
    }


@pytest.mark.parametrize(
    "name", ["num_requests_waiting", "vllm:num_requests_waiting", "vllm%3Anum_requests_waiting", "vllm_num_requests_waiting"]
)
def test_a_metric_has_its_name_with_and_without_prefix_and_is_called_as_it_was_asked_for(loads: Loads, name: str) -> None:
    (item,) = read(loads, name).body["items"]
    assert item["metricName"] == name.replace("%3A", ":") and loads.asked == ["num_requests_waiting"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (7.0, "7"),
        (0.8, "800m"),
        (12.3456, "12346m"),
        (0.0001, "1m"),
        (1e9, "1000000000"),
        (0.1 + 0.2, "300m"),
        (2.0005, "2001m"),
    ],
)
def test_quantities_are_to_the_thousandth_and_never_rounded_to_nothing(value: float, text: str) -> None:
    assert api.quantity(value) == text


def test_no_value_is_an_error_with_its_reason_and_no_number(loads: Loads) -> None:
    loads.numbers["chat", "prefill"] = NoValue("Stale", "the newest answer is 40 s old")
    reply = read(loads)
    assert (reply.status, reply.reason, reply.body["reason"]) == (503, "Stale", "ServiceUnavailable")
    assert "items" not in reply.body and reply.body["details"]["causes"][0]["reason"] == "Stale"
    for word in ("num_requests_waiting", "prefill", "chat-0", "ns", "40 s old"):
        assert word in reply.body["message"]


def test_before_services_are_known_there_is_no_value_rather_than_no_service(loads: Loads) -> None:
    loads.known = False
    assert (read(loads).status, read(loads).reason) == (503, "NotYet")


def test_an_unknown_metric_is_told_with_those_that_there_are(loads: Loads) -> None:
    reply = read(loads, "no_such_metric")
    assert (reply.status, reply.reason, reply.body["reason"]) == (404, "UnknownMetric", "NotFound")
    assert all(name in reply.body["message"] for name in METRICS) and loads.asked == []


def test_a_histogram_without_quantile_is_told_with_those_it_has(loads: Loads) -> None:
    message = read(loads, "vllm:time_to_first_token_seconds").body["message"]
    assert "time_to_first_token_seconds_p99" in message and "num_requests_waiting" not in message


@pytest.mark.parametrize("selector", [f"{SET}=nobody", f"{SET}=chat,{ROLE}=union", "foreign=label", f"{SET}=other,{ROLE}=prefill"])
def test_labels_of_nothing_are_told_with_what_there_is(loads: Loads, selector: str) -> None:
    reply = read(loads, selector=selector)
    assert (reply.status, reply.reason) == (404, "UnknownService")
    assert "prefill of chat-0" in reply.body["message"] and "decode of other-0" in reply.body["message"]


def test_a_namespace_without_services_says_so(loads: Loads) -> None:
    reply = api.reply(f"{ROOT}/namespaces/empty/num_requests_waiting", loads)
    assert reply.status == 404 and "it has none, or the adaptor does not look into it" in reply.body["message"]


@pytest.mark.parametrize("selector", ["", f"{SET}=chat", f"{ROLE}=decode", f"{SET} in (chat,other),{ROLE}=decode"])
def test_labels_of_several_are_refused_because_hpa_would_add_them_up(loads: Loads, selector: str) -> None:
    reply = read(loads, selector=selector)
    assert (reply.status, reply.reason) == (400, "BadSelector") and "add them up" in reply.body["message"] and loads.asked == []


@pytest.mark.parametrize(
    "selector", [f"{SET}=chat,{ROLE}!=decode", f"{SET} in (chat),{ROLE} notin (decode)", f"{SERVICE}=chat-0,{ROLE}=prefill"]
)
def test_any_selector_that_fits_one_will_do(loads: Loads, selector: str) -> None:
    assert read(loads, selector=selector).body["items"][0]["metricLabels"] == labels("prefill")


def test_what_is_no_selector_is_told_what_is_wrong_with_it(loads: Loads) -> None:
    reply = read(loads, selector="a=1=2")
    assert (reply.status, reply.body["reason"]) == (400, "BadRequest") and "labelSelector" in reply.body["message"]


def test_values_cannot_be_watched(loads: Loads) -> None:
    assert read(loads, more="&watch=true").body["reason"] == "MethodNotAllowed"
    assert read(loads, more="&watch=false&limit=500").status == 200


def test_discovery_leads_from_the_group_to_every_metric(loads: Loads) -> None:
    group = api.reply("/apis", loads).body["groups"][0]
    assert api.reply(f"/apis/{group['name']}", loads).body["preferredVersion"] == group["preferredVersion"]
    found = api.reply(f"/apis/{group['preferredVersion']['groupVersion']}?timeout=32s", loads)
    assert (found.status, found.asked, found.body["kind"]) == (200, api.DISCOVERY, "APIResourceList")
    assert {row["name"] for row in found.body["resources"]} == set(METRICS)
    assert all(row["namespaced"] and row["verbs"] == ["get"] for row in found.body["resources"])


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/openapi/v2",
        "/apis/metrics.k8s.io/v1beta1",
        f"{ROOT}/namespaces",
        f"{ROOT}/namespaces/ns",
        f"{ROOT}/namespaces//x",
        f"{ROOT}/nodes/ns/x",
        f"{ROOT}/namespaces/ns/x/y",
        "/x" * 1000,
    ],
)
def test_anything_else_is_a_status_that_kubernetes_reads(loads: Loads, target: str) -> None:
    reply = api.reply(target, loads)
    wanted: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
    assert reply.status == 404 and wanted.items() <= reply.body.items()
