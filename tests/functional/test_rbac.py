# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The manifests of examples/rbac give each playbook what it needs and no more; without a right, the message names it.

A new right: write it into the manifest of each playbook that uses it. When no scene (`scenes.py`) uses it, the test of the right fails: add
one. When the playbook goes on without it (with a warning), add it to OPTIONAL.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.cluster.fault_proxy import FaultProxy
from tests.cluster.kube_client import wait_for
from tests.functional import rights
from tests.functional.conftest import Driver
from tests.functional.jobs import JobDriver
from tests.functional.rights import CLUSTER_ROLE, ROLE, Right
from tests.functional.scenes import RBAC, SCENES, Scene
from tests.functional.test_modules import succeeded

PLAYBOOKS = ("deploy", "scale", "update_config", "scaling_rule", "autoscale", "remove", "read", "watcher", "adaptor")
# Without these a playbook does its work, and warns.
OPTIONAL = {
    ("get", "", "nodes"),
    ("list", "", "nodes"),
    ("create", "", "events"),
    ("list", "", "events"),
    ("list", "apps", "statefulsets"),
    ("delete", "coordination.k8s.io", "leases"),
    ("create", "apps", "controllerrevisions"),
    ("delete", "apps", "controllerrevisions"),
    ("list", "apps", "controllerrevisions"),
}
# The same, of one playbook alone.
OPTIONAL_IN = {("autoscale", Right("list", "apps", "deployments"))}
# Without one of these, nothing has changed yet.
READING = ("get", "list")
NUMBERS = itertools.count(1)

SCALED_OBJECTS = {
    "metadata": {"name": "scaledobjects.keda.sh"},
    "spec": {
        "group": "keda.sh",
        "scope": "Namespaced",
        "names": {"plural": "scaledobjects", "singular": "scaledobject", "kind": "ScaledObject"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}

# What is optional elsewhere and needed here: allow_restart has to know what runs, and the rights of the service's controller can only
# be given on by somebody who has them, as can those of the watcher.
NEEDED = {("read", "statefulsets"), ("deploy", "statefulsets"), ("deploy", "nodes")}
NEEDED |= {("adaptor", "leases")}
NEEDED |= {("watcher", resource) for resource in ("nodes", "events", "leases", "controllerrevisions")}


class Stage:
    """A cluster with KEDA's kind, on which scenes are played by users with exactly the rights of a manifest, or one less."""

    def __init__(self, cluster: Cluster, proxy: FaultProxy) -> None:
        self.cluster, self._proxy = cluster, proxy
        self._ready: dict[Scene, Driver] = {}
        self._uses: dict[str, dict[Scene, set[Right]]] = {}

    def driver(self, scene: Scene) -> Driver:
        """A service that is ready for the scene; the same one until it is `used`."""
        if scene not in self._ready:
            namespace = self.cluster.create_namespace(f"rights-{next(NUMBERS)}")
            in_jobs = scene.backend == "ascend_jobs"
            driver = (
                JobDriver(self.cluster, self._proxy, namespace) if in_jobs else Driver(self.cluster, self._proxy, namespace, scene.backend)
            )
            scene.prepare(driver)
            self._ready[scene] = driver
        return self._ready[scene]

    def used(self, scene: Scene) -> None:
        """The service is not any more what the scene starts from."""
        driver = self._ready.pop(scene)
        self.cluster.request("DELETE", f"/api/v1/namespaces/{driver.namespace}")

    def user(self, driver: Driver, held: list[Right]) -> tuple[str, str]:
        """Name and kubeconfig of a new user with these rights, which the server knows by now."""
        name = f"user-{next(NUMBERS)}"
        for cluster in (True, False):
            rules = [right.rule for right in held if right.cluster is cluster]
            kubeconfig = self.cluster.user_kubeconfig(name, rules, None if cluster else driver.namespace)
        self._await(driver, name, held)
        return name, kubeconfig

    def grant(self, driver: Driver, name: str, right: Right, held: list[Right]) -> None:
        """Give a user one more right."""
        kind, scope = (CLUSTER_ROLE, "") if right.cluster else (ROLE, f"/namespaces/{driver.namespace}")
        body = {"metadata": {"name": name}, "rules": [one.rule for one in [*held, right] if one.cluster is right.cluster]}
        path = f"/apis/{RBAC}{scope}/{kind.lower()}s/{name}"
        if self.cluster.request("GET", path)[0] == 404:  # it was the only right of this kind, so that nothing is bound yet
            self.cluster.user_kubeconfig(name, body["rules"], None if right.cluster else driver.namespace)
        else:
            status, answer = self.cluster.request("PUT", path, body)
            assert status == 200, answer
        self._await(driver, name, [right])

    def _await(self, driver: Driver, name: str, held: list[Right]) -> None:
        """RBAC reaches the server's caches a moment after it was written."""
        for one in {right.cluster: right for right in held}.values():
            wait_for(lambda one=one: self._allowed(driver, name, one), 30, f"the rights of {name}")

    def _allowed(self, driver: Driver, user: str, right: Right) -> bool:
        attributes = {"verb": right.verb, "group": right.group, "resource": right.resource}
        spec = {"user": user, "resourceAttributes": {**attributes, **({} if right.cluster else {"namespace": driver.namespace})}}
        answer = self.cluster.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})[1]
        return bool(answer["status"]["allowed"])

    def uses(self, playbook: str) -> dict[Scene, set[Right]]:
        """What each scene of a playbook uses. Each is played by a user with all rights of the manifest, so they are enough."""
        if playbook not in self._uses:
            self._uses[playbook] = {scene: self._play(scene) for scene in SCENES if scene.playbook == playbook}
        return self._uses[playbook]

    def _play(self, scene: Scene) -> set[Right]:
        driver = self.driver(scene)
        dummy, kubeconfig = self.user(driver, rights.of_manifest(scene.playbook))
        with FaultProxy(self.cluster, kubeconfig=kubeconfig) as proxy:
            outcome = scene.act(driver, proxy.kubeconfig)
            assert not outcome.get("failed"), f"{scene.playbook}, {scene.name} with every right of the manifest: {outcome['msg']}"
            used = rights.of_requests(proxy.requests)
        if any(right.verb not in READING for right in used):
            self.used(scene)
        return used

    def scenes(self, playbook: str, right: Right) -> list[Scene]:
        """The first scene that uses the right. None uses what is only held to be given on: then all of them."""
        uses = self.uses(playbook)
        exact = [scene for scene, used in uses.items() if right in used]
        anywhere = [scene for scene, used in uses.items() if right.what in {one.what for one in used}]
        return (exact or anywhere)[:1] or list(uses)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """A cluster of its own: the kinds that it knows decide what is read."""
    operators = {"infer_operator": True, "ascend_operator": True, "sessions": 0.2}
    with Cluster(a2_nodes=8, a3_nodes=80, cpu_nodes=2, **operators) as cluster, FaultProxy(cluster) as proxy:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert cluster.request("POST", path, SCALED_OBJECTS)[0] == 201
        wait_for(lambda: cluster.request("GET", "/apis/keda.sh/v1alpha1/scaledobjects")[0] == 200, 30, "the kind of KEDA")
        yield Stage(cluster, proxy)


def every_right() -> list[Any]:
    return [pytest.param(name, right, id=f"{name}: {right}") for name in PLAYBOOKS for right in rights.of_manifest(name)]


@pytest.mark.parametrize(("playbook", "right"), every_right())
def test_without_one_right_the_message_names_verb_resource_and_namespace(stage: Stage, playbook: str, right: Right) -> None:
    held = [one for one in rights.of_manifest(playbook) if one != right]
    outcomes = []
    for scene in stage.scenes(playbook, right):
        driver = stage.driver(scene)
        name, kubeconfig = stage.user(driver, held)
        outcome = scene.act(driver, kubeconfig)
        complaint = outcome["msg"] if outcome.get("failed") else " ".join(map(str, outcome.get("warnings", ())))
        outcomes.append(f"{scene.name}: {complaint or 'succeeded'}")
        if not complaint:
            stage.used(scene)
            continue
        optional = (right.what in OPTIONAL and (playbook, right.resource) not in NEEDED) or (playbook, right) in OPTIONAL_IN
        assert outcome.get("failed", False) != optional, complaint
        check_complaint(outcome, complaint, right, driver.namespace)
        if right.verb not in READING or outcome.get("changed"):
            stage.grant(driver, name, right, held)
            succeeded(scene.act(driver, kubeconfig))  # with the right that the message asks for, it goes on
            stage.used(scene)
        return
    pytest.fail(f"nothing needs this right: {right} in examples/rbac/{playbook}.yaml ({'; '.join(outcomes)})")


def check_complaint(outcome: dict[str, Any], complaint: str, right: Right, namespace: str) -> None:
    if outcome.get("failed"):
        assert outcome["reason"] == "Forbidden" and outcome["status"] == 403
    assert right.verb in complaint and right.resource in complaint and "orbidden" in complaint
    assert right.cluster or namespace in complaint
    assert "not found" not in complaint and "does not exist" not in complaint and "Traceback" not in complaint
