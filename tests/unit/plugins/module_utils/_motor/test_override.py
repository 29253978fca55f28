# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Setting values in a document changes these values and nothing else."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ascend.mindie.plugins.module_utils._motor import json_reader, user_config

KEYS = st.sampled_from(["a", "b", "c.d", "é"])
OBJECTS = st.recursive(
    st.dictionaries(KEYS, st.integers() | st.text(max_size=3), max_size=3),
    lambda inner: st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | OBJECTS


@given(OBJECTS, st.lists(KEYS, min_size=1, max_size=3).map(tuple), VALUES, st.sampled_from([None, 2, "\t"]))
def test_the_value_is_set_and_all_others_keep_their_tokens(data: dict[str, Any], path: tuple[str, ...], value: Any, indent: Any) -> None:
    before = json_reader.read(json.dumps(data, indent=indent, ensure_ascii=False), source="x")
    wanted = target = copy.deepcopy(data)
    for key in path[:-1]:
        target = target.setdefault(key, {})
        if not isinstance(target, dict):
            return
    target[path[-1]] = value
    after = user_config.override(before, {path: value})
    assert after.data == wanted
    for other in before.spans:
        if other[: len(path)] != path and path[: len(other)] != other:
            assert after.raw(other) == before.raw(other)
    assert user_config.override(after, {path: value}).text == after.text
