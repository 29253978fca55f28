# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is doubtful in a user config that obeys the rules: it can be deployed, but probably does not serve."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from .config_rules import COUNT_KEYS, DEPLOY, ENGINE_SECTIONS, NPU_KEYS, POD_KEYS, uses_kv_pool
from .fields import Fields
from .json_reader import Path, dotted

_KNOWN = (
    *COUNT_KEYS.values(),
    *POD_KEYS.values(),
    *NPU_KEYS.values(),
    "deploy_mode",
    "dshm_size",
    "enable_pd_heterogeneous",
    "engine_topology",
    "env_path",
    "hardware_type",
    "image_name",
    "job_id",
    "pd_heterogeneous_decode_label_value",
    "pd_heterogeneous_label_key",
    "pd_heterogeneous_prefill_label_value",
    "storage",
    "tls_config",
    "weight_mount_path",
)
# Where a degree of parallelism stands: in parallel_config, and under which key of engine_config, which wins.
_DEGREES = {"dp_size": "data_parallel_size", "tp_size": "tensor_parallel_size", "pp_size": "pipeline_parallel_size", "cp_size": ""}


def find(fields: Fields, counts: Mapping[str, int]) -> tuple[str, ...]:
    """Doubts in a fixed order, each one sentence that begins with a path."""
    return (*_unknown_keys(fields), *_paths(fields), *_engines(fields, counts), *_kv(fields))


def _unknown_keys(fields: Fields) -> Iterator[str]:
    for key in fields.document.value(DEPLOY):
        if key not in _KNOWN:
            close = difflib.get_close_matches(key, _KNOWN, n=1, cutoff=0.8)
            if close:
                yield f"{dotted((*DEPLOY, key))}: nothing reads this key; is {close[0]} meant?"


def _paths(fields: Fields) -> Iterator[str]:
    path = (*DEPLOY, "weight_mount_path")
    value = fields.document.value(path)
    if value is not None and not value.startswith("/"):
        yield f"{dotted(path)}: {fields.shown(path)} is no absolute path, so containers will not start"


def _engines(fields: Fields, counts: Mapping[str, int]) -> Iterator[str]:
    for role, count in counts.items():
        section = (ENGINE_SECTIONS[role],)
        if not count:
            continue
        if not fields.present((*DEPLOY, POD_KEYS[role])):
            yield f"{dotted((*DEPLOY, POD_KEYS[role]))}: missing, so the template of the release decides how many pods an instance has"
        if not fields.present(section):
            yield f"{dotted(section)}: missing, so {role} instances have no engine to start"
        else:
            yield from _arithmetic(fields, role)
    engines = {role: fields.document.value((ENGINE_SECTIONS[role], "engine_type")) for role in counts}
    if "prefill" in engines and engines["prefill"] != engines["decode"]:
        yield f"{ENGINE_SECTIONS['decode']}.engine_type: {engines['decode']} differs from {engines['prefill']} of the prefill section"


def _arithmetic(fields: Fields, role: str) -> Iterator[str]:
    """The NPUs of an instance have to match its parallelism, or it is never complete.

    The rule is the node manager's: with several endpoints per pod, `pods * min(dp, npus // (tp * pp)) == dp`; with one,
    `pods == ceil(world_size / npus)`.
    """
    pods, npus = fields.document.value((*DEPLOY, POD_KEYS[role])), fields.document.value((*DEPLOY, NPU_KEYS[role]))
    section = ENGINE_SECTIONS[role]
    sizes = {name: _degree(fields, section, name) for name in _DEGREES}
    if pods is None or any(size is None for size in sizes.values()):
        return
    dp, tp, pp, cp = (sizes[name] or 1 for name in ("dp_size", "tp_size", "pp_size", "cp_size"))
    path = dotted((*DEPLOY, NPU_KEYS[role]))
    if fields.document.value((section, "enable_multi_endpoints")) is False:
        world = fields.document.value((section, "model_config", "parallel_config", "world_size")) or dp * cp * tp * pp
        needed = -(-world // npus)
        if needed != pods:
            yield f"{path}: world_size {world} with {npus} NPUs per pod needs {needed} pods per instance, not {pods}; {role} instances will never be complete"
    elif npus < tp * pp:
        yield f"{path}: tp {tp} x pp {pp} needs {tp * pp} NPUs in each pod, not {npus}; {role} instances will never be complete"
    elif pods * min(dp, npus // (tp * pp)) != dp:
        offered = pods * min(dp, npus // (tp * pp))
        yield f"{path}: {pods} pods with {npus} NPUs offer {offered} endpoints, but dp is {dp}; {role} instances will never be complete"


def _degree(fields: Fields, section: str, name: str) -> int | None:
    """One degree of parallelism, 1 when not given, None when it is no positive integer."""
    native = _DEGREES[name]
    candidates: list[Path] = [(section, "model_config", "parallel_config", name)]
    if native:
        candidates = [(section, "engine_config", native), (section, "engine_config", native.replace("_", "-")), *candidates]
    value: Any = next((fields.document.value(path) for path in candidates if fields.present(path)), 1)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _kv(fields: Fields) -> Iterator[str]:
    if uses_kv_pool(fields) and fields.present(("kv_cache_pool_config",)) and fields.present(("kv_cache_store_config",)):
        yield "kv_cache_pool_config: releases from 2026-07 on read only kv_cache_store_config, which is there, too"
