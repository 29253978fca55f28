# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results that are remembered: read once, and never too many of them."""

from __future__ import annotations

import gc
import threading
import weakref

from ansible_collections.ascend.mindie.plugins.module_utils._motor import remembered as module
from ansible_collections.ascend.mindie.plugins.module_utils._motor.remembered import remembered


class Made:
    """What is made of a text."""


def test_the_same_texts_are_read_once() -> None:
    read: list[tuple[str | None, ...]] = []

    @remembered
    def work(*texts: str | None) -> Made:
        read.append(texts)
        return Made()

    assert work("a", "b") is work("a", "b") and work("a", "c") is not work("a", "b")
    assert work(None, "b") is work(None, "b") is not work("", "b")
    assert read == [("a", "b"), ("a", "c"), (None, "b"), ("", "b")]


def test_thousands_of_small_results_are_kept_and_few_large_ones() -> None:
    """A large rule that is edited again and again must not take memory for each version of it."""
    made: list[weakref.ref[Made]] = []

    @remembered
    def work(text: str) -> Made:
        found = Made()
        made.append(weakref.ref(found))
        return found

    def kept() -> int:
        gc.collect()
        return sum(ref() is not None for ref in made)

    for number in range(1500):
        work(f"{number:1000}")
    assert kept() == 1500
    for number in range(10):
        work(f"{number:{module.MOST_CHARACTERS // 4}}")
    assert kept() <= 4
    work(" " * (2 * module.MOST_CHARACTERS))
    assert kept() == 1


def test_threads_may_ask_at_once() -> None:
    work = remembered(lambda text: text * 2)
    wrong: list[str] = []

    def ask() -> None:
        for number in range(2000):
            text = f"{number % 50:50000}"
            if work(text) != text * 2:
                wrong.append(text)

    threads = [threading.Thread(target=ask) for dummy in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
