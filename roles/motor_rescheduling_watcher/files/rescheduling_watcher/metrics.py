# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report and what was counted, in the text format of Prometheus.

No data is not zero: what is not known has no sample. As long as the caches are not filled, nothing is said of services and servers.
Label values come from settings, from fixed lists, or are names of namespaces and rules; per namespace there are at most `MOST_TASKS` rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._cluster import prometheus
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.prometheus import Histogram, Sample

from .settings import ACTS

Report = Mapping[str, Any]

OUTCOMES = ("done", "failed", "given_up")
STATES = ("running", "starting", "pending", "held", "terminating", "failed", "missing", "surplus", "foreign")
SEVERITIES = ("error", "warning", "note")
MOST_TASKS = 20
# Upper bounds in seconds: an event should be decided upon within 0.2 s, in a large cluster within 0.5 s.
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass
class Counters:
    """What this process has counted since it started: repairs by act and outcome, and how long decisions took (seconds)."""

    repairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    decisions: Histogram = field(default_factory=lambda: Histogram(BOUNDS))

    def repair(self, act: str, outcome: str) -> None:
        """Count a repair. `outcome` is as in the report: done, failed (whatever follows), given up."""
        self.repairs[act, outcome_of(outcome)] += 1


def outcome_of(text: str) -> str:
    """The outcome of a repair as a label: what it failed with is no part of it."""
    return next((outcome for outcome in OUTCOMES if text.replace(" ", "_").startswith(outcome)), "failed")


@dataclass(frozen=True)
class Family:
    """One metric: everything that is written of it, and where its samples come from."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...]
    samples: Callable[[Report, Counters], Iterable[Sample]]

    def text(self, report: Report, counters: Counters) -> Iterator[str]:
        """Its lines; none when there is no sample. Samples of the same labels are added up, as one series must not be told twice."""
        yield from prometheus.family(self.name, self.kind, self.help, self.labels, self.samples(report, counters))


def render(report: Report, counters: Counters) -> str:
    """All metrics as text."""
    lines = [line for family in FAMILIES for line in family.text(report, counters)]
    lines += prometheus.histogram(DECISIONS, DECISIONS_HELP, counters.decisions)
    return "\n".join(lines) + "\n"


def _program(report: Report) -> Mapping[str, Any]:
    found: Mapping[str, Any] = report.get("program") or {}
    return found


def _services(report: Report) -> Iterable[Mapping[str, Any]]:
    return report.get("services") or () if _program(report).get("synced") else ()


def _servers(report: Report) -> Iterable[Mapping[str, Any]]:
    return report.get("servers") or () if _program(report).get("synced") else ()


def _build(report: Report, dummy: Counters) -> Iterator[Sample]:
    version = _program(report).get("version")
    if version:
        yield (str(version),), 1


def _flag(name: str) -> Callable[[Report, Counters], Iterator[Sample]]:
    def samples(report: Report, dummy: Counters) -> Iterator[Sample]:
        program = _program(report)
        if name in program:
            yield (str(program.get("namespace", "")), str(program.get("name", ""))), bool(program[name])

    return samples


def _enabled(report: Report, dummy: Counters) -> Iterator[Sample]:
    acts = _program(report).get("acts") or {}
    yield from (((act,), bool(acts[act])) for act in ACTS if act in acts)


def _standing(report: Report, dummy: Counters) -> Iterator[Sample]:
    for service in _services(report):
        yield (str(service.get("backend", "")), str(service.get("standing", ""))), 1


def _instances(report: Report, dummy: Counters) -> Iterator[Sample]:
    for service in _services(report):
        found = service.get("instances") or ()
        roles = dict.fromkeys([*(service.get("baseline") or ()), *(instance["engine_role"] for instance in found)])
        counted = Counter((instance["engine_role"], instance["state"]) for instance in found)
        for role in roles:
            yield from (((service["namespace"], role, state), counted[role, state]) for state in STATES)


def _baseline(report: Report, dummy: Counters) -> Iterator[Sample]:
    for service in _services(report):
        yield from (((service["namespace"], role), count) for role, count in (service.get("baseline") or {}).items())


def _control(report: Report, dummy: Counters) -> Iterator[Sample]:
    for service in _services(report):
        yield from (((service["namespace"], control["name"]), control["pods_ready"]) for control in service.get("control") or ())


def _on_hold(report: Report, dummy: Counters) -> Iterator[Sample]:
    yield from (((service["namespace"],), bool(service["hold"])) for service in _services(report) if "hold" in service)


def _held(report: Report, dummy: Counters) -> Iterator[Sample]:
    now = _seconds(_program(report).get("at"))
    longest: dict[tuple[str, ...], float] = {}
    for service in _services(report):
        for instance in service.get("instances") or ():
            since = _seconds(instance.get("since"))
            if instance["state"] == "held" and now is not None and since is not None:
                key = service["namespace"], instance["engine_role"]
                longest[key] = max(longest.get(key, 0), now - since)
    yield from longest.items()


def _seconds(time: object) -> float | None:
    """A time of the report as seconds of the epoch; None when it is not known."""
    try:
        return datetime.fromisoformat(str(time)).timestamp() if time else None
    except ValueError:
        return None


def _tasks(report: Report) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """The inference tasks, those with trouble first, as far as their number is bounded."""
    for service in _services(report):
        tasks = sorted(service.get("tasks") or (), key=lambda task: (not task.get("crashes"), bool(task.get("readable"))))
        for task in tasks[:MOST_TASKS]:
            yield (str(service["namespace"]), str(task["rule"]), str(task["task"])), task


def _tier(report: Report, dummy: Counters) -> Iterator[Sample]:
    for key, task in _tasks(report):
        if task.get("readable") and task.get("tiers") and "tier_now" in task:
            yield key, len(task["tiers"]) if task["tier_now"] is None else task["tier_now"]


def _possible(report: Report, dummy: Counters) -> Iterator[Sample]:
    """Nothing, not even the smallest one, is only said when servers are known and nothing runs; otherwise it is not known."""
    for key, task in _tasks(report):
        if task.get("readable") and task.get("tiers") and "tier_possible" in task:
            if task["tier_possible"] is not None:
                yield key, task["tier_possible"]
            elif task.get("tier_now") is None and report.get("servers"):
                yield key, len(task["tiers"])


def _tiers(report: Report, dummy: Counters) -> Iterator[Sample]:
    yield from ((key, len(task["tiers"])) for key, task in _tasks(report) if task.get("readable") and task.get("tiers"))


def _task_flag(name: str) -> Callable[[Report, Counters], Iterator[Sample]]:
    def samples(report: Report, dummy: Counters) -> Iterator[Sample]:
        yield from ((key, bool(task[name])) for key, task in _tasks(report) if name in task)

    return samples


def _task_count(report: Report, dummy: Counters) -> Iterator[Sample]:
    yield from (((service["namespace"],), len(service["tasks"])) for service in _services(report) if service.get("tasks"))


def _findings(report: Report, dummy: Counters) -> Iterator[Sample]:
    for key, task in _tasks(report):
        counted = Counter(finding["severity"] for finding in task.get("findings") or ())
        yield from (((*key, severity), counted[severity]) for severity in SEVERITIES)


def _npus(report: Report, dummy: Counters) -> Iterator[Sample]:
    """Each NPU once: what is neither used, reserved nor free is not healthy, or on a server that takes no pods."""
    for server in _servers(report):
        taken = {state: server[state] for state in ("used", "reserved", "free")}
        left = max(0, server["npus"] - sum(taken.values()))
        sick = min(left, server["npus"] - server["healthy"])
        yield from (((state,), number) for state, number in {**taken, "unhealthy": sick, "closed": left - sick}.items())


def _healthy(report: Report, dummy: Counters) -> Iterator[Sample]:
    yield from (((), server["healthy"]) for server in _servers(report))


def _server_states(report: Report, dummy: Counters) -> Iterator[Sample]:
    servers = list(_servers(report))
    if servers:
        yield from (((state,), 0) for state in ("ready", "cordoned", "not_ready"))
    for server in servers:
        yield ("not_ready" if not server["ready"] else "cordoned" if server["cordoned"] else "ready",), 1


def _stuck(report: Report, dummy: Counters) -> Iterator[Sample]:
    yield from (((str(service["namespace"]),), 0) for service in _services(report))
    for server in _servers(report):
        if not server["ready"]:
            yield from (((pod["namespace"],), 1) for pod in server.get("pods") or () if pod["state"] == "terminating")


def _repairs(dummy: Report, counters: Counters) -> Iterator[Sample]:
    yield from (((act, outcome), counters.repairs[act, outcome]) for act in ACTS for outcome in OUTCOMES)


def _watch(name: str, read: Callable[[Any], float | None] = float) -> Callable[[Report, Counters], Iterator[Sample]]:
    def samples(report: Report, dummy: Counters) -> Iterator[Sample]:
        for watch in report.get("watches") or ():
            number = read(watch[name]) if watch.get(name) is not None else None
            if number is not None:
                yield (str(watch["kind"]), str(watch.get("namespace") or "")), number

    return samples


DECISIONS, DECISIONS_HELP = "motor_watcher_decision_seconds", "How long a decision took, from the event to the plan."
_ROLE, _TASK, _KIND, _SELF = (
    ("namespace", "engine_role"),
    ("namespace", "rule", "task"),
    ("kind", "namespace"),
    ("program_namespace", "program"),
)
_NOT_EVEN = "0 is full size; as many as there are tiers: not even the smallest."
FAMILIES = (
    Family("motor_watcher_build_info", "gauge", "Always 1; the version of the watcher.", ("version",), _build),
    Family("motor_watcher_leader", "gauge", "Whether this replica is the one that acts.", _SELF, _flag("leading")),
    Family("motor_watcher_synced", "gauge", "Whether all caches are filled.", _SELF, _flag("synced")),
    Family("motor_watcher_enabled", "gauge", "Whether an act is switched on.", ("act",), _enabled),
    Family("motor_watcher_services", "gauge", "Services, by what is known of their last change.", ("backend", "standing"), _standing),
    Family("motor_watcher_instances", "gauge", "Engine instances by state.", (*_ROLE, "state"), _instances),
    Family("motor_watcher_baseline_instances", "gauge", "Engine instances that the baseline asks for.", _ROLE, _baseline),
    Family("motor_watcher_control_pods_ready", "gauge", "Ready pods of controller and coordinator.", ("namespace", "component"), _control),
    Family("motor_watcher_hold", "gauge", "Whether the service is exempt from repairs by its annotation.", ("namespace",), _on_hold),
    Family("motor_watcher_held_seconds", "gauge", "How long the instance that is held longest has been held.", _ROLE, _held),
    Family("motor_watcher_tier", "gauge", f"Best tier of which all instances run; {_NOT_EVEN}", _TASK, _tier),
    Family("motor_watcher_tier_possible", "gauge", f"Best tier that healthy servers can hold; {_NOT_EVEN}", _TASK, _possible),
    Family("motor_watcher_tiers", "gauge", "Tiers of the scaling rule.", _TASK, _tiers),
    Family("motor_watcher_tasks", "gauge", f"Inference tasks; of more than {MOST_TASKS} not all are told of.", ("namespace",), _task_count),
    Family("motor_watcher_rule_readable", "gauge", "Whether the operator can read the scaling rule.", _TASK, _task_flag("readable")),
    Family("motor_watcher_rule_would_crash_operator", "gauge", "Whether rule and jobs can crash it.", _TASK, _task_flag("crashes")),
    Family("motor_watcher_rule_findings", "gauge", "What is wrong with the live scaling rule.", (*_TASK, "severity"), _findings),
    Family(
        "motor_watcher_npus",
        "gauge",
        "NPUs of all servers, each once; closed ones are free on servers that take no pods.",
        ("state",),
        _npus,
    ),
    Family("motor_watcher_healthy_npus", "gauge", "NPUs that are healthy, whether used or not.", (), _healthy),
    Family("motor_watcher_servers", "gauge", "Servers with NPUs.", ("state",), _server_states),
    Family("motor_watcher_stuck_pods", "gauge", "Terminating pods on servers that are not Ready.", ("namespace",), _stuck),
    Family("motor_watcher_repairs_total", "counter", "Repairs of this replica.", ("act", "outcome"), _repairs),
    Family("motor_watcher_watch_synced", "gauge", "Whether the watch has its first list.", _KIND, _watch("synced")),
    Family("motor_watcher_watch_restarts_total", "counter", "How often the watch began anew.", _KIND, _watch("restarts")),
    Family("motor_watcher_watch_relists_total", "counter", "How often everything was listed.", _KIND, _watch("relists")),
    Family("motor_watcher_watch_relist_seconds", "gauge", "How long the last list took.", _KIND, _watch("relist_seconds")),
    Family("motor_watcher_watch_silent_seconds", "gauge", "How long nothing was heard.", _KIND, _watch("silent_seconds")),
    Family("motor_watcher_watch_failing", "gauge", "Whether the last request of the watch failed.", _KIND, _watch("error", bool)),
    Family("motor_watcher_watch_objects", "gauge", "Objects in the cache.", _KIND, _watch("objects")),
)
