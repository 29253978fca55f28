# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A user config: counts, deploy mode and what else decides which objects a service consists of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import config_rules, config_warnings
from .config_rules import COUNT_KEYS, DEPLOY, DEPLOY_MODES, NPU_KEYS, POD_KEYS
from .errors import InputError
from .fields import MAX_COUNT, MIN_COUNT, Fields, wrong_count
from .instances import ENGINE_ROLES, base_name
from .json_reader import Document, Path, dotted, read
from .record import USER_CONFIG_KEY
from .sizes import check_size

__all__ = [
    "COUNT_KEYS",
    "DEPLOY",
    "DEPLOY_MODES",
    "MAX_COUNT",
    "MIN_COUNT",
    "NPU_KEYS",
    "POD_KEYS",
    "UserConfig",
    "override",
    "parse",
    "validate_count",
    "warnings",
    "with_counts",
]


@dataclass(frozen=True)
class UserConfig:
    """A user config that obeys the rules. Everything the rules do not speak about is in `data` as it was given.

    `counts` has exactly the engine roles that the config asks for, `encode` only when its key is there (0 is then possible).
    `pods_per_instance` and `npus_per_pod` have the same keys; None means that the key is absent. `engine_type` is "" when absent.
    """

    document: Document
    namespace: str
    deploy_mode: str
    backend: str
    hybrid: bool
    counts: Mapping[str, int]
    pods_per_instance: Mapping[str, int | None]
    npus_per_pod: Mapping[str, int | None]
    engine_type: str
    base_name: str
    hardware_type: str
    image: str
    weight_mount_path: str | None

    @property
    def data(self) -> dict[str, Any]:
        """The decoded document."""
        found: dict[str, Any] = self.document.data
        return found

    @property
    def text(self) -> str:
        """The document byte for byte, without a byte order mark."""
        return self.document.text

    @property
    def scalable(self) -> bool:
        """Whether counts can change while the service runs: in single_container they are processes of one pod."""
        return self.deploy_mode != "single_container"


def parse(document: Document) -> UserConfig:
    """Check a document and read what matters from it. Raises one InputError, the first in a fixed order of rules."""
    check_size({USER_CONFIG_KEY: document.text}, source=document.source)
    fields = Fields(document)
    mode, counts = config_rules.check(fields)
    engine_type = config_rules.engine_type(fields)
    hardware_type = document.value((*DEPLOY, "hardware_type"))
    return UserConfig(
        document=document,
        namespace=document.value((*DEPLOY, "job_id")),
        deploy_mode=mode,
        backend=mode if mode in ("infer_service_set", "ascend_jobs") else "deployments",
        hybrid="union" in counts,
        counts=counts,
        pods_per_instance={role: document.value((*DEPLOY, POD_KEYS[role])) for role in counts},
        npus_per_pod={role: document.value((*DEPLOY, NPU_KEYS[role])) for role in counts},
        engine_type=engine_type,
        base_name=base_name(engine_type),
        hardware_type=hardware_type,
        image=document.value((*DEPLOY, "image_name")) or "",
        weight_mount_path=document.value((*DEPLOY, "weight_mount_path")),
    )


def warnings(config: UserConfig) -> tuple[str, ...]:
    """What is doubtful but no error, one sentence each: NPUs that do not match the parallelism, keys that nobody reads."""
    return config_warnings.find(Fields(config.document), config.counts)


def validate_count(value: Any, *, source: str, engine_role: str) -> int:
    """A count given in an option such as `instances: {prefill: 4}`, where `source` is `instances`.

    Raises InputError; strings, booleans and 1.0 are no counts. Only encode may be 0.
    """
    path = f"{source}.{engine_role}"
    if engine_role not in ENGINE_ROLES:
        raise InputError.at(f"there is no such engine role: write one of {', '.join(ENGINE_ROLES)}", source=source, path=path)
    wrong = wrong_count(value, minimum=config_rules.minimum_count(engine_role))
    if wrong:
        raise InputError.at(wrong, source=source, path=path)
    return int(value)


def with_counts(config: UserConfig, counts: Mapping[str, int]) -> UserConfig:
    """The same config with other counts: number tokens are replaced and no other character. Engine roles left out keep theirs.

    Raises InputError for an engine role that the config does not ask for, and for a count out of range.
    """
    for engine_role, count in counts.items():
        validate_count(count, source="instances", engine_role=engine_role)
        if engine_role not in config.counts:
            wrong = f"this service has no such instances (it has: {', '.join(config.counts)})"
            raise InputError.at(wrong, source="instances", path=f"instances.{engine_role}")
    tokens: dict[Path, str] = {
        (*DEPLOY, COUNT_KEYS[engine_role]): str(count) for engine_role, count in counts.items() if count != config.counts[engine_role]
    }
    if not tokens:
        return config
    document = config.document
    return parse(read(document.replace(tokens), source=document.source, typed=document.typed))


def override(document: Document, values: Mapping[Path, Any], *, source: str | None = None) -> Document:
    """The document with some values set, as inventory variables do: `{("motor_deploy_config", "job_id"): "mindie-a"}`.

    A value that is there already, of the same kind, keeps its token; others are replaced; absent keys are inserted.
    `source` names the result in errors. Raises InputError when a value lies in something that is no object.
    """
    for path, value in values.items():
        text = _set(document, path, value)
        document = read(text, source=source or document.source, typed=document.typed)
    return document


def _set(document: Document, path: Path, value: Any) -> str:
    if document.has(path):
        old = document.value(path)
        same = type(old) is type(value) and old == value
        return document.text if same else document.replace({path: json.dumps(value, ensure_ascii=False)})
    parent = path[:-1]
    while parent and not document.has(parent):
        parent = parent[:-1]
    if not isinstance(document.value(parent), dict):
        raise document.error(parent, f"this is no object, so {dotted(path)} cannot be set: write {{...}}")
    for key in reversed(path[len(parent) + 1 :]):
        value = {key: value}
    return document.insert(parent, str(path[len(parent)]), json.dumps(value, ensure_ascii=False))
