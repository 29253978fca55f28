# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What one pod tells: ready, leaving, why it does not run, how many NPUs it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

NPU_RESOURCES = ("huawei.com/Ascend910", "huawei.com/npu")
_LETTERS = {"k": 1000, "Ki": 1024, "M": 1000**2, "Mi": 1024**2, "G": 1000**3, "Gi": 1024**3}
FAILED_WAITING = frozenset(
    {
        "CrashLoopBackOff",
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
    }
)


# What keeps a pod from running and does not end by itself.
IMAGE, CONFIG, CRASH, FAILED, UNSCHEDULABLE = "image", "config", "crash", "failed", "unschedulable"
# A first failed attempt to pull (ErrImagePull) may pass; kubelet backs off only after it has failed.
_LASTING = {
    "ImagePullBackOff": IMAGE,
    "InvalidImageName": IMAGE,
    "ErrImageNeverPull": IMAGE,
    "CreateContainerConfigError": CONFIG,
}
# One or two ends are usual while what the container connects to is still coming up, and kubelet says CrashLoopBackOff from
# the first one on. The third restart comes after half a minute of back-off.
CRASH_RESTARTS = 3
# Volcano says so of a pod that would have a place, were there one for each pod of its group: it is the others that lack one.
_HAS_PLACE = "Schedulable"


@dataclass(frozen=True)
class Trouble:
    """Why a pod does not run: `state` is `failed` or `pending`. `lasting` is the kind of what does not end by itself, else ""."""

    state: str
    reason: str
    lasting: str = ""


def is_leaving(pod: Mapping[str, Any]) -> bool:
    """True when the pod was told to stop."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def is_ready(pod: Mapping[str, Any]) -> bool:
    """True when the Ready condition is True."""
    condition = _condition(pod, "Ready")
    return condition is not None and condition.get("status") == "True"


def is_over(pod: Mapping[str, Any]) -> bool:
    """True when all its containers have ended for good, so that its NPUs are free though the pod is there."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def has_started(pod: Mapping[str, Any]) -> bool:
    """True when its containers run, ready or not."""
    return (pod.get("status") or {}).get("phase") == "Running"


def template_hash(pod: Mapping[str, Any]) -> str:
    """Which pod template of its Deployment it was made from."""
    return str((pod["metadata"].get("labels") or {}).get("pod-template-hash", ""))


def ready_since(pod: Mapping[str, Any]) -> str:
    """When readiness last changed (RFC 3339), or the pod's creation."""
    condition = _condition(pod, "Ready") or {}
    return str(condition.get("lastTransitionTime") or pod["metadata"].get("creationTimestamp") or "")


def told_to_stop(pod: Mapping[str, Any]) -> str:
    """When the pod was told to stop (RFC 3339); its deletionTimestamp is the time by which it has to be gone. "" when it was not."""
    gone_by = str(pod["metadata"].get("deletionTimestamp") or "")
    grace = pod["metadata"].get("deletionGracePeriodSeconds")
    if not gone_by or not grace:
        return gone_by
    try:
        told = datetime.fromisoformat(gone_by) - timedelta(seconds=int(grace))
    except ValueError:
        return gone_by
    return told.isoformat().replace("+00:00", "Z")


def npus(pod: Mapping[str, Any]) -> int:
    """NPUs that all containers of the pod ask for."""
    total = 0
    for container in pod["spec"].get("containers") or ():
        requests = (container.get("resources") or {}).get("requests") or {}
        total += npus_of(requests)
    return total


def npus_of(resources: Mapping[str, Any]) -> int:
    """NPUs among quantities. Thousands of them, which the API server writes with a letter, are more than there are anywhere."""
    return sum(_number(resources.get(resource, 0)) for resource in NPU_RESOURCES)


def _number(quantity: Any) -> int:
    """A quantity of whole things; 0 for what is none."""
    text = str(quantity)
    letters = text.lstrip("0123456789")
    digits = text[: len(text) - len(letters)]
    return int(digits) * (_LETTERS.get(letters, 0) if letters else 1) if 0 < len(digits) < 20 else 0


def trouble(pod: Mapping[str, Any]) -> Trouble | None:
    """Why the pod does not run, or None when it runs or is just starting."""
    status = pod.get("status") or {}
    name = pod["metadata"]["name"]
    if status.get("phase") == "Failed":
        lasting = "" if _is_replaced(pod) else FAILED
        return Trouble("failed", f"pod {name}: {status.get('reason') or _exit(status) or 'Failed'}", lasting)
    stuck = [found for found in (_stuck(name, container) for container in _containers(status)) if found]
    if stuck:
        return min(stuck, key=lambda found: not found.lasting)
    scheduled = _condition(pod, "PodScheduled") or {}
    if scheduled.get("status") == "False" and scheduled.get("reason") != _HAS_PLACE:
        reason = f"pod {name}: {scheduled.get('reason', 'Unschedulable')}: {scheduled.get('message', '')}".rstrip(": ")
        return Trouble("pending", reason, UNSCHEDULABLE)
    return None


def is_starting_up(pod: Mapping[str, Any]) -> bool:
    """True while a container runs whose startup probe still gives it time: kubelet itself will end that state."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return any((item.get("state") or {}).get("running") is not None and item.get("started") is False for item in statuses)


def _containers(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _stuck(name: str, container: Mapping[str, Any]) -> Trouble | None:
    """Why one container waits, when it is not for its turn."""
    waiting = (container.get("state") or {}).get("waiting") or {}
    reason = waiting.get("reason")
    if reason not in FAILED_WAITING:
        return None
    detail = f": {waiting['message']}" if waiting.get("message") else ""
    restarts = int(container.get("restartCount") or 0)
    crashing = reason == "CrashLoopBackOff" and restarts >= CRASH_RESTARTS
    count = f" after {restarts} restarts" if crashing else ""
    return Trouble("failed", f"pod {name}: {reason}{count}{detail}", CRASH if crashing else _LASTING.get(reason, ""))


def _is_replaced(pod: Mapping[str, Any]) -> bool:
    """A controller makes a new pod in place of one of its own that has failed."""
    return any(owner.get("controller") for owner in pod["metadata"].get("ownerReferences") or ())


def node_of(pod: Mapping[str, Any]) -> str:
    """The node that the pod was scheduled to, or ""."""
    return str(pod["spec"].get("nodeName") or "")


def lost(pod: Mapping[str, Any], nodes: Mapping[str, Mapping[str, Any] | None]) -> Trouble | None:
    """A scheduled pod whose node is gone or not Ready. `nodes` has those that were read, None for gone ones."""
    name = node_of(pod)
    if name not in nodes:
        return None
    node = nodes[name]
    # Nobody but the kubelet of the node can end a pod, and its job makes no other one as long as it is there.
    hangs = " hangs while it is stopped" if is_leaving(pod) else ""
    if node is None:
        return Trouble("failed", f"pod {pod['metadata']['name']}{hangs}: node {name} is gone")
    if node_is_ready(node):
        return None
    since = node_since(node)
    return Trouble("failed", f"pod {pod['metadata']['name']}{hangs}: node {name} is not Ready" + (f" since {since}" if since else ""))


def node_is_ready(node: Mapping[str, Any]) -> bool:
    """True when the Ready condition of a node is True; it is Unknown when the node is not heard of."""
    return (_condition(node, "Ready") or {}).get("status") == "True"


def node_since(node: Mapping[str, Any]) -> str:
    """When the readiness of a node last changed (RFC 3339), "" when nothing says so."""
    return str((_condition(node, "Ready") or {}).get("lastTransitionTime") or "")


def crashes(pod: Mapping[str, Any], least: int = CRASH_RESTARTS) -> str:
    """Why a pod that runs just now is one that crashes again and again (`least` times), or ""."""
    for container in () if is_ready(pod) else _containers(pod.get("status") or {}):
        restarts = int(container.get("restartCount") or 0)
        ended = (container.get("lastState") or {}).get("terminated") or {}
        if restarts >= least and ended.get("exitCode"):
            times = "a restart" if restarts == 1 else f"{restarts} restarts, the last"
            return f"pod {pod['metadata']['name']}: not ready after {times} with exit code {ended['exitCode']}"
    return ""


def _exit(status: Mapping[str, Any]) -> str:
    for container in status.get("containerStatuses") or ():
        terminated = (container.get("state") or {}).get("terminated") or {}
        if terminated:
            return f"{terminated.get('reason', 'Error')} (exit code {terminated.get('exitCode')})"
    return ""


def _condition(pod: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == kind), None)
