# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of success: what it says, what it keeps, and what `motor-config` then tells of the service."""

from __future__ import annotations

import copy
import hashlib
import json
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import record

CONFIG, SCRIPT = '{"a": 1}', "#!/bin/sh\n"
DATA = {"user_config.json": CONFIG, "boot.sh": SCRIPT}
WHO = {"at": "2026-01-01T00:00:00Z", "by": "me@here", "run": "run-7"}
OURS = {
    "app.kubernetes.io/managed-by": "ascend.mindie",
    "app.kubernetes.io/part-of": "mindie-motor",
    "app.kubernetes.io/component": "config",
}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def motor_config(**metadata: Any) -> dict[str, Any]:
    return {"kind": "ConfigMap", "metadata": {"name": "motor-config", "resourceVersion": "3", **metadata}, "data": dict(DATA)}


def said(config_map: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(config_map["metadata"]["annotations"]["ascend.mindie/applied"])
    return found


def test_a_record_says_what_was_reached_by_whom_and_when() -> None:
    before = motor_config(labels={"team": "a"}, annotations={"note": "b"})
    untouched = copy.deepcopy(before)
    after = record.with_applied(before, DATA, {"prefill": 2}, **WHO, env_sha256="e", generation="g")
    assert before == untouched
    scripts = digest(json.dumps({"boot.sh": SCRIPT}))
    sha256 = {"config": digest(CONFIG), "scripts": scripts, "env": "e"}
    assert said(after) == {"sha256": sha256, "counts": {"prefill": 2}, "revision": 1, "generation": "g", **WHO}
    assert after["metadata"]["labels"] == {"team": "a", **OURS} and after["metadata"]["annotations"]["note"] == "b"
    assert after["metadata"]["resourceVersion"] == "3" and after["data"] == DATA
    text = after["metadata"]["annotations"]["ascend.mindie/applied"]
    assert text == json.dumps(json.loads(text), sort_keys=True), "the same record is always the same text"


def test_revisions_count_up_and_the_environment_is_kept() -> None:
    first = record.with_applied(motor_config(), DATA, {}, **WHO, env_sha256="e")
    second = record.with_applied(first, DATA, {}, **WHO)
    third = record.with_applied(second, DATA, {}, **WHO, env_sha256="f")
    assert [said(found)["revision"] for found in (first, second, third)] == [1, 2, 3]
    assert [said(found)["sha256"]["env"] for found in (first, second, third)] == ["e", "e", "f"]
    assert "env" not in said(record.with_applied(motor_config(), DATA, {}, **WHO))["sha256"]
    assert said(first)["generation"] == ""


def test_new_data_keep_the_old_record_which_no_longer_fits() -> None:
    applied = record.with_applied(motor_config(), DATA, {}, **WHO)
    assert record.standing(applied) == record.APPLIED == "applied"
    for other in ({**DATA, "user_config.json": "{}"}, {**DATA, "boot.sh": ""}, {**DATA, "more.sh": ""}):
        changed = record.with_data(applied, other)
        assert said(changed) == said(applied) and changed["data"] == other
        assert record.standing(changed) == record.UNFINISHED == "unfinished"


def test_what_motor_config_says_without_a_record() -> None:
    assert record.standing(None) == record.ABSENT == "absent"
    assert record.standing(motor_config()) == record.DEPLOYER == "deployer"
    assert record.standing(record.with_data(motor_config(), DATA)) == record.UNFINISHED
    assert record.with_data(motor_config(), DATA)["metadata"]["annotations"] == {}


def test_a_config_map_without_data_can_be_recorded() -> None:
    empty = {"kind": "ConfigMap", "metadata": {"name": "motor-config"}}
    assert record.standing(record.with_applied({**empty}, {}, {}, **WHO)) == record.APPLIED
    no_data = record.with_applied({**empty}, {}, {}, **WHO)
    no_data.pop("data")
    assert record.standing(no_data) == record.APPLIED


def test_a_record_without_digests_fits_nothing() -> None:
    annotations = {"ascend.mindie/applied": json.dumps({"revision": None})}
    found = motor_config(annotations=annotations)
    assert record.standing(found) == record.UNFINISHED
    assert said(record.with_applied(found, DATA, {}, **WHO))["revision"] == 1


@pytest.mark.parametrize("text", ["", "{", "[]", "1", "null"])
def test_a_record_that_cannot_be_read_is_none(text: str) -> None:
    found = motor_config(annotations={"ascend.mindie/applied": text, "ascend.mindie/intent": text})
    assert record.applied_of(found) is None and record.intent_of(found) is None


@pytest.mark.parametrize("found", [None, {}, {"metadata": {}}, {"metadata": {"annotations": None}}, {"metadata": {"annotations": {}}}])
def test_no_annotation_is_no_record(found: Any) -> None:
    assert record.applied_of(found) is None and record.intent_of(found) is None


def test_a_record_and_an_intent_are_told_apart() -> None:
    found = motor_config(annotations={"ascend.mindie/applied": '{"a": 1}', "ascend.mindie/intent": '{"b": 2}'})
    assert record.applied_of(found) == {"a": 1} and record.intent_of(found) == {"b": 2}


def test_scripts_are_fingerprinted_whatever_their_order() -> None:
    assert record.fingerprint({"a": "1", "b": "2"}) == record.fingerprint({"b": "2", "a": "1"})
    assert record.fingerprint({"a": "1"}) != record.fingerprint({"b": "1"})
    assert record.fingerprint({})["config"] == digest("")
