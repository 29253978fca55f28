# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who waits for a lock that somebody else holds: until when, and what is said then."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.ascend.mindie.plugins.module_utils._cluster.lock import Contender, LockHeld
from ansible_collections.ascend.mindie.plugins.module_utils._motor.record import INTENT_ANNOTATION

from .conftest import Clock


def lease(holder: str | None = "other/2", version: str = "1", **spec: Any) -> dict[str, Any]:
    intent = json.dumps({"verb": "deploy", "by": "other"})
    metadata = {"namespace": "ns", "resourceVersion": version, "annotations": {INTENT_ANNOTATION: intent}}
    return {
        "metadata": metadata,
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 9, "acquireTime": "2026-01-01T00:00:00Z", **spec},
    }


@pytest.mark.parametrize("found", [None, lease(None), lease(""), lease("me/1"), {"metadata": {"resourceVersion": "1"}}])
def test_a_lock_that_nobody_else_holds_is_free(clock: Clock, found: Any) -> None:
    assert Contender(0.0, "me/1").free(found) is True


def test_a_holder_that_is_silent_for_its_duration_by_our_clock_is_dead(clock: Clock) -> None:
    contender = Contender(60.0, "me/1")
    assert contender.free(lease()) is False
    clock.now += 9.0
    assert contender.free(lease()) is False
    clock.now += 0.5
    assert contender.free(lease()) is True


def test_a_holder_that_renews_is_alive(clock: Clock) -> None:
    contender = Contender(60.0, "me/1")
    for number in range(5):
        assert contender.free(lease(version=str(number))) is False
        clock.now += 8.0
    clock.now += 2.0
    assert contender.free(lease(version="4")) is True


def test_a_holder_that_says_no_duration_has_fifteen_seconds(clock: Clock) -> None:
    contender = Contender(60.0, "me/1")
    assert contender.free(lease(leaseDurationSeconds=None)) is False
    clock.now += 15.0
    assert contender.free(lease(leaseDurationSeconds=None)) is False
    clock.now += 0.5
    assert contender.free(lease(leaseDurationSeconds=None)) is True


def test_waiting_ends_with_who_holds_the_lock_since_when_and_for_what(clock: Clock) -> None:
    contender = Contender(5.0, "me/1")
    assert contender.free(lease()) is False
    clock.now += 5.0
    assert contender.free(lease(version="2")) is False
    clock.now += 0.5
    with pytest.raises(LockHeld) as error:
        contender.free(lease(version="3"))
    assert error.value.reason == "LockHeld" and error.value.details["holder"] == "other/2"
    assert str(error.value).startswith(
        "Cannot change ns: it is locked by other/2 for deploy since 2026-01-01T00:00:00Z (Lease ascend-mindie, waited 5 s)."
    )


def test_what_is_not_known_of_a_holder_is_said_to_be_unknown(clock: Clock) -> None:
    contender = Contender(0.0, "me/1")
    found = lease()
    found["metadata"].pop("annotations")
    found["spec"].pop("acquireTime")
    assert contender.free(found) is False
    clock.now += 1.0
    with pytest.raises(LockHeld, match="for an unknown change since an unknown time"):
        contender.free(found)


def test_a_dead_holder_is_no_reason_to_give_up(clock: Clock) -> None:
    contender = Contender(5.0, "me/1")
    assert contender.free(lease()) is False
    clock.now += 9.5
    assert contender.free(lease()) is True
