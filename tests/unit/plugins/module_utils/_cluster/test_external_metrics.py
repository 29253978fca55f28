# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the API of external metrics answers is a number, or a reason; whatever else it is, it is never taken for zero."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._cluster import external_metrics
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.api import Api, Response, TransportError

KEY = ("prefill", "vllm:num_requests_waiting")
LABELS = {"infer.huawei.com/role-name": "prefill", "a": "b"}


def read(answer: Response | Exception) -> tuple[Any, list[tuple[str, list[tuple[str, str]]]]]:
    """The answer for a metric, and what was asked."""
    asked = []

    def send(method: str, path: str, query: list[tuple[str, str]], *_: Any, **__: Any) -> Response:
        asked.append((path, query))
        if isinstance(answer, Exception):
            raise answer
        return answer

    return external_metrics.read_metrics(Api(send), "chat", {KEY: LABELS})[KEY], asked


def values(*found: Any) -> Response:
    return Response(200, json.dumps({"kind": "ExternalMetricValueList", "items": [{"value": value} for value in found]}).encode())


def test_it_is_asked_as_hpa_asks() -> None:
    dummy, asked = read(values("1"))
    path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/chat/vllm%3Anum_requests_waiting"
    assert asked == [(path, [("labelSelector", "a=b,infer.huawei.com/role-name=prefill")])]


@pytest.mark.parametrize(
    ("found", "value"), [(["20"], Fraction(20)), (["500m"], Fraction(1, 2)), (["1", "2500m"], Fraction(7, 2)), (["0"], Fraction(0))]
)
def test_several_values_are_added_up(found: list[str], value: Fraction) -> None:
    assert read(values(*found))[0] == external_metrics.Answer(value)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (values(), "no values were returned"),
        (values("many"), "a value is no number"),
        (values("1", None), "a value is no number"),
        (Response(200, b"[]"), "no JSON"),
        (Response(200, b"<html>"), "no JSON"),
        (Response(503, b"service unavailable\n"), "HTTP 503, and no JSON: service unavailable"),
        (Response(200, b'{"items": ["x"]}'), "a value is no number"),
        (Response(503, b'{"message": "stale"}'), "HTTP 503: stale"),
        (Response(404, b'{"message": "no such metric"}'), "HTTP 404: no such metric"),
        (Response(403, b'{"message": "forbidden"}'), "HTTP 403: forbidden"),
        (Response(500, b"{}"), "it did not say why"),
        (TransportError("timed out"), "timed out"),
    ],
)
def test_what_is_no_number_is_a_reason(answer: Response | Exception, said: str) -> None:
    found = read(answer)[0]
    assert found.value is None and said in found.problem


@pytest.mark.parametrize(
    ("details", "cause"),
    [({"causes": [{"reason": "TooShort"}]}, "TooShort"), ({"causes": []}, ""), ({"causes": ["TooShort"]}, ""), ([], ""), (None, "")],
)
def test_the_one_word_of_the_adaptor_is_kept(details: Any, cause: str) -> None:
    found = read(Response(503, json.dumps({"message": "5 s are known", "details": details}).encode()))[0]
    assert found.value is None and found.cause == cause and found.problem == "HTTP 503: 5 s are known"
