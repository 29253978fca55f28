# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that is watched, as of now, by namespace. Hears of changes from one watch per kind and namespace, and decides nothing."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from ansible_collections.ascend.mindie.plugins.module_utils._cluster import metadata_list
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.api import Api
from ansible_collections.ascend.mindie.plugins.module_utils._cluster.watch import Health, Watch
from ansible_collections.ascend.mindie.plugins.module_utils._motor import job_facts, job_settings
from ansible_collections.ascend.mindie.plugins.module_utils._motor.hands_off import KEPT_PREFIX
from ansible_collections.ascend.mindie.plugins.module_utils._motor.instances import base_name
from ansible_collections.ascend.mindie.plugins.module_utils._motor.job_facts import BACKEND as JOBS
from ansible_collections.ascend.mindie.plugins.module_utils._motor.kept import KEPT
from ansible_collections.ascend.mindie.plugins.module_utils._motor.ownership import CONFIG_MAP, LEASE
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Build, Snapshot
from ansible_collections.ascend.mindie.plugins.module_utils._motor.stored import readable_config
from ansible_collections.ascend.mindie.plugins.module_utils._motor.workloads import ASCEND_JOB

from .settings import Settings

Object = Mapping[str, Any]

NODE = "Node"
KINDS = (
    ASCEND_JOB,
    "PodGroup",
    "Pod",
    "ConfigMap",
    "Lease",
    "Deployment",
    "InferServiceSet",
    "InstanceSet",
    "HorizontalPodAutoscaler",
    "ScaledObject",
)
# Leases are renewed all the time, those of all servers among them: only the lock of services is of interest.
_SELECTED = {"Lease": f"metadata.name={LEASE}"}
# An API server sends a bookmark about every minute.
SILENT_SECONDS = 75.0


def build_of(config_map: Object | None, *, jobs: bool, infer_sets: bool) -> Build:
    """How the service of a namespace is made; without a readable `motor-config`, as the workloads that are there say."""
    settings = job_settings.read(config_map)
    config = readable_config(config_map)
    backend = config.backend if config else JOBS if jobs else "infer_service_set" if infer_sets else "deployments"
    name = settings.name_prefix if backend == JOBS else config.base_name if config else base_name("")
    return Build(backend, name, settings)


class World:
    """The caches. `changed` is set whenever `take_dirty` has something to give. Thread-safe."""

    def __init__(self, api: Api, settings: Settings, changed: threading.Event) -> None:
        self._api, self._settings, self._changed = api, settings, changed
        self._lock = threading.Lock()
        self._objects: dict[str, dict[str, dict[str, Object]]] = defaultdict(lambda: defaultdict(dict))
        self._nodes: dict[str, Object] = {}
        self._dirty: dict[str, float] = {}
        self._builds: dict[tuple[str, str, bool, bool], Build] = {}
        self._watches: list[Watch] = []
        self._scopes: list[tuple[str | None, Watch]] = []

    def start(self) -> None:
        """Begin to watch. Each watch lists first; `synced` tells when all have."""
        scopes: list[str | None] = list(self._settings.namespaces) or [None]
        self._watch(NODE, None)
        for scope in scopes:
            for kind in KINDS:
                self._watch(kind, scope)

    def stop(self) -> None:
        """End all watches."""
        for watch in self._watches:
            watch.stop()

    @property
    def synced(self) -> bool:
        """Everything was listed. A kind that the cluster does not know counts as listed."""
        return bool(self._watches) and all(watch.synced for watch in self._watches)

    def ready(self, namespace: str) -> bool:
        """Everything that there is in a namespace was listed."""
        return bool(self._watches) and all(watch.synced for scope, watch in self._scopes if scope in (None, namespace))

    def health(self) -> list[Health]:
        """How the watches are."""
        return [watch.health for watch in self._watches]

    def namespaces(self) -> list[str]:
        """Those in which there is a service, or something that instances are made of."""
        with self._lock:
            return sorted(name for name, kinds in self._objects.items() if _has_service(kinds))

    def has_service(self, namespace: str) -> bool:
        """Whether there is one in this namespace."""
        with self._lock:
            return _has_service(self._objects.get(namespace, {}))

    def take_dirty(self) -> dict[str, float]:
        """Namespaces that have changed since the last call, and when (monotonic) that was first heard of."""
        with self._lock:
            found, self._dirty = self._dirty, {}
        return found

    def snapshot(self, namespace: str) -> Snapshot:
        """What is known of a namespace. The objects are cut to what the state model reads."""
        with self._lock:
            found = (
                {kind: tuple(objects.values()) for kind, objects in self._objects[namespace].items()} if namespace in self._objects else {}
            )
            nodes = dict(self._nodes)
        config_maps = {item["metadata"]["name"]: item for item in found.get("ConfigMap", ())}
        config_map = config_maps.get(CONFIG_MAP)
        jobs, infer_sets = found.get(ASCEND_JOB, ()), found.get("InferServiceSet", ())
        build = self._build(config_map, jobs=bool(jobs), infer_sets=bool(infer_sets))
        return Snapshot(
            namespace=namespace,
            backend=build.backend,
            base_name=build.base_name,
            settings=build.settings,
            config_map=config_map,
            lease=next(iter(found.get("Lease", ())), None),
            deployments=found.get("Deployment", ()),
            pods=found.get("Pod", ()),
            autoscalers=(*found.get("HorizontalPodAutoscaler", ()), *found.get("ScaledObject", ())),
            infer_service_set=next(iter(infer_sets), None),
            instance_sets=found.get("InstanceSet", ()),
            jobs=jobs,
            pod_groups=found.get("PodGroup", ()),
            rule=config_maps.get(build.settings.scaling_rule),
            others={("ConfigMap", name): item for name, item in config_maps.items()},
            nodes=nodes,
        )

    def build(self, namespace: str, config_map: Object | None) -> Build:
        """How the service of a namespace is made whose `motor-config` was just read."""
        with self._lock:
            kinds = self._objects.get(namespace, {})
            return build_of(config_map, jobs=bool(kinds.get(ASCEND_JOB)), infer_sets=bool(kinds.get("InferServiceSet")))

    def named(self, namespace: str, kind: str, name: str) -> Object | None:
        """One object; an empty name is that of the only one."""
        with self._lock:
            found = self._objects.get(namespace, {}).get(kind, {})
            return found.get(name) if name else next(iter(found.values()), None)

    def everywhere(self, kind: str) -> tuple[Object, ...]:
        """All objects of a kind that are watched."""
        with self._lock:
            if kind == NODE:
                return tuple(self._nodes.values())
            return tuple(item for kinds in self._objects.values() for item in kinds[kind].values())

    def _build(self, config_map: Object | None, *, jobs: bool, infer_sets: bool) -> Build:
        """To read a user config takes longer than all the rest: it is read once per version."""
        metadata = (config_map or {}).get("metadata") or {}
        key = (metadata.get("uid", ""), metadata.get("resourceVersion", ""), jobs, infer_sets)
        if key not in self._builds:
            if len(self._builds) > 10_000:
                self._builds.clear()
            self._builds[key] = build_of(config_map, jobs=jobs, infer_sets=infer_sets)
        return self._builds[key]

    def _watch(self, kind: str, scope: str | None) -> None:
        def heard(old: Object | None, new: Object | None) -> None:
            self._heard(kind, old, new)

        watch = Watch(
            self._api,
            kind,
            scope,
            self._changed,
            keep=KEPT[kind],
            silent=SILENT_SECONDS,
            relist_every=float(self._settings.relist_every),
            relist_form=metadata_list.FORM,
            on_change=heard,
            field_selector=_SELECTED.get(kind, ""),
            lasting=(),
        )
        self._watches.append(watch)
        self._scopes.append((scope, watch))

    def _heard(self, kind: str, old: Object | None, new: Object | None) -> None:
        seen = new or old or {}
        metadata = seen["metadata"]
        with self._lock:
            if kind == NODE:
                self._node_changed(metadata["name"], old, new)
                return
            objects = self._objects[metadata["namespace"]][kind]
            if new is None:
                # Another one of that name may be there by now.
                if objects.get(metadata["name"], seen)["metadata"]["uid"] == metadata["uid"]:
                    objects.pop(metadata["name"], None)
                if not any(self._objects[metadata["namespace"]].values()):
                    del self._objects[metadata["namespace"]]  # namespaces come and go
            else:
                objects[metadata["name"]] = new
            if not _alike(old, new):
                self._dirty.setdefault(metadata["namespace"], time.monotonic())

    def _node_changed(self, name: str, old: Object | None, new: Object | None) -> None:
        """Whether a server is well matters to those who have pods on it; who waits for room is looked at again anyway."""
        if new is None:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = new
        if _alike(old, new):
            return
        for namespace, kinds in self._objects.items():
            if any((pod.get("spec") or {}).get("nodeName") == name for pod in kinds["Pod"].values()):
                self._dirty.setdefault(namespace, time.monotonic())


def _has_service(kinds: Mapping[str, Mapping[str, Object]]) -> bool:
    """Whether anything there serves, or is kept to be created again."""
    config_maps = kinds.get("ConfigMap", {})
    return (
        CONFIG_MAP in config_maps
        or bool(kinds.get("InferServiceSet"))
        or any(job_facts.serves(job, job_settings.DEFAULT_PREFIX) for job in kinds.get(ASCEND_JOB, {}).values())
        or any(name.startswith(KEPT_PREFIX) for name in config_maps)
    )


def _alike(old: Object | None, new: Object | None) -> bool:
    """Whether nothing changed that anybody looks at."""
    return old is not None and new is not None and _without_version(old) == _without_version(new)


def _without_version(obj: Object) -> Object:
    return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}}
