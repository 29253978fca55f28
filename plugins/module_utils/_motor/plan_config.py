# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb `update_config`: store an updated user config; only keys of the white list may change."""

from __future__ import annotations

from . import baseline
from .errors import Refused
from .guard import require_finished, require_service, unfinished_verb
from .plan import Plan
from .record import USER_CONFIG_KEY
from .state import Snapshot, service_state
from .user_config import UserConfig

VERB = "update_config"


def plan_update(snapshot: Snapshot, stored: UserConfig, given: UserConfig) -> Plan:
    """Plan to store `given`; pods pick it up by themselves. Raises Refused, naming the paths, when more would change."""
    require_service(snapshot)
    require_finished(snapshot, VERB)
    changes = baseline.compare(stored.data, given.data)
    refuse_counts(snapshot, changes)
    refuse_restart(snapshot, changes)
    data = dict((snapshot.config_map or {}).get("data") or {})
    if changes.updatable:
        data[USER_CONFIG_KEY] = given.text
    return Plan(
        verb=VERB,
        namespace=snapshot.namespace,
        counts=dict(stored.counts),
        counts_before=service_state(snapshot).counts(),
        data=data,
        record=bool(changes.updatable) or unfinished_verb(snapshot) is not None,
        settles=False,
        why_record=f"update {', '.join(changes.updatable)}" if changes.updatable else "record that an earlier update is over",
    )


def refuse_counts(snapshot: Snapshot, changes: baseline.Changes) -> None:
    """Counts are not this verb's business."""
    if changes.counts:
        described = ", ".join(f"{role} {old} -> {new}" for role, (old, new) in changes.counts.items())
        raise Refused(
            f"Cannot update the configuration of {snapshot.namespace}: counts differ from the baseline ({described}). "
            "Scale with motor_instance_scale, or set the counts of the baseline.",
            reason="CountsDiffer",
            paths=tuple(changes.counts),
        )


def refuse_restart(snapshot: Snapshot, changes: baseline.Changes) -> None:
    """Keys outside the white list need new pods, or another service."""
    refuse_not_allowed(snapshot, changes)
    if changes.restart:
        raise Refused(
            f"Cannot update {', '.join(changes.restart)} of the live service {snapshot.namespace}: pods read it only when they start. "
            "Deploy the service with it (motor_service) and allow_restart: true, which replaces its instances one after the other, or undo this change.",
            reason="RestartNeeded",
            paths=changes.restart,
        )


def refuse_not_allowed(snapshot: Snapshot, changes: baseline.Changes) -> None:
    """What makes another service cannot be changed on a live one."""
    if changes.not_allowed:
        raise Refused(
            f"Cannot change {', '.join(changes.not_allowed)} of the live service {snapshot.namespace}: "
            "this makes another service of it. Remove the service and deploy it anew.",
            reason="NotAllowed",
            paths=changes.not_allowed,
        )
