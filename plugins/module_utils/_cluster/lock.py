# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One writer per service: the Lease `ascend-mindie` in its namespace, with the intent of the run as annotation."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import Any

from .._motor.errors import MotorError
from .._motor.ownership import LEASE as LEASE_NAME
from .._motor.ownership import metadata_labels
from .._motor.record import INTENT_ANNOTATION, intent_of
from .api import Api, ApiError

RENEWALS_PER_DURATION = 3


class LockHeld(MotorError):
    """Another run holds the lock; the message says who, since when and for what."""


class LockLost(MotorError):
    """The lock was lost while working: nothing more may be written."""


class Lock:
    """Held from `acquire` to `release`; a thread renews it three times per duration."""

    def __init__(self, api: Api, namespace: str, holder: str, duration: float = 15.0) -> None:
        self._api = api
        self._namespace = namespace
        self._holder = holder
        self._duration = duration
        self._lease: dict[str, Any] = {}
        self._renewed = 0.0
        self._stop = threading.Event()
        self._lost: str | None = None
        self._thread: threading.Thread | None = None

    def acquire(self, observed: Mapping[str, Any] | None, intent: Mapping[str, Any]) -> bool:
        """Take the lock as it was observed; False when somebody wrote it since (observe and plan again).

        Writing with the observed resourceVersion proves that no run of ours wrote since the observation.
        """
        lease = self._taken(observed, intent)
        started = time.monotonic()
        try:
            self._lease = self._api.replace(lease) if observed else self._api.create(lease)
        except ApiError as error:
            if error.status == 409 or (error.status == 404 and observed):
                return False
            raise
        self._renewed = started
        self._thread = threading.Thread(target=self._renew_for_ever, daemon=True)
        self._thread.start()
        return True

    def check(self) -> None:
        """Raise LockLost unless the lock is surely still ours."""
        if self._lost is None and time.monotonic() - self._renewed > self._duration:
            self._lost = f"it could not be renewed for {self._duration:g} s"
        if self._lost:
            message = f"Lost the lock Lease {self._namespace}/{LEASE_NAME}: {self._lost}. Nothing more was written; run the task again."
            raise LockLost(message, reason="LockLost")

    def release(self, *, done: bool) -> None:
        """Give the lock back; the intent is cleared only when the work is done."""
        self._halt()
        if self._lost:
            return
        lease = self._with_intent(None) if done else self._lease
        lease["spec"].update(holderIdentity="", renewTime=_now())
        self._api.replace(lease)

    def remove(self) -> None:
        """Delete the Lease of a service that was removed, unless somebody took it meanwhile."""
        self._halt()
        if self._lost:
            return
        metadata = self._lease["metadata"]
        preconditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        self._api.delete("Lease", self._namespace, LEASE_NAME, preconditions=preconditions)

    def _halt(self) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join()

    def _taken(self, observed: Mapping[str, Any] | None, intent: Mapping[str, Any]) -> dict[str, Any]:
        now = _now()
        old = (observed or {}).get("spec") or {}
        metadata = dict((observed or {}).get("metadata") or {"name": LEASE_NAME, "namespace": self._namespace})
        metadata["labels"] = {**metadata.get("labels", {}), **metadata_labels("lock")}
        metadata["annotations"] = {**metadata.get("annotations", {}), INTENT_ANNOTATION: json.dumps(intent, sort_keys=True)}
        spec = {
            "holderIdentity": self._holder,
            "leaseDurationSeconds": max(1, int(self._duration)),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": int(old.get("leaseTransitions") or 0) + 1,
        }
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}

    def _with_intent(self, intent: Mapping[str, Any] | None) -> dict[str, Any]:
        lease = dict(self._lease, metadata=dict(self._lease["metadata"]), spec=dict(self._lease["spec"]))
        annotations = dict(lease["metadata"].get("annotations") or {})
        annotations.pop(INTENT_ANNOTATION, None)
        if intent:
            annotations[INTENT_ANNOTATION] = json.dumps(intent, sort_keys=True)
        lease["metadata"]["annotations"] = annotations
        return lease

    def _renew_for_ever(self) -> None:
        while not self._stop.wait(self._duration / RENEWALS_PER_DURATION):
            started = time.monotonic()
            self._lease["spec"]["renewTime"] = _now()
            try:
                self._lease = self._api.replace(self._lease)
                self._renewed = started
            except ApiError as error:
                if error.status in (404, 409):
                    self._lost = "another run took it" if error.status == 409 else "it was deleted"
                    return


class Contender:
    """Waits for a lock that somebody else holds. Dead is what stays unchanged for its duration by our own clock."""

    def __init__(self, timeout: float) -> None:
        self._deadline = time.monotonic() + timeout
        self._timeout = timeout
        self._version = ""
        self._since = 0.0

    def free(self, lease: Mapping[str, Any] | None) -> bool:
        """True when the lock may be taken now; raises LockHeld after the timeout."""
        spec = (lease or {}).get("spec") or {}
        if not lease or not spec.get("holderIdentity"):
            return True
        version, now = lease["metadata"]["resourceVersion"], time.monotonic()
        if version != self._version:
            self._version, self._since = version, now
        duration = float(spec.get("leaseDurationSeconds") or 15)
        if now - self._since > duration:
            return True
        if now > self._deadline:
            raise LockHeld(_held(lease, self._timeout), reason="LockHeld", holder=spec["holderIdentity"])
        return False

    def pause(self) -> None:
        """Sleep a moment between two looks at the Lease."""
        time.sleep(0.5)


def _held(lease: Mapping[str, Any], timeout: float) -> str:
    spec, metadata = lease["spec"], lease["metadata"]
    intent = intent_of(lease) or {}
    what = f"{intent.get('verb', 'an unknown change')} since {spec.get('acquireTime', 'an unknown time')}"
    return (
        f"Cannot lock {metadata['namespace']}: Lease {LEASE_NAME} is held by {spec['holderIdentity']} for {what} "
        f"(waited {timeout:g} s). Wait for that run to end, or raise lock_timeout."
    )


def _now() -> str:
    """The time in the form of a Kubernetes MicroTime."""
    seconds = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1_000_000):06d}Z"
