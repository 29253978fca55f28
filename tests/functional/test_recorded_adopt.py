# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every recorded state of Motor's own deployer is adopted as it is, or refused with what is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import json_reader, record
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import MotorError
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_adopt import plan_adopt
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot, service_state
from ansible_collections.ascend.mindie.plugins.module_utils._motor.stored import readable_config
from ansible_collections.ascend.mindie.plugins.module_utils._motor.user_config import parse

from . import recorded

if not recorded.UPSTREAM.is_dir():
    pytest.skip("needs ../shared (recorded cases of the deployer)", allow_module_level=True)

P_COUNT = "motor_deploy_config.p_instances_num"
# What is wrong with the states that are refused: reason and paths.
REFUSED = {
    # An apply failed halfway: the baseline says 3, two are live, with a hole.
    "f01-md-scale-out-apply-fails/step2-out-3p1d-p1-fails": ("Drift", [P_COUNT]),
    "f01-md-scale-out-apply-fails/step3-retry-same": ("Drift", [P_COUNT]),
    "jul-f02-md-scale-out-apply-fails/step2-out-3p1d-p1-fails": ("Drift", [P_COUNT]),
    "jul-f02-md-scale-out-apply-fails/step3-retry": ("Drift", [P_COUNT]),
    # Orphans: deployed again with fewer instances, nothing was deleted.
    "f12-redeploy-lower-count-md/step2-full-redeploy-1p1d": ("Drift", [P_COUNT]),
    # Scaled in from another machine: nothing was deleted, and the scripts have lost their environment.
    "s06-scale-md-in-fresh-client/step2-in-1p1d-fresh": ("BaselineDamaged", ["user_config.json"]),
    # Scaled although everything is in one container: an engine runs beside it.
    "s12-scale-single-container/step2-2p1d": ("OtherThanLive", ["motor_deploy_config.deploy_mode"]),
}
MENDABLE = sorted(name for name in REFUSED if not name.startswith("s12"))


def _snapshot(state: recorded.Recorded) -> Snapshot | None:
    """The recorded objects as the API server would show them, None where there is no user config that fits its hardware.

    Bodies of scripts are not recorded: they call what they should.
    """
    objects: dict[str, Any] = {name: {**obj, "kind": name.split("/")[0]} for name, obj in state.objects.items()}
    config_map = next((obj for obj in objects.values() if obj["kind"] == "ConfigMap"), None)
    if config_map is None:
        return None
    data = {key: _text(key, value) for key, value in config_map["data"].items()}
    config = readable_config({**config_map, "data": data})
    if config is None:
        return None
    mine = [obj for obj in objects.values() if obj["metadata"].get("namespace") == config.namespace]
    return Snapshot(
        config.namespace,
        config.backend,
        config.base_name,
        config_map={**config_map, "data": data},
        deployments=tuple(obj for obj in mine if obj["kind"] == "Deployment") if config.backend == "deployments" else (),
        infer_service_set=next((obj for obj in mine if obj["kind"] == "InferServiceSet"), None),
    )


def _text(key: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if "content" in value:
        return str(value["content"])
    functions = value.get("injected_functions") or {}
    bodies = "".join(f"function {name}() {{\n" + "\n".join(lines) + "\n}\n" for name, lines in functions.items())
    return bodies + ("set_common_env\n" if key == "common.sh" else "")


DEPLOYED = {name: shot for name, shot in ((name, _snapshot(state)) for name, state in sorted(recorded.states().items())) if shot}


@pytest.mark.parametrize("name", [name for name in DEPLOYED if name not in REFUSED])
def test_a_recorded_state_is_adopted_as_it_is(name: str) -> None:
    shot = DEPLOYED[name]
    plan = plan_adopt(shot, None, {})
    assert plan.record and not plan.steps and plan.data == shot.config_map["data"]


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_recorded_failure_is_refused_with_what_is_wrong(name: str) -> None:
    reason, paths = REFUSED[name]
    with pytest.raises(MotorError) as error:
        plan_adopt(DEPLOYED[name], None, {})
    found = error.value
    assert found.reason == reason and [*getattr(found, "paths", ()), getattr(found, "path", "")][: len(paths)] == paths


@pytest.mark.parametrize("name", MENDABLE)
def test_a_recorded_failure_is_adopted_with_config_and_live_counts(name: str) -> None:
    shot = DEPLOYED[name]
    config = parse(json_reader.read(recorded.states()[name].config, source="user_config"))
    live = service_state(shot).counts()
    plan = plan_adopt(shot, config, live)
    assert plan.counts == live and not plan.steps
    scripts = {key: text for key, text in (plan.data or {}).items() if key != record.USER_CONFIG_KEY}
    assert scripts == {key: text for key, text in shot.config_map["data"].items() if key != record.USER_CONFIG_KEY}
    after = record.with_applied(shot.config_map, plan.data or {}, plan.counts, at="now", by="me", run="1")
    assert record.standing(after) == record.APPLIED
    assert bool(plan.notices) == name.startswith("s06")
