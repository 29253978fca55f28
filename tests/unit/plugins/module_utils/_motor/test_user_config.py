# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""User configs: what they mean, and one clear error for everything that breaks a rule."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ascend.mindie.plugins.module_utils._motor import json_reader, user_config
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError
from ansible_collections.ascend.mindie.plugins.module_utils._motor.hardware import HARDWARE

DEPLOY = "motor_deploy_config"
REMOVE = type("Removed", (), {"__repr__": lambda self: "removed"})()

SEPARATE: dict[str, Any] = {
    DEPLOY: {
        "p_instances_num": 2,
        "d_instances_num": 1,
        "single_p_instance_pod_num": 1,
        "single_d_instance_pod_num": 2,
        "p_pod_npu_num": 16,
        "d_pod_npu_num": 16,
        "image_name": "registry.example/motor:1",
        "job_id": "mindie-a",
        "hardware_type": "800I_A3",
    },
    "motor_controller_config": {},
    "motor_engine_prefill_config": {"engine_type": "vllm", "engine_config": {}},
    "motor_engine_decode_config": {"engine_type": "vllm"},
}
HYBRID: dict[str, Any] = {
    DEPLOY: {
        "hybrid_instances_num": 3,
        "single_hybrid_instance_pod_num": 1,
        "hybrid_pod_npu_num": 2,
        "image_name": "registry.example/motor:1",
        "job_id": "mindie-a",
        "hardware_type": "800I_A3",
    },
    "motor_engine_union_config": {"engine_type": "vllm"},
}
POOL = {"engine_type": "vllm", "engine_config": {"kv_transfer_config": {"kv_connector": "MultiConnector"}}}


def changed(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The config with values set (or removed) at dotted paths; a path without a dot is a key of motor_deploy_config, `/x` a section."""
    data = copy.deepcopy(base)
    for dotted, value in changes.items():
        *parents, key = dotted.lstrip("/").split(".") if dotted.startswith("/") else [DEPLOY, *dotted.split(".")]
        target = data
        for parent in parents:
            target = target.setdefault(parent, {})
        if value is REMOVE:
            del target[key]
        else:
            target[key] = value
    return data


def parse(data: Any) -> user_config.UserConfig:
    return user_config.parse(json_reader.read(json.dumps(data, indent=2, ensure_ascii=False), source="user_config"))


def test_a_separate_config() -> None:
    config = parse(SEPARATE)
    assert config.counts == {"prefill": 2, "decode": 1}
    assert config.pods_per_instance == {"prefill": 1, "decode": 2}
    assert config.npus_per_pod == {"prefill": 16, "decode": 16}
    assert (config.namespace, config.deploy_mode, config.backend, config.hybrid) == (
        "mindie-a",
        "infer_service_set",
        "infer_service_set",
        False,
    )
    assert (config.engine_type, config.base_name, config.hardware_type, config.image) == (
        "vllm",
        "vllm",
        "800I_A3",
        "registry.example/motor:1",
    )
    assert config.weight_mount_path is None
    assert config.data == SEPARATE
    assert json.loads(config.text) == SEPARATE
    assert config.scalable


def test_a_hybrid_config() -> None:
    config = parse(HYBRID)
    assert (config.hybrid, config.counts, config.base_name) == (True, {"union": 3}, "vllm")


@pytest.mark.parametrize(
    ("mode", "backend", "scalable"),
    [
        ("infer_service_set", "infer_service_set", True),
        ("multi_deployment", "deployments", True),
        ("single_container", "deployments", False),
    ],
)
def test_deploy_modes(mode: str, backend: str, scalable: bool) -> None:
    config = parse(changed(SEPARATE, {"deploy_mode": mode}))
    assert (config.deploy_mode, config.backend, config.scalable) == (mode, backend, scalable)


@pytest.mark.parametrize("count", [0, 3])
def test_encode_may_be_zero_and_absent(count: int) -> None:
    assert "encode" not in parse(SEPARATE).counts
    assert parse(changed(SEPARATE, {"e_instances_num": count, "e_pod_npu_num": 2})).counts["encode"] == count


ACCEPTED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (SEPARATE, {"single_p_instance_pod_num": REMOVE}),
    (
        SEPARATE,
        {
            "deploy_mode": "multi_deployment",
            "hardware_type": "800I_A2",
            "p_pod_npu_num": 8,
            "d_pod_npu_num": 8,
            "single_d_instance_pod_num": REMOVE,
        },
    ),
    (SEPARATE, {"e_instances_num": 0}),
    (SEPARATE, {"/motor_controller_config": None, "deploy_mode": None, "weight_mount_path": None}),
    (SEPARATE, {"/motor_controller_config": {"standby_config": {}}}),
    (
        SEPARATE,
        {"/motor_controller_config": {"standby_config": {"enable_master_standby": True}, "logging_config": {"host_log_dir": "/var/log/x"}}},
    ),
    (SEPARATE, {"/motor_engine_prefill_config": REMOVE, "/motor_engine_decode_config": REMOVE}),
    (SEPARATE, {"job_id": "a" * 63}),
    (SEPARATE, {"job_id": "a" * 50, "deploy_mode": "multi_deployment"}),
    (SEPARATE, {"job_id": "a" * 43, "deploy_mode": "single_container"}),
    (SEPARATE, {"/kv_cache_pool_config": {}}),
    (
        SEPARATE,
        {
            "/kv_cache_pool_config": {"eviction_high_watermark_ratio": 0.9, "eviction_ratio": 0.1, "port": 50088},
            "/motor_engine_prefill_config": POOL,
        },
    ),
    (SEPARATE, {"/kv_cache_store_config": {"backend": "memcache"}}),
    (SEPARATE, {"/kv_cache_store_config": {"backend": "memcache"}, "/kv_cache_pool_config": {}, "/motor_engine_prefill_config": POOL}),
    (SEPARATE, {"/kv_conductor_config": {"http_server_port": 0}}),
    (SEPARATE, {"storage": {"type": "nfs", "server": "10.0.0.9", "path": "/e"}, "dshm_size": "128Gi"}),
    (
        SEPARATE,
        {
            "storage": [
                {"type": "pvc", "claim_name": "c", "enable": True},
                {"enable": False},
                {"type": "hostpath", "path": "/h", "host_path_type": "Directory"},
            ]
        },
    ),
    (SEPARATE, {"storage": []}),
    (HYBRID, {"deploy_mode": "multi_deployment", "e_instances_num": 1, "e_pod_npu_num": 1, "single_e_instance_pod_num": 1}),
    *((SEPARATE, {"hardware_type": kind, "p_pod_npu_num": 8, "d_pod_npu_num": 8}) for kind in HARDWARE),
]


@pytest.mark.parametrize(("base", "changes"), ACCEPTED, ids=[str(sorted(row[1]))[:60] for row in ACCEPTED])
def test_accepted(base: dict[str, Any], changes: dict[str, Any]) -> None:
    assert parse(changed(base, changes)).image


# What is written for a count, and what the message says of it.
WRONG_COUNTS = [
    ("2.9", "2.9 is no integer: write a whole number from 1 to 16"),
    ("1e1", "1e1 is no integer: write 10"),
    ("2.0", "2.0 is no integer: write 2"),
    ("true", "true is no number"),
    ('"2"', '"2" is a string: write a whole number from 1 to 16, without quotes'),
    ('"\uff12"', '"\uff12" is a string'),
    ('"abc"', '"abc" is a string'),
    ("null", "null is no number"),
    ("[2]", "a list is no number"),
    ('{"a": 2}', "an object is no number"),
    ("0", "0 is out of range: write a whole number from 1 to 16"),
    ("-1", "-1 is out of range"),
    ("17", "17 is out of range"),
    ("9" * 400, "... is out of range"),
]


@pytest.mark.parametrize(
    ("base", "key"),
    [(SEPARATE, "p_instances_num"), (SEPARATE, "d_instances_num"), (HYBRID, "hybrid_instances_num")],
    ids=["prefill", "decode", "union"],
)
@pytest.mark.parametrize(("token", "wrong"), WRONG_COUNTS, ids=[row[0][:10] for row in WRONG_COUNTS])
def test_counts_are_strict(base: dict[str, Any], key: str, token: str, wrong: str) -> None:
    good = json_reader.read(json.dumps(base, indent=2), source="user_config")
    path = (DEPLOY, key)
    with pytest.raises(InputError) as caught:
        user_config.parse(json_reader.read(good.replace({path: token}), source="user_config"))
    assert wrong in str(caught.value)
    assert caught.value.path == f"{DEPLOY}.{key}"
    assert (caught.value.line, caught.value.column) == good.position(path)


# Changes to a good config, the path of the error (a leading / marks a section), and what the message says.
BROKEN: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
    (SEPARATE, {"p_instances_num": REMOVE}, "p_instances_num", "missing: write the number of prefill instances, 1 to 16"),
    (SEPARATE, {"d_instances_num": REMOVE}, "d_instances_num", "missing: write the number of decode instances, 1 to 16"),
    (SEPARATE, {"e_instances_num": -1}, "e_instances_num", "a whole number from 0 to 16"),
    (SEPARATE, {"e_instances_num": None}, "e_instances_num", "null is no number"),
    (SEPARATE, {"e_instances_num": 1}, "e_pod_npu_num", "missing"),
    (SEPARATE, {"e_instances_num": 1, "deploy_mode": "single_container"}, "e_instances_num", "single_container runs no encode instances"),
    (SEPARATE, {"image_name": REMOVE}, "image_name", "missing: write the image"),
    (SEPARATE, {"image_name": ""}, "image_name", "this is empty"),
    (SEPARATE, {"image_name": 5}, "image_name", "5 is no string"),
    (SEPARATE, {"job_id": REMOVE}, "job_id", "missing: write the namespace"),
    (SEPARATE, {"job_id": 7}, "job_id", "7 is no string"),
    (SEPARATE, {"job_id": "Mindie"}, "job_id", "lower-case letters"),
    (SEPARATE, {"job_id": "a.b"}, "job_id", "lower-case letters"),
    (SEPARATE, {"job_id": "a_b"}, "job_id", "lower-case letters"),
    (SEPARATE, {"job_id": "-a"}, "job_id", "lower-case letters"),
    (SEPARATE, {"job_id": "a-"}, "job_id", "lower-case letters"),
    (SEPARATE, {"job_id": "a\n"}, "job_id", "lower-case letters"),
    (SEPARATE, {"job_id": "a\uff12"}, "job_id", "lower-case letters"),
    (SEPARATE, {"job_id": "x; rm -rf /"}, "job_id", "lower-case letters"),
    (SEPARATE, {"job_id": "a" * 64}, "job_id", "64 characters are too long for a namespace: write at most 63"),
    (
        SEPARATE,
        {"job_id": "a" * 51, "deploy_mode": "multi_deployment"},
        "job_id",
        "label job-name <job_id>-p15-00000000 may have 63 at most: write at most 50",
    ),
    (
        HYBRID,
        {"job_id": "a" * 60, "deploy_mode": "multi_deployment"},
        "job_id",
        "label job-name <job_id>-coordinator may have 63 at most: write at most 51",
    ),
    (SEPARATE, {"job_id": "a" * 44, "deploy_mode": "single_container"}, "job_id", "Service name <job_id>-coordinator-service"),
    (SEPARATE, {"job_id": "1a", "deploy_mode": "single_container"}, "job_id", "begin with a letter"),
    (SEPARATE, {"hardware_type": REMOVE}, "hardware_type", "missing: write the kind of servers, one of 800I_A2"),
    (SEPARATE, {"hardware_type": "300I"}, "hardware_type", '"300I" is unknown: write one of 800I_A2, 800T_A2, 800I_A3'),
    (SEPARATE, {"hardware_type": 800}, "hardware_type", "800 is no string"),
    (SEPARATE, {"deploy_mode": "helm"}, "deploy_mode", "write one of infer_service_set, multi_deployment, single_container"),
    (SEPARATE, {"deploy_mode": True}, "deploy_mode", "true is no string"),
    (
        SEPARATE,
        {"hardware_type": "800I_A2"},
        "p_pod_npu_num",
        "a 800I_A2 server has 8 NPUs, so a pod with 16 fits nowhere: write at most 8",
    ),
    (SEPARATE, {"d_pod_npu_num": 17}, "d_pod_npu_num", "a 800I_A3 server has 16 NPUs"),
    (SEPARATE, {"d_pod_npu_num": REMOVE}, "d_pod_npu_num", "missing: write the number of NPUs of each pod"),
    (SEPARATE, {"d_pod_npu_num": "16"}, "d_pod_npu_num", '"16" is a string'),
    (SEPARATE, {"single_p_instance_pod_num": 1.5}, "single_p_instance_pod_num", "1.5 is no integer"),
    (SEPARATE, {"single_p_instance_pod_num": True}, "single_p_instance_pod_num", "true is no number"),
    (SEPARATE, {"single_p_instance_pod_num": 0}, "single_p_instance_pod_num", "out of range"),
    (SEPARATE, {"single_p_instance_pod_num": REMOVE, "deploy_mode": "multi_deployment"}, "single_p_instance_pod_num", "missing"),
    (SEPARATE, {"weight_mount_path": 1}, "weight_mount_path", "1 is no string"),
    (SEPARATE, {"dshm_size": "128"}, "dshm_size", "no size with a unit"),
    (SEPARATE, {"dshm_size": 128}, "dshm_size", "128 is no string"),
    (SEPARATE, {"enable_pd_heterogeneous": "true"}, "enable_pd_heterogeneous", "neither true nor false"),
    (HYBRID, {"single_hybrid_instance_pod_num": REMOVE}, "single_hybrid_instance_pod_num", "missing"),
    (HYBRID, {"hybrid_pod_npu_num": REMOVE}, "hybrid_pod_npu_num", "missing"),
    (HYBRID, {"p_instances_num": 1}, "p_instances_num", "no prefill instances"),
    (HYBRID, {"d_pod_npu_num": 1}, "d_pod_npu_num", "no decode instances"),
    (HYBRID, {"single_d_instance_pod_num": 1}, "single_d_instance_pod_num", "no decode instances"),
    (HYBRID, {"engine_topology": {}}, "engine_topology", "no engine topology"),
    (HYBRID, {"/motor_engine_union_config": REMOVE}, "/motor_engine_union_config", "missing"),
    (HYBRID, {"/motor_engine_prefill_config": {}}, "/motor_engine_prefill_config", "no such section"),
    (HYBRID, {"deploy_mode": "single_container"}, "deploy_mode", "cannot run hybrid instances"),
    (SEPARATE, {"/motor_deploy_config": REMOVE}, "/motor_deploy_config", "missing"),
    (SEPARATE, {"/motor_deploy_config": []}, "/motor_deploy_config", "a list is no object"),
    (SEPARATE, {"/motor_controller_config": "x"}, "/motor_controller_config", '"x" is no object'),
    (SEPARATE, {"/motor_controller_config.standby_config": True}, "/motor_controller_config.standby_config", "true is no object"),
    (
        SEPARATE,
        {"/motor_coordinator_config.standby_config.enable_master_standby": "yes"},
        "/motor_coordinator_config.standby_config.enable_master_standby",
        "neither true nor false",
    ),
    (
        SEPARATE,
        {"/motor_controller_config.logging_config": {"host_log_dir": "log"}},
        "/motor_controller_config.logging_config.host_log_dir",
        "absolute",
    ),
    (
        SEPARATE,
        {"/motor_engine_prefill_config.engine_type": "tgi"},
        "/motor_engine_prefill_config.engine_type",
        "one of vllm, mindie-llm, sglang",
    ),
    (SEPARATE, {"/motor_engine_decode_config.engine_type": 1}, "/motor_engine_decode_config.engine_type", "no string"),
    (SEPARATE, {"/motor_engine_prefill_config.engine_config": []}, "/motor_engine_prefill_config.engine_config", "no object"),
    (
        SEPARATE,
        {"/motor_engine_prefill_config.engine_config": {"kv_transfer_config": 1}},
        "/motor_engine_prefill_config.engine_config.kv_transfer_config",
        "no object",
    ),
    (SEPARATE, {"/kv_cache_pool_config": 1}, "/kv_cache_pool_config", "1 is no object"),
    (
        SEPARATE,
        {"/kv_cache_pool_config": {"eviction_ratio": 0.1}, "/motor_engine_prefill_config": POOL},
        "/kv_cache_pool_config.eviction_high_watermark_ratio",
        "missing",
    ),
    (SEPARATE, {"/kv_cache_pool_config": {"port": 0}}, "/kv_cache_pool_config.port", "from 1 to 65535"),
    (SEPARATE, {"/kv_cache_store_config": {"backend": "redis"}}, "/kv_cache_store_config.backend", "one of memcache, mooncake"),
    (
        SEPARATE,
        {"/kv_cache_store_config": {"backend": "mooncake", "eviction_high_watermark_ratio": 0.9}},
        "/kv_cache_store_config.eviction_ratio",
        "missing",
    ),
    (SEPARATE, {"/kv_cache_store_config": {"metrics_port": "1"}}, "/kv_cache_store_config.metrics_port", "is a string"),
    (SEPARATE, {"/kv_conductor_config": []}, "/kv_conductor_config", "no object"),
    (SEPARATE, {"/kv_conductor_config": {"http_server_port": 70000}}, "/kv_conductor_config.http_server_port", "from 0 to 65535"),
    (SEPARATE, {"storage": "x"}, "storage", "a list of objects"),
    (SEPARATE, {"storage": [1]}, "storage[0]", "a volume is an object"),
    (SEPARATE, {"storage": [{}]}, "storage[0].type", "missing"),
    (SEPARATE, {"storage": [{"type": "cephfs"}]}, "storage[0].type", "one of pvc, nfs, hostpath"),
    (SEPARATE, {"storage": [{"type": "pvc"}]}, "storage[0].storage_class_name", "missing"),
    (
        SEPARATE,
        {"storage": [{"type": "pvc", "storage_class_name": "s", "claim_name": "c"}]},
        "storage[0].claim_name",
        "remove claim_name or",
    ),
    (SEPARATE, {"storage": [{"type": "pvc", "storage_class_name": "s", "size": "200"}]}, "storage[0].size", "no size with a unit"),
    (SEPARATE, {"storage": [{"type": "pvc", "storage_class_name": "s", "access_mode": "RWX"}]}, "storage[0].access_mode", "ReadWriteMany"),
    (SEPARATE, {"storage": {"type": "nfs", "path": "/e"}}, "storage.server", "missing"),
    (SEPARATE, {"storage": {"type": "nfs", "server": "s"}}, "storage.path", "missing"),
    (SEPARATE, {"storage": {"type": "nfs", "server": "s", "path": "e"}}, "storage.path", "no absolute path"),
    (SEPARATE, {"storage": [{"type": "hostpath"}]}, "storage[0].path", "missing"),
    (
        SEPARATE,
        {"storage": [{"type": "hostpath", "path": "/h", "host_path_type": "Dir"}]},
        "storage[0].host_path_type",
        "DirectoryOrCreate",
    ),
    (SEPARATE, {"storage": [{"type": "hostpath", "path": "/h", "read_only": "true"}]}, "storage[0].read_only", "neither true nor false"),
    (SEPARATE, {"storage": [{"type": "hostpath", "path": "/h", "enable": 1}]}, "storage[0].enable", "neither true nor false"),
    (SEPARATE, {"storage": [{"type": "hostpath", "path": "/h", "mount_path": "x"}]}, "storage[0].mount_path", "no absolute path"),
    (SEPARATE, {"storage": [{"type": "hostpath", "path": "/h", "mount_path": "/a:b"}]}, "storage[0].mount_path", "must not contain :"),
    (
        SEPARATE,
        {"storage": [{"type": "hostpath", "path": "/h", "mount_path": "/mnt/store-1/"}, {"type": "hostpath", "path": "/i"}]},
        "storage[1].mount_path",
        "the mount path of storage[0], too",
    ),
]


@pytest.mark.parametrize(("base", "changes", "path", "wrong"), BROKEN, ids=[f"{row[2]}-{row[3]}"[:70] for row in BROKEN])
def test_one_clear_error(base: dict[str, Any], changes: dict[str, Any], path: str, wrong: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(changed(base, changes))
    expected = path.lstrip("/") if path.startswith("/") else f"{DEPLOY}.{path}"
    assert caught.value.path == expected
    assert wrong in str(caught.value)
    assert str(caught.value).startswith(f"user_config, line {caught.value.line}, column {caught.value.column}: {expected}: ")


def test_a_config_that_is_no_object() -> None:
    with pytest.raises(InputError, match="a user config is an object"):
        parse([])


@pytest.mark.parametrize("key", ["p_instances_num", "image_name", "job_id", "hardware_type"])
def test_a_missing_key_is_placed_at_the_object_that_lacks_it(key: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(changed(SEPARATE, {key: REMOVE}))
    assert (caught.value.line, caught.value.column) == (2, 26)


@pytest.mark.parametrize("value", [True, "4", 4.0, 0, 17, None, [4], type])
def test_counts_of_options_are_strict(value: Any) -> None:
    with pytest.raises(InputError, match=r"^instances\.prefill: ") as caught:
        user_config.validate_count(value, source="instances", engine_role="prefill")
    assert caught.value.path == "instances.prefill"


def test_counts_of_options() -> None:
    assert user_config.validate_count(16, source="instances", engine_role="prefill") == 16
    assert user_config.validate_count(0, source="instances", engine_role="encode") == 0
    with pytest.raises(InputError, match="no such engine role: write one of prefill, decode"):
        user_config.validate_count(1, source="instances", engine_role="p")


@given(st.integers(1, 16), st.integers(1, 16), st.sampled_from(["  ", "\t", ""]), st.booleans())
def test_with_counts_replaces_number_tokens_only(prefill: int, decode: int, indent: str, windows: bool) -> None:
    text = json.dumps(changed(SEPARATE, {"/version": "v2.0 é 2"}), indent=indent, ensure_ascii=False)
    text = text.replace("\n", "\r\n") if windows else text
    config = user_config.parse(json_reader.read("\ufeff" + text, source="x"))
    other = user_config.with_counts(config, {"prefill": prefill, "decode": decode})
    assert other.counts == {"prefill": prefill, "decode": decode}
    assert other.text == text.replace('"p_instances_num": 2', f'"p_instances_num": {prefill}').replace(
        '"d_instances_num": 1', f'"d_instances_num": {decode}'
    )
    assert user_config.with_counts(other, config.counts).text == text


def test_with_counts_keeps_what_is_left_out_or_equal() -> None:
    config = parse(SEPARATE)
    assert user_config.with_counts(config, {"decode": 4}).counts == {"prefill": 2, "decode": 4}
    assert user_config.with_counts(config, {"prefill": 2}) is config


@pytest.mark.parametrize(
    ("counts", "wrong"), [({"union": 1}, "it has: prefill, decode"), ({"prefill": 0}, "out of range"), ({"encode": 1}, "no such instances")]
)
def test_with_counts_refuses(counts: dict[str, int], wrong: str) -> None:
    with pytest.raises(InputError, match=r"^instances\.") as caught:
        user_config.with_counts(parse(SEPARATE), counts)
    assert wrong in str(caught.value)


def test_override_replaces_and_inserts() -> None:
    text = '{\n  "motor_deploy_config": {\n    "job_id": "a",\n    "p_instances_num": 1\n  }\n}\n'
    document = user_config.override(
        json_reader.read(text, source="user_config"),
        {
            (DEPLOY, "job_id"): "b",
            (DEPLOY, "p_instances_num"): 1,
            (DEPLOY, "image_name"): "é",
            ("north_config", "name"): "x",
        },
        source="user_config with inventory variables",
    )
    assert document.text == (
        '{\n  "north_config": {"name": "x"},\n  "motor_deploy_config": {\n    "image_name": "é",\n    "job_id": "b",\n    "p_instances_num": 1\n  }\n}\n'
    )
    assert document.source == "user_config with inventory variables"


def test_override_without_values_changes_nothing() -> None:
    document = json_reader.read("{}", source="x")
    assert user_config.override(document, {}) is document


def test_override_tells_true_from_one() -> None:
    document = user_config.override(json_reader.read('{"a": 1}', source="x"), {("a",): True})
    assert document.text == '{"a": true}'


def test_override_refuses_a_place_in_something_else() -> None:
    with pytest.raises(InputError, match=r"this is no object, so a\.b\.c cannot be set"):
        user_config.override(json_reader.read('{"a": 1}', source="x"), {("a", "b", "c"): 1})


PARALLEL = "/motor_engine_prefill_config.model_config.parallel_config"
NPUS = f"{DEPLOY}.p_pod_npu_num"
DOUBTS: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    (
        SEPARATE,
        {"/motor_engine_decode_config": {"engine_type": "vllm", "engine_config": {"data_parallel_size": 2, "tensor_parallel_size": 16}}},
        [],
    ),
    (SEPARATE, {PARALLEL: {"dp_size": 1, "tp_size": 2, "world_size": 4}}, []),
    (SEPARATE, {PARALLEL: {"dp_size": 2, "tp_size": 16}}, [f"{NPUS}: 1 pods with 16 NPUs offer 1 endpoints, but dp is 2"]),
    (SEPARATE, {PARALLEL: {"tp_size": 16, "pp_size": 2}}, [f"{NPUS}: tp 16 x pp 2 needs 32 NPUs in each pod, not 16"]),
    (SEPARATE, {PARALLEL: {"tp_size": 64}, "/motor_engine_prefill_config.engine_config": {"tensor-parallel-size": 16}}, []),
    (SEPARATE, {PARALLEL: {"tp_size": "x"}}, []),
    (
        SEPARATE,
        {PARALLEL: {"tp_size": 32}, "/motor_engine_prefill_config.enable_multi_endpoints": False},
        [f"{NPUS}: world_size 32 with 16"],
    ),
    (SEPARATE, {PARALLEL: {"tp_size": 32, "world_size": 16}, "/motor_engine_prefill_config.enable_multi_endpoints": False}, []),
    (SEPARATE, {"single_p_instance_pod_num": REMOVE}, [f"{DEPLOY}.single_p_instance_pod_num: missing"]),
    (
        SEPARATE,
        {"/motor_engine_prefill_config": REMOVE},
        ["motor_engine_prefill_config: missing", "motor_engine_decode_config.engine_type: vllm differs from None"],
    ),
    (SEPARATE, {"/motor_engine_decode_config.engine_type": "sglang"}, ["motor_engine_decode_config.engine_type: sglang differs from vllm"]),
    (SEPARATE, {"e_instances_num": 0}, []),
    (SEPARATE, {"weight_mount_path": "<here>"}, [f'{DEPLOY}.weight_mount_path: "<here>" is no absolute path']),
    (
        SEPARATE,
        {"weight_mount_path": "/mnt/w", "e_instance_num": 1, "unheard_of": 1},
        [f"{DEPLOY}.e_instance_num: nothing reads this key; is e_instances_num meant?"],
    ),
    (
        SEPARATE,
        {"/kv_cache_store_config": {}, "/kv_cache_pool_config": {}, "/motor_engine_prefill_config": POOL},
        ["kv_cache_pool_config: releases from 2026-07 on read only"],
    ),
]


@pytest.mark.parametrize(("base", "changes", "doubts"), DOUBTS, ids=[str(index) for index in range(len(DOUBTS))])
def test_doubts_are_no_errors(base: dict[str, Any], changes: dict[str, Any], doubts: list[str]) -> None:
    decode = {"/motor_engine_decode_config.engine_config": {"data_parallel_size": 2, "tensor_parallel_size": 16}}
    found = user_config.warnings(parse(changed(changed(base, decode), changes)))
    assert len(found) == len(doubts), found
    assert all(one.startswith(start) for one, start in zip(found, doubts, strict=True)), found
