# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Idle: what the coordinator's metrics say of an instance, over several looks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import counts, drain, idle
from ansible_collections.ascend.mindie.plugins.module_utils._motor.choice import Choice, WaitIdle
from ansible_collections.ascend.mindie.plugins.module_utils._motor.idle import Load, Reading, Victim, Watched
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import service_state

from . import services

COLLECTION = 4.0
VICTIM = Victim("decode", 1, "vllm-d1", ("10.0.0.1",))


def text(*rows: tuple[str, str, str, float | str, float | str], engine: str = "vllm", stamp: int = 0) -> str:
    """Metrics with a row per endpoint: pod address, instance id, rank, running, waiting."""
    lines = ["# HELP vllm:num_requests_running text", "# TYPE vllm:num_requests_running gauge"]
    for address, instance, rank, running, waiting in rows:
        labels = f'dp_rank="{rank}",role="decode",instance_id="{instance}",pod_ip="{address}",model_name="a \\"b\\" {{c}}"'
        lines += [f"{engine}:num_requests_running{{{labels}}} {running}", f"{engine}:num_requests_waiting{{{labels}}} {waiting}"]
    return "\n".join([*lines, f"vllm:prompt_tokens_total{{}} {stamp}.0"])


def seen(victim: Victim, *looks: tuple[float, str | None]) -> Watched:
    """What is known after these looks."""
    watched = idle.begin([victim])
    for at, found in looks:
        watched = idle.look(watched, Reading(at, found, "no answer"), COLLECTION)
    return watched[0]


QUIET = text(("10.0.0.1", "4", "0", 0.0, 0.0), stamp=1)
QUIET_LATER = text(("10.0.0.1", "4", "0", 0.0, 0.0), stamp=2)
BUSY = text(("10.0.0.1", "4", "0", 2.0, 1.0), stamp=2)


@pytest.mark.parametrize(
    ("looks", "found_idle"),
    [
        ([(0.0, QUIET)], False),
        ([(0.0, QUIET), (3.9, QUIET_LATER)], False),
        ([(0.0, QUIET), (4.0, QUIET_LATER)], True),
        ([(0.0, QUIET), (1.0, QUIET_LATER), (4.0, QUIET_LATER)], True),
        ([(0.0, QUIET), (4.0, QUIET)], False),
        ([(0.0, QUIET), (4.0, QUIET), (12.0, QUIET)], True),
        ([(0.0, QUIET), (2.0, BUSY), (4.0, QUIET_LATER)], False),
        ([(0.0, QUIET), (2.0, BUSY), (4.0, QUIET), (8.0, QUIET_LATER)], True),
        ([(0.0, QUIET), (2.0, None), (4.0, QUIET_LATER)], False),
        ([(0.0, QUIET), (2.0, ""), (4.0, QUIET_LATER)], False),
        ([(0.0, QUIET), (4.0, QUIET_LATER), (5.0, BUSY)], False),
        ([(0.0, QUIET), (4.0, QUIET_LATER), (5.0, None)], False),
        ([(0.0, BUSY), (9.0, BUSY)], False),
        ([(0.0, text(("10.0.0.1", "4", "0", 0.0, 1.0))), (9.0, text(("10.0.0.1", "4", "0", 0.0, 1.0), stamp=9))], False),
    ],
)
def test_idle_is_what_two_collections_in_a_row_say(looks: list[tuple[float, str | None]], found_idle: bool) -> None:
    assert seen(VICTIM, *looks).idle is found_idle


@pytest.mark.parametrize(
    ("shown", "load"),
    [
        (text(("10.0.0.1", "4", "0", 2.0, 1.0)), Load(2, 1)),
        (text(("10.0.0.1", "4", "0", 2.0, 1.0), ("10.0.0.1", "4", "1", 3.0, 0.0)), Load(5, 1)),
        (text(("10.0.0.1", "4", "0", 0.0, 0.0), ("10.0.0.2", "5", "0", 9.0, 9.0)), Load(0, 0)),
        (text(("10.0.0.1", "4", "0", 0.0, 0.0), ("10.0.0.7", "4", "1", 1.0, 0.0)), Load(1, 0)),
        (text(("10.0.0.1", "4", "0", 2.0, 1.0), engine="another_engine"), Load(2, 1)),
        (text(("10.0.0.2", "5", "0", 0.0, 0.0)), None),
        (text(("10.0.0.1", "4", "0", "Nan", 0.0)), None),
        (text(("10.0.0.1", "4", "0", 0.0, 0.0), ("10.0.0.1", "4", "1", "Nan", 0.0)), None),
        (text(("10.0.0.1", "4", "0", 0.0, "+Inf")), None),
        (text(("10.0.0.1", "4", "0", 0.0, "none")), None),
        (QUIET.replace("num_requests_waiting", "num_requests_swapped"), None),
        (QUIET.replace("num_requests_running", "num_requests_running_total"), None),
        ("vllm:num_requests_running 0\nvllm:num_requests_waiting 0", None),
        ("", None),
    ],
)
def test_the_load_of_an_instance_is_that_of_all_its_endpoints_or_unknown(shown: str, load: Load | None) -> None:
    found = seen(VICTIM, (0.0, shown))
    assert found.load == load and (found.problem == "") is (load is not None)


def test_the_requests_of_sglang_are_read_too() -> None:
    shown = 'sglang:num_running_reqs{pod_ip="10.0.0.1"} 1.0\nsglang:num_queue_reqs{pod_ip="10.0.0.1"} 2.0'
    assert seen(VICTIM, (0.0, shown)).load == Load(1, 2)


def test_an_instance_without_a_serving_pod_is_idle_from_the_start() -> None:
    assert idle.begin([Victim("decode", 1, "vllm-d1", ())])[0].idle


def test_what_is_not_known_is_none_in_the_result() -> None:
    found = seen(VICTIM, (0.0, None)).to_dict()
    assert (found["idle"], found["running"], found["waiting"], found["problem"]) == (False, None, None, "no answer")


def test_recorded_answers_of_a_coordinator_are_understood(shared_dir: Path) -> None:
    folder = shared_dir / "upstream" / "metrics"
    shown = (folder / "dp.prom").read_text()
    assert seen(Victim("prefill", 0, "p0", ("10.77.0.22",)), (0.0, shown)).load == Load(10, 4)
    assert seen(Victim("decode", 1, "d1", ("10.77.0.32",)), (0.0, shown)).load == Load(30, 2)
    assert seen(Victim("union", 0, "u0", ("10.77.0.41",)), (0.0, (folder / "dp-union.prom").read_text())).load == Load(21, 7)
    assert seen(Victim("union", 0, "u0", ("10.77.0.41",)), (0.0, (folder / "full-union.prom").read_text())).load is None


def wished(deploy_mode: str = "multi_deployment", **sections: Any) -> idle.IdleWait:
    """What a plan that takes one of two decode instances away waits for."""
    config = services.user_config(prefill=1, decode=2, deploy_mode=deploy_mode, **sections)
    make = (
        services.set_snapshot
        if deploy_mode == "infer_service_set"
        else lambda config, **found: services.snapshot(config, services.running(**found))
    )
    shot = make(config, prefill=1, decode=2)
    for number, pod in enumerate(shot.pods):
        pod["status"]["podIP"] = f"10.0.0.{number}"
    choice = Choice(wait_idle=WaitIdle(30.0, idle.FAIL))
    (step,) = counts.steps(shot, service_state(shot), {"prefill": 1, "decode": 1}, choice=choice)
    assert step.idle
    return step.idle


@pytest.mark.parametrize("mode", ["multi_deployment", "infer_service_set"])
def test_a_plan_waits_for_exactly_the_pods_that_go(mode: str) -> None:
    wish = wished(mode)
    (victim,) = wish.victims
    assert (victim.engine_role, victim.index, len(victim.pod_ips)) == ("decode", 1, 1)
    assert (wish.timeout, wish.on_timeout, wish.collection) == (30.0, "fail", 4.0)


@pytest.mark.parametrize(
    ("mode", "service"),
    [
        ("multi_deployment", "http:mindie-motor-coordinator-obs:1027"),
        ("infer_service_set", "http:mindie-motor-coordinator-obs-vllm-0-coordinator:1027"),
    ],
)
def test_the_metrics_are_asked_where_the_release_has_them(mode: str, service: str) -> None:
    assert wished(mode).service == service


def test_the_configuration_says_how_often_is_collected() -> None:
    assert wished(motor_coordinator_config={"prometheus_metrics_config": {"reuse_time": 15}}).collection == 16.0


@pytest.mark.parametrize(
    ("status", "addresses"),
    [({"phase": "Running", "podIP": "10.0.0.9"}, 1), ({"phase": "Pending"}, 0), ({"phase": "Failed", "podIP": "10.0.0.9"}, 0)],
)
def test_only_pods_that_run_serve_requests(status: dict[str, Any], addresses: int) -> None:
    config = services.user_config(prefill=1, decode=1)
    shot = services.snapshot(config, services.running(prefill=1, decode=1))
    pods = tuple({**pod, "status": status} for pod in shot.pods)
    change = counts.change(service_state(shot), {"prefill": 1, "decode": 0})
    (victim,) = drain.before(
        services.snapshot(config, services.running(prefill=1, decode=1), pods=pods), change.removals, WaitIdle(1.0, "fail")
    ).victims
    assert len(victim.pod_ips) == addresses


def test_nothing_is_waited_for_when_nothing_goes_or_nobody_asked() -> None:
    config = services.user_config(prefill=1, decode=1)
    shot = services.snapshot(config, services.running(prefill=1, decode=1))
    choice = Choice(wait_idle=WaitIdle(30.0, idle.FAIL))
    assert [step.idle for step in counts.steps(shot, service_state(shot), {"prefill": 2, "decode": 1}, choice=choice)] == [None]
    assert [step.idle for step in counts.steps(shot, service_state(shot), {"prefill": 0, "decode": 1})] == [None]
