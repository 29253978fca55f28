# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is told of a service in results of modules."""

from __future__ import annotations

from typing import Any

from . import baseline, secrets
from .record import applied_of, standing
from .state import Snapshot, service_state
from .user_config import UserConfig


def baseline_report(snapshot: Snapshot, stored: UserConfig | None, given: UserConfig | None) -> dict[str, Any]:
    """The baseline (secrets as marks), its drift from the live instances, and what `given` would change."""
    wanted = dict(stored.counts) if stored else {}
    live = service_state(snapshot).counts()
    drift = {role: {"baseline": count, "live": live.get(role, 0)} for role, count in wanted.items() if live.get(role, 0) != count}
    report: dict[str, Any] = {
        "baseline": {
            "namespace": snapshot.namespace,
            "standing": standing(snapshot.config_map),
            "counts": wanted,
            "drift": drift,
            "user_config": secrets.mark(stored.data) if stored else {},
            "applied": applied_of(snapshot.config_map) or {},
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
