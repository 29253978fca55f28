# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports of the watcher as its page and its metrics get them: a small cluster with one of everything, and large ones."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._motor import rule_codes

Report = dict[str, Any]
AT = "2026-11-30T15:00:00Z"
EVIL = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>&amp;"\'</script>'


def instance(role: str, index: int, state: str = "running", **facts: Any) -> Report:
    """One instance of one pod with 8 NPUs, unless told otherwise."""
    ready = int(state == "running")
    found = {"engine_role": role, "index": index, "name": f"mindie-server-{role[0]}{index}", "state": state, "reason": ""}
    found |= {"since": "2026-11-30T09:12:00Z", "pods": 1, "pods_ready": ready, "nodes": [f"node-{index:03}"] if ready else [], "npus": 8}
    return {**found, "altered": False, "group": "g0" if role == "prefill" else "g1", **facts}


def task(tiers: Sequence[Mapping[str, int]], now: int | None, possible: int | None, running: Mapping[str, int], **facts: Any) -> Report:
    """One inference task with its rule."""
    groups = {"g0": "prefill", "g1": "decode"}
    found = {"rule": "scaling-rule", "task": "chat", "readable": True, "crashes": False, "tiers": list(tiers), "running": dict(running)}
    return {**found, "groups": groups, "tier_now": now, "tier_possible": possible, "findings": [], **facts}


def service(namespace: str, instances: Sequence[Report], tasks: Sequence[Report] = (), **facts: Any) -> Report:
    """A service of AscendJobs as its baseline asks for, unless told otherwise."""
    roles = dict.fromkeys(found["engine_role"] for found in instances)
    counts = {role: sum(found["engine_role"] == role for found in instances) for role in roles}
    found = {
        "namespace": namespace,
        "backend": "ascend_jobs",
        "standing": "applied",
        "hold": False,
        "hold_text": "",
        "lock": None,
        "counts": counts,
    }
    found |= {"baseline": dict(counts), "owners": {}, "drift": {"missing": [], "surplus": [], "altered": [], "foreign": []}}
    found |= {"instances": list(instances), "control": [control("controller"), control("coordinator")], "tasks": list(tasks)}
    return {**found, **facts}


def control(name: str, ready: int = 1, reason: str = "") -> Report:
    """Controller or coordinator."""
    return {"name": name, "pods": 1, "pods_ready": ready, "reason": reason, "nodes": ["cpu-1"], "since": "2026-11-30T09:10:00Z"}


def pod(namespace: str, name: str, npus: int = 8, state: str = "running") -> Report:
    """A pod on a server."""
    return {"namespace": namespace, "name": f"{name}-master-0", "instance": name, "npus": npus, "state": state}


def server(index: int, pods: Sequence[Report] = (), npus: int = 8, **facts: Any) -> Report:
    """A healthy server on which nothing runs but these pods."""
    used = sum(found["npus"] for found in pods if found["state"] != "starting")
    reserved = sum(found["npus"] for found in pods if found["state"] == "starting")
    found = {"name": f"node-{index:03}", "npus": npus, "healthy": npus, "used": used, "reserved": reserved}
    found |= {"free": npus - used - reserved, "ready": True}
    return {**found, "cordoned": False, "super_pod": "", "since": "2026-11-28T06:00:00Z", "pods": list(pods), **facts}


def watch(kind: str, namespace: str = "chat", **facts: Any) -> Report:
    """A watch that is well."""
    found = {"kind": kind, "namespace": namespace, "synced": True, "restarts": 0, "relists": 1, "objects": 3, "silent_seconds": 1.2}
    return {**found, "relist_seconds": 0.1, "error": "", **facts}


def report(services: Sequence[Report] = (), servers: Sequence[Report] = (), **facts: Any) -> Report:
    """A whole report; `program` is changed by what is given for it."""
    program = {"name": "rescheduling-watcher", "version": "1.0.0", "namespace": "mindie-system", "pod": "rescheduling-watcher-5d8c7-x2x4k"}
    program |= {
        "leader": "rescheduling-watcher-5d8c7-x2x4k",
        "leading": True,
        "namespaces": ["chat"],
        "synced": True,
        "at": AT,
        "revision": 17,
    }
    program["acts"] = {"nudge": True, "release_stuck": True, "recreate_failed": False, "restore_missing": False}
    program |= facts.pop("program", {})
    watches = facts.pop("watches", [watch(kind) for kind in ("AscendJob", "PodGroup", "Pod", "ConfigMap")] + [watch("Node", "")])
    return {
        "program": program,
        "services": list(services),
        "servers": list(servers),
        "repairs": facts.pop("repairs", []),
        "watches": watches,
    }


TIERS = [{"g0": 4, "g1": 2}, {"g0": 3, "g1": 2}, {"g0": 2, "g1": 2}, {"g0": 1, "g1": 1}]


def well() -> Report:
    """Everything runs."""
    instances = [instance("prefill", index) for index in range(4)]
    instances += [instance("decode", index, nodes=[f"node-{index + 4:03}"]) for index in range(2)]
    pods = [pod("chat", found["name"]) for found in instances]
    servers = [server(index, pods[index : index + 1]) for index in range(8)]
    return report([service("chat", instances, [task(TIERS, 0, 0, {"g0": 4, "g1": 2})])], servers)


def faulty() -> Report:
    """One of everything that can be wrong."""
    held = instance("prefill", 2, "held", reason="tier 2 asks for 2 of g1, 1 run", since="2026-11-30T14:51:00Z")
    pending = instance(
        "decode", 1, "pending", reason="its PodGroup is Pending: 8 NPUs on one server, 4 are free", since="2026-11-30T14:55:30Z", pods=2
    )
    chat = service(
        "chat",
        [
            *(instance("prefill", index) for index in range(2)),
            held,
            instance("prefill", 3, "starting", reason="0 of 1 pods ready", since="2026-11-30T14:59:20Z", nodes=["node-003"]),
            instance("decode", 0, nodes=["node-004"]),
            pending,
        ],
        [task(TIERS, 3, 2, {"g0": 2, "g1": 1}, findings=[_finding("R625", "group g0 has 4 jobs, tier 0 asks for 5", tier=0, group="g0")])],
    )
    stuck = instance("decode", 0, "terminating", reason="1 pods left", nodes=["node-006"], pods_ready=0, since="2026-11-30T14:40:00Z")
    failed = instance(
        "prefill", 0, "failed", reason="AscendJob mindie-server-p0 has failed for good: the number of restarts is used up", altered=True
    )
    broken = _finding("R107", 'group_num is "2.0": no integer', line=4, column=41, path="elastic_scaling_list[0].group_list[0].group_num")
    search = service(
        "search",
        [failed, instance("prefill", 1, "missing", reason="the baseline asks for it", since=""), stuck],
        [task((), None, None, {"g0": 0, "g1": 0}, task="search", readable=False, crashes=True, findings=[broken])],
        control=[control("controller", 0, "pod mindie-ms-controller-0: CrashLoopBackOff (7 restarts)"), control("coordinator")],
        hold=True,
        hold_text="looking into it, Alice",
        drift={"missing": ["mindie-server-p1"], "surplus": [], "altered": ["mindie-server-p0"], "foreign": []},
    )
    lock = {"holder": "awx-job-4711", "verb": "scale", "since": "2026-11-30T14:58:00Z"}
    code = service("code", [instance("prefill", 0), instance("decode", 0, "starting", reason="0 of 1 pods ready")], lock=lock)
    translate = service(
        "translate", [instance("union", 0)], backend="infer_service_set", owners={"union": "HorizontalPodAutoscaler translate"}
    )
    deployed = service("vision", [instance("prefill", 0), instance("decode", 0)], backend="deployments", standing="deployer", baseline=None)
    return report([chat, code, search, translate, deployed], _faulty_servers(), repairs=_repairs(), watches=_watches(), program=_observed())


def _observed() -> Report:
    return {"namespaces": ["chat", "code", "search", "translate", "vision"], "revision": 18}


def _finding(code: str, message: str, **place: Any) -> Report:
    return rule_codes.finding(code, message, **place).to_dict()


def _faulty_servers() -> list[Report]:
    lost = pod("search", "mindie-server-d0", state="terminating")
    return [
        server(0, [pod("chat", "mindie-server-p0")]),
        server(1, [pod("chat", "mindie-server-p1")]),
        server(2, used=2, reserved=0, free=4, healthy=6),
        server(3, [pod("chat", "mindie-server-p3", state="starting")]),
        server(4, [pod("chat", "mindie-server-d0")]),
        server(5, reserved=8, free=0),
        server(6, [lost], ready=False, healthy=0, since="2026-11-30T14:38:00Z"),
        server(7, cordoned=True, free=0),
        server(8, [pod("code", "mindie-server-p0", 4), pod("code", "mindie-server-d0", 2, "starting")]),
        server(9, [pod("translate", "vllm-u0", 16)], npus=16),
        server(10, [pod("vision", "vllm-p0", 8)], npus=16, reserved=4, free=4),
        server(11, used=5, free=3),
    ]


def _repairs() -> list[Report]:
    at = ("2026-11-30T14:59:10Z", "2026-11-30T14:44:00Z", "2026-11-30T14:20:00Z", "2026-11-30T11:00:00Z")
    why = "a sibling became Running 0.2 s ago, and tier 2 now asks for 1 more of g0"
    rows = [
        ("nudge", "chat", "AscendJob", "mindie-server-p3", why, "done"),
        ("release_stuck", "search", "Pod", "mindie-server-d0-master-0", "node-006 is not Ready for 6 min", "failed: 403 pods is forbidden"),
        ("recreate_failed", "search", "AscendJob", "mindie-server-p0", "3 tries within an hour", "given up"),
        ("restore_missing", "code", "Deployment", "vllm-d0", "missing for 75 s", "done"),
    ]
    keys = ("act", "namespace", "kind", "name", "why", "outcome")
    return [{"at": when, **dict(zip(keys, row, strict=True))} for when, row in zip(at, rows, strict=True)]


def _watches() -> list[Report]:
    failing = watch(
        "PodGroup", "search", error="403 Forbidden: podgroups is forbidden", synced=False, silent_seconds=None, relist_seconds=None
    )
    return [
        watch("AscendJob"),
        watch("PodGroup"),
        watch("Pod", objects=14, restarts=3),
        watch("Pod", "search"),
        failing,
        watch("Node", "", objects=12),
    ]


def evil() -> Report:
    """All texts that come from the cluster are markup that would run if it were taken as such."""
    found = faulty()
    _spoil(found["services"])
    _spoil(found["servers"])
    _spoil(found["repairs"])
    _spoil(found["watches"])
    found["program"] |= {"name": EVIL, "leader": EVIL, "pod": EVIL, "namespaces": [EVIL], "leading": False}
    return found


_KEPT = {"engine_role", "state", "since", "at", "severity", "standing", "backend", "act"}


def _spoil(node: Any) -> None:
    items: Any = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in list(items):
        if isinstance(value, str) and key not in _KEPT:
            node[key] = f"{value}{EVIL}"
        elif isinstance(value, (dict, list)):
            _spoil(value)


def large(services: int = 300, servers: int = 1250, trouble: int = 7) -> Report:
    """As many services and servers as one cluster is to have, some of them not well."""
    numbers = itertools.count()
    found, hosts = [], []
    for position in range(services):
        name, bad = f"service-{position:03}", position % (services // trouble) == 3
        instances = []
        for role, many in (("prefill", 3), ("decode", 1)):
            for index in range(many):
                state, reason = ("held", "tier 1 asks for 1 of g1, 0 run") if bad and role == "prefill" and index == 2 else ("running", "")
                at = next(numbers)
                made = instance(role, index, state, reason=reason, nodes=[f"node-{at:03}"] if state == "running" else [])
                instances.append(made)
                pods = [pod(name, made["name"])] if state == "running" else []
                hosts.append(server(at, pods, super_pod=f"{at // 48}", ready=at % 400 != 399))
        now = 1 if bad else 0
        tiers = [{"g0": 3, "g1": 1}, {"g0": 2, "g1": 1}, {"g0": 1, "g1": 1}]
        found.append(service(name, instances, [task(tiers, now, 0, {"g0": 2, "g1": 1}, task=name)]))
    hosts += [server(at, super_pod=f"{at // 48}") for at in range(len(hosts), servers)]
    return report(found, hosts[:servers], program={"namespaces": ["*"]})
