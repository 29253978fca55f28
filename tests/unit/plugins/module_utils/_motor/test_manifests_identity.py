# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""JOB_NAME, label job-name and SERVICE_ID: new for what is new, kept on what exists."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor.compare import differences
from ansible_collections.ascend.mindie.plugins.module_utils._motor.manifests.identity import keep_identity, service_id_of

from . import releases
from .releases import config, objects, pod, rendered, variables


def job_names(**deploy: Any) -> list[str]:
    return [obj["metadata"]["labels"]["job-name"] for _role, _index, obj in rendered(config(**deploy)).instances]


def test_the_job_name_of_an_engine() -> None:
    names = job_names()
    assert [name[:-8] for name in names] == [f"{releases.NAMESPACE}-{where}-" for where in ("p0", "p1", "d0")]
    assert all(re.fullmatch(r"[0-9a-f]{8}", name[-8:]) for name in names)
    instance = rendered(config()).instances[0][2]
    assert variables(pod(instance))["JOB_NAME"] == names[0]


def test_siblings_share_a_generation_and_counts_do_not_change_it() -> None:
    first, second, decode = (name[-8:] for name in job_names())
    assert first == second != decode
    assert [name[-8:] for name in job_names(p_instances_num=1, d_instances_num=2)] == [first, decode, decode]


@pytest.mark.parametrize(
    "changed", [{"image_name": "motor:2"}, {"p_pod_npu_num": 4}, {"weight_mount_path": "/w"}, {"hardware_type": "800I_A2"}]
)
def test_another_specification_is_another_generation(changed: dict[str, Any]) -> None:
    assert job_names(**changed)[0] != job_names()[0]


def test_a_live_deployment_keeps_its_names() -> None:
    made = objects(rendered(config()))["Deployment vllm-p0"]
    live = copy.deepcopy(made)
    live["metadata"]["labels"]["job-name"] = "old"
    next(item for item in pod(live)["spec"]["containers"][0]["env"] if item["name"] == "JOB_NAME")["value"] = "old"
    before = copy.deepcopy(made)
    kept = keep_identity(made, live)
    assert made == before
    assert kept["metadata"]["labels"]["job-name"] == "old"
    assert variables(pod(kept))["JOB_NAME"] == "old"
    assert differences(kept, live) == ()
    assert "metadata.labels.job-name" in differences(made, live)
    assert kept["metadata"]["labels"]["app"] == "vllm-p0"


def test_a_label_that_a_live_deployment_does_not_have_is_not_added() -> None:
    made = objects(rendered(config()))["Deployment vllm-p0"]
    live = copy.deepcopy(made)
    del live["metadata"]["labels"]
    assert "job-name" not in keep_identity(made, live)["metadata"]["labels"]


def test_containers_and_roles_that_are_not_live_keep_the_rendered_names() -> None:
    made = objects(rendered(config()))["Deployment vllm-p0"]
    live = copy.deepcopy(made)
    pod(live)["spec"]["containers"][0]["name"] = "other"
    assert variables(pod(keep_identity(made, live)))["JOB_NAME"] == variables(pod(made))["JOB_NAME"]
    service_set = objects(rendered(config(deploy_mode="infer_service_set")))["InferServiceSet vllm"]
    live = copy.deepcopy(service_set)
    live["spec"]["template"]["roles"] = [{"name": "router"}, *live["spec"]["template"]["roles"][1:]]
    variables_of = live["spec"]["template"]["roles"][1]["spec"]["template"]["spec"]["containers"][0]["env"]
    next(item for item in variables_of if item["name"] == "JOB_NAME")["value"] = "old"
    kept = keep_identity(service_set, live)
    assert variables(pod(kept, "coordinator"))["JOB_NAME"] == "old"
    assert variables(pod(kept, "controller"))["JOB_NAME"] == f"{releases.NAMESPACE}-controller"


def test_objects_without_pods_are_left_as_they_are() -> None:
    for name, obj in objects(rendered(config())).items():
        if not name.startswith("Deployment"):
            assert keep_identity(obj, obj) == obj


def test_service_id() -> None:
    assert service_id_of(rendered(config()).config_map) == "mindie-test_1"
    assert service_id_of(None) is None
    assert service_id_of({}) is None
    assert service_id_of({"data": {"common.sh": "export SERVICE_ID=\n"}}) is None
