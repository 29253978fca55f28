# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of engine instances."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ascend.mindie.plugins.module_utils._motor import instances


@pytest.mark.parametrize(
    ("engine_type", "name"), [("vllm", "vllm"), ("sglang", "sglang"), ("mindie-llm", "mindie-server"), ("", "mindie-server")]
)
def test_base_name(engine_type: str, name: str) -> None:
    assert instances.base_name(engine_type) == name


@given(st.sampled_from(["vllm", "sglang", "mindie-server"]), st.sampled_from(instances.ENGINE_ROLES), st.integers(0, 10**6))
def test_names_are_parsed_back(base_name: str, engine_role: str, index: int) -> None:
    name = instances.instance_name(base_name, engine_role, index)
    assert instances.parse_instance_name(name, base_name) == (engine_role, index)


@pytest.mark.parametrize(
    "name",
    ["vllm", "vllm-", "vllm-p", "vllm-p01", "vllm-x0", "vllm-p0-extra", "vllm-p-1", "vllm-p\uff11", "sglang-p0", "my-vllm-p0", "vllm-p0\n"],
)
def test_foreign_names_are_none_of_ours(name: str) -> None:
    assert instances.parse_instance_name(name, "vllm") is None
