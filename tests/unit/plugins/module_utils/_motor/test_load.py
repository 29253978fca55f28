# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The load of a service: numbers that are known, and errors where one would be a guess."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import load
from ansible_collections.ascend.mindie.plugins.module_utils._motor.coordinator import routable
from ansible_collections.ascend.mindie.plugins.module_utils._motor.load import Found, History, Limits, NoValue, Scrape
from ansible_collections.ascend.mindie.plugins.module_utils._motor.load_metrics import METRICS
from ansible_collections.ascend.mindie.plugins.module_utils._motor.load_window import Sheets

from .coordinators import Engine, busy, failed, scrape

WAITING = "num_requests_waiting"


def value(name: str, *scrapes: Scrape, role: str = "prefill", **options: object) -> float:
    return load.value(METRICS[name], role, scrapes, **options).value  # type: ignore[arg-type]  # the options of the function


def reason(name: str, *scrapes: Scrape, role: str = "prefill", **options: object) -> str:
    with pytest.raises(NoValue) as refused:
        value(name, *scrapes, role=role, **options)
    assert refused.value.message
    return refused.value.reason


TWO = {"prefill": 2, "decode": 0}
FULL = (
    busy("1.0", waiting=3, running=8, kv_cache_usage_perc=0.4),
    busy("1.1", waiting=1, running=6, kv_cache_usage_perc=0.2),
    busy("2", waiting=4, running=2, kv_cache_usage_perc=0.9),
    busy("3", role="decode", waiting=7, running=7, kv_cache_usage_perc=0.5),
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (WAITING, 8),
        ("num_requests_running", 16),
        ("kv_cache_usage_perc", 0.5),
        ("kv_cache_usage_perc_max", 0.9),
        ("kv_cache_usage_perc_sum", 0.3 + 0.9),
    ],
)
def test_sums_means_and_maxima_are_of_all_endpoints_of_one_engine_role(name: str, expected: float) -> None:
    found = load.value(METRICS[name], "prefill", [scrape(5.0, *FULL)])
    assert found == Found(pytest.approx(expected), 5.0, 2, 3)


def test_engines_that_share_an_endpoint_are_added_up() -> None:
    engine = busy("1", waiting=3)
    assert value(WAITING, scrape(0, engine, replace(engine, numbers={"vllm:num_requests_waiting": 4}))) == 7


def test_other_engines_count_requests_by_other_names() -> None:
    numbers = {"sglang:num_queue_reqs": 2.0, "sglang:num_running_reqs": 3.0, "sglang:token_usage": 0.25}
    shown = scrape(0, Engine(numbers=numbers))
    assert [value(name, shown) for name in (WAITING, "num_requests_running", "kv_cache_usage_perc")] == [2, 3, 0.25]


# --- what is missing is not low load ---


@pytest.mark.parametrize("there", [{"prefill": 2, "decode": 1}, {"prefill": 1, "decode": 1}])
def test_all_routable_instances_have_to_be_there(there: Mapping[str, int]) -> None:
    shown = scrape(0, busy("1", waiting=4), busy("3", role="decode"), routable=there)
    if there["prefill"] == 1:
        assert value(WAITING, shown) == 4
    else:
        assert reason(WAITING, shown) == "Partial"
    assert value(WAITING, shown, role="decode") == 0, "the other engine role is whole"


def test_more_instances_than_are_routable_are_no_fault() -> None:
    assert value(WAITING, scrape(0, *FULL, routable={"prefill": 1, "decode": 1})) == 8


def test_a_number_that_was_whole_counts_until_it_is_stale() -> None:
    history = History(Limits(stale_after=30))
    history.add(scrape(0, *FULL, routable=TWO))
    history.add(scrape(5, busy("2", waiting=4), routable=TWO))
    history.add(failed(10))
    assert history.value(METRICS[WAITING], "prefill", 30) == Found(8, 0, 2, 3)
    with pytest.raises(NoValue) as refused:
        history.value(METRICS[WAITING], "prefill", 30.1)
    assert refused.value.reason == "Unreachable", "the newest look says why"
    with pytest.raises(NoValue) as refused:
        history.value(METRICS[WAITING], "prefill", 41)
    assert refused.value.reason == "Stale"


HYBRID = (busy("1", role="union", waiting=3), busy("2", role="union", waiting=4))
ALIVE = frozenset({"10.0.0.1", "10.0.0.2"})


@pytest.mark.parametrize(
    ("pods", "expected"),
    [(ALIVE, "Partial"), (None, "Partial"), (frozenset({"10.0.0.2"}), 4.0), (frozenset({"10.0.0.1"}), "Partial")],
)
def test_where_nothing_is_said_of_routable_ones_those_that_were_there_have_to_be(
    pods: frozenset[str] | None, expected: float | str
) -> None:
    history = History(Limits(stale_after=5))
    history.add(scrape(0, *HYBRID), ALIVE)
    rest = HYBRID[0] if pods == frozenset({"10.0.0.1"}) else HYBRID[1]
    for at in range(1, 200):  # for as long as it takes
        history.add(scrape(float(at), replace(rest, numbers={**rest.numbers, "vllm:prompt_tokens_total": float(at)})), pods)
    if pods == frozenset({"10.0.0.1"}):
        assert history.value(METRICS[WAITING], "union", 199).value == 3.0
    elif expected == "Partial":
        with pytest.raises(NoValue, match=r"10\.0\.0\.1") as refused:
            history.value(METRICS[WAITING], "union", 199)
        assert refused.value.reason == "Partial"
    else:
        assert history.value(METRICS[WAITING], "union", 199).value == expected


def test_one_instance_that_went_excuses_no_other() -> None:
    looks = [scrape(0, *HYBRID, busy("3", role="union")), scrape(40, HYBRID[1])]
    left = frozenset({"10.0.0.2", "10.0.0.3"})
    assert reason(WAITING, *looks, role="union", pods=left) == "Partial"
    assert value(WAITING, *looks, role="union", pods=frozenset({"10.0.0.2"})) == 4


@pytest.mark.parametrize(("since", "expected"), [(-math.inf, "Partial"), (3.0, "Partial"), (7.0, 4.0)])
def test_the_address_of_a_pod_that_went_may_be_anothers_by_now(since: float, expected: float | str) -> None:
    history = History(Limits(stale_after=5))
    history.add(scrape(5, *HYBRID), ALIVE)
    history.add(scrape(11, HYBRID[1]), {"10.0.0.1": since, "10.0.0.2": 1.0})
    if expected == "Partial":
        with pytest.raises(NoValue, match=r"10\.0\.0\.1"):
            history.value(METRICS[WAITING], "union", 11)
    else:
        assert history.value(METRICS[WAITING], "union", 11).value == expected


def test_an_instance_with_new_numbers_is_the_same_one() -> None:
    again = tuple(replace(engine, instance=f"9{engine.instance}") for engine in HYBRID)
    assert value(WAITING, scrape(0, *HYBRID), scrape(5, *again), role="union", pods=ALIVE) == 7


def test_half_an_instance_is_none() -> None:
    whole = (busy("1.0", role="union"), busy("1.1", role="union"))
    assert reason(WAITING, scrape(0, *whole), scrape(40, whole[0]), role="union", pods=ALIVE, now=40) == "Partial"


def test_an_endpoint_without_the_metric_makes_the_number_unknown() -> None:
    bare = Engine(instance="2", pod_ip="10.0.0.2", numbers={"vllm:num_requests_running": 1.0})
    assert reason(WAITING, scrape(0, busy("1"), bare)) == "Partial"
    assert value("num_requests_running", scrape(0, busy("1"), bare)) == 2


@pytest.mark.parametrize("odd", ["Nan", "+Inf", "-1"])
@pytest.mark.parametrize("name", [WAITING, "kv_cache_usage_perc", "kv_cache_usage_perc_max", "kv_cache_usage_perc_sum"])
def test_what_is_no_measurement_is_no_number(odd: str, name: str) -> None:
    family = METRICS[name].family
    engines = [
        Engine(instance=str(index), pod_ip=f"10.0.0.{index}", numbers={f"vllm:{family}": number}) for index, number in enumerate((0.0, odd))
    ]
    if name == "kv_cache_usage_perc_max" and odd == "-1":
        assert value(name, scrape(0, *engines)) == 0
    else:
        assert reason(name, scrape(0, *engines)) == "NotANumber"


# --- what the coordinator says when it has nothing to say ---


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (scrape(0), "Empty"),
        (Scrape(0, Sheets().make('vllm:num_requests_waiting{model_name="m"} 3.0')), "NotPerEndpoint"),
        (scrape(0, busy("1", role="decode")), "NoInstances"),
        (scrape(0, Engine(numbers={"vllm:kv_cache_usage_perc": 0.5})), "NotPublished"),
        (failed(0, "TooSlow"), "TooSlow"),
        (scrape(0, routable={"prefill": 2, "decode": 2}), "Empty"),
        (scrape(0, busy("1", role="decode"), routable={"prefill": 0, "decode": 1}), "NoInstances"),
        (scrape(0, busy("1", role="decode"), routable={"prefill": 1, "decode": 1}), "Partial"),
    ],
)
def test_no_data_is_an_error_that_says_why(shown: Scrape, expected: str) -> None:
    assert reason(WAITING, shown) == expected


def test_nothing_read_yet_is_an_error() -> None:
    with pytest.raises(NoValue) as refused:
        History().value(METRICS[WAITING], "prefill", 0)
    assert refused.value.reason == "NotYet"


@pytest.mark.parametrize(("seconds", "running", "frozen"), [(60, 1, True), (55, 1, False), (300, 0, False)])
def test_a_busy_service_of_which_nothing_moves_is_frozen(seconds: int, running: int, frozen: bool) -> None:
    looks = [scrape(float(at), busy("1", running=running, waiting=0, tokens=77)) for at in range(0, seconds + 5, 5)]
    if frozen:
        assert reason(WAITING, *looks) == "Frozen"
    else:
        assert value(WAITING, *looks[:-1]) == 0


def test_one_number_that_moves_is_enough() -> None:
    looks = [scrape(float(at), busy("1"), busy("2", role="decode", tokens=at)) for at in range(0, 300, 5)]
    assert value(WAITING, *looks) == 0


def test_what_moves_again_is_not_frozen() -> None:
    looks = [scrape(float(at), busy("1", tokens=max(0, at - 100))) for at in range(0, 110, 5)]
    assert reason(WAITING, *looks[:20]) == "Frozen" and value(WAITING, *looks) == 0


# --- rates ---

RATE = "prompt_tokens_total"


def growing(
    until: int, *speeds: float, step: int = 5, begin: int = 0, start: float = 1000.0, routable: Mapping[str, int] | None = None
) -> list[Scrape]:
    """Looks at engines of which each handles so many tokens per second."""
    return [
        scrape(float(at), *(busy(str(number), tokens=start + speed * at) for number, speed in enumerate(speeds, 1)), routable=routable)
        for at in range(begin, until + 1, step)
    ]


def test_counters_are_served_as_their_rate_over_the_window() -> None:
    assert value(RATE, *growing(60, 100, 20)) == pytest.approx(120)
    jump = [*growing(60, 100), scrape(65, busy("1", tokens=1000 + 6000 + 5000))]
    assert value(RATE, *jump) == pytest.approx((6000 + 5000 - 500) / 60), "the window goes along"


def test_a_counter_with_labels_of_its_own_is_the_sum_of_its_rows_and_each_begins_again_alone() -> None:
    def ended(at: float, stop: float, length: float) -> Scrape:
        labels = 'dp_rank="0",role="prefill",instance_id="1",pod_ip="10.0.0.1"'
        rows = [
            f'vllm:request_success_total{{{labels},finished_reason="{why}"}} {count}' for why, count in (("stop", stop), ("length", length))
        ]
        return Scrape(at, Sheets().make("\n".join(rows)))

    assert value("request_success_total", ended(0, 100, 10), ended(60, 160, 40)) == pytest.approx((60 + 30) / 60)
    assert value("request_success_total", ended(0, 100, 10), ended(60, 30, 40)) == pytest.approx((30 + 30) / 60)


@pytest.mark.parametrize("missing", ["role", "instance_id", "pod_ip"])
def test_a_row_that_names_no_endpoint_is_of_none(missing: str) -> None:
    labels = {"role": "prefill", "instance_id": "1", "pod_ip": "10.0.0.1"}
    row = ",".join(f'{name}="{text}"' for name, text in labels.items() if name != missing)
    assert reason(WAITING, Scrape(0, Sheets().make(f"vllm:num_requests_waiting{{{row}}} 3"))) == "NotPerEndpoint"


def test_half_a_window_has_to_be_known() -> None:
    assert reason(RATE, *growing(25, 100)) == "TooShort"
    assert value(RATE, *growing(30, 100)) == pytest.approx(100)


def test_a_counter_that_begins_again_has_grown_by_what_it_shows() -> None:
    before, after = growing(30, 100), [scrape(float(at), busy("1", tokens=100.0 * (at - 30))) for at in range(35, 65, 5)]
    assert value(RATE, *before, *after) == pytest.approx(100)


def test_instances_that_left_count_for_what_they_did_in_the_window() -> None:
    together, alone = growing(30, 100, 50), growing(60, 100, begin=35)
    assert value(RATE, *together, *alone, pods=frozenset({"10.0.0.1"})) == pytest.approx((6000 + 1500) / 60)


def test_instances_that_came_count_from_when_they_were_seen() -> None:
    first = [scrape(float(at), busy("1", tokens=1000.0 + 100 * at)) for at in range(0, 31, 5)]
    joined = [scrape(float(at), busy("1", tokens=1000.0 + 100 * at), busy("2", tokens=5e6 + 50 * at)) for at in range(35, 61, 5)]
    assert value(RATE, *first, *joined) == pytest.approx((6000 + 50 * 25) / 60)


def test_a_gap_in_what_was_read_loses_nothing() -> None:
    looks = growing(60, 100)
    looks[3:6] = [failed(15), failed(20), failed(25)]
    assert value(RATE, *looks) == pytest.approx(100)


def test_a_window_begins_with_a_scrape_that_shows_all() -> None:
    looks = growing(60, 100, 100, routable=TWO)
    looks[0] = scrape(0, busy("1", tokens=1000), routable=TWO)
    assert value(RATE, *looks) == pytest.approx(200)


def test_a_window_ends_with_the_scrape_that_the_value_is_of() -> None:
    looks = [*growing(60, 100, 100, routable=TWO), scrape(65, busy("1", tokens=1e6), routable=TWO)]
    assert value(RATE, *looks) == pytest.approx(200)


def renumbered(look: Scrape, *numbers: str) -> Scrape:
    """The same look, with the instances of these numbers called otherwise; their addresses stay."""
    assert look.sheet
    rows = zip(look.sheet.table.series, look.sheet.values, strict=True)
    lines = [(f"{one.name}{{{','.join(f'{name}={chr(34)}{label}{chr(34)}' for name, label in one.labels.items())}}}", n) for one, n in rows]
    told = "\n".join(f"{head} {number}" for head, number in lines)
    for number in numbers:
        told = told.replace(f'instance_id="{number}"', f'instance_id="9{number}"')
    return replace(look, sheet=Sheets().make(told))


def rates(*looks: Scrape) -> list[float | str]:
    """What is served after each of them: a number, or why there is none."""
    history, found = History(), list[float | str]()
    for look in looks:
        history.add(look)
        try:
            found.append(round(history.value(METRICS[RATE], "prefill", look.at).value, 6))
        except NoValue as error:
            found.append(error.reason)
    return found


def test_instances_that_are_numbered_anew_have_no_low_rate() -> None:
    """After a restart of the coordinator: what they did during the outage is in no counter of either number."""
    looks = growing(150, 100, 100)
    outage = [failed(float(at)) for at in (65, 70, 75, 80)]
    after = [renumbered(look, "1", "2") for look in looks[17:]]
    found = rates(*looks[:13], *outage, *after)
    assert set(found[6:13]) == {200.0} == {rate for rate in found[13:] if not isinstance(rate, str)}
    assert found[-8:] == [200.0] * 8, "half a window after they are back"


def test_instances_that_are_numbered_anew_one_by_one_have_no_low_rate() -> None:
    looks = growing(150, 100, 100)
    found = rates(*looks[:13], renumbered(looks[13], "1"), *(renumbered(look, "1", "2") for look in looks[14:]))
    assert {rate for rate in found[6:] if not isinstance(rate, str)} == {200.0} == set(found[-11:])


SPEED = "prompt_tokens_per_second"


def fast(at: float, *speeds: float, first: int = 1, routable: Mapping[str, int] | None = None) -> Scrape:
    engines = (
        Engine(instance=str(number), pod_ip=f"10.0.0.{number}", numbers={"motor:prompt_tokens_per_second": speed})
        for number, speed in enumerate(speeds, first)
    )
    return scrape(at, *engines, routable=routable)


def test_rates_of_the_coordinator_are_added_up() -> None:
    assert value(SPEED, fast(0, 10, 20), fast(8, 30, 40)) == 70


def test_the_first_rate_of_a_new_instance_does_not_count() -> None:
    assert reason(SPEED, fast(0, 10, 20)) == "Joining"
    assert value(SPEED, fast(0, 10), fast(8, 30), fast(10, 30, 0)) == 30
    assert value(SPEED, fast(0, 10), fast(8, 30), fast(10, 30, 0), fast(18, 20, 15)) == 35


def test_the_first_rates_after_a_restart_of_the_coordinator_are_no_low_load() -> None:
    two = {"prefill": 2, "decode": 0}
    looks = [fast(0, 100, 100, routable=two), fast(8, 100, 100, routable=two), scrape(13), failed(18), scrape(23)]
    history = History(Limits(stale_after=20))
    for look in [*looks, fast(28, 0, routable={"prefill": 1, "decode": 0})]:
        history.add(look, ALIVE)
    with pytest.raises(NoValue) as refused:
        history.value(METRICS[SPEED], "prefill", 29)
    assert refused.value.reason == "Partial", "who was there has to come back first, whatever is routable"
    history.add(fast(33, 0, 0, routable=two), ALIVE)
    history.add(fast(38, 100, 0, routable=two), ALIVE)
    with pytest.raises(NoValue) as refused:
        history.value(METRICS[SPEED], "prefill", 38)
    assert refused.value.reason == "Joining"
    history.add(fast(41, 100, 100, routable=two), ALIVE)
    assert history.value(METRICS[SPEED], "prefill", 41).value == 200


def test_the_rates_after_any_outage_may_be_first_ones() -> None:
    looks = [fast(0, 100, 100), fast(8, 100, 100), failed(13), fast(18, 0, 0)]
    assert reason(SPEED, *looks, limits=Limits(stale_after=5)) == "Joining"
    assert value(SPEED, *looks, fast(26, 100, 100), limits=Limits(stale_after=5)) == 200


def test_the_first_rate_under_a_new_number_is_none_of_a_new_instance() -> None:
    looks = [fast(0, 100, 100), fast(8, 100, 100), renumbered(fast(13, 0, 100), "1")]
    assert reason(SPEED, *looks, limits=Limits(stale_after=4)) == "Joining"
    assert value(SPEED, *looks) == 200, "the last one holds"
    assert value(SPEED, *looks, renumbered(fast(21, 100, 100), "1"), limits=Limits(stale_after=4)) == 200


def test_who_does_not_come_back_within_a_window_was_lost() -> None:
    two, one = {"prefill": 2, "decode": 0}, {"prefill": 1, "decode": 0}
    looks = [fast(0, 100, 100, routable=two), failed(5), *(fast(float(at), 100 + at, routable=one) for at in range(10, 71, 5))]
    assert reason(SPEED, *looks[:-1], pods=ALIVE) == "Partial"
    assert value(SPEED, *looks, pods=ALIVE) == 170


def test_without_rates_of_the_coordinator_they_are_made_of_counters() -> None:
    assert value(SPEED, *growing(60, 100, 20)) == pytest.approx(120)


# --- latencies ---

P50, MEAN = "time_to_first_token_seconds_p50", "time_to_first_token_seconds_mean"


def took(at: float, *times: Sequence[float], running: float = 1) -> Scrape:
    engines = (
        Engine(
            instance=str(number),
            pod_ip=f"10.0.0.{number}",
            took=tuple(found),
            numbers={"vllm:num_requests_running": running, "vllm:num_requests_waiting": 0},
        )
        for number, found in enumerate(times, 1)
    )
    return scrape(at, *engines)


def test_quantiles_are_those_of_the_window_and_not_of_the_life_of_the_engine() -> None:
    slow, quick = [5.0] * 100, [0.3] * 4
    looks = [took(0, slow, slow), took(60, [*slow, *quick], [*slow, *quick])]
    assert value(P50, *looks) == pytest.approx(0.1 + 0.4 / 2)
    assert value(MEAN, *looks) == pytest.approx(0.3)


def test_a_histogram_that_begins_again_counts_from_zero() -> None:
    looks = [took(0, [5.0] * 100), took(30, [5.0] * 100 + [0.3] * 3), took(60, [0.7] * 5)]
    assert value(P50, *looks) == pytest.approx(0.5 + 0.5 / 5)
    assert value(MEAN, *looks) == pytest.approx((0.9 + 3.5) / 8)


def test_only_bounds_that_all_histograms_have_count() -> None:
    labels = 'dp_rank="0",role="prefill",instance_id="2",pod_ip="10.0.0.2"'

    def mixed(at: float, count: int) -> Scrape:
        mine = "\n".join(Engine(took=(0.3,) * count).lines())
        theirs = "\n".join(
            [
                f'vllm:time_to_first_token_seconds_bucket{{{labels},le="0.5"}} {count}',
                f'vllm:time_to_first_token_seconds_bucket{{{labels},le="0.7"}} {count}',
                f'vllm:time_to_first_token_seconds_bucket{{{labels},le="+Inf"}} {count}',
                f"vllm:time_to_first_token_seconds_count{{{labels}}} {count}",
            ]
        )
        return Scrape(at, Sheets().make(f"{mine}\n{theirs}"))

    assert value(P50, mixed(0, 0), mixed(60, 10)) == pytest.approx(0.25), "half of what lies between 0 and 0.5"


def test_an_idle_service_has_no_latency_and_a_busy_one_without_a_measurement_has_an_unknown_one() -> None:
    assert value(P50, took(0, [5.0], running=0), took(60, [5.0], running=0)) == 0
    assert value(MEAN, took(0, [5.0], running=0), took(60, [5.0], running=0)) == 0
    assert reason(P50, took(0, [5.0]), took(30, [5.0]), scrape(40, busy("1", tokens=1)), took(60, [5.0], running=0)) == "NotMeasured"
    assert reason(P50, took(0, [5.0], running=0), took(30, [5.0], running=1), took(59, [5.0], running=0)) == "NotMeasured"
    silent = [scrape(float(at), Engine(took=(5.0,))) for at in (0, 60)]
    assert reason(P50, *silent) == "NotMeasured", "whether it is idle is not known"


def test_latencies_by_another_name_are_found() -> None:
    looks = [took(0, [0.3]), took(60, [0.3, 0.3])]
    renamed = [
        Scrape(
            look.at,
            Sheets().make("\n".join(Engine(took=(0.3,) * (index + 1)).lines()).replace("time_to_first_token", "inter_token_latency")),
        )
        for index, look in enumerate(looks)
    ]
    assert value("time_per_output_token_seconds_mean", *renamed) == pytest.approx(0.3)


# --- how it goes ---


def test_what_is_wrong_now_is_told_by_engine_role_whatever_still_counts() -> None:
    history = History(Limits(stale_after=30, frozen_after=60))

    def troubles(now: float) -> list[str]:
        found = (history.problem("prefill", now), history.problem("decode", now), history.trouble())
        return [one.reason if one else "" for one in found]

    both = {"prefill": 2, "decode": 1}
    assert troubles(0) == ["NotYet", "NotYet", ""] and history.shown() == {}
    history.add(scrape(0, *FULL, routable=both))
    assert troubles(30) == ["", "", ""] and history.shown() == {"prefill": (2, 3), "decode": (1, 1)}
    assert troubles(31) == ["Stale", "Stale", ""]
    history.add(scrape(5, *FULL[2:], routable=both))
    assert troubles(5) == ["Partial", "", ""] and history.shown() == {"prefill": (1, 1), "decode": (1, 1)}
    history.add(failed(10))
    assert troubles(10) == ["Unreachable", "Unreachable", "Unreachable"] and history.shown() == {}
    history.add(scrape(15))
    assert troubles(15) == ["Empty", "Empty", "Empty"]
    for at in range(20, 85, 5):
        history.add(scrape(float(at), *FULL, routable=both))
    assert troubles(80) == ["Frozen", "Frozen", "Frozen"]


# --- each number is made once ---


def test_a_number_is_made_once_per_scrape(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    compute = History._compute

    def counted(self: History, index: int, metric: object, role: str) -> Found:
        made.append(role)
        return compute(self, index, metric, role)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(History, "_compute", counted)
    history = History()
    for look in growing(60, 100):
        history.add(look)
    for dummy in range(50):
        assert history.value(METRICS[RATE], "prefill", 60).value == pytest.approx(100)
        with pytest.raises(NoValue):
            history.value(METRICS["kv_cache_usage_perc"], "prefill", 60)
    assert len(made) == 1 + 7, "the number once, and that there is none once for each scrape that is not stale"


def test_old_scrapes_are_forgotten() -> None:
    history = History(Limits(window=60, stale_after=30))
    for look in growing(3000, 100):
        history.add(look)
    assert len(history._taken) == 19


# --- recorded answers of a coordinator ---


def recorded(shared_dir: Path, name: str, at: float, models: str = "models-2p2d.json") -> Scrape:
    folder = shared_dir / "upstream" / "metrics"
    counts = routable((folder / models).read_text()) if models else None
    return Scrape(at, Sheets().make((folder / name).read_text()), routable=counts)


PODS = frozenset({"10.77.0.21", "10.77.0.22", "10.77.0.31", "10.77.0.32"})


def test_token_rates_of_recorded_answers_are_those_of_all_endpoints_and_not_the_coordinators_own(shared_dir: Path) -> None:
    looks = [recorded(shared_dir, "dp.prom", 0), recorded(shared_dir, "t30/dp.prom", 30.5)]
    folder = shared_dir / "upstream" / "metrics" / "t30"
    for role, name, true in (
        ("prefill", "prompt_tokens_per_second", 11_000),
        ("decode", "generation_tokens_per_second", 2_200),
        ("decode", "prompt_tokens_per_second", 11_000),
    ):
        found = value(name, *looks, role=role, pods=PODS)
        rows = [
            line
            for line in (folder / "dp.prom").read_text().splitlines()
            if line.startswith(f"motor:{name}{{") and f'role="{role}"' in line
        ]
        own = [line for line in (folder / f"role-{role}.prom").read_text().splitlines() if line.startswith(f"motor:{name}{{")]
        assert found == pytest.approx(sum(float(row.rpartition(" ")[2]) for row in rows))
        assert found == pytest.approx(true, rel=0.02) and float(own[0].rpartition(" ")[2]) < found * 0.6
        assert value(f"{name.removesuffix('_per_second')}_total", *looks, role=role, pods=PODS) == pytest.approx(true, rel=0.1)


def test_recorded_answers_give_the_load_that_was_set(shared_dir: Path) -> None:
    shown = recorded(shared_dir, "dp.prom", 0)
    for role, waiting, running, usage in (("prefill", 8, 24, 0.4), ("decode", 2, 50, 0.6)):
        assert value(WAITING, shown, role=role) == waiting
        assert value("num_requests_running", shown, role=role) == running
        assert value("kv_cache_usage_perc", shown, role=role) == pytest.approx(usage)
    union = recorded(shared_dir, "dp-union.prom", 0, models="")
    assert value(WAITING, union, role="union") == 7 and value("kv_cache_usage_perc_max", union, role="union") == 0.35


# Prefill makes one token per request, so that there is no time between two, and ends none.
OF_DECODE = ("time_per_output_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds")


def test_every_metric_can_be_had_of_recorded_answers(shared_dir: Path) -> None:
    looks = [recorded(shared_dir, "dp.prom", 0), recorded(shared_dir, "t30/dp.prom", 30.5)]
    for name in METRICS:
        for role in ("prefill", "decode"):
            if role == "prefill" and METRICS[name].family in OF_DECODE:
                assert reason(name, *looks, role=role, pods=PODS) == "NotMeasured"
            else:
                assert math.isfinite(value(name, *looks, role=role, pods=PODS)), (name, role)


def test_a_recorded_answer_without_the_instance_of_a_failing_endpoint_is_an_error_and_no_low_number(shared_dir: Path) -> None:
    failing = recorded(shared_dir, "one-endpoint-failing/dp.prom", 40, "one-endpoint-failing/models.json")
    assert reason(WAITING, failing, role="prefill") == "Partial"
    assert value(WAITING, failing, role="decode") == 2
    before = [recorded(shared_dir, "dp.prom", 0), recorded(shared_dir, "t30/dp.prom", 30)]
    for name in METRICS:
        with pytest.raises(NoValue) as refused:
            value(name, *before, failing, role="prefill", pods=PODS, now=65)
        assert refused.value.reason in ("Partial",), name
    unknown = replace(failing, routable=None)
    assert reason(WAITING, *before, unknown, role="prefill", pods=PODS, now=65) == "Partial"
    assert value(WAITING, *before, unknown, role="prefill", pods=PODS - {"10.77.0.21"}, now=65) == 4


@pytest.mark.parametrize(
    ("file", "expected", "words"),
    [
        ("full-no-instances.prom", "Empty", "empty"),
        ("may/metrics.prom", "NotPerEndpoint", "release"),
        ("full.prom", "NotPerEndpoint", "type=dp"),
        ("engine-raw-prefill.prom", "NotPerEndpoint", "type=dp"),
    ],
)
def test_recorded_answers_that_say_nothing_of_endpoints_are_errors_that_say_why(
    shared_dir: Path, file: str, expected: str, words: str
) -> None:
    shown = recorded(shared_dir, file, 0)
    for name in METRICS:
        with pytest.raises(NoValue, match=words) as refused:
            value(name, shown)
        assert refused.value.reason == expected
