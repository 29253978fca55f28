# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes a scaling rule from what there is and what is wanted: servers, sizes of instances, and how a service gets smaller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from .capacity import Server, Shape, place
from .errors import InputError
from .job_settings import DEFAULT_GROUPS
from .rule_reader import Size, Sizes

SOURCE = "synthesize"
PREFILL, DECODE = "prefill", "decode"
ENGINE_ROLES = (PREFILL, DECODE)  # Motor's controller reads the rule by position
NPUS_PER_SERVER = MappingProxyType({"A2": 8, "A3": 16})
MAX_INSTANCES, MAX_SERVERS, MAX_PODS, MAX_NPUS = 96, 10_000, 1024, 64

Counts: TypeAlias = "Mapping[str, int]"


@dataclass(frozen=True)
class Wish:
    """What the rule is for. All mappings go by engine role (prefill, decode).

    `minimum` is the smallest service that is still worth running. `steps` are the tiers, the full size first; without them they
    are made: prefill gives way, and decode only unless `keep_decode`.
    """

    servers: int
    npus_per_server: int
    instances: Counts
    pods_per_instance: Counts
    npus_per_pod: Counts
    minimum: Counts
    groups: Mapping[str, str]
    keep_decode: bool = True
    steps: tuple[Counts, ...] = ()

    def inventory(self) -> tuple[Server, ...]:
        """The servers, which have no names of their own."""
        return tuple(Server(f"server-{index}", self.npus_per_server) for index in range(self.servers))

    def shapes(self, counts: Counts) -> tuple[Shape, ...]:
        """So many instances of each engine role as they are placed on servers."""
        return tuple(Shape(self.groups[role], counts[role], self.pods_per_instance[role], self.npus_per_pod[role]) for role in ENGINE_ROLES)


def given(options: Mapping[str, Any]) -> Wish:
    """The wish of the suboptions of `synthesize`. Raises InputError that names the suboption."""
    npus = npus_per_server(options, SOURCE)
    instances = _pair(options, "instances", MAX_INSTANCES) if options.get("instances") else None
    steps = tuple(_pair({"steps": step}, "steps", MAX_INSTANCES, f"[{index}]") for index, step in enumerate(options.get("steps") or ()))
    if instances is None and not steps:
        raise _error("give the wanted instances of each engine role, or steps", "instances")
    groups = {role: (options.get("groups") or {}).get(role) or DEFAULT_GROUPS[role] for role in ENGINE_ROLES}
    if len(set(groups.values())) < len(groups):
        raise _error(f"every engine role needs a group of its own, not twice {groups[PREFILL]}", f"groups.{DECODE}")
    full = instances or steps[0]
    keep = options.get("keep_decode") is not False
    wish = Wish(
        servers=_count(options.get("servers"), "servers", MAX_SERVERS),
        npus_per_server=npus,
        instances=full,
        pods_per_instance=_pair(options, "pods_per_instance", MAX_PODS, default=1),
        npus_per_pod=_pair(options, "npus_per_pod", MAX_NPUS, default=npus),
        minimum=_minimum(options.get("minimum") or {}, full, keep and not steps),
        groups=groups,
        keep_decode=keep,
        steps=steps,
    )
    _require_sound(wish)
    return wish


def synthesise(wish: Wish) -> tuple[Sizes, ...]:
    """The tiers. Raises InputError when the full size does not fit on the servers, which says what does."""
    counts = tuple(wish.steps or _steps(wish))
    tiers = tuple({wish.groups[role]: Size(tier[role], wish.pods_per_instance[role]) for role in ENGINE_ROLES} for tier in counts)
    fits = next((index for index, tier in enumerate(counts) if _fits(wish, tier, tiers[index:])), None)
    if fits != 0:
        raise _no_room(wish, counts[0], None if fits is None else counts[fits])
    return tiers


def _steps(wish: Wish) -> Iterator[Counts]:
    """From the full size down to the smallest service, one instance less each time."""
    counts = dict(wish.instances)
    yield dict(counts)
    while any(counts[role] > wish.minimum[role] for role in ENGINE_ROLES):
        counts[_gives_way(wish, counts)] -= 1
        yield dict(counts)


def _gives_way(wish: Wish, counts: Counts) -> str:
    """The engine role that loses the next instance: the one that has most left of what was wanted, so that the ratio stays close."""
    able = [role for role in ENGINE_ROLES if counts[role] > wish.minimum[role]]
    # Compared as fractions, without dividing; prefill goes first of equals.
    other = {PREFILL: DECODE, DECODE: PREFILL}
    return max(able, key=lambda role: counts[role] * wish.instances[other[role]])


def _fits(wish: Wish, counts: Counts, tiers: Sequence[Sizes]) -> bool:
    """Whether a service under a rule of these tiers grows up to these counts."""
    return not any(place(wish.inventory(), wish.shapes(counts), tiers).left.values())


def _no_room(wish: Wish, full: Counts, rest: Counts | None) -> InputError:
    if rest:
        fits = f"What fits of the tiers is {_said(rest)}: synthesize with these instances, or give more servers."
    else:
        fits = "Not even the smallest tier fits: give more servers, or ask for fewer or smaller instances."
    sizes = ", ".join(
        f"{wish.pods_per_instance[role]} pods of {wish.npus_per_pod[role]} NPUs for each {role} instance" for role in ENGINE_ROLES
    )
    wrong = f"{_said(full)} do not fit on {wish.servers} servers of {wish.npus_per_server} NPUs ({sizes}). {fits}"
    return InputError.at(wrong, source=SOURCE, path=f"{SOURCE}.servers")


def _said(counts: Counts) -> str:
    return " and ".join(f"{counts[role]} {role}" for role in ENGINE_ROLES)


def _require_sound(wish: Wish) -> None:
    for role in ENGINE_ROLES:
        if wish.npus_per_pod[role] > wish.npus_per_server:
            wrong = f"a pod of {wish.npus_per_pod[role]} NPUs does not fit on a server of {wish.npus_per_server}"
            raise _error(wrong, f"npus_per_pod.{role}")
    for index, step in enumerate(wish.steps):
        before = wish.steps[index - 1] if index else wish.instances
        for role in ENGINE_ROLES:
            if index == 0 and step[role] != before[role]:
                wrong = f"{step[role]}, but {before[role]} instances are wanted: the first step is the full size"
                raise _error(wrong, f"steps[0].{role}")
            if step[role] > before[role]:
                raise _error(
                    f"{step[role]} is more than the {before[role]} of the step before: write the largest step first",
                    f"steps[{index}].{role}",
                )
            if step[role] < wish.minimum[role]:
                raise _error(f"{step[role]} is less than the minimum of {wish.minimum[role]}", f"steps[{index}].{role}")
        if index and step == before:
            raise _error("this is the step before once more: remove it", f"steps[{index}]")


def _minimum(given_minimum: Mapping[str, Any], full: Counts, keep_decode: bool) -> Counts:
    found = {PREFILL: 1, DECODE: full[DECODE] if keep_decode else 1}
    for role in ENGINE_ROLES:
        if given_minimum.get(role) is not None:
            found[role] = _count(given_minimum[role], f"minimum.{role}", MAX_INSTANCES)
        if found[role] > full[role]:
            raise _error(f"{found[role]} is more than the {full[role]} instances of the full size", f"minimum.{role}")
    if keep_decode and found[DECODE] != full[DECODE]:
        wrong = f"{found[DECODE]}, but keep_decode keeps all {full[DECODE]}: leave this out, or set keep_decode to false"
        raise _error(wrong, f"minimum.{DECODE}")
    return found


def npus_per_server(options: Mapping[str, Any], source: str) -> int:
    """NPUs of one server: of the suboption of that name, or by `hardware`. Raises InputError."""
    hardware, npus = options.get("hardware"), options.get("npus_per_server")
    if npus is None and hardware is None:
        raise InputError.at("give hardware (A2 or A3), or npus_per_server", source=source, path=f"{source}.hardware")
    if npus is None:
        return NPUS_PER_SERVER[str(hardware)]
    found = number(npus, source, "npus_per_server", MAX_NPUS)
    if hardware is not None and found != NPUS_PER_SERVER[hardware]:
        wrong = f"{found}, but a server of {hardware} has {NPUS_PER_SERVER[hardware]} NPUs: give one of the two options"
        raise InputError.at(wrong, source=source, path=f"{source}.npus_per_server")
    return found


def number(value: Any, source: str, path: str, most: int, least: int = 1) -> int:
    """A whole number of an option. Texts, booleans and 1.0 are none. Raises InputError."""
    wrong = ""
    if value is None:
        wrong = "this is needed: write a whole number"
    elif isinstance(value, bool) or not isinstance(value, int):
        shown = str(value).lower() if isinstance(value, bool) else repr(value)
        wrong = f"{shown} is no whole number: write digits without quotes, such as 2"
    elif not least <= value <= most:
        wrong = f"{value} is not between {least} and {most}"
    if wrong:
        raise InputError.at(wrong, source=source, path=f"{source}.{path}")
    return int(value)


def _pair(options: Mapping[str, Any], name: str, most: int, index: str = "", default: int | None = None) -> dict[str, int]:
    found = options.get(name) or {}
    values = {role: found.get(role) if found.get(role) is not None else default for role in ENGINE_ROLES}
    return {role: _count(value, f"{name}{index}.{role}", most) for role, value in values.items()}


def _count(value: Any, path: str, most: int) -> int:
    return number(value, SOURCE, path, most)


def _error(wrong: str, path: str) -> InputError:
    return InputError.at(wrong, source=SOURCE, path=f"{SOURCE}.{path}")
