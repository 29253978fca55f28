# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The history: what is kept of a record of success, what never is, and the way back."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import deployments, history, record, secrets, shell_environment
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import Refused
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_scale import plan_scale
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot
from ansible_collections.ascend.mindie.plugins.module_utils._motor.user_config import UserConfig, parse

from . import services

SECRET, TOKEN = "correct horse", 'to"ken $1'
CONFIG = services.user_config(api_key_config={"valid_keys": [SECRET, "two"]}, kv_url="redis://user:pass@host/1")
COMMON = {"A": "1", "HF_TOKEN": TOKEN, "ENGINE_TYPE": "vllm", "MODEL_NAME": "m", "NORTH_PLATFORM": None, "SERVICE_ID": "s"}
SCRIPTS = {
    "common.sh": shell_environment.function("set_common_env", COMMON) + "set_common_env\n",
    "engine.sh": shell_environment.function("set_prefill_env", {**COMMON, "B": 2}) + "set_prefill_env\n",
}
KEY = record.USER_CONFIG_KEY


def recorded(config: UserConfig = CONFIG, *, scripts: dict[str, str] | None = None, revision: int = 3, **fields: Any) -> Snapshot:
    """A service with this record of success."""
    shot = services.snapshot(config, services.running(prefill=2, decode=1))
    config_map = copy.deepcopy(dict(shot.config_map or {}))
    config_map["metadata"]["annotations"][record.APPLIED_ANNOTATION] = json.dumps({"revision": revision - 1})
    data = {KEY: config.text, **(SCRIPTS if scripts is None else scripts)}
    applied = record.with_applied(config_map, data, config.counts, at="2026-01-01T00:00:00Z", by="me", run="r")
    return replace(shot, config_map=applied, **fields)


def data_of(shot: Snapshot) -> dict[str, str]:
    return dict((shot.config_map or {})["data"])


def test_a_revision_says_what_who_when_and_why() -> None:
    kept = history.entry(recorded(), "scale: record the counts")
    assert (kept.name, kept.obj["revision"], kept.warning) == ("motor-3", 3, "")
    assert history.summary(kept.obj) == {
        "revision": 3,
        "at": "2026-01-01T00:00:00Z",
        "by": "me",
        "why": "scale: record the counts",
        "counts": {"prefill": 2, "decode": 1},
    }
    assert kept.obj["metadata"]["ownerReferences"][0]["uid"] == "cm", "it goes with the service"


@pytest.mark.parametrize(("revision", "gone"), [(10, None), (11, "motor-1"), (25, "motor-15")])
def test_the_last_ten_are_kept(revision: int, gone: str | None) -> None:
    assert history.entry(recorded(revision=revision), "").superseded == gone


def test_no_secret_is_kept() -> None:
    text = json.dumps(history.entry(recorded(), "").obj)
    for secret in (SECRET, '"two"', "user:pass", "ken $1"):
        assert secret not in text and json.dumps(secret)[1:-1] not in text
    assert secrets.digest(SECRET) in text and secrets.digest(TOKEN) in text


def test_a_secret_variable_of_a_workload_is_not_kept() -> None:
    shot = recorded()
    deployment = copy.deepcopy(shot.deployments[0])
    deployment["spec"]["template"]["spec"]["containers"][0]["env"].append({"name": "HF_TOKEN", "value": TOKEN})
    kept = history.entry(replace(shot, deployments=(deployment,)), "").obj
    assert "ken $1" not in json.dumps(kept)
    with pytest.raises(Refused) as refused:
        history.template(kept, "prefill")
    assert refused.value.paths == ("spec.template.spec.containers[vllm].env[HF_TOKEN].value",)


def test_the_config_comes_back_byte_for_byte() -> None:
    kept = history.entry(recorded(), "").obj
    later = services.user_config(prefill=5, api_key_config={"valid_keys": [SECRET, "two", "three"]}, kv_url="redis://user:pass@host/1")
    current = {**SCRIPTS, KEY: later.text}
    assert history.restored_config(kept, current).text == CONFIG.text
    assert parse(history.restored_config(kept, current)).counts == {"prefill": 2, "decode": 1}


def test_a_secret_that_changed_is_refused_with_its_path() -> None:
    kept = history.entry(recorded(), "").obj
    later = services.user_config(api_key_config={"valid_keys": ["changed", "two"]}, kv_url="redis://user:pass@host/1")
    with pytest.raises(Refused) as refused:
        history.restored_config(kept, {KEY: later.text})
    assert refused.value.reason == "SecretChanged" and refused.value.paths == ("api_key_config.valid_keys[0]",)
    assert SECRET not in str(refused.value)


def test_the_environment_comes_back_from_the_functions_in_the_scripts() -> None:
    kept = history.entry(recorded(), "").obj
    current = data_of(recorded())
    restored = history.restored_env(kept, current)
    assert restored is not None and restored.data == {
        "motor_common_env": {"A": "1", "HF_TOKEN": TOKEN},
        "motor_engine_prefill_env": {"B": 2},
    }
    assert history.same_env(kept, current)
    other = {"common.sh": shell_environment.function("set_common_env", {**COMMON, "A": "2"})}
    assert not history.same_env(kept, {**current, **other})
    without = history.entry(recorded(scripts={}), "").obj
    assert history.restored_env(without, current) is None and not history.same_env(without, current)


def test_a_changed_token_of_the_environment_is_refused() -> None:
    kept = history.entry(recorded(), "").obj
    with pytest.raises(Refused) as refused:
        history.restored_env(kept, {KEY: CONFIG.text})
    assert refused.value.paths == ("motor_common_env.HF_TOKEN",)


@pytest.mark.parametrize("value", ["", "plain", 'a"b`c\\d\\n$HOME', "line\nline\ttab\r", 3, 1.5, True, False, None, "\\", "\\\\t", "ünï"])
def test_every_value_of_a_variable_is_read_as_it_was_written(value: Any) -> None:
    assert shell_environment.read({"x.sh": shell_environment.function("set_common_env", {"V": value})}) == {
        "motor_common_env": {"V": value}
    }


@pytest.mark.parametrize("text", ["function set_common_env() {\n    export A=$(date)\n}\n", "function set_common_env() {\n  true\n}\n"])
def test_functions_that_no_deployer_wrote_are_not_read(text: str) -> None:
    assert shell_environment.read({"common.sh": text}) is None


def test_the_release_is_told_from_the_environment() -> None:
    current = data_of(recorded())
    other_env = {**current, "common.sh": shell_environment.function("set_common_env", {"A": "2"}) + "set_common_env\n"}
    assert history.release_digest(current) == history.release_digest(other_env)
    assert history.release_digest(current) != history.release_digest({**current, "engine.sh": "exec other\n"})


def test_a_history_that_would_be_too_large_is_kept_without_the_config() -> None:
    large = services.user_config(notes="x" * (history.MAX_BYTES + 1))
    kept = history.entry(recorded(large), "")
    assert kept.obj["data"]["config"] is None and "revision 3" in kept.warning
    assert len(json.dumps(kept.obj)) < history.MAX_BYTES
    with pytest.raises(Refused) as refused:
        history.restored_config(kept.obj, {})
    assert refused.value.reason == "NotKept"
    assert history.entry(recorded(services.user_config(notes="x" * 300_000)), "").warning == ""


def test_an_instance_without_sibling_is_copied_from_the_history() -> None:
    shot = recorded(services.user_config(prefill=2, decode=1))
    kept = history.entry(shot, "").obj
    config = services.user_config(prefill=2, decode=1)
    left = replace(shot, deployments=shot.deployments[2:], pods=())
    with pytest.raises(Refused) as refused:
        plan_scale(left, config, {"prefill": 2, "decode": 1})
    assert refused.value.reason == "NoSibling"
    (step,) = plan_scale(replace(left, revision=kept), config, {"prefill": 2, "decode": 1}).steps
    live = {deployment["metadata"]["name"]: deployment for deployment in shot.deployments}
    assert [write.name for write in step.writes] == ["vllm-p0", "vllm-p1"]
    for write in step.writes:
        assert write.body["spec"] == deployments.clone(live["vllm-p0"], shot, "prefill", int(write.name[-1]))["spec"]
        assert write.body["spec"] == live[write.name]["spec"]


def test_the_history_keeps_what_most_siblings_are_like() -> None:
    shot = recorded()
    odd = copy.deepcopy(shot.deployments[0])
    odd["spec"]["template"]["spec"]["containers"][0]["image"] = "odd"
    more = tuple(services.deployment("prefill", index) for index in (1, 2))
    kept = history.entry(replace(shot, deployments=(odd, *more)), "").obj
    assert history.template(kept, "prefill")["metadata"]["name"] == "vllm-p1"
    assert history.template(kept, "union") is None and history.template(None, "prefill") is None
    assert "uid" not in kept["data"]["templates"]["prefill"]["metadata"]
