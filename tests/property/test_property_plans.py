# Copyright (c) ascend.mindie contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""For random live states, baselines, wishes and foreign events: no plan asks for more than there is room for, none uses an index
that is occupied, success is recorded last, and from wherever a run was killed, running the task again reaches the wish.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings

from tests.property.cases import BACKENDS, Case, cases
from tests.property.runner import Story

EXAMPLES = int(os.environ.get("MINDIE_EXAMPLES", "1250"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_plan_keeps_its_promises_and_converges_from_every_prefix(backend: str) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(cases(backend))
    def holds(case: Case) -> None:
        Story(case).play()

    holds()
