# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server in the coordinator's place behaves as the real one was seen to do; each test is one observation."""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support import coordinator as play
from tests.support.coordinator import INFERENCE, MANAGEMENT, METRICS, Coordinator, Stage
from tests.support.engines import Endpoint, Load

PREFILL = [Endpoint("prefill", f"p{index}", f"p{index}-0", f"10.0.0.{20 + index}", rank) for index in (1, 2) for rank in (0, 1)]
DECODE = [Endpoint("decode", f"d{index}", f"d{index}-0", f"10.0.0.{30 + index}") for index in (1, 2)]
BUSY = {
    "prefill": Load(waiting=8, running=24, kv=0.4, finished=11),
    "decode": Load(waiting=2, running=50, kv=0.6, finished=11, generation_tokens=200),
}


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as running:
        yield running


class Asked:
    """One coordinator and a client of it."""

    def __init__(self, stage: Stage, endpoints: list[Endpoint]) -> None:
        self.live = list(endpoints)
        self.coordinator = Coordinator(lambda: self.live, reuse=0.2)
        self.coordinator.loads = dict(BUSY)
        pairs = (pair.split("=127.0.0.1:") for pair in stage.play(self.coordinator).split(","))
        self.ports = {int(port): int(found) for port, found in pairs}

    def get(self, path: str, port: int = METRICS, method: str = "GET", timeout: float = 5) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[port], timeout=timeout)
        try:
            connection.request(method, path, body=b"{}" if method == "POST" else None)
            answer = connection.getresponse()
            return answer.status, answer.read().decode("utf-8", "replace")
        finally:
            connection.close()

    def next(self, view: str = "type=dp") -> str:
        """What the next collection shows."""
        time.sleep(self.coordinator.reuse + 0.01)
        return self.get(f"/metrics?{view}")[1]


@pytest.fixture
def asked(stage: Stage) -> Iterator[Asked]:
    found = Asked(stage, PREFILL + DECODE)
    yield found
    stage.stop(found.coordinator)


def values(text: str, family: str, **labels: str) -> list[float]:
    rows = re.findall(rf"^{re.escape(family)}(?:{{(.*)}})? (\S+)$", text, re.MULTILINE)
    return [float(value) for found, value in rows if all(f'{name}="{wanted}"' in found for name, wanted in labels.items())]


def test_token_rates_are_right_per_endpoint_and_those_of_the_first_one_elsewhere(asked: Asked) -> None:
    for dummy in range(4):
        exact = asked.next()
    rates = values(exact, "motor:generation_tokens_per_second", role="decode")
    assert len(rates) == 2 and sum(rates) == pytest.approx(2200, rel=0.5)
    view = asked.get("/metrics?type=role&role=decode")[1]
    assert values(view, "motor:generation_tokens_per_second") == rates[:1]
    assert values(view, "vllm:num_requests_running") == [50.0], "other numbers are added up"


def test_the_first_collection_after_a_start_has_no_rates(asked: Asked) -> None:
    first = asked.get("/metrics?type=dp")[1]
    assert set(values(first, "motor:prompt_tokens_per_second")) == {0.0}
    assert values(first, "vllm:num_requests_waiting", role="prefill") == [2.0, 2.0, 2.0, 2.0]


def test_one_endpoint_that_does_not_answer_hides_its_whole_instance_while_models_counts_it(asked: Asked) -> None:
    asked.coordinator.failing = {("p1-0", 1)}
    text = asked.next()
    assert values(text, "vllm:num_requests_waiting", role="prefill") == [2.0, 2.0] and 'pod_ip="10.0.0.21"' not in text
    assert json.loads(asked.get("/v1/models", INFERENCE)[1])["data"][0]["p_instances_num"] == 2


def test_no_data_is_an_empty_answer(asked: Asked) -> None:
    asked.live.clear()
    asked.next()
    assert [asked.get(f"/metrics?type={view}") for view in ("dp", "full", "role")] == [(200, "")] * 3
    asked.live.extend(DECODE)
    assert asked.next("type=role&role=hybrid") == "" and asked.next("type=role&role=prefill") == ""
    assert asked.next("type=nonsense") == asked.get("/metrics")[1] != ""


def test_an_instance_that_has_gone_dilutes_the_means_of_the_full_view_alone(asked: Asked) -> None:
    asked.next()
    asked.live[:] = [DECODE[0]]
    assert values(asked.next("type=full"), "vllm:kv_cache_usage_perc") == [pytest.approx(0.6 / 4)]
    assert values(asked.next("type=role&role=decode"), "vllm:kv_cache_usage_perc") == [0.6]


def test_nothing_is_collected_between_two_collections_and_never_again_when_frozen(asked: Asked) -> None:
    before = asked.next()
    assert asked.get("/metrics?type=dp")[1] == before and asked.next() != before
    asked.coordinator.mood = play.FROZEN
    frozen = asked.next()
    assert asked.next() == frozen and asked.get("/health")[0] == 200


def test_models_is_unknown_for_hybrid_services(stage: Stage) -> None:
    found = Asked(stage, [Endpoint("union", "u0", "u0-0", "10.0.0.41", rank) for rank in (0, 1)])
    status, text = found.get("/v1/models", INFERENCE)
    assert status == 503 and "AIGW" in text
    stage.stop(found.coordinator)


def test_each_port_has_its_own_paths(asked: Asked) -> None:
    assert asked.get("/metrics", MANAGEMENT)[0] == asked.get("/metrics", INFERENCE)[0] == asked.get("/v1/models")[0] == 404
    assert asked.get("/metrics", method="POST")[0] == 405 and asked.get("/instance/metrics")[0] == 410
    assert json.loads(asked.get("/readiness", MANAGEMENT)[1])["ready"] is True


def test_completions_wait_for_a_slot_and_are_counted(stage: Stage) -> None:
    found = Asked(stage, PREFILL + DECODE[:1])
    found.coordinator.loads = {}
    found.coordinator.slots, found.coordinator.seconds = 2, 0.6
    started = time.monotonic()
    with ThreadPoolExecutor(5) as pool:
        answers = [pool.submit(found.get, "/v1/chat/completions", INFERENCE, "POST") for dummy in range(5)]
        text = found.next()
        assert (values(text, "vllm:num_requests_running", role="decode"), values(text, "vllm:num_requests_waiting", role="decode")) == (
            [2.0],
            [3.0],
        )
        assert {answer.result()[0] for answer in answers} == {200}
    assert 1.7 < time.monotonic() - started < 5
    stage.stop(found.coordinator)


def test_stopped_it_refuses_connections_and_comes_back_at_its_ports(stage: Stage, asked: Asked) -> None:
    stage.stop(asked.coordinator)
    with pytest.raises(ConnectionRefusedError):
        asked.get("/metrics")
    stage.start(asked.coordinator)
    assert asked.get("/metrics")[0] == 200


def whole(port: int, seconds: float) -> bool:
    """Whether the answer to a GET of the metrics is whole within so many seconds."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    until = time.monotonic() + seconds
    try:
        connection.request("GET", "/metrics?type=dp")
        answer = connection.getresponse()
        while time.monotonic() < until:
            if not answer.read1(65536):
                return not answer.length
    except OSError:
        return False
    finally:
        connection.close()
    return False


@pytest.mark.parametrize("mood", [play.SILENT, play.SLOW, play.CUT, play.ENDLESS])
def test_in_these_moods_there_is_no_whole_answer(asked: Asked, mood: str) -> None:
    assert whole(asked.ports[METRICS], 1)
    asked.coordinator.mood = mood
    assert not whole(asked.ports[METRICS], 0.5)


def test_the_view_per_endpoint_is_written_as_the_recorded_one(asked: Asked, shared_dir: Path) -> None:
    """Every family of ours is there, with the same type, and samples have the same labels in the same order."""
    recorded, ours = (shared_dir / "upstream" / "metrics" / "dp.prom").read_text(), asked.next()

    def shapes(text: str) -> set[str]:
        lines = [re.sub(r'"[^"]*"', '""', line.rsplit(" ", 1)[0]) for line in text.splitlines() if not line.startswith("# HELP")]
        return {line.replace('finished_reason="",', "") for line in lines}

    assert shapes(ours) <= shapes(recorded)
    assert not ours.endswith("\n") and not recorded.endswith("\n")
