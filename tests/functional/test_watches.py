# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A wait sees what happens although its watches are cut, fall silent, expire or are refused, and does not ask without end."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._cluster import watch
from tests.cluster.fault_proxy import Request
from tests.functional.conftest import Driver
from tests.functional.test_modules import recorded_counts, succeeded
from tests.functional.test_waiting import pods_of


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "SILENT_SECONDS", 2.0)


def both_ways(driver: Driver, **options: Any) -> dict[str, Any]:
    """Something goes, then something comes, each seconds after the watches were opened."""
    driver.cluster.behave(driver.namespace, pods_of(driver, "decode", 1), {"fake/ready-after": "2s"})
    pod = next(name for name in driver.get("pods", "v1") if name.startswith(driver.name("prefill", 1)))
    driver.cluster.annotate_pod(driver.namespace, pod, {"fake/stop-after": "1s"})
    return driver.scale(prefill=1, decode=2, **options)


def asked(driver: Driver) -> list[Request]:
    """Watches and lists of pods since the first watch."""
    found = [request for request in driver.proxy.requests if request.path.endswith("/pods") and request.method == "GET"]
    first = next(number for number, request in enumerate(found) if request.watch)
    return found[first:]


def goes_on(driver: Driver, **fault: Any) -> None:
    """The first two watches go wrong, and the change ends well all the same."""
    succeeded(driver.deploy())
    for number in (1, 2):
        driver.proxy.fault(watch=True, nth=number, **fault)
    result = succeeded(both_ways(driver))
    assert recorded_counts(driver) == (1, 2) and result["service"]["counts"] == {"prefill": 1, "decode": 2}
    assert {instance["state"] for instance in result["service"]["instances"]} == {"running"}
    assert not succeeded(driver.scale(prefill=1, decode=2))["changed"]


@pytest.mark.parametrize(
    "fault",
    [
        {"silence": 300},
        {"cut": 0},
        {"cut": 300},
        {"drop": "before"},
        {"drop": "after"},
        {"status": 410, "plain": True},
        {"status": 500},
        {"status": 503, "retry_after": 1},
    ],
    ids=str,
)
def test_a_wait_goes_on_whatever_happens_to_its_watches_of_pods(on_deployments: Driver, fault: dict[str, Any]) -> None:
    goes_on(on_deployments, **fault)


@pytest.mark.parametrize("fault", [{"silence": 0}, {"status": 410}, {"status": 429}], ids=str)
def test_a_wait_goes_on_whatever_happens_to_its_watches(driver: Driver, fault: dict[str, Any]) -> None:
    goes_on(driver, **fault)


@pytest.mark.parametrize("plain", [False, True])
def test_three_expired_watches_in_a_row_cost_few_requests(driver: Driver, plain: bool) -> None:
    succeeded(driver.deploy())
    for number in (1, 2, 3):
        driver.proxy.fault(watch=True, path="/pods$", nth=number, status=410, plain=plain)
    succeeded(both_ways(driver))
    assert len(asked(driver)) <= 4 + 3 + 6, "each expired watch is followed by one list; silence during the rest costs two per period"
    versions = [request.query["resourceVersion"][0] for request in asked(driver) if request.watch]
    assert versions[1] != versions[0] or versions[2] != versions[0], "a stale version is not used again and again"


@pytest.mark.parametrize("plain", [False, True])
def test_watches_that_always_expire_are_opened_less_and_less_often(on_deployments: Driver, plain: bool) -> None:
    driver = on_deployments
    succeeded(driver.deploy())
    driver.cluster.behave(driver.namespace, {"app": "vllm-p2"}, {"fake/ready-after": "12s"})
    driver.proxy.fault(watch=True, status=410, plain=plain)
    succeeded(driver.scale(prefill=3, decode=1))
    assert len(asked(driver)) <= 12, "pauses of 1, 2, 4, 8 s"


def test_watches_that_are_cut_again_and_again(driver: Driver) -> None:
    succeeded(driver.deploy())
    ended = threading.Event()

    def cut() -> None:
        while not ended.wait(0.7):
            driver.proxy.cut_watches()

    thread = threading.Thread(target=cut)
    thread.start()
    try:
        succeeded(both_ways(driver))
    finally:
        ended.set()
        thread.join()


def test_a_delete_that_a_silent_watch_never_told_is_found(on_deployments: Driver) -> None:
    driver = on_deployments
    driver.cluster.behave(driver.namespace, {"app": "vllm-p1"}, {"fake/stop-after": "1s"})
    succeeded(driver.deploy())
    driver.proxy.fault(watch=True, path="/pods$", nth=1, silence=0)
    result = succeeded(driver.scale(prefill=1, decode=1))
    assert [row["name"] for row in result["timeline"] if row["state"] == "gone"] == ["vllm-p1"]


def test_at_the_deadline_nothing_is_called_missing_that_is_there(on_deployments: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch is silent until after the deadline: one last list tells the truth."""
    monkeypatch.setattr(watch, "SILENT_SECONDS", 30.0)
    driver = on_deployments
    succeeded(driver.deploy())
    driver.proxy.fault(watch=True, path="/pods$", nth=1, silence=0)
    succeeded(driver.scale(prefill=3, decode=1, wait_timeout=6))


def test_a_user_who_may_not_watch_is_told_so(driver: Driver) -> None:
    succeeded(driver.deploy())
    driver.proxy.fault(watch=True, path="/pods$", status=403)
    failed = driver.scale(prefill=3, decode=1)
    assert failed["status"] == 403 and "watch Pods" in failed["msg"] and driver.namespace in failed["msg"]
