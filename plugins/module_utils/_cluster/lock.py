# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One writer per service: the Lease `ascend-mindie` in its namespace, with the intent of the run as annotation."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Mapping
from typing import Any

from .._motor.errors import MotorError
from .._motor.ownership import LEASE as LEASE_NAME
from .._motor.ownership import metadata_labels
from .._motor.record import INTENT_ANNOTATION, intent_of
from .api import Api, ApiError, Conflict

RENEWALS_PER_DURATION = 3


class LockHeld(MotorError):
    """Another run holds the lock; the message says who, since when and for what."""


class LockLost(MotorError):
    """The lock was lost while working: nothing more may be written."""


class Lock:
    """Held from `acquire` to `release`; a thread renews it three times per duration."""

    def __init__(self, api: Api, namespace: str, holder: str, duration: float = 15.0) -> None:
        # Giving the lock back is worth some patience even when the run was told to stop.
        self._api = api.fenced(self.check).pausing(time.sleep)
        # A renewal has its own rhythm; one that hangs must not keep the next one from being tried.
        self._once = self._api.pausing(None)
        self._taking = api.fenced(self._note)
        self._namespace = namespace
        self._holder = holder
        self._duration = duration
        self._lease: dict[str, Any] = {}
        self._renewed = 0.0
        self._stop = threading.Event()
        self._lost: str | None = None
        self._trouble = ""
        self._thread: threading.Thread | None = None

    def acquire(self, observed: Mapping[str, Any] | None, intent: Mapping[str, Any]) -> bool:
        """Take the lock as it was observed; False when somebody wrote it since (observe and plan again).

        Writing with the observed resourceVersion proves that no run of ours wrote since the observation.
        """
        lease = self._taken(observed, intent)
        try:
            self._lease = self._taking.replace(lease) if observed else self._taking.create(lease)
        except Conflict:
            return False
        self._thread = threading.Thread(target=self._renew_for_ever, daemon=True)
        self._thread.start()
        return True

    def check(self) -> None:
        """Raise LockLost unless the lock is surely still ours."""
        if self._lost is None and time.monotonic() - self._renewed > self._duration:
            self._lost = f"it could not be renewed for {self._duration:g} s{self._trouble}"
        if self._lost:
            message = f"Lost the lock Lease {self._namespace}/{LEASE_NAME}: {self._lost}. Nothing more was written; run the task again."
            raise LockLost(message, reason="LockLost")

    def release(self, *, done: bool) -> None:
        """Give the lock back; the intent is cleared only when the work is done."""
        self._halt()
        for dummy in range(2):
            lease = self._without_intent() if done else dict(self._lease, spec=dict(self._lease["spec"]))
            lease["spec"].update(holderIdentity="", renewTime=_now())
            try:
                self._api.replace(lease)
                return
            except Conflict:  # an answer to a renewal may have been lost
                if not self._read_again():
                    return

    def remove(self) -> None:
        """Delete the Lease of a service that was removed, unless somebody took it meanwhile."""
        self._halt()
        for dummy in range(2):
            metadata = self._lease["metadata"]
            preconditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
            try:
                self._api.delete("Lease", self._namespace, LEASE_NAME, preconditions=preconditions)
                return
            except Conflict:
                if not self._read_again():
                    return

    def _read_again(self) -> bool:
        """Take over the Lease as it is now; False when it is no longer ours."""
        lease = self._once.get("Lease", self._namespace, LEASE_NAME)
        if lease is None:
            self._lost = "it was deleted"
        elif lease["spec"].get("holderIdentity") != self._holder:
            self._lost = f"{lease['spec'].get('holderIdentity') or 'another run'} took it"
        else:
            self._lease = lease
        return self._lost is None

    def _note(self) -> None:
        """The lock holds from the moment at which its request was sent."""
        self._renewed = time.monotonic()

    def _halt(self) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join(self._duration)

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

    def _without_intent(self) -> dict[str, Any]:
        metadata = dict(self._lease["metadata"])
        metadata["annotations"] = {name: text for name, text in (metadata.get("annotations") or {}).items() if name != INTENT_ANNOTATION}
        return dict(self._lease, metadata=metadata, spec=dict(self._lease["spec"]))

    def _renew_for_ever(self) -> None:
        pause = self._duration / RENEWALS_PER_DURATION
        while not self._stop.wait(pause):
            # A failed renewal is tried again soon: the lock is lost when none succeeds within its duration.
            pause = self._duration / RENEWALS_PER_DURATION if self._renew() else self._duration / (5 * RENEWALS_PER_DURATION)
            if self._lost:
                return

    def _renew(self) -> bool:
        started = time.monotonic()
        try:
            self._lease = self._once.replace(dict(self._lease, spec={**self._lease["spec"], "renewTime": _now()}))
            self._renewed = started
            return True
        except Conflict:
            with contextlib.suppress(ApiError):
                self._read_again()
        except LockLost:
            pass
        except ApiError as error:
            self._trouble = f" ({error.message})"
        return False


class Contender:
    """Waits for a lock that somebody else holds. Dead is what stays unchanged for its duration by our own clock."""

    def __init__(self, timeout: float, holder: str) -> None:
        self._deadline = time.monotonic() + timeout
        self._holder = holder
        self._timeout = timeout
        self._version = ""
        self._since = 0.0

    def free(self, lease: Mapping[str, Any] | None) -> bool:
        """True when the lock may be taken now; raises LockHeld after the timeout."""
        spec = (lease or {}).get("spec") or {}
        if not lease or spec.get("holderIdentity") in (None, "", self._holder):
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


def _held(lease: Mapping[str, Any], timeout: float) -> str:
    spec, metadata = lease["spec"], lease["metadata"]
    intent = intent_of(lease) or {}
    what = f"{intent.get('verb', 'an unknown change')} since {spec.get('acquireTime', 'an unknown time')}"
    return (
        f"Cannot change {metadata['namespace']}: it is locked by {spec['holderIdentity']} for {what} (Lease {LEASE_NAME}, "
        f"waited {timeout:g} s). Wait for that run to end, or raise lock_timeout."
    )


def _now() -> str:
    """The time in the form of a Kubernetes MicroTime."""
    seconds = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1_000_000):06d}Z"
