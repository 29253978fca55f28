# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leases: who may write. One writer per service, by the Lease `ascend-mindie` in its namespace."""

from __future__ import annotations

import contextlib
import json
import math
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


class Tenure:
    """A Lease that one holder has: taken by compare-and-swap, renewed three times per duration, checked before each write.

    It is ours from the sending of the last request that wrote it, for `duration` less `margin` seconds of the monotonic clock, and
    others, who go by their own clocks, take it after `duration` at the earliest.
    """

    what = "lock"
    advice = "Nothing more was written; run the task again."

    def __init__(
        self, api: Api, namespace: str, name: str, holder: str, duration: float, *, margin: float = 0.0, stop: threading.Event | None = None
    ) -> None:
        # Giving the Lease back is worth some patience even when the run was told to stop.
        self._api = api.fenced(self.check).pausing(time.sleep)
        # A renewal has its own rhythm; one that hangs must not keep the next one from being tried.
        self._once = self._api.pausing(None).within(max(1.0, duration / RENEWALS_PER_DURATION))
        self._taking = api.fenced(self._note)
        self._namespace, self._name, self._holder = namespace, name, holder
        self._duration, self._margin = duration, margin
        self._lease: dict[str, Any] = {}
        self._renewed = float("-inf")
        self._stop = stop or threading.Event()
        self._turn = threading.Lock()
        self._lost: str | None = None
        self._trouble = ""

    @property
    def annotations(self) -> Mapping[str, str]:
        """What is noted on the Lease."""
        return self._lease["metadata"].get("annotations") or {}

    @property
    def holds(self) -> bool:
        """True while it is surely still ours."""
        return self._lost is None and time.monotonic() - self._renewed <= self._duration - self._margin

    def take(self, observed: Mapping[str, Any] | None, labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
        """Take the Lease as it was observed; False when somebody wrote it since. What is noted on it stays."""
        lease = self._taken(observed, labels, annotations)
        try:
            self._lease = self._taking.replace(lease) if observed else self._taking.create(lease)
        except Conflict:
            return False
        return True

    def check(self) -> None:
        """Raise LockLost unless the Lease is surely still ours. Once lost it is lost for good."""
        if self._lost is None and not self.holds:
            self._lost = f"it could not be renewed for {self._duration - self._margin:g} s{self._trouble}"
        if self._lost:
            message = f"Lost the {self.what} Lease {self._namespace}/{self._name}: {self._lost}. {self.advice}"
            raise LockLost(message, reason="LockLost")

    def keep(self) -> None:
        """Renew until told to stop, or the Lease is lost."""
        pause = self._duration / RENEWALS_PER_DURATION
        while not self._stop.wait(pause):
            # A failed renewal is tried again soon: the Lease is lost when none succeeds within its duration.
            pause = self._duration / RENEWALS_PER_DURATION if self._renew() else self._soon
            if self._lost:
                return

    def annotate(self, annotations: Mapping[str, str]) -> None:
        """Store annotations on the Lease; returns when they are stored, and raises LockLost when they cannot be any more."""
        while not self._renew(annotations):
            self.check()
            time.sleep(self._soon)

    def give_back(self, *forget: str) -> None:
        """Empty the holder, so that others need not wait; these annotations go, too."""
        for dummy in range(2):
            metadata = dict(self._lease["metadata"])
            metadata["annotations"] = {name: text for name, text in self.annotations.items() if name not in forget}
            try:
                self._api.replace(
                    dict(self._lease, metadata=metadata, spec={**self._lease["spec"], "holderIdentity": "", "renewTime": _now()})
                )
                return
            except Conflict:  # an answer to a renewal may have been lost
                if not self._read_again():
                    return

    @property
    def _soon(self) -> float:
        return self._duration / (5 * RENEWALS_PER_DURATION)

    def _read_again(self) -> bool:
        """Take over the Lease as it is now; False when it is no longer ours."""
        lease = self._once.get("Lease", self._namespace, self._name)
        if lease is None:
            self._lost = "it was deleted"
        elif lease["spec"].get("holderIdentity") != self._holder:
            self._lost = f"{lease['spec'].get('holderIdentity') or 'another run'} took it"
        else:
            self._lease = lease
        return self._lost is None

    def _note(self) -> None:
        """The Lease is ours from the moment at which its request was sent."""
        self._renewed = time.monotonic()

    def _taken(self, observed: Mapping[str, Any] | None, labels: Mapping[str, str], annotations: Mapping[str, str]) -> dict[str, Any]:
        now = _now()
        old = (observed or {}).get("spec") or {}
        metadata = dict((observed or {}).get("metadata") or {"name": self._name, "namespace": self._namespace})
        for part, wanted in (("labels", labels), ("annotations", annotations)):
            if wanted:
                metadata[part] = {**metadata.get(part, {}), **wanted}
        spec = {
            "holderIdentity": self._holder,
            # Others count whole seconds, and must not count fewer than we do.
            "leaseDurationSeconds": math.ceil(self._duration),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": int(old.get("leaseTransitions") or 0) + 1,
        }
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}

    def _renew(self, annotations: Mapping[str, str] | None = None) -> bool:
        with self._turn:
            started = time.monotonic()
            lease = dict(self._lease, spec={**self._lease["spec"], "renewTime": _now()})
            if annotations:
                lease["metadata"] = {**lease["metadata"], "annotations": {**self.annotations, **annotations}}
            try:
                self._lease = self._once.replace(lease)
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


class Lock(Tenure):
    """The lock of a service, held from `acquire` to `release`, with the intent of the run as annotation."""

    def __init__(self, api: Api, namespace: str, holder: str, duration: float = 15.0) -> None:
        super().__init__(api, namespace, LEASE_NAME, holder, duration)
        self._thread: threading.Thread | None = None

    def acquire(self, observed: Mapping[str, Any] | None, intent: Mapping[str, Any]) -> bool:
        """Take the lock as it was observed; False when somebody wrote it since (observe and plan again).

        Writing with the observed resourceVersion proves that no run of ours wrote since the observation.
        """
        if not self.take(observed, metadata_labels("lock"), {INTENT_ANNOTATION: json.dumps(intent, sort_keys=True)}):
            return False
        self._thread = threading.Thread(target=self.keep, daemon=True)
        self._thread.start()
        return True

    def release(self, *, done: bool) -> None:
        """Give the lock back; the intent is cleared only when the work is done."""
        self._halt()
        self.give_back(*([INTENT_ANNOTATION] if done else []))

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

    def _halt(self) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join(self._duration)


class Contender:
    """Waits for a lock that somebody else holds. Dead is what stays unchanged for its duration by our own clock, that is at `dead_at`."""

    def __init__(self, timeout: float, holder: str) -> None:
        self._deadline = time.monotonic() + timeout
        self._holder = holder
        self._timeout = timeout
        self._version = ""
        self._since = 0.0
        self.dead_at = 0.0

    def free(self, lease: Mapping[str, Any] | None) -> bool:
        """True when the lock may be taken now; raises LockHeld after the timeout."""
        spec = (lease or {}).get("spec") or {}
        if not lease or spec.get("holderIdentity") in (None, "", self._holder):
            return True
        version, now = lease["metadata"]["resourceVersion"], time.monotonic()
        if version != self._version:
            self._version, self._since = version, now
        self.dead_at = self._since + float(spec.get("leaseDurationSeconds") or 15)
        if now > self.dead_at:
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
