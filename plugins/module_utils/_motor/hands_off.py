# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a service is left alone by the watcher: somebody wants it so, somebody changes it, or a repair of it is under way."""

from __future__ import annotations

from .guard import open_intent
from .ownership import LEASE
from .record import HOLD_ANNOTATION, INTENT_ANNOTATION, intent_of
from .state import Object, Snapshot

# Why a plan is refused that would be made by now if nobody else was at it.
HANDS_OFF = "HandsOff"
# The specification of a job that is being created again, in a ConfigMap with annotations for the job's name and its old uid.
KEPT_PREFIX = "ascend-mindie-recreate-"
JOB, OLD_UID = "ascend.mindie/recreates", "ascend.mindie/recreated-from"


def held_by_hand(snapshot: Snapshot) -> str:
    """What somebody wrote on `motor-config` to keep the watcher's hands off the service, or ""."""
    annotations = (snapshot.config_map or {}).get("metadata", {}).get("annotations") or {}
    text = annotations.get(HOLD_ANNOTATION)
    if text is None:
        return ""
    return f"motor-config has the annotation {HOLD_ANNOTATION}" + (f": {text}" if text else "")


def locked(snapshot: Snapshot, own: str = "") -> str:
    """Who holds the lock of the service, or which change has not ended, or "". A holder whose name begins with `own` is one of ours."""
    holder = ((snapshot.lease or {}).get("spec") or {}).get("holderIdentity") or ""
    if holder and not (own and holder.startswith(own)):
        return f"Lease {LEASE} is held by {holder}"
    intent = open_intent(snapshot)
    if not intent:
        written = ((snapshot.lease or {}).get("metadata", {}).get("annotations") or {}).get(INTENT_ANNOTATION)
        return f"what Lease {LEASE} says of a change cannot be read" if written and intent_of(snapshot.lease) is None else ""
    return f"an earlier {(intent_of(snapshot.lease) or {}).get('verb', 'change')} has not ended (started {intent.get('started', 'at an unknown time')})"


def kept(snapshot: Snapshot) -> dict[str, Object]:
    """The ConfigMaps with the specifications of jobs that are being created again, by the name of the job."""
    found = {}
    for (kind, name), obj in snapshot.others.items():
        annotations = obj["metadata"].get("annotations") or {}
        if kind == "ConfigMap" and annotations.get(JOB) and name == f"{KEPT_PREFIX}{annotations.get(OLD_UID)}":
            found[str(annotations[JOB])] = obj
    return found
