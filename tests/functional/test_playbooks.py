# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks and roles, run as ansible-runner runs them: the main job, check mode, inventories of other tools, bad variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.functional.conftest import EXAMPLES, MODES, RELEASE, Driver
from tests.functional.test_adopt import made_by_the_deployer
from tests.support.playbooks import Outcome, PlaybookFailed, run, services


@pytest.fixture
def other_python(tmp_path: Path) -> str:
    """A folder whose python3 has none of the libraries: it cannot run a module at all."""
    for name in ("python3", "python"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\necho 'this is another python' >&2\nexit 97\n")
        program.chmod(0o755)
    return str(tmp_path)


class Site:
    """An inventory with one service, and its playbooks."""

    def __init__(self, driver: Driver, path: str, variables: dict[str, Any] | None = None) -> None:
        self.driver, self._path = driver, path
        self.variables: dict[str, Any] = variables or {
            "mindie_user_config_content": driver.config,
            "mindie_env": str(EXAMPLES / "configs" / MODES[driver.backend] / "env.json"),
            "mindie_release": str(RELEASE),
            "mindie_node_ports": "auto",
            "mindie_wait_timeout": 60,
        }

    def play(self, playbook: str, *, check: bool = False, **more: Any) -> Outcome:
        """Run a playbook of the collection through the counting proxy."""
        self.driver.proxy.clear()
        return run(playbook, services(one={**self.variables, **more}), self.driver.proxy.kubeconfig, check=check, path=self._path)

    def predicted_and_done(self, playbook: str, **more: Any) -> Outcome:
        """Check mode sends no mutating request and foretells the actions of the real run."""
        predicted = self.play(playbook, check=True, **more)
        assert self.driver.proxy.mutating() == []
        done = self.play(playbook, **more)
        assert predicted.actions == done.actions and done.actions
        return done


def test_every_playbook_and_role_with_another_python_first_on_path(driver: Driver, other_python: str) -> None:
    site = Site(driver, other_python)
    site.predicted_and_done("deploy")
    scaled = site.predicted_and_done("scale", mindie_instances={"prefill": 3, "decode": 1})
    assert scaled.service["counts"] == {"prefill": 3, "decode": 1}
    driver.config["motor_deploy_config"].update(p_instances_num=3)
    driver.config["motor_controller_config"]["logging_config"]["log_level"] = "DEBUG"
    site.predicted_and_done("update_config")
    for playbook in ("deploy", "scale", "update_config", "site"):
        assert site.play(playbook).actions == []
        assert driver.proxy.mutating() == [], f"an unchanged {playbook} writes nothing"
    site.predicted_and_done("site", mindie_state="absent")
    site.predicted_and_done("deploy")
    site.predicted_and_done("remove")
    assert driver.get("pods", "v1") == {}


def test_adopting_a_service_and_going_back_to_a_revision(on_deployments: Driver) -> None:
    driver = on_deployments
    made_by_the_deployer(driver)
    site = Site(driver, "")
    named = {"mindie_namespace": driver.namespace}
    site.variables = {**named, "mindie_wait_timeout": 60}
    adopted = site.predicted_and_done("adopt")
    assert [action["name"] for action in adopted.actions] == ["motor-config"]
    site.predicted_and_done("scale", mindie_instances={"prefill": 3, "decode": 1}, mindie_on_drift="fail", mindie_allow_during_fault=True)
    back = site.predicted_and_done("roll_back", mindie_revision=1, mindie_instances={"prefill": 9, "decode": 9})
    assert back.service["counts"] == {"prefill": 2, "decode": 1}
    with pytest.raises(PlaybookFailed, match="mindie_revision"):
        site.play("roll_back")


def test_one_run_over_several_services(on_deployments: Driver) -> None:
    driver = on_deployments
    second = driver.cluster.create_namespace(f"{driver.namespace}-second")
    site = Site(driver, "")
    hosts = {name: {**site.variables, "mindie_overrides": {"job_id": name}} for name in (driver.namespace, second)}
    outcome = run("deploy", services(**hosts), driver.proxy.kubeconfig)
    assert {result["service"]["namespace"] for result in outcome.results} == {driver.namespace, second}
    assert all(result["service"]["standing"] == "applied" for result in outcome.results)
    run("remove", services(**hosts), driver.proxy.kubeconfig)


ASCEND_DEPLOYER = """
[master]
10.10.10.1 ansible_ssh_user="root"
[worker]
10.10.10.2
10.10.10.3
[npu_node]
[hccn]
[hccn:vars]
gateways=""
[all:vars]
SCALE="false"
job_id="{namespace}"
p_instances_num=2
d_instances_num=1
single_p_instance_pod_num=1
single_d_instance_pod_num=1
max_seq_len=18000
mindie_user_config={examples}/configs/multi_deployment/user_config.json
mindie_env={examples}/configs/multi_deployment/env.json
mindie_release={examples}/release-2026-05
mindie_node_ports=auto
mindie_wait_timeout=60
"""


def test_an_inventory_of_ascend_deployer_works_as_it_is(on_deployments: Driver) -> None:
    driver = on_deployments
    inventory = ASCEND_DEPLOYER.format(namespace=driver.namespace, examples=EXAMPLES)
    deployed = run("deploy", inventory, driver.proxy.kubeconfig)
    assert deployed.service["namespace"] == driver.namespace and deployed.service["counts"] == {"prefill": 2, "decode": 1}
    more = inventory.replace("p_instances_num=2", "p_instances_num=3")
    assert run("scale", more, driver.proxy.kubeconfig).service["counts"] == {"prefill": 3, "decode": 1}
    driver.proxy.clear()
    assert run("site", more, driver.proxy.kubeconfig).actions == [] and driver.proxy.mutating() == []
    run("remove", more, driver.proxy.kubeconfig)
    assert driver.get("deployments") == {}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("10.10.10.2", "10.10.10.3-10.10.10.9 step_len=3"),
        ("10.10.10.2", "10.10.20.{1+1}"),
    ],
)
@pytest.mark.parametrize("playbook", ["deploy", "scale"])
def test_hosts_that_only_ascend_deployer_expands_are_refused(on_deployments: Driver, playbook: str, line: str, said: str) -> None:
    inventory = ASCEND_DEPLOYER.format(namespace=on_deployments.namespace, examples=EXAMPLES).replace(line, said)
    with pytest.raises(PlaybookFailed) as failed:
        run(playbook, inventory, on_deployments.proxy.kubeconfig)
    assert "worker" in str(failed.value) and said.split(" ")[0] in str(failed.value)
    assert on_deployments.proxy.requests == []


@pytest.mark.parametrize(
    ("playbook", "variables", "said"),
    [
        ("deploy", {"mindie_wait_timeout": "soon"}, "mindie_wait_timeout"),
        ("deploy", {"mindie_user_config_content": None}, "mindie_user_config"),
        ("scale", {"mindie_instances": {"prefill": "2.9", "decode": 1}}, "prefill"),
        ("scale", {"mindie_instances": {"prefill": 2, "decoder": 1}}, "decoder"),
        ("deploy", {"p_instances_num": "2.0"}, "p_instances_num"),
        ("remove", {"mindie_user_config_content": None}, "namespace"),
    ],
)
def test_a_bad_variable_is_named(on_deployments: Driver, playbook: str, variables: dict[str, Any], said: str) -> None:
    site = Site(on_deployments, "")
    site.variables = {name: value for name, value in {**site.variables, **variables}.items() if value is not None}
    with pytest.raises(PlaybookFailed) as failed:
        site.play(playbook)
    assert said in str(failed.value)
    assert on_deployments.proxy.mutating() == []
