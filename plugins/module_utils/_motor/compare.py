# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What we want of an object against the live one: which fields differ, and the live one with our fields set.

Only fields that the wanted object has are managed. What the server adds (defaults, status, a node port that it chose) is neither
a difference nor lost. Some parts are managed whole, so that what they have besides counts: selectors, labels of pod templates,
resources, security contexts and the data of a ConfigMap. Lists of things with names are compared by name, in any order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, TypeAlias

Path: TypeAlias = "tuple[str | int, ...]"

_IGNORED = frozenset({"status"})
_SERVER_METADATA = frozenset(
    {"creationTimestamp", "deletionTimestamp", "generation", "managedFields", "ownerReferences", "resourceVersion", "selfLink", "uid"}
)
# Maps that are managed whole, by their key.
_WHOLE = frozenset({"nodeSelector", "matchLabels", "selector", "requests", "limits", "securityContext"})
# Items of these lists have one source of many, or mean something else with more in them, so what they have besides counts.
_WHOLE_ITEMS = frozenset({"env", "volumes", "rules"})
# Lists of things with names: the fields that name one, the first that is there.
_NAMED = {
    "containers": ("name",),
    "env": ("name",),
    "initContainers": ("name",),
    "ports": ("name", "containerPort", "port"),
    "roles": ("name",),
    "services": ("name",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_QUANTITY = re.compile(r"([+-]?[0-9.]+)(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?[0-9]+)?")
_UNITS = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{unit: Fraction(1000**power) for power, unit in enumerate("kMGTPE", start=1)},
    **{f"{unit}i": Fraction(1024**power) for power, unit in enumerate("KMGTPE", start=1)},
}
_ABSENT = object()


def differences(wanted: Mapping[str, Any], live: Mapping[str, Any]) -> tuple[str, ...]:
    """Paths of the managed fields in which the live object differs, such as
    `spec.template.spec.containers[mindie-server].env[ROLE].value`, in the order of the wanted object.
    """
    return tuple(_in_words(path) for path in _differences((), wanted, live))


def merged(wanted: Mapping[str, Any], live: Mapping[str, Any]) -> dict[str, Any]:
    """The live object with all managed fields as wanted: the body of a PUT, with the live resourceVersion."""
    found: dict[str, Any] = _merged((), wanted, live)
    return found


def quantity(value: Any) -> Fraction | None:
    """The number that a Kubernetes quantity stands for (`500m`, `4Gi`, 16, "16"), or None when it is none."""
    match = _QUANTITY.fullmatch(str(value)) if not isinstance(value, bool) else None
    if match is None:
        return None
    unit = match[2] or ""
    try:
        number = Fraction(match[1])
    except ValueError:
        return None
    return number * (Fraction(10) ** int(unit[1:]) if unit[:1] in ("e", "E") and unit[1:] else _UNITS[unit])


def _differences(path: Path, wanted: Any, live: Any) -> Iterator[Path]:
    if live is _ABSENT:
        if not _is_empty(wanted):
            yield path
    elif isinstance(wanted, Mapping) and isinstance(live, Mapping):
        yield from _map_differences(path, wanted, live)
    elif isinstance(wanted, list) and isinstance(live, list):
        yield from _list_differences(path, wanted, live)
    elif not _equal(path, wanted, live):
        yield path


def _map_differences(path: Path, wanted: Mapping[str, Any], live: Mapping[str, Any]) -> Iterator[Path]:
    for key, value in wanted.items():
        if not _is_ignored(path, key):
            yield from _differences((*path, key), value, live.get(key, _ABSENT))
    if _is_whole(path):
        for key, value in live.items():
            if key not in wanted and not _is_empty(value):
                yield (*path, key)


def _list_differences(path: Path, wanted: list[Any], live: list[Any]) -> Iterator[Path]:
    names, live_items = _names(path, wanted), _by_name(path, live)
    if names is None or live_items is None:
        if len(wanted) != len(live):
            yield path
            return
        for index, (value, found) in enumerate(zip(wanted, live, strict=True)):
            yield from _differences((*path, index), value, found)
        return
    for name, value in zip(names, wanted, strict=True):
        yield from _differences((*path, name), value, live_items.get(name, _ABSENT))
    for name in live_items:
        if name not in names:
            yield (*path, name)


def _merged(path: Path, wanted: Any, live: Any) -> Any:
    if isinstance(wanted, Mapping):
        base = live if isinstance(live, Mapping) else {}
        kept = {} if _is_whole(path) else dict(base)
        for key, value in wanted.items():
            if not (_is_ignored(path, key) and key in base):
                kept[key] = _merged((*path, key), value, base.get(key))
        return kept
    if isinstance(wanted, list):
        return _merged_list(path, wanted, live if isinstance(live, list) else [])
    return wanted


def _merged_list(path: Path, wanted: list[Any], live: list[Any]) -> list[Any]:
    names, live_items = _names(path, wanted), _by_name(path, live)
    if names is not None and live_items is not None:
        return [_merged((*path, name), value, live_items.get(name)) for name, value in zip(names, wanted, strict=True)]
    if len(wanted) == len(live):
        return [_merged((*path, index), value, found) for index, (value, found) in enumerate(zip(wanted, live, strict=True))]
    return [_merged((*path, index), value, None) for index, value in enumerate(wanted)]


def _names(path: Path, items: list[Any]) -> list[Any] | None:
    """The names of a list's items, or None when its items have none or share one."""
    fields = _NAMED.get(str(path[-1])) if path else None
    if fields is None or not all(isinstance(item, Mapping) for item in items):
        return None
    names = [_name(item, fields) for item in items]
    return names if len(set(names)) == len(items) and _ABSENT not in names else None


def _name(item: Mapping[str, Any], fields: tuple[str, ...]) -> Any:
    for field in fields:
        if item.get(field):
            return item[field]
    return _ABSENT


def _by_name(path: Path, items: list[Any]) -> dict[Any, Any] | None:
    names = _names(path, items)
    return None if names is None else dict(zip(names, items, strict=True))


def _is_ignored(path: Path, key: str) -> bool:
    return (not path and key in _IGNORED) or (path == ("metadata",) and key in _SERVER_METADATA)


def _is_whole(path: Path) -> bool:
    """Whether a map is managed whole."""
    if not path:
        return False
    in_pod_template = path[-3:] == ("template", "metadata", "labels")
    return path in (("data",), ("binaryData",)) or path[-1] in _WHOLE or in_pod_template or (len(path) > 1 and path[-2] in _WHOLE_ITEMS)


def _is_empty(value: Any) -> bool:
    """What the server leaves out of its answers."""
    return value is None or value is False or value in ("", {}, [])


def _equal(path: Path, wanted: Any, live: Any) -> bool:
    if len(path) > 1 and (path[-2] in ("requests", "limits") or path[-1] == "sizeLimit"):
        number = quantity(wanted)
        if number is not None:
            return number == quantity(live)
    if isinstance(wanted, bool) or isinstance(live, bool):
        return wanted is live
    return bool(wanted == live)


def _in_words(path: Path) -> str:
    """A path in words. What names an item of a list, and keys that are no plain names, stand in brackets."""
    words, in_list = "", False
    for token in path:
        if in_list or isinstance(token, int) or not _PLAIN_KEY.fullmatch(token):
            words += f"[{token}]"
        else:
            words += f".{token}" if words else token
        in_list = not in_list and token in _NAMED
    return words
