# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Job templates become AscendJobs as MindCluster asks for them; what is the user's stays; what cannot work is refused with its path."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.ascend.mindie.plugins.module_utils._motor import json_reader
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError
from ansible_collections.ascend.mindie.plugins.module_utils._motor.job_settings import ANNOTATION, DEFAULTS, JobSettings
from ansible_collections.ascend.mindie.plugins.module_utils._motor.manifests.ascend_jobs import ROLES, render_jobs, template
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rank_tables import rank_table
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rendered import Rendered
from ansible_collections.ascend.mindie.plugins.module_utils._motor.user_config import UserConfig, parse

EXAMPLES = Path(__file__).parents[5] / "examples" / "ascend_jobs"
CONFIG = json.loads((EXAMPLES / "user_config.json").read_text())


def documents(role: str) -> list[Any]:
    return list(yaml.safe_load_all((EXAMPLES / f"{role}.yaml").read_text()))


def config(**keys: Any) -> UserConfig:
    section = {**CONFIG["motor_deploy_config"], **keys}
    found = {"motor_deploy_config": {key: value for key, value in section.items() if value is not None}}
    return parse(json_reader.from_mapping(found, "user_config"))


def rendered(given: UserConfig, settings: JobSettings = DEFAULTS, *, super_pod: bool | None = None, **changed: list[Any]) -> Rendered:
    templates = {role: template(changed.get(role) or documents(role), role) for role in ROLES}
    return render_jobs(given, templates, settings, super_pod=super_pod)


def jobs(found: Rendered) -> dict[str, dict[str, Any]]:
    return {job["metadata"]["name"]: job for _role, _index, job in found.instances}


def test_every_instance_is_a_job_with_what_operator_and_scheduler_ask_for() -> None:
    found = jobs(rendered(config()))
    assert list(found) == ["mindie-server-p0", "mindie-server-p1", "mindie-server-d0"]
    metadata = found["mindie-server-p1"]["metadata"]
    expected = {
        "framework": "pytorch",
        "app": "mindie-ms-server",
        "jobID": "mindie",
        "ring-controller.atlas": "ascend-910b",
        "fault-scheduling": "force",
        "fault-retry-times": "10000",
        "mind-cluster/scaling-rule": "scaling-rule",
        "mind-cluster/group-name": "group0",
    }
    assert expected.items() <= metadata["labels"].items() and metadata["namespace"] == "mindie"
    assert metadata["annotations"] == {"huawei.com/schedule_policy": "chip8-node8"}
    spec = found["mindie-server-p1"]["spec"]
    assert (spec["schedulerName"], spec["successPolicy"]) == ("volcano", "AllWorkers")
    assert spec["runPolicy"]["schedulingPolicy"] == {"queue": "default", "minAvailable": 1}
    pod = spec["replicaSpecs"]["Master"]["template"]
    assert pod["metadata"]["labels"] == {"app": "mindie-ms-server", "jobID": "mindie", "ring-controller.atlas": "ascend-910b"}
    resources = pod["spec"]["containers"][0]["resources"]
    assert resources["requests"]["huawei.com/Ascend910"] == resources["limits"]["huawei.com/Ascend910"] == 8
    assert resources["requests"]["memory"] == "64Gi"
    assert pod["spec"]["volumes"][0]["configMap"]["name"] == "rings-config-mindie-server-p1"
    assert found["mindie-server-d0"]["metadata"]["labels"]["mind-cluster/group-name"] == "group1"


def test_an_instance_of_three_pods_has_a_master_and_two_workers_alike() -> None:
    spec = jobs(rendered(config(single_p_instance_pod_num=3)))["mindie-server-p0"]["spec"]
    kinds = spec["replicaSpecs"]
    assert (kinds["Master"]["replicas"], kinds["Worker"]["replicas"]) == (1, 2)
    assert kinds["Master"]["template"] == kinds["Worker"]["template"] and kinds["Master"]["template"] is not kinds["Worker"]["template"]
    assert spec["runPolicy"]["schedulingPolicy"]["minAvailable"] == 3


def test_workers_of_the_template_stay_and_count_what_the_config_says() -> None:
    changed = documents("prefill")
    changed[0]["spec"]["replicaSpecs"]["Worker"] = {**copy.deepcopy(changed[0]["spec"]["replicaSpecs"]["Master"]), "replicas": 7}
    spec = jobs(rendered(config(), prefill=changed))["mindie-server-p0"]["spec"]
    assert spec["replicaSpecs"]["Worker"]["replicas"] == 0


@pytest.mark.parametrize(
    ("asked", "super_pod", "policy", "block"),
    [
        ({}, None, "chip2-node16", None),
        ({}, True, "chip2-node16-sp", "32"),
        ({"sp-block": "384"}, None, "chip2-node16-sp", "32"),
        ({"huawei.com/schedule_policy": "chip2-node16-sp"}, None, "chip2-node16-sp", "32"),
        ({"sp-block": "384"}, False, "chip2-node16", None),
    ],
)
def test_a3_servers_are_scheduled_by_super_pods_where_that_is_asked_for(
    asked: dict[str, str], super_pod: bool | None, policy: str, block: str | None
) -> None:
    changed = documents("prefill")
    changed[0]["metadata"]["annotations"] = asked
    given = config(hardware_type="800I_A3", single_p_instance_pod_num=2, p_pod_npu_num=16, d_pod_npu_num=16)
    annotations = jobs(rendered(given, super_pod=super_pod, prefill=changed))["mindie-server-p0"]["metadata"]["annotations"]
    assert (annotations["huawei.com/schedule_policy"], annotations.get("sp-block")) == (policy, block)


def test_a2_servers_never_have_super_pods() -> None:
    changed = documents("prefill")
    changed[0]["metadata"]["annotations"] = {"sp-block": "16", "mine": "stays"}
    annotations = jobs(rendered(config(), super_pod=True, prefill=changed))["mindie-server-p0"]["metadata"]["annotations"]
    assert annotations == {"huawei.com/schedule_policy": "chip8-node8", "mine": "stays"}


def test_control_jobs_have_no_rule_and_no_npus() -> None:
    controls = {obj["metadata"]["name"]: obj for obj in rendered(config()).objects if obj["kind"] == "AscendJob"}
    assert list(controls) == ["mindie-ms-controller", "mindie-ms-coordinator"]
    for job in controls.values():
        assert "mind-cluster/scaling-rule" not in job["metadata"]["labels"] and job["metadata"]["labels"]["jobID"] == "mindie"
        assert "Ascend910" not in json.dumps(job)


def test_services_of_a_template_come_along_in_the_namespace() -> None:
    (service,) = [obj for obj in rendered(config()).objects if obj["kind"] == "Service"]
    assert (service["metadata"]["namespace"], service["metadata"]["name"]) == ("mindie", "mindie-ms-infer")
    assert service["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "ascend.mindie"


def test_the_baseline_is_the_config_and_says_how_jobs_are_named() -> None:
    settings = JobSettings("rule", {"prefill": "a", "decode": "b"}, "chat")
    given = config()
    found = rendered(given, settings).config_map
    assert found["data"] == {"user_config.json": given.text}
    assert found["metadata"]["annotations"] == {ANNOTATION: settings.annotation()}


def test_a_rank_table_has_exactly_one_of_the_labels_that_clusterd_demands() -> None:
    for (role, _index, job), value in zip(rendered(config()).instances, ("2", "2", "1"), strict=True):
        table = rank_table(job, role)
        assert table["metadata"]["name"] == f"rings-config-{job['metadata']['name']}"
        labels = table["metadata"]["labels"]
        assert labels["grt-group/deploy-server"] == value and "grt-server/deploy-server" not in labels
        assert labels["mx-consumer-cim"] == "true" and labels["jobID"] == "mindie"
        assert json.loads(table["data"]["hccl.json"]) == {"status": "initializing"}


def test_a_template_is_not_changed_by_rendering() -> None:
    given = {role: documents(role) for role in ROLES}
    before = copy.deepcopy(given)
    rendered(config(), **given)
    assert given == before


def other(role: str, *path: Any, value: Any) -> list[Any]:
    found = documents(role)
    target: Any = found
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return found


MASTER = (0, "spec", "replicaSpecs", "Master")
WRONG = {
    "no job": (lambda: documents("coordinator")[1:], "0 documents of kind AscendJob", ""),
    "two jobs": (lambda: documents("prefill") * 2, "2 documents of kind AscendJob", ""),
    "another kind": (lambda: [*documents("prefill"), {"kind": "Pod", "metadata": {"name": "x"}}], "no objects of kind Pod", "kind"),
    "no manifest": (lambda: [{"kind": "AscendJob"}], "no manifest", ""),
    "another version": (lambda: other("prefill", 0, "apiVersion", value="v1"), "mindxdl.gitee.com/v1", "apiVersion"),
    "no master": (lambda: other("prefill", 0, "spec", "replicaSpecs", value={}), "missing", "spec.replicaSpecs.Master"),
    "a chief": (lambda: other("prefill", 0, "spec", "replicaSpecs", "Chief", value={}), "Master and Worker", "spec.replicaSpecs.Chief"),
    "no container": (
        lambda: other("prefill", *MASTER, "template", "spec", "containers", 0, "name", value="server"),
        "container called ascend",
        "spec.replicaSpecs.Master.template.spec.containers",
    ),
    "another framework": (
        lambda: other("prefill", 0, "metadata", "labels", value={"framework": "tensorflow"}),
        "pytorch",
        "metadata.labels.framework",
    ),
    "retries that are no number": (
        lambda: other("prefill", 0, "metadata", "labels", value={"fault-retry-times": "many"}),
        "never look at the job",
        "metadata.labels.fault-retry-times",
    ),
    "a Service that breaks the coordinator": (
        lambda: other("coordinator", 1, "metadata", "name", value="mindie-ms-coordinator"),
        "must not be called",
        "metadata.name",
    ),
}


@pytest.mark.parametrize(("make", "said", "path"), WRONG.values(), ids=WRONG)
def test_a_template_that_cannot_work_is_refused_with_its_path(make: Any, said: str, path: str) -> None:
    with pytest.raises(InputError, match=said) as error:
        template(make(), "job_templates.prefill")
    assert error.value.path == path and error.value.source == "job_templates.prefill"


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ({"single_p_instance_pod_num": None}, "motor_deploy_config.single_p_instance_pod_num"),
        ({"p_pod_npu_num": None}, "motor_deploy_config.p_pod_npu_num"),
        ({"p_pod_npu_num": 16}, "motor_deploy_config.p_pod_npu_num"),
        ({"p_instances_num": None}, "motor_deploy_config.p_instances_num"),
        ({"e_instances_num": 1, "e_pod_npu_num": 1, "single_e_instance_pod_num": 1}, "motor_deploy_config.e_instances_num"),
        ({"hardware_type": "350-Atlas-8"}, "motor_deploy_config.hardware_type"),
    ],
)
def test_a_config_for_ascend_jobs_has_all_numbers(keys: dict[str, Any], path: str) -> None:
    with pytest.raises(InputError) as error:
        config(**keys)
    assert error.value.path == path
