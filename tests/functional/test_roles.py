# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles in a user's own playbook, run by ansible-playbook: connection from module_defaults or variables, results; their documents."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.functional.conftest import EXAMPLES, RELEASE, Driver
from tests.tools.environment import ROOT, VENV, environment

ROLES = (
    "motor_deploy",
    "motor_scale",
    "motor_update_config",
    "motor_adopt",
    "motor_remove",
    "motor_rescheduling_watcher",
    "motor_autoscale",
)


def play(roles: list[str], variables: dict[str, Any], after: list[dict[str, Any]], **keywords: Any) -> dict[str, Any]:
    """A play of a user: roles, then tasks that look at what they left."""
    return {
        "name": "Try roles",
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars": {"ansible_python_interpreter": "{{ ansible_playbook_python }}", **variables},
        "roles": [{"role": f"ascend.mindie.{role}"} for role in roles],
        "post_tasks": after,
        **keywords,
    }


def ansible_playbook(folder: Path, *plays: dict[str, Any], inventory: str = "localhost,") -> subprocess.CompletedProcess[str]:
    """Run plays with ansible-playbook, with nothing in the environment that says where a cluster is."""
    book = folder / "play.yml"
    book.write_text(json.dumps(plays))
    command = [str(VENV / "bin" / "ansible-playbook"), "-i", inventory, str(book)]
    settings = {**environment(), "ANSIBLE_NOCOLOR": "1", "HOME": str(folder)}
    return subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, check=False, timeout=120)


def holds(*conditions: str) -> list[dict[str, Any]]:
    return [{"name": "Look at the results", "ansible.builtin.assert": {"that": list(conditions)}}]


def test_roles_leave_results_and_take_the_connection_from_module_defaults_or_variables(on_deployments: Driver, tmp_path: Path) -> None:
    driver = on_deployments
    wanted = {
        "mindie_user_config_content": driver.config,
        "mindie_env": str(EXAMPLES / "configs" / "multi_deployment" / "env.json"),
        "mindie_release": str(RELEASE),
        "mindie_node_ports": "auto",
        "mindie_wait_timeout": 60,
        "mindie_unschedulable_timeout": 50,
        "mindie_on_failure": "rollback",
    }
    named = {"mindie_namespace": driver.namespace, "mindie_instances": {"prefill": 1, "decode": 1}}
    # One of two ways for each play; the other one is left out and must not hide the first.
    defaults = {"module_defaults": {"group/ascend.mindie.motor": {"kubeconfig": driver.proxy.kubeconfig}}}
    variables = {"mindie_kubeconfig": driver.proxy.kubeconfig, "mindie_context": "test"}
    done = ansible_playbook(
        tmp_path,
        play(
            ["motor_deploy"],
            wanted,
            holds("motor_deploy_result is changed", "motor_deploy_result.service.counts == {'prefill': 2, 'decode': 1}"),
            **defaults,
        ),
        play(
            ["motor_scale"],
            {**named, **variables, "mindie_on_failure": "rollback", "mindie_unschedulable_timeout": 50},
            holds("motor_scale_result.actions | map(attribute='name') | list == ['vllm-p1', 'motor-config']"),
        ),
        play(["motor_update_config"], {**wanted, **named}, holds("motor_update_config_result is not changed"), **defaults),
        play(["motor_remove"], {**named, **variables}, holds("motor_remove_result.service.standing == 'absent'")),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert driver.get("deployments") == {} and driver.get("pods", "v1") == {}


@pytest.mark.parametrize("role", ROLES)
def test_readme_and_argument_specs_say_the_same(role: str) -> None:
    folder = ROOT / "roles" / role
    specs = yaml.safe_load((folder / "meta" / "argument_specs.yml").read_text())["argument_specs"]
    rows = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", (folder / "README.md").read_text(), flags=re.MULTILINE))
    # Of all entry points; that of motor_deploy for other roles has options of the main one.
    assert rows == {name: option["type"] for entry in specs.values() for name, option in entry["options"].items()}
    used = "".join(path.read_text() for part in ("tasks", "vars") for path in sorted((folder / part).glob("*.yml")))
    inventory = set(
        yaml.safe_load((ROOT / "roles/motor_deploy/meta/argument_specs.yml").read_text())["argument_specs"]["inventory"]["options"]
    )
    assert set(re.findall(r"\bmindie_\w+", used)) - inventory <= set(rows)
    assert {name for name in rows if name not in inventory} <= set(re.findall(r"\bmindie_\w+", used))
