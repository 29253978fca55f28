# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How fake nodes and pods live: kwok stages, steered by annotations of pods.

| annotation | what the pod does |
|---|---|
| `fake/ready-after: 4s` | becomes Ready after that time |
| `fake/never-ready: "true"` | runs, never Ready (a live pod loses readiness) |
| `fake/fail: "3"` | ends in phase Failed with this exit code |
| `fake/image-pull-error: "true"` | stays in ImagePullBackOff |
| `fake/crash-loop: "1"` | ends with this exit code again and again |
| `fake/stop-after: 5s` | takes that long to stop |
"""

from __future__ import annotations

from typing import Any

import yaml

_READY = '.status.conditions.[] | select( .type == "Ready" ) | .status'
_RUNNING = ".status.containerStatuses.[].state.running.startedAt"
_WAITING = ".status.containerStatuses.[].state.waiting.reason"
_PHASE = ".status.phase"

_UNREADY = """
  {type: "Initialized", status: "True", reason: "", message: "", lastTransitionTime: {{ $t | Quote }}},
  {type: "ContainersReady", status: "False", reason: "REASON", message: "containers with unready status", lastTransitionTime: {{ $t | Quote }}},
  {type: "Ready", status: "False", reason: "REASON", message: "containers with unready status", lastTransitionTime: {{ $t | Quote }}},
"""
_ALL_READY = """
  {{ range $c := list "Initialized" "ContainersReady" "Ready" }}
  {type: {{ $c }}, status: "True", reason: "", message: "", lastTransitionTime: {{ $t | Quote }}},
  {{ end }}
"""
_ADDRESSES = """
hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
podIP: {{ PodIPWith .spec.nodeName ( or .spec.hostNetwork false ) ( or .metadata.uid "" ) ( or .metadata.name "" ) ( or .metadata.namespace "" ) | Quote }}
startTime: {{ $t | Quote }}
"""
_KEPT = "{{ ( index $.status.containerStatuses $i ).restartCount }}"
_ONE_MORE = "{{ add ( index $.status.containerStatuses $i ).restartCount 1 }}"
_LAST = "{{ ( index $.status.containerStatuses $i ).lastState | toJson }}"


def documents() -> str:
    """All stages as one YAML stream."""
    stages = [*_node_stages(), *_pod_stages()]
    return yaml.safe_dump_all(stages, sort_keys=False, width=1000)


def _conditions(text: str) -> str:
    return f"conditions: [{text}]\n"


def _containers(ready: bool, started: bool, restarts: str, state: str, last: str = "") -> str:
    last_state = f"lastState: {last}, " if last else ""
    return (
        "containerStatuses: [ {{ range $i, $c := .spec.containers }} "
        '{name: {{ $c.name | Quote }}, image: {{ $c.image | Quote }}, imageID: "", '
        f"ready: {str(ready).lower()}, started: {str(started).lower()}, restartCount: {restarts}, {last_state}state: {{{state}}}}}, {{{{ end }}}} ]\n"
    )


def _stage(name: str, kind: str, expressions: list[dict[str, Any]], status: str, **spec: Any) -> dict[str, Any]:
    body: dict[str, Any] = {
        "resourceRef": {"apiGroup": "v1", "kind": kind},
        "selector": {"matchExpressions": expressions},
        "next": {"statusTemplate": "{{ $t := Now }}\n" + status},
    }
    body["next"].update(spec.pop("next", {}))
    body.update(spec)
    return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": name}, "spec": body}


def _ended(annotation: str) -> str:
    code = f'{{{{ index $.metadata.annotations "fake/{annotation}" }}}}'
    return f"terminated: {{exitCode: {code}, reason: Error, startedAt: {{{{ $t | Quote }}}}, finishedAt: {{{{ $t | Quote }}}}}}"


def _is(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


def _is_not(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "NotIn", "values": list(values)}


def _has(key: str) -> dict[str, Any]:
    return {"key": key, "operator": "Exists"}


def _lacks(key: str) -> dict[str, Any]:
    return {"key": key, "operator": "DoesNotExist"}


def _note(name: str) -> str:
    return f'.metadata.annotations["fake/{name}"]'


_STAYS = _lacks(".metadata.deletionTimestamp")


def _node_stages() -> list[dict[str, Any]]:
    heartbeat = "lastHeartbeatTime: {{ $t | Quote }}, lastTransitionTime: {{ $t | Quote }}"
    listed = (
        "conditions: [ {{ range NodeConditions }} {type: {{ .type | Quote }}, status: {{ .status | Quote }}, reason: {{ .reason | Quote }}, "
        f"message: {{{{ .message | Quote }}}}, {heartbeat}}}, {{{{ end }}}} ]\n"
    )
    down = f'conditions: [ {{type: Ready, status: "False", reason: KubeletNotReady, message: "made so by a test", {heartbeat}}} ]\n'
    return [
        _stage("node-ready", "Node", [_is_not(_READY, "True"), _lacks('.metadata.labels["fake/down"]')], "phase: Running\n" + listed),
        _stage("node-not-ready", "Node", [_is(_READY, "True"), _has('.metadata.labels["fake/down"]')], down),
    ]


def _pod_stages() -> list[dict[str, Any]]:
    running = "running: {startedAt: {{ $t | Quote }}}"
    unready = _conditions(_UNREADY.replace("REASON", "ContainersNotReady"))
    pulling = 'waiting: {reason: ImagePullBackOff, message: {{ printf "Back-off pulling image %q" $c.image | Quote }}}'
    crash = "waiting: {reason: CrashLoopBackOff, message: back-off restarting failed container}"
    crashed, failed = "{" + _ended("crash-loop") + "}", _ended("fail")
    back_off = {"event": {"type": "Warning", "reason": "BackOff", "message": "Back-off restarting failed container"}}
    return [
        _stage(
            "pod-run",
            "Pod",
            [_STAYS, _is(_PHASE, "Pending"), _has(".spec.nodeName"), _lacks(_note("image-pull-error"))],
            "phase: Running\n" + unready + _containers(False, True, "0", running) + _ADDRESSES,
        ),
        _stage(
            "pod-ready",
            "Pod",
            [_STAYS, _is(_PHASE, "Running"), _is_not(_READY, "True"), *(_lacks(_note(n)) for n in ("never-ready", "crash-loop", "fail"))],
            _conditions(_ALL_READY) + _containers(True, True, _KEPT, running),
            delay={"durationMilliseconds": 0, "durationFrom": {"expressionFrom": _note("ready-after")}},
        ),
        _stage(
            "pod-unready",
            "Pod",
            [_STAYS, _is(_PHASE, "Running"), _is(_READY, "True"), _has(_note("never-ready"))],
            unready + _containers(False, True, _KEPT, running),
        ),
        _stage(
            "pod-image-pull-error",
            "Pod",
            [_STAYS, _is(_PHASE, "Pending"), _has(".spec.nodeName"), _has(_note("image-pull-error")), _lacks(_WAITING)],
            "phase: Pending\n" + unready + _containers(False, False, "0", pulling) + _ADDRESSES,
        ),
        _stage(
            "pod-crash",
            "Pod",
            [_STAYS, _is(_PHASE, "Running"), _has(_note("crash-loop")), _has(_RUNNING)],
            unready + _containers(False, False, _ONE_MORE, crash, crashed),
            delay={"durationMilliseconds": 1000},
            next=back_off,
        ),
        _stage(
            "pod-crash-restart",
            "Pod",
            [_STAYS, _is(_PHASE, "Running"), _is(_WAITING, "CrashLoopBackOff")],
            _containers(False, True, _KEPT, running, _LAST),
            delay={"durationMilliseconds": 2000},
        ),
        _stage(
            "pod-fail",
            "Pod",
            [_STAYS, _is(_PHASE, "Running"), _has(_note("fail"))],
            "phase: Failed\n" + _conditions(_UNREADY.replace("REASON", "PodFailed")) + _containers(False, False, "0", failed),
        ),
        {
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": "Stage",
            "metadata": {"name": "pod-stop"},
            "spec": {
                "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
                "selector": {"matchExpressions": [_has(".metadata.deletionTimestamp")]},
                "delay": {"durationMilliseconds": 0, "durationFrom": {"expressionFrom": _note("stop-after")}},
                "next": {"delete": True},
            },
        },
    ]
