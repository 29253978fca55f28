# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How objects of ours are recognised: labels on object metadata, never on pod templates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MANAGED_BY = "app.kubernetes.io/managed-by"
PART_OF = "app.kubernetes.io/part-of"
COMPONENT = "app.kubernetes.io/component"
# On cluster-scoped objects of a service and on all objects of a program: the namespace of that service or program.
INSTANCE = "app.kubernetes.io/instance"
MANAGER = "ascend.mindie"
PRODUCT = "mindie-motor"
# What programs that we run in the cluster are part of. They may live in the namespace of a service, and are no part of it.
PROGRAMS = "mindie-programs"

CONFIG_MAP = "motor-config"
LEASE = "ascend-mindie"
CONTROL_ROLES = ("controller", "coordinator")
CONTROL_APP = {role: f"mindie-motor-{role}" for role in CONTROL_ROLES}
# The label `app` of AscendJobs and their pods: MindCluster knows them by it.
JOB_APP = {role: f"mindie-ms-{role}" for role in CONTROL_ROLES}
ENGINE_JOB_APP = "mindie-ms-server"
JOB_APPS = frozenset({*JOB_APP.values(), ENGINE_JOB_APP})


def metadata_labels(component: str) -> dict[str, str]:
    """The labels that every object of ours carries on its own metadata."""
    return {MANAGED_BY: MANAGER, PART_OF: PRODUCT, COMPONENT: component}


def is_ours(obj: Mapping[str, Any] | None) -> bool:
    """True when the object carries our managed-by label, and is not one of a program's."""
    labels = (obj["metadata"].get("labels") or {}) if obj is not None else {}
    return labels.get(MANAGED_BY) == MANAGER and labels.get(PART_OF) != PROGRAMS


def program_labels(name: str, namespace: str) -> dict[str, str]:
    """The labels that every object of the program `name`, installed in `namespace`, carries on its own metadata."""
    return {MANAGED_BY: MANAGER, PART_OF: PROGRAMS, COMPONENT: name, INSTANCE: namespace}
