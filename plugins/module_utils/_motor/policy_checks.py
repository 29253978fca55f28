# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What must hold of a service and its cluster before a scaling policy is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import ceil
from typing import Any

from . import pods as pod_facts
from .capacity import place
from .capacity_model import Server, Shape
from .errors import Refused
from .guard import not_deployed
from .hardware import SUPER_POD_BLOCK
from .policy_reader import WRONG_TARGET_TYPE
from .scaling_policy import AUTOSCALED, VALUE, Policy, limits, policy_of
from .snapshot import SCALER
from .state import ServiceState, Snapshot, infer_roles, instance_set_of

BACKEND = "infer_service_set"
SETS = "mindcluster.huawei.com/v1"
REFUSE, SCALE = "refuse", "scale"
OPENAPI = f"/openapi/v3/apis/{SETS}"
OUTSIDE = (REFUSE, SCALE)
_SCHEMAS_DEEP = 20


def require_autoscalable(snapshot: Snapshot) -> None:
    """The service is an InferServiceSet, whose operator makes autoscalers."""
    if snapshot.config_map is None:
        raise not_deployed(snapshot.namespace)
    if snapshot.backend != BACKEND:
        raise Refused(
            f"Cannot scale {snapshot.namespace} by load: its instances are {snapshot.backend}, and only the Infer Operator makes autoscalers. "
            "Deploy it with deploy_mode infer_service_set, or scale it by hand (motor_instance_scale).",
            reason="NotAutoscalable",
        )


def require_one_service(snapshot: Snapshot) -> None:
    """A count of the set is that of all its services: with several, HPA gives each its own, and no number is right for all of them."""
    found = ((snapshot.infer_service_set or {}).get("spec") or {}).get("replicas", 1)
    if found != 1:
        raise Refused(
            f"Cannot set or remove policies in {snapshot.namespace}: its InferServiceSet makes {found} services, and has one count for all of them. "
            "HPA scales each on its own, so that a policy could not be taken away again without changing counts. Set spec.replicas to 1.",
            reason="SeveralServices",
        )


def require_roles(snapshot: Snapshot, engine_roles: Iterable[str]) -> None:
    """The InferServiceSet has these engine roles, and instances of them: a release writes each role, those that are not used with 0."""
    there = [role["name"] for role in infer_roles(snapshot) if role.get("replicas") or _live(snapshot, role["name"])]
    for role in engine_roles:
        if role not in there:
            known = ", ".join(name for name in there if name in AUTOSCALED) or "no engine role"
            raise Refused(
                f"Cannot scale {role} instances of {snapshot.namespace} by load: its InferServiceSet has none (it has: {known}).",
                reason="NoSuchRole",
                paths=(role,),
            )


def _live(snapshot: Snapshot, engine_role: str) -> int:
    return int(((instance_set_of(snapshot, engine_role) or {}).get("spec") or {}).get("replicas") or 0)


def require_version(snapshot: Snapshot, openapi: Mapping[str, Any] | None) -> None:
    """The cluster keeps what is written (an older CRD drops `scalingPolicy` without a word), and can make autoscalers of it.

    `openapi` is what the API server says of the group of InferServiceSets.
    """
    if not snapshot.versions.get(SCALER):
        raise Refused(
            f"Cannot scale {snapshot.namespace} by load: the API server does not serve autoscaling/v2, which Kubernetes has since 1.23. "
            "The Infer Operator would make no autoscaler, and not say so.",
            reason="AutoscalingMissing",
        )
    if not knows_policies(openapi or {}):
        raise Refused(
            f"Cannot scale {snapshot.namespace} by load: the InferServiceSets of this cluster have no field scalingPolicy, which MindCluster has since "
            "26.1; the API server would drop it without a word. Update the CRDs and the Infer Operator.",
            reason="PolicyUnknown",
        )


def knows_policies(openapi: Mapping[str, Any]) -> bool:
    """Whether InferServiceSets have `roles[].scalingPolicy`, as an OpenAPI document of their group says."""
    schemas = (openapi.get("components") or {}).get("schemas") or {}
    for schema in schemas.values():
        kinds = [row.get("kind") for row in schema.get("x-kubernetes-group-version-kind") or ()]
        if "InferServiceSet" in kinds:
            return _has(schema, schemas, ("spec", "template", "roles", "", "scalingPolicy"))
    return False


def _has(schema: Mapping[str, Any], schemas: Mapping[str, Any], path: tuple[str, ...], deep: int = 0) -> bool:
    """Whether a schema has a field (`""` stands for the items of a list), or keeps what it does not know."""
    if not path or schema.get("x-kubernetes-preserve-unknown-fields"):
        return True
    reference = schema.get("$ref") or next((part.get("$ref") for part in schema.get("allOf") or ()), None)
    if reference and deep < _SCHEMAS_DEEP:
        return _has(schemas.get(str(reference).rpartition("/")[2]) or {}, schemas, path, deep + 1)
    found = schema.get("items") if path[0] == "" else (schema.get("properties") or {}).get(path[0])
    return isinstance(found, Mapping) and _has(found, schemas, path[1:], deep)


def require_range(state: ServiceState, policies: Iterable[Policy]) -> None:
    """The live count is within the limits, so that switching the policy on changes nothing by itself."""
    for policy in policies:
        live = len(state.live(policy.engine_role))
        if not policy.minimum <= live <= policy.maximum:
            near = f"min {live}" if live < policy.minimum else f"max {live}"
            raise Refused(
                f"Cannot set the policy of {policy.engine_role} of {state.namespace}: min {policy.minimum}, max {policy.maximum}, but {live} live: "
                f"HPA would change the count at once, whatever the load is. Scale first (motor_instance_scale), set {near}, "
                "or, to have HPA do it, set outside: scale.",
                reason="OutsideLimits",
                paths=(policy.engine_role,),
            )


def require_unowned(state: ServiceState, policies: Iterable[Policy]) -> None:
    """No other autoscaler has the count: of two, HPA's controller obeys neither."""
    for policy in policies:
        owner = state.owners.get(policy.engine_role)
        if owner and not owner.by_policy:
            raise Refused(
                f"Cannot set the policy of {policy.engine_role} of {state.namespace}: {owner} scales {owner.target_kind} {owner.target} already. "
                "Delete it first.",
                reason="CountOwned",
                paths=(policy.engine_role,),
            )


def require_single_pods(snapshot: Snapshot, policies: Iterable[Policy]) -> None:
    """For `Value`, HPA multiplies by the ready pods, which are more than the instances where an instance has several pods."""
    pods = {role["name"]: _pods(role) for role in infer_roles(snapshot)}
    for policy in policies:
        several = pods.get(policy.engine_role, 1)
        named = [target.metric for target in policy.metrics if target.target_type == VALUE]
        if several > 1 and named:
            raise Refused(
                f"Cannot scale {policy.engine_role} of {snapshot.namespace} by {', '.join(named)}: for Value, HPA wants ceil(ready pods x value / target) "
                f"instances, and an instance has {several} pods here: with 2 instances, and the value at 3/4 of the target, that is "
                f"ceil({2 * several} x 0.75) = {ceil(2 * several * 0.75)} instances. Use metrics that are totals (AverageValue), "
                "such as num_requests_waiting or kv_cache_usage_perc_sum.",
                reason=WRONG_TARGET_TYPE,
                paths=(policy.engine_role,),
            )


def require_room(snapshot: Snapshot, state: ServiceState, policies: Mapping[str, Policy], servers: Iterable[Server]) -> None:
    """The servers have NPUs for as many instances as all policies of the service together may make (those that it has already, too)."""
    usable = tuple(servers)
    shapes = tuple(_shapes(snapshot, state, policies, together=any(server.super_pod for server in usable)))
    left = place(usable, shapes).left if shapes else {}
    lacking = tuple(name for name, more in left.items() if more)
    if not lacking:
        return
    free = sum(max(0, server.npus - server.used) for server in usable if server.usable)
    wanted = "; ".join(
        f"{shape.group}: {shape.count} more of {shape.pods} x {shape.npus_per_pod} NPUs, room for {shape.count - left[shape.group]}"
        for shape in shapes
    )
    raise Refused(
        f"Cannot set the policies of {snapshot.namespace}: the NPUs of the cluster ({free} are free) do not hold as many instances as they may make "
        f"({wanted}). Instances beyond that would wait for NPUs, and may keep those that the other engine role needs. Lower max, or set "
        "check_capacity: false if others make room.",
        reason="TooFewNpus",
        paths=lacking,
    )


def _shapes(snapshot: Snapshot, state: ServiceState, policies: Mapping[str, Policy], *, together: bool) -> Iterator[Shape]:
    """What may come besides what is live. `together`: there are super pods, in which the pods of an instance have to be."""
    for role in infer_roles(snapshot):
        name, size, pods = role["name"], _npus(role), _pods(role)
        found = policies[name].maximum if name in policies else (limits(policy_of(role)) or (0, 0))[1]
        if name in AUTOSCALED and found and size:
            block = _block(role) if together else 0
            fits = block and block % size == 0 and (pods * size) % block == 0
            yield Shape(name, max(0, found - len(state.live(name))), pods, size, block if fits else 0)


def _pods(role: Mapping[str, Any]) -> int:
    count = (role.get("spec") or {}).get("replicas", 1)
    return count if isinstance(count, int) and count > 0 else 1


def _npus(role: Mapping[str, Any]) -> int:
    template = (role.get("spec") or {}).get("template") or {}
    return pod_facts.npus({"spec": template.get("spec") or {}})


def _block(role: Mapping[str, Any]) -> int:
    template = ((role.get("spec") or {}).get("template") or {}).get("metadata") or {}
    annotations = {**((role.get("metadata") or {}).get("annotations") or {}), **(template.get("annotations") or {})}
    text = str(annotations.get(SUPER_POD_BLOCK, ""))
    return int(text) if text.isdecimal() and len(text) < 6 else 0
