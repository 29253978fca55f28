# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services follow their load: the adaptor as installed, the real controller of HPA, and the real aggregation layer.

The coordinators are played. Whatever a disturbed one shows, its service has nothing to do any more: whoever took that, or a part of the
numbers, for the load, would scale in at the next look, as the policies wait for nothing.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cluster.kube_client import wait_for
from tests.functional.test_modules import succeeded
from tests.support import coordinator as play
from tests.support.autoscaling import API_SERVICE, QUICK, SYNC, Scene, Service, changed, hold, policy, quantity, together
from tests.support.engines import Load

WAITING, TARGET = "num_requests_waiting", 4
BUSY = Load(waiting=12, running=6, kv=0.5, finished=20)
IDLE = Load()
# HPA looks every two seconds; what it does within two looks more is what it does.
LOOKS = 2 * SYNC + 0.5


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with Scene(a3_nodes=60) as running:
        yield running


@pytest.fixture(scope="module")
def services(scene: Scene) -> list[Service]:
    """Services that tests share, with the adaptor for all namespaces; each test leaves them with policies for prefill and decode and no load."""
    made = scene.crowd(2)
    scene.adaptor.install("*")
    for service in made:
        service.coordinator.loads = {"prefill": IDLE, "decode": IDLE}
        succeeded(service.policies(prefill=policy(1, 4), decode=policy(1, 4)))
    return made


@pytest.fixture
def service(services: list[Service]) -> Iterator[Service]:
    """The first one of them, with one instance of each engine role."""
    yield services[0]
    services[0].coordinator.mood = play.FINE
    services[0].coordinator.loads = {"prefill": IDLE, "decode": IDLE}
    succeeded(services[0].policies(prefill=policy(1, 4), decode=policy(1, 4)))
    together(lambda role=role: services[0].until(role, 1) for role in ("prefill", "decode"))


def test_the_load_rises_and_instances_are_added_it_falls_and_they_go_after_the_window(service: Service) -> None:
    window = 5
    succeeded(service.policies(decode=policy(1, 4, window=window)))
    service.coordinator.loads["decode"] = BUSY
    service.until("decode", 3, seconds=SYNC + 8)
    wait_for(lambda: service.coordinator.counts()["decode"] == 3, 5, "and they serve")
    fallen = time.monotonic()
    service.coordinator.loads["decode"] = IDLE
    service.until("decode", 1)
    assert time.monotonic() - fallen >= window - SYNC, "HPA waits until nothing within the window asks for more"


def test_prefill_and_decode_follow_their_own_load(service: Service) -> None:
    service.coordinator.loads["prefill"] = BUSY
    service.until("prefill", 3)
    assert service.count("decode") == 1
    service.coordinator.loads.update(prefill=IDLE, decode=BUSY)
    together([lambda: service.until("prefill", 1), lambda: service.until("decode", 3)])


def test_two_services_of_one_name_in_one_cluster_do_not_mix(service: Service, services: list[Service]) -> None:
    other = services[1]
    service.coordinator.loads["decode"] = BUSY
    service.until("decode", 3)
    time.sleep(LOOKS)
    assert (other.count("decode"), service.count("decode")) == (1, 3)
    assert (service.value(WAITING, "decode"), other.value(WAITING, "decode")) == (12, 0)
    other.coordinator.loads["decode"] = BUSY
    service.coordinator.loads["decode"] = IDLE
    together([lambda: other.until("decode", 3), lambda: service.until("decode", 1)])
    other.coordinator.loads["decode"] = IDLE
    other.until("decode", 1)


def test_the_largest_of_several_metrics_counts_and_nothing_goes_while_one_has_no_value(service: Service) -> None:
    both = [{"name": WAITING, "target": TARGET}, {"name": "vllm:time_per_output_token_seconds_p95", "target": 0.05}]
    at_once = {"steps": [{"type": "Pods", "value": 4, "period": 1}]}
    succeeded(service.policies(decode={"min": 1, "max": 4, "metrics": both, "scale_in": {"window": 0}, "scale_out": at_once}))
    service.coordinator.loads["decode"] = Load(waiting=2, running=8, finished=40, tpot=0.09)
    service.until("decode", 4, seconds=60)
    # Requests run and none of them ends, so that nothing is known of latencies; the requests that wait ask for one instance.
    service.coordinator.loads.update(prefill=Load(finished=10), decode=Load(waiting=2, running=8))
    wait_for(lambda: service.value("time_per_output_token_seconds_p95", "decode") is None, 20, "no latency is known any more")
    hold([(service, "decode")], LOOKS)
    assert service.value(WAITING, "decode") == 2
    service.coordinator.loads["decode"] = IDLE
    service.until("decode", 1)


def test_a_policy_that_is_removed_leaves_the_count_of_that_moment(service: Service) -> None:
    service.coordinator.loads["decode"] = BUSY
    service.until("decode", 3)
    result = succeeded(service.run("motor_scaling_policy", namespace=service.namespace, state="absent", engine_roles=["decode"]))
    assert result["service"]["counts"]["decode"] == 3 and service.scaler("decode") is None
    service.coordinator.loads["decode"] = IDLE
    hold([(service, "decode")], LOOKS)
    assert service.count("decode") == 3
    succeeded(service.scale(decode=2))


def test_scaling_by_hand_is_refused_and_deploying_again_keeps_what_the_load_has_made(service: Service) -> None:
    service.coordinator.loads["decode"] = BUSY
    service.until("decode", 3)
    refused = service.scale(decode=2)
    assert refused["reason"] == "CountOwned" and "vllm-0-decode-scaler" in refused["msg"]
    succeeded(service.deploy())
    again = succeeded(service.deploy())
    assert not again["changed"] and again["service"]["counts"]["decode"] == 3
    debug = changed(service.config, "motor_controller_config", "logging_config", "log_level", value="DEBUG")
    updated = succeeded(service.deploy(user_config_content=debug, allow_restart=True))
    assert updated["changed"] and (updated["service"]["counts"]["decode"], service.count("decode")) == (3, 3)
    service.coordinator.loads["decode"] = Load(waiting=16, running=6)
    service.until("decode", 4)
    assert succeeded(service.deploy(allow_restart=True))["service"]["counts"]["decode"] == 4


def test_nothing_is_scaled_in_when_the_coordinator_shows_the_same_for_ever(service: Service) -> None:
    """It goes on telling what it has collected before an engine published something that it cannot read."""
    window = 10
    succeeded(service.policies(decode=policy(1, 4, window=window)))
    service.coordinator.loads["decode"] = BUSY
    service.until("decode", 3)
    service.coordinator.loads["decode"] = Load(waiting=3, running=3, finished=5)
    wait_for(lambda: service.value(WAITING, "decode") == 3, 10, "what is frozen then")
    service.coordinator.mood = play.FROZEN
    told = service.until_active("decode", "False", window)
    assert "has told the same numbers for" in told
    hold([(service, "decode")], window)


def test_instances_that_still_load_are_no_reason_to_doubt_the_rest(service: Service) -> None:
    """Engines load weights for minutes after their pods run; a load that is unknown all that time would stop every growth."""
    policy_name = service.cluster.behave(service.namespace, {}, {"fake/never-ready": "true"})
    service.coordinator.loads["decode"] = Load(waiting=6, running=6, finished=20)
    wait_for(lambda: service.count("decode") == 2, 20, "one more instance is wanted")
    time.sleep(LOOKS)
    assert service.value(WAITING, "decode") == 6 and service.ready("decode") == 1
    service.cluster.stop_behaving(service.namespace, policy_name)


def test_a_hybrid_service_follows_its_load_and_a_missing_instance_is_seen_though_models_tells_nothing(
    scene: Scene, service: Service
) -> None:
    """Its coordinator never tells how many instances get requests, so what was there is compared with the pods that live."""
    hybrid = scene.service(example="hybrid_infer_service_set")
    hybrid.coordinator.loads = {"union": BUSY}
    succeeded(hybrid.policies(union=policy(1, 3)))
    hybrid.until("union", 3)
    wait_for(lambda: hybrid.coordinator.counts()["union"] == 3, 10, "all of them serve")
    time.sleep(2 * QUICK["interval"])
    hybrid.coordinator.failing = {engine.endpoint.pod for engine in hybrid.coordinator.engines()[:1]}
    hybrid.coordinator.loads = {"union": Load(waiting=3, running=3, finished=5)}
    told = hybrid.until_active("union", "False", 20)
    assert "does not show the union instance of" in told
    hold([(hybrid, "union")], LOOKS)
    hybrid.coordinator.failing = set()
    hybrid.until("union", 1)
    succeeded(service.run("motor_service", namespace=hybrid.namespace, state="absent", wait_timeout=60))


def test_nothing_is_scaled_in_while_the_adaptor_hangs_or_is_dead(scene: Scene, service: Service) -> None:
    service.coordinator.loads["decode"] = BUSY
    service.until("decode", 3)
    scene.adaptor.signal(signal.SIGSTOP)
    service.coordinator.loads["decode"] = IDLE
    hold([(service, "decode")], LOOKS)
    scene.adaptor.signal(signal.SIGKILL)
    service.until_active("decode", "False")
    hold([(service, "decode")], LOOKS)
    scene.adaptor.delete()
    scene.adaptor.settle()
    service.until("decode", 1)


def test_with_one_replica_killed_the_other_one_serves_on(scene: Scene, service: Service) -> None:
    first = scene.adaptor.pods()[:1]
    scene.adaptor.signal(signal.SIGKILL, first)
    service.coordinator.loads["decode"] = BUSY
    hold([(service, "decode")], SYNC)
    scene.adaptor.delete(first)
    service.until("decode", 3)
    scene.adaptor.settle()


def test_nothing_is_scaled_in_while_the_adaptor_starts_again(scene: Scene, service: Service) -> None:
    both = [{"name": WAITING, "target": TARGET}, {"name": "generation_tokens_per_second", "target": 2000}]
    succeeded(service.policies(decode={"min": 1, "max": 4, "metrics": both, "scale_in": {"window": 0}}))
    service.coordinator.loads["decode"] = Load(waiting=1, running=6, finished=30)
    service.until("decode", 3, 60)
    scene.adaptor.signal(signal.SIGKILL)
    scene.adaptor.delete()
    hold([(service, "decode")], SYNC)
    scene.adaptor.settle()
    hold([(service, "decode")], LOOKS)
    status, answer = service.read("motor:generation_tokens_per_second", "decode")
    assert status == 200 and quantity(answer["items"][0]["value"]) == pytest.approx(6000, rel=0.3), answer


def test_settings_change_and_are_known_without_a_gap(scene: Scene, service: Service) -> None:
    service.coordinator.loads["decode"] = BUSY
    service.until("decode", 3)
    done = scene.adaptor.install("*", window=5)
    assert done.results[0]["changed"]
    hold([(service, "decode")], LOOKS)
    assert not scene.adaptor.install("*", window=5).results[0]["changed"]


def test_removed_the_api_goes_first_and_namespaces_can_be_deleted(scene: Scene, service: Service) -> None:
    gone = scene.cluster.create_namespace("soon-gone")
    service.coordinator.loads["decode"] = BUSY
    service.until("decode", 3)
    foretold = scene.adaptor.play(state="absent", check=True)
    removed = scene.adaptor.remove()
    assert (removed.actions[0]["verb"], removed.actions[0]["kind"]) == ("delete", "APIService") and removed.actions == foretold.actions
    scene.cluster.request("DELETE", f"/api/v1/namespaces/{gone}")
    wait_for(lambda: scene.cluster.request("GET", f"/api/v1/namespaces/{gone}")[0] == 404, 20, "the namespace is gone")
    hold([(service, "decode")], LOOKS)
    assert scene.cluster.request("GET", API_SERVICE)[0] == 404
    assert not scene.adaptor.remove().results[0]["changed"]
    succeeded(service.run("motor_scaling_policy", namespace=service.namespace, state="absent", wait_timeout=60))
    assert json.loads(service.cluster.get(f"/api/v1/namespaces/{service.namespace}/configmaps/motor-config")["data"]["user_config.json"])[
        "motor_deploy_config"
    ]["d_instances_num"] == service.count("decode")
    scene.adaptor.install("*")


# What is wrong with a coordinator, and the reason that HPA is given for it.
DISTURBANCES: dict[str, tuple[str, Callable[[Scene, Service], Any]]] = {
    "stopped": ("Unreachable", lambda scene, service: scene.stage.stop(service.coordinator)),
    "one endpoint does not answer": ("Partial", lambda scene, service: service.coordinator.failing.add(engine_pods(service)[0])),
    "half of them do not answer": ("Partial", lambda scene, service: service.coordinator.failing.update(engine_pods(service)[::2])),
    **{
        mood: (reason, lambda scene, service, mood=mood: setattr(service.coordinator, "mood", mood))
        for mood, reason in {
            play.EMPTY: "Empty",
            play.GARBAGE: "Unreadable",
            play.TRUNCATED: "Unreadable",
            play.CUT: "Truncated",
            play.HUGE: "TooLarge",
            play.ENDLESS: "TooLarge",
            play.SILENT: "TooSlow",
            play.SLOW: "TooSlow",
            play.FAILING: "HttpError",
            play.MOVED: "HttpError",
        }.items()
    },
}


def engine_pods(service: Service) -> list[str]:
    return [engine.endpoint.pod for engine in service.coordinator.engines() if engine.endpoint.engine_role == "decode"]


def test_nothing_is_scaled_in_when_the_load_is_not_known_whatever_is_wrong(scene: Scene, services: list[Service]) -> None:
    """All disturbances at once, each of a service of its own."""
    crowd = dict(zip(DISTURBANCES, scene.crowd(len(DISTURBANCES)), strict=True))
    for one in crowd.values():
        one.coordinator.loads = {"prefill": IDLE, "decode": BUSY}
        succeeded(one.policies(decode=policy(1, 3)))
    together(lambda one=one: one.until("decode", 3, 60) for one in crowd.values())
    for name, one in crowd.items():
        DISTURBANCES[name][1](scene, one)
        one.coordinator.loads["decode"] = Load(waiting=3, running=3, finished=5)
    decode = [(one, "decode") for one in crowd.values()]
    hold(decode, QUICK["stale_after"])
    told = together(lambda one=one: one.until_active("decode", "False", 20) for one in crowd.values())
    assert all("external.metrics.k8s.io" in text or "external metric" in text for text in told)
    hold(decode, LOOKS)
    answers = {name: one.read(WAITING, "decode") for name, one in crowd.items()}
    assert {status for status, dummy in answers.values()} == {503}, answers
    reasons = {name: answer["details"]["causes"][0]["reason"] for name, (dummy, answer) in answers.items()}
    assert reasons == {name: reason for name, (reason, dummy) in DISTURBANCES.items()}
    for one in crowd.values():
        one.coordinator.mood = play.FINE
        one.coordinator.failing.clear()
    scene.stage.start(crowd["stopped"].coordinator)
    together(lambda one=one: one.until("decode", 1, 40) for one in crowd.values())
