# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The load of services against references: quantiles by their definition, windows by the requests themselves, and sums that are never too low."""

from __future__ import annotations

import contextlib
import math
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.ascend.mindie.plugins.module_utils._motor import exposition, load
from ansible_collections.ascend.mindie.plugins.module_utils._motor.exposition import BadExposition
from ansible_collections.ascend.mindie.plugins.module_utils._motor.load import History, Limits, NoValue, Scrape
from ansible_collections.ascend.mindie.plugins.module_utils._motor.load_metrics import METRICS
from ansible_collections.ascend.mindie.plugins.module_utils._motor.load_window import Sheets
from ansible_collections.ascend.mindie.plugins.module_utils._motor.quantiles import histogram_quantile

EXAMPLES = int(os.environ.get("MINDIE_EXAMPLES", "300"))
often = settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))

INF, NAN = math.inf, math.nan


# --- quantiles ---


def reference(quantile: float, buckets: Sequence[tuple[float, int]]) -> float:
    """`histogram_quantile`, word by word as Prometheus' documentation has it, in exact numbers and bucket by bucket."""
    if math.isnan(quantile):
        return NAN
    if quantile < 0 or quantile > 1:
        return -INF if quantile < 0 else INF
    if all(bound != INF for bound, dummy in buckets):
        return NAN
    bounds = sorted({bound for bound, dummy in buckets})
    if len(bounds) < 2:
        return NAN
    upto, highest = [], 0
    for bound in bounds:  # counts of equal bounds belong together, and none may be lower than one before it
        highest = max(highest, sum(count for other, count in buckets if other == bound))
        upto.append(highest)
    if upto[-1] == 0:
        return NAN
    rank = Fraction(quantile) * upto[-1]
    for index, bound in enumerate(bounds):
        if upto[index] < rank:
            continue
        if bound == INF:
            return bounds[-2]
        if index == 0 and bound <= 0:
            return bound
        low, before = (bounds[index - 1], upto[index - 1]) if index else (0.0, 0)
        if upto[index] == before:
            return NAN  # nothing lies here: only the quantile 0 of an empty lowest bucket comes to this
        part = (rank - before) / (upto[index] - before)
        return float(Fraction(low) + (Fraction(bound) - Fraction(low)) * part)
    raise AssertionError("the rank is never above the highest count")


BOUND = st.floats(-5, 50, allow_nan=False).map(lambda number: round(number, 2)) | st.just(INF)
QUANTILE = st.floats(0, 1) | st.sampled_from([0.0, 0.5, 0.9, 0.95, 0.99, 1.0]) | st.floats(allow_nan=True)


@often
@given(QUANTILE, st.lists(st.tuples(BOUND, st.integers(0, 50) | st.integers(0, 10**12)), max_size=12))
def test_quantiles_of_any_buckets_are_those_of_the_definition(quantile: float, buckets: list[tuple[float, int]]) -> None:
    """Without `+Inf`, empty, unordered, twice the same bound, and counts that fall, too."""
    expected = reference(quantile, buckets)
    assert histogram_quantile(quantile, buckets) == pytest.approx(expected, rel=1e-9, abs=1e-9, nan_ok=True)


@often
@given(st.lists(st.integers(0, 30), min_size=1, max_size=8), st.booleans(), QUANTILE)
def test_quantiles_of_proper_histograms_are_those_of_the_definition(counts: list[int], above: bool, quantile: float) -> None:
    buckets = [(float(2**index), sum(counts[: index + 1])) for index in range(len(counts))]
    buckets.append((INF, sum(counts) + above))
    assert histogram_quantile(quantile, buckets) == pytest.approx(reference(quantile, buckets), rel=1e-9, abs=1e-9, nan_ok=True)


# --- what happened in a window ---

FAMILY, BOUNDS = "time_to_first_token_seconds", (0.1, 0.5, 1.0, 5.0)
LABELS = 'dp_rank="{rank}",role="prefill",instance_id="{instance}",pod_ip="10.0.0.{instance}"'


@dataclass
class Process:
    """An engine endpoint with the requests of its present process. `number` is new with each start."""

    instance: int
    rank: int = 0
    number: int = 0
    times: list[float] = field(default_factory=list)

    @property
    def key(self) -> tuple[int, int]:
        return self.instance, self.rank

    def lines(self) -> list[str]:
        labels = LABELS.format(instance=self.instance, rank=self.rank)
        rows = [f'{FAMILY}_bucket{{{labels},le="{bound}"}} {sum(one <= bound for one in self.times)}' for bound in BOUNDS]
        rows += [f'{FAMILY}_bucket{{{labels},le="+Inf"}} {len(self.times)}', f"{FAMILY}_count{{{labels}}} {len(self.times)}"]
        rows += [f"{FAMILY}_sum{{{labels}}} {sum(self.times)!r}", f"prompt_tokens_total{{{labels}}} {len(self.times) * 1000}"]
        return [f"vllm:{row}" for row in (*rows, f"num_requests_running{{{labels}}} 1")]


def lives(seed: int) -> tuple[list[Scrape], list[float]]:
    """Scrapes of engines that handle requests, start again, come and go, and the requests that the scrapes tell of."""
    chance = random.Random(seed)

    def times() -> list[float]:
        return chance.choices([0.05, 0.1, 0.2, 0.4, 0.7, 0.9, 2.0, 4.0, 7.0], k=chance.choice([0, 0, 1, 2, 6]))

    there = {process.key: process for process in (Process(1), Process(1, 1), Process(2))}
    seen: dict[tuple[int, int], tuple[int, int]] = {}
    sheets, scrapes, told = Sheets(), list[Scrape](), list[float]()
    steps = chance.randint(7, 13)
    for step in range(steps):
        if step and chance.random() < 0.1:
            there.pop((chance.randint(1, 3), 0), None)
        if chance.random() < 0.1 or not there:
            there.setdefault((3, 0), Process(3, number=100 + step))
        for process in there.values():
            if step and chance.random() < 0.1:
                process.number, process.times = process.number + 1, []
            process.times.extend(times())
            number, count = seen.get(process.key, (process.number, 0))
            if number != process.number and len(process.times) >= count:
                # A process that has done more than the one before it would not be known to be another one.
                process.times = process.times[: max(0, count - 1)]
                process.number = number if not count else process.number
        if 0 < step < steps - 1 and chance.random() < 0.2:
            scrapes.append(Scrape(step * 5.0, None, NoValue("Unreachable", "no answer")))
            continue
        for process in there.values():
            number, count = seen.get(process.key, (process.number, len(process.times)))
            told.extend(process.times[count if number == process.number else 0 :])
            seen[process.key] = process.number, len(process.times)
        text = "\n".join(line for process in there.values() for line in process.lines())
        scrapes.append(Scrape(step * 5.0, sheets.make(text)))
    return scrapes, told


@often
@given(st.integers(0, 2**32), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_what_is_said_of_a_window_is_what_the_requests_in_it_say(seed: int, quantile: float) -> None:
    scrapes, told = lives(seed)
    limits, seconds = Limits(window=60.0), scrapes[-1].at
    rate = load.value(METRICS["prompt_tokens_total"], "prefill", scrapes, pods=frozenset(), limits=limits)
    assert rate.value == pytest.approx(1000 * len(told) / seconds)
    name = f"{FAMILY}_p{int(quantile * 100)}"
    if not told:
        with pytest.raises(NoValue):
            load.value(METRICS[name], "prefill", scrapes, pods=frozenset(), limits=limits)
        return
    buckets = [(bound, sum(one <= bound for one in told)) for bound in (*BOUNDS, INF)]
    assert load.value(METRICS[name], "prefill", scrapes, pods=frozenset(), limits=limits).value == pytest.approx(
        reference(quantile, buckets)
    )
    mean = load.value(METRICS[f"{FAMILY}_mean"], "prefill", scrapes, pods=frozenset(), limits=limits)
    assert mean.value == pytest.approx(sum(told) / len(told))


# --- no number is lower than it was ---


@st.composite
def outages(draw: st.DrawFn) -> tuple[list[tuple[Scrape, frozenset[str]]], dict[float, int]]:
    """Scrapes that fail, are empty or lack instances, with the pods that live, and what was waiting in truth at the time of each."""
    counted = draw(st.booleans())  # whether the coordinator tells how many instances are routable
    there = set(range(1, draw(st.integers(1, 4)) + 1))
    sheets, found, truth = Sheets(), list[tuple[Scrape, frozenset[str]]](), dict[float, int]()
    for step in range(draw(st.integers(1, 14))):
        if step and len(there) > 1 and draw(st.integers(0, 5)) == 0:
            there.remove(draw(st.sampled_from(sorted(there))))
        if step and counted and draw(st.integers(0, 5)) == 0:
            there.add(draw(st.integers(1, 6)))
        pods = frozenset(f"10.0.0.{number}" for number in there)
        waiting = {number: draw(st.integers(1, 9)) for number in there}
        truth[step * 5.0] = sum(waiting.values())
        kind = draw(st.sampled_from(["whole", "whole", "partial", "empty", "failed"])) if step else "whole"
        if kind == "failed":
            found.append((Scrape(step * 5.0, None, NoValue("Unreachable", "no answer")), pods))
            continue
        shown = {"whole": there, "partial": draw(st.sets(st.sampled_from(sorted(there)))), "empty": set()}[kind]
        rows = (f"vllm:num_requests_waiting{{{LABELS.format(instance=number, rank=0)}}} {waiting[number]}" for number in shown)
        routable = {"prefill": len(there), "decode": 0} if counted else None
        found.append((Scrape(step * 5.0, sheets.make("\n".join(rows)), routable=routable), pods))
    return found, truth


@often
@given(outages(), st.floats(0, 40))
def test_a_number_is_the_whole_truth_of_a_time_that_is_not_too_long_ago(
    given_: tuple[list[tuple[Scrape, frozenset[str]]], dict[float, int]], later: float
) -> None:
    found, truth = given_
    history = History(Limits(stale_after=30.0, frozen_after=1000.0))
    for scrape, pods in found:
        history.add(scrape, pods)
    now = found[-1][0].at + later
    try:
        answer = history.value(METRICS["num_requests_waiting"], "prefill", now)
    except NoValue:
        answer = None
    if answer is not None:
        assert answer.value == truth[answer.at] and now - answer.at <= 30.0
    whole = [scrape.at for scrape, dummy in found if scrape.sheet and load_of(scrape) == truth[scrape.at] and now - scrape.at <= 30.0]
    assert (answer.at if answer else None) == (whole[-1] if whole else None), "the newest scrape that shows all is the one that counts"


def load_of(scrape: Scrape) -> float:
    """What a scrape shows, whole or not."""
    assert scrape.sheet
    return sum(number for found in scrape.sheet.numbers("prefill", "num_requests_waiting").values() for number in found)


# --- expositions ---

NAME = st.sampled_from(["a", "_", ":", "vllm:num_requests_waiting", "A9", "a:b:c", "le"])
LABEL = st.sampled_from(["a", "_", "role", "pod_ip", "le", "A9"])
VALUE = st.floats(allow_nan=False) | st.integers(-(10**6), 10**6).map(float)


@often
@given(st.lists(st.tuples(NAME, st.dictionaries(LABEL, st.text(max_size=8), max_size=4), VALUE), max_size=8))
def test_what_is_written_is_read_back(rows: list[tuple[str, dict[str, str], float]]) -> None:
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"') + '"'

    def line(name: str, labels: dict[str, str], value: float) -> str:
        return f"{name}{{{','.join(f'{key}={quoted(text)}' for key, text in labels.items())}}} {value!r}"

    lines = [line(*row) for row in rows]
    found = exposition.read("\n".join(lines))
    assert [(series.name, dict(series.labels), value) for series, value in found] == rows


@often
@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")), st.booleans())
def test_no_text_is_read_in_any_other_way_than_rows_or_the_error(text: str, wanted: bool) -> None:
    with contextlib.suppress(BadExposition):
        exposition.read(text, ["a"] if wanted else None)


@often
@given(st.text(alphabet='ab{}=",\\ \n\t01.#eN_:', max_size=60))
def test_a_text_means_the_same_to_one_who_has_read_others_before(text: str) -> None:
    reader = exposition.Reader()
    for before in ('a{b="1"} 1', text, 'a{b="1"} 1\na 0'):
        try:
            reader.read(before)
        except BadExposition:
            continue
    try:
        fresh = [(series.name, dict(series.labels), repr(value)) for series, value in exposition.read(text)]
    except BadExposition:
        with pytest.raises(BadExposition):
            reader.read(text)
    else:
        assert [(series.name, dict(series.labels), repr(value)) for series, value in reader.read(text)] == fresh
