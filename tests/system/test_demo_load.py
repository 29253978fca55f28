# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The chapter of the demo on autoscaling: requests come and go, decode follows, and a picture shows it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from tests.demo import load, load_picture
from tests.demo.load import Moment
from tests.support.browser import CHROMIUM, NEEDS, Browser


@pytest.fixture(scope="module")
def moments() -> list[Moment]:
    with load.start() as scene:
        return load.Chapter(Console(file=io.StringIO()), scene).play()


def place(moments: list[Moment], words: str) -> int:
    return next(index for index, now in enumerate(moments) if words in now.happened)


def test_decode_grows_with_the_load_and_shrinks_with_it_and_prefill_stays(moments: list[Moment]) -> None:
    come, peak, go, end = (
        place(moments, words) for words in ("clients come", f"{load.PEAK} decode instances serve", "of them go", "1 decode instance serves")
    )
    assert come < peak < go < end
    served = [now.ready for now in moments]
    assert served[: come + 1] == [1] * (come + 1) and served[come:peak] == sorted(served[come:peak]), "it grows while they are many"
    assert set(served[peak:go]) == {load.PEAK} and served[-1] == 1
    assert {now.prefill for now in moments} == {1}


def test_requests_are_answered_sooner_once_it_has_grown(moments: list[Moment]) -> None:
    peak, go = place(moments, f"{load.PEAK} decode instances serve"), place(moments, "of them go")
    slowest = max(now.latency or 0 for now in moments[:peak])
    assert (moments[go].latency or slowest) < slowest / 1.5
    assert max(now.running for now in moments) == 4 * load.PEAK


@pytest.mark.skipif(not CHROMIUM, reason=NEEDS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_picture_shows_every_line_within_its_frame_and_nothing_covers_words(moments: list[Moment], scheme: str, tmp_path: Path) -> None:
    page = load.draw(moments, tmp_path / "page.html")
    with Browser(tmp_path / "profile") as browser:
        browser.size(1000, 860)
        browser.media(scheme=scheme)
        browser.open(page.as_uri())
        frame = "document.querySelector('svg').getBoundingClientRect()"
        outside = (
            f"(() => {{ const f = {frame}; return [...document.querySelectorAll('svg *')].filter(e => {{ const r = e.getBoundingClientRect(); "
            "return r.left < f.left - 1 || r.right > f.right + 1 || r.bottom > f.bottom + 1; }).map(e => e.outerHTML); })()"
        )
        assert browser.run(outside) == []
        covered = (
            "(() => { const t = [...document.querySelectorAll('text')].map(e => [e.textContent, e.getBoundingClientRect()]); return t.flatMap("
            "([a, r], i) => t.slice(i + 1).filter(([b, s]) => r.left < s.right && s.left < r.right && r.top < s.bottom && s.top < r.bottom)"
            ".map(([b]) => a + ' / ' + b)); })()"
        )
        assert browser.run(covered) == []
        assert browser.run("[...document.querySelectorAll('path.line')].every(p => p.getTotalLength() > 100)") is True
        assert browser.run("document.querySelectorAll('path.line').length") == 6
        assert (
            browser.run("getComputedStyle(document.body).backgroundColor")
            == {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}[scheme]
        )
        assert browser.errors == []


@pytest.mark.skipif(not CHROMIUM, reason=NEEDS)
def test_on_a_phone_the_words_can_be_read_and_nothing_is_out_of_reach(moments: list[Moment], tmp_path: Path) -> None:
    page = load.draw(moments, tmp_path / "page.html")
    with Browser(tmp_path / "profile") as browser:
        browser.size(390, 860)
        browser.open(page.as_uri())
        heights = browser.run("[...document.querySelectorAll('text')].map(e => e.getBoundingClientRect().height)")
        assert min(heights) >= 10
        assert browser.run("document.scrollingElement.scrollWidth >= document.querySelector('svg').getBoundingClientRect().width") is True


def test_the_page_needs_nothing_else_and_says_what_happened(moments: list[Moment]) -> None:
    page = load_picture.page(moments)
    assert not any(word in page for word in ("src=", "href=", "url(", "<script")), "it is complete"
    assert all(now.happened in page for now in moments if now.happened)
    assert "decode went from 1 to 4 and back to 1" in page
    with pytest.raises(ValueError, match="nothing was seen"):
        load_picture.page([])
