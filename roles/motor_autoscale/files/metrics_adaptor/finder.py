# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which services there are, where their coordinators answer, and which pods live: as the API server tells it, by watches."""

from __future__ import annotations

import json
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._cluster import metadata_list
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.api import Api
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.watch import Health, Watch
from ansible_collections.ascend.mindie.plugins.module_utils._motor import coordinator
from ansible_collections.ascend.mindie.plugins.module_utils._motor.coordinator import INFERENCE_PORT, METRICS_PORT
from ansible_collections.ascend.mindie.plugins.module_utils._motor.instances import ENGINE_ROLES
from ansible_collections.ascend.mindie.plugins.module_utils._motor.ownership import CONFIG_MAP
from ansible_collections.ascend.mindie.plugins.module_utils._motor.record import USER_CONFIG_KEY

from .settings import EVERYWHERE

Object = Mapping[str, Any]

RELIST_SECONDS = 300.0
_METADATA = ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp")
# The operator makes no more services of one set; of a set that wants more it makes none. No namespace has more of them that are looked
# at, each by a thread: whoever may make sets in one could keep the adaptor from all others.
MOST_SERVICES = 64
# A pod that has ended does not live, whether or not it is still listed.
_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Service:
    """One InferService: its namespace and name, the set that it is of, its engine roles, and where its coordinator answers.

    `served` are the engine roles that are to have instances; a set names all that there could be.
    `collection`: how far apart two looks have to be to see two collections of the coordinator, in seconds.
    """

    namespace: str
    name: str
    set_name: str
    uid: str
    engine_roles: tuple[str, ...]
    served: tuple[str, ...]
    metrics_url: str
    models_url: str
    collection: float

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from all others."""
        return self.namespace, self.name


def services_of(infer_set: Object, config_map: Object | None) -> Iterator[Service]:
    """The services of one InferServiceSet, whose user config is in the `motor-config` of its namespace."""
    metadata, spec = infer_set["metadata"], infer_set.get("spec") or {}
    roles = (spec.get("template") or {}).get("roles") or ()
    engines = [role for role in roles if role["name"] in ENGINE_ROLES]
    config = _user_config(config_map)
    wanted = spec.get("replicas", 1)
    for index in range(wanted if wanted <= MOST_SERVICES else 0):
        name = f"{metadata['name']}-{index}"
        urls = {
            port: f"{coordinator.scheme(config, port)}://{coordinator.set_service_name(port, roles, name)}.{metadata['namespace']}.svc:{port}"
            for port in (INFERENCE_PORT, METRICS_PORT)
        }
        yield Service(
            namespace=metadata["namespace"],
            name=name,
            set_name=metadata["name"],
            uid=metadata["uid"],
            engine_roles=tuple(role["name"] for role in engines),
            served=tuple(role["name"] for role in engines if role.get("replicas") or role.get("scalingPolicy")),
            metrics_url=f"{urls[METRICS_PORT]}/metrics?type=dp",
            models_url=f"{urls[INFERENCE_PORT]}/v1/models",
            collection=coordinator.collection_seconds(config),
        )


def services_of_all(infer_sets: Iterable[Object], config_maps: Iterable[Object]) -> Iterator[Service]:
    """The services of all sets that are to stay, so many in each namespace, by name."""
    configs = {item["metadata"]["namespace"]: item for item in config_maps}
    counts: Counter[str] = Counter()
    for item in sorted(infer_sets, key=lambda found: str(found["metadata"]["name"])):
        namespace = item["metadata"]["namespace"]
        if not item["metadata"].get("deletionTimestamp"):
            made = list(islice(services_of(item, configs.get(namespace)), MOST_SERVICES - counts[namespace]))
            counts[namespace] += len(made)
            yield from made


def _user_config(config_map: Object | None) -> Mapping[str, Any]:
    """The user config as far as it can be read; whether it is sound in all its parts is no concern here."""
    try:
        found = json.loads(((config_map or {}).get("data") or {}).get(USER_CONFIG_KEY) or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


class Finder:
    """Keeps to what there is in these namespaces, `["*"]` for all. `changed` is set when services may have come, changed or gone."""

    def __init__(self, api: Api, namespaces: Sequence[str], *, relist_every: float = RELIST_SECONDS) -> None:
        self.changed = threading.Event()
        self._scopes: list[str | None] = [None] if EVERYWHERE in namespaces else list(dict.fromkeys(namespaces))
        self._pods = Pods()
        self._some = threading.Event()
        self._watches: dict[tuple[str, str | None], Watch] = {}
        for scope in self._scopes:
            for kind, keep, selector in (
                ("InferServiceSet", _kept_set, ""),
                ("ConfigMap", _kept_config_map, f"metadata.name={CONFIG_MAP}"),
                ("Pod", _kept_pod, ""),
            ):
                pods = kind == "Pod"
                self._watches[kind, scope] = Watch(
                    api,
                    kind,
                    scope,
                    self._some if pods else self.changed,
                    keep=keep,
                    field_selector=selector,
                    relist_every=relist_every,
                    relist_form=metadata_list.FORM,
                    on_change=partial(self._pod_changed, scope) if pods else None,
                    lasting=(),
                )

    @property
    def synced(self) -> bool:
        """The sets of every namespace were listed. A cluster without that kind has none."""
        return all(watch.synced for (kind, dummy), watch in self._watches.items() if kind == "InferServiceSet")

    def health(self) -> list[Health]:
        """How the watches are."""
        return [watch.health for watch in self._watches.values()]

    def services(self) -> list[Service]:
        """The services as of now."""
        return list(services_of_all(self._all("InferServiceSet"), self._all("ConfigMap")))

    def pods(self, namespace: str) -> Mapping[str, float] | None:
        """The addresses of the pods that live in a namespace, and since when; None when that is not known."""
        watch = self._watches.get(("Pod", namespace)) or self._watches.get(("Pod", None))
        if watch is None or not watch.synced:
            return None
        return self._pods.live(namespace)

    def stop(self) -> None:
        """End all watches."""
        for watch in self._watches.values():
            watch.stop()

    def _all(self, wanted: str) -> Iterator[Object]:
        return (item for (kind, dummy), watch in self._watches.items() if kind == wanted for item in watch.objects())

    def _pod_changed(self, scope: str | None, old: Object | None, new: Object | None) -> None:
        watch = self._watches.get(("Pod", scope))
        self._pods.changed(old, new, listed=watch is None or not watch.synced)


class Pods:
    """The addresses of the pods that live, and since when each of them has been that of its pod. May be used by several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._there: dict[str, dict[str, tuple[str, float]]] = {}

    def live(self, namespace: str) -> Mapping[str, float]:
        """The addresses in a namespace. One that several pods have (that of their server) is there since the first of them."""
        found: dict[str, float] = {}
        with self._lock:
            for address, since in self._there.get(namespace, {}).values():
                found[address] = min(since, found.get(address, since))
        return found

    def changed(self, old: Object | None, new: Object | None, *, listed: bool = False) -> None:
        """A pod came, changed or went; `listed`: it was there already when the pods were listed for the first time."""
        metadata = (new or old or {})["metadata"]
        address = _address(new) if new is not None else ""
        with self._lock:
            there = self._there.setdefault(metadata["namespace"], {})
            before = there.pop(metadata["name"], None)
            if address:
                kept = before if before and before[0] == address else None
                there[metadata["name"]] = kept or (address, -math.inf if listed else self._clock())
            if not there:
                del self._there[metadata["namespace"]]


def _address(pod: Object) -> str:
    """The address of a pod that lives; empty of one that is ending, or has none yet."""
    status = pod.get("status") or {}
    if pod["metadata"].get("deletionTimestamp") or status.get("phase") in _ENDED:
        return ""
    return str(status.get("podIP") or "")


def _kept_set(obj: Object) -> Object:
    spec = obj.get("spec") or {}
    roles = [_kept_role(role) for role in (spec.get("template") or {}).get("roles") or ()]
    return {"metadata": _metadata(obj), "spec": {"replicas": spec.get("replicas", 1), "template": {"roles": roles}}}


def _kept_role(role: Object) -> Object:
    services = [
        {
            "name": entry.get("name", ""),
            "spec": {"ports": [{"port": row.get("port")} for row in (entry.get("spec") or {}).get("ports") or ()]},
        }
        for entry in role.get("services") or ()
    ]
    counted = {"replicas": role.get("replicas", 0), "scalingPolicy": bool(role.get("scalingPolicy"))}
    return {"name": role.get("name", ""), "services": services, **counted}


def _kept_config_map(obj: Object) -> Object:
    return {"metadata": _metadata(obj), "data": {USER_CONFIG_KEY: (obj.get("data") or {}).get(USER_CONFIG_KEY, "")}}


def _kept_pod(obj: Object) -> Object:
    status = obj.get("status") or {}
    return {"metadata": _metadata(obj), "status": {key: status[key] for key in ("phase", "podIP") if key in status}}


def _metadata(obj: Object) -> Object:
    return {key: obj["metadata"][key] for key in _METADATA if key in obj["metadata"]}
