# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb `scale`: change counts of instances, nothing else."""

from __future__ import annotations

from collections.abc import Mapping

from . import baseline, counts, drift
from .choice import Choice
from .errors import InputError, Refused
from .guard import SCALE as VERB
from .guard import require_finished, require_service, unfinished_verb
from .owners import Owner
from .plan import Plan
from .record import USER_CONFIG_KEY
from .state import Snapshot, service_state
from .user_config import UserConfig, with_counts


def plan_scale(
    snapshot: Snapshot,
    stored: UserConfig,
    wanted: Mapping[str, int],
    given: UserConfig | None = None,
    choice: Choice | None = None,
    on_drift: str = drift.REPAIR,
) -> Plan:
    """Plan the counts `wanted`.

    `stored` is the baseline in the cluster. `given` is the user's new config, when one was given: it may differ from the
    baseline in counts only. `choice` says which instances may go, `on_drift` what becomes of instances that
    the baseline does not explain. Raises Refused when more than counts would change,
    an autoscaler owns a count, or too many instances are protected.
    """
    require_service(snapshot)
    require_finished(snapshot, VERB)
    if stored.deploy_mode == "single_container":
        raise Refused(
            f"Cannot scale {snapshot.namespace}: its deploy mode single_container runs everything in one pod. Deploy it in another mode to scale it.",
            reason="NotScalable",
        )
    if given is not None:
        _refuse_other_changes(stored, given)
    state = service_state(snapshot)
    if choice:
        choice.require_known(tuple(stored.counts))
    live = {role: len(state.live(role)) for role in stored.counts}
    wanted = drift.settle(snapshot, wanted, on_drift)
    target = _complete(stored, state.owners, live, wanted)
    counts.refuse_owned(state, target)
    # What an autoscaler does with a count that nobody asked for is no reason to write.
    data = _data(snapshot, stored, {role: wanted.get(role, count) for role, count in stored.counts.items()}, given)
    steps = counts.steps(snapshot, state, target, choice=choice)
    unfinished = unfinished_verb(snapshot) is not None
    growing = any(count > min(live[role], stored.counts[role]) for role, count in wanted.items())
    return Plan(
        verb=VERB,
        namespace=snapshot.namespace,
        steps=steps,
        counts=target,
        counts_before=state.counts(),
        data=data,
        record=any(step.writes for step in steps) or unfinished or data != (snapshot.config_map or {}).get("data"),
        settles=growing,
        why_record=f"record the counts {describe(target)}",
    )


def describe(wanted: Mapping[str, int]) -> str:
    """Counts in words: `prefill 4, decode 2`."""
    return ", ".join(f"{role} {count}" for role, count in wanted.items())


def _complete(stored: UserConfig, owners: Mapping[str, Owner], live: Mapping[str, int], wanted: Mapping[str, int]) -> dict[str, int]:
    """Every engine role of the service needs a count: a missing one is never guessed. Autoscaled roles may be left out."""
    unknown = [role for role in wanted if role not in stored.counts]
    if unknown:
        known = ", ".join(stored.counts)
        raise InputError(
            f"instances.{unknown[0]}: this service has no {unknown[0]} instances (it has: {known})", source="instances", path=unknown[0]
        )
    missing = [role for role in stored.counts if role not in wanted and role not in owners]
    if missing:
        raise InputError(
            f"instances.{missing[0]} is missing: give the count of every engine role ({', '.join(stored.counts)})",
            source="instances",
            path=missing[0],
        )
    return {role: wanted.get(role, live[role]) for role in stored.counts}


def _refuse_other_changes(stored: UserConfig, given: UserConfig) -> None:
    changes = baseline.compare(stored.data, given.data)
    others = changes.updatable + changes.restart + changes.not_allowed
    if others:
        raise Refused(
            f"Cannot scale {stored.namespace}: the user config differs from the baseline in more than counts: {', '.join(others)}. "
            "Update the configuration first (motor_config_baseline), or give the config of the baseline with new counts.",
            reason="OtherChanges",
            paths=others,
        )


def _data(snapshot: Snapshot, stored: UserConfig, target: Mapping[str, int], given: UserConfig | None) -> dict[str, str]:
    """What `motor-config` will hold. Unchanged counts keep the stored text, so that formatting alone is no change."""
    data = dict((snapshot.config_map or {}).get("data") or {})
    if dict(target) != dict(stored.counts):
        data[USER_CONFIG_KEY] = with_counts(given or stored, target).text
    return data
