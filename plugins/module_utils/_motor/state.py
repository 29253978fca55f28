# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a service is, seen from one snapshot of the cluster: its instances, control pods, baseline and owners of counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from . import job_facts
from . import owners as count_owners
from . import pods as pod_facts
from .instances import BASE_NAMES, ENGINE_ROLES, INFER_SERVICE_SET_NAME, parse_instance_name
from .ownership import CONTROL_APP, JOB_APP, JOB_APPS
from .record import intent_of, standing
from .siblings import is_engine
from .snapshot import ANY_BACKEND, Build, Object, Snapshot
from .workloads import JOB_LABEL, pod_count, total_npus

__all__ = ["ANY_BACKEND", "Build", "Object", "Snapshot"]

INFER_LABEL = "infer.huawei.com/"
NAME_PREFIX = "mindie-motor-"


@dataclass(frozen=True)
class Instance:
    """One engine instance. `since` is the time (RFC 3339) of the last change of its pods' readiness, or else when its workload was made
    or deleted. `npus` is the total of its pods, of those that are still to come, too.
    """

    engine_role: str
    index: int
    name: str
    state: str
    reason: str = ""
    since: str = ""
    pods: int = 0
    pods_ready: int = 0
    nodes: tuple[str, ...] = ()
    npus: int = 0
    altered: bool = False

    def order(self) -> tuple[int, int]:
        """The key by which instances are sorted."""
        return ENGINE_ROLES.index(self.engine_role), self.index

    def to_dict(self) -> dict[str, Any]:
        """Plain data for results."""
        return {**self.__dict__, "nodes": list(self.nodes)}


@dataclass(frozen=True)
class Wish:
    """What the workload of an instance asks for: its pods and their NPUs. `since` is the time (RFC 3339) it was made or deleted at."""

    pods: int
    npus: int = 0
    since: str = ""


@dataclass(frozen=True)
class ControlRole:
    """Controller or coordinator: it works when at least one of its pods is ready (a standby pod never is)."""

    name: str
    pods: int
    pods_ready: int
    reason: str = ""
    nodes: tuple[str, ...] = ()
    since: str = ""


@dataclass(frozen=True)
class ServiceState:
    """Everything that plans and reports need to know of a service."""

    namespace: str
    backend: str
    standing: str
    instances: tuple[Instance, ...]
    control: tuple[ControlRole, ...]
    intent: Mapping[str, Any] | None
    owners: Mapping[str, count_owners.Owner]

    def live(self, engine_role: str) -> tuple[Instance, ...]:
        """Instances of an engine role that exist and are to stay, by index."""
        return tuple(i for i in self.instances if i.engine_role == engine_role and i.state not in ("terminating", "foreign", "missing"))

    def counts(self) -> dict[str, int]:
        """Live instances per engine role, engine roles without any left out."""
        found = {role: len(self.live(role)) for role in ENGINE_ROLES}
        return {role: count for role, count in found.items() if count}

    def to_dict(self) -> dict[str, Any]:
        """Plain data for results."""
        return {
            "namespace": self.namespace,
            "backend": self.backend,
            "standing": self.standing,
            "counts": self.counts(),
            "owners": {role: str(owner) for role, owner in self.owners.items()},
            "instances": [instance.to_dict() for instance in self.instances],
            "control": [{**role.__dict__, "nodes": list(role.nodes)} for role in self.control],
        }

    def leaving(self) -> tuple[Instance, ...]:
        """Instances whose pods or workloads are still being removed."""
        return tuple(i for i in self.instances if i.state == "terminating")


def service_state(snapshot: Snapshot) -> ServiceState:
    """Derive the state of the service from a snapshot."""
    make = _MAKERS.get(snapshot.backend, _from_deployments)
    return ServiceState(
        namespace=snapshot.namespace,
        backend=snapshot.backend,
        standing=standing(snapshot.config_map),
        instances=tuple(sorted(make(snapshot), key=Instance.order)),
        control=tuple(_control(snapshot, role, app) for role, app in control_apps(snapshot).items()),
        intent=intent_of(snapshot.lease),
        owners=count_owners.find(_autoscalers(snapshot), infer_roles(snapshot), snapshot.base_name),
    )


def _from_deployments(snapshot: Snapshot) -> Iterable[Instance]:
    by_app: dict[str, list[Object]] = defaultdict(list)
    for pod in snapshot.pods:
        by_app[_labels(pod).get("app", "")].append(pod)
    seen = set()
    for deployment in snapshot.deployments:
        name = deployment["metadata"]["name"]
        parsed = parse_instance_name(name, snapshot.base_name)
        if parsed:
            seen.add(name)
            yield _deployment_instance(snapshot, deployment, parsed, by_app.get(name, []))
    for app, pods in by_app.items():
        parsed = parse_instance_name(app, snapshot.base_name)
        if parsed and app not in seen and any(pod_facts.is_leaving(pod) or _collected(pod) for pod in pods):
            yield _instance(snapshot, *parsed, app, pods, Wish(len(pods)), leaving=True)


def _deployment_instance(snapshot: Snapshot, deployment: Object, parsed: tuple[str, int], pods: list[Object]) -> Instance:
    name = deployment["metadata"]["name"]
    if not is_engine(deployment):
        return Instance(*parsed, name, "foreign", reason="its selector is not that of an engine instance")
    metadata = deployment["metadata"]
    gone_by = metadata.get("deletionTimestamp")
    wish = Wish(pod_count(deployment), total_npus(deployment), str(gone_by or metadata.get("creationTimestamp") or ""))
    return _instance(snapshot, *parsed, name, pods, wish, leaving=bool(gone_by))


def _from_instance_sets(snapshot: Snapshot) -> Iterable[Instance]:
    wishes: dict[str, Wish] = {}
    counts: dict[str, int] = {}
    for role in infer_roles(snapshot):
        if role["name"] in ENGINE_ROLES:
            counts[role["name"]] = _replicas(snapshot, role)
            wishes[role["name"]] = _role_wish(role)
    by_instance = instance_pods(snapshot)
    expected = {(role, index) for role, count in counts.items() for index in range(count)}
    for role, index in expected | set(by_instance):
        pods = by_instance.get((role, index), [])
        name = f"{INFER_SERVICE_SET_NAME}-0-{role}-{index}"
        yield _instance(snapshot, role, index, name, pods, wishes.get(role, Wish(len(pods))), leaving=(role, index) not in expected)


def _role_wish(role: Object) -> Wish:
    """What a role of an InferServiceSet asks for one instance."""
    spec = role.get("spec") or {}
    pods, template = int(spec.get("replicas", 1)), spec.get("template") or {}
    return Wish(pods, pods * pod_facts.npus(template) if template.get("spec") else 0)


def _from_jobs(snapshot: Snapshot) -> Iterable[Instance]:
    census = job_facts.Census(snapshot.pod_groups, snapshot.rule_named)
    for fact in job_facts.facts(snapshot.jobs, census, snapshot.pods):
        parsed = parse_instance_name(fact.name, snapshot.base_name)
        if parsed:
            wish = Wish(fact.wanted, total_npus(fact.job) if fact.job else 0, fact.since)
            yield _instance(snapshot, *parsed, fact.name, list(fact.pods), wish, leaving=fact.leaving, verdict=fact.verdict)


_MAKERS = {"infer_service_set": _from_instance_sets, job_facts.BACKEND: _from_jobs}


def instance_pods(snapshot: Snapshot) -> dict[tuple[str, int], list[Object]]:
    """Pods of the instances of an InferServiceSet, by engine role and index."""
    found: dict[tuple[str, int], list[Object]] = defaultdict(list)
    for pod in snapshot.pods:
        key = _infer_instance(pod)
        if key:
            found[key].append(pod)
    return found


def _infer_instance(pod: Object) -> tuple[str, int] | None:
    labels = _labels(pod)
    role, index = labels.get(f"{INFER_LABEL}instanceset-name"), labels.get(f"{INFER_LABEL}instanceset-index", "")
    return (role, int(index)) if role in ENGINE_ROLES and index.isdigit() else None


def _instance(
    snapshot: Snapshot,
    engine_role: str,
    index: int,
    name: str,
    pods: list[Object],
    wish: Wish,
    *,
    leaving: bool,
    verdict: tuple[str, str] | None = None,
) -> Instance:
    pods = sorted(pods, key=_name)  # whatever the order they are heard of in
    staying = [pod for pod in pods if not pod_facts.is_leaving(pod)]
    shown = pods if leaving else staying
    ready = sum(pod_facts.is_ready(pod) for pod in staying)
    state, reason = ("terminating", _still_there(snapshot, pods)) if leaving else verdict or _verdict(snapshot, pods, ready, wish.pods)
    return Instance(
        engine_role=engine_role,
        index=index,
        name=name,
        state=state,
        reason=reason,
        since=_since(shown, wish.since, leaving=leaving, told=verdict is not None),
        pods=max(wish.pods, len(shown)),
        pods_ready=ready,
        nodes=tuple(sorted({pod["spec"]["nodeName"] for pod in shown if pod["spec"].get("nodeName")})),
        npus=max(wish.npus, sum(pod_facts.npus(pod) for pod in shown)),
    )


def _still_there(snapshot: Snapshot, pods: list[Object]) -> str:
    """What is left of an instance that goes, and on which dead servers it hangs."""
    hanging = dict.fromkeys(trouble.reason for trouble in (pod_facts.lost(pod, snapshot.nodes) for pod in pods) if trouble)
    return "; ".join((f"{len(pods)} pods left", *hanging))


def _since(pods: list[Object], otherwise: str, *, leaving: bool, told: bool) -> str:
    """Since when an instance is what it is: as its workload says when pods do not tell, else the last change of a pod's readiness."""
    if leaving:
        return otherwise or min((pod_facts.told_to_stop(pod) or pod_facts.ready_since(pod) for pod in pods), default="")
    last = max(map(pod_facts.ready_since, pods), default="")
    return max(last, otherwise) if told else last or otherwise


def _verdict(snapshot: Snapshot, pods: list[Object], ready: int, wanted: int) -> tuple[str, str]:
    if ready >= wanted:
        return "running", ""
    staying = (pod_facts.trouble(pod) for pod in pods if not pod_facts.is_leaving(pod))
    lost = (pod_facts.lost(pod, snapshot.nodes) for pod in pods)
    troubles = [trouble for trouble in (*staying, *lost) if trouble]
    if troubles:
        worst = min(troubles, key=lambda trouble: trouble.state != "failed")
        return worst.state, worst.reason
    stopping = sum(map(pod_facts.is_leaving, pods))
    words = f"{ready} of {wanted} pods ready" + (f", {stopping} still stopping" if stopping else "")
    return "starting", "; ".join((words, *_restarted(pods)))


def _restarted(pods: list[Object]) -> tuple[str, ...]:
    """Of a pod that ends and starts again in turn, what is seen depends on the moment: when it runs just now, tell that it has ended."""
    found = sorted(why for pod in pods if not pod_facts.is_leaving(pod) and (why := pod_facts.crashes(pod, least=1)))
    return tuple(found[:1])


def control_apps(snapshot: Snapshot) -> Mapping[str, str]:
    """Control roles and the `app` label of their pods; in single_container one pod is everything."""
    if snapshot.backend == job_facts.BACKEND:
        return JOB_APP
    single = f"{snapshot.namespace}-single-container"
    names = {deployment["metadata"]["name"] for deployment in snapshot.deployments}
    return {"single_container": single} if single in names else CONTROL_APP


def _control(snapshot: Snapshot, role: str, app: str) -> ControlRole:
    pods = sorted((pod for pod in snapshot.pods if _labels(pod).get("app") == app and not pod_facts.is_leaving(pod)), key=_name)
    ready = [pod for pod in pods if pod_facts.is_ready(pod)]
    troubles = [trouble.reason for trouble in map(pod_facts.trouble, pods) if trouble]
    reason = "" if ready else next(iter((*troubles, *_restarted(pods))), "no pod yet" if not pods else "its pods are not ready")
    nodes = tuple(sorted({pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}))
    since = max((pod_facts.ready_since(pod) for pod in ready), default="")
    return ControlRole(role, len(pods), len(ready), reason, nodes, since)


def _autoscalers(snapshot: Snapshot) -> list[Object]:
    """Without those whose Deployment or InferServiceSet is gone: they own nothing until it comes back."""
    names = {deployment["metadata"]["name"] for deployment in snapshot.deployments}
    if snapshot.backend == "infer_service_set" and not infer_roles(snapshot):
        return []
    unseen = snapshot.backend == "infer_service_set"  # its instances may be Deployments, which are not read
    targets = ((scaler, *count_owners.target_of(scaler)) for scaler in snapshot.autoscalers)
    return [scaler for scaler, kind, name in targets if unseen or kind != "Deployment" or name in names]


def _replicas(snapshot: Snapshot, role: Object) -> int:
    """How many instances of a role there are to be. With a scaling policy the Infer Operator ignores `roles[].replicas`
    and keeps what the autoscaler sets on the InstanceSet.
    """
    instance_set = instance_set_of(snapshot, role["name"]) if count_owners.has_policy(role) else None
    return int((instance_set["spec"] if instance_set else role).get("replicas") or 0)


def instance_set_of(snapshot: Snapshot, engine_role: str) -> Object | None:
    """The InstanceSet of an engine role, or None when it is not there."""
    label = f"{INFER_LABEL}instanceset-name"
    return next((found for found in snapshot.instance_sets if _labels(found).get(label) == engine_role), None)


def infer_roles(snapshot: Snapshot) -> list[Any]:
    """The roles of the InferServiceSet, those of control pods included; none when it is being deleted."""
    found = snapshot.infer_service_set
    spec = (found.get("spec") or {}) if found and not is_deleted(found) else {}
    return list((spec.get("template") or {}).get("roles") or ())


def deleted_workloads(snapshot: Snapshot) -> tuple[Object, ...]:
    """Our own workloads, or the InferServiceSet, that are there only until their pods are gone."""
    found = [*snapshot.own_workloads, *([snapshot.infer_service_set] if snapshot.infer_service_set else [])]
    return tuple(obj for obj in found if is_deleted(obj))


def is_deleted(obj: Object) -> bool:
    """True for an object that was deleted and is there only until what it owns is gone."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def _labels(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}


def settled_backend(snapshot: Snapshot) -> Snapshot:
    """Where `motor-config` does not say how the service is made, its workloads do."""
    if snapshot.backend != ANY_BACKEND:
        return snapshot
    if snapshot.infer_service_set is not None:
        return replace(snapshot, backend="infer_service_set")
    base_name = snapshot.settings.name_prefix
    if any(parse_instance_name(job["metadata"]["name"], base_name) for job in snapshot.jobs):
        return replace(snapshot, backend=job_facts.BACKEND, base_name=base_name)
    return snapshot


def doubtful_nodes(snapshot: Snapshot) -> tuple[str, ...]:
    """Nodes that may be the reason why an instance that stays does not run: those that have to be looked at.

    Its leaving pods count, too: on a dead node they never end, and may keep their successor from being made.
    """
    snapshot = settled_backend(snapshot)
    unwell = {(i.engine_role, i.index) for i in service_state(snapshot).instances if i.state not in ("running", "terminating", "foreign")}
    pods = (pod for pod in snapshot.pods if instance_of(snapshot, pod) in unwell)
    return tuple(sorted({pod_facts.node_of(pod) for pod in pods if not pod_facts.is_ready(pod)} - {""}))


def instance_of(snapshot: Snapshot, pod: Object) -> tuple[str, int] | None:
    """Engine role and index of the instance that a pod belongs to, or None."""
    if snapshot.backend == "infer_service_set":
        return _infer_instance(pod)
    return parse_instance_name(instance_name_of(snapshot, pod), snapshot.base_name)


def instance_name_of(snapshot: Snapshot, pod: Object) -> str:
    """What the label of a pod says of the workload that it belongs to, "" when it has none."""
    return _labels(pod).get(JOB_LABEL if snapshot.backend == job_facts.BACKEND else "app", "")


def service_pods(snapshot: Snapshot) -> tuple[Object, ...]:
    """Pods of the service; other pods of the namespace are not ours to wait for."""
    return tuple(pod for pod in snapshot.pods if _is_service_pod(pod))


def is_deployer_name(name: str) -> bool:
    """True for names that Motor's own deployer gives to Deployments and to their `app` label."""
    if name.startswith(NAME_PREFIX) or name.endswith(("-single-container", "-coordinator-service")):
        return True
    return any(parse_instance_name(name, base) for base in BASE_NAMES.values())


def _is_service_pod(pod: Object) -> bool:
    labels = _labels(pod)
    app = labels.get("app", "")
    return f"{INFER_LABEL}inferservice-name" in labels or is_deployer_name(app) or (JOB_LABEL in labels and app in JOB_APPS)


def _collected(pod: Object) -> bool:
    """A pod of a Deployment that is gone already: the garbage collector takes it next."""
    return any(owner.get("kind") == "ReplicaSet" for owner in pod["metadata"].get("ownerReferences") or ())
