# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status page as text: it needs nothing else, its policy fits it, its words are there in each language."""

from __future__ import annotations

import json
import re
import string
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser

import pytest
from rescheduling_watcher import page
from rescheduling_watcher.page_script import SCRIPT
from rescheduling_watcher.page_words import WORDS
from rescheduling_watcher.settings import ACTS, LANGUAGES

from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError
from tests.support import watcher_report

VOID = {"meta", "link", "input", "br"}
# Words that the script makes up of what the report says.
MADE_UP = re.compile(
    r"(is|act|outcome|standing|step|p)_[a-z_]+|[a-z]+_names|lang|other|error|warning|note|bad|warn|busy|ok|seconds|minutes|hours|days"
)
ROLES = {"prefill", "decode", "union", "encode", "controller", "coordinator", "single_container"}


class Reader(HTMLParser):
    """Checks that elements are nested, and collects what there is."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, dummy in attrs}) == len(attrs), attrs
        self.found.append((tag, dict(attrs), ""))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self.found.append(("", {}, ""))  # what follows is no text of it

    def handle_data(self, data: str) -> None:
        if self.found:
            tag, attrs, text = self.found[-1]
            self.found[-1] = (tag, attrs, text + data)

    def of(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(attrs, text) for name, attrs, text in self.found if name == tag]


def test_the_page_needs_nothing_else() -> None:
    text = page.page()
    addresses = set(re.findall(r"""[a-z]+://[^\s"'`)%]+""", text))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, not an address
    reader = Reader(text)
    assert not [attrs for dummy, attrs, text in reader.found if "src" in attrs or "style" in attrs]
    assert [attrs["href"] for attrs, dummy in reader.of("link")] == [
        attrs["href"] for attrs, dummy in reader.of("link") if str(attrs["href"]).startswith("data:")
    ]
    assert not [name for dummy, attrs, text in reader.found for name in attrs if name.startswith("on")]
    assert "url(" not in re.sub(r"url\(#[a-z]+\)", "", text) and "@import" not in text


def test_the_policy_allows_the_script_and_the_style_of_the_page_and_no_other() -> None:
    reader = Reader(page.page(state=watcher_report.evil()))
    scripts = [text for attrs, text in reader.of("script") if "type" not in attrs]
    styles = [text for dummy, text in reader.of("style")]
    assert len(scripts) == len(styles) == 1
    for kind, text in (("script", scripts[0]), ("style", styles[0])):
        expected = b64encode(sha256(text.encode()).digest()).decode()
        assert re.findall(rf"{kind}-src ([^;]*)", page.POLICY) == [f"'sha256-{expected}'"]
    (written,) = [attrs["content"] for attrs, dummy in reader.of("meta") if attrs.get("http-equiv") == "Content-Security-Policy"]
    assert f"{written}; frame-ancestors 'none'" == page.POLICY
    assert "unsafe" not in page.POLICY and page.POLICY.startswith("default-src 'none';")


def test_the_script_makes_no_markup_of_texts() -> None:
    for way in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "DOMParser",
        "createContextualFragment",
        "eval(",
        "new Function",
        "srcdoc",
        "setHTML",
    ):
        assert way not in SCRIPT, way


def test_a_state_cannot_end_its_element() -> None:
    report = watcher_report.evil()
    reader = Reader(page.page(state=report))
    (data,) = [text for attrs, text in reader.of("script") if attrs.get("id") == "state"]
    assert json.loads(data) == report and "<" not in data
    assert len(reader.of("script")) == 3 and not reader.of("img")


def test_without_a_state_there_is_none() -> None:
    assert 'id="state"' not in page.page()


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_is_in_each_language_of_the_settings(language: str) -> None:
    reader = Reader(page.page(language=language))
    ((attrs, dummy),) = reader.of("html")
    assert attrs == {"lang": WORDS[language]["lang"], "data-language": language}
    assert reader.of("title")[0][1] == WORDS[language]["title"]


def test_another_language_is_refused() -> None:
    with pytest.raises(InputError, match="it has to be one of en, zh"):
        page.page(language="fr")


def test_all_languages_have_the_same_words_with_the_same_facts() -> None:
    english = WORDS["en"]
    assert set(WORDS) == set(LANGUAGES)
    for words in WORDS.values():
        assert {name for name in words if not name.endswith("_one")} == {name for name in english if not name.endswith("_one")}
        for name, text in words.items():
            facts = {field for dummy, field, *rest in string.Formatter().parse(text) if field}
            expected = {
                field for dummy, field, *rest in string.Formatter().parse(english.get(name, english[name.removesuffix("_one")])) if field
            }
            assert facts - {"n"} == expected - {"n"}, name
            assert text, name


def test_each_word_that_the_page_says_is_there_and_no_other() -> None:
    text = page.page()
    said = set(re.findall(r"""\b(?:say|count|told|title)\(\s*"([a-z_]+)\"""", SCRIPT)) | set(
        re.findall(r'data-(?:say|label)="([a-z_]+)"', text)
    )
    words = {name.removesuffix("_one") for name in WORDS["en"]}
    assert said <= words
    quoted = (
        set(re.findall(r'"([a-z_]+)"', SCRIPT))
        | set(re.findall(r"\bwords\.([a-z_]+)", SCRIPT))
        | set(re.findall(r"[{,]\s*([a-z_]+)(?=:)", SCRIPT))
    )
    unused = {name for name in words - said - quoted - ROLES if not MADE_UP.fullmatch(name)}
    assert unused == set()
    assert {f"act_{act}" for act in ACTS} <= words
