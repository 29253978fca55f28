# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Large user configs: kept byte for byte, or refused with sizes before anything is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.functional.conftest import Driver
from tests.functional.test_modules import succeeded

KIB = 1024
DEPLOY = "motor_deploy_config"


def padded(config: dict[str, Any], size: int, **more: Any) -> str:
    """The config as a person may have written it, exactly `size` bytes long: odd spaces, escapes and letters of several bytes."""
    config = {**config, "notes": {"city": "\u6df1\u5733", "path": "a\\b\u2028", "rate": 0}, **more}
    text = json.dumps(config, indent=3, ensure_ascii=False).replace('"rate": 0', '"rate" : 1.50e+2 , "escaped":"\\u00e9\\/"')
    head, tail = text.rstrip()[:-1].rstrip() + ', "filler": "', '"\r\n}'
    left = size - len((head + tail).encode())
    return head + "\u00e4" * (left // 2) + "x" * (left % 2) + tail


def written(path: Path, text: str) -> str:
    path.write_bytes(text.encode())
    return str(path)


def stored(driver: Driver) -> str:
    text: str = driver.motor_config()["data"]["user_config.json"]
    return text


def test_a_user_config_of_300_kib_round_trips_byte_for_byte(driver: Driver, tmp_path: Path) -> None:
    text = padded(driver.config, 300 * KIB)
    assert len(text.encode()) == 300 * KIB
    succeeded(driver.deploy(user_config=written(tmp_path / "user_config.json", text), user_config_content=None, wait=False))
    assert stored(driver) == text
    scaled = succeeded(driver.scale(prefill=3, decode=1, wait=False))
    assert scaled["changed"] and stored(driver) == text.replace('"p_instances_num": 2', '"p_instances_num": 3')
    changed = stored(driver).replace('"log_level": "INFO"', '"log_level": "DEBUG"')
    assert changed != stored(driver)
    succeeded(driver.run("motor_config_baseline", user_config=written(tmp_path / "changed.json", changed)))
    assert stored(driver) == changed
    assert not succeeded(driver.deploy(user_config_content=changed, wait=False))["changed"]


@pytest.mark.parametrize("option", ["user_config", "user_config_content"])
@pytest.mark.parametrize("module", ["motor_service", "motor_instance_scale", "motor_config_baseline"])
def test_a_user_config_of_1_1_mib_is_refused_before_any_request(on_deployments: Driver, tmp_path: Path, module: str, option: str) -> None:
    size = 1126 * KIB
    text = padded(on_deployments.config, size)
    given = {
        "user_config": None,
        "user_config_content": None,
        option: written(tmp_path / "large", text) if option == "user_config" else text,
    }
    if module == "motor_service":
        failed = on_deployments.deploy(**given)
    else:
        instances = {"instances": {"prefill": 3, "decode": 1}} if module == "motor_instance_scale" else {}
        failed = on_deployments.run(module, **given, **instances)
    assert failed["failed"] and str(size) in failed["msg"] and str(1024 * KIB) in failed["msg"] and option in failed["msg"]
    assert on_deployments.proxy.requests == []


def test_a_user_config_that_only_with_the_scripts_is_too_large_is_refused_before_any_request(on_deployments: Driver) -> None:
    size = 1023 * KIB
    failed = on_deployments.deploy(user_config_content=padded(on_deployments.config, size))
    assert failed["failed"] and str(size) in failed["msg"] and "scripts" in failed["msg"] and str(1024 * KIB) in failed["msg"]
    assert on_deployments.proxy.requests == []


def test_an_update_that_only_with_the_scripts_is_too_large_writes_nothing(on_deployments: Driver) -> None:
    driver = on_deployments
    succeeded(driver.deploy(wait=False))
    before, filler = driver.motor_config(), "x" * (1023 * KIB - len(json.dumps(driver.config)) - 100)
    # The white list has the log level; the rest is as it was but for its length.
    config = driver.with_config("motor_controller_config", "logging_config", "log_level", value="DEBUG")
    failed = driver.run("motor_config_baseline", user_config_content=json.dumps(config) + " " * len(filler))
    assert failed["failed"] and "scripts" in failed["msg"] and str(1024 * KIB) in failed["msg"]
    assert driver.proxy.mutating() == [] and driver.motor_config() == before
