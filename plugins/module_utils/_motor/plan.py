# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan is: ordered steps of writes, what to wait for, and what to record at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .choice import Removal
from .idle import IdleWait
from .sizes import check_size

GONE, REDUCED, NO_PODS, ABSENT, KNOWN, RUNNING = "gone", "reduced", "no_pods", "absent", "known", "running"
AVAILABLE = "available"


@dataclass(frozen=True)
class Write:
    """One request that changes an object.

    `verb` is `create` (body: the object), `update` (body: the whole object, or a JSON patch when `patch`) or `delete`.
    `removed` names the instances that go for good with it.
    """

    verb: str
    kind: str
    namespace: str | None
    name: str
    why: str
    body: Any = None
    patch: bool = False
    preconditions: Mapping[str, str] = field(default_factory=dict)
    propagation: str = "Background"
    removed: tuple[Removal, ...] = ()

    def action(self) -> dict[str, Any]:
        """The write as it appears in a module's result."""
        return {"verb": self.verb, "kind": self.kind, "namespace": self.namespace or "", "name": self.name, "why": self.why}


@dataclass(frozen=True)
class Subject:
    """Pods with certain labels, of which `ready` have to be Ready and `started` have to have started.

    None may be left of the pod template hash `old` (`but_ready`: Ready ones may).
    """

    name: str
    labels: Mapping[str, str]
    ready: int = 0
    started: int = 0
    old: str = ""
    but_ready: bool = False

    def has(self, pod: Mapping[str, Any]) -> bool:
        """True for a pod that has these labels."""
        found = pod["metadata"].get("labels") or {}
        return all(found.get(key) == value for key, value in self.labels.items())


@dataclass(frozen=True)
class Step:
    """Writes that do not depend on each other. `until` is what must be seen before the next step: `gone` (no pod of a surplus
    instance is left), `reduced` (as `gone`, and the Infer Operator makes none of them anew), `no_pods` (no pod of the service is
    left), `absent` (what was deleted in the foreground is gone), `known` (the Infer Operator works by what its set says now),
    `running` (the new pods of the `subjects` run), `available` (all pods of a program are) or nothing.
    `autoscaled` says instead what must be seen of autoscalers and InstanceSets, as a verdict over a snapshot.

    `always` says that this wait happens even when the user does not want to wait (NPUs must be free before growing).
    `idle` is waited for before the writes. `look_again`: what comes next depends on what is seen then, so it is observed and planned
    anew after this step; the steps that follow say what that is going to be.
    """

    title: str
    writes: tuple[Write, ...] = ()
    until: str = ""
    always: bool = False
    subjects: tuple[Subject, ...] = ()
    idle: IdleWait | None = None
    autoscaled: Callable[[Any], Any] | None = None
    look_again: bool = False


@dataclass(frozen=True)
class Plan:
    """Steps in order, then (`record`) data and record of success in one write. `counts` is what will be there afterwards.

    `settles`: success means that the service then runs as wanted (not so when pods only read a file again, or when all of them go).
    `lease_left`: the Lease is there, and is to go with the service. `notices` are things that the user should know and that are no errors.
    """

    verb: str
    namespace: str
    steps: tuple[Step, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    counts_before: Mapping[str, int] = field(default_factory=dict)
    data: Mapping[str, str] | None = None
    record: bool = False
    why_record: str = ""
    env_sha256: str | None = None
    removes: bool = False
    settles: bool = True
    lease_left: bool = False
    notices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises InputError when `motor-config` could not hold the data."""
        if self.data is not None:
            check_size(self.data, source="motor-config")

    @property
    def empty(self) -> bool:
        """True when nothing has to be written."""
        return not self.record and not self.lease_left and not any(step.writes for step in self.steps)

    def actions(self) -> list[dict[str, Any]]:
        """All writes in order, the record last."""
        done = [write.action() for step in self.steps for write in step.writes]
        return [*done, *([self.recording().action()] if self.record else []), *self.closing()]

    def recording(self) -> Write:
        """The write of the record, as it appears in a module's result."""
        return Write("update", "ConfigMap", self.namespace, "motor-config", self.why_record)

    def closing(self) -> list[dict[str, Any]]:
        """What is done with the lock after everything else, as far as a module's result shows it."""
        lease = Write("delete", "Lease", self.namespace, "ascend-mindie", "the service is removed")
        return [lease.action()] if self.lease_left else []


def create(obj: Mapping[str, Any], why: str) -> Write:
    """A write that creates `obj`."""
    metadata = obj["metadata"]
    return Write("create", obj["kind"], metadata.get("namespace"), metadata["name"], why, body=obj)


def update(obj: Mapping[str, Any], why: str) -> Write:
    """A write that replaces an object; its resourceVersion makes it a compare-and-swap."""
    metadata = obj["metadata"]
    return Write("update", obj["kind"], metadata.get("namespace"), metadata["name"], why, body=obj)


def delete(kind: str, obj: Mapping[str, Any], why: str, propagation: str = "Background") -> Write:
    """A write that deletes exactly the object that was seen (by uid)."""
    metadata = obj["metadata"]
    preconditions = {"uid": metadata["uid"]}
    return Write("delete", kind, metadata.get("namespace"), metadata["name"], why, preconditions=preconditions, propagation=propagation)
