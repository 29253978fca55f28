# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Comparing user configs: counts, updates, restarts, another service."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ascend.mindie.plugins.module_utils._motor.baseline import UPDATABLE, Changes, compare, read_at_start

DEPLOY = "motor_deploy_config"
BASE: dict[str, Any] = {
    "version": "v2.0",
    DEPLOY: {"p_instances_num": 1, "d_instances_num": 1, "image_name": "i", "job_id": "a", "hardware_type": "800I_A3"},
    "motor_controller_config": {"logging_config": {"log_level": "INFO", "host_log_dir": "/l"}},
    "motor_engine_prefill_config": {"engine_type": "vllm", "engine_config": {"list": [1, {"x": 1}], "ratio": 1}},
}
HYBRID: dict[str, Any] = {
    DEPLOY: {"hybrid_instances_num": 1, "image_name": "i", "job_id": "a"},
    "motor_engine_union_config": {"engine_type": "vllm"},
}
REMOVE = type("Removed", (), {"__repr__": lambda self: "removed"})()
LEVEL = "motor_controller_config.logging_config.log_level"
TREES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["1", ""]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


def changed(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    data = copy.deepcopy(base)
    for dotted, value in changes.items():
        *parents, key = dotted.split(".")
        target = data
        for parent in parents:
            target = target.setdefault(parent, {})
        if value is REMOVE:
            del target[key]
        else:
            target[key] = value
    return data


NOTHING: list[dict[str, Any]] = [
    {},
    {f"{DEPLOY}.deploy_mode": "infer_service_set"},
    {f"{DEPLOY}.deploy_mode": None},
    {f"{DEPLOY}.deploy_mode": {}},
    {f"{DEPLOY}.e_instances_num": None},
    {"north_config": {}},
    {"north_config": None},
    {"north_config": {"name": None, "more": {"x": [], "y": {}}}},
    {"motor_engine_prefill_config.engine_config.ratio": 1.0},
    {"new": []},
]


@pytest.mark.parametrize("changes", NOTHING, ids=str)
def test_what_holds_nothing_makes_no_difference(changes: dict[str, Any]) -> None:
    new = changed(BASE, changes)
    assert not compare(BASE, new)
    assert not compare(new, BASE)


UPDATES: list[tuple[dict[str, Any], str]] = [
    ({LEVEL: "DEBUG"}, LEVEL),
    ({LEVEL: REMOVE}, LEVEL),
    ({LEVEL: None}, LEVEL),
    ({"motor_coordinator_config.logging_config": {"log_level": "DEBUG"}}, "motor_coordinator_config.logging_config.log_level"),
    ({"north_config": {"port": 1}}, "north_config.port"),
    ({f"{DEPLOY}.tls_config.north_tls_config.enable_tls": True}, f"{DEPLOY}.tls_config.north_tls_config.enable_tls"),
]


@pytest.mark.parametrize(("changes", "path"), UPDATES, ids=[str(row[0]) for row in UPDATES])
def test_updates(changes: dict[str, Any], path: str) -> None:
    assert compare(BASE, changed(BASE, changes)) == Changes({}, (path,), (), ())
    assert compare(changed(BASE, changes), BASE) == Changes({}, (path,), (), ())


@pytest.mark.parametrize("path", sorted(UPDATABLE))
def test_the_white_list(path: str) -> None:
    assert compare(BASE, changed(BASE, {path: "other"})).others == (path,)
    assert compare(BASE, changed(BASE, {path: "other"})).updatable == (path,)


def test_the_white_list_has_no_other_paths() -> None:
    assert len(UPDATABLE) == 23
    assert all(path.count(".") in (1, 2, 3) for path in UPDATABLE)


RESTARTS: list[tuple[dict[str, Any], str]] = [
    ({LEVEL: {}}, LEVEL),
    ({LEVEL: {"a": 1}}, LEVEL),
    ({LEVEL: ["a"]}, LEVEL),
    ({"motor_coordinator_config.logging_config.log_level": {"a": 1}}, "motor_coordinator_config.logging_config.log_level.a"),
    ({"motor_controller_config.logging_config.host_log_dir": "/m"}, "motor_controller_config.logging_config.host_log_dir"),
    ({"motor_controller_config.logging_config": "x"}, "motor_controller_config.logging_config"),
    ({"version": REMOVE}, "version"),
    ({"version": "v2.1"}, "version"),
    ({f"{DEPLOY}.image_name": "j"}, f"{DEPLOY}.image_name"),
    ({f"{DEPLOY}.p_pod_npu_num": 2}, f"{DEPLOY}.p_pod_npu_num"),
    ({"motor_engine_prefill_config.engine_config.ratio": True}, "motor_engine_prefill_config.engine_config.ratio"),
    ({"motor_engine_prefill_config.engine_config.ratio": "1"}, "motor_engine_prefill_config.engine_config.ratio"),
    ({"motor_engine_prefill_config.engine_config.list": [1, {"x": 2}]}, "motor_engine_prefill_config.engine_config.list[1].x"),
    ({"motor_engine_prefill_config.engine_config.list": [{"x": 1}, 1]}, "motor_engine_prefill_config.engine_config.list[0]"),
    ({"motor_engine_prefill_config.engine_config.list": [1]}, "motor_engine_prefill_config.engine_config.list"),
    ({"motor_engine_prefill_config.engine_config.list": REMOVE}, "motor_engine_prefill_config.engine_config.list"),
    ({"motor_engine_prefill_config.engine_config.a.b": 1}, "motor_engine_prefill_config.engine_config.a.b"),
    ({"motor_engine_decode_config.engine_type": "sglang"}, "motor_engine_decode_config.engine_type"),
]


@pytest.mark.parametrize(("changes", "path"), RESTARTS, ids=[str(row[0]) for row in RESTARTS])
def test_restarts(changes: dict[str, Any], path: str) -> None:
    changes_found = compare(BASE, changed(BASE, changes))
    assert not changes_found.updatable
    assert not changes_found.not_allowed
    assert not changes_found.counts
    assert path in changes_found.restart


FORBIDDEN: list[tuple[dict[str, Any], str]] = [
    ({f"{DEPLOY}.job_id": "b"}, f"{DEPLOY}.job_id"),
    ({f"{DEPLOY}.deploy_mode": "multi_deployment"}, f"{DEPLOY}.deploy_mode"),
    ({"motor_engine_prefill_config.engine_type": "sglang"}, "motor_engine_prefill_config.engine_type"),
    ({"motor_engine_prefill_config.engine_type": REMOVE}, "motor_engine_prefill_config.engine_type"),
]


@pytest.mark.parametrize(("changes", "path"), FORBIDDEN, ids=[str(row[0]) for row in FORBIDDEN])
def test_not_allowed(changes: dict[str, Any], path: str) -> None:
    assert compare(BASE, changed(BASE, changes)) == Changes({}, (), (), (path,))
    assert compare(changed(BASE, changes), BASE) == Changes({}, (), (), (path,))


def test_an_engine_type_that_keeps_the_names_needs_a_restart() -> None:
    old = changed(BASE, {"motor_engine_prefill_config.engine_type": REMOVE})
    new = changed(BASE, {"motor_engine_prefill_config.engine_type": "mindie-llm"})
    assert compare(old, new).restart == ("motor_engine_prefill_config.engine_type",)


def test_the_union_section_names_hybrid_instances() -> None:
    new = changed(HYBRID, {"motor_engine_union_config.engine_type": "sglang"})
    assert compare(HYBRID, new).not_allowed == ("motor_engine_union_config.engine_type",)


def test_counts() -> None:
    new = changed(BASE, {f"{DEPLOY}.d_instances_num": 3, f"{DEPLOY}.p_instances_num": 2, f"{DEPLOY}.e_instances_num": 1})
    assert compare(BASE, new) == Changes({"prefill": (1, 2), "decode": (1, 3), "encode": (0, 1)}, (), (), ())
    assert compare(new, BASE).counts["encode"] == (1, 0)
    assert list(compare(BASE, new).counts) == ["prefill", "decode", "encode"]
    assert compare(HYBRID, changed(HYBRID, {f"{DEPLOY}.hybrid_instances_num": 4})).counts == {"union": (1, 4)}


def test_between_hybrid_and_separate_there_is_no_way() -> None:
    found = compare(BASE, HYBRID)
    assert not found.counts
    assert set(found.not_allowed) >= {f"{DEPLOY}.hybrid_instances_num", f"{DEPLOY}.p_instances_num", f"{DEPLOY}.d_instances_num"}


def test_paths_are_sorted_and_classes_apart() -> None:
    new = changed(BASE, {LEVEL: "DEBUG", "version": "x", f"{DEPLOY}.image_name": "j", f"{DEPLOY}.job_id": "b"})
    found = compare(BASE, new)
    assert found.restart == (f"{DEPLOY}.image_name", "version")
    assert found.others == (LEVEL, f"{DEPLOY}.image_name", f"{DEPLOY}.job_id", "version")
    assert found


@given(TREES, TREES)
def test_comparing_is_symmetric_in_what_differs(one: Any, other: Any) -> None:
    old, new = {"x": one}, {"x": other}
    assert compare(old, new).others == compare(new, old).others
    assert not compare(old, json.loads(json.dumps(old)))


def test_the_white_list_as_a_whole() -> None:
    logging = [f"motor_{part}_config.logging_config.log_level" for part in ("controller", "coordinator", "nodemanger")]
    tls = ("enable_tls", "ca_file", "cert_file", "key_file", "passwd_file", "crl_file")
    retries = ("max_retry", "retry_delay", "first_token_timeout", "infer_timeout")
    timeouts = ("request_timeout", "connection_timeout", "read_timeout", "write_timeout", "keep_alive_timeout")
    assert {
        *logging,
        *(f"motor_deploy_config.tls_config.north_tls_config.{leaf}" for leaf in tls),
        *(f"north_config.{leaf}" for leaf in ("name", "ip", "port")),
        *(f"motor_controller_config.observability_config.{leaf}" for leaf in ("observability_enable", "metrics_ttl")),
        *(f"motor_coordinator_config.exception_config.{leaf}" for leaf in retries),
        *(f"motor_coordinator_config.timeout_config.{leaf}" for leaf in timeouts),
    } == UPDATABLE


LOG_LEVEL = {"motor_controller_config": {"logging_config": {"log_level": "DEBUG"}}}


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        ({}, {}),
        ({"a": {"b": [], "c": None, "d": {}}, "e": False, "f": 0, "g": ""}, {"e": False, "f": 0, "g": ""}),
        ({"a": 2.0, "b": [1.0, 1.5, {"c": 3.0}]}, {"a": 2, "b": [1, 1.5, {"c": 3}]}),
        ({"motor_deploy_config": {"p_instances_num": 2, "d_instances_num": 1, "job_id": "x"}}, {"motor_deploy_config": {"job_id": "x"}}),
        ({"motor_deploy_config": {"deploy_mode": "infer_service_set"}}, {}),
        ({"motor_deploy_config": {"deploy_mode": None}}, {}),
        ({"motor_deploy_config": {"deploy_mode": "multi_deployment"}}, {"motor_deploy_config": {"deploy_mode": "multi_deployment"}}),
        ({**LOG_LEVEL, "north_config": {"ip": "1.2.3.4", "other": 1}}, {"north_config": {"other": 1}}),
        ({"north_config": {"ip": {"a": 1}, "port": [1], "name": {}}}, {"north_config": {"ip": {"a": 1}, "port": [1]}}),
    ],
)
def test_what_pods_read_only_when_they_start(data: dict[str, Any], kept: dict[str, Any]) -> None:
    found = read_at_start(data)
    assert found == kept and json.dumps(found) == json.dumps(kept)
