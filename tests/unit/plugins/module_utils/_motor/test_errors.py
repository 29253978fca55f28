# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors carry their place and data."""

from __future__ import annotations

from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import InputError, MotorError, Refused


def test_motor_error_keeps_reason_and_details() -> None:
    error = MotorError("no", reason="Because", status=403)
    assert (str(error), error.reason, error.details) == ("no", "Because", {"status": 403})


def test_input_error_says_where() -> None:
    error = InputError.at("is wrong", source="user_config (/u.json)", path="a.b", line=3, column=7)
    assert str(error) == "user_config (/u.json), line 3, column 7: a.b: is wrong"
    assert error.details == {"source": "user_config (/u.json)", "path": "a.b", "line": 3, "column": 7}
    assert error.reason == "InvalidInput"


def test_input_error_leaves_out_what_is_not_known() -> None:
    assert str(InputError.at("is wrong", source="env")) == "env: is wrong"
    assert InputError("as given", source="env").details == {"source": "env"}


def test_a_path_that_names_its_source_stands_alone() -> None:
    assert str(InputError.at("is wrong", source="instances", path="instances.prefill")) == "instances.prefill: is wrong"


def test_refused_names_paths() -> None:
    error = Refused("no", reason="RestartNeeded", paths=("a.b",))
    assert (error.paths, error.details) == (("a.b",), {"paths": ["a.b"]})
