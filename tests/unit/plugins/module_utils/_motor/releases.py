# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sample releases and configurations of the project, and what tests render from them."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils import _inputs
from ansible_collections.ascend.mindie.plugins.module_utils._motor import json_reader
from ansible_collections.ascend.mindie.plugins.module_utils._motor.manifests.render import render
from ansible_collections.ascend.mindie.plugins.module_utils._motor.release import SHAPE_2026_05, SHAPE_2026_07, Release, understand
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rendered import Rendered
from ansible_collections.ascend.mindie.plugins.module_utils._motor.user_config import UserConfig, parse

EXAMPLES = Path(__file__).parents[5] / "examples"
SHAPES = (SHAPE_2026_05, SHAPE_2026_07)
NAMESPACE = "mindie-test"


@cache
def _read(shape: str) -> dict[str, object]:
    return _inputs.read_release(str(EXAMPLES / f"release-{shape}"))


def files(shape: str) -> dict[str, Any]:
    """The files of a release, as they are handed to `understand`."""
    return copy.deepcopy(_read(shape))


def release(shape: str) -> Release:
    """A whole release."""
    return understand(files(shape), source=f"release {shape}")


def config(sections: dict[str, Any] | None = None, **deploy: Any) -> UserConfig:
    """A small user config; `deploy` are values of `motor_deploy_config` (None removes one), `sections` come at the root."""
    values = {
        "p_instances_num": 2,
        "d_instances_num": 1,
        "single_p_instance_pod_num": 1,
        "single_d_instance_pod_num": 2,
        "p_pod_npu_num": 8,
        "d_pod_npu_num": 4,
        "image_name": "registry.example/motor:1",
        "job_id": NAMESPACE,
        "hardware_type": "800I_A3",
        "deploy_mode": "multi_deployment",
        **deploy,
    }
    data = {
        "motor_deploy_config": {key: value for key, value in values.items() if value is not None},
        "motor_engine_prefill_config": {"engine_type": "vllm"},
        **(sections or {}),
    }
    text = json.dumps({key: value for key, value in data.items() if value is not None})
    return parse(json_reader.read(text, source="user_config"))


def hybrid(**deploy: Any) -> UserConfig:
    """A user config of union instances."""
    gone = dict.fromkeys(("p_instances_num", "d_instances_num", "single_p_instance_pod_num", "single_d_instance_pod_num"))
    gone.update(p_pod_npu_num=None, d_pod_npu_num=None)
    sections = {"motor_engine_prefill_config": None, "motor_engine_union_config": {"engine_type": "vllm"}}
    return config(sections, **gone, hybrid_instances_num=2, single_hybrid_instance_pod_num=1, hybrid_pod_npu_num=2, **deploy)


def env(data: dict[str, Any]) -> json_reader.Document:
    """An env.json."""
    return json_reader.read(json.dumps(data), source="env")


def rendered(wanted: UserConfig, shape: str = SHAPE_2026_07, variables: dict[str, Any] | None = None, **options: Any) -> Rendered:
    """The objects of a service."""
    document = None if variables is None else env(variables)
    return render(wanted, document, release(shape), service_id="mindie-test_1", **options)


def objects(found: Rendered) -> dict[str, dict[str, Any]]:
    """Everything but `motor-config`, by `Kind name`."""
    everything = [*found.objects, *(instance[2] for instance in found.instances)]
    return {f"{obj['kind']} {obj['metadata']['name']}": obj for obj in everything}


def pod(obj: dict[str, Any], role: str | None = None) -> dict[str, Any]:
    """The pod template of a workload, or of a role of an InferServiceSet."""
    template: dict[str, Any] = roles(obj)[role]["spec"]["template"] if role else obj["spec"]["template"]
    return template


def roles(infer_service_set: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The roles of an InferServiceSet by name."""
    return {role["name"]: role for role in infer_service_set["spec"]["template"]["roles"]}


def variables(template: dict[str, Any]) -> dict[str, Any]:
    """The environment of the only container."""
    return {item["name"]: item.get("value") for item in template["spec"]["containers"][0]["env"]}
