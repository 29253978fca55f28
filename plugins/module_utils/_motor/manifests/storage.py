# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes of `motor_deploy_config.storage`, which every engine pod mounts, and the size of /dev/shm. Since shape 2026-07."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .. import release
from ..config_rules import DEPLOY
from . import pod
from .context import Context
from .draft import Draft
from .placement import place_in_namespace

COMPONENT = "storage"
NAME = "mindie-motor-store"
DEFAULT_SIZE = "200Gi"
DEFAULT_ACCESS_MODE = "ReadWriteMany"


def objects(context: Context) -> list[tuple[str, Draft]]:
    """A PersistentVolumeClaim for each volume that asks for a new one."""
    made = []
    for name, volume in _volumes(context):
        if volume["type"] == "pvc" and not volume.get("claim_name"):
            draft = context.draft(release.STORAGE, "PersistentVolumeClaim")
            place_in_namespace(context, draft)
            draft.set(("metadata", "name"), name)
            draft.set(("spec", "storageClassName"), volume["storage_class_name"])
            draft.set(("spec", "accessModes"), [volume.get("access_mode") or DEFAULT_ACCESS_MODE])
            draft.set(("spec", "resources", "requests", "storage"), volume.get("size") or DEFAULT_SIZE)
            made.append((COMPONENT, draft))
    return made


def mount(context: Context, template: Draft) -> None:
    """Mount all volumes into an engine's pod template, and set the size of /dev/shm."""
    for index, (name, volume) in enumerate(_volumes(context)):
        template.add(("spec", "volumes"), {"name": name, **_SOURCES[volume["type"]](name, volume)})
        mounted: dict[str, Any] = {"name": name, "mountPath": volume.get("mount_path") or f"/mnt/store-{index}"}
        template.add((*pod.CONTAINER, "volumeMounts"), {**mounted, "readOnly": True} if volume.get("read_only") else mounted)
    size = context.deploy_value("dshm_size")
    if size:
        context.since_2026_07((*DEPLOY, "dshm_size"), "dshm_size")
        template.set(("spec", "volumes", "dshm", "emptyDir", "sizeLimit"), size)


def _volumes(context: Context) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Name and description of each volume that is not switched off."""
    found = context.deploy_value("storage") or []
    if found:
        context.since_2026_07((*DEPLOY, "storage"), "storage")
    for index, volume in enumerate([found] if isinstance(found, dict) else found):
        if volume.get("enable") is not False:
            yield f"{NAME}-{index}", volume


def _claim(name: str, volume: Mapping[str, Any]) -> dict[str, Any]:
    return {"persistentVolumeClaim": {"claimName": volume.get("claim_name") or name}}


def _nfs(name: str, volume: Mapping[str, Any]) -> dict[str, Any]:
    return {"nfs": {"server": volume["server"], "path": volume["path"]}}


def _host_path(name: str, volume: Mapping[str, Any]) -> dict[str, Any]:
    kind = volume.get("host_path_type")
    return {"hostPath": {"path": volume["path"], **({"type": kind} if kind else {})}}


_SOURCES = {"pvc": _claim, "nfs": _nfs, "hostpath": _host_path}
