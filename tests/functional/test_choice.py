# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scale-in: which instances go and why, what is protected, and what is not waited for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cluster.kube_client import wait_for
from tests.functional.conftest import Driver
from tests.functional.test_modules import succeeded
from tests.functional.test_roles import ansible_playbook, holds, play


def removed(result: dict[str, Any]) -> list[tuple[str, int, str, str]]:
    return [(gone["engine_role"], gone["index"], gone["name"], gone["why"]) for gone in succeeded(result)["removed"]]


def deployed(driver: Driver, prefill: int, decode: int = 1) -> set[str]:
    driver.config["motor_deploy_config"].update(p_instances_num=prefill, d_instances_num=decode)
    succeeded(driver.deploy())
    return set(driver.workloads())


def selector(driver: Driver, role: str, index: int) -> dict[str, str]:
    """Labels of the pods of one instance."""
    if driver.backend == "deployments":
        return {"app": driver.name(role, index)}
    return {"infer.huawei.com/instanceset-name": role, "infer.huawei.com/instanceset-index": str(index)}


def pods_of(driver: Driver, role: str, index: int) -> list[str]:
    wanted = selector(driver, role, index).items()
    return [name for name, pod in driver.get("pods", "v1").items() if wanted <= pod["metadata"]["labels"].items()]


def spoil(driver: Driver, role: str, index: int, **behaviour: str) -> None:
    """Let the pods of an instance be as the annotations say, and wait until it is no longer ready."""
    for name in pods_of(driver, role, index):
        driver.cluster.annotate_pod(driver.namespace, name, behaviour)

    def not_ready() -> bool:
        conditions = [pod["status"]["conditions"] for name, pod in driver.get("pods", "v1").items() if name in pods_of(driver, role, index)]
        return all(row["status"] != "True" for found in conditions for row in found if row["type"] == "Ready")

    wait_for(not_ready, 15, f"{role} {index} is not ready")


def test_the_result_says_which_instances_went_and_why(driver: Driver) -> None:
    before = deployed(driver, 4)
    expected = [("prefill", index, driver.name("prefill", index), "highest index") for index in (3, 2)]
    foretold = driver.scale(prefill=2, decode=1, check_mode=True)
    assert removed(foretold) == expected and driver.mutating() == []
    assert removed(driver.scale(prefill=2, decode=1)) == expected
    assert before - set(driver.workloads()) == {driver.name("prefill", 2), driver.name("prefill", 3)}
    assert removed(driver.scale(prefill=2, decode=1)) == []


def test_unhealthy_instances_go_first(on_deployments: Driver) -> None:
    driver = on_deployments
    before = deployed(driver, 4)
    spoil(driver, "prefill", 1, **{"fake/never-ready": "true"})
    gone = removed(driver.scale(prefill=2, decode=1, order="unhealthy_first"))
    assert [row[:3] for row in gone] == [("prefill", 1, "vllm-p1"), ("prefill", 3, "vllm-p3")]
    assert gone[0][3].startswith("not running: ") and gone[1][3] == "highest index"
    assert before - set(driver.workloads()) == {"vllm-p1", "vllm-p3"}

    result = succeeded(driver.scale(prefill=3, decode=1))
    assert next((action["verb"], action["name"]) for action in result["actions"]) == ("create", "vllm-p1"), "the lowest free index comes"
    assert set(driver.workloads()) == before - {"vllm-p3"}


def test_protected_instances_stay(on_deployments: Driver) -> None:
    driver = on_deployments
    before = deployed(driver, 4)
    gone = removed(driver.scale(prefill=2, decode=1, protect={"prefill": [3, 0]}))
    assert [row[1:] for row in gone] == [
        (2, "vllm-p2", "highest index that is not protected"),
        (1, "vllm-p1", "highest index that is not protected"),
    ]
    assert before - set(driver.workloads()) == {"vllm-p1", "vllm-p2"}


@pytest.mark.parametrize(
    ("protect", "reason", "said"),
    [
        ({"prefill": [0, 1]}, "ProtectedInstance", "2 are protected (vllm-p0, vllm-p1)"),
        ({"prefill": [-1]}, "InvalidInput", "integers from 0"),
        ({"prefill": ["0"]}, "InvalidInput", "integers from 0"),
        ({"prefill": [True]}, "InvalidInput", "integers from 0"),
        ({"union": [0]}, "InvalidInput", "this service has no such instances"),
    ],
)
def test_what_cannot_be_protected_is_refused_before_any_write(on_deployments: Driver, protect: Any, reason: str, said: str) -> None:
    driver = on_deployments
    deployed(driver, 2)
    refused = driver.scale(prefill=1, decode=2, protect=protect)
    assert refused["failed"] and refused["reason"] == reason and said in refused["msg"]
    assert driver.proxy.mutating() == []


def test_a_set_honours_protection_of_what_it_would_keep_anyway(on_set: Driver) -> None:
    driver = on_set
    before = deployed(driver, 3)
    gone = removed(driver.scale(prefill=2, decode=1, protect={"prefill": [0, 1]}))
    assert [row[:3] for row in gone] == [("prefill", 2, "vllm-0-prefill-2")]
    assert before - set(driver.workloads()) == {"vllm-0-prefill-2"}


def test_what_a_set_cannot_honour_is_refused_naming_what_would_go_instead(on_set: Driver) -> None:
    driver = on_set
    deployed(driver, 3)
    refused = driver.scale(prefill=2, decode=1, protect={"prefill": [2]})
    assert refused["reason"] == "ProtectedInstance" and "vllm-0-prefill-2 would go instead" in refused["msg"]
    spoil(driver, "prefill", 1, **{"fake/never-ready": "true"})
    refused = driver.scale(prefill=2, decode=1, order="unhealthy_first")
    assert refused["reason"] == "OrderNotPossible" and "vllm-0-prefill-2 would go instead" in refused["msg"]
    assert driver.proxy.mutating() == []
    spoil(driver, "prefill", 2, **{"fake/never-ready": "true"})
    gone = removed(driver.scale(prefill=2, decode=1, order="unhealthy_first"))
    assert [row[1] for row in gone] == [2] and gone[0][3].startswith("not running: ")


def test_scaling_in_does_not_wait_for_anybodys_health(driver: Driver) -> None:
    """Neither for that of what goes, nor for that of what stays."""
    deployed(driver, 2)
    driver.cluster.behave(driver.namespace, selector(driver, "prefill", 2), {"fake/never-ready": "true"})
    assert driver.scale(prefill=3, decode=1, wait_timeout=3)["reason"] == "WaitTimeout"
    spoil(driver, "decode", 0, **{"fake/never-ready": "true"})
    result = succeeded(driver.scale(prefill=1, decode=1, wait_timeout=20))
    assert result["service"]["counts"] == {"prefill": 1, "decode": 1}
    assert pods_of(driver, "prefill", 1) == pods_of(driver, "prefill", 2) == []


def test_scaling_in_what_is_pending_ends(driver: Driver) -> None:
    deployed(driver, 1)
    plain = {"app": "vllm-p1"} if driver.backend == "deployments" else {"infer.huawei.com/instanceset-name": "prefill"}
    driver.cluster.behave(driver.namespace, plain, {"fake/image-pull-error": "true"})
    driver.scale(prefill=3, decode=1, wait=False)
    assert succeeded(driver.scale(prefill=1, decode=1, wait_timeout=20))["service"]["counts"] == {"prefill": 1, "decode": 1}


def test_scaling_in_waits_until_the_pods_are_gone(driver: Driver) -> None:
    label = {"app": "vllm-p1"} if driver.backend == "deployments" else {"infer.huawei.com/instanceset-name": "prefill"}
    driver.cluster.behave(driver.namespace, label, {"fake/stop-after": "2s"})
    deployed(driver, 2)
    succeeded(driver.scale(prefill=1, decode=1))
    assert pods_of(driver, "prefill", 1) == []


def test_an_index_is_not_taken_again_while_its_name_is_still_terminating(on_deployments: Driver) -> None:
    driver = on_deployments
    driver.cluster.behave(driver.namespace, {"app": "vllm-p1"}, {"fake/stop-after": "3s"})
    deployed(driver, 2)
    path = f"/apis/apps/v1/namespaces/{driver.namespace}/deployments/vllm-p1"
    (old,) = pods_of(driver, "prefill", 1)
    driver.cluster.request("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"})
    assert driver.get("deployments")["vllm-p1"]["metadata"]["deletionTimestamp"]
    result = succeeded(driver.scale(prefill=2, decode=1))
    assert [action["name"] for action in result["actions"] if action["verb"] == "create"] == ["vllm-p1"]
    assert result["service"]["counts"] == {"prefill": 2, "decode": 1} and old not in pods_of(driver, "prefill", 1)


def test_deploying_with_a_lower_count_honours_the_choice_too(on_deployments: Driver) -> None:
    driver = on_deployments
    deployed(driver, 3)
    result = driver.deploy(driver.with_config("motor_deploy_config", "p_instances_num", value=2), protect={"prefill": [2]})
    assert [row[2] for row in removed(result)] == ["vllm-p1"]


def test_the_role_passes_on_what_may_go(on_deployments: Driver, tmp_path: Path) -> None:
    driver = on_deployments
    deployed(driver, 3)
    variables = {
        "mindie_namespace": driver.namespace,
        "mindie_instances": {"prefill": 2, "decode": 1},
        "mindie_order": "unhealthy_first",
        "mindie_protect": {"prefill": [2]},
        "mindie_wait_idle": {"timeout": 1, "on_timeout": "continue"},
        "mindie_kubeconfig": driver.proxy.kubeconfig,
    }
    seen = holds("motor_scale_result.removed | map(attribute='name') | list == ['vllm-p1']", "motor_scale_result.drained | length == 1")
    done = ansible_playbook(tmp_path, play(["motor_scale"], variables, seen))
    assert done.returncode == 0, done.stdout + done.stderr
