# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program in a namespace of its own that is installed, changed and removed by the real module through the counting proxy."""

from __future__ import annotations

import base64
import contextlib
import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible_collections.ascend.mindie.plugins.lookup.program_archive import build
from tests.cluster import Cluster
from tests.cluster.fault_proxy import FaultProxy
from tests.cluster.kube_client import wait_for
from tests.support.modules import run_module
from tests.tools.environment import ROOT

NAME = "echo"
ECHO = ROOT / "tests" / "support" / "programs" / "echo"
ARCHIVE = base64.b64encode(build(ECHO)).decode()
RBAC = "rbac.authorization.k8s.io/v1"
READ = {"verbs": ["get", "list", "watch"]}
NODES = [{"apiGroups": [""], "resources": ["nodes"], **READ}]
PODS = [{"apiGroups": [""], "resources": ["pods"], **READ}]
# What other programs of the cluster make and unmake by themselves, or is there for a while only.
VOLATILE = {"events", "leases.coordination.k8s.io/kube-system", "componentstatuses"}
_NUMBERS = itertools.count(1)

Found = dict[tuple[str, str, str], str]


def everything(cluster: Cluster) -> Found:
    """Every object of every kind in the cluster: kind, namespace and name -> uid."""
    groups = [version["groupVersion"] for group in cluster.get("/apis")["groups"] for version in [group["preferredVersion"]]]
    prefixes = ["/api/v1", *(f"/apis/{group}" for group in groups)]
    with ThreadPoolExecutor(8) as pool:
        known = pool.map(lambda prefix: (prefix, cluster.get(prefix)["resources"]), prefixes)
        kinds = [(prefix, row["name"]) for prefix, rows in known for row in rows if "list" in row["verbs"] and row["name"] not in VOLATILE]
        lists = list(pool.map(lambda pair: (pair[1], cluster.request("GET", "/".join(pair))[1].get("items") or ()), kinds))
    return {
        (plural, item["metadata"].get("namespace", ""), item["metadata"]["name"]): item["metadata"]["uid"]
        for plural, items in lists
        for item in items
    }


class Programs:
    """Runs the module on one program. `watched` are namespaces in which it may have rights."""

    def __init__(self, cluster: Cluster, proxy: FaultProxy, namespace: str, watched: int = 2) -> None:
        self.cluster, self.proxy, self.namespace = cluster, proxy, namespace
        self.watched = [cluster.create_namespace(f"{namespace}-w{next(_NUMBERS)}") for dummy in range(watched)]
        self.rights_name = f"{NAME}.{namespace}"

    def close(self) -> None:
        """Delete the watched namespaces without waiting; what lies in no namespace is the test's to remove."""
        for name in self.watched:
            self.cluster.request("DELETE", f"/api/v1/namespaces/{name}")
        for kind in ("clusterrolebindings", "clusterroles"):
            self.cluster.request("DELETE", f"/apis/{RBAC}/{kind}/{self.rights_name}")

    def rights(self, namespaces: list[str] | None = None) -> list[dict[str, Any]]:
        """Rights in the whole cluster and in these namespaces (all that are watched)."""
        places = self.watched if namespaces is None else namespaces
        return [{"rules": NODES}, *({"namespace": place, "rules": PODS} for place in places)]

    def options(self, **options: Any) -> dict[str, Any]:
        """What installs the program in its usual form, but for these options."""
        reached = {"kubeconfig": self.proxy.kubeconfig, "name": NAME, "namespace": self.namespace, "wait_timeout": 30}
        usual = {"image": "registry.example/program:1", "archive": ARCHIVE, "settings": {"port": 8080}, "rights": self.rights()}
        return {**reached, **usual, **options}

    def run(self, **options: Any) -> dict[str, Any]:
        """Run the module through the proxy, whose list of requests starts anew."""
        self.proxy.clear()
        return run_module("motor_program", **options)

    def install(self, *, check_mode: bool = False, diff: bool = False, **options: Any) -> dict[str, Any]:
        """Have the program in its usual form, but for these options."""
        return self.run(check_mode=check_mode, diff=diff, **self.options(**options))

    def remove(self, **options: Any) -> dict[str, Any]:
        """Have nothing of it."""
        reached = {name: value for name, value in self.options().items() if name in ("kubeconfig", "name", "namespace", "wait_timeout")}
        return self.run(**{**reached, "state": "absent", **options})

    def path(self, kind: str, namespace: str | None, name: str = "") -> str:
        """URL path of a collection or an object."""
        prefix = {
            "deployments": "/apis/apps/v1",
            "replicasets": "/apis/apps/v1",
            "leases": "/apis/coordination.k8s.io/v1",
            "poddisruptionbudgets": "/apis/policy/v1",
            **dict.fromkeys(("roles", "rolebindings", "clusterroles", "clusterrolebindings"), f"/apis/{RBAC}"),
        }.get(kind, "/api/v1")
        return prefix + (f"/namespaces/{namespace}" if namespace else "") + f"/{kind}" + (f"/{name}" if name else "")

    def get(self, kind: str, name: str = NAME, namespace: str | None = None) -> dict[str, Any] | None:
        """An object, by default of the program's namespace; None when there is none."""
        status, found = self.cluster.request("GET", self.path(kind, self.namespace if namespace is None else namespace, name))
        return found if status == 200 else None

    def must(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """A request of somebody else that must succeed."""
        status, answer = self.cluster.request(method, path, body, **options)
        assert status < 300, answer
        return answer

    def change(self, kind: str, body: dict[str, Any], name: str = NAME, namespace: str | None = None) -> None:
        """Somebody else changes an object (merge patch)."""
        path = self.path(kind, self.namespace if namespace is None else namespace, name)
        self.must("PATCH", path, body, content_type="application/merge-patch+json")

    def pods(self) -> set[str]:
        """uids of its pods that are to stay."""
        items = self.cluster.get(self.path("pods", self.namespace))["items"]
        return {pod["metadata"]["uid"] for pod in items if "deletionTimestamp" not in pod["metadata"]}

    def picture(self) -> dict[tuple[str, str, str], Any]:
        """All that the program consists of, without what the server adds to it."""
        places: list[tuple[str, str, str]] = [
            (kind, self.namespace, NAME) for kind in ("configmaps", "serviceaccounts", "services", "leases")
        ]
        places += [("poddisruptionbudgets", self.namespace, NAME), ("deployments", self.namespace, NAME)]
        places += [(kind, "", self.rights_name) for kind in ("clusterroles", "clusterrolebindings")]
        places += [(kind, place, self.rights_name) for place in self.watched for kind in ("roles", "rolebindings")]
        found = {(kind, place, name): self.get(kind, name, place) for kind, place, name in places}
        return {place: _without_server_fields(obj) for place, obj in found.items() if obj}

    def elect(self) -> None:
        """The Lease that a running program makes."""
        body = {"metadata": {"name": NAME}, "spec": {"holderIdentity": "echo-1", "leaseDurationSeconds": 15}}
        self.must("POST", self.path("leases", self.namespace), body)

    def left_behind(self, before: Found, seconds: float = 30.0) -> set[tuple[str, str, str]]:
        """What there is and was not before, and what was there and is not, a while after; what goes by itself has the time to."""
        scopes = {self.namespace, *self.watched}

        def difference() -> set[tuple[str, str, str]]:
            """What lies in no namespace may go with what others have deleted, but does not come by itself."""
            now = everything(self.cluster)
            changed = {key for key, dummy in now.items() ^ before.items() if key[0] != "namespaces"}
            return {key for key in changed if key[1] in scopes or (not key[1] and key in now)}

        with contextlib.suppress(TimeoutError):
            wait_for(lambda: not difference(), seconds, "nothing else than before")
        return difference()


def _without_server_fields(obj: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: obj["metadata"].get(key) or {} for key in ("labels", "annotations")}
    metadata["annotations"] = {key: value for key, value in metadata["annotations"].items() if key.startswith("ascend.mindie/")}
    rest = {key: value for key, value in obj.items() if key not in ("metadata", "status")}
    if obj["kind"] == "Service":
        rest["spec"] = {key: value for key, value in obj["spec"].items() if not key.startswith("clusterIP")}
    return {**rest, "metadata": metadata}
