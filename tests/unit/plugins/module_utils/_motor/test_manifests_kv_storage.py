# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""KV tier, KV conductor, storage and the servers of generation A5."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError
from ansible_collections.ascend.mindie.plugins.module_utils._motor.release import SHAPE_2026_05, SHAPE_2026_07

from . import releases
from .releases import config, objects, pod, rendered, roles, variables

DOMAIN = f"{releases.NAMESPACE}.svc.cluster.local"
MULTI = {
    "motor_engine_prefill_config": {"engine_type": "vllm", "engine_config": {"kv_transfer_config": {"kv_connector": "MultiConnector"}}}
}
POOL = {"kv_cache_pool_config": {"eviction_high_watermark_ratio": 0.9, "eviction_ratio": 0.1}}
CONDUCTOR = {"kv_conductor_config": {"http_server_port": 14444}}


def ports(service: dict[str, Any]) -> list[tuple[int, int]]:
    return [(port["port"], port["targetPort"]) for port in service["spec"]["ports"]]


def kv_variables(environment: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in environment.items() if name.startswith(("KV", "MMC", "DEFAULT_KV"))}


def test_kv_pool() -> None:
    found = objects(rendered(config({**MULTI, **POOL}), SHAPE_2026_05))
    master = {"KVP_MASTER_SERVICE": f"kvp-master.{DOMAIN}"}
    ratios = {"KV_POOL_EVICTION_HIGH_WATERMARK_RATIO": "0.9", "KV_POOL_EVICTION_RATIO": "0.1"}
    assert kv_variables(variables(pod(found["Deployment mindie-motor-kv-pool"]))) == {**master, "KV_POOL_PORT": "50088", **ratios}
    assert kv_variables(variables(pod(found["Deployment vllm-d0"]))) == master
    assert kv_variables(variables(pod(found["Deployment mindie-motor-coordinator"]))) == {}
    assert ports(found["Service kvp-master"]) == [(50088, 50088)]
    assert "Deployment mindie-motor-kv-conductor" not in found


def test_kv_pool_with_a_port_of_its_own_in_an_infer_service_set() -> None:
    pool = {"kv_cache_pool_config": {**POOL["kv_cache_pool_config"], "port": 50100}}
    wanted = config({**MULTI, **pool, **CONDUCTOR}, deploy_mode="infer_service_set")
    made = roles(objects(rendered(wanted, SHAPE_2026_05))["InferServiceSet vllm"])
    assert (made["kv-pool"]["replicas"], made["kv-conductor"]["replicas"]) == (1, 1)
    assert ports(made["kv-pool"]["services"][0]) == [(50100, 50100)]
    assert ports(made["kv-conductor"]["services"][0]) == [(14444, 14444)]
    master = f"kvp-master-vllm-0-kv-pool.{DOMAIN}"
    assert variables(made["kv-conductor"]["spec"]["template"])["KVP_MASTER_SERVICE"] == master
    assert variables(made["coordinator"]["spec"]["template"])["KV_CONDUCTOR_SERVICE"] == f"kv-conductor-vllm-0-kv-conductor.{DOMAIN}"


def test_kv_conductor_without_kv_pool() -> None:
    found = objects(rendered(config(CONDUCTOR), SHAPE_2026_05))
    assert "Deployment mindie-motor-kv-pool" not in found
    assert ports(found["Service kv-conductor"]) == [(14444, 14444)]
    assert variables(pod(found["Deployment mindie-motor-kv-conductor"]))["KVP_MASTER_SERVICE"] == f"kvp-master.{DOMAIN}"
    assert variables(pod(found["Deployment mindie-motor-coordinator"]))["KV_CONDUCTOR_SERVICE"] == f"kv-conductor.{DOMAIN}"
    off = objects(rendered(config({"kv_conductor_config": {"http_server_port": 0}}), SHAPE_2026_05))
    assert "Service kv-conductor" not in off


@pytest.mark.parametrize(
    ("sections", "path"),
    [
        (MULTI, "kv_cache_pool_config"),
        (
            {**MULTI, "kv_cache_store_config": {"backend": "memcache"}, "kv_cache_pool_config": {"eviction_ratio": 0.1}},
            "kv_cache_pool_config.eviction_high_watermark_ratio",
        ),
    ],
)
def test_an_incomplete_kv_pool_is_refused(sections: dict[str, Any], path: str) -> None:
    with pytest.raises(InputError, match="is missing") as caught:
        rendered(config(sections), SHAPE_2026_05)
    assert caught.value.path == path


MASTER = {"KVS_MASTER_SERVICE": f"mindie-motor-kvs-master.{DOMAIN}"}
LOCAL = {"MMC_LOCAL_CONFIG_PATH": "/usr/local/Ascend/pyMotor/conf/mmc-local.conf"}


@pytest.mark.parametrize("sections", [{"kv_cache_store_config": {"port": 50100, "metrics_port": 50102}}, MULTI])
def test_kv_store_memcache(sections: dict[str, Any]) -> None:
    found = objects(rendered(config(sections)))
    port, metrics = (50088, 50090) if sections is MULTI else (50100, 50102)
    own = {
        "KV_STORE_BACKEND": "memcache",
        "KV_CACHE_STORE_PORT": str(port),
        "MMC_CONFIG_STORE_URL": "tcp://0.0.0.0:50089",
        "MMC_METRICS_URL": f"http://0.0.0.0:{metrics}",
    }
    assert kv_variables(variables(pod(found["Deployment mindie-motor-kv-store"]))) == {**MASTER, **own}
    assert kv_variables(variables(pod(found["Deployment vllm-p0"]))) == {**MASTER, "KV_STORE_BACKEND": "memcache", **LOCAL}
    assert ports(found["Service mindie-motor-kvs-master"]) == [(port, port), (50089, 50089), (metrics, metrics)]


def test_kv_store_mooncake() -> None:
    section = {"backend": "mooncake", "eviction_high_watermark_ratio": 0.9, "eviction_ratio": 0.1, "default_kv_lease_ttl": 5}
    found = objects(rendered(config({"kv_cache_store_config": section})))
    own = {
        "KV_STORE_BACKEND": "mooncake",
        "KV_CACHE_STORE_PORT": "50088",
        "KV_STORE_EVICTION_HIGH_WATERMARK_RATIO": "0.9",
        "KV_STORE_EVICTION_RATIO": "0.1",
        "DEFAULT_KV_LEASE_TTL": "5",
    }
    assert kv_variables(variables(pod(found["Deployment mindie-motor-kv-store"]))) == {**MASTER, **own}
    assert kv_variables(variables(pod(found["Deployment vllm-p0"]))) == {**MASTER, "KV_STORE_BACKEND": "mooncake"}


def test_the_coordinator_hears_of_the_kv_store_in_any_case() -> None:
    found = objects(rendered(config()))
    told = {**MASTER, "KV_STORE_BACKEND": "memcache", **LOCAL}
    assert kv_variables(variables(pod(found["Deployment mindie-motor-coordinator"]))) == told


@pytest.mark.parametrize(("shape", "name"), [(SHAPE_2026_05, "KVP_MASTER_SERVICE"), (SHAPE_2026_07, "KVS_MASTER_SERVICE")])
def test_kv_tier_in_a_single_container(shape: str, name: str) -> None:
    found = rendered(config({**MULTI, **POOL}, deploy_mode="single_container"), shape)
    assert variables(pod(found.objects[0]))[name] == "127.0.0.1"


STORAGE = [
    {"type": "pvc", "storage_class_name": "fast"},
    {"type": "pvc", "storage_class_name": "slow", "size": "1Ti", "access_mode": "ReadWriteOnce", "mount_path": "/cache"},
    {"type": "pvc", "claim_name": "mine"},
    {"type": "nfs", "server": "10.0.0.9", "path": "/e", "enable": False},
    {"type": "nfs", "server": "10.0.0.9", "path": "/e", "read_only": True},
    {"type": "hostpath", "path": "/h", "host_path_type": "Directory"},
    {"type": "hostpath", "path": "/i"},
]


@pytest.mark.parametrize("mode", ["multi_deployment", "infer_service_set", "single_container"])
def test_storage(mode: str) -> None:
    found = objects(rendered(config(storage=STORAGE, deploy_mode=mode)))
    claims = {name: obj["spec"] for name, obj in found.items() if name.startswith("PersistentVolumeClaim")}
    assert {name: spec["storageClassName"] for name, spec in claims.items()} == {
        "PersistentVolumeClaim mindie-motor-store-0": "fast",
        "PersistentVolumeClaim mindie-motor-store-1": "slow",
    }
    assert claims["PersistentVolumeClaim mindie-motor-store-0"]["resources"]["requests"]["storage"] == "200Gi"
    assert claims["PersistentVolumeClaim mindie-motor-store-1"]["resources"]["requests"]["storage"] == "1Ti"
    assert claims["PersistentVolumeClaim mindie-motor-store-1"]["accessModes"] == ["ReadWriteOnce"]
    workload, role = {
        "multi_deployment": ("Deployment vllm-d0", None),
        "infer_service_set": ("InferServiceSet vllm", "decode"),
        "single_container": (f"Deployment {releases.NAMESPACE}-single-container", None),
    }[mode]
    template = pod(found[workload], role)
    volumes = {volume["name"]: volume for volume in template["spec"]["volumes"]}
    assert volumes["mindie-motor-store-0"]["persistentVolumeClaim"] == {"claimName": "mindie-motor-store-0"}
    assert volumes["mindie-motor-store-2"]["persistentVolumeClaim"] == {"claimName": "mine"}
    assert "mindie-motor-store-3" not in volumes
    assert volumes["mindie-motor-store-4"]["nfs"] == {"server": "10.0.0.9", "path": "/e"}
    assert volumes["mindie-motor-store-5"]["hostPath"] == {"path": "/h", "type": "Directory"}
    assert volumes["mindie-motor-store-6"]["hostPath"] == {"path": "/i"}
    mounts = {mount["name"]: mount for mount in template["spec"]["containers"][0]["volumeMounts"]}
    assert mounts["mindie-motor-store-1"]["mountPath"] == "/cache"
    assert mounts["mindie-motor-store-0"] == {"name": "mindie-motor-store-0", "mountPath": "/mnt/store-0"}
    assert mounts["mindie-motor-store-4"]["readOnly"] is True


@pytest.mark.parametrize(
    ("mode", "workload", "role"),
    [("multi_deployment", "Deployment vllm-d0", None), ("infer_service_set", "InferServiceSet vllm", "decode")],
)
def test_shared_memory(mode: str, workload: str, role: str | None) -> None:
    found = objects(rendered(config(dshm_size="128Gi", deploy_mode=mode)))
    volumes = {volume["name"]: volume for volume in pod(found[workload], role)["spec"]["volumes"]}
    assert volumes["dshm"]["emptyDir"]["sizeLimit"] == "128Gi"


def test_one_volume_need_not_be_in_a_list() -> None:
    found = objects(rendered(config(storage={"type": "pvc", "storage_class_name": "fast"})))
    assert "PersistentVolumeClaim mindie-motor-store-0" in found


@pytest.mark.parametrize(
    ("hardware_type", "policy", "super_pod"),
    [
        ("350-Atlas-8", "chip1-node8", False),
        ("350-Atlas-16", "chip1-node16", False),
        ("350-Atlas-4p-8", "chip4-node8", False),
        ("350-Atlas-4p-16", "chip4-node16", False),
        ("850-Atlas-8p-8", "chip8-node8", False),
        ("850-SuperPod-Atlas-8", "chip8-node8-sp", True),
        ("950-SuperPod-Atlas-8", "chip8-node8-ra64-sp", True),
    ],
)
@pytest.mark.parametrize("mode", ["multi_deployment", "infer_service_set", "single_container"])
def test_servers_of_generation_a5(hardware_type: str, policy: str, super_pod: bool, mode: str) -> None:
    found = objects(rendered(config(hardware_type=hardware_type, deploy_mode=mode)))
    workload, role = {
        "multi_deployment": ("Deployment vllm-d0", None),
        "infer_service_set": ("InferServiceSet vllm", "decode"),
        "single_container": (f"Deployment {releases.NAMESPACE}-single-container", None),
    }[mode]
    template = pod(found[workload], role)
    assert template["metadata"]["annotations"]["huawei.com/schedule_policy"] == policy
    assert template["metadata"]["labels"].get("inferserviceid") == (releases.NAMESPACE if super_pod else None)
    assert "ring-controller.atlas" not in template["metadata"]["labels"]
    assert template["spec"]["nodeSelector"] == {"accelerator": "huawei-npu", "accelerator-type": hardware_type}
    resources = template["spec"]["containers"][0]["resources"]
    for bound in ("requests", "limits"):
        assert resources[bound]["huawei.com/npu"] in (4, 8)
        assert "huawei.com/Ascend910" not in resources[bound]
    volumes = {volume["name"]: volume.get("hostPath", {}).get("path") for volume in template["spec"]["volumes"]}
    assert (volumes["host-lib64"], volumes["hixlep"]) == ("/usr/lib64", "/etc/hixlep")
    resolver = {"options": [{"name": "ndots", "value": "2"}]}
    assert template["spec"]["dnsConfig"] == resolver
    if mode == "multi_deployment":
        assert "ring-controller.atlas" not in found[workload]["metadata"]["labels"]
        assert pod(found["Deployment mindie-motor-controller"])["spec"]["dnsConfig"] == resolver
