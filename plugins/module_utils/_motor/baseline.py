# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare two user configs: which differences are counts, which a running service picks up, which need new pods or another service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .config_rules import COUNT_KEYS, DEFAULT_DEPLOY_MODE, DEPLOY, ENGINE_SECTIONS
from .instances import base_name
from .json_reader import Path, dotted

# What a running service reloads from the mounted `motor-config`; the list is that of Motor's own deployer.
UPDATABLE = frozenset(
    f"{section}.{leaf}"
    for section, leaves in {
        "motor_deploy_config.tls_config.north_tls_config": ("enable_tls", "ca_file", "cert_file", "key_file", "passwd_file", "crl_file"),
        "north_config": ("name", "ip", "port"),
        "motor_controller_config.logging_config": ("log_level",),
        "motor_controller_config.observability_config": ("observability_enable", "metrics_ttl"),
        "motor_coordinator_config.logging_config": ("log_level",),
        "motor_coordinator_config.exception_config": ("max_retry", "retry_delay", "first_token_timeout", "infer_timeout"),
        "motor_coordinator_config.timeout_config": (
            "request_timeout",
            "connection_timeout",
            "read_timeout",
            "write_timeout",
            "keep_alive_timeout",
        ),
        "motor_nodemanger_config.logging_config": ("log_level",),
    }.items()
    for leaf in leaves
)

_COUNT_PATHS = {(*DEPLOY, key): engine_role for engine_role, key in COUNT_KEYS.items()}
_JOB_ID: Path = (*DEPLOY, "job_id")
_DEPLOY_MODE: Path = (*DEPLOY, "deploy_mode")
_HYBRID: Path = (*DEPLOY, COUNT_KEYS["union"])


@dataclass(frozen=True)
class Changes:
    """Differences by what they take. Paths are dotted and sorted; counts are `{engine_role: (old, new)}`, 0 for an absent key.

    `updatable`: picked up by running pods. `restart`: read by pods only when they start. `not_allowed`: makes another service.
    """

    counts: Mapping[str, tuple[int, int]]
    updatable: tuple[str, ...]
    restart: tuple[str, ...]
    not_allowed: tuple[str, ...]

    @property
    def others(self) -> tuple[str, ...]:
        """All paths that are no counts, sorted."""
        return tuple(sorted(self.updatable + self.restart + self.not_allowed))

    def __bool__(self) -> bool:
        return bool(self.counts or self.others)


def compare(old_data: Mapping[str, Any], new_data: Mapping[str, Any]) -> Changes:
    """Compare two decoded user configs that obey the rules.

    What holds nothing is absent: a key that is missing, null, `{}`, `[]`, or an object that holds only such keys makes no
    difference. An absent deploy mode is its default. Numbers are equal when their values are (1 and 1.0); true and 1, or 2
    and "2", are not. Lists of equal length are compared item by item, others as a whole. Adding and removing a key of
    `UPDATABLE` is an update like changing it, as long as no object or list takes the place of its value.
    """
    counts: dict[str, tuple[int, int]] = {}
    classes: dict[str, list[str]] = {"updatable": [], "restart": [], "not_allowed": []}
    switched = _is_hybrid(old_data) != _is_hybrid(new_data)
    for path in _differences(old_data, new_data, ()):
        engine_role = _COUNT_PATHS.get(path)
        if engine_role and not switched:
            counts[engine_role] = (_value(old_data, path) or 0, _value(new_data, path) or 0)
        else:
            classes[_class(path, old_data, new_data)].append(dotted(path))
    counts = {engine_role: counts[engine_role] for engine_role in COUNT_KEYS if engine_role in counts}
    return Changes(counts, **{name: tuple(sorted(paths)) for name, paths in classes.items()})


def read_at_start(data: Any, path: Path = ()) -> Any:
    """What of a decoded user config pods read only when they start, in a form that is equal for configs that `compare` finds equal."""
    if isinstance(data, dict):
        kept = {key: read_at_start(value, (*path, key)) for key, value in data.items() if not _read_again((*path, key), value)}
        return {key: value for key, value in kept.items() if not _is_empty(value)}
    if isinstance(data, list):
        return [read_at_start(value, (*path, index)) for index, value in enumerate(data)]
    return int(data) if isinstance(data, float) and data.is_integer() else data


def _read_again(path: Path, value: Any) -> bool:
    """Whether a difference of this value needs no new pods; the default deploy mode is as good as none."""
    nested = isinstance(value, (dict, list)) and not _is_empty(value)
    if path == _DEPLOY_MODE:
        return value in (None, DEFAULT_DEPLOY_MODE)
    return path in _COUNT_PATHS or (dotted(path) in UPDATABLE and not nested)


def _class(path: Path, old_data: Mapping[str, Any], new_data: Mapping[str, Any]) -> str:
    if path in _COUNT_PATHS or path in (_JOB_ID, _DEPLOY_MODE) or _renames(path, old_data, new_data):
        return "not_allowed"
    nested = any(isinstance(_value(data, path), (dict, list)) for data in (old_data, new_data))
    return "updatable" if dotted(path) in UPDATABLE and not nested else "restart"


def _is_hybrid(data: Mapping[str, Any]) -> bool:
    return _value(data, _HYBRID) is not None


def _renames(path: Path, old_data: Mapping[str, Any], new_data: Mapping[str, Any]) -> bool:
    """Whether a difference at this path gives all engine instances other names."""
    naming = "union" if _is_hybrid(new_data) else "prefill"
    if path != (ENGINE_SECTIONS[naming], "engine_type"):
        return False
    return base_name(_value(old_data, path) or "") != base_name(_value(new_data, path) or "")


def _differences(old: Any, new: Any, path: Path) -> Iterator[Path]:
    """Paths at which two values differ."""
    if path == _DEPLOY_MODE:
        old, new = old or DEFAULT_DEPLOY_MODE, new or DEFAULT_DEPLOY_MODE
    if _is_empty(old) and _is_empty(new):
        return
    one, other = ({} if _is_empty(value) else value for value in (old, new))
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from _differences(one.get(key), other.get(key), (*path, key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, pair in enumerate(zip(old, new, strict=True)):
            yield from _differences(*pair, (*path, index))
    elif not _same(old, new):
        yield path


def _is_empty(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_is_empty(item) for item in value.values())
    return value is None or value == []


def _same(old: Any, new: Any) -> bool:
    """Equality of values that are no objects: booleans are no numbers."""
    if isinstance(old, bool) or isinstance(new, bool):
        return old is new
    return bool(old == new)


def _value(data: Any, path: Path) -> Any:
    for token in path:
        if isinstance(data, dict):
            data = data.get(token)
        elif isinstance(data, list) and isinstance(token, int) and token < len(data):
            data = data[token]
        else:
            return None
    return data
