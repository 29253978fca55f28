# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules for `motor_deploy_config.storage`: volumes that every engine pod mounts."""

from __future__ import annotations

from .fields import Fields
from .json_reader import Path

STORAGE_TYPES = ("pvc", "nfs", "hostpath")
ACCESS_MODES = ("ReadWriteMany", "ReadWriteOnce", "ReadOnlyMany", "ReadWriteOncePod")
HOST_PATH_TYPES = ("DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice")


def check_storage(fields: Fields, path: Path) -> None:
    """Check a list of volumes, or a single one. Raises InputError; no two volumes may have the same mount path."""
    value = fields.document.value(path)
    if value is None:
        return
    if isinstance(value, dict):
        items = [path]
    elif isinstance(value, list):
        items = [(*path, index) for index in range(len(value))]
    else:
        raise fields.document.error(path, "storage is a list of objects: write [{...}]")
    mounts: dict[str, int] = {}
    for index, item in enumerate(items):
        mount = _check_volume(fields, item, index)
        if mount in mounts:
            wrong = f"{mount} is the mount path of storage[{mounts[mount]}], too: write another one"
            raise fields.document.error((*item, "mount_path"), wrong)
        if mount:
            mounts[mount] = index


def _check_volume(fields: Fields, path: Path, index: int) -> str:
    """Check one volume. Returns where it is mounted, "" when it is switched off."""
    if not isinstance(fields.document.value(path), dict):
        raise fields.document.error(path, "a volume is an object: write {...}")
    enabled = fields.boolean((*path, "enable"), True)
    fields.boolean((*path, "read_only"), False)
    mount = fields.absolute_path((*path, "mount_path"), "where engine pods find the volume") or f"/mnt/store-{index}"
    if ":" in mount:
        raise fields.document.error((*path, "mount_path"), "a mount path must not contain : (Kubernetes refuses it): write another one")
    if not enabled:
        return ""
    kind = fields.required_string((*path, "type"), f"one of {', '.join(STORAGE_TYPES)}")
    fields.choice((*path, "type"), "the kind of volume", STORAGE_TYPES)
    {"pvc": _check_pvc, "nfs": _check_nfs, "hostpath": _check_host_path}[kind](fields, path)
    return mount.rstrip("/") or "/"


def _check_pvc(fields: Fields, path: Path) -> None:
    storage_class = fields.string((*path, "storage_class_name"), "the StorageClass of the new claim")
    claim = fields.string((*path, "claim_name"), "the name of a claim that exists")
    if storage_class and claim:
        wrong = "a volume uses a claim that exists or makes one: remove claim_name or storage_class_name"
        raise fields.document.error((*path, "claim_name"), wrong)
    if not storage_class and not claim:
        wrong = "this key is missing: write the StorageClass of the new claim, or claim_name for a claim that exists"
        raise fields.document.error((*path, "storage_class_name"), wrong)
    fields.quantity((*path, "size"), "the size of the claim")
    fields.choice((*path, "access_mode"), "the access mode of the claim", ACCESS_MODES)


def _check_nfs(fields: Fields, path: Path) -> None:
    fields.required_string((*path, "server"), "the address of the NFS server")
    fields.required_string((*path, "path"), "the exported directory")
    fields.absolute_path((*path, "path"), "the exported directory")


def _check_host_path(fields: Fields, path: Path) -> None:
    fields.required_string((*path, "path"), "the directory of the host")
    fields.absolute_path((*path, "path"), "the directory of the host")
    fields.choice((*path, "host_path_type"), "the type of the host path", HOST_PATH_TYPES)
