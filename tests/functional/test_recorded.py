# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every recorded state of Motor's own deployer against what this collection makes of the same inputs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from . import allowed, recorded

if not recorded.UPSTREAM.is_dir():
    pytest.skip("needs ../shared (recorded cases of the deployer)", allow_module_level=True)

NAMES = sorted(recorded.states())
SECOND = allowed.second_by_state()


def _outcome(state: str) -> recorded.Outcome:
    faults = SECOND[state].faults if state in SECOND else recorded.NO_FAULTS
    return recorded.ours(state.split("/")[0], faults)[state]


def _unexplained(state: str) -> list[recorded.Difference]:
    return allowed.explained(recorded.differences(recorded.states()[state], _outcome(state)))[0]


@pytest.mark.parametrize("state", [name for name in NAMES if name not in SECOND])
def test_state_is_equal_after_the_allowed_differences(state: str) -> None:
    outcome = _outcome(state)
    assert outcome.error is None
    assert [str(difference) for difference in _unexplained(state)] == []


@pytest.mark.parametrize("state", sorted(SECOND))
def test_state_of_the_second_table(state: str) -> None:
    row, outcome = SECOND[state], _outcome(state)
    if isinstance(row.ours, allowed.Refusal):
        assert outcome.error is not None
        assert outcome.error.reason == row.ours.reason
        paths = [getattr(outcome.error, "path", ""), *getattr(outcome.error, "paths", ())]
        assert row.ours.path in paths
        before = _before(state)
        assert outcome.objects == before
    else:
        assert outcome.error is None
        assert row.ours.unmet(_unexplained(state)) == []


def _before(state: str) -> object:
    """The objects of the step before."""
    case = state.split("/")[0]
    names = [step.name for step in recorded.cases()[case]]
    position = names.index(state)
    return recorded.ours(case, SECOND[state].faults)[names[position - 1]].objects if position else {}


@pytest.mark.parametrize(("state", "faults", "reached"), allowed.REPAIRED)
def test_refused_state_is_equal_when_put_right(state: str, faults: recorded.Faults, reached: allowed.Reached) -> None:
    outcome = recorded.ours(state, faults)[state]
    assert outcome.error is None
    left, _used = allowed.explained(recorded.differences(recorded.states()[state], outcome))
    assert reached.unmet(left) == []


def test_every_state_is_in_exactly_one_table_and_every_row_is_used(show: Callable[[str], None]) -> None:
    counts = [0] * (len(allowed.ALLOWED) + 1)
    needed: dict[int, int] = {}
    followed = [name for name in NAMES if name not in SECOND]
    for state in followed:
        left, used = allowed.explained(recorded.differences(recorded.states()[state], _outcome(state)))
        assert not left
        for row in used:
            needed[row] = needed.get(row, 0) + 1
        counts[max(used) + 1 if used else 0] += 1
    lines = [f"recorded states: {len(NAMES)}", f"equal: {counts[0]}"]
    lines += [
        f"equal after row {row + 1}: {sum(counts[: row + 2])} (row needed by {needed.get(row, 0)}: {allowed.ALLOWED[row].kind} {allowed.ALLOWED[row].path})"
        for row in range(len(allowed.ALLOWED))
    ]
    lines.append(f"states of the second table: {len(SECOND)}")
    show("\n".join(lines))
    assert len(followed) + len(SECOND) == len(NAMES)
    assert set(SECOND) <= set(NAMES)
    assert sorted(needed) == list(range(len(allowed.ALLOWED))), "a row of the table is not used"
