# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the adaptor finds services and the pods that live, on a real control plane."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from urllib.parse import urlsplit

from metrics_adaptor.finder import Finder

from ansible_collections.ascend.mindie.plugins.module_utils._cluster.client import connect_program
from tests.cluster.kube_client import wait_for
from tests.functional.conftest import EXAMPLES, Driver
from tests.functional.test_modules import succeeded


@contextlib.contextmanager
def finding(driver: Driver, *namespaces: str) -> Iterator[Finder]:
    finder = Finder(connect_program(driver.cluster.kubeconfig), namespaces)
    try:
        wait_for(lambda: finder.synced, 10, "the services are listed")
        yield finder
    finally:
        finder.stop()


def deployed(driver: Driver, **counts: int) -> None:
    driver.config["motor_deploy_config"].update(**counts)
    succeeded(driver.deploy(release=str(EXAMPLES / "release-2026-07")))


def test_a_service_is_found_where_its_coordinator_answers_and_is_gone_when_it_is_removed(on_set: Driver) -> None:
    with finding(on_set, on_set.namespace, "elsewhere") as finder:
        assert finder.services() == []
        deployed(on_set, p_instances_num=1, d_instances_num=1)
        wait_for(lambda: finder.changed.is_set() and finder.services(), 10, "it is heard of")
        (service,) = finder.services()
        assert service.key == (on_set.namespace, "vllm-0") and set(service.served) == {"prefill", "decode"}
        live = on_set.get("services", "v1")
        for url in (urlsplit(service.metrics_url), urlsplit(service.models_url)):
            name, namespace, kind = str(url.hostname).split(".")
            assert (namespace, kind) == (on_set.namespace, "svc")
            assert url.port in [row["port"] for row in live[name]["spec"]["ports"]]
        succeeded(on_set.remove())
        wait_for(lambda: not finder.services(), 10, "it is gone")


def test_services_of_all_namespaces_are_found_and_of_others_none(on_set: Driver) -> None:
    deployed(on_set, p_instances_num=1, d_instances_num=1)
    with finding(on_set, "*") as everywhere, finding(on_set, "elsewhere") as elsewhere:
        assert (on_set.namespace, "vllm-0") in [service.key for service in everywhere.services()]
        assert elsewhere.services() == []
        wait_for(lambda: everywhere.pods(on_set.namespace), 10, "its pods are known")
        assert elsewhere.pods(on_set.namespace) is None, "nothing is known of a namespace that is not watched"


def test_the_user_config_counts_as_soon_as_it_is_written(on_set: Driver) -> None:
    deployed(on_set, p_instances_num=1, d_instances_num=1)
    with finding(on_set, on_set.namespace) as finder:
        wait_for(lambda: finder.services()[0].collection == 4.0, 10, "the user config is read")
        changed = on_set.motor_config()
        changed["data"]["user_config.json"] = '{"motor_deploy_config": {"tls_config": {"mgmt_tls_config": {"enable_tls": true}}}}'
        path = f"/api/v1/namespaces/{on_set.namespace}/configmaps/motor-config"
        assert on_set.cluster.request("PUT", path, changed)[0] == 200
        wait_for(lambda: finder.services()[0].metrics_url.startswith("https:"), 10, "it is read again")


def test_pods_that_end_live_no_more(on_set: Driver) -> None:
    deployed(on_set, p_instances_num=2, d_instances_num=1)
    with finding(on_set, on_set.namespace) as finder:

        def live() -> set[str]:
            pods = on_set.get("pods", "v1").values()
            return {pod["status"]["podIP"] for pod in pods if pod["status"].get("podIP") and "deletionTimestamp" not in pod["metadata"]}

        wait_for(lambda: set(finder.pods(on_set.namespace) or ()) == live(), 10, "its pods are known")
        before = finder.pods(on_set.namespace)
        assert before and len(before) >= 5
        succeeded(on_set.scale(prefill=1, decode=1))
        wait_for(lambda: set(finder.pods(on_set.namespace) or ()) == live(), 10, "one has gone")
        after = finder.pods(on_set.namespace)
        assert after is not None and after.items() < before.items(), "the others have been there all the time"
