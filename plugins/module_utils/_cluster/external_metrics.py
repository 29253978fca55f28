# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads external metrics as HorizontalPodAutoscalers do: through the API server, from whoever serves them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any
from urllib.parse import quote

from .._motor.compare import quantity
from .._motor.policy_report import API_SERVICE, GROUP, VERSION, Answer, Provider
from .api import Api, ApiError, Response

READERS = 8
_SHOWN = 100


def provider(api: Api) -> Provider:
    """Who serves external metrics, as far as this user may know."""
    try:
        return Provider(api.get("APIService", None, API_SERVICE))
    except ApiError as error:
        if error.status != 403:
            raise
        return Provider(None, allowed=False)


def read_metrics(api: Api, namespace: str, wanted: Mapping[tuple[str, str], Mapping[str, str]]) -> dict[tuple[str, str], Answer]:
    """The answer for each engine role and metric of `wanted`, which has the labels by which HPA looks it up."""
    if not wanted:
        return {}
    with ThreadPoolExecutor(min(READERS, len(wanted))) as pool:
        asked = {key: pool.submit(_read, api, namespace, key[1], selector) for key, selector in wanted.items()}
        return {key: answer.result() for key, answer in asked.items()}


def _read(api: Api, namespace: str, metric: str, selector: Mapping[str, str]) -> Answer:
    path = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{quote(metric, safe='')}"
    labels = ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    try:
        response = api.ask(path, [("labelSelector", labels)], f"read metric {metric} in {namespace}")
    except ApiError as error:
        return Answer(None, error.message)
    return _answer(response)


def _answer(response: Response) -> Answer:
    try:
        body = json.loads(response.body)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        # The API server itself, which reaches nobody who would answer.
        said = " ".join(response.body[:_SHOWN].decode(errors="replace").split())
        return Answer(None, f"HTTP {response.status}, and no JSON{': ' if said else ''}{said}", response.status)
    if response.status != 200:
        said = str(body.get("message") or body.get("reason") or "it did not say why")
        return Answer(None, f"HTTP {response.status}: {said}", response.status, _cause(body))
    values = [quantity(item.get("value")) if isinstance(item, dict) else None for item in body.get("items") or ()]
    numbers = [value for value in values if value is not None]
    if not numbers or len(numbers) < len(values):
        return Answer(None, "no values were returned" if not values else "a value is no number", response.status)
    # As HPA does: what several items say is added up.
    return Answer(sum(numbers, Fraction(0)))


def _cause(body: Mapping[str, Any]) -> str:
    """The one word that the adaptor gives besides its message."""
    details = body.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    first = causes[0] if isinstance(causes, list) and causes else None
    return str(first.get("reason") or "") if isinstance(first, dict) else ""
