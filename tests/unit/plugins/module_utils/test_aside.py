# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work that must not hold up a run."""

from __future__ import annotations

import threading

from ansible_collections.ascend.mindie.plugins.module_utils._cluster.aside import Aside


def test_work_is_done_in_order_and_waited_for_at_the_end() -> None:
    done: list[int] = []
    aside = Aside()
    for number in range(20):
        aside.put(lambda number=number: done.append(number))
    aside.close(10)
    assert done == list(range(20))


def test_nobody_waits_for_longer_than_asked_and_nothing_begins_afterwards() -> None:
    go_on, ended, done = threading.Event(), threading.Event(), []

    def slow() -> None:
        go_on.wait(10)
        ended.set()

    aside = Aside()
    aside.put(slow)
    aside.put(lambda: done.append("late"))
    aside.close(0.05)
    go_on.set()
    assert ended.wait(10)
    aside.close(10)
    assert done == []


def test_without_work_there_is_no_thread_to_wait_for() -> None:
    before = threading.active_count()
    Aside().close(10)
    assert threading.active_count() == before
