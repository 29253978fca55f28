# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carries out repairs, one request at a time or as transactions under the lock of the service. Decides nothing but whether it is too late."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ansible_collections.ascend.mindie.plugins.module_utils._cluster import execute, history
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.api import MERGE_PATCH, Api
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.observe import observe
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.signals import Signals
from ansible_collections.ascend.mindie.plugins.module_utils._motor.deployments import NO_SIBLING
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import Refused
from ansible_collections.ascend.mindie.plugins.module_utils._motor.job_facts import BACKEND as JOBS
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan import Plan
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_recreate import NUDGED, plan_recreate
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_restore import plan_restore
from ansible_collections.ascend.mindie.plugins.module_utils._motor.pods import node_is_ready, node_of, node_since
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Build, Snapshot
from ansible_collections.ascend.mindie.plugins.module_utils._motor.workloads import ASCEND_JOB

from .repairs import Repair
from .settings import NUDGE, RECREATE_FAILED, RELEASE_STUCK, RESTORE_MISSING

LOG = logging.getLogger(__name__)
Understand: TypeAlias = "Callable[[str, Mapping[str, Any] | None], Build]"

# Pods have their grace period to stop in; what takes longer is tried again.
PATIENCE_SECONDS = 120.0


@dataclass(frozen=True)
class Outcome:
    """What came of a repair: whether anything was `done`, in words, and the object to tell it at (None: the one it was about)."""

    done: bool
    said: str
    about: Mapping[str, Any] | None = None


class Acts:
    """`program` and `pod` name the holder of locks, `signals` end what is going on, `build` tells how the service of a namespace with
    that `motor-config` is made.
    """

    def __init__(self, api: Api, program: str, pod: str, lock_duration: float, signals: Signals, build: Understand) -> None:
        self._api, self._lock_duration = api, lock_duration
        self.own = f"{program}/"
        self._by = f"{self.own}{pod}"
        self._signals, self._build = signals, build

    def carry_out(self, repair: Repair, fence: Callable[[], None]) -> Outcome:
        """Do it, as long as `fence` does not raise. Raises MotorError when it cannot be done."""
        ways = {NUDGE: self._nudge, RELEASE_STUCK: self._release, RECREATE_FAILED: self._recreate, RESTORE_MISSING: self._restore}
        return ways[repair.act](repair, self._api.fenced(fence))

    def _nudge(self, repair: Repair, api: Api) -> Outcome:
        metadata = {"uid": repair.uid, "resourceVersion": repair.version, "annotations": {NUDGED: repair.cause}}
        api.patch(ASCEND_JOB, repair.namespace, repair.name, {"metadata": metadata}, MERGE_PATCH)
        return Outcome(done=True, said="nudged")

    def _release(self, repair: Repair, api: Api) -> Outcome:
        """The server may have come back, and the pod may be another one, since it was decided: look once more."""
        pod = api.get("Pod", repair.namespace, repair.name)
        if pod is None or pod["metadata"]["uid"] != repair.uid:
            return Outcome(done=False, said="it is gone by itself")
        node = api.get("Node", None, node_of(pod))
        if node is not None and (node_is_ready(node) or node_since(node) != repair.cause):
            return Outcome(done=False, said=f"server {node_of(pod)} is Ready again, or was meanwhile")
        preconditions = {key: pod["metadata"][key] for key in ("uid", "resourceVersion")}
        api.delete("Pod", repair.namespace, repair.name, preconditions=preconditions, grace_seconds=0)
        return Outcome(done=True, said="deleted without waiting for its server")

    def _recreate(self, repair: Repair, api: Api) -> Outcome:
        outcome = self._run(api, repair, lambda snapshot: plan_recreate(snapshot, repair.name, self.own))
        return self._told(outcome, "created again", repair.name)

    def _restore(self, repair: Repair, api: Api) -> Outcome:
        def planned(snapshot: Snapshot) -> Plan:
            try:
                return plan_restore(snapshot, self.own)
            except Refused as error:
                revision = history.last(api, snapshot) if error.reason == NO_SIBLING else None
                if revision is None:
                    raise
            return plan_restore(replace(snapshot, revision=revision), self.own)

        return self._told(self._run(api, repair, planned), "restored", "")

    def _told(self, outcome: execute.Outcome, what: str, name: str) -> Outcome:
        for warning in outcome.warnings:
            LOG.warning("%s", warning)
        names = [
            f"{action['kind']} {action['name']}"
            for action in outcome.actions
            if action["verb"] != "delete" and action["kind"] != "ConfigMap"
        ]
        found = next(
            (obj for obj in (*outcome.after.own_workloads, outcome.after.infer_service_set) if obj and obj["metadata"]["name"] == name),
            None,
        )
        return Outcome(bool(names), f"{what}: {', '.join(names)}" if names else "nothing was left to do", found)

    def _run(self, api: Api, repair: Repair, planner: Callable[[Snapshot], Plan]) -> execute.Outcome:
        def understand(config_map: Mapping[str, Any] | None) -> Build:
            found = self._build(repair.namespace, config_map)
            # A job that belongs to no service may be beside one of another backend.
            return Build(JOBS, found.settings.name_prefix, found.settings) if repair.kind == ASCEND_JOB else found

        api = api.anew()
        settings = execute.Settings(
            by=self._by,
            run=uuid.uuid4().hex,
            wait=False,
            wait_timeout=PATIENCE_SECONDS,
            lock_timeout=2 * self._lock_duration,
            lock_duration=self._lock_duration,
        )
        return execute.run(
            api,
            lambda: observe(api, repair.namespace, understand, _unheard),
            planner,
            settings,
            check_mode=False,
            signals=self._signals,
        )


def _unheard(warning: str) -> None:
    """What may not be read is told by the watches."""
