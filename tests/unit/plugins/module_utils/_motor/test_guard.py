# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an unfinished change is, and what is said of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._motor import guard
from ansible_collections.ascend.mindie.plugins.module_utils._motor.errors import Refused
from ansible_collections.ascend.mindie.plugins.module_utils._motor.record import INTENT_ANNOTATION
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import Snapshot

from . import services

CONFIG = services.user_config()


def shot(*, data: str = "", **intent: Any) -> Snapshot:
    """A live service whose Lease carries this intent; `data` are scripts that the record does not know."""
    lease = {"metadata": {"annotations": {INTENT_ANNOTATION: json.dumps(intent)}}, "spec": {}} if intent else None
    found = services.snapshot(CONFIG, services.running(prefill=2, decode=1), lease=lease)
    assert found.config_map
    found.config_map["data"]["boot.sh"] += data
    return found


def test_nothing_is_unfinished_without_an_intent_and_with_a_record_that_fits() -> None:
    assert guard.unfinished_verb(shot()) is None and guard.open_intent(shot()) is None
    guard.require_finished(shot(), "scale")


def test_an_intent_counts_until_the_record_carries_its_run() -> None:
    assert guard.unfinished_verb(shot(verb="scale", run="run-2")) == "scale"
    assert guard.open_intent(shot(verb="scale", run="run-2")) == {"verb": "scale", "run": "run-2"}
    assert guard.unfinished_verb(shot(verb="scale", run="run-1")) is None
    assert guard.open_intent(shot(verb="scale", run="run-1")) is None


def test_what_has_no_verb_was_a_deployment() -> None:
    assert guard.unfinished_verb(shot(run="run-2")) == "deploy"
    assert guard.unfinished_verb(shot(data="exit 1\n")) == "deploy"


def test_the_same_verb_goes_on_and_others_hear_who_began_when() -> None:
    began = shot(verb="scale", run="run-2", started="2026-01-01T00:00:00Z", by="me@there")
    guard.require_finished(began, "scale")
    with pytest.raises(Refused) as refused:
        guard.require_finished(began, "update_config")
    assert refused.value.reason == "Unfinished"
    assert str(refused.value).startswith(
        f"Cannot update_config {services.NAMESPACE}: an earlier scale (started 2026-01-01T00:00:00Z by me@there) has not ended."
    )


def test_what_is_not_known_of_an_unfinished_change_is_left_out() -> None:
    with pytest.raises(Refused, match=r"an earlier scale \(started now by unknown\) has not ended"):
        guard.require_finished(shot(verb="scale", run="run-2", started="now"), "deploy")
    with pytest.raises(Refused, match="an earlier scale has not ended"):
        guard.require_finished(shot(verb="scale", run="run-2", by="me"), "deploy")
    with pytest.raises(Refused, match="an earlier deploy has not ended"):
        guard.require_finished(shot(data="exit 1\n"), "scale")
