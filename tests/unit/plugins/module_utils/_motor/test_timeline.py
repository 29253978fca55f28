# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The timeline of a run: one entry per change of state and per step, and not too many."""

from __future__ import annotations

from ansible_collections.ascend.mindie.plugins.module_utils._motor import timeline
from ansible_collections.ascend.mindie.plugins.module_utils._motor.state import service_state
from ansible_collections.ascend.mindie.plugins.module_utils._motor.timeline import Seen, Timeline

from . import services


def rows(found: Timeline) -> list[tuple[float, str, str, str]]:
    return [(row["at"], row["step"], row["name"], row["state"]) for row in found.to_list()]


def test_each_change_of_state_is_one_entry() -> None:
    made = Timeline()
    made.note(0.0, {"vllm-p0": Seen("running")})
    made.note(1.0, {"vllm-p0": Seen("running"), "vllm-p1": Seen("starting", "no pod yet")})
    made.note(2.0, {"vllm-p0": Seen("running"), "vllm-p1": Seen("starting", "0 of 1 pods ready")})
    made.note(3.04, {"vllm-p0": Seen("terminating", "1 pods left"), "vllm-p1": Seen("running")})
    made.note(4.0, {"vllm-p1": Seen("running")})
    expected = [(1.0, "vllm-p1", "starting"), (3.0, "vllm-p0", "terminating"), (3.0, "vllm-p1", "running"), (4.0, "vllm-p0", "gone")]
    assert [(at, name, state) for at, _step, name, state in rows(made)] == expected
    assert made.to_list()[0] == {"at": 1.0, "step": "", "name": "vllm-p1", "state": "starting", "reason": "no pod yet"}


def test_what_was_there_at_the_start_is_no_change() -> None:
    made = Timeline()
    assert made.note(0.0, {"vllm-p0": Seen("failed", "crash")}) == [] and made.to_list() == []


def test_changes_are_returned_once() -> None:
    made = Timeline()
    made.note(0.0, {})
    assert [change.name for change in made.note(1.0, {"vllm-p0": Seen("starting")})] == ["vllm-p0"]
    assert made.note(2.0, {"vllm-p0": Seen("starting")}) == []


def test_steps_start_and_end() -> None:
    made = Timeline()
    made.note(0.0, {})
    made.step(0.0, "remove surplus instances")
    made.step(1.0, "create prefill instances")
    made.step(1.5, "create prefill instances")
    made.note(2.0, {"vllm-p1": Seen("starting")})
    made.step(3.0, "")
    made.step(4.0, "")
    assert rows(made) == [
        (0.0, "remove surplus instances", "", "started"),
        (1.0, "remove surplus instances", "", "ended"),
        (1.0, "create prefill instances", "", "started"),
        (2.0, "create prefill instances", "vllm-p1", "starting"),
        (3.0, "create prefill instances", "", "ended"),
    ]


def test_a_long_story_is_cut_and_says_so() -> None:
    made = Timeline()
    made.note(0.0, {})
    for number in range(150):
        made.note(float(number), {"vllm-p0": Seen("starting")})
        made.note(number + 0.5, {"vllm-p0": Seen("failed", "x" * 1000)})
    found = made.to_list()
    assert len(found) == timeline.MOST_ENTRIES + 1 and len(found[1]["reason"]) == timeline.LONGEST_REASON
    assert (found[-1]["state"], found[-1]["at"]) == ("cut", 149.5) and "100 further changes" in found[-1]["reason"]


def test_states_of_instances_and_control_roles() -> None:
    config = services.user_config(prefill=1, decode=1)
    pods = (services.pod("mindie-motor-controller"), services.pod("vllm-p0"), services.pod("vllm-d0", ready=False))
    shot = services.snapshot(config, services.running(prefill=1, decode=1), pods=pods)
    assert timeline.states(service_state(shot)) == {
        "vllm-p0": Seen("running"),
        "vllm-d0": Seen("starting", "0 of 1 pods ready"),
        "controller": Seen("running"),
        "coordinator": Seen("starting", "no pod yet"),
    }
