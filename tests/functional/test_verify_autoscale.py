# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From an inventory to a service that is scaled by its load: adaptor and policies by one playbook, and the proof by another one."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.kube_client import wait_for
from tests.functional import rights
from tests.functional.test_modules import succeeded
from tests.support import coordinator as play
from tests.support.autoscaling import IMAGE, NAME, NAMESPACE, QUICK, Scene, Service, policy
from tests.support.module_process import ModuleProcess
from tests.support.modules import run_module
from tests.support.playbooks import Outcome, PlaybookFailed, run, services

LOAD = {"requests": 60, "concurrency": 12, "watch_timeout": 60}


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with Scene(a3_nodes=24) as running:
        yield running


@pytest.fixture(scope="module")
def service(scene: Scene) -> Service:
    """A service with adaptor and policies, both by the playbook `autoscale` over an inventory of services."""
    made = scene.service()
    made.coordinator.seconds, made.coordinator.slots = 1.0, 2
    scene.adaptor.runner.follow(NAMESPACE, f"app.kubernetes.io/component={NAME}")
    numbers = {f"mindie_adaptor_{name}": value for name, value in QUICK.items()}
    policies = {"decode": policy(1, 3, 2)}
    done = playbook(
        made,
        "autoscale",
        mindie_adaptor_image=IMAGE,
        mindie_adaptor_create_namespace=True,
        mindie_scaling_policies=policies,
        **numbers,
    )
    kinds = [action["kind"] for action in done.actions]
    assert kinds.index("APIService") < kinds.index("InferServiceSet"), "metrics are there before something asks for them"
    scene.adaptor.settle()
    made.until_active("decode", "True")
    return made


def playbook(service: Service, name: str, **variables: Any) -> Outcome:
    hosts = services(one={"mindie_namespace": service.namespace, "mindie_wait_timeout": 60, **variables})
    return run(name, hosts, service.cluster.kubeconfig)


def test_a_second_run_of_the_whole_changes_nothing(service: Service) -> None:
    numbers = {f"mindie_adaptor_{name}": str(value) for name, value in QUICK.items()}
    again = playbook(service, "autoscale", mindie_adaptor_image=IMAGE, mindie_scaling_policies={"decode": policy(1, 3, 2)}, **numbers)
    assert again.actions == []


def test_load_is_sent_and_the_times_of_scaling_are_told(service: Service) -> None:
    done = playbook(service, "verify_autoscale", mindie_load=LOAD)
    shown, load = done.results[-2]["autoscaling"], done.results[-1]["load"]
    assert shown["works"] and shown["provider"]["whose"] == "ours" and shown["provider"]["available"]
    assert shown["engine_roles"][0]["metrics"][0]["value"] == 0.0
    assert (load["sent"], load["failed"], load["outcomes"]) == (60, 0, {"ok": 60})
    decode = next(row for row in load["scaling"] if row["engine_role"] == "decode")
    assert (decode["before"], decode["most"], decode["after"]) == (1, 3, 1)
    assert 0 < decode["first_scale_out"] <= decode["all_ready"] < decode["back_in"]
    assert load["settled"] and 1.0 <= load["latency"]["p50"] <= load["latency"]["longest"]
    text = "\n".join(load["table"])
    assert "60 requests" in text and "decode: from 1 to 3, now 1" in text
    assert load["timeline"][0]["seconds"] == 0.0 and len(str(load)) < 6000


def test_what_would_be_sent_is_told_and_nothing_is_sent_in_check_mode(service: Service) -> None:
    service.coordinator.asked.clear()
    hosts = services(one={"mindie_namespace": service.namespace, "mindie_load": LOAD})
    played = run("verify_autoscale", hosts, service.cluster.kubeconfig, check=True)
    assert played.results[-1]["load"]["sent"] == 0
    done = succeeded(service.run("motor_load", namespace=service.namespace, check_mode=True))
    assert done["load"]["sent"] == 0 and "mindie-motor-coordinator-infer" in done["load"]["to"]
    assert not [path for path in service.coordinator.asked if "completions" in path]


def user(service: Service, name: str, *without: str) -> str:
    """The kubeconfig of somebody with the rights of the manifest, but for those on these resources."""
    held = [right for right in rights.of_manifest("verify_autoscale") if right.resource not in without]
    for cluster in (True, False):
        rules = [right.rule for right in held if right.cluster is cluster]
        kubeconfig = service.cluster.user_kubeconfig(name, rules, None if cluster else service.namespace)

    def allowed() -> bool:
        """RBAC reaches the server's caches a moment after it was written."""
        found = run_module("motor_scaling_policy_info", namespace=service.namespace, kubeconfig=kubeconfig)
        return not found.get("failed")

    wait_for(allowed, 20, f"the rights of {name}")
    return kubeconfig


def test_the_rights_of_the_manifest_are_enough(service: Service) -> None:
    kubeconfig = user(service, "verifier")
    found = succeeded(run_module("motor_scaling_policy_info", namespace=service.namespace, kubeconfig=kubeconfig))
    assert found["autoscaling"]["works"] and found["autoscaling"]["problems"] == [] and not found.get("warnings")
    given = {"namespace": service.namespace, "kubeconfig": kubeconfig, "requests": 2, "grace": 0}
    assert succeeded(run_module("motor_load", **given))["load"]["outcomes"] == {"ok": 2}


def test_what_may_not_be_read_is_not_taken_for_absent(service: Service) -> None:
    found = succeeded(
        run_module("motor_scaling_policy_info", namespace=service.namespace, kubeconfig=user(service, "guest", "apiservices", "*"))
    )
    shown = found["autoscaling"]
    assert shown["provider"]["whose"] == "unknown" and "may not read it" in found["warnings"][0]
    assert [problem["problem"] for problem in shown["problems"]] == ["NotAllowed"]
    assert "orbidden" in shown["problems"][0]["message"]


def test_who_may_not_send_is_told_which_right_it_takes(service: Service) -> None:
    kubeconfig = user(service, "reader", "services/proxy")
    refused = run_module("motor_load", namespace=service.namespace, kubeconfig=kubeconfig, model="m", requests=3)
    assert refused["failed"] and refused["status"] == 403 and "services/proxy" in refused["msg"]


def test_a_signal_ends_the_load_in_order_and_tells_what_was_seen(service: Service) -> None:
    options = {"namespace": service.namespace, "requests": 5000, "concurrency": 4, "kubeconfig": str(service.cluster.kubeconfig)}
    with ModuleProcess("motor_load") as running:
        running.start(**options)
        wait_for(lambda: service.coordinator.running > 0, 20, "requests are under way")
        time.sleep(1.5)
        running.send(signal.SIGTERM)
        result = running.result(20)
    assert result["failed"] and result["reason"] == "Interrupted" and "SIGTERM" in result["msg"]
    assert 0 < result["load"]["sent"] < 5000
    wait_for(lambda: service.coordinator.running + service.coordinator.waiting == 0, 10, "nothing is sent any more")


def test_where_it_does_not_work_the_reason_is_told(service: Service) -> None:
    service.coordinator.mood = play.EMPTY
    try:
        service.until_active("decode", "False")
        with pytest.raises(PlaybookFailed, match=r"MetricUnreadable \(decode num_requests_waiting\): HTTP 503") as failed:
            playbook(service, "verify_autoscale", mindie_load=LOAD)
        assert "nothing is scaled in" in str(failed.value)
    finally:
        service.coordinator.mood = play.FINE
    service.until_active("decode", "True")


def test_the_adaptor_goes_with_its_api_service_first(service: Service, scene: Scene) -> None:
    done = scene.adaptor.remove()
    assert done.actions[0]["kind"] == "APIService"
    with pytest.raises(PlaybookFailed, match="NoApiService"):
        playbook(service, "verify_autoscale")
