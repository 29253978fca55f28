# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One running scheduler: watches, holds sessions, writes what they found."""

from __future__ import annotations

import datetime
import logging
import threading
import time
import uuid

from ..kube_client import NODES, PODS, Informer, Key, KubeClient, KubeError, Obj, Resource, key_of
from . import faults, session
from .session import Group, Session

LOG = logging.getLogger(__name__)

API = "scheduling.volcano.sh/v1beta1"
POD_GROUPS = Resource(API, "PodGroup", "podgroups")
QUEUES = Resource(API, "Queue", "queues", namespaced=False)
QUEUE = "default"


class Scheduler(threading.Thread):
    """A session each ``period`` seconds in which something changed; pods without a PodGroup do not wait for it."""

    def __init__(self, client: KubeClient, period: float = 1.0, enqueue_always: bool = False, reschedule: bool = False) -> None:
        super().__init__(name="gang-scheduler", daemon=True)
        self._client = client
        self._period = period
        self._enqueue_always = enqueue_always
        self._budgets = faults.Budgets(client) if reschedule else None
        self._changed = threading.Condition()
        self._owed = True
        self._single = False
        self._stopped = False
        self._nodes = Informer(client, NODES, self._note)
        self._pods = Informer(client, PODS, self._note_pod)
        self._groups = Informer(client, POD_GROUPS, self._note)
        self._bound: dict[str, str] = {}
        self._told: dict[str, str] = {}

    def stop(self) -> None:
        """End after the session in progress."""
        self._stopped = True
        for informer in (self._nodes, self._pods, self._groups):
            informer.stop()
        self._note(None, None)

    def _note(self, before: Obj | None, after: Obj | None) -> None:
        with self._changed:
            self._owed = True
            self._changed.notify()

    def _note_pod(self, before: Obj | None, after: Obj | None) -> None:
        if before is None and after is not None and session.is_ours(after) and session.waits(after) and not session.group_of(after):
            self._single = True
        self._note(before, after)

    def run(self) -> None:
        """Work until stopped."""
        for informer in (self._nodes, self._pods, self._groups):
            informer.start()
        for informer in (self._nodes, self._pods):
            informer.synced.wait()
        self._make_queue()
        due = time.monotonic()
        while not self._stopped:
            whole = self._wait(due)
            if whole:
                due = time.monotonic() + self._period
            try:
                self._work(whole)
            except Exception:
                LOG.exception("session failed")

    def _wait(self, due: float) -> bool:
        """Sleep until there is work; true when it is a whole session."""
        with self._changed:
            while not self._stopped and not self._single and not (self._owed and time.monotonic() >= due):
                self._changed.wait(due - time.monotonic() if self._owed else None)
            whole = self._owed and time.monotonic() >= due
            self._single = False
            self._owed = self._owed and not whole
            return whole

    def _make_queue(self) -> None:
        """The queue that exists from the start; its kind may be installed later, or never."""
        body = {"apiVersion": API, "kind": "Queue", "metadata": {"name": QUEUE}, "spec": {"weight": 1, "reclaimable": True}}
        try:
            self._client.create(QUEUES, body)
            self._client.patch(QUEUES, "", QUEUE, {"status": {"state": "Open"}}, subresource="status")
        except KubeError as error:
            if error.status not in (404, 409):
                raise

    def _work(self, whole: bool) -> None:
        pods = [self._as_bound(pod) for pod in self._pods.items()]
        groups = self._groups.items() if whole else []
        held = Session(self._nodes.items(), pods, groups, enqueue_always=self._enqueue_always)
        if whole:
            self._reschedule(held)
            held.run()
        else:
            held.place_singles()
        for pod, node in held.binds:
            self._bind(pod, node)
        transition, now = str(uuid.uuid4()), _now()
        for group in held.groups:
            self._write(group, session.status(group, transition, now))
        alive = {pod["metadata"]["uid"] for pod in pods}
        self._bound = {uid: node for uid, node in self._bound.items() if uid in alive}
        self._told = {uid: text for uid, text in self._told.items() if uid in alive}
        for pod in pods:
            if key_of(pod) in held.complaints and not pod["spec"].get("nodeName"):
                self._complain(pod, *held.complaints[key_of(pod)])

    def _reschedule(self, held: Session) -> None:
        """Delete the pods of instances that a fault has hit. This session still sees them."""
        if self._budgets is None:
            return
        self._budgets.update(held.groups)
        hit = [group for group in held.groups if faults.hit(group, held.nodes, self._budgets.left(group))]
        for group in hit:
            options = {"gracePeriodSeconds": 0} if faults.forced(group) else {}
            for pod in group.pods:
                LOG.info("fault: %s/%s deleted with its instance", *key_of(pod))
                self._client.delete(PODS, *key_of(pod), **options)
        self._budgets.update((), [group for group in hit if group.having("Failed")])

    def _as_bound(self, pod: Obj) -> Obj:
        """The pod as it is after what was bound already, should the watch not have told yet."""
        node = self._bound.get(pod["metadata"]["uid"])
        return pod if node is None or pod["spec"].get("nodeName") else {**pod, "spec": {**pod["spec"], "nodeName": node}}

    def _bind(self, pod: Obj, node: str) -> None:
        namespace, name = key_of(pod)
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "uid": pod["metadata"]["uid"]}, "target": target}
        if self._try(f"bind {namespace}/{name} to {node}", "POST", PODS.path(namespace, name, "binding"), body):
            self._bound[pod["metadata"]["uid"]] = node

    def _write(self, group: Group, new: Obj) -> None:
        if new == (group.obj.get("status") or {}):
            return
        namespace, name = key_of(group.obj)
        # A PodGroup has no status subresource.
        body = {"metadata": {"uid": group.obj["metadata"]["uid"]}, "status": new}
        self._try(f"PodGroup {namespace}/{name} {new['phase']}", "PATCH", POD_GROUPS.path(namespace, name), body)

    def _complain(self, pod: Obj, reason: str, message: str) -> None:
        """Say on the pod why it waits, each text once."""
        if self._told.get(pod["metadata"]["uid"]) == message:
            return
        self._told[pod["metadata"]["uid"]] = message
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message, "lastTransitionTime": _now()}
        old = (pod.get("status") or {}).get("conditions") or []
        conditions = [*(row for row in old if row["type"] != condition["type"]), condition]
        key: Key = key_of(pod)
        self._try(f"{key[0]}/{key[1]}: {message}", "PATCH", PODS.path(*key, "status"), {"status": {"conditions": conditions}})

    def _try(self, what: str, method: str, path: str, body: Obj) -> bool:
        """Write; an object that is gone or was changed meanwhile is the next session's matter."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        try:
            self._client.request(method, path, body, kind)
        except KubeError as error:
            if error.status not in (404, 409):
                LOG.warning("%s: %s", what, error)
            return False
        LOG.info("%s", what)
        return True


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
