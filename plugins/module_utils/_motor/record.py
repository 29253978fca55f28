# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of success on `motor-config`, and the intent on the Lease.

`ascend.mindie/applied` is JSON:
`{"sha256": {"config": .., "env": .., "scripts": ..}, "counts": {engine_role: int}, "revision": int, "at": .., "by": .., "run": ..}`.
`ascend.mindie/intent` is JSON:
`{"verb": .., "from": {engine_role: int}, "to": {engine_role: int}, "by": .., "started": .., "run": ..}`;
it is done with when the record carries the same `run`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

from . import digests as kept_digests
from .digests import sha256
from .ownership import is_ours, metadata_labels

APPLIED_ANNOTATION = "ascend.mindie/applied"
INTENT_ANNOTATION = "ascend.mindie/intent"
# With it nobody's program touches the service.
HOLD_ANNOTATION = "ascend.mindie/hold"
USER_CONFIG_KEY = "user_config.json"
# Of one engine role; no service comes near it.
MOST_INSTANCES = 10_000

ABSENT, DEPLOYER, APPLIED, UNFINISHED = "absent", "deployer", "applied", "unfinished"


def applied_of(config_map: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The record of success, or None when there is none that can be read."""
    found = _json_annotation(config_map, APPLIED_ANNOTATION)
    return found if found is not None and _is_record(found) else None


def intent_of(lease: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What an unfinished (or running) change wants, or None."""
    found = _json_annotation(lease, INTENT_ANNOTATION)
    return found if found is not None and isinstance(found.get("verb", ""), str) else None


def standing(config_map: Mapping[str, Any] | None) -> str:
    """What `motor-config` says of the service.

    `absent`; `deployer`: made by Motor's own deployer, the data are the baseline; `applied`: the data are what the service
    last reached in full; `unfinished`: the data were written by a change that has not ended.
    """
    if config_map is None:
        return ABSENT
    applied = applied_of(config_map)
    if applied is None:
        return UNFINISHED if is_ours(config_map) else DEPLOYER
    wanted, found = applied.get("sha256") or {}, kept_digests.of(config_map) or fingerprint(config_map.get("data") or {})
    return APPLIED if all(wanted.get(key) == found[key] for key in found) else UNFINISHED


def fingerprint(data: Mapping[str, str]) -> dict[str, str]:
    """sha256 of the user config and of all scripts (their injected environment included)."""
    scripts = {key: value for key, value in data.items() if key != USER_CONFIG_KEY}
    return {"config": sha256(data.get(USER_CONFIG_KEY, "")), "scripts": sha256(json.dumps(scripts, sort_keys=True))}


def with_applied(
    config_map: Mapping[str, Any],
    data: Mapping[str, str],
    counts: Mapping[str, int],
    *,
    at: str,
    by: str,
    run: str,
    env_sha256: str | None = None,
    generation: str = "",
) -> dict[str, Any]:
    """`config_map` with `data` and the record that this is what the service has reached. For one compare-and-swap PUT."""
    old = applied_of(config_map) or {}
    digests = fingerprint(data)
    env = env_sha256 or (old.get("sha256") or {}).get("env")
    if env:
        digests["env"] = env
    record = {"sha256": digests, "counts": dict(counts), "revision": int(old.get("revision") or 0) + 1}
    record.update(at=at, by=by, run=run, generation=generation)
    updated = with_data(config_map, data)
    updated["metadata"].setdefault("annotations", {})[APPLIED_ANNOTATION] = json.dumps(record, sort_keys=True)
    return updated


def with_data(config_map: Mapping[str, Any], data: Mapping[str, str]) -> dict[str, Any]:
    """`config_map` with `data` and our labels; its record of success is kept as it was (and so no longer fits new data)."""
    updated: dict[str, Any] = copy.deepcopy(dict(config_map))
    updated["data"] = dict(data)
    labels = {**(updated["metadata"].get("labels") or {}), **metadata_labels("config")}
    updated["metadata"]["labels"] = labels
    updated["metadata"]["annotations"] = dict(updated["metadata"].get("annotations") or {})
    return updated


def _is_record(found: Mapping[str, Any]) -> bool:
    """Whether this is what a record is made of, and not what somebody else wrote in its place."""
    counts = found.get("counts") or {}
    return (
        isinstance(found.get("sha256") or {}, dict)
        and isinstance(counts, dict)
        and all(isinstance(count, int) and 0 <= count <= MOST_INSTANCES for count in counts.values())
        and isinstance(found.get("revision") or 0, int)
    )


def _json_annotation(obj: Mapping[str, Any] | None, name: str) -> dict[str, Any] | None:
    text = ((obj or {}).get("metadata", {}).get("annotations") or {}).get(name)
    if not text:
        return None
    try:
        decoded = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return decoded if isinstance(decoded, dict) else None
