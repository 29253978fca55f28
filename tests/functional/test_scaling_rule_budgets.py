# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many requests a scaling rule costs, those of the client library included."""

from __future__ import annotations

from tests.functional.rules import Rules, mapping
from tests.functional.test_modules import succeeded

UNCHANGED, CHANGED = 9, 12


def test_the_requests_of_a_change_and_of_none_are_few(rules: Rules) -> None:
    succeeded(rules.apply(mapping(2, 1)))
    assert succeeded(rules.apply(mapping(3, 1)))["changed"]
    assert len(rules.proxy.requests) <= CHANGED
    assert not succeeded(rules.apply(mapping(3, 1)))["changed"]
    assert len(rules.proxy.requests) <= UNCHANGED and rules.proxy.mutating() == []
    assert succeeded(rules.remove())["changed"]
    assert len(rules.proxy.requests) <= CHANGED
    assert not succeeded(rules.remove())["changed"]
    assert len(rules.proxy.requests) <= UNCHANGED and rules.proxy.mutating() == []
    succeeded(rules.info())
    assert len(rules.proxy.requests) <= UNCHANGED and rules.proxy.mutating() == []
