# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is done alike to the pod templates of all roles."""

from __future__ import annotations

from collections.abc import Mapping

from .context import Context
from .draft import Draft

CONTAINER = ("spec", "containers", 0)
WEIGHT_MOUNT = "weight-mount"
DEFAULT_WEIGHT_MOUNT_PATH = "/mnt/weight"
LOG_VOLUME = "plog-path"


def set_image(context: Context, template: Draft) -> None:
    """The image of the only container."""
    template.set((*CONTAINER, "image"), context.config.image)


def add_env(template: Draft, values: Mapping[str, str]) -> None:
    """Variables of the container, behind those of the template; what the template sets stays."""
    template.add((*CONTAINER, "env"), *({"name": name, "value": value} for name, value in values.items()))


def set_log_dir(context: Context, template: Draft, section: str) -> None:
    """The server's directory for logs, when the user config names one."""
    found = context.host_log_dir(section)
    if found:
        template.set(("spec", "volumes", LOG_VOLUME, "hostPath", "path"), found)


def weight_mount_path(context: Context) -> str:
    """Where the weights are, on the server and in the container alike."""
    return context.config.weight_mount_path or DEFAULT_WEIGHT_MOUNT_PATH


def set_weight_mount(context: Context, template: Draft) -> None:
    """The path of the volume of weights that engine templates have."""
    path = weight_mount_path(context)
    template.set(("spec", "volumes", WEIGHT_MOUNT, "hostPath", "path"), path)
    template.set((*CONTAINER, "volumeMounts", WEIGHT_MOUNT, "mountPath"), path)


def add_host_path(template: Draft, name: str, path: str, mount_path: str | None = None) -> None:
    """One more directory of the server, mounted at the same path unless another is given."""
    template.add(("spec", "volumes"), {"name": name, "hostPath": {"path": path}})
    template.add((*CONTAINER, "volumeMounts"), {"name": name, "mountPath": mount_path or path})


def set_resolver(context: Context, template: Draft) -> None:
    """A5 servers resolve names with fewer search steps."""
    if context.hardware.generation == "A5":
        template.set(("spec", "dnsConfig"), {"options": [{"name": "ndots", "value": "2"}]})
