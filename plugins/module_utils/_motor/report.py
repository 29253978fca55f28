# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is told of a service in results of modules."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from . import baseline, history, secrets
from .errors import InputError
from .plan import Plan
from .record import USER_CONFIG_KEY, applied_of, standing
from .state import Snapshot, service_state
from .stored import stored_config
from .user_config import UserConfig


def baseline_report(snapshot: Snapshot, given: UserConfig | None, revisions: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """The baseline (secrets as marks), its drift from the live instances, its history, and what `given` would change."""
    stored, damage = _stored(snapshot)
    wanted = dict(stored.counts) if stored else {}
    state = service_state(snapshot)
    live = state.counts()
    # What an autoscaler has made of its own count is no drift.
    ours = {role: count for role, count in wanted.items() if role not in state.owners}
    drift = {role: {"baseline": count, "live": live.get(role, 0)} for role, count in ours.items() if live.get(role, 0) != count}
    report: dict[str, Any] = {
        "baseline": {
            "namespace": snapshot.namespace,
            "standing": standing(snapshot.config_map),
            "counts": wanted,
            "drift": drift,
            "user_config": secrets.mark(stored.data) if stored else {},
            "applied": applied_of(snapshot.config_map) or {},
            "damage": damage,
            "history": [history.summary(revision) for revision in revisions],
        }
    }
    if stored and given:
        changes = baseline.compare(stored.data, given.data)
        report["changes"] = {
            "counts": {role: list(pair) for role, pair in changes.counts.items()},
            "updatable": list(changes.updatable),
            "restart": list(changes.restart),
            "not_allowed": list(changes.not_allowed),
        }
    return report


def _stored(snapshot: Snapshot) -> tuple[UserConfig | None, str]:
    """The user config of the baseline, or why it cannot be read."""
    try:
        return stored_config(snapshot.config_map), ""
    except InputError as error:
        return None, error.message


def diff(before: Snapshot, plan: Plan) -> dict[str, Any]:
    """What a plan changes of what we manage: counts of instances and the user config (secrets as marks)."""
    old = (before.config_map or {}).get("data") or {}
    new = {} if plan.removes else old if plan.data is None else plan.data
    return {
        "before": {"instances": dict(plan.counts_before), "user_config": _shown(old)},
        "after": {"instances": dict(plan.counts), "user_config": _shown(new)},
    }


def _shown(data: Mapping[str, str]) -> Any:
    text = data.get(USER_CONFIG_KEY)
    try:
        return secrets.mark(json.loads(text)) if text else {}
    except ValueError:
        return {}
