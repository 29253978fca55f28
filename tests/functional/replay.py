# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A recorded case played again: the same inputs through our parser, renderer and planner, on objects in memory."""

from __future__ import annotations

import copy
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._cluster.api import Api, Response
from ansible_collections.ascend.mindie.plugins.module_utils._motor import json_reader
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import MotorError
from ansible_collections.ascend.mindie.plugins.module_utils._motor.kinds import KINDS
from ansible_collections.ascend.mindie.plugins.module_utils._motor.manifests.identity import service_id_of
from ansible_collections.ascend.mindie.plugins.module_utils._motor.manifests.render import render
from ansible_collections.ascend.mindie.plugins.module_utils._motor.ownership import INSTANCE
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan import Plan, Write
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_config import plan_update
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_deploy import plan_deploy
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_remove import plan_remove
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_scale import plan_scale
from ansible_collections.ascend.mindie.plugins.module_utils._motor.record import USER_CONFIG_KEY, with_applied
from ansible_collections.ascend.mindie.plugins.module_utils._motor.release import Release
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot
from ansible_collections.ascend.mindie.plugins.module_utils._motor.user_config import UserConfig, parse

DEPLOY, SCALE, UPDATE, DELETE = "deploy", "scale", "update", "delete"

Key = tuple[str, str, str]


@dataclass(frozen=True)
class Outcome:
    """What a step ended with: the objects of the cluster, and the error if it was refused."""

    objects: Mapping[Key, Mapping[str, Any]]
    error: MotorError | None = None


@dataclass
class Cluster:
    """Objects by kind, namespace and name."""

    objects: dict[Key, dict[str, Any]] = field(default_factory=dict)
    created: int = 0

    def snapshot(self, config: UserConfig) -> Snapshot:
        """The snapshot of one service: what is in its namespace, and the cluster's own objects."""
        mine = [obj for key, obj in self.objects.items() if _belongs(obj, key[1], config.namespace)]
        found = {obj["kind"]: obj for obj in mine if obj["kind"] in ("ConfigMap", "InferServiceSet")}
        others = [obj for obj in mine if obj["kind"] not in ("ConfigMap", "InferServiceSet", "Deployment")]
        return Snapshot(
            namespace=config.namespace,
            backend=config.backend,
            base_name=config.base_name,
            config_map=found.get("ConfigMap"),
            infer_service_set=found.get("InferServiceSet"),
            deployments=tuple(obj for obj in mine if obj["kind"] == "Deployment"),
            others={(obj["kind"], obj["metadata"]["name"]): obj for obj in others},
        )

    def run(self, plan: Plan, failing: Collection[str] = ()) -> None:
        """Do what a plan says. Writes to objects named in `failing` fail: nothing after their step happens, and no record is made."""
        for step in plan.steps:
            for write in step.writes:
                if write.name not in failing:
                    self._write(write)
            if any(write.name in failing for write in step.writes):
                return
        if plan.record:
            key = ("ConfigMap", plan.namespace, "motor-config")
            self.objects[key] = with_applied(self.objects[key], plan.data or {}, plan.counts, at="now", by="replay", run="1")

    def _write(self, write: Write) -> None:
        key = (write.kind, write.namespace or "", write.name)
        if write.verb == "create":
            assert key not in self.objects, f"{key} exists"
            self.created += 1
            self.objects[key] = copy.deepcopy(dict(write.body))
            self.objects[key]["metadata"]["uid"] = f"uid-{self.created}"
        elif write.verb == "delete":
            assert self.objects.pop(key)["metadata"]["uid"] == write.preconditions["uid"]
        elif write.patch:
            self._patch(self.objects[key], write.body)
        else:
            assert key in self.objects, f"{key} does not exist"
            self.objects[key] = copy.deepcopy(dict(write.body))

    @staticmethod
    def _patch(obj: dict[str, Any], operations: list[Mapping[str, Any]]) -> None:
        for operation in operations:
            *parents, last = operation["path"].strip("/").split("/")
            found: Any = obj
            for token in parents:
                found = found[int(token)] if isinstance(found, list) else found[token]
            if operation["op"] == "test":
                assert found[last] == operation["value"], operation
            else:
                found[last] = operation["value"]


def replay(
    cluster: Cluster,
    verb: str,
    config_text: str,
    env_text: str,
    release: Release,
    failing: Collection[str] = (),
    *,
    forbidden: bool = False,
) -> Outcome:
    """One step: what our verb makes of the cluster. A refused step leaves it as it was."""
    try:
        config = parse(json_reader.read(config_text, source="user_config"))
        if forbidden:
            Api(_answer_forbidden).get("ConfigMap", config.namespace, "motor-config")
        cluster.run(_plan(cluster, verb, config, env_text, release), failing)
    except MotorError as error:
        return Outcome(copy.deepcopy(cluster.objects), error)
    return Outcome(copy.deepcopy(cluster.objects))


def _belongs(obj: Mapping[str, Any], where: str, namespace: str) -> bool:
    """What is read of a service: its namespace, and cluster-scoped objects by label."""
    if KINDS[obj["kind"]].namespaced:
        return where == namespace
    return bool((obj["metadata"].get("labels") or {}).get(INSTANCE) == namespace)


def _answer_forbidden(*_request: Any, **_options: Any) -> Response:
    return Response(403, json.dumps({"kind": "Status", "reason": "Forbidden", "message": "not allowed", "code": 403}).encode())


def _plan(cluster: Cluster, verb: str, config: UserConfig, env_text: str, release: Release) -> Plan:
    snapshot = cluster.snapshot(config)
    if verb == DELETE:
        return plan_remove(snapshot, claims=False)
    stored = _stored(snapshot)
    if verb == DEPLOY:
        env = json_reader.read(env_text, source="env")
        service_id = service_id_of(snapshot.config_map) or f"{config.namespace}_<TS>"
        return plan_deploy(snapshot, config, render(config, env, release, service_id=service_id), stored)
    snapshot = cluster.snapshot(stored or config)
    if verb == SCALE:
        return plan_scale(snapshot, stored or config, config.counts, config)
    return plan_update(snapshot, stored or config, config)


def _stored(snapshot: Snapshot) -> UserConfig | None:
    if snapshot.config_map is None:
        return None
    return parse(json_reader.read(snapshot.config_map["data"][USER_CONFIG_KEY], source="motor-config"))
