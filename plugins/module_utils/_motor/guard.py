# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must hold before a verb may touch a service."""

from __future__ import annotations

from typing import Any

from .errors import Refused
from .record import ABSENT, UNFINISHED, applied_of, intent_of, standing
from .state import Snapshot

# Changes of whole services and of counts: what other verbs have to tell apart.
DEPLOY, SCALE = "deploy", "scale"
# Policies by which HPA changes counts.
AUTOSCALE = "autoscale"
# Of the intent under which a scaling rule is edited.
RULE_VERB = "rule"
# What the rescheduling watcher does.
RESTORE, RECREATE = "restore", "recreate"
# These change nothing of what is recorded: what they leave behind when they are cut off is done or not begun, or it is drift.
_NOTHING_TO_FINISH = frozenset({RULE_VERB, RESTORE, RECREATE})
_IN_WORDS = {RULE_VERB: "change the scaling rule of"}


def require_service(snapshot: Snapshot) -> None:
    """There is a service in this namespace."""
    if standing(snapshot.config_map) == ABSENT:
        raise not_deployed(snapshot.namespace)


def not_deployed(namespace: str) -> Refused:
    """The error for a namespace without a service."""
    message = f"ConfigMap {namespace}/motor-config does not exist: no service is deployed there. Deploy it first (motor_service)."
    return Refused(message, reason="NotDeployed")


def open_intent(snapshot: Snapshot) -> dict[str, Any] | None:
    """What a change that did not end wanted, or None. It is done with when the record carries its run."""
    intent = intent_of(snapshot.lease)
    if intent and intent.get("verb") not in _NOTHING_TO_FINISH and (applied_of(snapshot.config_map) or {}).get("run") != intent.get("run"):
        return intent
    return None


def unfinished_verb(snapshot: Snapshot) -> str | None:
    """The verb of a change that began and did not end, or None."""
    intent = open_intent(snapshot)
    if intent:
        return str(intent.get("verb", DEPLOY))
    return DEPLOY if standing(snapshot.config_map) == UNFINISHED else None


def require_finished(snapshot: Snapshot, verb: str) -> None:
    """No other verb's change is unfinished; the same verb goes on with its own."""
    unfinished = unfinished_verb(snapshot)
    if unfinished and unfinished != verb:
        intent = intent_of(snapshot.lease) or {}
        since = f" (started {intent['started']} by {intent.get('by', 'unknown')})" if intent.get("started") else ""
        raise Refused(
            f"Cannot {_IN_WORDS.get(verb, verb)} {snapshot.namespace}: an earlier {unfinished}{since} has not ended. "
            f"Run that task again to finish it, or deploy the service (motor_service).",
            reason="Unfinished",
        )
