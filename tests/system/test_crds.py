# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CRDs written for the tests accept what the real ones accept: every recorded InferServiceSet, field by field."""

from __future__ import annotations

import copy
import functools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster import Cluster
from tests.cluster.infer_operator import objects
from tests.cluster.kube_client import KubeClient, KubeError, Obj, Resource, wait_for

REPOSITORY = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("MINDIE_SHARED", REPOSITORY.parent / "shared")) / "upstream"
CRDS = Resource("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)
REAL = "real.mindcluster.test"

pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="needs the recorded data of ../shared (MINDIE_SHARED)")


@functools.cache
def recorded() -> dict[str, Obj]:
    """Each InferServiceSet that the existing deployer rendered, by case and step."""
    found = {}
    for path in sorted(SHARED.glob("rendered/*/**/infer_service.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if document and document.get("kind") == "InferServiceSet":
                found[str(path.parent.parent.relative_to(SHARED / "rendered"))] = document
    return found


def install_real(client: KubeClient) -> None:
    """The real CRD of 26.1 beside ours, in another group."""
    path = SHARED / "crds" / "2026-08" / "inferservicesets.mindcluster.huawei.com.yaml"
    crd = yaml.safe_load(path.read_text(encoding="utf-8"))
    crd["metadata"]["name"] = f"inferservicesets.{REAL}"
    crd["spec"]["group"] = REAL
    crd["spec"]["names"]["shortNames"] = ["realiss"]
    crd.pop("status", None)
    client.create(CRDS, crd)

    def served() -> bool:
        try:
            client.request("GET", f"/apis/{REAL}/v1/inferservicesets")
        except KubeError:
            return False
        return True

    wait_for(served, 20, "real CRD served")


@pytest.fixture(scope="module")
def client() -> Iterator[KubeClient]:
    with Cluster(infer_operator=True) as running:
        made = KubeClient.from_kubeconfig(running.kubeconfig)
        install_real(made)
        yield made


def strictly(client: KubeClient, group: str, body: Obj) -> Obj:
    """What the server would store, refusing unknown and duplicate fields."""
    body = copy.deepcopy(body)
    body["apiVersion"] = f"{group}/v1"
    body["metadata"]["namespace"] = "default"
    resource = Resource(body["apiVersion"], "InferServiceSet", "inferservicesets")
    return client.request("POST", resource.path("default") + "?dryRun=All&fieldValidation=Strict", body)


@pytest.mark.parametrize("case", sorted(recorded()) if SHARED.is_dir() else [])
def test_recorded_sets_are_stored_alike_by_our_crds_and_the_real_ones(client: KubeClient, case: str) -> None:
    body = recorded()[case]
    ours = strictly(client, objects.GROUP_VERSION.partition("/")[0], body)
    assert ours["spec"] == strictly(client, REAL, body)["spec"]


def test_fields_of_26_1_are_known_to_both(client: KubeClient) -> None:
    role = {
        "name": "prefill",
        "replicas": 1,
        "priority": 2,
        "workload": {"apiVersion": "apps/v1", "kind": "StatefulSet"},
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
        "scalingPolicy": {"type": "HPA", "spec": {"minReplicas": 1, "anything": {"goes": True}}},
        "spec": {"replicas": 1, "anything": {"goes": True}},
        "services": [{"name": "s", "metadata": {"labels": {"a": "b"}}, "spec": {"ports": [{"port": 1}]}}],
    }
    body = {
        "kind": "InferServiceSet",
        "metadata": {"name": "vllm"},
        "spec": {"replicas": 1, "template": {"schedulingStrategy": {"type": "Priority"}, "roles": [role]}},
    }
    ours = strictly(client, objects.GROUP_VERSION.partition("/")[0], body)
    assert ours["spec"] == strictly(client, REAL, body)["spec"]
    assert ours["spec"]["template"]["roles"][0]["services"][0]["spec"]["ports"] == [{"port": 1, "protocol": "TCP"}]
