# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The recorded cases of Motor's own deployer, and how their states are compared with ours."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils import _inputs
from ansible_collections.ascend.mindie.plugins.module_utils._motor.release import SHAPE_2026_05, SHAPE_2026_07, Release, understand

from .replay import DELETE, DEPLOY, SCALE, UPDATE, Cluster, Key, Outcome, replay

ROOT = Path(__file__).resolve().parents[2]
UPSTREAM = Path(os.environ.get("MINDIE_SHARED", ROOT.parent / "shared")) / "upstream"
OBJECTS = "cluster_objects.json"
USER_CONFIG = "user_config.json"
ABSENT = "absent"

_FRESH_ID = re.compile(r"-(?:\d{13}[0-9a-f]{8}|<UID>)")
_FUNCTION = re.compile(r"^function (set_\w+_env)\(\) \{\n(.*?)^\}$", re.MULTILINE | re.DOTALL)
_CLUSTER_SCOPED = ("ClusterRole", "ClusterRoleBinding")


@dataclass(frozen=True)
class Recorded:
    """One recorded step: its inputs, and the objects that were in the cluster afterwards."""

    name: str
    shape: str
    verb: str
    config: str
    env: str
    objects: Mapping[str, Any]


@dataclass(frozen=True)
class Difference:
    """A field that differs. `path` is empty for a whole object that only one side has; an absent value is `ABSENT`."""

    kind: str
    name: str
    path: str
    recorded: Any
    ours: Any
    namespace: str

    def __str__(self) -> str:
        side = "only ours" if self.recorded == ABSENT else "only recorded" if self.ours == ABSENT else "differs"
        return f"{self.kind} {self.name}{' ' + self.path if self.path else ''}: {side}"


@dataclass(frozen=True)
class Faults:
    """What a replay meets or changes in some steps: creations that fail, reading that is forbidden, values of the user config
    (`motor_deploy_config`) that are put right first."""

    steps: tuple[str, ...] = ()
    creating: tuple[str, ...] = ()
    forbidden: bool = False
    repaired: tuple[tuple[str, int], ...] = ()


NO_FAULTS = Faults()


@cache
def cases() -> dict[str, tuple[Recorded, ...]]:
    """All recorded cases with their steps, in the order in which they were run."""
    found: dict[str, list[Recorded]] = {}
    for path in sorted((UPSTREAM / "rendered").rglob(OBJECTS)):
        folder = path.parent
        name = folder.relative_to(UPSTREAM / "rendered").as_posix()
        argv = json.loads((folder / "result.json").read_text())["argv"]
        found.setdefault(name.split("/")[0], []).append(
            Recorded(
                name=name,
                shape=SHAPE_2026_07 if name.startswith("jul-") else SHAPE_2026_05,
                verb=_verb(argv),
                config=(folder / USER_CONFIG).read_text(),
                env=(folder / "env.json").read_text(),
                objects=json.loads(path.read_text()),
            )
        )
    return {case: tuple(sorted(steps, key=lambda step: _step_number(step.name))) for case, steps in found.items()}


@cache
def states() -> dict[str, Recorded]:
    """All recorded states by name: the folder of the case, or of its step."""
    return {step.name: step for steps in cases().values() for step in steps}


@cache
def release(shape: str) -> Release:
    """A recorded release. Its scripts are not recorded, only their names: each gets a text of its own."""
    folder = UPSTREAM / "releases" / shape
    files: dict[str, object] = {path: f"#!/bin/bash\n# {path}\n" for path in (folder / "SCRIPTS.txt").read_text().split()}
    for path in sorted((folder / "yaml_template").iterdir()):
        files[f"yaml_template/{path.name}"] = _inputs.read_yaml(path.read_text(), path.name)
    return understand(files, source=f"release {shape}")


@cache
def ours(case: str, faults: Faults = NO_FAULTS) -> dict[str, Outcome]:
    """What our verbs make of a case, step by step."""
    cluster = Cluster()
    found = {}
    for step in cases()[case]:
        here = step.name in faults.steps
        failing = faults.creating if here else ()
        config = _repaired(step.config, faults.repaired) if here else step.config
        forbidden = here and faults.forbidden
        found[step.name] = replay(cluster, step.verb, config, step.env, release(step.shape), failing, forbidden=forbidden)
    return found


def differences(recorded: Recorded, outcome: Outcome) -> list[Difference]:
    """All differences between a recorded state and ours, after masking what is made afresh in every run."""
    namespace = _namespace(recorded.config)
    theirs = {_key(name): _plain(obj) for name, obj in recorded.objects.items()}
    mine = {_deployers_key(key, namespace, theirs): _plain(obj) for key, obj in outcome.objects.items()}
    found = []
    for key in sorted(theirs.keys() | mine.keys()):
        kind, where, name = key
        shown = f"{where}/{name}" if where else name
        if key not in theirs or key not in mine:
            sides = (ABSENT, "there") if key not in theirs else ("there", ABSENT)
            found.append(Difference(kind, shown, "", *sides, namespace))
            continue
        left, right = (dict(_leaves(obj, ())) for obj in (theirs[key], mine[key]))
        for path in [*left, *(path for path in right if path not in left)]:
            sides = (left.get(path, ABSENT), right.get(path, ABSENT))
            if sides[0] != sides[1]:
                found.append(Difference(kind, shown, path, *sides, namespace))
    return found


def _verb(argv: list[str]) -> str:
    if "--update_config" in argv:
        return UPDATE
    if "--update_instance_num" in argv:
        return SCALE
    return DELETE if any("delete.sh" in word for word in argv) else DEPLOY


def _repaired(config: str, values: tuple[tuple[str, int], ...]) -> str:
    data = json.loads(config)
    data["motor_deploy_config"].update(values)
    return json.dumps(data) if values else config


def _step_number(name: str) -> int:
    match = re.search(r"/step(\d+)", name)
    return int(match[1]) if match else 0


def _namespace(config: str) -> str:
    return str(json.loads(config)["motor_deploy_config"].get("job_id", ""))


def _key(name: str) -> Key:
    kind, namespace, rest = name.split("/", 2)
    return kind, namespace, rest


def _deployers_key(key: Key, namespace: str, theirs: Mapping[Key, Any]) -> Key:
    """The deployer's key of an object of ours: of shape 2026-05, cluster-scoped names do not carry the namespace."""
    kind, where, name = key
    bare = (kind, where, name.removesuffix(f"-{namespace}"))
    return bare if kind in _CLUSTER_SCOPED and key not in theirs and bare in theirs else key


def _plain(obj: Mapping[str, Any]) -> dict[str, Any]:
    """An object without what no comparison can hold against anybody: fresh ids, uids, script bodies."""
    plain: dict[str, Any] = json.loads(_FRESH_ID.sub("", json.dumps(obj)))
    for field in ("uid", "creationTimestamp"):
        plain["metadata"].pop(field, None)
    if plain.get("kind", "ConfigMap") == "ConfigMap":
        plain = {"metadata": plain["metadata"], "data": {key: _content(key, value) for key, value in obj["data"].items()}}
    return plain


def _content(key: str, value: Any) -> Any:
    """What is compared of one key of `motor-config`: the decoded user config, or the functions that were put into a script."""
    if key == USER_CONFIG:
        return json.loads(value if isinstance(value, str) else value["content"])
    functions = _functions(value) if isinstance(value, str) else value.get("injected_functions") or {}
    return {"there": True, **{name: "\n".join(lines) for name, lines in functions.items()}}


def _functions(script: str) -> dict[str, list[str]]:
    return {match[1]: [line.strip() for line in match[2].splitlines()] for match in _FUNCTION.finditer(script)}


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Paths and values of everything that holds no other values. Empty objects and null count in a user config only."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list) and value:
        names = [item.get("name") if isinstance(item, dict) else None for item in value]
        named = None not in names and len(set(names)) == len(names)
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, f"[{names[index] if named else index}]"))
    elif value not in (None, {}, []) or path[:2] == ("data", USER_CONFIG):
        yield _words(path), value


def _words(path: tuple[str, ...]) -> str:
    words = ""
    for token in path:
        plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", token)
        words += token if token.startswith("[") else f".{token}" if plain else f"[{token}]"
    return words.removeprefix(".")
