# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The history of a service: one ControllerRevision `motor-<n>` per record of success. Nothing depends on it being there.

It holds the user config, the environment, one workload per engine role to copy, the counts, and who changed what when and why.
In place of secrets there are marks; going back takes their values from the current config, as long as they are still the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from . import json_reader, secrets, shell_environment, siblings
from .digests import sha256
from .errors import InputError, Refused
from .json_reader import Document, Path, dotted
from .ownership import CONFIG_MAP, metadata_labels
from .record import USER_CONFIG_KEY, applied_of
from .state import Snapshot
from .workloads import pod_templates

KIND = "ControllerRevision"
KEPT = 10
MAX_BYTES = 900 * 1024
COMPONENT = "history"
SELECTOR = ",".join(f"{key}={value}" for key, value in metadata_labels(COMPONENT).items())


@dataclass(frozen=True)
class Entry:
    """What to store of one record of success. `warning` says what had to be left out, if anything."""

    obj: Mapping[str, Any]
    warning: str = ""

    @property
    def name(self) -> str:
        """`motor-<n>`."""
        return str(self.obj["metadata"]["name"])

    @property
    def superseded(self) -> str | None:
        """The revision that is no longer kept, or None."""
        number = int(self.obj["revision"]) - KEPT
        return revision_name(number) if number > 0 else None


def revision_name(number: int) -> str:
    """The name of the ControllerRevision of a record of success."""
    return f"motor-{number}"


def entry(snapshot: Snapshot, why: str) -> Entry:
    """The history of the record of success that `motor-config` carries now."""
    config_map = snapshot.config_map or {}
    applied = applied_of(config_map) or {}
    data = config_map.get("data") or {}
    content = {
        "config": _marked(data.get(USER_CONFIG_KEY, "")),
        "env": _marked(_env_text(data)),
        "release": release_digest(data),
        "templates": _templates(snapshot),
        "counts": applied.get("counts") or {},
        "at": applied.get("at", ""),
        "by": applied.get("by", ""),
        "why": why,
    }
    number = int(applied.get("revision") or 1)
    obj = _revision(snapshot, number, content)
    size = len(json.dumps(obj))
    if size <= MAX_BYTES:
        return Entry(obj)
    warning = (
        f"The history of revision {number} is kept without its user config: with it, it would have {size} bytes, more than {MAX_BYTES}."
    )
    return Entry(_revision(snapshot, number, {**content, "config": None}), warning)


def summary(revision: Mapping[str, Any]) -> dict[str, Any]:
    """One revision as it is shown."""
    data = revision.get("data") or {}
    return {"revision": int(revision["revision"]), **{key: data.get(key) for key in ("at", "by", "why", "counts")}}


def release_digest(data: Mapping[str, str]) -> str:
    """What tells the scripts of one release from those of another, whatever environment is in them."""
    return sha256(json.dumps(shell_environment.without_functions(data), sort_keys=True))


def restored_config(revision: Mapping[str, Any], current: Mapping[str, str]) -> Document:
    """The user config of a revision, byte for byte but for secrets that the current `motor-config` writes otherwise.

    Raises Refused when the revision was kept without its config, or a secret of it is not the current one any more, naming its path.
    """
    found = _restored(revision, "config", current.get(USER_CONFIG_KEY, ""))
    if found is None:
        raise Refused(
            f"Cannot go back to revision {revision['revision']}: its user config was too large to be kept. Give the old user_config instead.",
            reason="NotKept",
        )
    return found


def restored_env(revision: Mapping[str, Any], current: Mapping[str, str]) -> Document | None:
    """The environment of a revision, None when it was not known. Raises Refused as `restored_config` does."""
    return _restored(revision, "env", _env_text(current))


def same_env(revision: Mapping[str, Any], current: Mapping[str, str]) -> bool:
    """Whether the service had the environment then that it has now."""
    return bool((revision.get("data") or {}).get("env") == _marked(_env_text(current)))


def _restored(revision: Mapping[str, Any], what: str, current: str) -> Document | None:
    stored = (revision.get("data") or {}).get(what)
    if stored is None:
        return None
    number, source = int(revision["revision"]), f"{what} of revision {revision['revision']}"
    document = json_reader.read(stored["text"], source=source)
    known = _known_secrets(current)
    paths: list[Path] = [tuple(path) for path in stored["secrets"]]
    tokens = {path: json.dumps(_resolved(known, document.value(path), number, path), ensure_ascii=False) for path in paths}
    return json_reader.read(document.replace(tokens), source=source) if tokens else document


def template(revision: Mapping[str, Any] | None, engine_role: str) -> Mapping[str, Any] | None:
    """A workload of an engine role to copy, or None when the revision has none. Raises Refused when it had secrets in it."""
    found: Mapping[str, Any] | None = ((revision or {}).get("data") or {}).get("templates", {}).get(engine_role)
    hidden = [path for path, variable in _variables(found) if secrets.is_mark(variable["value"])] if found else []
    if hidden:
        raise Refused(
            f"Cannot copy an instance from the history: {', '.join(hidden)} is secret and was not kept. Deploy the service again (motor_service).",
            reason="SecretChanged",
            paths=tuple(hidden),
        )
    return found


def _revision(snapshot: Snapshot, number: int, content: Mapping[str, Any]) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": CONFIG_MAP, "uid": (snapshot.config_map or {})["metadata"].get("uid", "")}
    metadata = {
        "name": revision_name(number),
        "namespace": snapshot.namespace,
        "labels": metadata_labels(COMPONENT),
        "ownerReferences": [owner],  # it goes with the service
    }
    return {"apiVersion": "apps/v1", "kind": KIND, "metadata": metadata, "revision": number, "data": dict(content)}


def _env_text(data: Mapping[str, str]) -> str:
    env = shell_environment.read(data)
    return "" if env is None else json.dumps(env, ensure_ascii=False)


def _marked(text: str) -> dict[str, Any] | None:
    """A JSON text with marks in the place of secrets, and where they are. None when it is no JSON."""
    try:
        document = json_reader.read(text, source=USER_CONFIG_KEY)
    except InputError:
        return None
    found = secrets.places(document.data)
    marked = document.replace({path: json.dumps(secrets.digest(value)) for path, value in found.items()})
    return {"text": marked, "secrets": [list(path) for path in found]}


def _templates(snapshot: Snapshot) -> dict[str, Any]:
    """One workload per engine role, as its siblings are made. An InferServiceSet keeps its own, also at a count of 0."""
    found: dict[str, Any] = {}
    for role, items in siblings.by_role(snapshot.own_workloads, snapshot.base_name).items():
        usual = siblings.usual(deployment for dummy, deployment in items)
        if usual is not None:
            found[role] = siblings.cleaned(usual)
            for dummy, variable in _variables(found[role]):
                hidden = secrets.mark({variable["name"]: variable["value"]})
                variable["value"] = hidden[variable["name"]]
    return found


def _variables(deployment: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Environment variables with a value, and their paths in words."""
    for path, template in pod_templates(deployment):
        for container in template["spec"].get("containers") or ():
            for item in container.get("env") or ():
                if isinstance(item.get("value"), str):
                    yield f"{path}.spec.containers[{container['name']}].env[{item['name']}].value", item


def _known_secrets(text: str) -> dict[str, str]:
    """The secrets of a JSON text, by their marks."""
    try:
        data = json_reader.read(text, source=USER_CONFIG_KEY).data
    except InputError:
        return {}
    return {secrets.digest(value): value for value in secrets.values(data)}


def _resolved(known: Mapping[str, str], mark: str, number: int, path: Path) -> str:
    if mark not in known:
        raise Refused(
            f"Cannot go back to revision {number}: {dotted(path)} is secret, and its value is not the current one any more. "
            "Set the old value in the current configuration first, or give the old user_config instead.",
            reason="SecretChanged",
            paths=(dotted(path),),
        )
    return known[mark]
