# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb `adopt`: take what is live as the baseline. One write to `motor-config`; no workload is touched, no pod restarts."""

from __future__ import annotations

from collections.abc import Mapping

from . import baseline
from .errors import InputError, Refused
from .fit import count_misfits, lacks_environment, misfits
from .guard import open_intent, require_finished, require_service
from .json_reader import BYTE_ORDER_MARK
from .ownership import CONFIG_MAP, is_ours
from .plan import Plan
from .record import APPLIED, DEPLOYER, USER_CONFIG_KEY, applied_of, standing
from .state import ServiceState, Snapshot, service_state
from .stored import readable_config, stored_config
from .user_config import UserConfig, with_counts

VERB = "adopt"

_MENDED = "Give the user_config that the service runs with."


def plan_adopt(snapshot: Snapshot, given: UserConfig | None, counts: Mapping[str, int]) -> Plan:
    """Plan to record the live service as its baseline: as `motor-config` describes it, or `given`, in either case with these `counts`.

    Raises Refused when that is not what is live, naming every difference; InputError when `motor-config` is damaged and no config is given.
    """
    require_service(snapshot)
    if open_intent(snapshot):
        require_finished(snapshot, VERB)
    stored = _trusted(snapshot, given)
    config = _described(snapshot, stored, given)
    config = with_counts(config, counts) if counts else config
    state = service_state(snapshot)
    _refuse_misfits(snapshot, state, config)
    live = {role: len(state.live(role)) if role in state.owners else count for role, count in config.counts.items()}
    data = _data(snapshot, stored, config)
    recorded = applied_of(snapshot.config_map) or {}
    wanted = live if config.scalable else {}
    same = standing(snapshot.config_map) == APPLIED and is_ours(snapshot.config_map) and recorded.get("counts") == wanted
    return Plan(
        verb=VERB,
        namespace=snapshot.namespace,
        counts=wanted,
        counts_before=state.counts(),
        data=data,
        record=not same or data != (snapshot.config_map or {}).get("data"),
        settles=False,
        why_record="take the live service as the baseline",
        notices=_notices(data),
    )


def _trusted(snapshot: Snapshot, given: UserConfig | None) -> UserConfig | None:
    """The config in the cluster, when it is what the service runs with. Without a `given` one, nothing else will do."""
    name = f"ConfigMap {snapshot.namespace}/{CONFIG_MAP}"
    found = standing(snapshot.config_map) in (APPLIED, DEPLOYER)
    if given is None:
        stored = stored_config(snapshot.config_map)
        data = (snapshot.config_map or {}).get("data") or {}
        if data[USER_CONFIG_KEY].startswith(BYTE_ORDER_MARK):
            raise _damaged(f"{name}: {USER_CONFIG_KEY} begins with a byte order mark, with which Motor cannot read it. {_MENDED}", name)
        if not found:
            raise Refused(f"Cannot adopt {snapshot.namespace}: {name} is not as it was recorded. {_MENDED}", reason="Unfinished")
        if lacks_environment(data):
            raise _damaged(f"{name}: its scripts have lost the environment (env.json). {_LOST} {_MENDED}", name)
        return stored
    return readable_config(snapshot.config_map) if found else None


_LOST = "Pods that start now run without it. To put it back, deploy the service (motor_service) with env and release."


def _damaged(message: str, source: str) -> InputError:
    return InputError(message, reason="BaselineDamaged", source=source, path=USER_CONFIG_KEY)


def _described(snapshot: Snapshot, stored: UserConfig | None, given: UserConfig | None) -> UserConfig:
    """The given config, which may differ from a trusted one in counts only."""
    if given is None or stored is None:
        config = given or stored
        if config is None:
            raise AssertionError("there is a stored config when none is given")
        return config
    changes = baseline.compare(stored.data, given.data)
    if changes.others:
        raise Refused(
            f"Cannot adopt {snapshot.namespace} as this user config describes it: the service runs with other values of {', '.join(changes.others)}. "
            "Adopt it without a user config first, then change it (motor_config_baseline, state: present, or motor_service).",
            reason="OtherChanges",
            paths=changes.others,
        )
    return given


def _refuse_misfits(snapshot: Snapshot, state: ServiceState, config: UserConfig) -> None:
    others = misfits(snapshot, config)
    counts = count_misfits(state, config, config.counts)
    found = [*counts, *others]
    if not found:
        return
    if others:
        remedy = f"{_MENDED} Or deploy the service (motor_service)."
    else:
        live = ", ".join(f"{role}: {len(state.live(role))}" for role in config.counts)
        remedy = f"To take what is live, set instances: {{{live}}}. To bring back what the user config says, scale to it first (motor_instance_scale)."
    raise Refused(
        f"Cannot adopt {snapshot.namespace}, as it is not what is live: {'; '.join(map(str, found))}. {remedy}",
        reason="OtherThanLive" if others else "Drift",
        paths=tuple(dict.fromkeys(misfit.path for misfit in found)),
    )


def _data(snapshot: Snapshot, stored: UserConfig | None, config: UserConfig) -> dict[str, str]:
    """What `motor-config` will hold: its scripts as they are, and its user config as it is unless counts differ or it was damaged."""
    data = dict((snapshot.config_map or {}).get("data") or {})
    text = with_counts(stored, config.counts).text if stored else config.text
    if data.get(USER_CONFIG_KEY) != text:
        data[USER_CONFIG_KEY] = text
    return data


def _notices(data: Mapping[str, str]) -> tuple[str, ...]:
    return (f"The scripts have lost the environment (env.json). {_LOST}",) if lacks_environment(data) else ()
