# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`motor-config`: the user config as it is, and scripts with the environment in them."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import shell_environment
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError
from ansible_collections.ascend.mindie.plugins.module_utils._motor.manifests.render import render
from ansible_collections.ascend.mindie.plugins.module_utils._motor.release import SCRIPTS, SHAPE_2026_05, SHAPE_2026_07, understand

from . import releases
from .releases import config, hybrid, rendered

MULTI = {
    "motor_engine_prefill_config": {"engine_type": "vllm", "engine_config": {"kv_transfer_config": {"kv_connector": "MultiConnector"}}}
}
POOL = {"kv_cache_pool_config": {"eviction_high_watermark_ratio": 0.9, "eviction_ratio": 0.1}}
CONDUCTOR = {"kv_conductor_config": {"http_server_port": 13333}}


def data(wanted: Any, shape: str = SHAPE_2026_07, variables: dict[str, Any] | None = None) -> dict[str, str]:
    found: dict[str, str] = rendered(wanted, shape, variables).config_map["data"]
    return found


def lines(script: str, function: str) -> list[str]:
    """The lines of a function in a script."""
    body = script[script.index(f"function {function}() {{\n") :]
    return [line.strip() for line in body[: body.index("\n}\n")].splitlines()[1:]]


@pytest.mark.parametrize("shape", releases.SHAPES)
def test_keys_and_user_config(shape: str) -> None:
    wanted = config()
    found = rendered(wanted, shape).config_map
    assert sorted(found["data"]) == sorted([*SCRIPTS[shape], "user_config.json"])
    assert found["data"]["user_config.json"] == wanted.text
    assert (found["metadata"]["name"], found["metadata"]["namespace"]) == ("motor-config", releases.NAMESPACE)
    assert found["metadata"]["labels"]["app.kubernetes.io/component"] == "config"


FUNCTIONS = {
    "common.sh": ["set_common_env"],
    "controller.sh": ["set_controller_env"],
    "coordinator.sh": ["set_coordinator_env"],
    "kv_conductor.sh": ["set_kv_conductor_env"],
    "mf_store.sh": ["set_mf_store_env"],
}
OF_SHAPE = {
    SHAPE_2026_05: {"engine.sh": ["set_prefill_env", "set_decode_env"], "kv_pool.sh": ["set_kv_pool_env"]},
    SHAPE_2026_07: {
        "engine.sh": ["set_prefill_env", "set_decode_env", "set_encode_env", "set_union_env"],
        "kv_cache_store.sh": ["set_kv_store_env"],
    },
}


@pytest.mark.parametrize("shape", releases.SHAPES)
def test_functions_are_in_the_scripts_that_call_them(shape: str) -> None:
    found = data(config(), shape)
    for script, functions in {**FUNCTIONS, **OF_SHAPE[shape]}.items():
        for function in functions:
            assert lines(found[script], function)[-1] == 'export SERVICE_ID="mindie-test_1"'


@pytest.mark.parametrize("shape", releases.SHAPES)
def test_one_script_plays_all_roles_in_a_single_container(shape: str) -> None:
    found = data(config(deploy_mode="single_container"), shape)
    everything = found["all_combine_in_single_container.sh"]
    for script, functions in {**FUNCTIONS, **OF_SHAPE[shape]}.items():
        for function in functions:
            apart = script in ("common.sh", "mf_store.sh")
            assert (f"function {function}()" in found[script]) == apart
            assert (f"function {function}()" in everything) != apart


def test_variables_in_their_order() -> None:
    given = {
        "motor_common_env": {"A": "1", "B": "2", "SERVICE_ID": "mine"},
        "motor_controller_env": {"C": 3, "B": "own"},
        "motor_engine_prefill_env": {"OMP": False, "RATIO": 0.5, "NOTHING": None},
    }
    found = data(config({"north_config": {"name": "ccae"}}), variables=given)
    deployers = ['export ENGINE_TYPE="vllm"', 'export MODEL_NAME="Unknown"', 'export NORTH_PLATFORM="ccae"']
    common = ['export A="1"', 'export B="2"', 'export SERVICE_ID="mindie-test_1"', *deployers]
    assert lines(found["common.sh"], "set_common_env") == common
    own = [line.replace('B="2"', 'B="own"') for line in common]
    assert lines(found["controller.sh"], "set_controller_env") == [*own, "export C=3"]
    prefill = [*common, "export OMP=False", "export RATIO=0.5", "export NOTHING=None"]
    assert lines(found["engine.sh"], "set_prefill_env") == prefill
    assert lines(found["engine.sh"], "set_union_env") == prefill
    assert lines(found["engine.sh"], "set_decode_env") == common


def test_union_engines_may_have_an_environment_of_their_own() -> None:
    found = data(hybrid(), variables={"motor_engine_prefill_env": {"A": 1}, "motor_engine_union_env": {"B": 2}})
    assert lines(found["engine.sh"], "set_union_env")[-1] == "export B=2"


@pytest.mark.parametrize(
    ("section", "name"),
    [
        ({"engine_config": {"served_model_name": "new"}, "model_config": {"model_name": "old"}}, "new"),
        ({"engine_config": {"served-model-name": "dashed"}}, "dashed"),
        ({"model_config": {"model_name": "old"}}, "old"),
        ({"model_config": {}}, "Unknown"),
    ],
)
def test_the_model_s_name(section: dict[str, Any], name: str) -> None:
    found = data(config({"motor_engine_prefill_config": {"engine_type": "vllm", **section}}))
    assert f'export MODEL_NAME="{name}"' in lines(found["common.sh"], "set_common_env")


def test_without_engine_type_and_north_platform() -> None:
    found = lines(data(config({"motor_engine_prefill_config": {}}))["common.sh"], "set_common_env")
    assert found[0] == 'export ENGINE_TYPE="Unknown"'
    assert "export NORTH_PLATFORM=None" in found


def test_the_text_of_a_function() -> None:
    assert shell_environment.function("set_x_env", {"A": "b", "C": 1}) == 'function set_x_env() {\n    export A="b"\n    export C=1\n}\n'


def test_a_function_stands_in_front_of_a_script_or_replaces_its_older_self() -> None:
    old, new = shell_environment.function("set_x_env", {"A": "old"}), shell_environment.function("set_x_env", {"A": "new", "B": "\n}\n"})
    assert shell_environment.inject("#!/bin/bash\nset_x_env\n", "set_x_env", new) == f"{new}#!/bin/bash\nset_x_env\n"
    assert shell_environment.inject(f"#!/bin/bash\n{old}set_x_env\n", "set_x_env", new) == f"#!/bin/bash\n{new}set_x_env\n"
    assert shell_environment.inject(old.rstrip("\n"), "set_x_env", new) == new
    assert shell_environment.inject("function set_x_env() {\n  broken\n", "set_x_env", new).startswith(new)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("value", ["plain", 'with "quotes"', "back\\slash", "`id`", "a b;c&d|e", "'single'", ""])
def test_the_shell_reads_a_value_back(value: str) -> None:
    script = shell_environment.function("set_x_env", {"VALUE": value}) + 'set_x_env\nprintf %s "$VALUE"\n'
    assert subprocess.run(["bash", "-c", script], capture_output=True, check=True, text=True).stdout == value


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_shell_evaluates_dollars() -> None:
    script = shell_environment.function("set_x_env", {"VALUE": "$HOME and $(echo command)"}) + 'set_x_env\nprintf %s "$VALUE"\n'
    found = subprocess.run(["bash", "-c", script], capture_output=True, check=True, text=True, env={"HOME": "/h", "PATH": "/bin:/usr/bin"})
    assert found.stdout == "/h and command"


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"motor_common_env": []}, ""),
        ({"motor_common_env": ["a"]}, "motor_common_env"),
        ({"motor_controller_env": {"A": [1]}}, "motor_controller_env.A"),
        ({"motor_controller_env": {"A": {}}}, "motor_controller_env.A"),
        ({"motor_common_env": {"A-B": "1"}}, "motor_common_env.A-B"),
        ({"motor_common_env": {"A; rm": "1"}}, 'motor_common_env["A; rm"]'),
        ({"motor_common_env": {"1A": "1"}}, 'motor_common_env["1A"]'),
        ({"another_section": [], "motor_common_env": None}, ""),
    ],
)
def test_what_no_shell_variable_can_be_is_refused(given: dict[str, Any], path: str) -> None:
    if not path:
        assert data(config(), variables=given)
        return
    with pytest.raises(InputError) as caught:
        data(config(), variables=given)
    assert (caught.value.source, caught.value.path, caught.value.line) == ("env", path, 1)


def test_vllm_is_patched_with_kv_pool_and_conductor_of_2026_05_only() -> None:
    both = {**MULTI, **POOL, **CONDUCTOR}
    assert data(config(both), SHAPE_2026_05)["boot.sh"].startswith("# patch_begin\n")
    assert "# patch_begin" not in data(config({**MULTI, **POOL}), SHAPE_2026_05)["boot.sh"]
    assert "# patch_begin" not in data(config(CONDUCTOR), SHAPE_2026_05)["boot.sh"]
    assert "# patch_begin" not in data(config(both), SHAPE_2026_07)["boot.sh"]


def test_a_patch_that_a_deployer_left_in_the_release_goes() -> None:
    files = releases.files(SHAPE_2026_05)
    clean = files["startup/boot.sh"]
    files["startup/boot.sh"] = f"# patch_begin\npatch something\n# patch_end\n{clean}"
    found = render(config(), None, understand(files), service_id="a").config_map["data"]["boot.sh"]
    assert found == clean
