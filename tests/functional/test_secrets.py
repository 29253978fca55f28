# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No secret reaches results, diffs, logs at -vvv, history, Events, the Lease or annotations; for every verb, also when it fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ansible_runner
import pytest
import yaml

from tests.functional.conftest import RELEASE, Driver
from tests.support.playbooks import services
from tests.tools.environment import environment

# Distinctive values under keys that are secret, one of each way to be so.
PASSWORD, API_KEY, TOKEN, IN_URL, IN_ENV = "zq-password-1x", "zq-api-key-2x", "zq-token-3x", "zq-in-url-4x", "zq-in-env-5x"


def with_secrets(driver: Driver) -> None:
    driver.config["north_config"] = {"name": "ccae", "password": PASSWORD, "endpoint": f"https://user:{IN_URL}@north.example"}
    coordinator = driver.config.setdefault("motor_coordinator_config", {})
    coordinator["api_key_config"] = {"enable_api_key": True, "valid_keys": [API_KEY]}
    driver.config["motor_controller_config"]["access_token"] = TOKEN
    driver.env.setdefault("motor_common_env", {})["HF_TOKEN"] = IN_ENV


class Site:
    """Playbooks at -vvv with --diff, as AWX runs them; keeps all that they print or store."""

    def __init__(self, driver: Driver, folder: Path, inline: bool) -> None:
        self._driver, self._folder, self._inline = driver, folder, inline
        self._runs = 0
        user = yaml.safe_load(Path(driver.proxy.kubeconfig).read_text())["users"][0]["user"]
        self.secrets = (PASSWORD, API_KEY, TOKEN, IN_URL, IN_ENV, user["token"])

    def variables(self) -> dict[str, Any]:
        given = {"mindie_release": str(RELEASE), "mindie_node_ports": "auto", "mindie_wait_timeout": 60}
        if self._inline:
            return {**given, "mindie_user_config_content": self._driver.config, "mindie_env_content": self._driver.env}
        for name, content in (("user_config", self._driver.config), ("env", self._driver.env)):
            path = self._folder / f"{name}.json"
            path.write_text(json.dumps(content))
            given[f"mindie_{name}"] = str(path)
        return given

    def play(self, playbook: str, *, fails: bool = False, check: bool = False, **more: Any) -> str:
        """Run a playbook; returns everything that it left behind."""
        self._runs += 1
        place = self._folder / f"run-{self._runs}"
        place.mkdir()
        done = ansible_runner.run(
            private_data_dir=str(place),
            playbook=f"ascend.mindie.{playbook}",
            inventory=services(one={**self.variables(), **more}),
            envvars={**environment(), "K8S_AUTH_KUBECONFIG": self._driver.proxy.kubeconfig},
            cmdline="--diff --check" if check else "--diff",
            verbosity=3,
            quiet=True,
        )
        assert (done.status == "failed") is fails, done.stdout.read()[-2000:]
        artifacts = [
            file.read_text(errors="replace")
            for file in (place / "artifacts").rglob("*")
            if file.is_file() and "fact_cache" not in str(file)
        ]
        return "\n".join(text for text in artifacts if text)

    def stored(self) -> str:
        """What the cluster holds besides the data of motor-config and the pods' own view of it."""
        kinds = (("events", "v1"), ("leases", "coordination.k8s.io/v1"), ("controllerrevisions", "apps/v1"), ("configmaps", "v1"))
        found = {kind: self._driver.get(kind, api) for kind, api in kinds}
        for config_map in found["configmaps"].values():
            config_map.pop("data", None)
        return json.dumps(found)

    def leaks(self, text: str) -> Iterator[str]:
        """Lines with a secret in them."""
        for line in text.splitlines():
            if any(secret in line for secret in self.secrets):
                where = min(line.find(secret) for secret in self.secrets if secret in line)
                yield line[max(0, where - 150) : where + 50]


@pytest.mark.parametrize("inline", [False, True], ids=["files", "inventory"])
def test_no_secret_in_anything_that_a_playbook_leaves_behind(on_deployments: Driver, tmp_path: Path, inline: bool) -> None:
    driver = on_deployments
    with_secrets(driver)
    site = Site(driver, tmp_path, inline)
    left = {"deploy, foretold": site.play("deploy", check=True), "deploy": site.play("deploy")}
    assert PASSWORD in json.dumps(driver.motor_config()["data"]), "the secret is there to be leaked"
    left["scale"] = site.play("scale", mindie_instances={"prefill": 3, "decode": 1})
    driver.config["motor_deploy_config"]["p_instances_num"] = 3
    driver.config["motor_controller_config"]["logging_config"]["log_level"] = "DEBUG"
    left["update_config"] = site.play("update_config")
    driver.config["north_config"]["password"] = f"{PASSWORD}-changed"
    left["a changed secret"] = site.play("update_config", fails=True)
    driver.config["motor_deploy_config"]["image_name"] = ""
    left["a bad config"] = site.play("deploy", fails=True)
    left["the cluster"] = site.stored()
    driver.config["motor_deploy_config"]["image_name"] = "registry.example/motor:1"
    left["remove"] = site.play("remove")
    found = {what: next(site.leaks(text), None) for what, text in left.items()}
    assert not {what: line for what, line in found.items() if line}


def test_info_modules_show_no_secret(on_deployments: Driver) -> None:
    driver = on_deployments
    with_secrets(driver)
    assert not driver.deploy(wait=False).get("failed")
    for module in ("motor_service_info", "motor_config_baseline_info"):
        result = driver.run(module, namespace=driver.namespace)
        assert not result.get("failed") and not [
            secret for secret in (PASSWORD, API_KEY, TOKEN, IN_URL, IN_ENV) if secret in json.dumps(result)
        ]
