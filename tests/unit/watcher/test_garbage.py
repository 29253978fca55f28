# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever somebody writes into the objects of a namespace, it is decided about and described, and does not concern others."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from rescheduling_watcher.repairs import Decisions, decide_repairs, timed
from rescheduling_watcher.settings import ACTS, Settings
from rescheduling_watcher.tries import Tries
from rescheduling_watcher.world import build_of

from ansible_collections.ascend.mindie.plugins.module_utils._motor import hands_off, pods
from ansible_collections.ascend.mindie.plugins.module_utils._motor.kept import KEPT
from ansible_collections.ascend.mindie.plugins.module_utils._motor.overview_details import service_report
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot
from tests.support.watcher_snapshots import NAMESPACE, job, lease, motor_config, pod, pod_group, rule, snapshot

P0, P1, D0 = "mindie-server-p0", "mindie-server-p1", "mindie-server-d0"
ON = Settings(namespaces=(NAMESPACE,), acts=dict.fromkeys(ACTS, True))
APPLIED = json.loads(motor_config(2, 1)["metadata"]["annotations"]["ascend.mindie/applied"])

TEXTS = ["", "{", "[]", "{}", "null", "5", '"x"', '{"a": 1}', "[" * 100_000, "9" * 5000]
RECORDS = ['{"sha256": []}', '{"sha256": 5}', *(json.dumps({**APPLIED, "revision": number}) for number in ("x", [1]))]
COUNTS = [5, "x", [], *({"prefill": count} for count in ("x", None, [], -1, 1.5, 1e400, 10**9, {}))]
SETTINGS = ['{"scaling_rule": 5}', '{"groups": []}', '{"groups": {}}', '{"groups": {"prefill": 5, "decode": "x"}}', '{"name_prefix": null}']
INTENTS = ['{"verb": []}', '{"verb": 5}']


def looked_at(seen: Snapshot) -> Decisions:
    """Decided, and described."""
    assert service_report(seen, servers=())["namespace"] == NAMESPACE
    return decide_repairs(seen, dict.fromkeys(timed(seen), 1000.0), ON, lambda dummy: "", "watcher/")


def service(config_map: dict[str, Any], **parts: Any) -> Snapshot:
    made = build_of(config_map, jobs=True, infer_sets=False)
    given = {"jobs": [job(P0), job(D0, "group1")], "pod_groups": [pod_group(P0, "Running")], "pods": [pod(P0)], **parts}
    rules = rule({"group0": 2, "group1": 1}, {"group0": 1, "group1": 1})
    return replace(snapshot(config_maps=[config_map, rules], **given), settings=made.settings, base_name=made.base_name)


@pytest.mark.parametrize("text", [*TEXTS, *RECORDS, *(json.dumps({**APPLIED, "counts": counts}) for counts in COUNTS)])
def test_a_record_of_success_that_is_none_has_nothing_restored(text: str) -> None:
    found = looked_at(service(motor_config(2, 1, **{"ascend.mindie/applied": text})))
    assert not [repair for repair in found.repairs if repair.act == "restore_missing"]


@pytest.mark.parametrize("text", [*TEXTS, *SETTINGS])
def test_settings_of_jobs_that_are_none_are_as_if_there_were_none(text: str) -> None:
    plain = looked_at(service(motor_config(2, 1)))
    assert plain.repairs and looked_at(service(motor_config(2, 1, **{"ascend.mindie/ascend-jobs": text}))) == plain


@pytest.mark.parametrize("text", [*TEXTS[1:2], *TEXTS[4:7], *TEXTS[8:], *INTENTS])
def test_where_it_cannot_be_read_what_was_begun_nothing_is_restored(text: str) -> None:
    held = lease()
    held["metadata"]["annotations"] = {"ascend.mindie/intent": text}
    seen = service(motor_config(2, 1), lease=held)
    assert "cannot be read" in hands_off.locked(seen)
    found = looked_at(seen)
    assert not found.repairs and "cannot be read" in found.waiting[f"restore_missing {NAMESPACE}/motor-config"]


def spec(template: Any) -> dict[str, Any]:
    return {"spec": {"replicaSpecs": {"Master": {"replicas": 1, "template": template}}}}


@pytest.mark.parametrize(
    "garbage",
    [
        {"spec": None},
        {"spec": {}},
        {"spec": {"replicaSpecs": None}},
        {"spec": {"replicaSpecs": {"Master": None}}},
        {"spec": {"replicaSpecs": {"Master": {"replicas": -3}}}},
        spec(None),
        spec({"spec": "x"}),
        spec({"spec": {}}),
        spec({"spec": {"containers": None}}),
        spec({"spec": {"containers": "x", "volumes": "y"}}),
        spec({"spec": {"containers": ["x"]}}),
        spec({"spec": {"containers": [{}], "volumes": [None]}}),
        spec({"spec": {"containers": [{}], "volumes": [{"configMap": "x"}]}}),
        spec({"spec": {"containers": [{"resources": "x"}]}}),
        spec({"spec": {"containers": [{"resources": {"requests": {"huawei.com/Ascend910": "lots"}}}]}}),
        spec({"spec": {"containers": [{"resources": {"requests": {"huawei.com/Ascend910": "2k"}}}]}}),
    ],
    ids=json.dumps,
)
def test_a_job_that_cannot_be_one_hides_no_others(garbage: dict[str, Any]) -> None:
    """The API server takes pod templates as they come, and jobs without a specification: the watch of all jobs must survive them."""
    odd = KEPT["AscendJob"]({**job(P1), **garbage})
    without = {key: value for key, value in job(P1).items() if key != "spec"}
    for one in (odd, KEPT["AscendJob"](without)):
        seen = service(motor_config(2, 1), jobs=[one, job(P0), job(D0, "group1")])
        looked_at(seen)
        assert {item["name"] for item in service_report(seen)["instances"]} >= {P0, P1, D0}


@pytest.mark.parametrize("text", [*TEXTS, '{"a": [NaN]}', '{"a": ["x", null]}', '{"a": {}}', '{"a": [1e999]}', '{"a": 5}'])
def test_tries_that_somebody_else_wrote_are_as_if_there_were_none(text: str) -> None:
    tries = Tries(text)
    assert tries.count("a", 5.0) == 0
    tries.add("a", 5.0)
    assert json.loads(tries.text(5.0)) == {"a": [5]}


def test_tries_that_are_old_take_no_memory_and_one_that_was_none_is_taken_back() -> None:
    tries = Tries()
    for number in range(100):
        tries.add(f"release_stuck chat/pod-{number}", 10.0 * number)
    tries.text(10_000.0)
    assert not tries._times
    tries.add("a", 1.0)
    tries.add("a", 2.0)
    tries.remove("a", 2.0)
    tries.remove("b", 2.0)
    assert tries.count("a", 3.0) == 1


def test_the_latest_tries_are_kept_as_far_as_an_annotation_has_room_for_them() -> None:
    """Else it could not be written any more, and nothing would be tried."""
    tries = Tries()
    for number in range(3000):
        tries.add(f"recreate_failed {'n' * 63}/{'j' * 60}-{number}", float(number))
    text = tries.text(3000.0)
    assert 100_000 < len(text) <= 200_000 and tries.count(f"recreate_failed {'n' * 63}/{'j' * 60}-2999", 3000.0) == 1
    assert Tries(text).text(3000.0) == text


@pytest.mark.parametrize(
    ("written", "number"),
    [("8", 8), (8, 8), ("2k", 2000), ("1Ki", 1024), ("3M", 3_000_000), ("", 0), ("x", 0), ("-1", 0), (None, 0), ("8x", 0)],
)
def test_quantities_are_read_as_the_api_server_writes_them(written: Any, number: int) -> None:
    assert pods.npus_of({"huawei.com/Ascend910": written, "cpu": "5"}) == number
