# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which instances go when there are too many: the order, and the ones that are protected."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from .errors import InputError, Refused
from .job_facts import BACKEND as ASCEND_JOBS
from .state import Instance, ServiceState

HIGHEST_INDEX, UNHEALTHY_FIRST = "highest_index", "unhealthy_first"
ORDERS = (HIGHEST_INDEX, UNHEALTHY_FIRST)

# What is furthest from serving requests goes first.
_HEALTH = {"failed": 0, "held": 1, "pending": 1, "starting": 2, "running": 3}


@dataclass(frozen=True)
class WaitIdle:
    """Wait until instances that go are idle, for `timeout` seconds at most; `on_timeout` says what then."""

    timeout: float
    on_timeout: str


@dataclass(frozen=True)
class Choice:
    """How the user wants instances to be chosen, and taken away. `protect` holds indexes per engine role that must stay."""

    order: str = HIGHEST_INDEX
    protect: Mapping[str, frozenset[int]] = field(default_factory=lambda: MappingProxyType({}))
    wait_idle: WaitIdle | None = None

    def require_known(self, engine_roles: Sequence[str]) -> None:
        """Refuse to protect instances of engine roles that the service does not have."""
        for role in self.protect:
            if role not in engine_roles:
                wrong = f"this service has no such instances (it has: {', '.join(engine_roles)})"
                raise InputError.at(wrong, source="protect", path=f"protect.{role}")


@dataclass(frozen=True)
class Removal:
    """One instance that goes, and why it and no other."""

    engine_role: str
    index: int
    name: str
    why: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data for results."""
        return dict(self.__dict__)


def read_protect(option: Mapping[str, Any] | None) -> dict[str, frozenset[int]]:
    """The option `protect`, {engine_role: [index, ...]}. Raises InputError for anything but integers from 0."""
    given = {role: indexes for role, indexes in (option or {}).items() if indexes is not None}
    for role, indexes in given.items():
        strict = isinstance(indexes, list) and all(isinstance(item, int) and not isinstance(item, bool) and item >= 0 for item in indexes)
        if not strict:
            wrong = f"write a list of indexes, integers from 0, in place of {indexes!r}"
            raise InputError.at(wrong, source="protect", path=f"protect.{role}")
    return {role: frozenset(indexes) for role, indexes in given.items()}


def victims(state: ServiceState, role: str, surplus: int, choice: Choice) -> tuple[Removal, ...]:
    """The `surplus` live instances of an engine role that go, in the order in which they were chosen.

    Raises Refused (ProtectedInstance) when more instances are protected than may remain.
    """
    live = state.live(role)
    protected = choice.protect.get(role, frozenset())
    free = sorted((instance for instance in live if instance.index not in protected), key=_order(state, choice), reverse=True)
    if surplus > len(free):
        held = ", ".join(instance.name for instance in live if instance.index in protected)
        raise Refused(
            f"Cannot leave {len(live) - surplus} of {len(live)} {role} instances of {state.namespace}: {len(live) - len(free)} are protected ({held}). "
            "Protect fewer of them, or ask for a higher count.",
            reason="ProtectedInstance",
            paths=(role,),
        )
    return tuple(Removal(role, instance.index, instance.name, _why(state, instance, live, choice)) for instance in free[:surplus])


def require_highest(state: ServiceState, role: str, chosen: Sequence[Removal], choice: Choice) -> None:
    """Refuse a choice that the Infer Operator cannot honour: it removes the highest indexes, whatever we would rather remove."""
    live = [instance.index for instance in state.live(role)]
    would_go = sorted(live, reverse=True)[: len(chosen)]
    wanted = {removal.index for removal in chosen}
    if wanted != set(would_go):
        names = {instance.index: instance.name for instance in state.live(role)}
        raise Refused(
            f"Cannot remove {_names(chosen)} of {state.namespace}: an InferServiceSet removes the highest indexes, "
            f"so {', '.join(names[index] for index in would_go)} would go instead. "
            "Use order: highest_index and protect lower indexes only, or delete the pods of an unhealthy instance to have it made anew.",
            reason="ProtectedInstance" if choice.protect.get(role, frozenset()) & set(would_go) else "OrderNotPossible",
            paths=(role,),
        )


def _names(chosen: Sequence[Removal]) -> str:
    return ", ".join(f"{removal.name} ({removal.why})" for removal in chosen)


def _order(state: ServiceState, choice: Choice) -> Callable[[Instance], tuple[int, int]]:
    if choice.order == UNHEALTHY_FIRST:
        return lambda instance: (-_HEALTH.get(instance.state, 1), instance.index)
    return lambda instance: (int(_spare(state, instance)), instance.index)


def _spare(state: ServiceState, instance: Instance) -> bool:
    """An AscendJob that makes no pods serves nobody, and while it is held its PodGroup takes room: it goes before those that run."""
    return state.backend == ASCEND_JOBS and instance.state in ("held", "pending") and not instance.nodes


def _why(state: ServiceState, instance: Instance, live: Sequence[Instance], choice: Choice) -> str:
    if (choice.order == UNHEALTHY_FIRST and instance.state != "running") or _spare(state, instance):
        return f"not running: {instance.reason or instance.state}"
    protected = choice.protect.get(instance.engine_role, frozenset())
    passed = [other.index for other in live if other.index > instance.index and other.index in protected]
    return "highest index that is not protected" if passed else "highest index"
