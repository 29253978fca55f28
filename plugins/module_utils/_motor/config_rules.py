# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules that a user config has to obey, in the order in which they are checked. A missing count is an error, never 1 and never 0."""

from __future__ import annotations

import re
from types import MappingProxyType

from .fields import MAX_COUNT, MAX_PORT, MIN_COUNT, Fields
from .hardware import HARDWARE, Hardware
from .instances import BASE_NAMES, LETTER
from .json_reader import Path
from .storage_rules import check_storage

DEPLOY: Path = ("motor_deploy_config",)
JOBS = "ascend_jobs"
DEPLOY_MODES = ("infer_service_set", "multi_deployment", "single_container", JOBS)
DEFAULT_DEPLOY_MODE = "infer_service_set"

COUNT_KEYS = MappingProxyType(
    {"prefill": "p_instances_num", "decode": "d_instances_num", "union": "hybrid_instances_num", "encode": "e_instances_num"}
)
POD_KEYS = MappingProxyType(
    {
        "prefill": "single_p_instance_pod_num",
        "decode": "single_d_instance_pod_num",
        "union": "single_hybrid_instance_pod_num",
        "encode": "single_e_instance_pod_num",
    }
)
NPU_KEYS = MappingProxyType(
    {"prefill": "p_pod_npu_num", "decode": "d_pod_npu_num", "union": "hybrid_pod_npu_num", "encode": "e_pod_npu_num"}
)
ENGINE_SECTIONS = MappingProxyType({role: f"motor_engine_{role}_config" for role in ("prefill", "decode", "union", "encode")})
SECTIONS = (
    "motor_controller_config",
    "motor_coordinator_config",
    "motor_nodemanger_config",
    *ENGINE_SECTIONS.values(),
    "kv_cache_pool_config",
    "kv_cache_store_config",
    "kv_conductor_config",
    "north_config",
)
EVICTION_KEYS = ("eviction_high_watermark_ratio", "eviction_ratio")

MAX_PODS = 1024
MAX_LABEL = 63
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
# What is made of job_id and must not exceed 63 characters, per deploy mode; 00000000 stands for the suffix of an engine's JOB_NAME.
_DERIVED = MappingProxyType(
    {
        "infer_service_set": (),
        JOBS: (),
        "multi_deployment": (
            ("label job-name", "{job_id}-coordinator"),
            ("label job-name", "{job_id}-controller"),
            ("label job-name", f"{{job_id}}-{{letter}}{MAX_COUNT - 1}-00000000"),
        ),
        "single_container": (("label app", "{job_id}-single-container"), ("Service name", "{job_id}-coordinator-service")),
    }
)


def minimum_count(engine_role: str) -> int:
    """The least count of an engine role: only encode instances may be absent."""
    return 0 if engine_role == "encode" else MIN_COUNT


def check(fields: Fields) -> tuple[str, dict[str, int]]:
    """Check a whole user config. Returns the effective deploy mode and the counts. Raises the InputError of the first broken rule."""
    _check_frame(fields)
    mode = fields.choice((*DEPLOY, "deploy_mode"), "the deploy mode", DEPLOY_MODES) or DEFAULT_DEPLOY_MODE
    hybrid = fields.document.has((*DEPLOY, COUNT_KEYS["union"]))
    if hybrid:
        _check_hybrid(fields, mode)
    counts = _counts(fields, hybrid)
    if counts.get("encode") and mode == "single_container":
        raise fields.document.error(
            (*DEPLOY, COUNT_KEYS["encode"]),
            "deploy mode single_container runs no encode instances: remove this key, or choose another deploy_mode",
        )
    _check_job_id(fields, mode, counts)
    if mode == JOBS:
        _check_jobs(fields, counts)
    else:
        fields.required_string((*DEPLOY, "image_name"), "the image of all containers, registry/name:tag")
    _check_hardware(fields, mode, counts)
    fields.string((*DEPLOY, "weight_mount_path"), "the directory of the model weights")
    fields.quantity((*DEPLOY, "dshm_size"), "the size of /dev/shm")
    fields.boolean((*DEPLOY, "enable_pd_heterogeneous"), False)
    check_storage(fields, (*DEPLOY, "storage"))
    _check_control(fields)
    engine_type(fields)
    _check_kv(fields)
    return mode, counts


def engine_type(fields: Fields) -> str:
    """The engine that names and flags depend on: of the prefill section (hybrid: of the union section), "" when absent."""
    types = {}
    for role, section in ENGINE_SECTIONS.items():
        if fields.present((section,)):
            types[role] = fields.choice((section, "engine_type"), "the engine", BASE_NAMES) or ""
    hybrid = fields.document.has((*DEPLOY, COUNT_KEYS["union"]))
    return types.get("union" if hybrid else "prefill", "")


def uses_kv_pool(fields: Fields) -> bool:
    """Whether prefill hands its KV cache to several connectors, which is what makes the deployer start a KV pool."""
    connector = fields.document.value((ENGINE_SECTIONS["prefill"], "engine_config", "kv_transfer_config", "kv_connector"))
    return bool(connector == "MultiConnector")


def _check_frame(fields: Fields) -> None:
    document = fields.document
    if not isinstance(document.data, dict):
        raise document.error((), 'a user config is an object: write {"motor_deploy_config": {...}, ...}')
    if not fields.section(DEPLOY):
        raise document.error(DEPLOY, "this section is missing: write the object with job_id, image_name, hardware_type and the counts")
    for section in SECTIONS:
        fields.section((section,))
    for section in ENGINE_SECTIONS.values():
        if fields.present((section,)):
            nested = fields.section((section, "engine_config"))
            if nested:
                fields.section((section, "engine_config", "kv_transfer_config"))


def _check_hybrid(fields: Fields, mode: str) -> None:
    """A config with hybrid_instances_num runs union instances and nothing of prefill and decode."""
    document = fields.document
    for key in (POD_KEYS["union"], NPU_KEYS["union"]):
        if not document.has((*DEPLOY, key)):
            raise document.error((*DEPLOY, key), "this key is missing: a config with hybrid_instances_num needs it")
    for keys in (COUNT_KEYS, POD_KEYS, NPU_KEYS):
        for role in ("prefill", "decode"):
            if document.has((*DEPLOY, keys[role])):
                raise document.error(
                    (*DEPLOY, keys[role]), f"a config with hybrid_instances_num has no {role} instances: remove one of the two keys"
                )
    if document.has((*DEPLOY, "engine_topology")):
        raise document.error((*DEPLOY, "engine_topology"), "a config with hybrid_instances_num has no engine topology: remove this key")
    if not fields.present((ENGINE_SECTIONS["union"],)):
        raise document.error((ENGINE_SECTIONS["union"],), "this section is missing: a config with hybrid_instances_num needs it")
    for role in ("prefill", "decode"):
        if document.has((ENGINE_SECTIONS[role],)):
            raise document.error((ENGINE_SECTIONS[role],), "a config with hybrid_instances_num has no such section: remove it")
    if mode == "single_container":
        raise document.error(
            (*DEPLOY, "deploy_mode"), "single_container cannot run hybrid instances: write infer_service_set or multi_deployment"
        )


def _counts(fields: Fields, hybrid: bool) -> dict[str, int]:
    counts = {}
    for role in ("union",) if hybrid else ("prefill", "decode"):
        path = (*DEPLOY, COUNT_KEYS[role])
        count = fields.integer(path, MIN_COUNT, MAX_COUNT)
        if count is None:
            wrong = (
                f"this key is missing: write the number of {role} instances, {MIN_COUNT} to {MAX_COUNT} (a missing count is never guessed)"
            )
            raise fields.document.error(path, wrong)
        counts[role] = count
    encode = fields.integer((*DEPLOY, COUNT_KEYS["encode"]), minimum_count("encode"), MAX_COUNT)
    return counts if encode is None else {**counts, "encode": encode}


def _check_job_id(fields: Fields, mode: str, counts: dict[str, int]) -> None:
    """job_id is the namespace, and part of label values and names."""
    path = (*DEPLOY, "job_id")
    job_id = fields.required_string(path, "the namespace of the service")
    if not _DNS_LABEL.fullmatch(job_id):
        raise fields.document.error(
            path,
            f"{fields.shown(path)} cannot name a namespace: write lower-case letters, digits and -, beginning and ending with a letter or digit",
        )
    if len(job_id) > MAX_LABEL:
        raise fields.document.error(path, f"{len(job_id)} characters are too long for a namespace: write at most {MAX_LABEL}")
    for what, pattern in _DERIVED[mode]:
        longest = max(len(pattern.format(job_id=job_id, letter=LETTER[role])) for role in counts)
        if longest > MAX_LABEL:
            limit = len(job_id) - (longest - MAX_LABEL)
            shown = pattern.format(job_id="<job_id>", letter=LETTER[next(iter(counts))])
            wrong = f"{len(job_id)} characters are too long, as the {what} {shown} may have {MAX_LABEL} at most: write at most {limit}"
            raise fields.document.error(path, wrong)
    if mode == "single_container" and job_id[0].isdigit():
        raise fields.document.error(
            path, "the Service name <job_id>-coordinator-service must begin with a letter: let job_id begin with one"
        )


def _check_hardware(fields: Fields, mode: str, counts: dict[str, int]) -> None:
    """Each pod has to fit on a server of this hardware."""
    document = fields.document
    path = (*DEPLOY, "hardware_type")
    what = f"the kind of servers, one of {', '.join(HARDWARE)}"
    fields.required_string(path, what)
    hardware = HARDWARE[fields.choice(path, what, HARDWARE) or ""]
    for role, count in counts.items():
        pods, npus = (*DEPLOY, POD_KEYS[role]), (*DEPLOY, NPU_KEYS[role])
        fields.integer(pods, 1, MAX_PODS)
        fields.integer(npus, 1, 1024)
        if count and not document.has(npus):
            raise document.error(npus, "this key is missing: write the number of NPUs of each pod (Motor takes a missing number for none)")
        if count and _needs_pods(mode, hardware) and not document.has(pods):
            raise document.error(pods, f"this key is missing: write the number of pods of each {role} instance")
        if (document.value(npus) or 0) > hardware.npus_per_server:
            wrong = (
                f"a {hardware.hardware_type} server has {hardware.npus_per_server} NPUs, so a pod with {document.raw(npus)} fits nowhere"
            )
            raise document.error(npus, f"{wrong}: write at most {hardware.npus_per_server} and more pods ({pods[-1]})")


def _needs_pods(mode: str, hardware: Hardware) -> bool:
    return mode == JOBS or (mode == "multi_deployment" and hardware.generation != "A2")


def _check_jobs(fields: Fields, counts: dict[str, int]) -> None:
    """AscendJobs are made from the user's job templates, which bring the image; a scaling rule has a group for prefill and one for decode."""
    document = fields.document
    for role in counts:
        if role not in ("prefill", "decode"):
            raise document.error((*DEPLOY, COUNT_KEYS[role]), f"deploy mode {JOBS} has prefill and decode instances alone: remove this key")
    found = document.value((*DEPLOY, "hardware_type"))
    if isinstance(found, str) and found in HARDWARE and HARDWARE[found].generation not in ("A2", "A3"):
        raise document.error((*DEPLOY, "hardware_type"), f"deploy mode {JOBS} is for A2 and A3 servers: choose another deploy_mode")


def _check_control(fields: Fields) -> None:
    for section in ("motor_controller_config", "motor_coordinator_config", "motor_nodemanger_config"):
        if not fields.present((section,)):
            continue
        if fields.section((section, "standby_config")):
            fields.boolean((section, "standby_config", "enable_master_standby"), False)
        if fields.section((section, "logging_config")):
            fields.absolute_path((section, "logging_config", "host_log_dir"), "the log directory on the host")


def _check_kv(fields: Fields) -> None:
    document = fields.document
    if fields.present(("kv_cache_store_config",)):
        backend = fields.choice(("kv_cache_store_config", "backend"), "the KV store", ("memcache", "mooncake"))
        if backend == "mooncake":
            _require_evictions(fields, "kv_cache_store_config")
    elif fields.present(("kv_cache_pool_config",)) and uses_kv_pool(fields):
        _require_evictions(fields, "kv_cache_pool_config")
    for section, key, least in (
        ("kv_cache_store_config", "port", 1),
        ("kv_cache_store_config", "config_store_port", 1),
        ("kv_cache_store_config", "metrics_port", 1),
        ("kv_cache_pool_config", "port", 1),
        ("kv_conductor_config", "http_server_port", 0),
    ):
        if isinstance(document.value((section,)), dict):
            fields.integer((section, key), least, MAX_PORT)


def _require_evictions(fields: Fields, section: str) -> None:
    for key in EVICTION_KEYS:
        if not fields.present((section, key)):
            raise fields.document.error(
                (section, key), "this key is missing: write the ratio, such as 0.1 (the KV store does not start without it)"
            )
