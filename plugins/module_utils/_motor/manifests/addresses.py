# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The host names under which the pods of a service find each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .. import release
from ..errors import InputError
from .context import Context

MANAGEMENT_PORT = 1026
INFER_PORT = 1025
OBSERVABILITY_PORT = 1027
LOOPBACK = "127.0.0.1"

_FILES = {"controller": release.CONTROLLER, "coordinator": release.COORDINATOR}


def motor_services(context: Context) -> dict[str, str]:
    """The environment by which every Motor pod finds controller and coordinator."""
    found = {
        "CONTROLLER_SERVICE": control_host(context, "controller", MANAGEMENT_PORT),
        "COORDINATOR_SERVICE": control_host(context, "coordinator", MANAGEMENT_PORT),
    }
    if context.is_2026_07:
        found["COORDINATOR_INFER_SERVICE"] = control_host(context, "coordinator", INFER_PORT)
        found["COORDINATOR_OBS_SERVICE"] = control_host(context, "coordinator", OBSERVABILITY_PORT)
    return found


def control_host(context: Context, control_role: str, port: int) -> str:
    """The host name of the control role's Service that has this port."""
    return host(context, _FILES[control_role], control_role, port)


def host(context: Context, file: str, role: str, port: int | None = None) -> str:
    """The host name of the first Service of a role (with this port): of the template `file`, or of the role in the InferServiceSet.

    In a single container all parts share one network. Raises InputError when the release has no such Service.
    """
    if context.in_one_pod:
        return LOOPBACK
    services = _of_set(context, role) if context.in_set else _of_file(context, file)
    for name, spec in services:
        if port is None or any(item.get("port") == port for item in spec.get("ports") or ()):
            return context.set_host(name, role) if context.in_set else context.host(name)
    where = release.INFER_SERVICE_SET if context.in_set else file
    wanted = f"Service of {role}" if port is None else f"Service of {role} with port {port}"
    raise InputError.at(f"the template has no {wanted}", source=context.release.place(where))


def _of_file(context: Context, file: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for found in context.release.documents(file):
        if found["kind"] == "Service":
            yield found["metadata"]["name"], found.get("spec") or {}


def _of_set(context: Context, role: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    template = context.template(release.INFER_SERVICE_SET, "InferServiceSet")
    for found in template.get("spec", "template", "roles", role, "services") or ():
        yield found["name"], found.get("spec") or {}
