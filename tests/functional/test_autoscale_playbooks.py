# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks autoscale, verify_autoscale and deploy with another provider of metrics: policies on, changed and off, and what is told of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.cluster.kube_client import wait_for
from tests.functional.conftest import EXAMPLES, RELEASE, Driver
from tests.functional.test_modules import succeeded
from tests.functional.test_roles import ansible_playbook
from tests.support.external_metrics import ExternalMetrics
from tests.support.playbooks import Outcome, PlaybookFailed, run, services
from tests.tools.environment import ROOT

SCALERS = "autoscaling/v2"
POLICIES = {"prefill": {"min": 1, "max": 4, "metrics": [{"name": "num_requests_waiting", "target": 5}], "scale_in": {"window": 3}}}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster whose API server reaches what serves external metrics."""
    with Cluster(a3_nodes=16, cpu_nodes=1, infer_operator=True, egress=True) as running:
        yield running


@pytest.fixture
def metrics(cluster: Cluster, tmp_path: Path) -> Iterator[ExternalMetrics]:
    with ExternalMetrics(cluster, tmp_path) as serving:
        yield serving
    wait_for(lambda: cluster.request("GET", "/api/v1/namespaces/test-metrics")[0] == 404, 30, "the provider is gone")


def inventory(driver: Driver, **variables: Any) -> dict[str, Any]:
    return services(one={"mindie_namespace": driver.namespace, "mindie_adaptor": "existing", "mindie_wait_timeout": 60, **variables})


def play(driver: Driver, playbook: str, *, check: bool = False, **variables: Any) -> Outcome:
    return run(playbook, inventory(driver, **variables), driver.proxy.kubeconfig, check=check)


def replicas(driver: Driver, role: str = "prefill") -> int:
    return int(driver.get("instancesets", "mindcluster.huawei.com/v1")[f"vllm-0-{role}"]["spec"]["replicas"])


def test_policies_are_set_changed_shown_and_removed_by_playbooks(on_set: Driver, metrics: ExternalMetrics) -> None:
    driver = on_set
    succeeded(driver.deploy())
    metrics.set(driver.namespace, "prefill", "num_requests_waiting", "10")
    predicted = play(driver, "autoscale", check=True, mindie_scaling_policies=POLICIES)
    assert driver.get("horizontalpodautoscalers", SCALERS) == {} and predicted.actions
    done = play(driver, "autoscale", mindie_scaling_policies=json.dumps(POLICIES))
    assert [action["kind"] for action in done.actions] == [action["kind"] for action in predicted.actions]
    assert "vllm-0-prefill-scaler" in driver.get("horizontalpodautoscalers", SCALERS)
    assert play(driver, "autoscale", mindie_scaling_policies=POLICIES).actions == []

    shown = play(driver, "verify_autoscale").results[-1]["autoscaling"]
    assert shown["works"] and shown["provider"]["whose"] == "other" and shown["problems"] == []
    (row,) = shown["engine_roles"]
    assert (row["engine_role"], row["min"], row["max"], row["ready"]) == ("prefill", 1, 4, 2)
    assert row["now"]["count"] == 2 and row["metrics"][0]["value"] == 10.0

    changed = {"prefill": {**POLICIES["prefill"], "min": 3, "max": 6}}
    with pytest.raises(PlaybookFailed, match=r"2 "):
        play(driver, "autoscale", mindie_scaling_policies=changed)
    play(driver, "autoscale", mindie_scaling_policies=changed, mindie_autoscale_outside="scale")
    wait_for(lambda: replicas(driver) == 3, 30, "the minimum is reached")

    off = play(driver, "autoscale", mindie_autoscale_state="absent", mindie_autoscale_engine_roles="prefill")
    assert off.actions and replicas(driver) == 3
    assert driver.get("horizontalpodautoscalers", SCALERS) == {}
    assert play(driver, "autoscale", mindie_autoscale_state="absent").actions == []
    with pytest.raises(PlaybookFailed, match="NoPolicy"):
        play(driver, "verify_autoscale")


def test_a_provider_that_lacks_a_metric_is_told_before_a_policy_is_set(on_set: Driver, metrics: ExternalMetrics) -> None:
    driver = on_set
    succeeded(driver.deploy())
    driver.proxy.clear()
    with pytest.raises(PlaybookFailed, match="there is no value of num_requests_waiting"):
        play(driver, "autoscale", mindie_scaling_policies=POLICIES)
    assert driver.mutating() == []


def test_without_any_provider_verifying_says_what_to_install(on_set: Driver) -> None:
    driver = on_set
    succeeded(driver.deploy())
    play(driver, "autoscale", mindie_scaling_policies=POLICIES, mindie_adaptor="none")
    with pytest.raises(PlaybookFailed, match=r"NoApiService: .*playbook ascend.mindie.adaptor"):
        play(driver, "verify_autoscale")


def test_policies_of_the_inventory_are_applied_when_a_service_is_deployed(on_set: Driver, metrics: ExternalMetrics, tmp_path: Path) -> None:
    driver = on_set
    metrics.set(driver.namespace, "prefill", "num_requests_waiting", "10")
    config = tmp_path / "user_config.json"
    config.write_text(json.dumps(driver.config))
    given = {
        "mindie_user_config": str(config),
        "mindie_env": str(EXAMPLES / "configs" / "infer_service_set" / "env.json"),
        "mindie_release": str(RELEASE),
        "mindie_node_ports": "auto",
        "mindie_scaling_policies": POLICIES,
    }
    # Nothing but the user config says where the service is. Of the services in the inventory, others have no policies.
    here = services(one={"mindie_adaptor": "existing", "mindie_wait_timeout": 60, **given})
    for playbook in ("deploy", "site"):
        predicted = run(playbook, here, driver.proxy.kubeconfig, check=True).actions
        assert "InferServiceSet" in {action["kind"] for action in predicted}, "what is not there yet has no policies to compare"
    run("deploy", here, driver.proxy.kubeconfig)
    assert "vllm-0-prefill-scaler" in driver.get("horizontalpodautoscalers", SCALERS)
    for playbook in ("deploy", "site"):
        assert run(playbook, here, driver.proxy.kubeconfig).actions == []
    here["all"]["children"]["motor_services"]["hosts"]["other"] = {"mindie_namespace": "elsewhere", "mindie_adaptor": "existing"}
    assert run("autoscale", here, driver.proxy.kubeconfig).actions == []


@pytest.mark.parametrize(
    ("playbook", "variables", "said"),
    [
        ("autoscale", {"mindie_scaling_policies": POLICIES}, "mindie_namespace"),
        ("autoscale", {"mindie_namespace": "chat"}, "mindie_scaling_policies"),
        ("verify_autoscale", {}, "mindie_namespace"),
    ],
)
def test_what_the_inventory_does_not_say_is_named(playbook: str, variables: dict[str, Any], said: str) -> None:
    with pytest.raises(PlaybookFailed, match=said):
        run(playbook, services(one={"mindie_adaptor": "none", **variables}), "/dev/null")


def test_what_a_survey_gives_as_text_is_read_as_what_it_stands_for(tmp_path: Path) -> None:
    given = {
        "mindie_adaptor_namespaces": "chat, search",
        "mindie_adaptor_interval": "2.5",
        "mindie_adaptor_largest": "65536",
        "mindie_adaptor_window": "",
        "mindie_adaptor_tls_verify": "false",
        "mindie_scaling_policies": "prefill: {min: 1, max: 2, preset: queue}",
        "mindie_autoscale_engine_roles": "prefill,decode",
        "mindie_load": '{"requests": 5}',
    }
    settings = {"namespaces": ["chat", "search"], "interval": 2.5, "largest": 65536, "port": 8443, "http_port": 8080}
    conditions = [
        f"__motor_autoscale_settings == {settings | {'tls': {'verify': False, 'ca': ''}}}",
        "__motor_autoscale_policies == {'prefill': {'min': 1, 'max': 2, 'preset': 'queue'}}",
        "__motor_autoscale_engine_roles == ['prefill', 'decode']",
        "__motor_autoscale_load == {'requests': 5}",
        "__motor_autoscale_rights | map(attribute='namespace') | list == ['kube-system', 'chat', 'search']",
    ]
    (tmp_path / "user_config.json").write_text('{"motor_deploy_config": {"job_id": "talk"}}')
    done = ansible_playbook(
        tmp_path,
        look(given, *conditions),
        look({"mindie_adaptor_tls_verify": False}, "__motor_autoscale_settings.tls.verify is false"),
        look({"mindie_adaptor_tls_verify": ""}, "__motor_autoscale_settings.tls.verify is true"),
        look({}, "__motor_autoscale_settings.tls.verify is true", "__motor_autoscale_places == []", "__motor_autoscale_policies == {}"),
        look({"mindie_adaptor_namespaces": ["*"]}, "__motor_autoscale_everywhere", "'namespace' not in __motor_autoscale_rights[1]"),
        look({"mindie_namespace": "chat"}, "__motor_autoscale_places == ['chat']"),
        look(
            {"mindie_user_config": str(tmp_path / "user_config.json")},
            "__motor_autoscale_places == ['talk']",
            "__motor_autoscale_service == 'talk'",
        ),
        look({"mindie_user_config_content": {"motor_deploy_config": {"job_id": "talk"}}}, "__motor_autoscale_service == 'talk'"),
    )
    assert done.returncode == 0, done.stdout + done.stderr


def look(variables: dict[str, Any], *conditions: str) -> dict[str, Any]:
    """A play that reads the role's variables and checks what they come to."""
    return {
        "name": "Look at the variables of the role",
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars": variables,
        "vars_files": [str(ROOT / "roles" / "motor_autoscale" / "vars" / "main.yml")],
        "tasks": [{"name": "Look", "ansible.builtin.assert": {"that": list(conditions)}}],
    }


def test_the_adaptor_is_installed_once_in_each_cluster_that_wants_it(tmp_path: Path) -> None:
    """Four services in two clusters, of which one uses another provider."""
    hosts = {
        "a": {"mindie_kubeconfig": "one"},
        "b": {"mindie_kubeconfig": "one"},
        "c": {"mindie_kubeconfig": "two", "mindie_adaptor": "existing"},
        "d": {"mindie_kubeconfig": "two", "mindie_adaptor": "existing"},
        "e": {"mindie_kubeconfig": "three", "mindie_autoscale_state": "absent"},
        "f": {"mindie_kubeconfig": "three"},
    }
    file = tmp_path / "hosts.json"
    file.write_text(json.dumps(services(**hosts)))
    # Playbook adaptor, which removes it, too, asks nobody whether he wants it.
    play = look({}, "__autoscale_clusters == ['a', 'f']", "__autoscale_services == ['e']", "__adaptor_hosts == ['a', 'c', 'e']")
    play.update(hosts="motor_services", vars_files=[str(ROOT / "playbooks" / "vars" / "autoscale.yml")])
    done = ansible_playbook(tmp_path, play, inventory=str(file))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({"interval": 0}, "interval=0"),
        ({"interval": "0.0"}, "interval=0.0"),
        ({"timeout": "fast"}, "timeout=fast"),
        ({"interval": "40"}, "interval=40, window=60"),
        ({"stale_after": 7}, "stale_after=7, timeout=3"),
        ({"http_port": "8443"}, "port=8443, http_port=8443"),
    ],
)
@pytest.mark.parametrize("playbook", ["adaptor", "autoscale"])
def test_numbers_that_the_pods_would_refuse_are_refused_before_they_are_installed(
    playbook: str, numbers: dict[str, Any], said: str
) -> None:
    """Playbook adaptor takes the variables of the services, as autoscale does."""
    given = {f"mindie_adaptor_{name}": value for name, value in {"image": "motor", "namespaces": "chat", **numbers}.items()}
    with pytest.raises(PlaybookFailed, match=said):
        run(playbook, services(one={"mindie_namespace": "chat", **given}), "/dev/null")


def test_an_adaptor_looks_into_the_namespaces_of_the_services_in_its_cluster(tmp_path: Path) -> None:
    (tmp_path / "user_config.json").write_text('{"motor_deploy_config": {"job_id": "talk"}}')
    hosts = {
        "a": {"mindie_kubeconfig": "one", "mindie_namespace": "chat"},
        "b": {"mindie_kubeconfig": "one", "job_id": "search"},
        "c": {"mindie_kubeconfig": "one", "mindie_user_config": str(tmp_path / "user_config.json")},
        "d": {"mindie_kubeconfig": "one", "mindie_context": "other", "mindie_namespace": "batch"},
        "e": {"mindie_kubeconfig": "two", "mindie_namespace": "far"},
    }
    file = tmp_path / "hosts.json"
    file.write_text(json.dumps(services(**hosts)))
    places = {"a": ["chat", "search", "talk"], "d": ["batch"], "e": ["far"]}
    plays = [{**look({}, f"__motor_autoscale_places == {wanted}"), "hosts": host} for host, wanted in places.items()]
    done = ansible_playbook(tmp_path, *plays, inventory=str(file))
    assert done.returncode == 0, done.stdout + done.stderr
