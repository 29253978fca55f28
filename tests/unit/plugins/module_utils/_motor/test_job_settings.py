# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How AscendJobs are named and grouped: options, what the live service says, and names that cannot be."""

from __future__ import annotations

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import job_settings
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError
from ansible_collections.ascend.mindie.plugins.module_utils._motor.job_settings import DEFAULTS, JobSettings


def config_map(text: str) -> dict[str, object]:
    return {"metadata": {"annotations": {job_settings.ANNOTATION: text}}}


def test_what_is_written_is_read_back() -> None:
    settings = JobSettings("rule", {"prefill": "a", "decode": "b"}, "chat")
    assert job_settings.read(config_map(settings.annotation())) == settings


@pytest.mark.parametrize("found", [None, {"metadata": {}}, config_map("{"), config_map("[]"), config_map('{"strange": 1}')])
def test_where_nothing_is_said_the_names_are_those_of_motors_own_script(found: dict[str, object] | None) -> None:
    assert job_settings.read(found) == DEFAULTS == JobSettings("scaling-rule", {"prefill": "group0", "decode": "group1"}, "mindie-server")


def test_options_left_out_are_as_they_are_live() -> None:
    live = JobSettings("rule", {"prefill": "a", "decode": "b"}, "chat")
    assert job_settings.given(None, {"decode": "c", "prefill": None}, None, live) == JobSettings(
        "rule", {"prefill": "a", "decode": "c"}, "chat"
    )


@pytest.mark.parametrize(
    ("rule", "groups", "prefix", "path"),
    [
        ("Rule", None, None, "scaling_rule"),
        ("r" * 64, None, None, "scaling_rule"),
        (None, {"prefill": "a b"}, None, "groups.prefill"),
        (None, {"prefill": "group1"}, None, "groups.decode"),
        (None, None, "-x", "name_prefix"),
        (None, None, "x" * 60, "name_prefix"),
        (None, None, "$(touch x)", "name_prefix"),
    ],
)
def test_what_cannot_be_a_name_is_refused_with_its_path(
    rule: str | None, groups: dict[str, str | None] | None, prefix: str | None, path: str
) -> None:
    with pytest.raises(InputError) as error:
        job_settings.given(rule, groups, prefix, DEFAULTS)
    assert error.value.path == path
