# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sample configurations render with the sample releases they are for, and the sample scripts start what each role needs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.ascend.mindie.plugins.module_utils import _inputs
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError
from ansible_collections.ascend.mindie.plugins.module_utils._motor.job_settings import DEFAULTS
from ansible_collections.ascend.mindie.plugins.module_utils._motor.manifests.ascend_jobs import render_jobs, template
from ansible_collections.ascend.mindie.plugins.module_utils._motor.manifests.render import render
from ansible_collections.ascend.mindie.plugins.module_utils._motor.release import SHAPE_2026_05, SHAPE_2026_07, understand
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rendered import Rendered
from ansible_collections.ascend.mindie.plugins.module_utils._motor.user_config import UserConfig, parse, warnings

EXAMPLES = Path(__file__).parents[2] / "examples"
CONFIGS = EXAMPLES / "configs"
BOTH = (SHAPE_2026_05, SHAPE_2026_07)
NEWER = (SHAPE_2026_07,)

# Releases it is for, namespace, instances of Deployments, active roles of the InferServiceSet (None: there is no set).
SAMPLES: dict[str, tuple[tuple[str, ...], str, list[str], dict[str, int] | None]] = {
    "multi_deployment": (BOTH, "mindie-sample", ["vllm-p0", "vllm-p1", "vllm-d0"], None),
    "infer_service_set": (BOTH, "mindie-sample-set", [], {"controller": 1, "coordinator": 1, "prefill": 2, "decode": 1}),
    "single_container": (BOTH, "mindie-sample-single", [], None),
    "hybrid_multi_deployment": (NEWER, "mindie-sample-hybrid", ["vllm-u0", "vllm-u1"], None),
    "hybrid_infer_service_set": (NEWER, "mindie-sample-hybrid-set", [], {"controller": 1, "coordinator": 1, "union": 2}),
    "epd": (NEWER, "mindie-sample-epd", [], {"controller": 1, "coordinator": 1, "encode": 1, "prefill": 2, "decode": 1}),
    "kv_store": (NEWER, "mindie-sample-kv", ["vllm-p0", "vllm-p1", "vllm-d0"], None),
}
FITTING = [(name, shape) for name, (shapes, *_rest) in SAMPLES.items() for shape in shapes]
CONTROL = {
    SHAPE_2026_05: ["mindie-motor-controller-service", "mindie-motor-coordinator-infer", "mindie-motor-coordinator-service"],
    SHAPE_2026_07: [
        "mindie-motor-controller-observability-service",
        "mindie-motor-controller-service",
        "mindie-motor-coordinator-infer",
        "mindie-motor-coordinator-mgmt",
        "mindie-motor-coordinator-obs",
    ],
}


def config(name: str) -> UserConfig:
    """A sample's user config."""
    document = _inputs.read_user_config(str(CONFIGS / name / "user_config.json"), None)
    assert document is not None
    return parse(document)


def rendered(name: str, shape: str) -> Rendered:
    """A sample's objects."""
    release = understand(_inputs.read_release(str(EXAMPLES / f"release-{shape}")))
    return render(config(name), _inputs.read_env(str(CONFIGS / name / "env.json"), None), release, service_id="sample_1")


def names(found: Rendered, kind: str) -> list[str]:
    """Names of the objects of a kind, sorted."""
    return sorted(obj["metadata"]["name"] for obj in found.objects if obj["kind"] == kind)


def test_every_sample_is_tested_and_described() -> None:
    assert sorted(folder.name for folder in CONFIGS.iterdir()) == sorted(SAMPLES)
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [name for name in SAMPLES if f"| `{name}` |" not in readme] == []


@pytest.mark.parametrize("name", SAMPLES)
def test_a_config_is_beyond_doubt_and_in_a_namespace_of_its_own(name: str) -> None:
    found = config(name)
    assert warnings(found) == ()
    assert found.namespace == SAMPLES[name][1]
    assert (found.hardware_type, found.image, found.engine_type) == ("800I_A3", "registry.example/mindie-motor:sample", "vllm")
    assert all(0 < (npus or 0) <= 16 for npus in found.npus_per_pod.values())


@pytest.mark.parametrize(("name", "shape"), FITTING)
def test_all_objects_are_in_the_service_s_namespace(name: str, shape: str) -> None:
    found = rendered(name, shape)
    everything = [found.config_map, *found.objects, *(deployment for _role, _index, deployment in found.instances)]
    cluster_scoped = {obj["kind"]: obj["metadata"]["name"] for obj in everything if "namespace" not in obj["metadata"]}
    namespace = SAMPLES[name][1]
    assert {obj["metadata"]["namespace"] for obj in everything if "namespace" in obj["metadata"]} == {namespace}
    wanted = {"ClusterRole": f"mindie-controller-role-{namespace}", "ClusterRoleBinding": f"mindie-controller-binding-{namespace}"}
    assert cluster_scoped == ({} if name == "single_container" else wanted)


@pytest.mark.parametrize(("name", "shape"), FITTING)
def test_instances(name: str, shape: str) -> None:
    found = rendered(name, shape)
    _shapes, _namespace, deployments, roles = SAMPLES[name]
    assert [deployment["metadata"]["name"] for _role, _index, deployment in found.instances] == deployments
    sets = [obj for obj in found.objects if obj["kind"] == "InferServiceSet"]
    assert [obj["metadata"]["name"] for obj in sets] == ([] if roles is None else ["vllm"])
    for obj in sets:
        active = {role["name"]: role["replicas"] for role in obj["spec"]["template"]["roles"] if role["replicas"]}
        assert active == roles


@pytest.mark.parametrize(("name", "shape"), FITTING)
def test_kinds_and_names(name: str, shape: str) -> None:
    found = rendered(name, shape)
    namespace, roles = SAMPLES[name][1], SAMPLES[name][3]
    if name == "single_container":
        assert Counter(obj["kind"] for obj in found.objects) == {"Deployment": 1, "Service": 1}
        assert names(found, "Deployment") == [f"{namespace}-single-container"]
        assert names(found, "Service") == [f"{namespace}-coordinator-service"]
        return
    assert names(found, "ServiceAccount") == ["mindie-motor-controller"]
    if roles is not None:
        assert names(found, "Deployment") == names(found, "Service") == []
        return
    kv = name == "kv_store"
    more = ["mindie-motor-kv-conductor", "mindie-motor-kv-store"] if kv else []
    assert names(found, "Deployment") == ["mindie-motor-controller", "mindie-motor-coordinator", *more]
    assert names(found, "Service") == sorted([*CONTROL[shape], *(["kv-conductor", "mindie-motor-kvs-master"] if kv else [])])


@pytest.mark.parametrize("name", ["hybrid_multi_deployment", "hybrid_infer_service_set", "epd"])
def test_newer_engine_roles_need_the_newer_release(name: str) -> None:
    with pytest.raises(InputError, match="needs a release of shape 2026-07"):
        rendered(name, SHAPE_2026_05)


def _paths(value: Any) -> Any:
    """Variables of the inventory with its folder put in."""
    if isinstance(value, dict):
        return {key: _paths(item) for key, item in value.items()}
    return value.replace("{{ inventory_dir }}", str(EXAMPLES / "inventory"))


def _rendered_from(config: UserConfig, paths: dict[str, Any]) -> Rendered:
    """The objects of a service of the inventory."""
    if config.backend == "ascend_jobs":
        (option,) = paths.values()
        given = {role: template(*_inputs.read_documents(role, path)) for role, path in option.items()}
        return render_jobs(config, given, DEFAULTS, super_pod=None)
    assert sorted(paths) == ["mindie_env", "mindie_release"]
    understood = understand(_inputs.read_release(paths["mindie_release"]))
    return render(config, _inputs.read_env(paths["mindie_env"], None), understood, service_id="sample_1")


def test_the_inventory_names_files_that_are_there() -> None:
    inventory = yaml.safe_load((EXAMPLES / "inventory" / "hosts.yml").read_text(encoding="utf-8"))
    services: dict[str, Any] = inventory["motor_services"]["hosts"]
    namespaces = []
    for variables in services.values():
        paths = _paths(variables)
        document = _inputs.read_user_config(paths.pop("mindie_user_config"), None)
        assert document is not None
        found = parse(document)
        assert _rendered_from(found, paths).config_map
        namespaces.append(found.namespace)
    assert len(set(namespaces)) == len(services) == 3
    assert sorted(inventory["npu_servers"]["children"]) == ["a2_servers", "a3_servers"]


# The programs of the image are stood in for: each says its arguments and who it is.
PROGRAM = """#!/bin/bash
[ "$1" = -m ] || [ "${0##*/}" != python3 ] || exec "$REAL_PYTHON" "$@"
echo "${0##*/} $* as $ROLE $JOB_NAME ${HCCL_BUFFSIZE:-}"
[ "$ROLE" != "${FAILS:-}" ] || exit 1
exec sleep "${SECONDS_TO_RUN:-0}"
"""
IN_SET = {"INFER_SERVICE_INDEX": "0", "INSTANCE_INDEX": "3"}
POOL = {"KV_POOL_PORT": "1", "KV_POOL_EVICTION_HIGH_WATERMARK_RATIO": "0.9", "KV_POOL_EVICTION_RATIO": "0.1"}
MOONCAKE = {
    "KV_STORE_BACKEND": "mooncake",
    "KV_CACHE_STORE_PORT": "1",
    "KV_STORE_EVICTION_HIGH_WATERMARK_RATIO": "0.9",
    "KV_STORE_EVICTION_RATIO": "0.1",
    "DEFAULT_KV_LEASE_TTL": "2",
}
RATIOS = "--eviction_high_watermark_ratio 0.9 --eviction_ratio 0.1"
MANAGER = "python3 -m motor.node_manager.main"
CASES: list[tuple[str, str, str, dict[str, str], str]] = [
    *((shape, "multi_deployment", "prefill", {}, f"{MANAGER} as prefill job 200") for shape in BOTH),
    *((shape, "infer_service_set", "decode", IN_SET, f"{MANAGER} as decode job-0-d3 200") for shape in BOTH),
    *((shape, "multi_deployment", "coordinator", {}, "python3 -m motor.coordinator.main as coordinator job ") for shape in BOTH),
    *((shape, "multi_deployment", "kv_conductor", {}, "mooncake_conductor  as kv_conductor job ") for shape in BOTH),
    *((shape, "multi_deployment", "mf_store", {}, "python3 -m memfabric_hybrid.launch_ascend_mf_store as mf_store job ") for shape in BOTH),
    (SHAPE_2026_05, "multi_deployment", "kv_pool", POOL, f"mooncake_master --port 1 {RATIOS} as kv_pool job "),
    (SHAPE_2026_07, "hybrid_infer_service_set", "union", IN_SET, f"{MANAGER} as union job-0-u3 200"),
    (SHAPE_2026_07, "epd", "encode", {"KVS_MASTER_SERVICE": "kvs"}, f"{MANAGER} as encode job 200"),
    (SHAPE_2026_07, "kv_store", "kv_store", MOONCAKE, f"mooncake_master --port 1 {RATIOS} --default_kv_lease_ttl 2 as kv_store job "),
]
_PROGRAMS = ("python3", "mooncake_master", "mooncake_conductor")
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


def boot(folder: Path, found: Rendered, role: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a pod's command with the files of its ConfigMap."""
    mount, programs = folder / "configmap", folder / "bin"
    for target, texts in ((mount, found.config_map["data"]), (programs, dict.fromkeys(_PROGRAMS, PROGRAM))):
        target.mkdir()
        for name, text in texts.items():
            (target / name).write_text(text, encoding="utf-8")
            (target / name).chmod(0o550)
    environment = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "REAL_PYTHON": shutil.which("python3") or "python3",
        "CONFIGMAP_PATH": str(mount),
        "CONFIG_PATH": str(folder / "conf"),
        "CONFIG_SYNC_INTERVAL": "1",
        "POD_IP": "127.0.0.1",
        "JOB_NAME": "job",
        "ROLE": role,
        **variables,
    }
    command = ["bash", "-c", f'source "{mount}/boot.sh"']
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The complaints of a script, without one of bash itself that comes when signals meet on a busy machine."""
    return [line for line in done.stderr.splitlines() if "run_pending_traps" not in line]


@needs_bash
@pytest.mark.parametrize(("shape", "name", "role", "variables", "said"), CASES)
def test_a_pod_starts_the_program_of_its_role(
    tmp_path: Path, shape: str, name: str, role: str, variables: dict[str, str], said: str
) -> None:
    found = rendered(name, shape)
    done = boot(tmp_path, found, role, **variables)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{said}\n", "")
    copied = tmp_path / "conf" / "user_config.json"
    assert copied.read_text(encoding="utf-8") == found.config_map["data"]["user_config.json"]
    assert not copied.is_symlink()


@needs_bash
@pytest.mark.parametrize("shape", BOTH)
def test_a_single_container_starts_everything_and_ends_with_the_first_that_ends(tmp_path: Path, shape: str) -> None:
    done = boot(tmp_path, rendered("single_container", shape), "SINGLE_CONTAINER", SECONDS_TO_RUN="2")
    assert done.returncode == 1
    assert said(done) == ["a program of this pod has ended"]
    arguments = f"--config {tmp_path}/conf/user_config.json"
    assert sorted(done.stdout.splitlines()) == [
        f"python3 -m motor.controller.main {arguments} as controller job ",
        "python3 -m motor.coordinator.main as coordinator job ",
        f"{MANAGER} as decode d0 200",
        f"{MANAGER} as prefill p0 200",
    ]


@needs_bash
def test_a_single_container_ends_with_a_program_that_does_not_even_start(tmp_path: Path) -> None:
    done = boot(tmp_path, rendered("single_container", SHAPE_2026_05), "SINGLE_CONTAINER", FAILS="controller", SECONDS_TO_RUN="2")
    assert (done.returncode, said(done)) == (1, ["a program of this pod has ended"])


@needs_bash
@pytest.mark.parametrize(("shape", "role"), [(SHAPE_2026_05, "union"), (SHAPE_2026_07, "kv_pool"), (SHAPE_2026_07, "")])
def test_a_role_that_the_release_does_not_have(tmp_path: Path, shape: str, role: str) -> None:
    done = boot(tmp_path, rendered("multi_deployment", shape), role)
    assert (done.returncode, done.stderr) == (1, f"no script for role '{role}'\n")
