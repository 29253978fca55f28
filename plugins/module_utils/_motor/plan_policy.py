# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verb `autoscale`: scaling policies of engine roles, set and taken away. Neither changes a count by itself.

Without its policy, the Infer Operator brings an engine role to `roles[].replicas` at once, and that number is as old as the policy. So
switching off takes two steps: first HPA is told to leave the count alone, and when it shows that it has heard of that, the count of
that moment becomes `roles[].replicas` in the request that takes the policy away.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any

from . import faults, policy_verdicts
from .errors import Refused
from .fields import MAX_COUNT
from .guard import AUTOSCALE as VERB
from .guard import require_finished, require_service, unfinished_verb
from .owners import POLICY, has_policy
from .plan import Plan, Step, Write, update
from .policy_checks import (
    BACKEND,
    REFUSE,
    require_autoscalable,
    require_one_service,
    require_range,
    require_roles,
    require_single_pods,
    require_unowned,
)
from .record import USER_CONFIG_KEY, with_data
from .scaling_policy import AUTOSCALED, Policy, frozen, is_frozen, policy_of, same
from .state import ServiceState, Snapshot, infer_roles, service_state
from .user_config import UserConfig, with_counts


def plan_policies(snapshot: Snapshot, stored: UserConfig, policies: Mapping[str, Policy], outside: str = REFUSE) -> Plan:
    """Plan to set these policies; other engine roles keep theirs. `outside` says what becomes of one whose limits the live count is not within.

    Raises Refused when the service cannot be scaled by load, or HPA would change a count that it was not asked to.
    """
    require_service(snapshot)
    require_autoscalable(snapshot)
    require_finished(snapshot, VERB)
    require_roles(snapshot, policies)
    require_one_service(snapshot)
    state = service_state(snapshot)
    changed = _changed(snapshot, state, policies, outside)
    counts = state.counts()
    target = {policy.engine_role: _within(policy, counts.get(policy.engine_role, 0)) for policy in changed}
    recorded, roles = _recorded(stored, state), tuple(policy.engine_role for policy in changed)
    title = f"set the policy of {' and '.join(roles)}"
    writes = (_patch(snapshot, {policy.engine_role: policy.scaling_policy() for policy in changed}, {}),) if changed else ()
    moved = [f"{role} {counts.get(role, 0)} -> {target[role]}" for role in roles if target[role] != counts.get(role, 0)]
    return Plan(
        verb=VERB,
        namespace=snapshot.namespace,
        steps=(Step(title, writes, autoscaled=partial(policy_verdicts.followed, roles)),) if changed else (),
        counts={**recorded, **target},
        counts_before=counts,
        data=dict((snapshot.config_map or {}).get("data") or {}),
        record=bool(changed) or unfinished_verb(snapshot) is not None,
        # Counts that somebody else has changed do not become as they were by this.
        settles=bool(moved) and all(counts.get(role, 0) == count for role, count in recorded.items() if role not in target),
        why_record=f"{title}" if changed else "record that an earlier change of policies is over",
        notices=_notices(snapshot, state, moved) if changed else (),
    )


def _changed(snapshot: Snapshot, state: ServiceState, policies: Mapping[str, Policy], outside: str) -> list[Policy]:
    """The policies that differ from what is live, each of which may be set."""
    live = {role["name"]: policy_of(role) for role in infer_roles(snapshot)}
    changed = [policy for role, policy in policies.items() if not same(policy.scaling_policy(), live[role])]
    require_single_pods(snapshot, changed)
    require_unowned(state, [policy for policy in changed if live[policy.engine_role] is None])
    if outside == REFUSE:
        require_range(state, changed)
    return changed


def _notices(snapshot: Snapshot, state: ServiceState, moved: Iterable[str]) -> tuple[str, ...]:
    """What HPA does at once, and what it does not wait for."""
    scaled = tuple(f"HPA will bring {one}, as the limits of its policy say." for one in moved)
    faulty = ", ".join(f"{instance.name} ({instance.reason})" for instance in faults.faulty(snapshot, state))
    beside = f"There is a fault: {faulty}. HPA does not wait until it is over, and MindCluster does not support scaling meanwhile. Repair it soon."
    return (*scaled, beside) if faulty else scaled


def plan_policies_absent(snapshot: Snapshot, stored: UserConfig, engine_roles: Collection[str] | None) -> Plan:
    """Plan to take the policies of these engine roles away (None: of all that have one), with the counts as they are at that moment."""
    require_service(snapshot)
    found = {} if snapshot.backend != BACKEND else {role["name"]: role for role in infer_roles(snapshot) if role["name"] in AUTOSCALED}
    chosen = [role for name, role in found.items() if policy_of(role) is not None and (engine_roles is None or name in engine_roles)]
    unfinished = unfinished_verb(snapshot)
    if chosen or unfinished == VERB:
        require_finished(snapshot, VERB)
    elif not chosen:
        return Plan(VERB, snapshot.namespace)
    state = service_state(snapshot)
    counts = state.counts()
    off = {role["name"]: counts.get(role["name"], 0) for role in chosen}
    if off:
        require_one_service(snapshot)
    _refuse_unrecordable(snapshot, off)
    data = _with_counts(snapshot, stored, off)
    names = " and ".join(off)
    return Plan(
        verb=VERB,
        namespace=snapshot.namespace,
        steps=(*_freeze(snapshot, chosen, counts), *_release(snapshot, off, data)),
        counts={**_recorded(stored, state), **off},
        counts_before=counts,
        data=data,
        record=True,
        settles=False,
        why_record=f"take the policy of {names} away" if off else "record that an earlier change of policies is over",
    )


def _freeze(snapshot: Snapshot, roles: Iterable[Mapping[str, Any]], counts: Mapping[str, int]) -> tuple[Step, ...]:
    """Where the count is HPA's: have it leave it alone, wait until it does, and look anew at what the count is."""
    followed = [role for role in roles if has_policy(role)]
    names = tuple(role["name"] for role in followed)
    wanted = {
        role["name"]: frozen(policy_of(role) or {}, counts.get(role["name"], 0)) for role in followed if not is_frozen(policy_of(role))
    }
    if not wanted and policy_verdicts.frozen(names, snapshot).done:
        return ()
    writes = (_patch(snapshot, wanted, {}, "HPA is to leave the count alone"),) if wanted else ()
    return (
        Step(
            f"freeze the policy of {' and '.join(names)}",
            writes,
            always=True,
            autoscaled=partial(policy_verdicts.frozen, names),
            look_again=True,
        ),
    )


def _release(snapshot: Snapshot, off: Mapping[str, int], data: Mapping[str, str]) -> tuple[Step, ...]:
    """The user config gets the counts first: when the policies are gone, nothing in the cluster tells whose count they had."""
    if not off:
        return ()
    config_map, names = snapshot.config_map or {}, " and ".join(off)
    counts = ", ".join(f"{role} {count}" for role, count in off.items())
    early = (
        () if data == config_map.get("data") else (update(with_data(config_map, data), f"its counts become those that are live: {counts}"),)
    )
    write = _patch(snapshot, dict.fromkeys(off), off)
    last = Step(f"take the policy of {names} away", (write,), autoscaled=partial(policy_verdicts.released, tuple(off)))
    return (Step("update motor-config", early), last) if early else (last,)


def _with_counts(snapshot: Snapshot, stored: UserConfig, off: Mapping[str, int]) -> dict[str, str]:
    """What `motor-config` will hold. Unchanged counts keep the stored text."""
    data = dict((snapshot.config_map or {}).get("data") or {})
    wanted = {role: off.get(role, count) for role, count in stored.counts.items()}
    if wanted != dict(stored.counts):
        data[USER_CONFIG_KEY] = with_counts(stored, wanted).text
    return data


def _recorded(stored: UserConfig, state: ServiceState) -> dict[str, int]:
    """The counts of the baseline; those of an autoscaler are what it has made of them."""
    return {role: len(state.live(role)) if role in state.owners else count for role, count in stored.counts.items()}


def _patch(snapshot: Snapshot, policies: Mapping[str, Any], counts: Mapping[str, int], why: str = "") -> Write:
    """One JSON patch of the InferServiceSet, which fails unless all is as it was observed. A policy that is None goes."""
    found = snapshot.infer_service_set or {}
    patch: list[dict[str, Any]] = [{"op": "test", "path": "/metadata/uid", "value": found["metadata"]["uid"]}] if found else []
    whys = []
    for index, role in enumerate(infer_roles(snapshot)):
        name = role["name"]
        if name not in policies:
            continue
        path, live = f"/spec/template/roles/{index}", policy_of(role)
        patch.append({"op": "test", "path": f"{path}/name", "value": name})
        patch.append({"op": "test", "path": f"{path}/replicas", "value": role.get("replicas")})
        # Testing for null passes where there is none.
        patch.append({"op": "test", "path": f"{path}/{POLICY}", "value": role.get(POLICY)})
        if name in counts and counts[name] != role.get("replicas"):
            patch.append({"op": "replace", "path": f"{path}/replicas", "value": counts[name]})
        if policies[name] is None:
            patch.append({"op": "remove", "path": f"{path}/{POLICY}"})
        else:
            patch.append({"op": "add", "path": f"{path}/{POLICY}", "value": policies[name]})
        whys.append(f"{name}: {why or _why(policies[name], live, counts.get(name))}")
    name = str(found["metadata"]["name"]) if found else ""
    return Write("update", "InferServiceSet", snapshot.namespace, name, "; ".join(whys), body=patch, patch=True)


def _why(wanted: Mapping[str, Any] | None, live: Mapping[str, Any] | None, count: int | None) -> str:
    if wanted is None:
        return f"no policy, the count stays {count}"
    spec = wanted["spec"]
    return f"{'another policy' if live else 'a policy'}, min {spec['minReplicas']}, max {spec['maxReplicas']}"


def _within(policy: Policy, count: int) -> int:
    return max(policy.minimum, min(policy.maximum, count))


def _refuse_unrecordable(snapshot: Snapshot, off: Mapping[str, int]) -> None:
    """The user config holds 1 to 16 instances of an engine role."""
    for role, count in off.items():
        if not 1 <= count <= MAX_COUNT:
            raise Refused(
                f"Cannot take the policy of {role} of {snapshot.namespace} away: {count} instances are live, and a user config holds 1 to {MAX_COUNT}. "
                f"Set a policy first with limits within these (state: present, outside: scale).",
                reason="OutsideLimits",
                paths=(role,),
            )


def policies_of(snapshot: Snapshot) -> dict[str, Any]:
    """The policies in the cluster by engine role, as the InferServiceSet has them."""
    found = {role["name"]: policy_of(role) for role in infer_roles(snapshot) if role["name"] in AUTOSCALED}
    return {name: policy for name, policy in found.items() if policy is not None}
