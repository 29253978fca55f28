# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rights as the manifests of examples/rbac give them, and as requests need them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.cluster.fault_proxy import Request

FOLDER = Path(__file__).parents[2] / "examples" / "rbac"
ROLE, CLUSTER_ROLE = "Role", "ClusterRole"
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_GROUP = re.compile(r"^/apis/([^/]+)/")


class Right(NamedTuple):
    """One verb on one kind of resource. `cluster`: given (or needed) in the whole cluster, not in one namespace."""

    verb: str
    group: str
    resource: str
    cluster: bool = False

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{' in the cluster' if self.cluster else ''}"

    @property
    def what(self) -> tuple[str, str, str]:
        """The right without its scope."""
        return self.verb, self.group, self.resource

    @property
    def rule(self) -> dict[str, Any]:
        """A rule of RBAC that gives this right alone."""
        return {"apiGroups": [self.group], "resources": [self.resource], "verbs": [self.verb]}


def manifests() -> list[str]:
    """Names of the manifests, one per playbook and `read`."""
    return sorted(file.stem for file in FOLDER.glob("*.yaml"))


def of_manifest(name: str) -> list[Right]:
    """The rights that a manifest gives, each once."""
    found = []
    for document in yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text()):
        for rule in document["rules"]:
            cluster = document["kind"] == CLUSTER_ROLE
            found += [
                Right(verb, group, one, cluster) for group in rule["apiGroups"] for one in rule["resources"] for verb in rule["verbs"]
            ]
    return list(dict.fromkeys(found))


def of_requests(requests: Iterable[Request]) -> set[Right]:
    """The rights that requests need. What every user may read (/apis) is left out."""
    found = set()
    for request in requests:
        if not request.kind_of_resource:
            continue
        reading = "watch" if request.watch else "get" if request.name else "list"
        verb = _VERBS.get(request.method, reading)
        group = _GROUP.match(request.path)
        # For RBAC a Namespace lies in the namespace that it is.
        cluster = not request.namespace and not (request.kind_of_resource == "namespaces" and request.name)
        resource = "/".join(request.kind_of_resource.split("/")[:2])  # what follows services/proxy is the program's own path
        found.add(Right(verb, group[1] if group else "", resource, cluster))
    return found
