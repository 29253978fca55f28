# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stores the history of a service as ControllerRevisions, and reads it. What goes wrong is told and fails nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .._motor.errors import MotorError, Refused
from .._motor.history import KIND, SELECTOR, Entry, entry, revision_name
from .._motor.record import applied_of
from .._motor.state import Snapshot
from .api import Api, ApiError


def keep(api: Api, snapshot: Snapshot, why: str) -> list[str]:
    """Store the record of success that `snapshot` carries, and drop the revision that is too old. Returns warnings.

    Each request is sent once: the work that the record speaks of is done, and nobody should wait for this.
    """
    made, once = entry(snapshot, why), api.pausing(None)
    with ThreadPoolExecutor(2) as pool:
        work = [pool.submit(_create, once, made)]
        if made.superseded:
            work.append(pool.submit(_drop, once, snapshot.namespace, made.superseded))
    problems = [problem for problem in (part.exception() for part in work) if problem]
    for problem in problems:
        if not isinstance(problem, MotorError):
            raise problem
    return [text for text in (made.warning, *(f"The history is not complete: {problem}" for problem in problems)) if text]


def read(api: Api, namespace: str, number: int) -> Mapping[str, Any]:
    """One revision. Raises Refused when it is not kept."""
    found = api.get(KIND, namespace, revision_name(number))
    if found is None:
        raise Refused(
            f"Revision {number} of {namespace} is not kept: ControllerRevision {revision_name(number)} does not exist. "
            "motor_config_baseline_info lists those that are.",
            reason="NotKept",
        )
    return found


def last(api: Api, snapshot: Snapshot) -> Mapping[str, Any] | None:
    """The revision of the record of success that `motor-config` carries, or None when it was not kept."""
    number = (applied_of(snapshot.config_map) or {}).get("revision")
    return api.get(KIND, snapshot.namespace, revision_name(number)) if number else None


def revisions(api: Api, namespace: str, warn: Callable[[str], None]) -> list[Mapping[str, Any]]:
    """All revisions that are kept, the newest first. Without the right to read them there are none, of which `warn` is told."""
    try:
        found = api.list_objects(KIND, namespace, SELECTOR).items
    except ApiError as error:
        if error.status != 403:
            raise
        warn(str(error))
        return []
    return sorted(found, key=lambda item: -int(item["revision"]))


def _drop(api: Api, namespace: str, name: str) -> None:
    api.delete(KIND, namespace, name)


def _create(api: Api, made: Entry) -> None:
    try:
        api.create(made.obj)
    except ApiError as error:
        if error.status != 409:
            raise
        _create_anew(api, made)


def _create_anew(api: Api, made: Entry) -> None:
    """The name is taken: by this very revision (an answer was lost), or by one of a service that is gone."""
    namespace = made.obj["metadata"]["namespace"]
    found = api.get(KIND, namespace, made.name)
    if found is not None and found.get("data") == made.obj["data"]:
        return
    if found is not None:
        api.delete(KIND, namespace, made.name, preconditions={"uid": found["metadata"]["uid"]})
    api.create(made.obj)
