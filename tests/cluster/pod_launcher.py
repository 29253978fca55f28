# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns the process that runs it into the container described by a JSON file.

Run as a program by ``pod_runner``, with the standard library alone. It enters a user and a mount namespace, builds a
root directory from the machine's programs and libraries (read-only), the container's mounts and an empty rest, and becomes
the container's command. The process id stays the same.

Arguments: the file, and the number of a descriptor that closes when the command runs. If it does not come to that, the
reason is written there.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import Any

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
MS_RDONLY = 1
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18

LIBC = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    """Raise OSError with the reason of a failed call of the C library."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source: str, target: str, kind: str, flags: int) -> None:
    """mount(2)."""
    arguments = (source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), None)
    check(LIBC.mount(*arguments), f"mount {source} on {target}")


def enter_namespaces() -> None:
    """Become root of a user namespace of one user, with mounts of one's own."""
    user, group = os.getuid(), os.getgid()
    check(LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    mount("none", "/", "", MS_REC | MS_PRIVATE)


def bind(root: str, source: str, target: str, read_only: bool) -> None:
    """Show a file or directory of the machine at a place below the new root."""
    place = root + target
    if not os.path.lexists(place):
        if os.path.isdir(source):
            os.makedirs(place)
        else:
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "wb"):
                pass
    mount(source, place, "", MS_BIND | MS_REC)
    if read_only:
        # Flags of the underlying mount must stay, or a user namespace may not remount it.
        flags = os.statvfs(place).f_flag & (os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME)
        mount("none", place, "", MS_BIND | MS_REMOUNT | MS_RDONLY | flags)


def build_root(spec: dict[str, Any]) -> None:
    """The container's file system at ``spec["root"]``, an empty directory."""
    root = spec["root"]
    mount("tmpfs", root, "tmpfs", 0)
    for link, target in spec["links"].items():
        os.symlink(target, root + link)
    for directory in spec["directories"]:
        os.makedirs(root + directory, exist_ok=True)
    for path, text in spec["files"].items():
        os.makedirs(os.path.dirname(root + path), exist_ok=True)
        with open(root + path, "w", encoding="utf-8") as file:
            file.write(text)
    for row in spec["mounts"]:
        bind(root, row["source"], row["target"], row["read_only"])
    if spec["read_only_root"]:
        mount("none", root, "", MS_REMOUNT | MS_RDONLY)


def become(spec: dict[str, Any]) -> None:
    """Become the container. Raises OSError when that fails."""
    try:
        enter_namespaces()
    except OSError as error:
        raise OSError(f"this machine forbids user namespaces: {error}") from error
    build_root(spec)
    os.chroot(spec["root"])
    os.makedirs(spec["directory"], exist_ok=True)
    os.chdir(spec["directory"])
    os.execvpe(spec["command"][0], spec["command"], spec["environment"])


def main() -> None:
    """Read the description and become the container."""
    descriptor = int(sys.argv[2])
    os.set_inheritable(descriptor, False)
    with open(sys.argv[1], encoding="utf-8") as file:
        spec = json.load(file)
    try:
        become(spec)
    except OSError as error:
        os.write(descriptor, f"cannot start {spec['command'][0]}: {error}".encode())
        raise SystemExit(127) from error


if __name__ == "__main__":
    main()
