# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Label selectors mean what they mean to Kubernetes."""

from __future__ import annotations

import pytest
from metrics_adaptor import label_selector
from metrics_adaptor.label_selector import BadSelector

LABELS = {"a": "1", "x.y/role-name": "prefill", "empty": ""}


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("", True),
        ("  ", True),
        ("a=1", True),
        ("a==1", True),
        ("a = 1", True),
        ("a=2", False),
        ("a!=2", True),
        ("a!=1", False),
        ("b!=1", True),
        ("a in (1,2)", True),
        ("a in(1)", True),
        ("a in (2, 3)", False),
        ("b in (1)", False),
        ("b in ()", False),
        ("a notin (2,3)", True),
        ("a notin (1)", False),
        ("b notin (1)", True),
        ("a", True),
        ("b", False),
        ("!b", True),
        ("!a", False),
        ("empty=", True),
        ("empty=,a=1", True),
        ("empty in (,x)", True),
        ("a=", False),
        ("x.y/role-name=prefill,a=1", True),
        ("x.y/role-name in (prefill),a notin (2),!b", True),
        ("x.y/role-name=decode,a=1", False),
        ("in=1", False),
    ],
)
def test_a_selector_fits_the_labels_that_kubernetes_says_it_fits(text: str, fits: bool) -> None:
    assert label_selector.matches(label_selector.read(text), LABELS) is fits


@pytest.mark.parametrize(
    "text",
    [
        ",",
        "a=1,",
        "a=1,,b",
        "=1",
        "a=1=2",
        "a=1 b=2",
        "a in",
        "a in 1",
        "a in (1",
        "a in 1)",
        "!",
        "!!a",
        "a=(1)",
        "a b",
        "-a=1",
        "a=-1",
        "a=1/2",
        "UPPER/x=1",
        "a/b/c=1",
        "/a=1",
        f"{'a' * 64}=1",
        f"a={'b' * 64}",
        "a=\u00e9",
        "a;b",
        "a" * 4097,
    ],
)
def test_what_kubernetes_does_not_take_is_refused(text: str) -> None:
    with pytest.raises(BadSelector):
        label_selector.read(text)
