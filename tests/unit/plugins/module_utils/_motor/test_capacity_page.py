# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of a simulation: well-formed, escaped, needs nothing else, says what the data say."""

from __future__ import annotations

import re
import string
from html.parser import HTMLParser

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import capacity_picture
from ansible_collections.ascend.mindie.plugins.module_utils._motor.capacity import Instance, Server, Shape, Simulation, simulate
from ansible_collections.ascend.mindie.plugins.module_utils._motor.capacity_page import page
from ansible_collections.ascend.mindie.plugins.module_utils._motor.capacity_words import WORDS
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError
from ansible_collections.ascend.mindie.plugins.module_utils._motor.rule_reader import Size

VOID = {"meta", "br"}
EVIL = '<script>alert("1")</script>&\''


class Reader(HTMLParser):
    """Checks that elements are nested, and collects what there is."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        assert len({name for name, dummy in attrs}) == len(attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def rule(prefill: int, decode: int) -> list[dict[str, Size]]:
    return [{"prefill": Size(number, 1), "decode": Size(decode, 1)} for number in range(prefill, 0, -1)]


def small(failures: int = 2) -> Simulation:
    servers = [Server(f"node-{index}", 8) for index in range(4)]
    return simulate(servers, [Shape("prefill", 2, 1, 8), Shape("decode", 1, 2, 8)], rule(2, 1), failures)


def large() -> Simulation:
    servers = [
        Server(f"node-{index:03}", 16, f"sp{index // 48}", index not in (7, 120), 4 if index in (3, 50) else 0) for index in range(200)
    ]
    return simulate(servers, [Shape("prefill", 96, 1, 16, 16), Shape("decode", 25, 4, 16, 64)], rule(96, 25), 2)


def evil() -> Simulation:
    servers = [Server(f"{EVIL}{index}", 8, f"{EVIL}p") for index in range(3)]
    running = [Instance(f"{EVIL}a", f"{EVIL}i", (servers[0].name,), 8), Instance(f"{EVIL}b", f"{EVIL}j", (servers[1].name,), 8)]
    tiers = [{f"{EVIL}a": Size(2, 1), f"{EVIL}b": Size(1, 1)}]
    return simulate(servers, [Shape(f"{EVIL}a", 2, 1, 8), Shape(f"{EVIL}b", 1, 2, 8)], tiers, 2, running=running)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("make", [small, large, evil])
def test_the_page_is_well_formed_and_needs_nothing_else(make: object, language: str) -> None:
    text = page(make(), language=language)
    reader = Reader(text)
    assert text.startswith("<!DOCTYPE html>\n")
    assert not {"script", "link", "img", "iframe", "object", "use", "image", "a"} & set(reader.tags)
    assert not {name for name, dummy in reader.attributes} & {"src", "href", "xlink:href", "style", "srcset"}
    assert not any(name.startswith("on") for name, dummy in reader.attributes)
    assert not re.search(r"url\(|@import|https?://", text)


def test_names_are_text_and_never_markup() -> None:
    text = page(evil(), title=EVIL)
    assert "<script>" not in text
    assert EVIL in Reader(text).words


def test_the_same_simulation_gives_the_same_bytes() -> None:
    assert page(small()) == page(small())


def test_it_follows_the_scheme_of_the_reader_and_prints_light() -> None:
    text = page(small())
    assert "@media (prefers-color-scheme: dark)" in text
    assert "@media print { :root { \n--back: #ffffff" in text


def test_it_shows_worst_and_typical_and_what_grows_back() -> None:
    words = Reader(page(small(1))).words
    assert "1 server fails worst tier 1 1 prefill + 1 decode" in words
    assert "fails: node-0 lost: decode-0 given up: prefill-0" in words
    assert "1 x prefill: tier 0 lets it start, there is no room" in words


def test_servers_that_do_more_harm_than_others_are_marked() -> None:
    assert "Each server does the same harm when it fails alone." in Reader(page(small(1))).words
    assert 'class="server critical"' not in page(small(1))
    text = page(large())
    worst = large().critical
    assert 0 < len(worst) < 199
    assert text.count('class="server critical"') == len(worst)
    assert f"{len(worst)} servers do the most harm when they fail alone: {worst[0]}" in Reader(text).words


def test_a_service_that_is_down_is_marked() -> None:
    text = page(small(2))
    assert 'class="down"' in text
    assert "1 x prefill: held by tier 1, which waits for decode (0 of 1)" in Reader(text).words


def test_every_server_is_there_once_with_its_super_pod() -> None:
    text = page(large())
    assert text.count('<figure class="server') == 200
    words = Reader(text).words
    assert [f"Super pod sp{number} {count} servers" in words for number, count in enumerate((48, 48, 48, 48, 8))] == [True] * 5
    assert text.count('class="server unusable"') == 2
    assert "node-003; used by something else: 4 NPU; free: 12 NPU" in text


def test_the_cells_of_a_server_add_up_to_its_npus() -> None:
    text = page(large())
    servers = re.findall(r'<figure class="server.*?</figure>', text)
    assert servers
    for server in servers:
        width, height = map(int, re.search(r'viewBox="0 0 (\d+) (\d+)"', server).groups())
        sizes = re.findall(r'<rect x="\d+" y="\d+" width="(\d+)" height="(\d+)"', server)
        assert sum(int(w) * int(h) for w, h in sizes) == width * height


def test_tiers_where_no_case_ends_are_told_in_one_line() -> None:
    found = capacity_picture.steps(large())
    assert found[0] == capacity_picture.Step(0)
    assert found[-3:] == [capacity_picture.Step(found[-3].tier, 94), capacity_picture.Step(95), capacity_picture.Step(None)]
    assert f"tiers {found[-3].tier} to 94: where no case ends" in Reader(page(large())).words


def test_shares_of_a_level_add_up() -> None:
    simulation = large()
    for level in simulation.levels:
        ends = [None, *range(len(simulation.tiers))]
        assert sum(capacity_picture.share(level, tier) for tier in ends) == pytest.approx(1)


def test_both_languages_say_the_same_things() -> None:
    fields = {key: {name for dummy, name, *others in string.Formatter().parse(text) if name} for key, text in WORDS["en"].items()}
    assert fields == {key: {name for dummy, name, *others in string.Formatter().parse(text) if name} for key, text in WORDS["zh"].items()}
    words = Reader(page(small(1), language="zh")).words
    assert "1 台服务器故障" in words
    assert 'lang="zh-CN"' in page(small(1), language="zh")


def test_an_unknown_language_is_refused() -> None:
    with pytest.raises(InputError, match="language: it has to be one of en, zh"):
        page(small(1), language="fr")
