# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of a service in every deploy mode, for both shapes of releases."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError
from ansible_collections.ascend.mindie.plugins.module_utils._motor.manifests.draft import Draft
from ansible_collections.ascend.mindie.plugins.module_utils._motor.manifests.ports import (
    FIRST_NODE_PORT,
    KEPT_FOR_CHOICE,
    LAST_NODE_PORT,
    choose_node_ports,
)
from ansible_collections.ascend.mindie.plugins.module_utils._motor.manifests.render import render
from ansible_collections.ascend.mindie.plugins.module_utils._motor.release import SHAPE_2026_05, SHAPE_2026_07, understand

from . import releases
from .releases import config, hybrid, objects, pod, rendered, roles, variables

DOMAIN = f"{releases.NAMESPACE}.svc.cluster.local"
LABELS = {"app.kubernetes.io/managed-by": "ascend.mindie", "app.kubernetes.io/part-of": "mindie-motor"}


@pytest.mark.parametrize("shape", releases.SHAPES)
@pytest.mark.parametrize("mode", ["multi_deployment", "infer_service_set", "single_container"])
def test_every_object_is_labelled_placed_and_in_order(shape: str, mode: str) -> None:
    found = rendered(config(deploy_mode=mode), shape)
    kinds = [obj["kind"] for obj in found.objects]
    order = ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Deployment", "InferServiceSet", "Service"]
    assert kinds == sorted(kinds, key=order.index)
    for obj in [found.config_map, *objects(found).values()]:
        assert LABELS.items() <= obj["metadata"]["labels"].items()
        assert obj["metadata"]["labels"]["app.kubernetes.io/component"]
        assert "status" not in obj
        assert not any(
            "app.kubernetes.io" in label for label in obj.get("spec", {}).get("template", {}).get("metadata", {}).get("labels", {})
        )
        if obj["kind"].startswith("ClusterRole"):
            assert obj["metadata"]["name"].endswith(f"-{releases.NAMESPACE}")
            assert obj["metadata"]["labels"]["app.kubernetes.io/instance"] == releases.NAMESPACE
        else:
            assert obj["metadata"]["namespace"] == releases.NAMESPACE
    assert len(found.instances) == (3 if mode == "multi_deployment" else 0)


@pytest.mark.parametrize("shape", releases.SHAPES)
def test_rendering_depends_on_its_arguments_only_and_leaves_the_release_alone(shape: str) -> None:
    release = releases.release(shape)
    before = copy.deepcopy(dict(release.templates))
    results = [render(config(), None, release, service_id="a") for dummy in range(2)]
    assert results[0] == results[1]
    assert dict(release.templates) == before


@pytest.mark.parametrize("shape", releases.SHAPES)
def test_the_binding_is_of_this_service(shape: str) -> None:
    binding = next(obj for name, obj in objects(rendered(config(), shape)).items() if name.startswith("ClusterRoleBinding"))
    assert binding["roleRef"]["name"].endswith(f"-{releases.NAMESPACE}")
    assert [subject["namespace"] for subject in binding["subjects"]] == [releases.NAMESPACE]


@pytest.mark.parametrize("shape", releases.SHAPES)
def test_control_deployments(shape: str) -> None:
    standby = {"standby_config": {"enable_master_standby": True}, "logging_config": {"host_log_dir": "/logs"}}
    found = objects(rendered(config({"motor_controller_config": standby, "motor_coordinator_config": {"standby_config": {}}}), shape))
    controller, coordinator = found["Deployment mindie-motor-controller"], found["Deployment mindie-motor-coordinator"]
    assert (controller["spec"]["replicas"], coordinator["spec"]["replicas"]) == (2, 1)
    assert controller["metadata"]["labels"]["job-name"] == f"{releases.NAMESPACE}-controller"
    environment = variables(pod(controller))
    assert environment["ROLE"] == "controller"
    assert environment["JOB_NAME"] == f"{releases.NAMESPACE}-controller"
    assert environment["CONTROLLER_SERVICE"] == f"mindie-motor-controller-service.{DOMAIN}"
    assert ("COORDINATOR_OBS_SERVICE" in environment) == (shape == SHAPE_2026_07)
    volumes = {volume["name"]: volume for volume in pod(controller)["spec"]["volumes"]}
    assert volumes["plog-path"]["hostPath"]["path"] == "/logs"
    assert "weight-mount" not in volumes
    mounts = {mount["name"]: mount["mountPath"] for mount in pod(coordinator)["spec"]["containers"][0]["volumeMounts"]}
    assert mounts["weight-mount"] == "/mnt/weight"


@pytest.mark.parametrize("shape", releases.SHAPES)
def test_engine_deployments(shape: str) -> None:
    sections = {"motor_nodemanger_config": {"logging_config": {"host_log_dir": "/logs"}}}
    found = rendered(config(sections, weight_mount_path="/weights"), shape)
    assert [(role, index, obj["metadata"]["name"]) for role, index, obj in found.instances] == [
        ("prefill", 0, "vllm-p0"),
        ("prefill", 1, "vllm-p1"),
        ("decode", 0, "vllm-d0"),
    ]
    decode = found.instances[2][2]
    assert decode["spec"]["replicas"] == 2
    assert decode["spec"]["selector"]["matchLabels"] == {"app": "vllm-d0"}
    assert pod(decode)["metadata"]["labels"]["app"] == "vllm-d0"
    container = pod(decode)["spec"]["containers"][0]
    assert container["name"] == "vllm"
    assert [container["resources"][bound]["huawei.com/Ascend910"] for bound in ("requests", "limits")] == [4, 4]
    assert pod(decode)["spec"]["nodeSelector"]["accelerator-type"] == "module-a3-16"
    annotated = decode if shape == SHAPE_2026_05 else pod(decode)
    assert annotated["metadata"]["annotations"]["sp-block"] == "8"
    volumes = {volume["name"]: volume for volume in pod(decode)["spec"]["volumes"]}
    assert (volumes["plog-path"]["hostPath"]["path"], volumes["weight-mount"]["hostPath"]["path"]) == ("/logs", "/weights")


@pytest.mark.parametrize("shape", releases.SHAPES)
def test_a2_servers_have_no_super_pods(shape: str) -> None:
    found = rendered(config(hardware_type="800I_A2", single_p_instance_pod_num=None), shape)
    prefill = found.instances[0][2]
    assert "annotations" not in prefill["metadata"]
    assert "annotations" not in pod(prefill)["metadata"]
    assert pod(prefill)["spec"]["nodeSelector"]["accelerator-type"] == "module-910b-8"
    template = releases.release(shape).document("engine_template.yaml", "Deployment")
    assert prefill["spec"]["replicas"] == template["spec"]["replicas"]


def test_an_sp_block_of_the_template_stays() -> None:
    files = releases.files(SHAPE_2026_07)
    files["yaml_template/engine_template.yaml"][0]["spec"]["template"]["metadata"]["annotations"] = {"sp-block": "64"}
    found = render(config(), None, understand(files), service_id="a")
    assert pod(found.instances[0][2])["metadata"]["annotations"] == {"sp-block": "64"}


def test_the_accelerator_type_of_the_cluster_wins() -> None:
    found = rendered(config(), accelerator_type="module-a3-16-super-pod")
    assert pod(found.instances[0][2])["spec"]["nodeSelector"]["accelerator-type"] == "module-a3-16-super-pod"


@pytest.mark.parametrize("shape", releases.SHAPES)
def test_infer_service_set(shape: str) -> None:
    found = objects(rendered(config(deploy_mode="infer_service_set", single_p_instance_pod_num=None), shape))
    made = roles(found["InferServiceSet vllm"])
    assert (made["prefill"]["replicas"], made["prefill"]["spec"]["replicas"]) == (2, 1)
    assert (made["decode"]["replicas"], made["decode"]["spec"]["replicas"]) == (1, 2)
    assert made["decode"]["spec"]["selector"]["matchLabels"] == {"app": "vllm"}
    assert made["decode"]["spec"]["template"]["metadata"]["annotations"]["sp-block"] == "8"
    environment = variables(made["decode"]["spec"]["template"])
    assert environment["JOB_NAME"] == f"{releases.NAMESPACE}-vllm"
    assert environment["CONTROLLER_SERVICE"] == f"mindie-motor-service-vllm-0-controller.{DOMAIN}"
    assert variables(made["controller"]["spec"]["template"])["JOB_NAME"] == f"{releases.NAMESPACE}-controller"
    kv = "kv-pool" if shape == SHAPE_2026_05 else "kv-store"
    idle = {kv: 0, "kv-conductor": 0, **({"encode": 0, "union": 0} if shape == SHAPE_2026_07 else {})}
    assert {name: made[name]["replicas"] for name in idle} == idle


def test_a2_in_an_infer_service_set_of_2026_05() -> None:
    found = objects(rendered(config(deploy_mode="infer_service_set", hardware_type="800I_A2"), SHAPE_2026_05))
    assert "annotations" not in pod(found["InferServiceSet vllm"], "prefill")["metadata"]


def test_encode_and_union_instances() -> None:
    found = rendered(config(e_instances_num=1, single_e_instance_pod_num=1, e_pod_npu_num=2))
    assert [obj["metadata"]["name"] for _role, _index, obj in found.instances] == ["vllm-p0", "vllm-p1", "vllm-d0", "vllm-e0"]
    found = rendered(hybrid())
    assert [obj["metadata"]["name"] for _role, _index, obj in found.instances] == ["vllm-u0", "vllm-u1"]
    assert variables(pod(found.instances[0][2]))["ROLE"] == "union"
    made = roles(objects(rendered(hybrid(deploy_mode="infer_service_set")))["InferServiceSet vllm"])
    assert [made[role]["replicas"] for role in ("prefill", "decode", "union", "encode")] == [0, 0, 2, 0]


@pytest.mark.parametrize("shape", releases.SHAPES)
@pytest.mark.parametrize("hardware_type", ["800I_A2", "800I_A3"])
def test_single_container(shape: str, hardware_type: str) -> None:
    found = objects(rendered(config(deploy_mode="single_container", hardware_type=hardware_type), shape))
    name = f"{releases.NAMESPACE}-single-container"
    assert sorted(found) == [f"Deployment {name}", f"Service {releases.NAMESPACE}-coordinator-service"]
    deployment, service = found[f"Deployment {name}"], found[f"Service {releases.NAMESPACE}-coordinator-service"]
    assert service["spec"]["selector"] == {"app": name}
    assert pod(deployment)["spec"]["containers"][0]["resources"]["limits"]["huawei.com/Ascend910"] == 8
    assert variables(pod(deployment))["JOB_NAME"] == f"{releases.NAMESPACE}-SINGLE_CONTAINER"
    annotated = deployment if shape == SHAPE_2026_05 else pod(deployment)
    assert annotated["metadata"].get("annotations") == (None if hardware_type == "800I_A2" else {"sp-block": "8"})


SGLANG = {"motor_engine_prefill_config": {"engine_type": "sglang", "engine_config": {"disaggregation_bootstrap_port": 9100}}}


@pytest.mark.parametrize("shape", releases.SHAPES)
@pytest.mark.parametrize(("hardware_type", "protocol"), [("800I_A2", "device_rdma"), ("800I_A3", "sdma")])
def test_sglang(shape: str, hardware_type: str, protocol: str) -> None:
    found = objects(rendered(config(SGLANG, hardware_type=hardware_type), shape))
    engine = pod(found["Deployment sglang-p0"])
    environment = variables(engine)
    assert environment["ASCEND_MF_STORE_URL"] == f"tcp://mf-store.{DOMAIN}:50089"
    assert environment["ASCEND_MF_TRANSFER_PROTOCOL"] == protocol
    assert "SGLANG_HOST_IP" in environment
    assert engine["spec"]["containers"][0]["securityContext"] == {"privileged": True}
    assert variables(pod(found["Deployment mindie-motor-mf-store"]))["ASCEND_MF_STORE_PORT"] == "50089"
    assert variables(pod(found["Deployment mindie-motor-coordinator"]))["DISAGGREGATION_BOOTSTRAP_PORT"] == "9100"


def test_sglang_has_its_mf_store_with_an_infer_service_set_too() -> None:
    found = objects(rendered(config(SGLANG, deploy_mode="infer_service_set")))
    assert {"Deployment mindie-motor-mf-store", "Service mf-store"} <= set(found)
    assert variables(pod(found["InferServiceSet vllm"], "prefill"))["ASCEND_MF_STORE_URL"] == f"tcp://mf-store.{DOMAIN}:50089"


def test_different_cards_for_prefill_and_decode() -> None:
    selectors = [pod(obj)["spec"]["nodeSelector"] for _role, _index, obj in rendered(config(enable_pd_heterogeneous=True)).instances]
    assert [selector["card_type"] for selector in selectors] == ["Ascend950PR", "Ascend950PR", "Ascend950DT"]
    own = config(enable_pd_heterogeneous=True, pd_heterogeneous_label_key="card", pd_heterogeneous_decode_label_value="B")
    selectors = [pod(obj)["spec"]["nodeSelector"] for _role, _index, obj in rendered(own).instances]
    assert [selector["card"] for selector in selectors] == ["Ascend950PR", "Ascend950PR", "B"]
    union = rendered(hybrid(enable_pd_heterogeneous=True)).instances[0][2]
    assert "card_type" not in pod(union)["spec"]["nodeSelector"]


@pytest.mark.parametrize(
    ("wanted", "path"),
    [
        (hybrid(), "motor_engine_union_config"),
        (config(e_instances_num=1, e_pod_npu_num=1, single_e_instance_pod_num=1), "motor_engine_encode_config"),
        (config(storage=[{"type": "nfs", "server": "a", "path": "/"}]), "motor_deploy_config.storage"),
        (config(dshm_size="8Gi"), "motor_deploy_config.dshm_size"),
        (config(enable_pd_heterogeneous=True), "motor_deploy_config.enable_pd_heterogeneous"),
        (config(hardware_type="350-Atlas-8"), "motor_deploy_config.hardware_type"),
    ],
)
def test_what_a_release_of_2026_05_cannot_do_is_refused(wanted: Any, path: str) -> None:
    with pytest.raises(InputError, match="needs a release of shape 2026-07") as caught:
        rendered(wanted, SHAPE_2026_05)
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("file", "path", "mode", "named"),
    [
        ("engine_template.yaml", ("spec", "template", "spec", "nodeSelector"), "multi_deployment", "spec.template.spec.nodeSelector"),
        ("engine_template.yaml", ("spec", "template", "spec", "containers"), "multi_deployment", "spec.template.spec.containers"),
        ("engine_template.yaml", ("spec", "selector"), "multi_deployment", "spec.selector"),
        ("coordinator_template.yaml", ("spec", "template", "spec", "volumes"), "multi_deployment", "spec.template.spec.volumes"),
        ("single_container_template.yaml", ("spec", "template"), "single_container", "spec.template"),
    ],
)
def test_a_template_without_a_needed_field_is_refused_by_name(file: str, path: tuple[str, ...], mode: str, named: str) -> None:
    files = releases.files(SHAPE_2026_07)
    found = files[f"yaml_template/{file}"][0]
    for token in path[:-1]:
        found = found[token]
    del found[path[-1]]
    with pytest.raises(InputError, match="the template lacks this field") as caught:
        render(config(deploy_mode=mode), None, understand(files, "release X"), service_id="a")
    assert caught.value.source == f"release X: yaml_template/{file}, Deployment"
    assert caught.value.path == named


def test_a_field_of_another_kind_is_refused_as_a_missing_one() -> None:
    draft = Draft.of({"kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": "none", "list": [{"name": "b"}]}}, "here")
    for wrong in (
        lambda: draft.set(("spec", "list", "port"), 1),
        lambda: draft.add(("spec", "ports"), {"name": "x"}),
        lambda: draft.at("spec", "list", 7),
        lambda: draft.at("spec", "ports", "x"),
    ):
        with pytest.raises(InputError, match=r"here, Service: spec[.]"):
            wrong()
    draft.drop("spec", "ports", "x")
    assert draft.get("spec", "ports") == "none"


def test_labels_and_annotations_may_be_left_out_of_a_template() -> None:
    draft = Draft.of({"kind": "Service", "metadata": {"name": "a", "labels": None}}, "here")
    draft.set(("metadata", "labels", "a"), "1")
    draft.set(("metadata", "annotations", "b"), "2")
    assert draft.data["metadata"] == {"name": "a", "labels": {"a": "1"}, "annotations": {"b": "2"}}


def test_a_release_without_a_service_of_the_coordinator_is_refused() -> None:
    for mode, file in (("multi_deployment", "coordinator_template.yaml"), ("infer_service_set", "infer_service_template.yaml")):
        files = releases.files(SHAPE_2026_07)
        documents = files[f"yaml_template/{file}"]
        files[f"yaml_template/{file}"] = [obj for obj in documents if obj["kind"] != "Service"]
        for role in roles(documents[-1]).values() if mode == "infer_service_set" else ():
            role.pop("services", None)
        with pytest.raises(InputError, match=r"no Service of (controller|coordinator) with port 1026") as caught:
            render(config(deploy_mode=mode), None, understand(files, "release X"), service_id="a")
        assert caught.value.source == f"release X: yaml_template/{file}"


def test_a_document_of_an_unknown_kind_is_refused() -> None:
    files = releases.files(SHAPE_2026_07)
    files["yaml_template/controller_template.yaml"].append({"kind": "Gadget", "metadata": {"name": "x"}})
    with pytest.raises(InputError, match="no objects of kind Gadget"):
        render(config(), None, understand(files), service_id="a")


PORTS_2026_07 = ("mindie-motor-coordinator-infer", "mindie-motor-coordinator-obs")


def node_ports(found: dict[str, dict[str, Any]]) -> dict[str, int]:
    services = {obj["metadata"]["name"]: obj["spec"] for obj in found.values() if obj["kind"] == "Service"}
    for obj in found.values():
        if obj["kind"] == "InferServiceSet":
            services.update({entry["name"]: entry["spec"] for role in roles(obj).values() for entry in role.get("services", ())})
    return {name: port["nodePort"] for name, spec in services.items() for port in spec["ports"] if "nodePort" in port}


@pytest.mark.parametrize("mode", ["multi_deployment", "infer_service_set"])
def test_node_ports(mode: str) -> None:
    wanted = config(deploy_mode=mode)
    given = node_ports(objects(rendered(wanted)))
    assert given["mindie-motor-coordinator-infer"] == 31015
    assert len(given) == 3
    assert node_ports(objects(rendered(wanted, node_ports="auto"))) == {}
    some = node_ports(objects(rendered(wanted, node_ports={"mindie-motor-coordinator-infer": 30001})))
    assert some == {**given, "mindie-motor-coordinator-infer": 30001}


@pytest.mark.parametrize(
    ("wanted", "path"),
    [
        ("some", ""),
        ({"mindie-motor-coordinator-mgmt": 30001}, "mindie-motor-coordinator-mgmt"),
        ({"mindie-motor-coordinator-infer": 0}, "mindie-motor-coordinator-infer"),
        ({"mindie-motor-coordinator-infer": True}, "mindie-motor-coordinator-infer"),
        ({"mindie-motor-coordinator-infer": "30001"}, "mindie-motor-coordinator-infer"),
        ({"mindie-motor-coordinator-infer": 65536}, "mindie-motor-coordinator-infer"),
    ],
)
def test_wrong_node_ports(wanted: Any, path: str) -> None:
    with pytest.raises(InputError) as caught:
        rendered(config(), node_ports=wanted)
    assert (caught.value.source, caught.value.path) == ("node_ports", path)


EVERY_NODE_PORT = range(FIRST_NODE_PORT, LAST_NODE_PORT + 1)


def test_chosen_node_ports_are_free_and_stay() -> None:
    live = objects(rendered(config(deploy_mode="infer_service_set"), node_ports=None))["InferServiceSet vllm"]
    exposed = [*PORTS_2026_07, "mindie-motor-observability"]
    assert choose_node_ports(exposed, live, (), "chat") == node_ports({"set": live})
    free = {FIRST_NODE_PORT + 1, FIRST_NODE_PORT + 3, LAST_NODE_PORT}
    used = set(EVERY_NODE_PORT) - free
    found = choose_node_ports(["b", "a", "c"], None, used, "chat")
    assert set(found) == {"a", "b", "c"} and set(found.values()) == free and found["c"] == LAST_NODE_PORT
    with pytest.raises(InputError, match="is taken"):
        choose_node_ports(["a"], {}, EVERY_NODE_PORT, "chat")


def test_services_that_are_deployed_side_by_side_seldom_choose_the_same_node_port() -> None:
    chosen = [choose_node_ports(["a"], None, (), f"chat-{number}")["a"] for number in range(8)]
    assert len(set(chosen)) >= 7
    assert all(FIRST_NODE_PORT <= port < FIRST_NODE_PORT + KEPT_FOR_CHOICE for port in chosen)
