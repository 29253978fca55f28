# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What may happen to services of AscendJobs and to servers, as events of the API server, and how these may reach a watch."""

from __future__ import annotations

import copy
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from ansible_collections.ascend.mindie.plugins.module_utils._motor import hands_off
from ansible_collections.ascend.mindie.plugins.module_utils._motor.plan_recreate import NUDGED
from ansible_collections.ascend.mindie.plugins.module_utils._motor.workloads import ASCEND_JOB
from tests.property.memory_server import Event, MemoryServer, Obj
from tests.support import watcher_snapshots as made

NAMESPACES = ("chat", "talk")
GROUPS = {"mindie-server-p0": "group0", "mindie-server-p1": "group0", "mindie-server-p2": "group0", "mindie-server-d0": "group1"}
NODES = ("node-0", "node-1", "node-2")
TIERS = ({"group0": 2, "group1": 1}, {"group0": 1, "group1": 1})
RULES = (lambda: made.rule(*TIERS), lambda: made.rule(*TIERS[1:]), lambda: made.rule(text="{"), lambda: made.rule({"group0": 3}, *TIERS))
CONFIGS = (
    lambda: made.motor_config(2, 1),
    lambda: made.motor_config(3, 1),
    lambda: made.motor_config(2, 1, **{"ascend.mindie/hold": "by hand"}),
    lambda: made.motor_config(1, 1),
)
# Kind, names, and how an object of that name looks; each may also go, and come back as another one.
Look = Callable[[MemoryServer, str, str, int], Obj]
Op = tuple[int, int, int, bool]
Heard = tuple[str, Event]


def _job(server: MemoryServer, namespace: str, name: str, pick: int) -> Obj:
    changed = (
        {},
        {},
        {"conditions": made.FAILED},
        {"conditions": made.INVALID},
        {"deletionTimestamp": "2026-11-30T10:00:00Z"},
        {"annotations": {NUDGED: "5/0/2"}},
    )
    return made.job(name, GROUPS[name], **copy.deepcopy(changed[pick % len(changed)]))


def _pod_group(server: MemoryServer, namespace: str, name: str, pick: int) -> Obj:
    phases = ("Running", "Inqueue", "Inqueue", "Running", "Pending", "")
    found = made.pod_group(name, phases[pick % len(phases)], GROUPS[name])
    found["metadata"]["ownerReferences"][0]["uid"] = server.uid(ASCEND_JOB, namespace, name)
    found["metadata"]["name"] = name
    return found


def _pod(server: MemoryServer, namespace: str, name: str, pick: int) -> Obj:
    return made.pod(name.removesuffix("-master-0"), node=NODES[pick % 3], leaving=pick % 3 == 2 or pick % 5 == 1, ready=pick % 4 != 3)


def _config_map(server: MemoryServer, namespace: str, name: str, pick: int) -> Obj:
    if name == made.RULE:
        return RULES[pick % len(RULES)]()
    if name == "motor-config":
        return CONFIGS[pick % len(CONFIGS)]()
    annotations = {hands_off.JOB: "mindie-server-p1", hands_off.OLD_UID: "u"}
    return {"metadata": {"name": name, "namespace": namespace, "annotations": annotations}, "data": {"job": "{}"}}


def _lease(server: MemoryServer, namespace: str, name: str, pick: int) -> Obj:
    return made.lease(("", "", "somebody", "watcher/pod-1")[pick % 4])


def _node(server: MemoryServer, namespace: str, name: str, pick: int) -> Obj:
    return made.node(name, ready=("True", "False", "True", "Unknown")[pick % 4], npus=(64, 8)[pick % 2])


LOOKS: Mapping[str, tuple[tuple[str, ...], Look]] = {
    ASCEND_JOB: (tuple(GROUPS), _job),
    "PodGroup": (tuple(GROUPS), _pod_group),
    "Pod": (tuple(f"{name}-master-0" for name in GROUPS), _pod),
    "ConfigMap": ((made.RULE, "motor-config", f"{hands_off.KEPT_PREFIX}mindie-server-p1"), _config_map),
    "Lease": (("ascend-mindie",), _lease),
    "Node": (NODES, _node),
}
KINDS = tuple(LOOKS)
# In both services one prefill instance is held. The decode instance of one is leaving, that of the other has failed for good, and that one
# lacks a prefill instance, too. One server is not Ready.
_FIRST = {
    (ASCEND_JOB, "talk", "mindie-server-d0"): 2,
    ("PodGroup", "talk", "mindie-server-d0"): 5,
    ("Pod", "chat", "mindie-server-d0-master-0"): 1,
    ("PodGroup", "chat", "mindie-server-p1"): 1,
    ("PodGroup", "talk", "mindie-server-p1"): 1,
    ("ConfigMap", "talk", "motor-config"): 1,
    ("Node", "", "node-2"): 1,
}


def begin(server: MemoryServer) -> None:
    """Both services as they have been for long."""
    for kind, (names, dummy) in LOOKS.items():
        for namespace in _scopes(kind):
            for name in names if kind != "ConfigMap" else names[:2]:
                pick = _FIRST.get((kind, namespace, name), 0)
                if not (kind == "Pod" and "-p1-" in name) and "-p2" not in name:
                    server.put(kind, look(server, kind, namespace, name, pick))


def look(server: MemoryServer, kind: str, namespace: str, name: str, pick: int) -> Obj:
    """An object of this kind and name."""
    found = copy.deepcopy(LOOKS[kind][1](server, namespace, name, pick))
    found["metadata"] |= {"name": name} | ({"namespace": namespace} if namespace else {})
    if "jobID" in (found["metadata"].get("labels") or {}):
        found["metadata"]["labels"]["jobID"] = namespace
    return found


def happen(server: MemoryServer, ops: list[Op]) -> list[Heard]:
    """What the server has to tell when all this happens, in the order in which it does."""
    told: list[Heard] = []
    for which, where, pick, goes in ops:
        kind = KINDS[which % len(KINDS)]
        names, scopes = LOOKS[kind][0], _scopes(kind)
        namespace, name = scopes[where % len(scopes)], names[where // 2 % len(names)]
        event = server.take(kind, (namespace, name)) if goes else server.put(kind, look(server, kind, namespace, name, pick))
        if event:
            told.append((kind, event))
    return told


def interleaved(told: list[Heard], chance: random.Random) -> list[Heard]:
    """The same, the kinds in any order, as each has a watch of its own. Of one kind some is told again from an earlier point on, and
    that something went is said again at any time later.
    """
    queues: dict[str, list[Heard]] = defaultdict(list)
    for heard in told:
        queues[heard[0]].append(heard)
    queues = {kind: _gone_twice(list(_replayed(found, chance)), chance) for kind, found in queues.items()}
    order = [kind for kind, found in queues.items() for dummy in found]
    chance.shuffle(order)
    ways = {kind: iter(found) for kind, found in queues.items()}
    return [next(ways[kind]) for kind in order]


def _replayed(found: list[Heard], chance: random.Random) -> Iterator[Heard]:
    at = 0
    while at < len(found):
        yield found[at]
        at = chance.randrange(at + 1) if chance.random() < 0.15 else at + 1


def _gone_twice(found: list[Heard], chance: random.Random) -> list[Heard]:
    for heard in [heard for heard in found if heard[1][0] == "DELETED"]:
        if chance.random() < 0.5:
            found.insert(chance.randint(found.index(heard) + 1, len(found)), heard)
    return found


def garbled(told: list[Heard], chance: random.Random) -> list[Heard]:
    """Some lost, some twice, all in any order."""
    found = [heard for heard in told for dummy in range(chance.choice((0, 1, 1, 1, 2)))]
    chance.shuffle(found)
    return found


def _scopes(kind: str) -> tuple[str, ...]:
    return ("",) if kind == "Node" else NAMESPACES
