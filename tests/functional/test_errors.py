# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad input and bad surroundings give one clear error, and nothing is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._cluster import retry
from tests.cluster import Cluster
from tests.cluster.fault_proxy import BEFORE
from tests.functional.conftest import RELEASE, Driver
from tests.support.modules import run_module

DEPLOY = "motor_deploy_config"


def with_key(config: dict[str, Any], path: str, token: str) -> str:
    """The config as text, the value at `path` replaced by a JSON token (so that 1e1 or a full-width digit stay as they are)."""
    marker = "@@@"
    *parents, last = path.split(".")
    section = config
    for key in parents:
        section = section.setdefault(key, {})
    section[last] = marker
    return json.dumps(config, indent=2).replace(f'"{marker}"', token)


COUNT = f"{DEPLOY}.p_instances_num"


@pytest.mark.parametrize(
    ("path", "token", "names"),
    [
        (COUNT, "0", COUNT),
        (COUNT, "17", COUNT),
        (COUNT, "2.9", COUNT),
        (COUNT, "true", COUNT),
        (COUNT, '"２"', COUNT),
        (COUNT, "1e1", COUNT),
        (COUNT, "null", COUNT),
        (f"{DEPLOY}.d_instances_num", '"2"', f"{DEPLOY}.d_instances_num"),
        (f"{DEPLOY}.hardware_type", '"900X"', f"{DEPLOY}.hardware_type"),
        (f"{DEPLOY}.deploy_mode", '"multi"', f"{DEPLOY}.deploy_mode"),
        (f"{DEPLOY}.job_id", '"Not_A_Label"', f"{DEPLOY}.job_id"),
        (f"{DEPLOY}.job_id", f'"{"a" * 60}"', f"{DEPLOY}.job_id"),
        (f"{DEPLOY}.job_id", '"x; touch /tmp/y"', f"{DEPLOY}.job_id"),
        (f"{DEPLOY}.image_name", '""', f"{DEPLOY}.image_name"),
        (f"{DEPLOY}.hybrid_instances_num", "1", DEPLOY),
    ],
)
def test_a_bad_value_is_named_with_its_place(on_deployments: Driver, path: str, token: str, names: str) -> None:
    text = with_key(on_deployments.config, path, token)
    failed = on_deployments.deploy(user_config_content=text)
    assert failed["failed"] and failed["reason"] == "InvalidInput"
    assert names in failed["msg"] and "line " in failed["msg"] and "column " in failed["msg"]
    assert failed["line"] >= 1 and failed["column"] >= 1
    assert on_deployments.proxy.mutating() == [] and "Traceback" not in json.dumps(failed)


@pytest.mark.parametrize("key", ["p_instances_num", "d_instances_num", "job_id", "image_name", "hardware_type"])
def test_a_missing_key_is_named(on_deployments: Driver, key: str) -> None:
    del on_deployments.config[DEPLOY][key]
    failed = on_deployments.deploy()
    assert failed["failed"] and f"{DEPLOY}.{key}" in failed["msg"]
    assert on_deployments.proxy.mutating() == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1,}', "line 1"),
        ('{"a": 1, "a": 2}', "line 1"),
        ("{} {}", "line 1"),
        ('{"a": NaN}', "line 1"),
        ("", "line 1"),
        ("[]", "object"),
    ],
)
def test_broken_json_is_told_with_line_and_column(on_deployments: Driver, text: str, said: str) -> None:
    failed = on_deployments.deploy(user_config_content=text)
    assert failed["failed"] and "user_config_content" in failed["msg"] and said in failed["msg"]


@pytest.mark.parametrize("count", [0, 17, 2.9, True, "2", "２", "2.0"])
def test_counts_of_the_option_are_strict_integers(on_deployments: Driver, count: Any) -> None:
    failed = on_deployments.scale(prefill=count, decode=1)
    assert failed["failed"] and "instances.prefill" in failed["msg"]
    assert on_deployments.proxy.requests == [], "bad input is told before the cluster is asked"


def test_a_full_option_is_needed() -> None:
    failed = run_module("motor_instance_scale", namespace="x")
    assert failed["failed"] and "instances" in failed["msg"]


@pytest.mark.parametrize("option", ["user_config", "env", "release"])
def test_an_unreadable_file_is_named(on_deployments: Driver, tmp_path: Path, option: str) -> None:
    missing = str(tmp_path / "absent")
    content = {"user_config": {"user_config_content": None}, "env": {"env_content": None}, "release": {}}[option]
    failed = on_deployments.deploy(**{option: missing, **content})
    assert failed["failed"] and missing in failed["msg"] and option in failed["msg"]
    assert on_deployments.proxy.mutating() == []


def test_a_release_without_templates_is_named(on_deployments: Driver, tmp_path: Path) -> None:
    failed = on_deployments.deploy(release=str(tmp_path))
    assert failed["failed"] and "release" in failed["msg"] and on_deployments.proxy.mutating() == []


def test_a_new_service_needs_a_release(on_deployments: Driver) -> None:
    failed = on_deployments.deploy(release=None)
    assert failed["failed"] and "release" in failed["msg"] and on_deployments.proxy.mutating() == []


def test_namespace_and_job_id_must_agree(on_deployments: Driver) -> None:
    failed = on_deployments.deploy(namespace="another")
    assert failed["failed"] and "another" in failed["msg"] and on_deployments.proxy.requests == []


@pytest.mark.parametrize("module", ["motor_instance_scale", "motor_config_baseline"])
def test_a_service_that_is_not_deployed(on_deployments: Driver, module: str) -> None:
    options = {"instances": {"prefill": 1, "decode": 1}} if module == "motor_instance_scale" else {}
    failed = on_deployments.run(module, user_config_content=on_deployments.config, **options)
    assert failed["reason"] == "NotDeployed" and on_deployments.namespace in failed["msg"]
    assert on_deployments.proxy.mutating() == []


def test_a_missing_namespace(driver: Driver) -> None:
    driver.config[DEPLOY]["job_id"] = "mindie-nowhere"
    failed = driver.deploy()
    assert failed["reason"] == "NamespaceMissing" and "mindie-nowhere" in failed["msg"] and "create_namespace" in failed["msg"]
    assert driver.proxy.mutating() == []


def test_a_terminating_namespace(on_deployments: Driver) -> None:
    driver = on_deployments
    path = f"/api/v1/namespaces/{driver.namespace}"
    held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    assert driver.cluster.request("POST", f"{path}/configmaps", held)[0] == 201
    driver.cluster.request("DELETE", path)
    try:
        failed = driver.deploy()
        assert failed["reason"] == "NamespaceTerminating" and driver.proxy.mutating() == []
    finally:
        body = {"metadata": {"finalizers": None}}
        driver.cluster.request("PATCH", f"{path}/configmaps/held", body, content_type="application/merge-patch+json")


@pytest.fixture(scope="module")
def plain_cluster() -> Any:
    """A cluster without any CRD."""
    with Cluster(a2_nodes=0, a3_nodes=1, cpu_nodes=0) as running:
        running.create_namespace("mindie-plain")
        yield running


def test_a_missing_crd_is_named(plain_cluster: Cluster, driver: Driver) -> None:
    if driver.backend == "deployments":
        driver.config[DEPLOY]["deploy_mode"] = "infer_service_set"
    driver.config[DEPLOY]["job_id"] = "mindie-plain"
    failed = driver.deploy(kubeconfig=plain_cluster.kubeconfig)
    assert failed["reason"] == "KindMissing" and "InferServiceSet" in failed["msg"] and "CRD" in failed["msg"]
    assert {each["metadata"]["name"] for each in plain_cluster.get("/api/v1/namespaces/mindie-plain/configmaps")["items"]} == {
        "kube-root-ca.crt"
    }


def wrong_token(cluster: Cluster) -> str:
    return cluster.wrong_token_kubeconfig()


def wrong_ca(cluster: Cluster) -> str:
    return cluster.wrong_ca_kubeconfig()


def no_rights(cluster: Cluster) -> str:
    return cluster.user_kubeconfig("nobody")


def nothing_listens(cluster: Cluster) -> str:
    return cluster.write_kubeconfig("kubeconfig-nothing", server="https://127.0.0.1:1")


@pytest.mark.parametrize(
    "module", ["motor_service", "motor_service_info", "motor_instance_scale", "motor_config_baseline", "motor_config_baseline_info"]
)
@pytest.mark.parametrize(
    ("kubeconfig", "status", "said"),
    [
        (wrong_token, 401, "Unauthorized"),
        (no_rights, 403, "nobody"),
        (nothing_listens, None, "refused"),
        (wrong_ca, None, "ertificate"),
    ],
)
def test_a_server_that_cannot_be_used(
    on_deployments: Driver, module: str, kubeconfig: Callable[[Cluster], str], status: int | None, said: str
) -> None:
    options: dict[str, Any] = {"namespace": on_deployments.namespace}
    if module == "motor_instance_scale":
        options["instances"] = {"prefill": 1, "decode": 1}
    elif module not in ("motor_service_info", "motor_config_baseline_info"):
        options["user_config_content"] = on_deployments.config
    if module == "motor_service":
        options["release"] = str(RELEASE)
    failed = on_deployments.run(module, **options, kubeconfig=kubeconfig(on_deployments.cluster))
    assert failed["failed"] and failed["msg"].startswith("Cannot ") and said in failed["msg"]
    assert failed.get("status") == status
    assert "not found" not in failed["msg"] and "Traceback" not in failed["msg"] and "exception" not in failed


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "absent")
    failed = run_module("motor_service_info", namespace="x", kubeconfig=missing)
    assert failed["reason"] == "NoConfiguration" and missing in failed["msg"]


def test_another_user_is_played_with_all_the_groups_that_are_given(on_deployments: Driver) -> None:
    def read(*groups: str) -> dict[str, Any]:
        return on_deployments.run("motor_service_info", namespace="x", impersonate_user="jane", impersonate_groups=list(groups))

    failed = read("readers", "writers")
    assert failed["status"] == 403 and 'User "jane"' in failed["msg"]
    for groups in (("system:masters", "readers"), ("readers", "system:masters")):
        assert not read(*groups).get("failed")


LATER: dict[str, dict[str, Any]] = {"401": {"status": 401}, "403": {"status": 403}, "lost connections": {"drop": BEFORE}}


@pytest.mark.parametrize("fault", list(LATER))
@pytest.mark.parametrize("module", ["motor_service_info", "motor_instance_scale", "motor_config_baseline_info"])
def test_a_read_that_fails_later_is_never_taken_for_absence(
    on_deployments: Driver, monkeypatch: pytest.MonkeyPatch, module: str, fault: str
) -> None:
    """The first requests are answered; then one kind after the other cannot be read."""
    driver = on_deployments
    assert not driver.deploy(wait=False).get("failed")
    monkeypatch.setattr(retry, "SECONDS", 0.5)
    options = {"instances": {"prefill": 1, "decode": 1}} if module == "motor_instance_scale" else {}
    for kind in ("configmaps", "leases", "pods", "deployments", "horizontalpodautoscalers"):
        planted = driver.proxy.fault(path=f"/{kind}", **LATER[fault])
        failed = driver.run(module, namespace=driver.namespace, **options)
        driver.proxy.heal()
        assert planted.seen and failed["failed"] and failed["msg"].startswith("Cannot ") and driver.proxy.mutating() == []
        assert "not found" not in failed["msg"] and "does not exist" not in failed["msg"] and "Traceback" not in failed["msg"]
        assert failed["reason"] not in ("NotFound", "NotDeployed", "KindMissing")
