# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Servers, what an instance wants of them, and what runs on them: the plain data that questions of capacity start from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NoReturn

from .errors import InputError
from .hardware import HARDWARE

# A server has 8 (A2) or 16 (A3) NPUs; this is what the fast arithmetic can hold.
MOST_NPUS = 255


@dataclass(frozen=True)
class Server:
    """A server. `used` are NPUs that something else than the service has; one that is not `usable` has no room and cannot fail."""

    name: str
    npus: int
    super_pod: str = ""
    usable: bool = True
    used: int = 0


@dataclass(frozen=True)
class Shape:
    """What the engine role of a group wants: `count` instances of `pods` pods, each with `npus_per_pod` NPUs of one server.

    All pods of an instance run or none (gang). `sp_block` NPUs of an instance at a time (all of them when it is as large as the
    instance) have to be in one super pod; 0: no matter where.
    """

    group: str
    count: int
    pods: int
    npus_per_pod: int
    sp_block: int = 0

    @property
    def npus(self) -> int:
        """NPUs of one instance."""
        return self.pods * self.npus_per_pod

    @property
    def pods_per_block(self) -> int:
        """Pods that have to be in one super pod."""
        return self.sp_block // self.npus_per_pod if self.sp_block else 1


@dataclass(frozen=True)
class Instance:
    """An instance that runs: the server of each of its pods, in order (a server may be there twice)."""

    group: str
    name: str
    pods: tuple[str, ...]
    npus_per_pod: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {**self.__dict__, "pods": list(self.pods)}


@dataclass(frozen=True)
class Inventory:
    """Servers, the shapes of the groups, and what runs (`None`: nothing is said, so it is laid out as the rule would)."""

    servers: tuple[Server, ...]
    shapes: tuple[Shape, ...] = ()
    running: tuple[Instance, ...] | None = None


@dataclass(frozen=True)
class Load:
    """Checked servers with their free NPUs by name (none on a server that is not usable)."""

    servers: tuple[Server, ...]
    free: Mapping[str, int]
    instances: tuple[Instance, ...] = field(default=())


def from_inventory(data: Mapping[str, Any], *, source: str = "inventory") -> Inventory:
    """Read plain data. Raises InputError with the path of what is wrong.

    `servers`: list of `{name, npus or hardware_type, super_pod, usable, used}`; `shapes`: list of `{group, count, pods, npus_per_pod,
    sp_block}`; `instances` (optional): list of `{group, name, pods: [server, ...], npus_per_pod}`.
    """
    _known(data, ("servers", "shapes", "instances"), source, "")
    servers = tuple(_server(item, source, f"servers[{i}]") for i, item in enumerate(_list(data, "servers", source, "")))
    shapes = tuple(_shape(item, source, f"shapes[{i}]") for i, item in enumerate(_list(data, "shapes", source, "")))
    running = None
    if data.get("instances") is not None:
        items = _list(data, "instances", source, "")
        running = tuple(_instance(item, source, f"instances[{i}]") for i, item in enumerate(items))
    inventory = Inventory(servers, shapes, running)
    checked_shapes(shapes, source=source)
    loaded(servers, running or (), source=source)
    return inventory


def checked_shapes(shapes: Sequence[Shape], *, source: str = "shapes") -> None:
    """One shape per group, positive numbers, and blocks that fit the pods. Raises InputError."""
    for index, shape in enumerate(shapes):
        path = f"shapes[{index}]"
        if any(shape.group == other.group for other in shapes[:index]):
            _fail(f'group "{shape.group}" is given twice', source, f"{path}.group")
        if shape.count < 0 or shape.pods < 1 or not 1 <= shape.npus_per_pod <= MOST_NPUS:
            _fail(f"an instance has at least 1 pod with 1 to {MOST_NPUS} NPUs, and there are at least 0 instances", source, path)
        if shape.sp_block and (shape.sp_block < 0 or shape.sp_block % shape.npus_per_pod or shape.npus % shape.sp_block):
            wrong = f"it has to be a multiple of the {shape.npus_per_pod} NPUs of a pod and to divide the {shape.npus} NPUs of the instance"
            _fail(wrong, source, f"{path}.sp_block")


def loaded(servers: Sequence[Server], running: Iterable[Instance], *, source: str = "servers") -> Load:
    """What is free on each server. Raises InputError for a name given twice or unknown, and for a server with more load than NPUs."""
    free: dict[str, int] = {}
    for index, server in enumerate(servers):
        path = f"servers[{index}]"
        if server.name in free:
            _fail(f'server "{server.name}" is given twice', source, f"{path}.name")
        if not 0 <= server.used <= server.npus <= MOST_NPUS:
            _fail(f"server {server.name} has {server.npus} NPUs (0 to {MOST_NPUS}), of which {server.used} are used", source, path)
        free[server.name] = server.npus - server.used
    instances = tuple(running)
    for (group, name), number in Counter((instance.group, instance.name) for instance in instances).items():
        if number > 1:
            _fail(f'instance "{name}" of group "{group}" is given twice', source, "instances")
    for instance in instances:
        for server_name in instance.pods:
            if server_name not in free:
                _fail(f'instance {instance.name} runs on the unknown server "{server_name}"', source, "instances")
            free[server_name] -= instance.npus_per_pod
            if free[server_name] < 0:
                _fail(f"server {server_name} runs more than its NPUs allow, with instance {instance.name}", source, "instances")
    usable = {server.name: free[server.name] if server.usable else 0 for server in servers}
    return Load(tuple(servers), usable, instances)


def _server(item: Any, source: str, path: str) -> Server:
    _known(item, ("hardware_type", *(entry.name for entry in fields(Server))), source, path)
    if "npus" not in item and "hardware_type" in item:
        hardware = HARDWARE.get(_text(item, "hardware_type", source, path))
        if hardware is None:
            _fail(f"it is none of {', '.join(HARDWARE)}", source, f"{path}.hardware_type")
        npus = hardware.npus_per_server
    else:
        npus = _number(item, "npus", source, path)
    usable = item.get("usable", True)
    if not isinstance(usable, bool):
        _fail("it has to be true or false", source, f"{path}.usable")
    pod = item.get("super_pod", "")
    # Node labels are texts, inventories may hold the same as a number.
    if isinstance(pod, bool) or not isinstance(pod, (str, int)):
        _fail("it has to be a text", source, f"{path}.super_pod")
    return Server(_text(item, "name", source, path), npus, str(pod), usable, _number(item, "used", source, path, 0))


def _shape(item: Any, source: str, path: str) -> Shape:
    _known(item, [entry.name for entry in fields(Shape)], source, path)
    count, pods, npus = (_number(item, key, source, path) for key in ("count", "pods", "npus_per_pod"))
    return Shape(_text(item, "group", source, path), count, pods, npus, _number(item, "sp_block", source, path, 0))


def _instance(item: Any, source: str, path: str) -> Instance:
    _known(item, [entry.name for entry in fields(Instance)], source, path)
    pods = _list(item, "pods", source, path)
    if not pods or not all(isinstance(name, str) for name in pods):
        _fail("it has to be a list of names of servers, one for each pod", source, f"{path}.pods")
    npus = _number(item, "npus_per_pod", source, path)
    return Instance(_text(item, "group", source, path), _text(item, "name", source, path), tuple(pods), npus)


def _known(item: Any, keys: Sequence[str], source: str, path: str) -> None:
    if not isinstance(item, Mapping):
        _fail("it has to be a mapping", source, path)
    unknown = [str(key) for key in item if key not in keys]
    if unknown:
        _fail(f"unknown key {unknown[0]}; known are {', '.join(keys)}", source, path)


def _list(item: Mapping[str, Any], key: str, source: str, path: str) -> list[Any]:
    value = item.get(key, [])
    if not isinstance(value, list):
        _fail("it has to be a list", source, _under(path, key))
    return value


def _text(item: Mapping[str, Any], key: str, source: str, path: str) -> str:
    value = item.get(key)
    if not isinstance(value, str):
        _fail("it has to be a text", source, _under(path, key))
    return value


def _number(item: Mapping[str, Any], key: str, source: str, path: str, default: int | None = None) -> int:
    value = item.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        _fail("it has to be a whole number, at least 0", source, _under(path, key))
    return value


def _under(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _fail(wrong: str, source: str, path: str) -> NoReturn:
    raise InputError.at(wrong, source=source, path=path)
